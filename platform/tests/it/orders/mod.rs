//! Orders through the human door: their life, their races, their clocks.

mod agreement;
mod exclusive;
mod life;
mod races;
mod reminders;
