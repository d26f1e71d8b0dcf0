//! Orders through the human door: their life, their races, their clocks.

mod agreement;
mod bills;
mod exclusive;
mod life;
mod races;
mod reminders;
