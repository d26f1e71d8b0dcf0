//! The end of a run: waits until all has arrived, compares the sets, prints the figures.

use std::time::{Duration, Instant};

use comfy_table::Table;
use e2e::{
    database::Database,
    journal::{Difference, Frames},
    wait,
};

use crate::{
    Args,
    rounds::{Kills, Rounds, Victim},
};

/// Waits until every expected frame is stored; how long it took, None if it never was.
///
/// Errors: the database.
pub fn drain(
    database: &Database,
    rounds: &mut Rounds,
    expected: &Frames,
    patience: Duration,
) -> anyhow::Result<Option<Duration>> {
    println!("waiting until {} frames are stored", expected.len());
    rounds.platform.wait_ready()?;
    let begin = Instant::now();
    while begin.elapsed() < patience {
        rounds.supervise()?;
        // Reading all frames costs much: look first whether there are enough.
        let stored = usize::try_from(database.number("select count(*) from track_frames")?)?;
        if stored >= expected.len()
            && Difference::between(expected, &database.stored()?)
                .lost
                .is_empty()
        {
            return Ok(Some(begin.elapsed()));
        }
        wait::pass(Duration::from_secs(1));
    }
    Ok(None)
}

/// Prints; true if the sets agree and the load was what it must be.
///
/// Errors: the database or a journal.
pub fn print(
    args: &Args,
    database: &Database,
    rounds: &Rounds,
    kills: &Kills,
    expected: &Frames,
    made_in: Duration,
    drained: Option<Duration>,
) -> anyhow::Result<bool> {
    let stored = database.stored()?;
    let mut difference = Difference::between(expected, &stored);
    // Agents went on while the rest arrived: what they have listed since is listed.
    let later = rounds.fleet.journals()?;
    difference
        .unlisted
        .retain(|place| !later.contains_key(place));
    let number = |query| database.number(query);
    let contradictions = number("select count(*) from contradictions")?;
    let quarantined = number("select count(*) from quarantine")?;
    #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    let rate = expected.len() as f64 / made_in.as_secs_f64();
    let of = |victim| kills.rounds.get(&victim).copied().unwrap_or(0);

    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let mut line = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    line(
        "kills",
        format!(
            "{} rounds: agents {} ({} processes), platform {}, PostgreSQL {}; ended by themselves {}",
            kills.rounds.values().sum::<u32>(),
            of(Victim::Agents),
            kills.agents,
            of(Victim::Platform),
            of(Victim::Postgres),
            kills.ended_by_themselves
        ),
    );
    line(
        "load",
        format!(
            "{rate:.0} frames/s made durable by {} agents in {} s",
            args.agents,
            made_in.as_secs()
        ),
    );
    line(
        "drain",
        drained.map_or_else(
            || "never".to_owned(),
            |d| format!("{:.1} s", d.as_secs_f64()),
        ),
    );
    line("frames in the journals", expected.len().to_string());
    line(
        "lost / stored twice / altered",
        format!(
            "{} / {} / {}",
            difference.lost.len(),
            difference.doubled.len(),
            difference.altered.len()
        ),
    );
    line(
        "stored, synced but not yet listed when their agent was killed",
        difference.unlisted.len().to_string(),
    );
    line(
        "contradictions / in quarantine",
        format!("{contradictions} / {quarantined}"),
    );
    println!("{table}");
    for (what, places) in [
        ("lost", &difference.lost),
        ("stored twice", &difference.doubled),
        ("altered", &difference.altered),
    ] {
        for place in places.iter().take(5) {
            println!("  {what}: {place:?}");
        }
    }
    let whole = difference.is_none() && contradictions == 0 && quarantined == 0;
    // One frame at most for each killed agent can be synced and not listed.
    let explained = difference.unlisted.len() <= kills.agents;
    let loaded = rate >= args.floor;
    for (good, what) in [
        (whole, "not every frame is stored exactly once"),
        (explained, "more unlisted frames than agents were killed"),
        (loaded, "the load was below the floor"),
    ] {
        if !good {
            println!("FAILED: {what}");
        }
    }
    Ok(whole && explained && loaded)
}
