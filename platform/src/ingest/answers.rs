//! Answers to a group, gathered by session so that each gets one write. Never answers what is not committed: its caller has committed it.

use std::{collections::HashMap, sync::Arc};

use furrow_protocol::down::{Down, acks};

use super::arrival::{Arrival, Reply};

/// Answers of one commit.
#[derive(Default)]
pub(super) struct Answers<'a>(HashMap<usize, Answer<'a>>);

struct Answer<'a> {
    of: &'a Arrival,
    tickets: Vec<u64>,
    acked: HashMap<u64, Vec<u64>>,
    other: Vec<Down>,
}

impl<'a> Answers<'a> {
    fn of(&mut self, arrival: &'a Arrival) -> &mut Answer<'a> {
        // The arrivals hold their replies: while they live no other session is at this address.
        let session = Arc::as_ptr(&arrival.reply).cast::<()>() as usize;
        self.0.entry(session).or_insert_with(|| Answer {
            of: arrival,
            tickets: Vec::new(),
            acked: HashMap::new(),
            other: Vec::new(),
        })
    }

    /// This frame is committed.
    pub(super) fn ack(&mut self, arrival: &'a Arrival, epoch: u64, seq: u64) {
        let answer = self.of(arrival);
        answer.tickets.push(arrival.ticket);
        answer.acked.entry(epoch).or_default().push(seq);
    }

    /// This payload is kept and will be no track.
    pub(super) fn refuse(&mut self, arrival: &'a Arrival, down: Down) {
        let answer = self.of(arrival);
        answer.tickets.push(arrival.ticket);
        answer.other.push(down);
    }

    /// Tells each session its part.
    pub(super) fn send(self) {
        for answer in self.0.into_values() {
            let mut down: Vec<Down> = answer
                .acked
                .into_iter()
                .flat_map(|(epoch, seqs)| acks(epoch, seqs))
                .collect();
            down.extend(answer.other);
            Reply::settle(&*answer.of.reply, answer.of.device, &answer.tickets, down);
        }
    }
}
