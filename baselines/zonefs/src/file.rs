//! A zone as a file.

use sim::{Semaphore, Sim};
use ssd::{ZoneInfo, ZoneKind, ZoneState};
use std::cell::Cell;
use units::SECTOR;

/// The directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Zones that are written anywhere.
    Conventional,
    /// Zones that are written at their ends.
    Sequential,
}

impl Group {
    /// Both, in the order of the root directory.
    pub const ALL: [Self; 2] = [Self::Conventional, Self::Sequential];

    /// Name of the directory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conventional => "cnv",
            Self::Sequential => "seq",
        }
    }
}

/// What `stat` says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number: that of its zone, of several the first one's.
    pub ino: u64,
    /// Bytes; of a sequential zone how far it is written.
    pub size: u64,
    /// Sectors of 512 bytes that it has at most: as many as its zone.
    pub sectors: u64,
    /// Permissions.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A file.
pub(crate) struct File {
    /// Its zone; of several that are one file the first.
    pub(crate) zone: u32,
    /// First sector of 512 bytes on the drive.
    pub(crate) start: u64,
    /// Bytes that it can have.
    pub(crate) most: u64,
    pub(crate) group: Group,
    /// Whose turn it is to change it.
    pub(crate) turn: Semaphore,
    pub(crate) size: Cell<u64>,
    pub(crate) perm: Cell<u16>,
    pub(crate) owner: Cell<(u32, u32)>,
    /// Whether the zone, or what became of an error, forbids reads and writes.
    pub(crate) reads: Cell<bool>,
    pub(crate) writes: Cell<bool>,
    /// How many have it open to write.
    pub(crate) writers: Cell<u32>,
    /// Whether the zone was opened for them.
    pub(crate) opened: Cell<bool>,
}

impl File {
    /// That of a zone, or of several conventional ones.
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
            // How far a read-only one was written the drive does not say any more:
            // nothing is left of it, as with Linux.
            if matches!(first.state, ZoneState::ReadOnly | ZoneState::Offline) {
                file.allow(false, false);
            }
        }
        file
    }

    pub(crate) fn is_sequential(&self) -> bool {
        self.group == Group::Sequential
    }

    /// Takes away what is not to be done any more, also from the permissions.
    pub(crate) fn allow(&self, reads: bool, writes: bool) {
        if !writes {
            self.writes.set(false);
            self.perm.set(self.perm.get() & !0o222);
            // There is nothing to close.
            self.opened.set(false);
        }
        if !reads {
            self.reads.set(false);
            self.perm.set(self.perm.get() & !0o777);
            self.size.set(0);
        }
    }

    /// Whether its zone counts as active: opened for somebody, or written in part.
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
