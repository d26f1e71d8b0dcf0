//! `furrow serve`, `migrate` and `check`.

use std::io::Write;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    clock::SystemClock,
    config::Settings,
    db::{self, Pool, Schema},
    jobs,
    platform::{self, Platform},
    telemetry,
};

/// Serves until it is told to stop (TERM or interrupt).
///
/// Errors: a setting, the database, a listener, or a part that ended by itself.
pub async fn serve(settings: &Settings) -> anyhow::Result<()> {
    telemetry::log(&settings.log)?;
    let metrics = telemetry::metrics()?;
    let platform = Platform::start(settings, Some(metrics)).await?;
    tracing::info!(
        http = %platform.http_addr,
        https = ?platform.https_addr,
        mqtt = ?platform.mqtt_addr,
        mqtts = ?platform.mqtts_addr,
        "serve.ready"
    );
    platform.run_until(told_to_stop()).await?;
    tracing::info!("serve.stopped");
    Ok(())
}

/// Ends at TERM or interrupt.
pub async fn told_to_stop() {
    let (Ok(mut term), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Brings the schema up to date.
///
/// Errors: the database or a migration.
pub async fn migrate(settings: &Settings, mut out: impl Write) -> anyhow::Result<()> {
    let pool = db::pool(&settings.database).context("database.url")?;
    bring_up_to_date(&pool, &mut out)
        .await
        .context("database.url")?;
    if settings.database.telemetry_url.is_some() {
        let tracks = db::telemetry_pool(&settings.database, &pool)?;
        bring_up_to_date(&tracks, &mut out)
            .await
            .context("database.telemetry_url")?;
    }
    Ok(())
}

async fn bring_up_to_date(pool: &Pool, out: &mut impl Write) -> anyhow::Result<()> {
    let before = db::schema(pool).await?;
    db::migrate(pool).await.context("migrations")?;
    let applied = match before {
        Schema::Behind(n) => n,
        Schema::Current | Schema::Ahead(_) | Schema::Differs(_) => 0,
    };
    writeln!(out, "{applied} migrations applied")?;
    Ok(())
}

/// Looks whether `serve` could run: settings, database, schema, clocks.
///
/// Errors: the first thing that is wrong.
pub async fn check(settings: &Settings, mut out: impl Write) -> anyhow::Result<()> {
    writeln!(out, "settings    ok")?;
    let pool = db::pool(&settings.database).context("database.url")?;
    let schema = db::schema(&pool).await.context("database.url")?;
    writeln!(out, "database    ok")?;
    platform::usable(schema)?;
    let tracks = db::telemetry_pool(&settings.database, &pool).context("database.telemetry_url")?;
    let schema = db::schema(&tracks)
        .await
        .context("database.telemetry_url")?;
    platform::usable(schema).context("database.telemetry_url")?;
    writeln!(out, "schema      ok")?;
    let skew = jobs::skew_ms(&pool, &SystemClock).await?;
    platform::clocks_agree(skew)?;
    writeln!(out, "clocks      ok ({skew} ms apart)")?;
    platform::prove_outside(settings).await?;
    if settings.mqtt.url.is_some() {
        writeln!(
            out,
            "broker      ok (no device may write what only the platform may)"
        )?;
    }
    Ok(())
}
