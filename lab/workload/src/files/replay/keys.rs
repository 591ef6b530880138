//! Keys of what a call touches: names, open files, locks, contents.
//!
//! Names and files are identified by a hash of their path. A collision makes a call wait without
//! need and has no other effect. A file with several names counts as several files.

use crate::files::{Call, Event, Fd, Name, Names, OpenFlags, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Identity of something that calls can conflict about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// Kinds of keys, in the lowest two bits.
const NAME: u64 = 0;
const SLOT: u64 = 1;
const LOCK: u64 = 2;
const DATA: u64 = 3;

impl Key {
    pub(super) const fn slot(fd: u32) -> Self {
        Self((fd as u64) << 2 | SLOT)
    }

    const fn of_hash(hash: u64, kind: u64) -> Self {
        Self(hash << 2 | kind)
    }

    /// Whether the key stands for the contents of a file.
    pub(super) const fn is_data(self) -> bool {
        self.0 & 3 == DATA
    }
}

/// Kind of an access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Uses,
    Changes,
}

use Access::{Changes, Uses};

/// Keys that one call touches, each with its access.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched(Vec<(Key, Access)>);

impl Touched {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, Access)> {
        self.0.iter().copied()
    }

    /// Adds a key; a key that is there already becomes changed if `access` changes it.
    fn add(&mut self, key: Key, access: Access) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, before)) if access == Changes => *before = Changes,
            Some(_) => {}
            None => self.0.push((key, access)),
        }
    }
}

/// State of the open files.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// Hash of the path that each slot was opened by.
    files: BTreeMap<Fd, u64>,
    /// Slots through which a lock was requested.
    locked: BTreeSet<Fd>,
}

/// Collector of the keys of one call.
struct Toucher<'a> {
    names: &'a Names,
    slots: &'a mut Slots,
    order_data: bool,
    touched: &'a mut Touched,
}

/// Adds the keys of `event`'s call to `touched`.
pub(super) fn touch(
    event: &Event,
    names: &Names,
    slots: &mut Slots,
    order_data: bool,
    touched: &mut Touched,
) {
    let mut toucher = Toucher {
        names,
        slots,
        order_data,
        touched,
    };
    toucher.call(&event.step.call, event.result.is_ok());
}

impl Toucher<'_> {
    fn call(&mut self, call: &Call, fine: bool) {
        match *call {
            Call::Open {
                fd, path, flags, ..
            } => self.open(fd, path, flags, fine),
            Call::Close { fd } => self.close(fd),
            Call::Sync {} => {}
            Call::Rename { from, to, .. } => {
                self.name(from, Changes);
                self.name(to, Changes);
            }
            Call::Unlink { path }
            | Call::Rmdir { path }
            | Call::Mkdir { path, .. }
            | Call::Mknod { path, .. }
            | Call::Symlink { path, .. } => {
                self.name(path, Changes);
            }
            Call::Link { of, to } => {
                self.target(of, Uses);
                self.name(to, Changes);
            }
            Call::Readlink { path } => {
                self.name(path, Uses);
            }
            Call::Truncate { of, .. } => self.target(of, Changes),
            Call::Stat { of } | Call::GetXattr { of, .. } | Call::ListXattr { of, .. } => {
                self.target(of, Uses);
            }
            Call::Access { of, .. }
            | Call::StatFs { of }
            | Call::Chmod { of, .. }
            | Call::Chown { of, .. }
            | Call::Utimens { of }
            | Call::SetXattr { of, .. }
            | Call::RemoveXattr { of, .. } => self.target(of, Uses),
            Call::CopyRange { from, to, .. } => {
                self.contents(from, Uses);
                self.contents(to, Changes);
            }
            Call::Flock { fd, .. } | Call::RecordLock { fd, .. } => self.lock(fd),
            ref other => self.on_open(other),
        }
    }

    /// Handles the calls that concern one open file only.
    fn on_open(&mut self, call: &Call) {
        match *call {
            Call::Read { fd, .. } => {
                self.contents(fd, Uses);
                self.slot(fd, Changes);
            }
            Call::Write { fd, .. } => {
                self.contents(fd, Changes);
                self.slot(fd, Changes);
            }
            Call::Readdir { fd, .. } | Call::Rewinddir { fd } => self.slot(fd, Changes),
            Call::Pwrite { fd, .. } | Call::Fallocate { fd, .. } | Call::Store { fd, .. } => {
                self.contents(fd, Changes);
            }
            Call::Pread { fd, .. }
            | Call::Load { fd, .. }
            | Call::SeekData { fd, .. }
            | Call::SeekHole { fd, .. }
            | Call::Fsync { fd }
            | Call::Fdatasync { fd }
            | Call::SyncRange { fd, .. }
            | Call::Msync { fd, .. } => self.contents(fd, Uses),
            Call::SyncFs { fd } | Call::Advise { fd, .. } | Call::Hint { fd, .. } => {
                self.slot(fd, Uses);
            }
            _ => {}
        }
    }

    fn open(&mut self, fd: Fd, path: Name, flags: OpenFlags, fine: bool) {
        let makes = flags.has(OpenFlags::CREATE) && !flags.has(OpenFlags::TMPFILE);
        let hash = self.name(path, if makes { Changes } else { Uses });
        if flags.has(OpenFlags::TRUNCATE) {
            self.data(hash, Changes);
        }
        // A call that failed took no slot.
        if fine {
            self.slot(fd, Changes);
            self.slots.files.insert(fd, hash);
        }
    }

    fn close(&mut self, fd: Fd) {
        self.slot(fd, Changes);
        let hash = self.slots.files.remove(&fd);
        if self.slots.locked.remove(&fd) {
            // Closing releases the locks of the open file.
            hash.iter()
                .for_each(|&hash| self.touched.add(Key::of_hash(hash, LOCK), Changes));
        }
    }

    fn lock(&mut self, fd: Fd) {
        self.slot(fd, Uses);
        self.slots.locked.insert(fd);
        if let Some(&hash) = self.slots.files.get(&fd) {
            self.touched.add(Key::of_hash(hash, LOCK), Changes);
        }
    }

    fn slot(&mut self, fd: Fd, access: Access) {
        self.touched.add(Key::slot(fd.0), access);
    }

    fn contents(&mut self, fd: Fd, access: Access) {
        self.slot(fd, Uses);
        if let Some(&hash) = self.slots.files.get(&fd) {
            self.data(hash, access);
        }
    }

    fn data(&mut self, hash: u64, access: Access) {
        if self.order_data {
            self.touched.add(Key::of_hash(hash, DATA), access);
        }
    }

    fn target(&mut self, of: Target, access: Access) {
        match of {
            Target::Open(fd) => self.contents(fd, access),
            Target::Path(name) | Target::Link(name) => {
                let hash = self.name(name, Uses);
                self.data(hash, access);
            }
        }
    }

    /// Touches `name` with `access` and uses its parent directories; returns the hash of the path.
    fn name(&mut self, name: Name, access: Access) -> u64 {
        let mut hash = START;
        for &byte in self.names.bytes(name) {
            if byte == b'/' {
                self.touched.add(Key::of_hash(hash, NAME), Uses);
            }
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        self.touched.add(Key::of_hash(hash, NAME), access);
        hash
    }
}

/// Parameters of FNV-1a, the hash of a path.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
