//! Open channels: a drive whose host holds the mapping.
//!
//! # Structure
//!
//! The drive exposes its flash: groups of parallel units, units of chunks, chunks of blocks of 4
//! KiB that are written in order and reset together. It maps nothing, relocates nothing and buffers
//! nothing; the host decides where data lie, when they move and which chunks wear. The drive only
//! enforces the rules of the flash, corrects bit errors, and tracks which chunks are bad.
//!
//! A chunk is one erase block of every plane of a die. Commands name lists of up to 64 blocks
//! anywhere; beside each block lie 16 bytes of metadata for the host.
//!
//! # Promises at a power cut
//!
//! - An acknowledged write is on flash, with its metadata. There is no volatile cache, so there is
//!   no flush.
//! - Of a write under way, each unit (one program) is on flash as a whole or not at all, and no
//!   unit is there beyond a missing one.
//! - The write pointer is at the end of the readable units. A chunk whose next unit was torn is
//!   closed there; a chunk whose reset was torn is closed and empty.
//!
//! # Failing flash
//!
//! A chunk is closed early when a program of it fails: blocks below its write pointer stay
//! readable, and its next reset takes it offline. A failing erase takes the chunk offline at once.
//! Both cause a notification, and so does an uncorrectable read.

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

/// Error of a command: its status, and the addresses that failed.
//= ocssd-2.0 3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} (addresses {failed:#x})")]
pub struct RawError {
    /// Status of the first address that failed.
    pub status: RawStatus,
    /// Failed addresses of the list, one bit each.
    pub failed: u64,
}

impl RawError {
    /// The error of a command whose `count` addresses all failed with `status`.
    const fn all(status: RawStatus, count: usize) -> Self {
        let failed = if count >= MOST_ADDRESSES {
            u64::MAX
        } else {
            (1 << count) - 1
        };
        Self { status, failed }
    }
}

/// Oracle's view through the host's mapping: contents of a 4 KiB sector; `None` if unreadable.
type View = Box<dyn Fn(u32) -> Option<Payload>>;

/// State shared by all tasks of an open-channel drive's firmware.
pub(crate) struct Firmware {
    /// Flash, clock and counters; it maps nothing here.
    core: Rc<Core>,
    pub(crate) config: DriveConfig,
    geometry: RawGeometry,
    unwritten: Unwritten,
    table: RefCell<Table>,
    /// For each chunk: lock held while it is programmed or erased.
    turns: Vec<Semaphore>,
    notices: RefCell<Notices>,
    /// View through the host's mapping, if the host provides one.
    view: RefCell<Option<View>>,
    /// A read has completed.
    read: Signal,
}

/// The chunks of an open-channel drive: the host's handle to them.
#[derive(Clone)]
pub struct Chunks {
    pub(crate) inner: Rc<Firmware>,
}

impl Chunks {
    /// The chunks of `config`; `None` for a drive of another interface.
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

    /// Provides a view through the host's mapping for test oracles ([`Drive::peek`]). The drive
    /// itself does not use it.
    pub fn show(&self, view: impl Fn(u32) -> Option<Payload> + 'static) {
        *self.inner.view.borrow_mut() = Some(Box::new(view));
    }

    /// Contents of a sector of the host's mapping, for test oracles.
    pub(crate) fn view(&self, sector: u32) -> Option<Payload> {
        self.inner.view.borrow().as_ref()?(sector)
    }

    /// The geometry of the drive.
    #[must_use]
    pub fn geometry(&self) -> RawGeometry {
        self.inner.geometry
    }
}

impl Firmware {
    /// Unpacks a list of addresses.
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

    /// Takes the time of a command that occupies the processors for `service` and moves `blocks`
    /// through the controller's DRAM.
    async fn pass(&self, service: Ns, blocks: usize) {
        let core = &self.core;
        let moved = Ns(core.config.controller.dram_per_unit.0 * blocks as u64);
        let passed = core.passed(core.sim.now(), service, moved);
        core.sim.sleep_until(passed).await;
    }

    /// Panics if an invariant of the firmware's memory does not hold.
    pub(crate) fn check(&self) {
        self.table.borrow().check(&self.geometry);
    }

    /// Takes the time of power-on: a binary search for the write pointer of each chunk.
    pub(crate) async fn read_spares(&self) {
        read::find_pointers(self).await;
    }
}

impl Drive {
    /// The chunks of an open-channel drive; `None` for any other.
    #[must_use]
    pub fn chunks(&self) -> Option<&Chunks> {
        self.raw.as_ref()
    }
}
