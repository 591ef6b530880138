//! I/O commands of namespaces.
//!
//! Vendor commands: a drive with byte access has these besides the standard ones.
//!
//! | opcode | command | dwords 10, 11 | dword 12 | dword 13 | data |
//! | --- | --- | --- | --- | --- | --- |
//! | 81h | STORE | first byte | bytes | transaction, 0 for none | to the drive |
//! | 82h | LOAD | first byte | bytes | | to the host |
//! | 84h | COMMIT | | | transaction | none |
//! | 88h | RECOVER | | | | none |
//!
//! Ranges consist of whole 64-byte lines. The first dword of RECOVER's completion is the number of
//! log writes that were replayed.

use crate::entry::Entry;
use crate::status::Status;
use ssd::ZoneAction;
use units::layout::Field;

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Placement hint of the host, from the directive fields.
//= nvme-2.1 8.1.8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    None,
    Stream(u16),
    Placement(u16),
}

/// Options of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writing {
    pub(crate) forced: bool,
    pub(crate) hint: Hint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    Flush,
    Read(Blocks),
    Write(Blocks, Writing),
    Compare(Blocks),
    Zeroes(Blocks, Writing),
    /// Makes reads of the blocks fail until they are written.
    Uncorrectable(Blocks),
    Verify(Blocks),
    /// Number of ranges in the data.
    Dataset {
        ranges: usize,
        deallocate: bool,
    },
    Copy {
        ranges: usize,
        to: u64,
        how: Writing,
    },
    ManageZone {
        /// First block of the zone; none for all zones.
        first: Option<u64>,
        /// None if the action code is unknown.
        action: Option<ZoneAction>,
    },
    /// Commits the random write area of a zone up to a block.
    CommitZone {
        last: u64,
    },
    /// None if the report is unknown.
    ReportZones(Option<Report>),
    Append(Blocks, Writing),
    /// Reports the reclaim unit handles.
    ReportUnits {
        len: u64,
    },
    /// Moves `handles` placement handles, listed in the data, to empty reclaim units.
    RenewUnits {
        handles: usize,
    },
    Store {
        at: u64,
        len: u64,
        tx: u32,
    },
    Load {
        at: u64,
        len: u64,
    },
    Commit {
        tx: u32,
    },
    Recover,
}

/// Selection of a zone report.
//= zns 3.4.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) first: u64,
    /// Zone state to report, by number; 0 for all.
    pub(crate) state: u8,
    /// Whether the count covers only the zones that fit.
    pub(crate) partial: bool,
    pub(crate) len: u64,
}

pub(super) fn parse(entry: &Entry) -> Result<Io, Status> {
    Ok(match entry.opcode() {
        0x00 => Io::Flush,
        0x01 => Io::Write(blocks(entry)?, writing(entry, 20)?),
        0x02 => Io::Read(blocks(entry)?),
        0x04 => Io::Uncorrectable(blocks(entry)?),
        0x05 => Io::Compare(blocks(entry)?),
        0x08 => Io::Zeroes(blocks(entry)?, writing(entry, 20)?),
        0x09 => Io::Dataset {
            ranges: ranges(entry),
            deallocate: entry.dword(11).is_set(2),
        },
        0x0c => Io::Verify(blocks(entry)?),
        0x12 => report_units(entry)?,
        0x19 => copy(entry)?,
        0x1d => renew_units(entry)?,
        0x79 => manage_zone(entry),
        0x7a => Io::ReportZones(report_zones(entry)),
        //= zns 3.4.1
        0x7d => Io::Append(blocks(entry)?, writing(entry, 20)?),
        //= bytefs 4.4
        0x81 => Io::Store {
            at: entry.address(),
            len: entry.dword(12).0.into(),
            tx: entry.dword(13).0,
        },
        0x82 => Io::Load {
            at: entry.address(),
            len: entry.dword(12).0.into(),
        },
        //= bytefs 4.3
        0x84 => Io::Commit {
            tx: entry.dword(13).0,
        },
        //= bytefs 4.7
        0x88 => Io::Recover,
        _ => return Err(Status::InvalidOpcode),
    })
}

/// Block range of a command. Without metadata there is no protection information; a command that
/// requests protection is rejected, so that the host does not rely on it.
//= nvme-nvm 3.2
fn blocks(entry: &Entry) -> Result<Blocks, Status> {
    let dword = entry.dword(12);
    if dword.bits(26, 29) != 0 {
        return Err(Status::InvalidProtection);
    }
    Ok(Blocks {
        first: entry.address(),
        count: u64::from(dword.word(0)) + 1,
    })
}

/// Options of a write; the directive type is at bit `directive` of dword 12.
fn writing(entry: &Entry, directive: u32) -> Result<Writing, Status> {
    let (dword, specific) = (entry.dword(12), entry.dword(13).word(16));
    let hint = match dword.bits(directive, directive + 3) {
        0 => Hint::None,
        1 => Hint::Stream(specific),
        2 => Hint::Placement(specific),
        _ => return Err(Status::InvalidField),
    };
    let forced = dword.is_set(30);
    Ok(Writing { forced, hint })
}

fn ranges(entry: &Entry) -> usize {
    usize::from(entry.dword(10).byte(0)) + 1
}

//= nvme-nvm 3.2.2
fn copy(entry: &Entry) -> Result<Io, Status> {
    let dword = entry.dword(12);
    // Format of the ranges, and protection of source and destination.
    if dword.bits(8, 11) != 0 {
        return Err(Status::InvalidField);
    }
    if dword.bits(12, 15) != 0 || dword.bits(26, 29) != 0 {
        return Err(Status::InvalidProtection);
    }
    Ok(Io::Copy {
        ranges: usize::from(dword.byte(0)) + 1,
        to: entry.address(),
        how: writing(entry, 20)?,
    })
}

//= zns 3.4.3
fn manage_zone(entry: &Entry) -> Io {
    let dword = entry.dword(13);
    let with_area = dword.is_set(9);
    let action = match dword.byte(0) {
        0x01 => Some(ZoneAction::Close),
        0x02 => Some(ZoneAction::Finish),
        0x03 if with_area => Some(ZoneAction::OpenRandom),
        0x03 => Some(ZoneAction::Open),
        0x04 => Some(ZoneAction::Reset),
        0x05 => Some(ZoneAction::Offline),
        0x11 if !dword.is_set(8) => {
            let last = entry.address();
            return Io::CommitZone { last };
        }
        // Zone descriptor extensions are not supported.
        _ => None,
    };
    let first = (!dword.is_set(8)).then(|| entry.address());
    Io::ManageZone { first, action }
}

fn report_zones(entry: &Entry) -> Option<Report> {
    let dword = entry.dword(13);
    let state = match (dword.byte(0), dword.byte(8)) {
        (0, 0) => 0,
        //= zns 3.4.2
        (0, filter @ 1..=7) => [0x1, 0x2, 0x3, 0x4, 0xe, 0xd, 0xf][usize::from(filter) - 1],
        _ => return None,
    };
    Some(Report {
        first: entry.address(),
        state,
        partial: dword.is_set(16),
        len: (u64::from(entry.dword(12).0) + 1) * 4,
    })
}

//= nvme-2.1 7.3
fn report_units(entry: &Entry) -> Result<Io, Status> {
    let len = (u64::from(entry.dword(11).0) + 1) * 4;
    match entry.dword(10).byte(0) {
        1 => Ok(Io::ReportUnits { len }),
        _ => Err(Status::InvalidField),
    }
}

//= nvme-2.1 7.4
fn renew_units(entry: &Entry) -> Result<Io, Status> {
    let dword = entry.dword(10);
    match dword.byte(0) {
        1 => Ok(Io::RenewUnits {
            handles: usize::from(dword.word(16)) + 1,
        }),
        _ => Err(Status::InvalidField),
    }
}

/// Size in bytes of a dataset management range.
pub(crate) const DATASET_RANGE: usize = 16;
/// Size in bytes of a source range of Copy.
pub(crate) const COPY_RANGE: usize = 32;
/// Size in bytes of a placement identifier.
pub(crate) const PLACEMENT: usize = 2;

/// Parses the ranges of a Dataset Management command.
//= nvme-nvm 3.2.3
pub(crate) fn dataset(data: &[u8]) -> impl Iterator<Item = Blocks> {
    data.chunks_exact(DATASET_RANGE).map(|range| Blocks {
        first: Field::<u64>::at(8).get(range),
        count: Field::<u32>::at(4).get(range).into(),
    })
}

/// Parses the source ranges of a Copy command.
//= nvme-nvm 3.2.2
pub(crate) fn sources(data: &[u8]) -> impl Iterator<Item = Blocks> {
    data.chunks_exact(COPY_RANGE).map(|range| Blocks {
        first: Field::<u64>::at(8).get(range),
        count: u64::from(Field::<u16>::at(16).get(range)) + 1,
    })
}

/// Parses a list of placement identifiers, two bytes each.
pub(crate) fn placements(data: &[u8]) -> impl Iterator<Item = u16> {
    data.chunks_exact(PLACEMENT)
        .map(|number| Field::<u16>::at(0).get(number))
}
