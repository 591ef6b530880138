//! A device that is DRAM behind the link, and nothing else.
//!
//! What a drive whose memory holds everything comes to; memory that only expands.

use crate::config::Invalid;
use crate::dram::{Dram, DramConfig};
use crate::far::{Far, FarEvent, Line, LineData, ReadReply, Tag};
use crate::tick::Tick;
use std::collections::BTreeMap;
use units::Ns;

/// DRAM behind the link.
#[derive(Clone, Debug)]
pub struct PlainDram {
    dram: Dram,
    index: Tick,
    /// What was written, where contents are kept.
    lines: BTreeMap<u64, [u8; 64]>,
}

impl PlainDram {
    /// Such a device at rest, which needs `index` to find a line besides its DRAM.
    ///
    /// # Errors
    /// Says which value of `dram` cannot be.
    pub fn new(dram: &DramConfig, index: Ns) -> Result<Self, Invalid> {
        Ok(Self {
            dram: Dram::new(dram)?,
            index: Tick::of(index),
            lines: BTreeMap::new(),
        })
    }

    fn access(&mut self, now: Ns, line: Line) -> Ns {
        self.dram
            .access(Tick::of(now) + self.index, line.0)
            .done
            .ns_up()
    }
}

impl Far for PlainDram {
    fn read(&mut self, now: Ns, line: Line, _: Tag) -> ReadReply {
        let done = self.access(now, line);
        ReadReply::Data(done, self.lines.get(&line.0).copied())
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        if let Some(data) = data {
            self.lines.insert(line.0, data);
        }
        Some(self.access(now, line))
    }

    fn event(&mut self) -> Option<FarEvent> {
        None
    }

    fn dropped(&mut self, _: Ns, _: u64) -> u64 {
        0
    }
}
