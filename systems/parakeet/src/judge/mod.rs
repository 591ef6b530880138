//! Evaluation of placements: write amplification on a small model of a drive, and errors of
//! expected lifetimes.
//!
//! The model: data are blocks, in units that are reclaimed as a whole. Each target has an open
//! unit, and relocated data share one of their own, whatever their target (as a drive with
//! initially isolated handles). When the room is full, the unit with the fewest valid blocks is
//! reclaimed. The model has no time.
//!
//! Invariants: evaluation ends for any events, with an error if they exceed the limits. Valid
//! blocks are those of existing files. A drive has room for all of them.

mod blocks;
mod drive;
mod lifetimes;

pub use lifetimes::{Errors, errors};

use crate::decide::{Decider, Limits};
use crate::event::{Event, FileKey};
use crate::rules::RuleSet;
use crate::translate::Fdp;
use blocks::{Blocks, Change};
use drive::Drive;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of the model drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Size of a block in bytes, above 0.
    pub block: u64,
    /// Number of blocks in a unit of reclaim, above 0.
    pub unit: u32,
    /// Over-provisioning relative to the peak of data, in percent; at least 1.
    pub spare: u32,
    /// Number of targets (placement handles) for data, at least 1.
    pub targets: u32,
}

impl Device {
    /// A drive for a recording whose files hold at most `peak` bytes: blocks of 4 KiB, or of a
    /// 65,536th of `peak` so that the model stays small; 64 units; 7 % spare; 8 targets, as on
    /// drives with flexible data placement.
    ///
    /// 64 units and 7 % are our choices. A drive has hundreds or thousands of units, and files that
    /// are small beside them, which those of a small recording would not be.
    #[must_use]
    pub fn for_peak(peak: u64) -> Self {
        let block = (peak >> 16).next_power_of_two().max(4096);
        let unit = u32::try_from(peak / block / 64).unwrap_or(u32::MAX);
        Self {
            block,
            unit: unit.clamp(4, 1 << 16),
            spare: 7,
            targets: 8,
        }
    }

    /// This drive and variants on which a recording can be judged as well: with units of half and
    /// of twice the size, and with twice the spare.
    ///
    /// A recording has few files, and how they fall on the borders of units changes the
    /// amplification by some percent; the variants average this out.
    #[must_use]
    pub fn alike(self) -> [Self; ALIKE] {
        let with = |unit, spare| Self {
            unit,
            spare,
            ..self
        };
        let (twice, room) = (self.unit.saturating_mul(2), self.spare.saturating_mul(2));
        [
            self,
            with(self.unit.div_ceil(2), self.spare),
            with(twice, self.spare),
            with(self.unit, room),
        ]
    }
}

/// Number of drives that a placement is tried on, so that it does not fit only one.
pub const ALIKE: usize = 4;

/// Maximum number of blocks that are valid at a time.
const MAX_LIVE: u64 = 1 << 24;
/// Maximum number of block writes in a recording.
const MAX_WRITTEN: u64 = 1 << 30;

/// Reasons why a recording cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// The files hold more blocks at a time than the model allows.
    #[error("expected at most {MAX_LIVE} blocks at a time, found more")]
    Live,
    /// The recording writes more blocks than the model allows.
    #[error("expected at most {MAX_WRITTEN} blocks in all, found more")]
    Written,
}

/// Numbers of blocks written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amplification {
    /// Blocks written by the program.
    pub host: u64,
    /// Blocks relocated by the drive.
    pub moved: u64,
}

impl std::iter::Sum for Amplification {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            host: sum.host + one.host,
            moved: sum.moved + one.moved,
        })
    }
}

impl Amplification {
    /// Write amplification in thousandths; 1000 if nothing was written.
    #[must_use]
    pub fn per_mille(&self) -> u64 {
        let all = u128::from(self.host) + u128::from(self.moved);
        let ratio = (all * 1000).checked_div(u128::from(self.host));
        ratio.map_or(1000, |ratio| u64::try_from(ratio).unwrap_or(u64::MAX))
    }
}

/// Peak number of bytes that files hold, in whole blocks of 4 KiB.
///
/// # Errors
/// If the recording exceeds the limits of the model.
pub fn peak<'a>(events: impl Iterator<Item = Event<'a>>) -> Result<u64, JudgeError> {
    most(events, 4096).map(|blocks| blocks * 4096)
}

/// Peak number of blocks that files hold.
fn most<'a>(events: impl Iterator<Item = Event<'a>>, block: u64) -> Result<u64, JudgeError> {
    let mut files: BTreeMap<FileKey, BTreeSet<u64>> = BTreeMap::new();
    let (mut live, mut most) = (0_u64, 0_u64);
    let mut blocks = Blocks::new(block);
    for event in events {
        blocks.take(&event, &mut |change| {
            match change {
                Change::Write(file, at) => {
                    live += u64::from(files.entry(file).or_default().insert(at));
                }
                Change::Cut(file, from) => {
                    if let Some(held) = files.get_mut(&file) {
                        live -= held.split_off(&from).len() as u64;
                        if held.is_empty() {
                            files.remove(&file);
                        }
                    }
                }
            }
            most = most.max(live);
            if live > MAX_LIVE {
                Err(JudgeError::Live)
            } else {
                Ok(())
            }
        })?;
    }
    Ok(most)
}

/// Blocks that `device` writes for `events`. `place` returns the target of the event's file for
/// later writes; targets beyond the last are the last.
///
/// # Errors
/// If the recording exceeds the limits of the model.
pub fn amplification<'a>(
    device: &Device,
    events: impl Iterator<Item = Event<'a>> + Clone,
    place: impl FnMut(&Event<'a>) -> u32,
) -> Result<Amplification, JudgeError> {
    let [judged] = Bench::new([*device], events.clone())?.try_by(events, place)?;
    Ok(judged)
}

/// Like [`amplification`], on several drives with blocks of one size, with a known peak of blocks.
fn on_drives_for<'a, const N: usize>(
    most: u64,
    devices: &[Device; N],
    events: impl Iterator<Item = Event<'a>>,
    mut place: impl FnMut(&Event<'a>) -> u32,
) -> Result<[Amplification; N], JudgeError> {
    let mut drives = devices.each_ref().map(|device| Drive::new(device, most));
    let mut blocks = Blocks::new(devices[0].block.max(1));
    for event in events {
        let target = place(&event);
        blocks.take(&event, &mut |change| {
            for drive in &mut drives {
                match change {
                    Change::Write(file, at) => drive.write(file, at, target),
                    Change::Cut(file, from) => drive.cut(file, from),
                }
            }
            Ok(())
        })?;
    }
    Ok(drives.map(|drive| drive.count()))
}

/// Blocks that `device` writes if `rules` place the files, with FDP handles assigned to streams.
///
/// # Errors
/// If the recording exceeds the limits of the model.
pub fn by_rules<'a>(
    device: &Device,
    rules: &RuleSet,
    events: impl Iterator<Item = Event<'a>> + Clone,
) -> Result<Amplification, JudgeError> {
    let [judged] = Bench::new([*device], events.clone())?.try_rules(rules, events)?;
    Ok(judged)
}

/// Drives with equal block sizes and numbers of targets, on which placements of one recording are
/// tried.
pub struct Bench<const N: usize> {
    devices: [Device; N],
    most: u64,
}

impl<const N: usize> Bench<N> {
    /// A bench of `devices` for a recording of `events`.
    ///
    /// # Errors
    /// If the recording exceeds the limits of the model.
    pub fn new<'a>(
        devices: [Device; N],
        events: impl Iterator<Item = Event<'a>>,
    ) -> Result<Self, JudgeError> {
        let most = most(events, devices[0].block.max(1))?;
        Ok(Self { devices, most })
    }

    /// Blocks that each drive writes if all data go to one target.
    ///
    /// # Errors
    /// If the recording exceeds the limits of the model.
    pub fn try_none<'a>(
        &self,
        events: impl Iterator<Item = Event<'a>>,
    ) -> Result<[Amplification; N], JudgeError> {
        self.try_by(events, |_| 0)
    }

    /// Blocks that each drive writes if `place` returns the target of each event's file.
    ///
    /// # Errors
    /// If the recording exceeds the limits of the model.
    pub fn try_by<'a>(
        &self,
        events: impl Iterator<Item = Event<'a>>,
        place: impl FnMut(&Event<'a>) -> u32,
    ) -> Result<[Amplification; N], JudgeError> {
        on_drives_for(self.most, &self.devices, events, place)
    }

    /// Blocks that each drive writes if `rules` place the files, with FDP handles assigned to
    /// streams.
    ///
    /// # Errors
    /// If the recording exceeds the limits of the model.
    pub fn try_rules<'a>(
        &self,
        rules: &RuleSet,
        events: impl Iterator<Item = Event<'a>>,
    ) -> Result<[Amplification; N], JudgeError> {
        let handles = u16::try_from(self.devices[0].targets).unwrap_or(u16::MAX);
        let fdp = Fdp::new(&rules.streams, handles, 1);
        let mut decider = Decider::new(rules.clone(), Limits::default());
        self.try_by(events, |event| u32::from(fdp.handle(decider.tell(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Call, Opening};
    use units::Ns;

    fn event(file: u64, call: Call<'static>) -> Event<'static> {
        Event {
            at: Ns(0),
            thread: 0,
            file: FileKey(file),
            call,
        }
    }

    /// Files of two kinds, alternating: those with even numbers die after 8 rounds, the others
    /// after 150.
    fn mixed(rounds: u64) -> Vec<Event<'static>> {
        let mut events = Vec::new();
        let mut file = |number: u64, dead: Option<u64>| {
            events.push(event(number, Call::Open(Opening::default())));
            let len = 4096 * 16;
            events.push(event(number, Call::Write { offset: 0, len }));
            events.push(event(number, Call::Close));
            events.extend(dead.map(|dead| event(dead, Call::Gone)));
        };
        for round in 0..rounds {
            file(2 * round, round.checked_sub(8).map(|old| 2 * old));
            file(2 * round + 1, round.checked_sub(150).map(|old| 2 * old + 1));
        }
        events
    }

    #[test]
    fn separating_lifetimes_reduces_relocation() {
        let events = mixed(3_000);
        let all = || events.iter().copied();
        let peak = peak(all()).unwrap();
        assert_eq!(peak, (8 + 1 + 150 + 1) * 65_536 - 65_536);
        // A unit holds no whole number of files; otherwise even a mixture would cost nothing.
        let device = Device {
            block: 4096,
            unit: 200,
            spare: 7,
            targets: 2,
        };
        let of = |place: fn(u64) -> u32| {
            let judged = amplification(&device, all(), |event| place(event.file.0));
            judged.unwrap()
        };
        let (one, two) = (of(|_| 0), of(|file| (file % 2) as u32));
        assert_eq!(one.host, 3_000 * 2 * 16);
        assert_eq!(one.host, two.host);
        assert!(two.moved * 4 < one.moved, "{one:?} {two:?}");
        assert_eq!(
            of(|file| (file % 2) as u32 * 100),
            two,
            "the last target takes the rest"
        );
    }

    #[test]
    fn a_drive_that_is_written_once_moves_nothing() {
        let events = mixed(8);
        let device = Device::for_peak(peak(events.iter().copied()).unwrap());
        let judged = amplification(&device, events.iter().copied(), |_| 0).unwrap();
        assert_eq!(judged.per_mille(), 1000);
        assert_eq!(Amplification::default().per_mille(), 1000);
        let some = Amplification { host: 10, moved: 5 };
        assert_eq!(some.per_mille(), 1500);
    }

    #[test]
    fn recording_beyond_the_limits_is_refused() {
        let write = |offset, len| {
            let calls = [
                Call::Open(Opening::default()),
                Call::Write { offset, len },
                Call::Close,
            ];
            calls.map(|call| event(1, call)).to_vec()
        };
        let judged = |events: Vec<Event<'static>>| peak(events.into_iter());
        assert_eq!(judged(write(0, u64::MAX)), Err(JudgeError::Written));
        assert_eq!(
            judged(write(0, 4096 * (MAX_LIVE + 1))),
            Err(JudgeError::Live)
        );
        assert_eq!(
            judged(write(u64::MAX - 4096, 8192)),
            Ok(8192),
            "cut at the end of all"
        );
    }
}
