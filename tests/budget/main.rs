//! `make budget`: what the agent costs a device: size, memory, CPU, time to the first fix, bytes on the wire. Real program, real platform, a receiver at 1 Hz. Never estimates.

#![expect(clippy::print_stdout, reason = "a rig prints its figures")]

use std::{
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Parser;
use e2e::{
    agent::{Agent, Settings},
    binaries,
    platform::{Options, Platform},
    postgres::Postgres,
    proc,
    proxy::Proxy,
    receiver::{Manner, Receiver},
    wait,
};

/// Measures the agent's budget; fails where a figure is outside its bar.
#[derive(Debug, Parser)]
struct Args {
    /// How long the agent is watched with a link and then without one, s each.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
}

/// The bars.
const BINARY_BYTES: f64 = 4e6;
const RESIDENT_KIB: f64 = 10.0 * 1024.0;
const CPU_SHARE: f64 = 0.01;
const FIRST_FIX_S: f64 = 2.0;
/// 2.2 MB in both directions are 3,600 frames of about 611 bytes; a frame with its acks below TLS.
const WIRE_BYTES: f64 = 540.0;
/// Frames of an hour without a link: more than a window, so that all of it is sent at once.
const BACKLOG_SPEED: &str = "600";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("budget: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Figures so far.
struct Sheet(bool);

impl Sheet {
    fn note(&mut self, what: &str, figure: f64, bar: f64, unit: &str) {
        let verdict = if figure <= bar { "ok" } else { "OUTSIDE" };
        self.0 &= figure <= bar;
        println!("{what:<46} {figure:>12.3} {unit:<8} bar {bar:>12.3}  {verdict}");
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of programs and counts of bytes"
)]
fn run(args: &Args) -> anyhow::Result<bool> {
    let folder = tempfile::Builder::new()
        .prefix("furrow-budget-")
        .tempdir()?;
    let mut sheet = Sheet(true);
    let binary = fs::metadata(binaries::agent()?)?.len() as f64;
    sheet.note("program", binary / 1e6, BINARY_BYTES / 1e6, "MB");

    let postgres = Postgres::start(&folder.path().join("postgres"))?;
    let ports = Platform::start(
        &folder.path().join("platform"),
        &postgres.url("furrow"),
        &Options::default(),
    )?;
    let wire = Proxy::start(ports.mqtt)?;
    let receiver = Receiver::start(Manner::default())?;
    let settings = Settings {
        source: format!("kind = \"tcp\"\naddress = \"{}\"", receiver.address()),
        link: format!("backoff_cap_s = 2\nurl = \"mqtt://{}\"", wire.address()),
        ..Settings::default()
    };
    let server = format!("http://{}", ports.http);
    let code = ports.enrolment_code("budget", 3.0)?;
    let mut agent = Agent::enrol(&folder.path().join("agent"), &server, &code, &settings)?;

    let begin = Instant::now();
    agent.run()?;
    wait::until("the first fix is taken", Duration::from_secs(30), || {
        let status = agent.status().ok()?;
        status["last_fix_ms"].is_i64().then_some(())
    })?;
    sheet.note(
        "start to first fix, a receiver at 1 Hz",
        begin.elapsed().as_secs_f64(),
        FIRST_FIX_S,
        "s",
    );

    delivering(&agent, &wire, args.seconds, &mut sheet)?;
    agent.terminate(Duration::from_secs(20))?;

    full_window(&mut agent, &wire, args.seconds, &mut sheet)?;
    Ok(sheet.0)
}

/// What an agent costs that delivers as it records.
#[expect(clippy::cast_precision_loss, reason = "counts of bytes")]
fn delivering(agent: &Agent, wire: &Proxy, seconds: u64, sheet: &mut Sheet) -> anyhow::Result<()> {
    let pid = agent.pid().context("the agent runs")?;
    let (cpu, passed, frames) = (proc::cpu_seconds(pid), wire.passed(), agent.recorded());
    wait::pass(Duration::from_secs(seconds));
    let share = (proc::cpu_seconds(pid) - cpu) / seconds as f64;
    sheet.note("CPU of one core at 1 Hz, delivering", share, CPU_SHARE, "");
    let sent = (agent.recorded() - frames).max(1) as f64;
    sheet.note(
        "MQTT bytes a frame with its acks, both ways",
        (wire.passed() - passed) as f64 / sent,
        WIRE_BYTES,
        "bytes",
    );
    sheet.note(
        "resident, delivering",
        proc::resident_kib(pid) as f64,
        RESIDENT_KIB,
        "KiB",
    );
    Ok(())
}

/// Memory while as many frames as the window holds wait for acks that do not come.
#[expect(clippy::cast_precision_loss, reason = "KiB of a process")]
fn full_window(
    agent: &mut Agent,
    wire: &Proxy,
    seconds: u64,
    sheet: &mut Sheet,
) -> anyhow::Result<()> {
    wire.stall_answers(true);
    // An hour's frames at once: they wait in the spool, and a window of them on the wire.
    agent.start(
        "simulate",
        &[
            "--speed",
            BACKLOG_SPEED,
            "--drain-timeout",
            &seconds.to_string(),
        ],
    )?;
    let pid = agent.pid().context("the agent runs")?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut most = 0;
    while agent.runs() && Instant::now() < deadline {
        most = most.max(proc::resident_kib(pid));
        wait::pass(Duration::from_millis(200));
    }
    wire.stall_answers(false);
    agent.kill();
    sheet.note(
        "resident, a full window and no acks, peak",
        most as f64,
        RESIDENT_KIB,
        "KiB",
    );
    Ok(())
}
