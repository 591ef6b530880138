//! How good a placement is: write amplification on a small model of a drive, and the error
//! of lifetimes that were expected.
//!
//! The model: data are blocks, in units that are reclaimed as a whole. Each target has a
//! unit open, and what is relocated has one of its own, whatever target it came from (a
//! drive whose handles are initially isolated). The unit with least valid data is
//! reclaimed when the room is full. There is no time in it.
//!
//! Invariants: it ends for any events, with an error if they ask for more than the limits;
//! valid blocks are those of files that are there; a drive has room for all of them.

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

/// The drive of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Bytes of a block, above 0.
    pub block: u64,
    /// Blocks of a unit that is reclaimed as a whole, above 0.
    pub unit: u32,
    /// Room beside the most data that there are at a time, in percent; at least 1.
    pub spare: u32,
    /// Targets that data are told to, at least 1.
    pub targets: u32,
}

impl Device {
    /// A drive for a recording whose files hold `peak` bytes at most: blocks of 4 KiB or
    /// of a 65,536th of that, so that the model stays small; 64 units; 7 % spare; 8
    /// targets, as drives with flexible data placement have.
    ///
    /// 64 units and 7 % are choices of ours: a drive has hundreds of units or thousands, but
    /// files that are small beside them, as those of a recording that is as small must be.
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

    /// This drive and others that a recording could as well be judged on: with units of half
    /// the size and of twice the size, and with twice as much room to spare.
    ///
    /// A recording has few files beside a drive's, and where the borders of units fall among
    /// them moves what is written by some percent; over several drives that evens out.
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

/// Drives that a placement is tried on, so that it is not made for one.
pub const ALIKE: usize = 4;

/// Blocks that are valid at a time, at most.
const MAX_LIVE: u64 = 1 << 24;
/// Blocks that are written in all, at most.
const MAX_WRITTEN: u64 = 1 << 30;

/// Why a recording cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// More at a time than the model holds.
    #[error("expected at most {MAX_LIVE} blocks at a time, found more")]
    Live,
    /// More in all than the model takes.
    #[error("expected at most {MAX_WRITTEN} blocks in all, found more")]
    Written,
}

/// What was written, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amplification {
    /// By the program.
    pub host: u64,
    /// By the drive, to make room.
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
    /// Write amplification, in thousandths; 1000 if nothing was written.
    #[must_use]
    pub fn per_mille(&self) -> u64 {
        let all = u128::from(self.host) + u128::from(self.moved);
        let ratio = (all * 1000).checked_div(u128::from(self.host));
        ratio.map_or(1000, |ratio| u64::try_from(ratio).unwrap_or(u64::MAX))
    }
}

/// The most bytes that files hold at a time, in whole blocks of 4 KiB.
///
/// # Errors
/// If there are more blocks than can be judged.
pub fn peak<'a>(events: impl Iterator<Item = Event<'a>>) -> Result<u64, JudgeError> {
    most(events, 4096).map(|blocks| blocks * 4096)
}

/// The most blocks that files hold at a time.
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

/// What `device` writes for `events`, when `place` tells the target of the file of each
/// event, for what is written from then on. A target beyond those of the drive is the last
/// one.
///
/// # Errors
/// If there are more blocks than can be judged.
pub fn amplification<'a>(
    device: &Device,
    events: impl Iterator<Item = Event<'a>> + Clone,
    place: impl FnMut(&Event<'a>) -> u32,
) -> Result<Amplification, JudgeError> {
    let [judged] = Bench::new([*device], events.clone())?.try_by(events, place)?;
    Ok(judged)
}

/// The same on several drives with blocks of the same size, when the most blocks at a time
/// are known.
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

/// What `device` writes when `rules` place the files on it, each stream by the handles that
/// it has.
///
/// # Errors
/// If there are more blocks than can be judged.
pub fn by_rules<'a>(
    device: &Device,
    rules: &RuleSet,
    events: impl Iterator<Item = Event<'a>> + Clone,
) -> Result<Amplification, JudgeError> {
    let [judged] = Bench::new([*device], events.clone())?.try_rules(rules, events)?;
    Ok(judged)
}

/// Drives with blocks of the same size and as many targets, on which placements of one
/// recording are tried.
pub struct Bench<const N: usize> {
    devices: [Device; N],
    most: u64,
}

impl<const N: usize> Bench<N> {
    /// That of `devices` for what `events` have.
    ///
    /// # Errors
    /// If there are more blocks than can be judged.
    pub fn new<'a>(
        devices: [Device; N],
        events: impl Iterator<Item = Event<'a>>,
    ) -> Result<Self, JudgeError> {
        let most = most(events, devices[0].block.max(1))?;
        Ok(Self { devices, most })
    }

    /// What each writes when nothing is told apart.
    ///
    /// # Errors
    /// If there are more blocks than can be judged.
    pub fn try_none<'a>(
        &self,
        events: impl Iterator<Item = Event<'a>>,
    ) -> Result<[Amplification; N], JudgeError> {
        self.try_by(events, |_| 0)
    }

    /// What each writes when `place` says for each event where its data belong.
    ///
    /// # Errors
    /// If there are more blocks than can be judged.
    pub fn try_by<'a>(
        &self,
        events: impl Iterator<Item = Event<'a>>,
        place: impl FnMut(&Event<'a>) -> u32,
    ) -> Result<[Amplification; N], JudgeError> {
        on_drives_for(self.most, &self.devices, events, place)
    }

    /// What each writes when `rules` place the files on it, each stream by the handles that
    /// FDP gives it.
    ///
    /// # Errors
    /// If there are more blocks than can be judged.
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

    /// Two kinds of files in turns: those with even numbers die when the next of their
    /// kind comes, the others stay while ten times as many pass.
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
    fn what_dies_together_is_best_kept_together() {
        let events = mixed(3_000);
        let all = || events.iter().copied();
        let peak = peak(all()).unwrap();
        assert_eq!(peak, (8 + 1 + 150 + 1) * 65_536 - 65_536);
        // A unit is not a whole number of files, or even mixing would cost nothing.
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
    fn what_is_too_much_is_refused() {
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
