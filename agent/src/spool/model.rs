//! A disk in memory that forgets what was not synced, fills up and fails on command. Never kinder than a real one.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::disk::{Disk, Free, Writer};

const SECTOR: usize = 512;

#[derive(Debug, Clone, Default)]
struct File {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum NameOp {
    Link(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Clone, Default)]
struct State {
    files: BTreeMap<u64, File>,
    live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    pending: Vec<NameOp>,
    next: u64,
    /// Operations until the power goes.
    fuse: Option<u64>,
    operations: u64,
    capacity: Option<u64>,
    failing_syncs: u64,
    short_writes: u64,
    full_writes: u64,
    random: u64,
    /// 4 KiB pages that a real disk would have had to write.
    pages: u64,
}

/// The disk; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model(Arc<Mutex<State>>);

fn gone() -> io::Error {
    io::Error::other("the power is gone")
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        match &mut self.fuse {
            Some(0) => Err(gone()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A number below `below`, the same in each run.
    fn dice(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    fn used(&self) -> u64 {
        self.live
            .values()
            .filter_map(|id| self.files.get(id))
            .map(|f| f.live.len() as u64)
            .sum()
    }

    fn file(&self, name: &str) -> io::Result<u64> {
        self.live
            .get(name)
            .copied()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, part: &[u8]) {
    if bytes.len() < offset + part.len() {
        bytes.resize(offset + part.len(), 0);
    }
    bytes[offset..offset + part.len()].copy_from_slice(part);
}

fn apply(names: &mut BTreeMap<String, u64>, op: &NameOp) {
    match op {
        NameOp::Link(name, id) => {
            names.insert(name.clone(), *id);
        }
        NameOp::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        NameOp::Remove(name) => {
            names.remove(name);
        }
    }
}

impl Model {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power goes after so many more operations.
    pub(crate) fn fuse(&self, operations: u64) {
        self.state().fuse = Some(operations);
    }

    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(crate) fn capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    pub(crate) fn fail_syncs(&self, count: u64) {
        self.state().failing_syncs = count;
    }

    pub(crate) fn short_writes(&self, count: u64) {
        self.state().short_writes = count;
    }

    /// So many writes meet the disk's end, as where room cannot be reserved.
    pub(crate) fn full_writes(&self, count: u64) {
        self.state().full_writes = count;
    }

    /// What a disk holds after the power was gone: of all that was not synced, whatever chance left.
    pub(crate) fn after_power_cut(&self, seed: u64) -> Self {
        let mut state = self.state().clone();
        state.random = seed;
        let pending = std::mem::take(&mut state.pending);
        for op in &pending {
            if state.dice(2) == 0 {
                apply(&mut state.durable, op);
            }
        }
        let ids: Vec<u64> = state.files.keys().copied().collect();
        for id in ids {
            let mut file = state.files.get(&id).cloned().unwrap_or_default();
            for (offset, bytes) in std::mem::take(&mut file.pending) {
                for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                    if state.dice(2) == 0 {
                        put(&mut file.durable, offset + index * SECTOR, sector);
                    }
                }
            }
            file.live.clone_from(&file.durable);
            state.files.insert(id, file);
        }
        state.live.clone_from(&state.durable);
        state.fuse = None;
        Self(Arc::new(Mutex::new(state)))
    }

    /// The disk as another process finds it when this one was killed: nothing is forgotten.
    pub(crate) fn after_kill(&self) -> Self {
        let mut state = self.state().clone();
        state.fuse = None;
        Self(Arc::new(Mutex::new(state)))
    }

    /// A copy in which a file was cut or altered behind our back.
    pub(crate) fn tampered(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let copy = self.after_kill();
        {
            let mut state = copy.state();
            let id = state.file(name).expect("a file of that name");
            let file = state.files.get_mut(&id).expect("every name has a file");
            change(&mut file.live);
            file.durable.clone_from(&file.live);
            file.pending.clear();
        }
        copy
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let copy = self.after_kill();
        copy.state().live.remove(name);
        copy.state().durable.remove(name);
        copy
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.state().live.keys().cloned().collect()
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        let id = state.file(name).expect("a file of that name");
        state.files[&id].live.clone()
    }

    pub(crate) fn pages(&self) -> u64 {
        self.state().pages
    }
}

struct Handle {
    model: Model,
    id: u64,
    at: usize,
}

impl Writer for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.model.state();
        state.step()?;
        if state.full_writes > 0 {
            state.full_writes -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let short = state.short_writes > 0;
        if short {
            state.short_writes -= 1;
        }
        let part = if short {
            &bytes[..bytes.len() / 2]
        } else {
            bytes
        };
        let at = self.at;
        let grown = state.files.get(&self.id).map_or(0, |file| {
            (at + part.len()).saturating_sub(file.live.len()) as u64
        });
        if state.capacity.is_some_and(|c| state.used() + grown > c) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.files.entry(self.id).or_default();
        put(&mut file.live, at, part);
        file.pending.push((at, part.to_vec()));
        self.at += part.len();
        if short {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.model.state();
        let torn = state.step();
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            // As Linux does it: the pages count as clean from now on, and are not on the disk.
            if let Some(file) = state.files.get_mut(&self.id) {
                file.pending.clear();
            }
            return Err(io::Error::other("EIO"));
        }
        torn?;
        let file = state.files.entry(self.id).or_default();
        let mut pages = 0;
        for (offset, bytes) in std::mem::take(&mut file.pending) {
            pages += ((offset + bytes.len()).div_ceil(4096) - offset / 4096) as u64;
            put(&mut file.durable, offset, &bytes);
        }
        state.pages += pages;
        Ok(())
    }
}

impl Disk for Model {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        Ok(state
            .live
            .iter()
            .map(|(name, id)| (name.clone(), state.files[id].live.len() as u64))
            .collect())
    }

    fn read(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let state = self.state();
        let id = state.file(name)?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = &state.files[&id].live;
        let bytes = bytes.get(offset..).unwrap_or_default();
        Ok(bytes[..bytes.len().min(most)].to_vec())
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn Writer>> {
        let mut state = self.state();
        state.step()?;
        if state.capacity.is_some_and(|c| state.used() + length > c) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = state.next;
        state.next += 1;
        let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
        let file = File {
            durable: Vec::new(),
            live: zeros.clone(),
            pending: vec![(0, zeros)],
        };
        state.files.insert(id, file);
        state.live.insert(name.to_owned(), id);
        state.pending.push(NameOp::Link(name.to_owned(), id));
        Ok(Box::new(Handle {
            model: self.clone(),
            id,
            at: 0,
        }))
    }

    fn open(&self, name: &str, offset: u64) -> io::Result<Box<dyn Writer>> {
        let state = self.state();
        Ok(Box::new(Handle {
            model: self.clone(),
            id: state.file(name)?,
            at: usize::try_from(offset).unwrap_or(0),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.file(from)?;
        let op = NameOp::Rename(from.to_owned(), to.to_owned());
        apply(&mut state.live, &op);
        state.pending.push(op);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.file(name)?;
        let op = NameOp::Remove(name.to_owned());
        apply(&mut state.live, &op);
        state.pending.push(op);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        for op in std::mem::take(&mut state.pending) {
            apply(&mut state.durable, &op);
        }
        Ok(())
    }

    fn free(&self) -> io::Result<Free> {
        let state = self.state();
        Ok(Free {
            bytes: state
                .capacity
                .map_or(u64::MAX, |c| c.saturating_sub(state.used())),
            inodes: u64::MAX,
        })
    }
}
