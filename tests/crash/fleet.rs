//! The agents of the rig: real processes, each with its own spool and journal. Never restarts one that runs.

use std::path::Path;

use e2e::{
    agent::{Agent, Settings},
    journal::Frames,
    platform::Platform,
};

/// How much faster than the clock the machines work: a frame holds ten of their seconds, so each
/// agent makes 12 a second.
const SPEED: f64 = 120.0;

/// Agents under kills.
pub struct Fleet {
    agents: Vec<Agent>,
}

impl Fleet {
    /// Enrols so many.
    ///
    /// Errors: the platform or an agent.
    pub fn enrol(folder: &Path, platform: &Platform, count: usize) -> anyhow::Result<Self> {
        let server = format!("http://{}", platform.http);
        let agents = (0..count)
            .map(|number| {
                let code = platform.enrolment_code(&format!("crash {number}"), 3.0)?;
                let settings = Settings {
                    source: format!("kind = \"simulator\"\nseed = {number}\nspeed = {SPEED:.1}"),
                    ..Settings::default()
                };
                Agent::enrol(&folder.join(number.to_string()), &server, &code, &settings)
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { agents })
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Starts those that do not run; how many.
    ///
    /// Errors: the program.
    pub fn start(&mut self) -> anyhow::Result<usize> {
        let mut started = 0;
        for agent in &mut self.agents {
            if !agent.runs() {
                agent.run()?;
                started += 1;
            }
        }
        Ok(started)
    }

    /// Kills `some` agents, from the `first` on.
    pub fn kill(&mut self, first: usize, some: usize) {
        let count = self.agents.len();
        for number in first..first + some {
            if let Some(agent) = self.agents.get_mut(number % count) {
                agent.kill();
            }
        }
    }

    /// What all have made durable so far.
    ///
    /// Errors: a journal.
    pub fn journals(&self) -> anyhow::Result<Frames> {
        let mut frames = Frames::new();
        for agent in &self.agents {
            agent.journal(&mut frames)?;
        }
        Ok(frames)
    }
}
