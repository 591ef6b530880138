//! DRAM timing by arithmetic: channels with a data bus, banks with a row buffer.
//!
//! Each bank serves its accesses in request order and keeps its row open until another row is
//! accessed. A bus serves bursts in the order in which they are ready, so a burst can go
//! before those of banks with long queues. Background transfers, such as pages to and from
//! flash, yield: an access waits at most for the background burst in progress. Not modelled:
//! refresh, the four-activation window, and a controller that reorders requests.
//!
//! Addresses go round the channels by 256 bytes, and fill a row of a bank before the
//! next bank; the bank is scrambled by the row, so that strides spread.
//!
//! | number | DDR5-4800 | LPDDR4-3200 | source |
//! | --- | --- | --- | --- |
//! | channels | 8 | 2 | `skybyte` Table II |
//! | CL-RCD-RP, clocks | 36-38-38 | 16-18-18 | `skybyte` Table II |
//! | bytes a transfer | 8 | 2 | JESD79-5: two halves of 32 bits; JESD209-4: 16 bits |
//! | banks a channel | 64 | 8 | JESD79-5: 32 in either half; JESD209-4 |
//! | bytes of a row | 8,192 | 2,048 | JESD79-5 of eight chips by 1 KiB; JESD209-4 |
//! | controller | 10 ns | 10 ns | a choice of ours: queues and wires either way |

use crate::config::{Invalid, LONGEST};
use crate::tick::Tick;
use serde::{Deserialize, Serialize};
use units::{Bytes, Ns};

/// Interleaving unit of the channels, in lines: 256 bytes.
const INTERLEAVE_LINES: u64 = 4;

/// Geometry and timing of a DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramConfig {
    /// Channels, each with a data bus.
    pub channels: u64,
    /// Banks in each channel.
    pub banks: u64,
    /// Size of a bank's row buffer.
    pub row: Bytes,
    /// Transfers a second, in millions; the clock is half of it.
    pub megatransfers: u64,
    /// Bytes that one transfer moves.
    pub bus_bytes: u64,
    /// Clocks from a read of an open row to its data.
    pub cl: u64,
    /// Clocks to open a row.
    pub rcd: u64,
    /// Clocks to close a row.
    pub rp: u64,
    /// Time in the controller, both ways together.
    pub controller: Ns,
}

impl DramConfig {
    /// DDR5-4800 in eight channels.
    //= skybyte 6.1
    pub const DDR5_4800: Self = Self {
        channels: 8,
        banks: 64,
        row: Bytes(8_192),
        megatransfers: 4_800,
        bus_bytes: 8,
        cl: 36,
        rcd: 38,
        rp: 38,
        controller: Ns(10),
    };

    /// LPDDR4-3200 in two channels.
    //= skybyte 6.1
    pub const LPDDR4_3200: Self = Self {
        channels: 2,
        banks: 8,
        row: Bytes(2_048),
        megatransfers: 3_200,
        bus_bytes: 2,
        cl: 16,
        rcd: 18,
        rp: 18,
        controller: Ns(10),
    };

    /// Peak bandwidth of all buses together, in bytes a second.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.channels * self.megatransfers * 1_000_000 * self.bus_bytes
    }

    /// Checks that every value is in range.
    ///
    /// # Errors
    /// Names the impossible value.
    pub fn check(&self) -> Result<(), Invalid> {
        Invalid::zero("channels of a DRAM", self.channels)?;
        Invalid::zero("banks of a DRAM", self.banks)?;
        Invalid::zero("megatransfers of a DRAM", self.megatransfers)?;
        Invalid::zero("bus_bytes of a DRAM", self.bus_bytes)?;
        for (name, value, most) in [
            ("channels", self.channels, 64),
            ("banks", self.banks, 1_024),
            ("megatransfers", self.megatransfers, 1 << 20),
            ("bus_bytes", self.bus_bytes, 1_024),
            ("row", self.row.0, 1 << 32),
            ("cl", self.cl, 1_024),
            ("rcd", self.rcd, 1_024),
            ("rp", self.rp, 1_024),
        ] {
            Invalid::most(&format!("{name} of a DRAM"), value, most)?;
        }
        Invalid::long(&[("controller of a DRAM", self.controller, LONGEST)])?;
        if self.row.0 == 0 || !self.row.0.is_multiple_of(64 * INTERLEAVE_LINES) {
            return Err(Invalid(format!(
                "a row of {} cannot be: rows are multiples of {} bytes",
                self.row,
                64 * INTERLEAVE_LINES
            )));
        }
        Ok(())
    }
}

/// Idle gaps that a bus remembers.
const GAPS: usize = 16;

/// A data bus: when it is free of accesses and of background transfers, and its idle gaps
/// before that, left while banks open rows for bursts already placed.
#[derive(Clone, Copy, Debug)]
struct Bus {
    free: Tick,
    background: Tick,
    /// Start and end of each gap, in no order.
    gaps: [(Tick, Tick); GAPS],
    /// Index of the gap that is overwritten next.
    oldest: usize,
}

impl Bus {
    const IDLE: Self = Self {
        free: Tick::ZERO,
        background: Tick::ZERO,
        gaps: [(Tick::ZERO, Tick::ZERO); GAPS],
        oldest: 0,
    };

    /// Places a burst that is ready at `ready`. Returns when it begins.
    #[inline]
    fn take(&mut self, ready: Tick, burst: Tick) -> Tick {
        if ready < self.free
            && let Some(begins) = self.take_gap(ready, burst)
        {
            return begins;
        }
        let begins = ready.max(self.free);
        self.note_gap(self.free, begins, burst);
        self.free = begins + burst;
        begins
    }

    /// Places a burst in an idle gap between others, if one is long enough.
    fn take_gap(&mut self, ready: Tick, burst: Tick) -> Option<Tick> {
        let gaps = self.gaps.iter().enumerate();
        let fits = gaps.filter(|(_, gap)| ready.max(gap.0) + burst <= gap.1);
        let (at, &(from, until)) = fits.min_by_key(|(_, gap)| gap.0)?;
        let begins = ready.max(from);
        self.gaps[at] = (begins + burst, until);
        self.note_gap(from, begins, burst);
        Some(begins)
    }

    fn note_gap(&mut self, from: Tick, until: Tick, burst: Tick) {
        if from + burst <= until {
            self.gaps[self.oldest] = (from, until);
            self.oldest = (self.oldest + 1) % GAPS;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    row: u64,
    free: Tick,
}

/// State of a bank's row buffer at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The accessed row was open.
    Hit,
    /// No row was open.
    Closed,
    /// Another row was open.
    Conflict,
}

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Instant at which the last byte has left the controller.
    pub done: Tick,
    /// State of the bank's row buffer before the access.
    pub row: Row,
}

/// Accesses since the start, by state of the bank's row buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DramCounts {
    /// Accesses whose row was open.
    pub hits: u64,
    /// Accesses to a bank without an open row.
    pub closed: u64,
    /// Accesses to a bank with another row open.
    pub conflicts: u64,
}

/// A divisor known at run time; powers of two become shifts.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    bits: u32,
}

impl Divisor {
    fn new(by: u64) -> Self {
        let bits = by.trailing_zeros();
        Self { by, bits }
    }

    /// Quotient and remainder of `value` by this divisor.
    #[inline]
    fn split(self, value: u64) -> (u64, u64) {
        if self.by.is_power_of_two() {
            (value >> self.bits, value & (self.by - 1))
        } else {
            (value / self.by, value % self.by)
        }
    }
}

/// A DRAM; its state is when each bank and bus is free.
#[derive(Clone, Debug)]
pub struct Dram {
    banks: Vec<Bank>,
    buses: Vec<Bus>,
    channels: Divisor,
    banks_each: Divisor,
    units_per_row: Divisor,
    burst: Tick,
    cl: Tick,
    rcd: Tick,
    rp: Tick,
    controller: Tick,
    counts: DramCounts,
}

const NO_ROW: u64 = u64::MAX;

impl Dram {
    /// An idle DRAM, with every bank closed.
    ///
    /// # Errors
    /// Names the impossible value of `config`.
    pub fn new(config: &DramConfig) -> Result<Self, Invalid> {
        config.check()?;
        let clock = config.megatransfers * 500_000;
        let closed = Bank {
            row: NO_ROW,
            free: Tick::ZERO,
        };
        Ok(Self {
            banks: vec![closed; (config.channels * config.banks) as usize],
            buses: vec![Bus::IDLE; config.channels as usize],
            channels: Divisor::new(config.channels),
            banks_each: Divisor::new(config.banks),
            units_per_row: Divisor::new(config.row.0 / (64 * INTERLEAVE_LINES)),
            burst: Tick::cycles(64, config.megatransfers * 1_000_000 * config.bus_bytes),
            cl: Tick::cycles(config.cl, clock),
            rcd: Tick::cycles(config.rcd, clock),
            rp: Tick::cycles(config.rp, clock),
            controller: Tick::of(config.controller),
            counts: DramCounts::default(),
        })
    }

    /// Reads or writes the 64 bytes of `line` for a request that arrives at `now`.
    #[inline]
    pub fn access(&mut self, now: Tick, line: u64) -> Served {
        let (unit, channel) = self.channels.split(line / INTERLEAVE_LINES);
        let (row, bank) = self.banks_each.split(self.units_per_row.split(unit).0);
        let scrambled = bank + self.banks_each.split(row.wrapping_mul(0x9e37_79b9)).1;
        let bank = self.banks_each.split(scrambled).1;
        let bank = &mut self.banks[(channel * self.banks_each.by + bank) as usize];
        let asked = (now + self.controller).max(bank.free);
        let (column, found) = if bank.row == row {
            self.counts.hits += 1;
            (asked, Row::Hit)
        } else if bank.row == NO_ROW {
            self.counts.closed += 1;
            (asked + self.rcd, Row::Closed)
        } else {
            self.counts.conflicts += 1;
            (asked + self.rp + self.rcd, Row::Conflict)
        };
        bank.row = row;
        let bus = &mut self.buses[channel as usize];
        let mut data = bus.take(column + self.cl, self.burst);
        if bus.background > data {
            data += self.burst;
            bus.background += self.burst;
            bus.free = bus.free.max(data + self.burst);
        }
        let done = data + self.burst;
        bank.free = done - self.cl;
        Served { done, row: found }
    }

    /// Moves `lines` lines in the background from `now` on, spread over the channels. Returns
    /// when they are done if no access intervenes.
    pub fn move_lines(&mut self, now: Tick, lines: u64) -> Tick {
        let each = self.burst.times(lines.div_ceil(self.channels.by));
        let mut done = now;
        for bus in &mut self.buses {
            bus.background = now.max(bus.free).max(bus.background) + each;
            done = done.max(bus.background);
        }
        done
    }

    /// The time of a lone access to a bank that has `row` open.
    #[must_use]
    pub fn at_rest(&self, row: Row) -> Tick {
        let open = match row {
            Row::Hit => Tick::ZERO,
            Row::Closed => self.rcd,
            Row::Conflict => self.rp + self.rcd,
        };
        self.controller + open + self.cl + self.burst
    }

    /// Accesses counted so far.
    #[must_use]
    pub fn counts(&self) -> DramCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines a second times 64 of `lines` reads in order, all asked for at once.
    fn streamed(config: &DramConfig, lines: u64) -> f64 {
        let mut dram = Dram::new(config).unwrap();
        let last = (0..lines).map(|line| dram.access(Tick::ZERO, line).done);
        let last = last.max().unwrap();
        lines as f64 * 64.0 * Tick::PER_NS as f64 * 1e9 / last.0 as f64
    }

    #[test]
    fn streaming_reaches_the_peak_of_the_buses() {
        for config in [DramConfig::DDR5_4800, DramConfig::LPDDR4_3200] {
            let reached = streamed(&config, 200_000) / config.peak() as f64;
            assert!((0.99..=1.001).contains(&reached), "{reached}");
        }
        assert_eq!(DramConfig::DDR5_4800.peak(), 307_200_000_000);
        assert_eq!(DramConfig::LPDDR4_3200.peak(), 12_800_000_000);
    }

    #[test]
    fn a_lone_access_is_the_sum_of_its_parts() {
        let mut dram = Dram::new(&DramConfig::DDR5_4800).unwrap();
        let clock = |n| Tick::cycles(n, 2_400_000_000);
        let burst = Tick::cycles(8, 4_800_000_000);
        let base = Tick::of(Ns(10)) + burst + clock(36);
        let start = Tick::of(Ns(100));
        let first = dram.access(start, 0);
        assert_eq!(
            (first.row, first.done - start),
            (Row::Closed, base + clock(38))
        );
        let start = Tick::of(Ns(1_000));
        let again = dram.access(start, 1);
        assert_eq!((again.row, again.done - start), (Row::Hit, base));
        // The same bank of the same channel, another row: the bank is scrambled, so
        // it is looked for.
        let rows = 8 * 4 * 32;
        let other = (1..64 * 64)
            .map(|n| n * rows)
            .find(|&line| dram.clone().access(Tick::of(Ns(2_000)), line).row == Row::Conflict);
        let start = Tick::of(Ns(2_000));
        let served = dram.access(start, other.unwrap());
        assert_eq!(served.done - start, base + clock(38) + clock(38));
        for row in [Row::Hit, Row::Closed, Row::Conflict] {
            assert!(dram.at_rest(row) >= base);
        }
    }

    /// Bytes a second that `outstanding` readers reach, each asking for the next line
    /// once it has its own.
    fn closed_loop(dram: &mut Dram, outstanding: usize, reads: u64) -> f64 {
        let mut ready = vec![Tick::ZERO; outstanding];
        for line in 0..reads {
            let slot = ready.iter_mut().min().unwrap();
            *slot = dram.access(*slot, line).done;
        }
        let end = ready.iter().max().unwrap();
        reads as f64 * 64.0 * Tick::PER_NS as f64 * 1e9 / end.0 as f64
    }

    #[test]
    fn as_many_lines_saturate_a_channel_as_latency_times_bandwidth_says() {
        // 32 GB/s and 70 ns: 70 · 32 / 64 = 35 lines.
        //= skybyte 2.3
        let mut config = DramConfig {
            channels: 1,
            megatransfers: 4_000,
            // Long rows: opening them is not what the formula is about.
            row: Bytes(1 << 30),
            ..DramConfig::DDR5_4800
        };
        let lone = Dram::new(&config).unwrap().at_rest(Row::Hit);
        config.controller = Ns(10 + (Tick::of(Ns(70)) - lone).ns_up().0);
        let peak = config.peak() as f64;
        assert_eq!(config.peak(), 32_000_000_000);
        let rate = |n| closed_loop(&mut Dram::new(&config).unwrap(), n, 40_000) / peak;
        assert!(rate(36) > 0.98, "{}", rate(36));
        assert!((0.44..0.52).contains(&rate(17)), "{}", rate(17));
    }

    #[test]
    fn an_access_waits_for_one_burst_of_the_background() {
        let mut busy = Dram::new(&DramConfig::LPDDR4_3200).unwrap();
        let mut idle = busy.clone();
        let moved = busy.move_lines(Tick::ZERO, 64);
        assert_eq!(moved.ns_up(), Ns(320), "4 KiB at 12.8 GB/s");
        let burst = Tick::of(Ns(10));
        let waited = busy.access(Tick::ZERO, 0).done;
        assert_eq!(waited, idle.access(Tick::ZERO, 0).done + burst);
        let rest = busy.move_lines(Tick::ZERO, 0);
        assert_eq!(rest, moved + burst, "the background had to wait as long");
    }

    #[test]
    fn a_bank_serves_one_row_at_a_time() {
        let config = DramConfig {
            channels: 1,
            banks: 1,
            ..DramConfig::DDR5_4800
        };
        let mut dram = Dram::new(&config).unwrap();
        let rows: Vec<_> = (0..10)
            .map(|n| dram.access(Tick::ZERO, n * 128).done)
            .collect();
        let step = Tick::cycles(36 + 38 + 38, 2_400_000_000) - Tick::cycles(36, 2_400_000_000);
        for pair in rows.windows(2) {
            assert!(pair[1] - pair[0] >= step, "rows of one bank overlap");
        }
    }

    #[test]
    fn a_bank_with_a_long_queue_holds_up_no_other_bank() {
        let config = DramConfig {
            channels: 1,
            banks: 2,
            ..DramConfig::LPDDR4_3200
        };
        let mut dram = Dram::new(&config).unwrap();
        // Of each pair of rows that follow, one is in the first bank; which one, alternates.
        for pair in 0..12 {
            let row = pair * 2 + pair % 2;
            dram.access(Tick::ZERO, row * 32);
        }
        let other = dram.access(Tick::ZERO, 32);
        assert_eq!(other.row, Row::Closed, "the second bank was not asked yet");
        let late = other.done.since(dram.at_rest(Row::Closed));
        assert!(
            late <= Tick::of(Ns(20)),
            "it waited for {} of others",
            late.ns()
        );
    }

    #[test]
    fn invalid_configuration_is_refused() {
        let broken = DramConfig {
            channels: 0,
            ..DramConfig::DDR5_4800
        };
        let sentence = Dram::new(&broken).unwrap_err().to_string();
        assert_eq!(sentence, "channels of a DRAM must not be zero");
    }
}
