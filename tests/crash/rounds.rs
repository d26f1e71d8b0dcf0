//! The kills: in turn first, at random then, always SIGKILL. Starts again whatever ended, as a supervisor does.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use e2e::{platform::Platform, postgres::Postgres, wait};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::fleet::Fleet;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// Some agents at once: their tractors' engines start.
    Agents,
    /// The gate, ingest and all else of the platform's process.
    Platform,
    /// The database and every process of it.
    Postgres,
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agents => "agents",
            Self::Platform => "platform",
            Self::Postgres => "PostgreSQL",
        })
    }
}

const IN_TURN: [Victim; 3] = [Victim::Agents, Victim::Platform, Victim::Postgres];

/// What is killed and started again.
pub struct Rounds {
    pub platform: Platform,
    pub postgres: Postgres,
    pub fleet: Fleet,
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Kills {
    /// Rounds by victim.
    pub rounds: BTreeMap<Victim, u32>,
    /// Agents killed, over all rounds.
    pub agents: usize,
    /// Times that a program had ended by itself.
    pub ended_by_themselves: u32,
}

impl Rounds {
    /// Kills `rounds` times, spread over `time`.
    ///
    /// Errors: something does not come up again.
    pub fn run(&mut self, rounds: u32, time: Duration) -> anyhow::Result<Kills> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut kills = Kills::default();
        let begin = Instant::now();
        for round in 0..rounds {
            // A round begins when its share of the time has come, give or take half a share: kills
            // fall into start-ups, catching up and quiet work alike.
            let share = time / rounds.max(1);
            let due = share * round + share.mul_f64(random.random_range(0.0..1.0));
            wait::pass(due.saturating_sub(begin.elapsed()));
            kills.ended_by_themselves += self.supervise()?;
            let victim = if round < rounds / 2 {
                IN_TURN.get(usize::try_from(round)? % IN_TURN.len())
            } else {
                IN_TURN.get(random.random_range(0..IN_TURN.len()))
            };
            let victim = *victim.unwrap_or(&Victim::Platform);
            self.kill(victim, &mut random, &mut kills)?;
            *kills.rounds.entry(victim).or_default() += 1;
            println!(
                "  {:>3} s  round {:>2}: killed {victim}",
                begin.elapsed().as_secs(),
                round + 1
            );
        }
        wait::pass(time.saturating_sub(begin.elapsed()));
        kills.ended_by_themselves += self.supervise()?;
        Ok(kills)
    }

    fn kill(
        &mut self,
        victim: Victim,
        random: &mut StdRng,
        kills: &mut Kills,
    ) -> anyhow::Result<()> {
        // Down for a moment, sometimes for none.
        let down = Duration::from_millis(random.random_range(0..1500));
        match victim {
            Victim::Agents => {
                let some = random.random_range(1..=self.fleet.len());
                let first = random.random_range(0..self.fleet.len());
                kills.agents += some;
                self.fleet.kill(first, some);
                wait::pass(down);
                self.fleet.start()?;
            }
            Victim::Platform => {
                self.platform.kill();
                wait::pass(down);
                // Not waited for: the next kill may come while it starts.
                self.platform.serve_unready()?;
            }
            Victim::Postgres => {
                self.postgres.kill();
                wait::pass(down);
                self.postgres.restart()?;
            }
        }
        Ok(())
    }

    /// Starts again whatever has ended; how many had.
    ///
    /// Errors: a program cannot be started.
    pub fn supervise(&mut self) -> anyhow::Result<u32> {
        let mut ended = u32::try_from(self.fleet.start()?)?;
        if self.platform.ended().is_some() {
            self.platform.serve_unready()?;
            ended += 1;
        }
        Ok(ended)
    }
}
