//! The settings of a drive that a fit turns, with their physical ranges.

use ssd::DriveConfig;
use units::{Bytes, KIB, MIB, Ns};

/// A setting of a drive as a number.
pub struct Knob {
    /// Name of the setting in drive files.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: &'static str,
    /// Smallest and largest value.
    pub range: (f64, f64),
    /// Source of the range.
    pub source: &'static str,
    get: fn(&DriveConfig) -> f64,
    set: fn(&mut DriveConfig, f64),
}

/// The write buffer, which a fit also halves and doubles.
pub(super) const BUFFER: Knob = Knob {
    name: "controller.write_buffer",
    unit: "MiB",
    range: (0.5, 128.0),
    source: "assumed",
    get: |drive| drive.controller.write_buffer.0 as f64 / MIB as f64,
    set: |drive, value| {
        let step = 64 * KIB;
        let bytes = (value * MIB as f64) as u64 / step * step;
        drive.controller.write_buffer = Bytes(bytes.max(step));
    },
};

/// The settings that are turned; the numbers of channels and of chips are chosen beside them.
pub const KNOBS: [Knob; 6] = [
    Knob {
        name: "flash.timing.read",
        unit: "us",
        range: (3.0, 150.0),
        source: "Z-NAND to QLC, as in the table of parts",
        get: |drive| us(timing(drive).read),
        set: |drive, value| with_timing(drive, |timing| timing.read = ns(value)),
    },
    Knob {
        name: "flash.timing.program",
        unit: "us",
        range: (50.0, 3_000.0),
        source: "Z-NAND to QLC, as in the table of parts",
        get: |drive| us(timing(drive).program),
        set: |drive, value| with_timing(drive, |timing| timing.program = ns(value)),
    },
    Knob {
        name: "flash.timing.bus_bytes_per_s",
        unit: "MB/s",
        range: (100.0, 4_800.0),
        source: "ONFI 2 to 6",
        get: |drive| timing(drive).bus_bytes_per_s as f64 / 1e6,
        set: |drive, value| {
            with_timing(drive, |timing| {
                timing.bus_bytes_per_s = (value * 1e6) as u64;
            });
        },
    },
    Knob {
        name: "controller.command",
        unit: "us",
        range: (0.2, 30.0),
        source: "assumed",
        get: |drive| us(drive.controller.command),
        set: |drive, value| drive.controller.command = ns(value),
    },
    Knob {
        name: "controller.dram_per_unit",
        unit: "us",
        range: (0.05, 8.0),
        source: "4 KiB at 0.5 to 80 GB/s: assumed",
        get: |drive| us(drive.controller.dram_per_unit),
        set: |drive, value| drive.controller.dram_per_unit = ns(value),
    },
    BUFFER,
];

impl Knob {
    /// The value that `drive` has, within the range.
    #[must_use]
    pub fn of(&self, drive: &DriveConfig) -> f64 {
        (self.get)(drive).clamp(self.range.0, self.range.1)
    }

    /// Sets the value of `drive`.
    pub(super) fn turn(&self, drive: &mut DriveConfig, value: f64) {
        (self.set)(drive, value.clamp(self.range.0, self.range.1));
    }
}

fn timing(drive: &DriveConfig) -> nand::Timing {
    drive.timing().expect("a drive that is fitted can be built")
}

fn with_timing(drive: &mut DriveConfig, change: impl FnOnce(&mut nand::Timing)) {
    let mut timing = timing(drive);
    change(&mut timing);
    drive.flash.timing = Some(timing);
}

fn us(time: Ns) -> f64 {
    time.0 as f64 / 1e3
}

fn ns(us: f64) -> Ns {
    Ns((us * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_that_is_set_is_read_back() {
        let mut drive = (ssd::Preset::named("block").unwrap().config)();
        for knob in &KNOBS {
            let value = knob.of(&drive) * 1.25;
            knob.turn(&mut drive, value);
            let found = knob.of(&drive);
            assert!((found / value - 1.0).abs() < 0.02, "{}: {found}", knob.name);
            knob.turn(&mut drive, 1e12);
            assert_eq!(knob.of(&drive), knob.range.1, "{}", knob.name);
        }
    }
}
