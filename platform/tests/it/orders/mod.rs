//! Orders through the human door: their life, their races, their clocks.

mod exclusive;
mod life;
mod races;
