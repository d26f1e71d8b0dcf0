//! The register in memory: asked for every connection and every frame, kept fresh from the database. Never decides who may enrol.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use furrow_protocol::frame::Device;
use tokio::{sync::mpsc, time::Instant};

use super::register::{Boxed, Refusal, Register};
use crate::{
    app::devices::{hash, unhex},
    db::{self, DbError, Pool, devices::DeviceRow},
    ingest::{
        arrival::{Arrival, Arrivals},
        keys::{DeviceKey, KeyRing},
    },
};

/// Rows are read again for so long after they were written: clocks of processes differ a little, and
/// a row is seen only after its commit.
const OVERLAP: TimeDelta = TimeDelta::minutes(10);

/// So long is it remembered that the register does not know a number ...
const STRANGER: Duration = Duration::from_secs(10);
/// ... of so many at most.
const STRANGERS: usize = 10_000;

/// Devices, as this process knows them. Clones share one memory.
#[derive(Debug, Clone)]
pub struct CachedRegister {
    pool: Pool,
    keys: KeyRing,
    entries: Arc<RwLock<Entries>>,
    read_until: Arc<Mutex<Option<DateTime<Utc>>>>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<[u8; 32], u32>,
    known: HashMap<u32, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    token_hash: [u8; 32],
    revoked: bool,
}

impl CachedRegister {
    /// An empty register; [`CachedRegister::refresh`] fills it.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            keys: KeyRing::default(),
            entries: Arc::default(),
            read_until: Arc::default(),
        }
    }

    /// The keys, for ingest.
    #[must_use]
    pub fn keys(&self) -> KeyRing {
        self.keys.clone()
    }

    /// Reads what changed since the last time. Called every few seconds, so that a revocation in any
    /// process is felt in every process well within 30 s.
    ///
    /// Errors: the database; what is known stays.
    pub async fn refresh(&self, now: DateTime<Utc>) -> Result<(), DbError> {
        let since = *self
            .read_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let rows = db::devices::changed_since(&self.pool, since.map(|t| t - OVERLAP)).await?;
        self.learn(rows);
        *self
            .read_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(())
    }

    fn learn(&self, rows: Vec<DeviceRow>) {
        let mut news = Vec::new();
        {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            for row in rows {
                let number = row.number.cast_unsigned();
                let (Some(key), Ok(token_hash)) = (
                    DeviceKey::new(&row.public_key, row.revoked),
                    row.token_hash.as_slice().try_into(),
                ) else {
                    tracing::error!(device = row.number, "register.bad_key");
                    continue;
                };
                let known = Known {
                    token_hash,
                    revoked: row.revoked,
                };
                let former = entries.known.insert(number, known);
                if former.is_none_or(|f| f.revoked != row.revoked) {
                    entries.by_key.insert(key.strict.to_bytes(), number);
                    news.push((number, key));
                }
            }
        }
        if !news.is_empty() {
            let mut keys = HashMap::clone(&self.keys.snapshot());
            keys.extend(news);
            self.keys.replace(keys);
        }
    }

    /// Passes frames on from where nobody asks the register (an outside broker admits by its own
    /// rules): a device that has just enrolled is looked up first, so that its frames are not taken
    /// for a stranger's. Ends with either side.
    pub async fn admit(self, mut heard: mpsc::Receiver<Arrival>, to: Arrivals) {
        let mut strangers: HashMap<u32, Instant> = HashMap::new();
        while let Some(arrival) = heard.recv().await {
            let number = arrival.device.0;
            let asked = strangers.get(&number).map(|at| at.elapsed());
            if self.known(number).is_none() && asked.is_none_or(|ago| ago > STRANGER) {
                let row = match i32::try_from(number) {
                    Ok(number) => db::devices::by_number(&self.pool, number).await,
                    Err(_) => Ok(None),
                };
                // The register cannot be asked: not answered, so that the device sends it again.
                if self.learn_one(row).is_err() {
                    continue;
                }
                if strangers.len() > STRANGERS {
                    strangers.clear();
                }
                strangers.insert(number, Instant::now());
            }
            if to.send(arrival).await.is_err() {
                return;
            }
        }
    }

    fn of_key(&self, key: &[u8; 32]) -> Option<u32> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.by_key.get(key).copied()
    }

    fn known(&self, number: u32) -> Option<Known> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.known.get(&number).copied()
    }

    /// A device that has just enrolled is not in memory yet: its row is asked for once.
    fn learn_one(&self, row: Result<Option<DeviceRow>, DbError>) -> Result<(), Refusal> {
        match row {
            Ok(row) => {
                self.learn(row.into_iter().collect());
                Ok(())
            }
            Err(error) => {
                tracing::warn!(error = %error, "register.ask");
                Err(Refusal::Unavailable)
            }
        }
    }
}

impl Register for CachedRegister {
    fn by_key(&self, public_key: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>> {
        Box::pin(async move {
            if self.of_key(&public_key).is_none() {
                self.learn_one(db::devices::by_key(&self.pool, &public_key).await)?;
            }
            let number = self.of_key(&public_key).ok_or(Refusal::Unknown)?;
            match self.known(number) {
                None => Err(Refusal::Unknown),
                Some(known) if known.revoked => Err(Refusal::Revoked),
                Some(_) => Ok(Device(number)),
            }
        })
    }

    fn by_token<'a>(
        &'a self,
        device: Device,
        token: &'a [u8],
    ) -> Boxed<'a, Result<Device, Refusal>> {
        Box::pin(async move {
            let token = unhex::<32>(token).ok_or(Refusal::Unknown)?;
            if self.known(device.0).is_none() {
                let number = i32::try_from(device.0).map_err(|_| Refusal::Unknown)?;
                self.learn_one(db::devices::by_number(&self.pool, number).await)?;
            }
            let known = self.known(device.0).ok_or(Refusal::Unknown)?;
            match (same(&known.token_hash, &hash(&token)), known.revoked) {
                (false, _) => Err(Refusal::Unknown),
                (true, true) => Err(Refusal::Revoked),
                (true, false) => Ok(device),
            }
        })
    }

    fn revoked(&self, device: Device) -> bool {
        self.keys.revoked(device)
    }
}

/// Whether two hashes are the same, in a time that does not depend on where they differ.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
