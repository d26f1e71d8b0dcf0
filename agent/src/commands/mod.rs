//! The commands of `furrow-agent`, one a file; the only place that prints.

pub mod fixes;
