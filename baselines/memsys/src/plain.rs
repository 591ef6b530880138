//! A device of plain DRAM behind the link: a CXL memory expander, and the upper bound for a
//! drive, as if its DRAM held all data.

use crate::config::Invalid;
use crate::dram::{Dram, DramConfig};
use crate::far::{Far, FarEvent, Line, LineData, ReadReply, Tag};
use crate::tick::Tick;
use std::collections::BTreeMap;
use units::Ns;

/// A memory expander: DRAM behind the link.
#[derive(Clone, Debug)]
pub struct PlainDram {
    dram: Dram,
    index: Tick,
    /// Written lines by number, where contents are kept.
    lines: BTreeMap<u64, [u8; 64]>,
}

impl PlainDram {
    /// An idle device; every access takes `index` on top of the DRAM.
    ///
    /// # Errors
    /// Names the impossible value of `dram`.
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
