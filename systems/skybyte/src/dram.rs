//! Timing of the device's DRAM, in the whole nanoseconds of the kernel's clock.
//!
//! Channels, banks and rows are those of [`memsys::Dram`], so a device that hits every time
//! has the latency of memory behind the link.

use crate::config::DramConfig;
use memsys::Tick;
use units::{Bytes, Ns};

/// Bytes of a line.
const LINE: u64 = 64;

/// Timeline of the DRAM: a fixed latency if one is set, else channels, banks and rows.
pub(crate) struct Dram {
    fixed: Option<Ns>,
    parts: memsys::Dram,
}

impl Dram {
    /// # Panics
    /// If `config` has not been checked.
    pub(crate) fn new(config: &DramConfig) -> Self {
        let parts = memsys::Dram::new(&config.parts());
        Self {
            fixed: config.fixed,
            parts: parts.expect("what cannot be was refused before"),
        }
    }

    /// Accesses the line at byte `address` from `now` on. Returns when its data is available.
    #[inline]
    pub(crate) fn access(&mut self, now: Ns, address: u64) -> Ns {
        match self.fixed {
            Some(fixed) => now + fixed,
            None => self
                .parts
                .access(Tick::of(now), address / LINE)
                .done
                .ns_up(),
        }
    }

    /// Moves `lines` lines in the background from `now` on; free if the latency is fixed.
    pub(crate) fn move_lines(&mut self, now: Ns, lines: u64) {
        if self.fixed.is_none() {
            self.parts.move_lines(Tick::of(now), lines);
        }
    }
}

impl DramConfig {
    /// The parameters for [`memsys::Dram`]. The controller adds nothing here: its time is
    /// part of the look-up latencies.
    fn parts(&self) -> memsys::DramConfig {
        memsys::DramConfig {
            channels: self.channels.into(),
            banks: self.banks.into(),
            row: Bytes(self.row_bytes.into()),
            megatransfers: self.mega_transfers.into(),
            bus_bytes: u64::from(self.channel_bits) / 8,
            cl: self.column.into(),
            rcd: self.activate.into(),
            rp: self.precharge.into(),
            controller: Ns::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `skybyte` Table II: 16-18-18 cycles of 625 ps, and bursts of 10 ns.
    #[test]
    fn a_line_takes_what_its_row_needs() {
        let mut dram = Dram::new(&DramConfig::default());
        let (column, activate, burst) = (10_000, 11_250, 10_000_u64);
        let ns = |ps: u64| Ns(ps.div_ceil(1000));
        assert_eq!(dram.access(Ns(0), 0), ns(activate + column + burst));
        let later = Ns(1_000_000);
        assert_eq!(dram.access(later, 128), later + ns(column + burst));
    }

    #[test]
    fn fixed_latency_is_independent_of_load() {
        let config = DramConfig {
            fixed: Some(Ns(46)),
            ..DramConfig::default()
        };
        let mut dram = Dram::new(&config);
        dram.move_lines(Ns(0), 1_000);
        for address in 0..100 {
            assert_eq!(dram.access(Ns(7), address * 64), Ns(53));
        }
    }
}
