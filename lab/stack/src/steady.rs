//! Detection of the steady state of garbage collection.
//!
//! The rule: two consecutive windows, each of at least the drive's capacity in host
//! writes, whose write amplification agrees within 2 %. A window in which the drive erased
//! nothing does not count: a drive that still fills its spare has the same amplification in
//! every window, and another one afterwards. The last two windows decide, so a workload that
//! changes loses the state again.
//!
//! Windows of a file system in use count the bytes of programs in place of those of the host.

use host::BlockDevice;
pub use report::caution::MOST_WINDOWS;
use std::cell::Cell;
use units::SECTOR;

/// Largest difference of amplification between two windows, as a share of the larger one.
const AGREEMENT: f64 = 0.02;

/// Counters over the life of a drive: bytes written by hosts and programmed, blocks erased.
#[derive(Clone, Copy, Default)]
struct Counts {
    written: u64,
    programmed: u64,
    erased: u64,
}

impl Counts {
    fn now(device: &BlockDevice) -> Self {
        let drive = device.drive();
        let smart = drive.smart();
        Self {
            written: smart.host_write_sectors * SECTOR,
            programmed: smart.programmed_pages * drive.layout().page_bytes(),
            erased: smart.erased_blocks,
        }
    }
}

/// The windows of a run: closed ones are counted.
pub(crate) struct Windows {
    first: Counts,
    begun: Cell<Counts>,
    closed: Cell<u32>,
    /// Amplification of the last two windows, the later one last; `None` for a window without
    /// erases.
    last: Cell<[Option<f64>; 2]>,
}

impl Windows {
    /// The windows of a run on `device` that starts now.
    pub(crate) fn new(device: &BlockDevice) -> Self {
        Self::begin(Counts::now(device))
    }

    const fn begin(first: Counts) -> Self {
        Self {
            first,
            begun: Cell::new(first),
            closed: Cell::new(0),
            last: Cell::new([None; 2]),
        }
    }

    /// Windows of bytes that programs write, of which they have `written` some until now: the
    /// amplification is that of file system and drive together.
    pub(crate) fn from(device: &BlockDevice, written: u64) -> Self {
        Self::begin(Counts {
            written,
            ..Counts::now(device)
        })
    }

    /// Closes the current window once the host has written the capacity of `device` in it.
    pub(crate) fn look(&self, device: &BlockDevice) {
        self.close(device, Counts::now(device));
    }

    /// Closes the current window once programs, which have `written` bytes until now, have written
    /// the capacity of `device` in it.
    pub(crate) fn look_at(&self, device: &BlockDevice, written: u64) {
        let now = Counts {
            written,
            ..Counts::now(device)
        };
        self.close(device, now);
    }

    fn close(&self, device: &BlockDevice, now: Counts) {
        let begun = self.begun.get();
        let written = now.written - begun.written;
        if written < device.drive().config().capacity.0 {
            return;
        }
        let programmed = now.programmed - begun.programmed;
        let counts = now.erased > begun.erased;
        let amplification = counts.then(|| programmed as f64 / written as f64);
        self.last.set([self.last.get()[1], amplification]);
        self.closed.set(self.closed.get() + 1);
        self.begun.set(now);
    }

    /// Number of windows closed.
    pub(crate) fn closed(&self) -> u32 {
        self.closed.get()
    }

    /// Amplification of the last window; `None` before the first one, and for a window without
    /// erases.
    pub(crate) fn amplification(&self) -> Option<f64> {
        self.last.get()[1]
    }

    /// Whether the last two windows agree.
    pub(crate) fn is_steady(&self) -> bool {
        matches!(self.last.get(), [Some(a), Some(b)] if agree(a, b))
    }

    /// Bytes that the host has written since the start of the run.
    pub(crate) fn written(&self, device: &BlockDevice) -> u64 {
        Counts::now(device).written - self.first.written
    }

    /// Whether the run is steady; `None` if nothing was written, or if the drive has zones and
    /// moves no data of its own.
    pub(crate) fn verdict(&self, device: &BlockDevice) -> Option<bool> {
        let is_moot = self.written(device) == 0 || device.drive().zones().is_some();
        (!is_moot).then(|| self.is_steady())
    }
}

/// Whether two amplifications differ by at most [`AGREEMENT`].
fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= AGREEMENT * a.max(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplifications_two_percent_apart_agree_and_more_do_not() {
        assert!(agree(2.0, 1.961) && agree(1.961, 2.0));
        assert!(!agree(2.0, 1.95) && !agree(1.0, 1.03));
    }
}
