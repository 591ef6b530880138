//! States of a chunk, and the transitions between them.
//!
//! Invariants: only [`transition`] decides which state follows a command or a failure, and only
//! [`found`] which state follows a power-on; neither depends on a drive, a time or an address.
//! Whether a write starts at the write pointer and stays within its chunk is checked where
//! addresses are known.

/// State of a chunk.
//= ocssd-2.0 1.2.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkState {
    /// Erased; the next write starts at its first block.
    #[default]
    Free,
    /// Written up to its write pointer.
    Open,
    /// Written to its end, or to the point where a program failed.
    Closed,
    /// Unusable: an erase failed, or its blocks were retired.
    Offline,
}

use ChunkState::{Closed, Free, Offline, Open};

impl ChunkState {
    /// Every state, in the order of the table's columns.
    pub const ALL: [Self; 4] = [Free, Open, Closed, Offline];

    /// The state's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Free => "free",
            Open => "open",
            Closed => "closed",
            Offline => "offline",
        }
    }

    /// The state's bit in a chunk report.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Free => 1,
            Closed => 1 << 1,
            Open => 1 << 2,
            Offline => 1 << 3,
        }
    }
}

/// Event in the life of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkEvent {
    /// The host writes or copies to the chunk.
    Write,
    /// The write pointer reached the end of the chunk.
    Filled,
    /// A program failed: no block can be written beyond it.
    ProgramFailed,
    /// The host resets the chunk.
    Reset,
    /// The erase of a reset failed, or a block of the chunk had been retired.
    EraseFailed,
}

impl ChunkEvent {
    /// Every event, in the order of the table's rows.
    pub const ALL: [Self; 5] = [
        Self::Write,
        Self::Filled,
        Self::ProgramFailed,
        Self::Reset,
        Self::EraseFailed,
    ];
}

/// Status of a failed command of an open-channel drive, named as in the specification.
//= ocssd-2.0 4
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum RawStatus {
    /// The list has no or too many addresses, is no multiple of the smallest write, or does not
    /// match the data.
    #[error("Invalid Field in Command: the list of addresses does not fit the drive")]
    InvalidField,
    /// The firmware never takes this step.
    #[error("Internal Error: the chunk has no such step")]
    Internal,
    /// There is no such group, parallel unit, chunk or block.
    #[error("LBA Out of Range: there is no such address")]
    OutOfRange,
    /// The block cannot be read yet, and the drive rejects such reads.
    #[error("Deallocated or Unwritten Logical Block: it is not behind the write pointer yet")]
    Unwritten,
    /// The flash returned more bit errors than can be corrected.
    #[error("Unrecovered Read Error")]
    UnrecoveredRead,
    /// The chunk is offline, or the reset took it offline.
    #[error("Offline Chunk: its flash is gone")]
    OfflineChunk,
    /// The chunk to reset is free or open.
    #[error("Invalid Reset: only a closed chunk is reset")]
    InvalidReset,
    /// A program failed, and the chunk was closed.
    #[error("Write Fail, Chunk Early Close: it can be read up to its write pointer")]
    EarlyClose,
    /// The write does not start at the write pointer, or the chunk is closed or offline.
    #[error("Write Out of Order: the write does not begin at the write pointer of an open chunk")]
    OutOfOrder,
}

impl RawStatus {
    /// Every status, in the order of declaration.
    pub const ALL: [Self; 9] = [
        Self::InvalidField,
        Self::Internal,
        Self::OutOfRange,
        Self::Unwritten,
        Self::UnrecoveredRead,
        Self::OfflineChunk,
        Self::InvalidReset,
        Self::EarlyClose,
        Self::OutOfOrder,
    ];

    /// Status code type and status code of the completion.
    //= ocssd-2.0 4
    #[must_use]
    pub const fn code(self) -> (u8, u8) {
        match self {
            Self::InvalidField => (0, 0x02),
            Self::Internal => (0, 0x06),
            Self::OutOfRange => (0, 0x80),
            Self::Unwritten => (2, 0x87),
            Self::UnrecoveredRead => (2, 0x81),
            Self::OfflineChunk => (2, 0xc0),
            Self::InvalidReset => (2, 0xc1),
            Self::EarlyClose => (2, 0xf1),
            Self::OutOfOrder => (2, 0xf2),
        }
    }
}

#[derive(Clone, Copy)]
enum Rule {
    To(ChunkState),
    Refuse(RawStatus),
}

use Rule::To;
const NEVER: Rule = Rule::Refuse(RawStatus::Internal);
const ORDER: Rule = Rule::Refuse(RawStatus::OutOfOrder);
const RESET: Rule = Rule::Refuse(RawStatus::InvalidReset);
const GONE: Rule = Rule::Refuse(RawStatus::OfflineChunk);

/// Next state or status, by event and then by state.
//= ocssd-2.0 1.2.4
#[rustfmt::skip]
const TABLE: [[Rule; 4]; 5] = [
    //                   Free      Open        Closed       Offline
    /* Write         */ [To(Open), To(Open),   ORDER,       ORDER],
    /* Filled        */ [NEVER,    To(Closed), NEVER,       NEVER],
    /* ProgramFailed */ [NEVER,    To(Closed), NEVER,       NEVER],
    /* Reset         */ [RESET,    RESET,      To(Free),    GONE],
    /* EraseFailed   */ [NEVER,    NEVER,      To(Offline), NEVER],
];

/// The state after `event` in `state`.
///
/// # Errors
/// The specification's status if the event is illegal in `state`; the chunk does not change then.
pub const fn transition(state: ChunkState, event: ChunkEvent) -> Result<ChunkState, RawStatus> {
    match TABLE[event as usize][state as usize] {
        To(to) => Ok(to),
        Rule::Refuse(status) => Err(status),
    }
}

/// Condition of a chunk's blocks at power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// All blocks are erased.
    Blank,
    /// The first programs are readable, and the next one can be made.
    Part,
    /// The first programs are readable, and none can follow: the blocks are full, or a program was
    /// torn or had failed. No program is readable after a torn erase.
    End,
    /// A block is bad, and no program is readable.
    Bad,
}

impl Found {
    /// Every condition, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Blank, Self::Part, Self::End, Self::Bad];
}

/// The state of a chunk after power-on.
#[must_use]
pub const fn found(found: Found) -> ChunkState {
    match found {
        Found::Blank => Free,
        Found::Part => Open,
        Found::End => Closed,
        Found::Bad => Offline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// A page with the result of every event in every state, and of every condition at power-on.
    fn page() -> String {
        let mut page = String::from("state | event | follows\n");
        for state in ChunkState::ALL {
            for event in ChunkEvent::ALL {
                let follows = match transition(state, event) {
                    Ok(to) => to.name().to_owned(),
                    Err(status) => format!("{status:?}"),
                };
                let _ = writeln!(page, "{} | {event:?} | {follows}", state.name());
            }
        }
        for what in Found::ALL {
            let _ = writeln!(page, "no power | {what:?} | {}", found(what).name());
        }
        page
    }

    //= ocssd-2.0 1.2.4
    //= ocssd-2.0 4
    #[test]
    fn chunk_transitions_match_the_golden_page() {
        let golden = include_str!("transitions.txt");
        for (number, (is, was)) in page().lines().zip(golden.lines()).enumerate() {
            assert_eq!(is, was, "line {}", number + 1);
        }
        assert_eq!(page(), golden);
    }

    #[test]
    fn chunk_table_order_matches_its_enums() {
        for (index, state) in ChunkState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
        for (index, event) in ChunkEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }

    #[test]
    fn raw_status_codes_are_distinct() {
        let mut codes: Vec<_> = RawStatus::ALL.map(RawStatus::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), RawStatus::ALL.len());
    }
}
