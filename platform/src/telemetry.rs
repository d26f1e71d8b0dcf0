//! Logs and metrics of the process itself. Never logs tokens, phones, bodies or positions beside names.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use thiserror::Error;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::config::{Log, LogFormat};

/// Why logging or metrics cannot begin.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter is none.
    #[error("log.level")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// There is a logger already.
    #[error("logging begins twice")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
    /// There is a recorder already.
    #[error("metrics begin twice")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// Begins logging to standard error.
///
/// Errors: a bad filter, or a second beginning.
pub fn log(settings: &Log) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder().parse(&settings.level)?;
    let registry = tracing_subscriber::registry().with(filter);
    match settings.format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(std::io::stderr))
            .try_init()?,
        LogFormat::Json => {
            registry
                .with(
                    fmt::layer()
                        .json()
                        .flatten_event(true)
                        .with_writer(std::io::stderr),
                )
                .try_init()?;
        }
    }
    Ok(())
}

/// Begins counting; the handle renders what Prometheus asks for.
///
/// Errors: a second beginning.
pub fn metrics() -> Result<PrometheusHandle, TelemetryError> {
    let buckets = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
    Ok(PrometheusBuilder::new()
        .set_buckets(&buckets)?
        .install_recorder()?)
}
