//! Files: one zone each, or several adjacent conventional zones.

use sim::{Semaphore, Sim};
use ssd::{ZoneInfo, ZoneKind, ZoneState};
use std::cell::Cell;
use units::SECTOR;

/// Directories of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Conventional zones, written anywhere: `cnv`.
    Conventional,
    /// Sequential zones, written at their ends: `seq`.
    Sequential,
}

impl Group {
    /// Both directories, in the order of the root directory.
    pub const ALL: [Self; 2] = [Self::Conventional, Self::Sequential];

    /// Name of the directory in the root.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conventional => "cnv",
            Self::Sequential => "seq",
        }
    }
}

/// Attributes of a file, as of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number: that of the file's first zone.
    pub ino: u64,
    /// Size in bytes; of a sequential file the write position of its zone.
    pub size: u64,
    /// Capacity of the zone in sectors of 512 bytes.
    pub sectors: u64,
    /// Permission bits; write and read bits are cleared after errors.
    pub perm: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
}

/// A file, with its state in memory.
pub(crate) struct File {
    /// First zone of the file.
    pub(crate) zone: u32,
    /// First sector of 512 bytes on the drive.
    pub(crate) start: u64,
    /// Capacity of its zones in bytes.
    pub(crate) most: u64,
    pub(crate) group: Group,
    /// Serializes calls that change the file.
    pub(crate) turn: Semaphore,
    pub(crate) size: Cell<u64>,
    pub(crate) perm: Cell<u16>,
    pub(crate) owner: Cell<(u32, u32)>,
    /// Whether the condition of the zone and earlier errors permit reads, and writes.
    pub(crate) reads: Cell<bool>,
    pub(crate) writes: Cell<bool>,
    /// Opens for writing in progress.
    pub(crate) writers: Cell<u32>,
    /// Whether the zone was opened explicitly for the writers.
    pub(crate) opened: Cell<bool>,
}

impl File {
    /// A file over one zone, or over several conventional zones.
    pub(crate) fn new(sim: &Sim, zones: &[ZoneInfo], (perm, owner): (u16, (u32, u32))) -> Self {
        let first = &zones[0];
        let group = match first.kind {
            ZoneKind::Conventional => Group::Conventional,
            ZoneKind::Sequential => Group::Sequential,
        };
        let most = zones.iter().map(|zone| zone.capacity).sum::<u64>() * SECTOR;
        let file = Self {
            zone: first.zone,
            start: first.start.0,
            most,
            group,
            turn: Semaphore::new(sim, 1),
            size: Cell::new(most),
            perm: Cell::new(perm),
            owner: Cell::new(owner),
            reads: Cell::new(true),
            writes: Cell::new(true),
            writers: Cell::new(0),
            opened: Cell::new(false),
        };
        if group == Group::Sequential {
            file.size.set(first.written() * SECTOR);
            // The drive does not report the write position of a read-only zone, so the file is
            // empty, as in Linux.
            if matches!(first.state, ZoneState::ReadOnly | ZoneState::Offline) {
                file.allow(false, false);
            }
        }
        file
    }

    pub(crate) fn is_sequential(&self) -> bool {
        self.group == Group::Sequential
    }

    /// Revokes reads or writes, also from the permissions; never grants them.
    pub(crate) fn allow(&self, reads: bool, writes: bool) {
        if !writes {
            self.writes.set(false);
            self.perm.set(self.perm.get() & !0o222);
            // A zone that cannot be written needs no close.
            self.opened.set(false);
        }
        if !reads {
            self.reads.set(false);
            self.perm.set(self.perm.get() & !0o777);
            self.size.set(0);
        }
    }

    /// Whether the zone counts as active: explicitly opened, or written in part.
    pub(crate) fn is_active(&self) -> bool {
        let partly = self.size.get() > 0 && self.size.get() < self.most;
        self.is_sequential() && self.writes.get() && (self.opened.get() || partly)
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let (uid, gid) = self.owner.get();
        Attributes {
            ino: self.zone.into(),
            size: self.size.get(),
            sectors: self.most / SECTOR,
            perm: self.perm.get(),
            uid,
            gid,
        }
    }
}
