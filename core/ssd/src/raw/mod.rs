//! Open channels: a drive whose mapping its host holds.
//!
//! # The idea
//!
//! The drive shows its flash as it is: groups of parallel units, units of chunks, chunks of
//! blocks of 4 KiB that are written in order and reset together. It maps nothing, moves
//! nothing and buffers nothing; where data lie, when they are moved and which chunks wear is
//! the host's to decide. What the drive keeps for itself is the rules of the flash, the
//! correction of errors, and which chunks are no good.
//!
//! A chunk is one erase block of every plane of a die. Commands name lists of up to 64
//! blocks anywhere; beside each block lie 16 bytes of the host's own.
//!
//! # What is promised at a power cut
//!
//! - A write that was acknowledged is on flash, with its metadata. There is no volatile
//!   cache, so there is no flush.
//! - Of a write under way each unit, one program, is there as a whole or not at all, and
//!   none is there behind one that is not.
//! - The write pointer is where the readable units end. A chunk whose next unit was torn is
//!   closed there; one whose reset was torn is closed with nothing in it.
//!
//! # When flash fails
//!
//! A chunk of which a program fails is closed early: what is behind its write pointer can
//! be read, and its next reset makes it offline. One of which an erase fails is offline at
//! once. Either is told in a notification too, as is a chunk whose reads need many passes.

mod config;
mod read;
mod report;
mod rules;
mod table;
mod write;

pub use config::{META, MOST_ADDRESSES, Place, Ppa, RawConfig, RawGeometry};
pub use read::RawBlock;
pub use report::{ChunkInfo, ChunkNotice, Noticed};
pub use rules::{ChunkEvent, ChunkState, Found, RawStatus, found, transition as chunk_transition};
pub use write::{Mark, Meta};

use crate::config::{ConfigError, DriveConfig};
use crate::drive::{Core, Drive};
use crate::zoned::Unwritten;
use nand::Payload;
use report::Notices;
use sim::{Semaphore, Signal};
use std::cell::RefCell;
use std::rc::Rc;
use table::Table;
use units::Ns;

/// Which addresses of a command failed, and why.
//= ocssd-2.0 3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} (addresses {failed:#x})")]
pub struct RawError {
    /// The first reason.
    pub status: RawStatus,
    /// A bit for each address of the list that failed.
    pub failed: u64,
}

impl RawError {
    /// All `count` addresses have failed for the same reason.
    const fn all(status: RawStatus, count: usize) -> Self {
        let failed = if count >= MOST_ADDRESSES {
            u64::MAX
        } else {
            (1 << count) - 1
        };
        Self { status, failed }
    }
}

/// What the newest version of a sector of 4 KiB of a mapping is; none if it cannot be read.
type View = Box<dyn Fn(u32) -> Option<Payload>>;

/// What all tasks of the firmware share.
pub(crate) struct Firmware {
    /// The flash, the clock and the counters; it maps nothing here.
    core: Rc<Core>,
    pub(crate) config: DriveConfig,
    geometry: RawGeometry,
    unwritten: Unwritten,
    table: RefCell<Table>,
    /// By chunk: who programs or erases it.
    turns: Vec<Semaphore>,
    notices: RefCell<Notices>,
    /// What its host says of a sector.
    view: RefCell<Option<View>>,
    /// A read has ended.
    read: Signal,
}

/// The chunks of a drive, as its host holds them.
#[derive(Clone)]
pub struct Chunks {
    pub(crate) inner: Rc<Firmware>,
}

impl Chunks {
    /// The chunks of `config`; none if it maps addresses itself.
    pub(crate) fn new(core: &Rc<Core>, config: &DriveConfig) -> Result<Option<Self>, ConfigError> {
        let Some((geometry, raw)) = RawGeometry::new(config)?.zip(config.raw) else {
            return Ok(None);
        };
        let table = Table::found(&geometry, &core.nand.media());
        let turns = (0..geometry.all_chunks()).map(|_| Semaphore::new(&core.sim, 1));
        let firmware = Firmware {
            core: Rc::clone(core),
            config: config.clone(),
            unwritten: raw.read_unwritten,
            turns: turns.collect(),
            table: RefCell::new(table),
            notices: RefCell::default(),
            view: RefCell::default(),
            read: Signal::default(),
            geometry,
        };
        Ok(Some(Self {
            inner: Rc::new(firmware),
        }))
    }

    /// Lets oracles look through the mapping of the host, in [`Drive::peek`]: the drive
    /// itself asks for nothing of it.
    pub fn show(&self, view: impl Fn(u32) -> Option<Payload> + 'static) {
        *self.inner.view.borrow_mut() = Some(Box::new(view));
    }

    /// What the mapping of the host has in a sector.
    pub(crate) fn view(&self, sector: u32) -> Option<Payload> {
        self.inner.view.borrow().as_ref()?(sector)
    }

    /// The shape of the drive.
    #[must_use]
    pub fn geometry(&self) -> RawGeometry {
        self.inner.geometry
    }
}

impl Firmware {
    /// The places of a list of addresses.
    fn places(&self, at: &[Ppa]) -> Result<Vec<Place>, RawError> {
        if at.is_empty() || at.len() > MOST_ADDRESSES {
            return Err(RawError::all(RawStatus::InvalidField, at.len()));
        }
        let places = at.iter().map(|&ppa| self.geometry.place(ppa));
        let missing = places
            .clone()
            .enumerate()
            .filter(|(_, place)| place.is_none());
        let failed = missing.fold(0, |failed, (index, _)| failed | 1 << index);
        if failed != 0 {
            let status = RawStatus::OutOfRange;
            return Err(RawError { status, failed });
        }
        Ok(places.flatten().collect())
    }

    /// Time of a command that moves `blocks` through the controller's DRAM.
    fn command_time(&self, blocks: usize) -> Ns {
        let controller = &self.config.controller;
        Ns(controller.command.0 + controller.dram_per_unit.0 * blocks as u64)
    }

    /// Panics if an invariant of the firmware's memory does not hold.
    pub(crate) fn check(&self) {
        self.table.borrow().check(&self.geometry);
    }

    /// Reads what power-on has to: the last written unit of each chunk, by halves.
    pub(crate) async fn read_spares(&self) {
        read::find_pointers(self).await;
    }
}

impl Drive {
    /// Its chunks, if its host holds the mapping.
    #[must_use]
    pub fn chunks(&self) -> Option<&Chunks> {
        self.raw.as_ref()
    }
}
