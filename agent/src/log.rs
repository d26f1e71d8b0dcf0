//! What the agent says of itself on standard error: level and fields. Never a token, a key or a code.

use std::{io, sync::OnceLock};

use furrow_protocol::down::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use crate::config::Level;

static HANDLE: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
        }
    }
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    }
}

/// Begins to log; a second call changes nothing but the level.
pub fn start(level: Level) {
    let (layer, handle) = reload::Layer::new(filter(level));
    if HANDLE.set(handle).is_ok() {
        let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
        let _ = tracing_subscriber::registry()
            .with(layer)
            .with(lines)
            .try_init();
    } else {
        set_level(level);
    }
}

/// Another level from now on.
pub fn set_level(level: Level) {
    if let Some(handle) = HANDLE.get() {
        let _ = handle.reload(filter(level));
    }
}
