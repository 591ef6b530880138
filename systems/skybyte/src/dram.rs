//! The device's DRAM: channels that lines go over, and banks with an open row each.
//!
//! # Invariants
//!
//! - A line occupies its channel for its burst; bursts of lines do not overlap.
//! - What moves in the background, pages to and from flash, yields to lines: a line
//!   waits for no more than the burst that is under way.
//! - At rest a line takes what its row needs (precharge, activate, column) and its burst.
//!
//! Refresh, and the times between activations that keep a bank from being closed too
//! soon, are left out: less than a twentieth of the time together.

use crate::config::DramConfig;
use units::Ns;

/// Bytes of a line.
const LINE: u64 = 64;
/// No row is open.
const CLOSED: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Bank {
    row: u64,
    /// When it takes the next command, ps.
    ready: u64,
}

struct Channel {
    /// When its bus is free of lines, ps.
    free: u64,
    /// When what moves in the background is through, ps.
    background: u64,
    banks: Vec<Bank>,
}

/// The timeline of the DRAM. Times inside are picoseconds.
pub(crate) struct Dram {
    fixed: Option<Ns>,
    column: u64,
    activate: u64,
    precharge: u64,
    burst: u64,
    /// Lines of a row, in one channel.
    row_lines: u64,
    channels: Vec<Channel>,
}

impl Dram {
    pub(crate) fn new(config: &DramConfig) -> Self {
        let cycle = |cycles: u32| u64::from(cycles) * 2_000_000 / u64::from(config.mega_transfers);
        let bytes = u64::from(config.channel_bits / 8) * u64::from(config.mega_transfers);
        let banks = vec![
            Bank {
                row: CLOSED,
                ready: 0
            };
            config.banks as usize
        ];
        let channel = |_| Channel {
            free: 0,
            background: 0,
            banks: banks.clone(),
        };
        Self {
            fixed: config.fixed,
            column: cycle(config.column),
            activate: cycle(config.activate),
            precharge: cycle(config.precharge),
            burst: LINE * 1_000_000 / bytes,
            row_lines: u64::from(config.row_bytes) / LINE,
            channels: (0..config.channels).map(channel).collect(),
        }
    }

    /// Reaches for the line at `address`, in bytes, from `now` on; when it is there.
    #[inline]
    pub(crate) fn access(&mut self, now: Ns, address: u64) -> Ns {
        if let Some(fixed) = self.fixed {
            return now + fixed;
        }
        let now = now.0 * 1000;
        let line = address / LINE;
        let channels = self.channels.len() as u64;
        let (channel, line) = ((line % channels) as usize, line / channels);
        let channel = &mut self.channels[channel];
        let banks = channel.banks.len() as u64;
        let row = line / self.row_lines;
        let (bank, row) = ((row % banks) as usize, row / banks);
        let bank = &mut channel.banks[bank];
        let start = now.max(bank.ready);
        let opened = match bank.row {
            open if open == row => start,
            CLOSED => start + self.activate,
            _ => start + self.precharge + self.activate,
        };
        bank.row = row;
        // Columns of an open row follow one another as fast as the bus takes them.
        bank.ready = opened + self.burst;
        let mut begin = (opened + self.column).max(channel.free);
        if channel.background > begin {
            begin += self.burst;
            channel.background += self.burst;
        }
        channel.free = begin + self.burst;
        Ns(channel.free.div_ceil(1000))
    }

    /// Moves `lines` lines in the background from `now` on; when they are through if no
    /// line comes between.
    pub(crate) fn move_lines(&mut self, now: Ns, lines: u64) -> Ns {
        if self.fixed.is_some() {
            return now;
        }
        let each = lines.div_ceil(self.channels.len() as u64) * self.burst;
        let mut done = 0;
        for channel in &mut self.channels {
            let start = (now.0 * 1000).max(channel.free).max(channel.background);
            channel.background = start + each;
            done = channel.background.max(done);
        }
        Ns(done.div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `skybyte` Table II: 16-18-18 cycles of 625 ps, and bursts of 10 ns.
    fn dram() -> Dram {
        Dram::new(&DramConfig::default())
    }

    #[test]
    fn a_line_takes_what_its_row_needs() {
        let mut dram = dram();
        let (column, activate, precharge, burst) = (10_000, 11_250, 11_250, 10_000_u64);
        let ns = |ps: u64| Ns(ps.div_ceil(1000));
        assert_eq!(dram.access(Ns(0), 0), ns(activate + column + burst));
        let later = 1_000_000;
        assert_eq!(dram.access(Ns(later), 128), Ns(later) + ns(column + burst));
        // 2 channels of 8 banks with rows of 2 KiB: 32 KiB on, the same bank.
        let conflict = dram.access(Ns(2 * later), 32 << 10);
        assert_eq!(
            conflict,
            Ns(2 * later) + ns(precharge + activate + column + burst)
        );
    }

    #[test]
    fn the_bus_is_the_limit_of_many_lines() {
        let mut dram = dram();
        let lines = 10_000;
        let done = (0..lines).map(|line| dram.access(Ns(0), line * 64)).max();
        let done = done.unwrap().0 as f64;
        let rate = (lines * 64) as f64 / done;
        assert!((12.5..12.81).contains(&rate), "{rate} GB/s of 12.8");
    }

    #[test]
    fn a_line_waits_for_one_burst_of_the_background() {
        let (mut busy, mut idle) = (dram(), dram());
        let moved = busy.move_lines(Ns(0), 64);
        assert_eq!(moved, Ns(320), "4 KiB at 12.8 GB/s");
        assert_eq!(busy.access(Ns(0), 0), idle.access(Ns(0), 0) + Ns(10));
        let rest = busy.move_lines(Ns(0), 0);
        assert_eq!(rest, moved + Ns(10), "the background had to wait as long");
    }
}
