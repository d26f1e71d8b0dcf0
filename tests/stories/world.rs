//! What most stories begin with: a folder, a database, a platform. Leaves nothing running.

use std::{collections::BTreeSet, time::Duration};

use e2e::{
    database::Database,
    devices::{self, Forged},
    frames::{Chain, FRAME_MS},
    mqtt::Session,
    platform::{Options, Platform},
    postgres::Postgres,
};
use furrow_protocol::{down::Down, frame::Frame};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A platform with its database. Fields are dropped in their order: the folder last.
pub struct World {
    pub platform: Platform,
    pub database: Database,
    /// The story's own server, where `DATABASE_URL` names none.
    _server: Option<Postgres>,
    _folder: TempDir,
}

impl World {
    /// A platform that serves with the defaults.
    pub fn new() -> Self {
        Self::with(&Options::default())
    }

    /// A platform that serves.
    pub fn with(options: &Options) -> Self {
        let mut world = Self::prepared(options);
        world.platform.migrate().unwrap();
        world.platform.serve().unwrap();
        world
    }

    /// A platform that is not started and whose schema is not there.
    pub fn prepared(options: &Options) -> Self {
        let folder = folder();
        let (database, server) = match Database::fresh().unwrap() {
            Some(database) => (database, None),
            None => {
                let server = Postgres::start(&folder.path().join("postgres")).unwrap();
                (Database::at(&server.url("furrow")).unwrap(), Some(server))
            }
        };
        let platform = Platform::prepare(folder.path(), database.url(), options).unwrap();
        Self {
            platform,
            database,
            _server: server,
            _folder: folder,
        }
    }

    /// A device whose key the story holds.
    pub fn forged(&self) -> Forged {
        let made = self.database.wait(devices::forge(self.database.pool(), 1));
        made.unwrap().remove(0)
    }
}

/// A folder of a story.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("furrow-story-")
        .tempdir()
        .unwrap()
}

/// A chain of a device whose `frames` frames end just now.
pub fn chain_until_now(forged: &Forged, epoch: u64, frames: i64) -> Chain {
    let begin = chrono::Utc::now().timestamp_millis() - frames * FRAME_MS;
    Chain::begin(forged.device, forged.key.clone(), epoch, begin)
}

/// Sends frames and waits until each is acked, as an agent does after a reconnect.
pub fn deliver(world: &World, device: u32, token: &str, frames: &[Frame]) {
    let mut session = Session::open(world.platform.mqtt, device, token).unwrap();
    for window in frames.chunks(32) {
        for frame in window {
            session.publish(&frame.to_bytes()).unwrap();
        }
        let mut open: BTreeSet<u64> = window.iter().map(|f| f.seq).collect();
        while !open.is_empty() {
            match session.next_down(PATIENCE).unwrap() {
                Some(Down::Ack { ranges, .. }) => {
                    open.retain(|seq| !ranges.iter().any(|(a, b)| (a..=b).contains(&seq)));
                }
                other => panic!("{open:?} were not acked: {other:?}"),
            }
        }
    }
}
