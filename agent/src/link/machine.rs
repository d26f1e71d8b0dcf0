//! The link as a state machine: Offline, CatchingUp, Live; what is in flight and what an answer means for it. Pure: no socket, no clock, no chance.

use std::collections::VecDeque;

use furrow_protocol::frame::{Digest, payload_digest};

use crate::spool::Stored;

/// Without an ack for so long, while some are owed, the connection counts as dead, ms.
pub const STALL_MS: u64 = 30_000;
/// A single frame without its answer for so long, while others get theirs, is sent again over a new
/// connection, ms: its ack was lost on the way.
pub const FORGOTTEN_MS: u64 = 300_000;
/// State messages go at connect and so often, ms.
pub const STATE_MS: u64 = 60_000;
/// First pause after a failure, ms; doubled with each one.
const FIRST_PAUSE_MS: u64 = 1_000;

/// Where the link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No session.
    Offline,
    /// A session, and more stored than the window holds.
    CatchingUp,
    /// A session, and all that is stored is sent.
    Live,
}

/// A frame that was sent over this connection and not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flying {
    epoch: u64,
    seq: u64,
    digest: Digest,
    sent_ms: u64,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    flying: VecDeque<Flying>,
    window: usize,
    cap_ms: u64,
    failures: u32,
    progress_ms: u64,
    state_due_ms: u64,
}

impl Machine {
    /// Offline. `window` is the most frames in flight, `cap_ms` the longest pause.
    #[must_use]
    pub fn new(window: u16, cap_ms: u64) -> Self {
        Self {
            state: State::Offline,
            flying: VecDeque::new(),
            window: usize::from(window.max(1)),
            cap_ms: cap_ms.max(FIRST_PAUSE_MS),
            failures: 0,
            progress_ms: 0,
            state_due_ms: 0,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Frames in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Another window, from afar. What is in flight stays there.
    pub fn set_window(&mut self, window: u16) {
        self.window = usize::from(window.max(1));
    }

    /// The session stands and the subscription with it: everything is sent from the first
    /// unanswered frame on, and a state message is due.
    pub fn connected(&mut self, now_ms: u64) {
        self.state = State::CatchingUp;
        self.flying.clear();
        self.progress_ms = now_ms;
        self.state_due_ms = now_ms;
    }

    /// The session is gone, or none came. The pause before the next attempt, ms: doubled with each
    /// failure in a row up to the cap, of which `dice` (any number) picks 50 to 100 %.
    pub fn lost(&mut self, dice: u64) -> u64 {
        self.state = State::Offline;
        self.flying.clear();
        let doubled = FIRST_PAUSE_MS << self.failures.min(12);
        self.failures = self.failures.saturating_add(1);
        let pause = doubled.min(self.cap_ms);
        pause / 2 + dice % (pause / 2 + 1)
    }

    /// How many more frames may be sent.
    #[must_use]
    pub fn room(&self) -> usize {
        match self.state {
            State::Offline => 0,
            State::CatchingUp | State::Live => self.window.saturating_sub(self.flying.len()),
        }
    }

    /// Whether this frame flies already: a record that was written twice is sent once.
    #[must_use]
    pub fn flies(&self, epoch: u64, seq: u64) -> bool {
        self.flying.iter().any(|f| (f.epoch, f.seq) == (epoch, seq))
    }

    /// A frame was sent.
    pub fn sent(&mut self, stored: &Stored, now_ms: u64) {
        if self.flying.is_empty() {
            self.progress_ms = now_ms;
        }
        self.flying.push_back(Flying {
            epoch: stored.epoch,
            seq: stored.seq,
            digest: payload_digest(&stored.frame),
            sent_ms: now_ms,
        });
        if self.room() == 0 && self.state == State::Live {
            self.state = State::CatchingUp;
        }
    }

    /// All that is stored is sent.
    pub fn drained(&mut self) {
        if self.state == State::CatchingUp {
            self.state = State::Live;
        }
    }

    /// An ack: the frames of it that were sent since the connect. Others are none of this
    /// connection's and count for nothing.
    pub fn acked(&mut self, epoch: u64, ranges: &[(u64, u64)], now_ms: u64) -> Vec<(u64, u64)> {
        let mut settled = Vec::new();
        self.flying.retain(|flying| {
            let hit = flying.epoch == epoch
                && ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&flying.seq));
            if hit {
                settled.push((flying.epoch, flying.seq));
            }
            !hit
        });
        if !settled.is_empty() {
            self.progressed(now_ms);
        }
        settled
    }

    /// A refusal: the frame that it names, if it is in flight.
    pub fn refused(&mut self, digest: Digest, now_ms: u64) -> Option<(u64, u64)> {
        let at = self.flying.iter().position(|f| f.digest == digest)?;
        let refused = self.flying.remove(at)?;
        self.progressed(now_ms);
        Some((refused.epoch, refused.seq))
    }

    fn progressed(&mut self, now_ms: u64) {
        self.progress_ms = now_ms;
        // Only an answer shows that the platform is well: who is accepted and thrown out again goes
        // on doubling its pauses.
        self.failures = 0;
    }

    /// Whether the connection must be given up: frames are owed an answer and none comes.
    #[must_use]
    pub fn stalled(&self, now_ms: u64) -> bool {
        let forgotten = |f: &Flying| now_ms.saturating_sub(f.sent_ms) >= FORGOTTEN_MS;
        self.state != State::Offline
            && !self.flying.is_empty()
            && (now_ms.saturating_sub(self.progress_ms) >= STALL_MS
                || self.flying.front().is_some_and(forgotten))
    }

    /// Whether a state message is due; it counts as sent then.
    pub fn state_is_due(&mut self, now_ms: u64) -> bool {
        let due = self.state != State::Offline && now_ms >= self.state_due_ms;
        if due {
            self.state_due_ms = now_ms.saturating_add(STATE_MS);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64) -> Stored {
        Stored {
            epoch: 5,
            seq,
            frame: seq.to_be_bytes().to_vec(),
        }
    }

    fn flying(window: u16, seqs: std::ops::RangeInclusive<u64>) -> Machine {
        let mut machine = Machine::new(window, 60_000);
        machine.connected(1_000);
        for seq in seqs {
            machine.sent(&frame(seq), 1_000);
        }
        machine
    }

    #[test]
    fn offline_becomes_catching_up_at_connect_and_live_when_all_is_sent() {
        let mut machine = Machine::new(32, 60_000);
        assert_eq!((machine.state(), machine.room()), (State::Offline, 0));
        machine.drained();
        assert_eq!(machine.state(), State::Offline);
        machine.connected(0);
        assert_eq!((machine.state(), machine.room()), (State::CatchingUp, 32));
        machine.drained();
        assert_eq!(machine.state(), State::Live);
    }

    #[test]
    fn live_becomes_catching_up_when_the_window_is_full() {
        let mut machine = flying(2, 1..=1);
        machine.drained();
        machine.sent(&frame(2), 1_000);
        assert_eq!((machine.state(), machine.room()), (State::CatchingUp, 0));
    }

    #[test]
    fn any_state_becomes_offline_with_the_session_and_forgets_what_flew() {
        for drained in [false, true] {
            let mut machine = flying(32, 1..=3);
            if drained {
                machine.drained();
            }
            machine.lost(0);
            assert_eq!((machine.state(), machine.in_flight()), (State::Offline, 0));
            machine.connected(2_000);
            assert!(
                machine.acked(5, &[(1, 3)], 2_000).is_empty(),
                "sent before the connect"
            );
        }
    }

    #[test]
    fn pauses_double_up_to_the_cap_with_chance_and_start_anew_after_an_answer() {
        let mut machine = Machine::new(32, 60_000);
        let longest: Vec<u64> = (0..9)
            .map(|_| machine.clone().lost(u64::MAX - 1).max(machine.lost(0)))
            .collect();
        assert!(
            longest.iter().all(|pause| (500..=60_000).contains(pause)),
            "{longest:?}"
        );
        let least: Vec<u64> = {
            let mut machine = Machine::new(32, 60_000);
            (0..9).map(|_| machine.lost(0)).collect()
        };
        assert_eq!(
            least,
            [
                500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000
            ]
        );
        machine.connected(0);
        assert_eq!(machine.lost(0), 30_000, "a connect alone proves nothing");
        machine.connected(0);
        machine.sent(&frame(1), 0);
        machine.acked(5, &[(1, 1)], 1);
        assert_eq!(machine.lost(0), 500);
        let mut capped = Machine::new(32, 2_000);
        let pauses: Vec<u64> = (0..4).map(|_| capped.lost(1_000)).collect();
        assert!(pauses.iter().all(|pause| *pause <= 2_000), "{pauses:?}");
    }

    #[test]
    fn an_ack_settles_exactly_what_it_names_and_flies() {
        let mut machine = flying(32, 1..=10);
        assert!(
            machine.acked(6, &[(1, 10)], 2_000).is_empty(),
            "another epoch"
        );
        let settled = machine.acked(5, &[(2, 3), (5, 5), (9, u64::MAX)], 2_000);
        assert_eq!(settled, [(5, 2), (5, 3), (5, 5), (5, 9), (5, 10)]);
        assert_eq!(machine.in_flight(), 5);
        assert!(machine.acked(5, &[(2, 3)], 2_000).is_empty(), "once");
    }

    #[test]
    fn a_refusal_takes_its_frame_out_of_the_window_and_the_rest_goes_on() {
        let mut machine = flying(3, 1..=3);
        assert_eq!(machine.room(), 0);
        assert_eq!(machine.refused(Digest([0; 16]), 2_000), None);
        let digest = payload_digest(&frame(2).frame);
        assert_eq!(machine.refused(digest, 2_000), Some((5, 2)));
        assert_eq!(machine.room(), 1);
    }

    #[test]
    fn thirty_seconds_without_an_answer_are_a_stall_only_while_one_is_owed() {
        let mut machine = flying(32, 1..=2);
        assert!(!machine.stalled(1_000 + STALL_MS - 1));
        assert!(machine.stalled(1_000 + STALL_MS));
        machine.acked(5, &[(1, 1)], 20_000);
        assert!(!machine.stalled(1_000 + STALL_MS));
        assert!(machine.stalled(20_000 + STALL_MS));
        machine.acked(5, &[(2, 2)], 40_000);
        assert!(!machine.stalled(9_000_000));
        // Waiting for something to send is no stall: the clock starts with the frame.
        machine.sent(&frame(3), 9_000_000);
        assert!(!machine.stalled(9_000_001));
        machine.lost(0);
        assert!(!machine.stalled(99_000_000));
    }

    #[test]
    fn a_frame_whose_ack_was_lost_is_not_left_behind_for_ever() {
        let mut machine = flying(32, 1..=1);
        for step in 1..=10_u64 {
            let now_ms = 1_000 + step * 29_000;
            machine.sent(&frame(1 + step), now_ms);
            machine.acked(5, &[(1 + step, 1 + step)], now_ms);
            assert!(!machine.stalled(now_ms));
        }
        assert!(machine.stalled(1_000 + FORGOTTEN_MS));
    }

    #[test]
    fn a_state_message_is_due_at_connect_and_every_minute() {
        let mut machine = Machine::new(32, 60_000);
        assert!(!machine.state_is_due(5), "not while offline");
        machine.connected(10);
        assert!(machine.state_is_due(10));
        assert!(!machine.state_is_due(59_000));
        assert!(machine.state_is_due(60_010));
    }

    #[test]
    fn a_smaller_window_takes_effect_as_frames_come_home() {
        let mut machine = flying(32, 1..=10);
        machine.set_window(4);
        assert_eq!(machine.room(), 0);
        machine.acked(5, &[(1, 8)], 2_000);
        assert_eq!(machine.room(), 2);
    }
}
