//! The few things that the spool asks of a disk, and the folder that does them. Never knows what a record is.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Room that is left on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// Bytes.
    pub bytes: u64,
    /// Inodes; `u64::MAX` where the file system does not count them.
    pub inodes: u64,
}

/// A file that is written from one end to the other.
pub trait Writer: Send {
    /// One write; not durable before [`Writer::sync`].
    ///
    /// Errors: any, a short write included; what is on the disk then is unknown.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes all that was written durable (`fdatasync`).
    ///
    /// Errors: any; what is on the disk then is unknown, also after a later success.
    fn sync(&mut self) -> io::Result<()>;
}

/// One flat folder.
pub trait Disk: Send {
    /// Names and lengths of its files.
    ///
    /// Errors: the disk's.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Reads up to `most` bytes of a file from `offset` on; fewer where it ends.
    ///
    /// Errors: the disk's.
    fn read(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>>;

    /// A new file of `length` zeros in the place of any former one, written from its start.
    ///
    /// Errors: the disk's; no room among them.
    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn Writer>>;

    /// A file that exists, to be written from `offset` on.
    ///
    /// Errors: the disk's.
    fn open(&self, name: &str, offset: u64) -> io::Result<Box<dyn Writer>>;

    /// Gives a file another name, in the place of a former file of that name.
    ///
    /// Errors: the disk's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// Errors: the disk's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable.
    ///
    /// Errors: the disk's.
    fn sync_names(&self) -> io::Result<()>;

    /// Room left.
    ///
    /// Errors: the disk's.
    fn free(&self) -> io::Result<Free>;
}

/// A folder of the host that belongs to this process alone.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: File,
    /// Locked as long as it is open; the kernel unlocks it however the process ends.
    _lock: File,
}

impl Folder {
    /// Opens the folder, making it where it is missing, and locks it.
    ///
    /// Errors: the disk's; [`io::ErrorKind::WouldBlock`] where another process has it.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another process has this spool",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let handle = File::open(path)?;
        // The folder's own name must survive as well.
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self {
            path: path.to_owned(),
            handle,
            _lock: lock,
        })
    }
}

struct HostFile(File);

impl Writer for HostFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.0.write(bytes) {
                Ok(written) if written == bytes.len() => return Ok(()),
                Ok(_) => return Err(io::Error::new(io::ErrorKind::WriteZero, "short write")),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(most);
        file.take(u64::try_from(most).unwrap_or(u64::MAX))
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn Writer>> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        if length > 0 {
            reserve(&file, length)?;
        }
        Ok(Box::new(HostFile(file)))
    }

    fn open(&self, name: &str, offset: u64) -> io::Result<Box<dyn Writer>> {
        let mut file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(HostFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free(&self) -> io::Result<Free> {
        let stat = rustix::fs::fstatvfs(&self.handle)?;
        Ok(Free {
            bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            // btrfs and vfat tell 0 of 0.
            inodes: if stat.f_files == 0 {
                u64::MAX
            } else {
                stat.f_favail
            },
        })
    }
}

/// Takes the room now, so that a record in the middle of a segment never meets a full disk.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use rustix::{fs::FallocateFlags, io::Errno};
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        // vfat, NFS and others cannot: the length alone still tells a cut file.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => file.set_len(length),
        Err(error) => Err(error.into()),
    }
}
