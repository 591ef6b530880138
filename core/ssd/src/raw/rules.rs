//! The states of a chunk, and every step that joins them.
//!
//! Invariants: [`transition`] is the only thing that says which state follows a command or
//! a failure, and [`found`] the only one that says it of a power-on; neither knows a drive,
//! a time or an address. That a write is at the write pointer and within its chunk is
//! arithmetic, and is done where addresses are known.

/// State of a chunk.
//= ocssd-2.0 1.2.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkState {
    /// Nothing is written; the next write begins it.
    #[default]
    Free,
    /// Written up to its write pointer.
    Open,
    /// Written to its end, or to where a program failed.
    Closed,
    /// Its flash is gone.
    Offline,
}

use ChunkState::{Closed, Free, Offline, Open};

impl ChunkState {
    /// All of them, in the order of the columns of the table.
    pub const ALL: [Self; 4] = [Free, Open, Closed, Offline];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Free => "free",
            Open => "open",
            Closed => "closed",
            Offline => "offline",
        }
    }

    /// Its bit in a chunk report.
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

/// What happens to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkEvent {
    /// The host writes or copies to it.
    Write,
    /// The write pointer has come to its end.
    Filled,
    /// A program has failed: nothing more can be written behind it.
    ProgramFailed,
    /// The host resets it.
    Reset,
    /// The erase of a reset has failed, or its blocks were to be used no more.
    EraseFailed,
}

impl ChunkEvent {
    /// All of them, in the order of the rows of the table.
    pub const ALL: [Self; 5] = [
        Self::Write,
        Self::Filled,
        Self::ProgramFailed,
        Self::Reset,
        Self::EraseFailed,
    ];
}

/// Why a command of an open-channel drive failed: the status that the specification names.
//= ocssd-2.0 4
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum RawStatus {
    /// No addresses or too many, not in units of the least write, or more or fewer data.
    #[error("Invalid Field in Command: the list of addresses does not fit the drive")]
    InvalidField,
    /// A step that the firmware never takes.
    #[error("Internal Error: the chunk has no such step")]
    Internal,
    /// No such group, parallel unit, chunk or block.
    #[error("LBA Out of Range: there is no such address")]
    OutOfRange,
    /// Read beyond what can be read yet, on a drive that refuses it.
    #[error("Deallocated or Unwritten Logical Block: it is not behind the write pointer yet")]
    Unwritten,
    /// The flash gave more errors than can be corrected.
    #[error("Unrecovered Read Error")]
    UnrecoveredRead,
    /// The chunk is offline, or a reset has made it so.
    #[error("Offline Chunk: its flash is gone")]
    OfflineChunk,
    /// A reset of a chunk that is free or open.
    #[error("Invalid Reset: only a closed chunk is reset")]
    InvalidReset,
    /// A program has failed, and the chunk is closed.
    #[error("Write Fail, Chunk Early Close: it can be read up to its write pointer")]
    EarlyClose,
    /// Not at the write pointer, or to a chunk that is closed or offline.
    #[error("Write Out of Order: the write does not begin at the write pointer of an open chunk")]
    OutOfOrder,
}

impl RawStatus {
    /// All of them.
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

/// By event, then by state: what follows.
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

/// The state that follows `event` in `state`.
///
/// # Errors
/// The status of the specification for a step that there is not; nothing changes then.
pub const fn transition(state: ChunkState, event: ChunkEvent) -> Result<ChunkState, RawStatus> {
    match TABLE[event as usize][state as usize] {
        To(to) => Ok(to),
        Rule::Refuse(status) => Err(status),
    }
}

/// What power-on finds of the blocks of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// All are erased.
    Blank,
    /// Their first programs can be read, and the next one can be made.
    Part,
    /// Their first programs can be read, and that is all there can be: they are full, or a
    /// program was torn or had failed. None can be read if an erase was torn.
    End,
    /// One is bad, and nothing can be read.
    Bad,
}

impl Found {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Blank, Self::Part, Self::End, Self::Bad];
}

/// The state of a chunk when the power has come back.
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

    /// Every state with every event, and everything that power-on may find, as a page.
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
    fn every_step_legal_and_illegal_is_as_written_down() {
        let golden = include_str!("transitions.txt");
        for (number, (is, was)) in page().lines().zip(golden.lines()).enumerate() {
            assert_eq!(is, was, "line {}", number + 1);
        }
        assert_eq!(page(), golden);
    }

    #[test]
    fn columns_and_rows_are_in_the_order_of_their_enums() {
        for (index, state) in ChunkState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
        for (index, event) in ChunkEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }

    #[test]
    fn every_status_has_a_code_of_its_own() {
        let mut codes: Vec<_> = RawStatus::ALL.map(RawStatus::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), RawStatus::ALL.len());
    }
}
