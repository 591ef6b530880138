//! The trace of a drive, as a host takes it.

use crate::drive::Drive;
use crate::frontier::Kind;
use crate::observed::{Relocation, Waited};
use crate::recover::word;
use nand::Served;

/// Operations and relocations of a traced drive that have ended since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Services of dies and channels, in the order of their ends.
    pub served: Vec<Served>,
    /// Collections, in the order of their ends.
    pub relocations: Vec<Relocation>,
}

impl Drive {
    /// Starts to trace the drive.
    pub fn start_trace(&self) {
        self.core.nand.start_trace();
        self.core.observed.waited.take();
        self.core.observed.relocations.take();
    }

    /// Whether the drive is traced.
    #[must_use]
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.core.nand.tracer().is_on()
    }

    /// Takes the operations and relocations since the last call.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        Trace {
            served: self.core.nand.tracer().take(),
            relocations: self.core.observed.relocations.take(),
        }
    }

    /// Takes the parts of the command that has just ended; `None` if the drive is not traced, or for
    /// a command whose parts are not told apart: to zones, chunks or a page cache, or a flush.
    #[must_use]
    pub fn take_waited(&self) -> Option<Waited> {
        self.core.observed.waited.take()
    }

    /// Use of the block that a program of the page-mapped part labelled; `None` on drives with zones
    /// or chunks.
    #[must_use]
    pub fn use_of(&self, label: u64) -> Option<&'static str> {
        if self.zones.is_some() || self.raw.is_some() {
            return None;
        }
        let state = self.core.state.borrow();
        let frontiers = state.frontiers.len();
        let (_, frontier) = word::parse_label(&self.core.layout, label, frontiers)?;
        Some(match state.frontiers[usize::from(frontier)].kind {
            Kind::Host(_) => "host data",
            Kind::Moved(_) => "relocated data",
            Kind::Map => "translation pages",
            Kind::MovedMap => "relocated translation pages",
            Kind::Journal => "journal of the map",
        })
    }

    /// Pages of the write buffer that hold data.
    #[must_use]
    pub fn buffered_pages(&self) -> u32 {
        let free = self.core.buffer.free() as u32;
        self.core.layout.buffer_pages.saturating_sub(free)
    }
}
