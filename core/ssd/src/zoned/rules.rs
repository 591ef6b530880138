//! What a zone may do: states, events, and the one table that joins them.
//!
//! Invariants: [`transition`] is the only thing that says which state follows; it
//! knows no drive, no time and no address. What a state holds of the drive's limits
//! ([`ZoneState::is_open`], [`ZoneState::is_active`]) follows from the state alone, so
//! that what a step needs is the difference of two states.
//!
//! The writes that the table lets pass still have to be at the write pointer and
//! within the capacity: that is arithmetic, and is done where addresses are known.

/// State of a zone that is written in order.
//= zns 2.1.1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneState {
    /// Nothing is written.
    #[default]
    Empty,
    /// Opened by a write.
    ImplicitlyOpen,
    /// Opened by the host.
    ExplicitlyOpen,
    /// Written in part, and not open.
    Closed,
    /// No more can be written.
    Full,
    /// The flash has failed: it can be read, and nothing else.
    ReadOnly,
    /// The flash is gone.
    Offline,
}

use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};

impl ZoneState {
    /// All of them, in the order of the columns of the table.
    pub const ALL: [Self; 7] = [
        Empty,
        ImplicitlyOpen,
        ExplicitlyOpen,
        Closed,
        Full,
        ReadOnly,
        Offline,
    ];

    /// Whether it counts against the limit of open zones.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, ImplicitlyOpen | ExplicitlyOpen)
    }

    /// Whether it counts against the limit of active zones.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Closed)
    }

    /// Whether nothing can be written to it any more, not even after a reset.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        matches!(self, ReadOnly | Offline)
    }

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Empty => "empty",
            ImplicitlyOpen => "implicitly-open",
            ExplicitlyOpen => "explicitly-open",
            Closed => "closed",
            Full => "full",
            ReadOnly => "read-only",
            Offline => "offline",
        }
    }
}

/// What happens to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneEvent {
    /// The host writes, appends, or copies to it.
    Write,
    /// The write pointer has come to the capacity.
    Filled,
    /// The host opens it.
    Open,
    /// The host closes it.
    Close,
    /// The host finishes it.
    Finish,
    /// The host resets it.
    Reset,
    /// The host gives a read-only zone up.
    SetOffline,
    /// The controller closes it to open another one.
    Evicted,
    /// A program has failed.
    ProgramFailed,
    /// There are too few good blocks left for it.
    OutOfBlocks,
    /// The power has come back, and there are data in it.
    PowerOnWritten,
    /// The power has come back, and there are none.
    PowerOnBlank,
}

impl ZoneEvent {
    /// All of them, in the order of the rows of the table.
    pub const ALL: [Self; 12] = [
        Self::Write,
        Self::Filled,
        Self::Open,
        Self::Close,
        Self::Finish,
        Self::Reset,
        Self::SetOffline,
        Self::Evicted,
        Self::ProgramFailed,
        Self::OutOfBlocks,
        Self::PowerOnWritten,
        Self::PowerOnBlank,
    ];
}

/// Why a zoned drive refused a command or failed at it: the status that the
/// specification names.
//= zns 3.1.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ZoneStatus {
    /// Not of whole logical blocks, not the start of a zone, too long, or of a zone
    /// that has no write pointer.
    #[error("Invalid Field in Command: the command does not fit the zones of the drive")]
    InvalidField,
    /// Past the last zone.
    #[error("LBA Out of Range: the command reaches past the last zone")]
    LbaOutOfRange,
    /// An append to a zone with a random write area, or such an area where none may be.
    #[error("Invalid Zone Operation Request: the random write area of the zone forbids it")]
    InvalidZoneOperation,
    /// Every random write area is in use.
    #[error("Zone Random Write Area Resources Unavailable: all of them are in use")]
    NoRandomWriteArea,
    /// Past the capacity of the zone, or read past the end of it.
    #[error("Zone Boundary Error: the command reaches past the capacity or the end of the zone")]
    ZoneBoundary,
    /// Nothing more can be written to it.
    #[error("Zone Is Full")]
    ZoneIsFull,
    /// The flash has failed.
    #[error("Zone Is Read Only: a program of its flash has failed")]
    ZoneIsReadOnly,
    /// The flash is gone.
    #[error("Zone Is Offline: its flash is gone")]
    ZoneIsOffline,
    /// Not at the write pointer.
    #[error("Zone Invalid Write: the write does not begin at the write pointer")]
    ZoneInvalidWrite,
    /// The limit of active zones is reached.
    #[error("Too Many Active Zones: finish or reset one first")]
    TooManyActiveZones,
    /// The limit of open zones is reached, by zones that the host opened itself.
    #[error("Too Many Open Zones: close one first")]
    TooManyOpenZones,
    /// There is no such step in the state machine.
    #[error("Invalid Zone State Transition")]
    InvalidTransition,
    /// What was acknowledged cannot be put on flash.
    #[error("Write Fault: a program of the flash has failed")]
    WriteFault,
    /// The flash gave more errors than can be corrected.
    #[error("Unrecovered Read Error")]
    UnrecoveredRead,
    /// Read beyond what is written, on a drive that refuses it.
    #[error("Deallocated or Unwritten Logical Block")]
    Unwritten,
}

impl ZoneStatus {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::InvalidField,
        Self::LbaOutOfRange,
        Self::InvalidZoneOperation,
        Self::NoRandomWriteArea,
        Self::ZoneBoundary,
        Self::ZoneIsFull,
        Self::ZoneIsReadOnly,
        Self::ZoneIsOffline,
        Self::ZoneInvalidWrite,
        Self::TooManyActiveZones,
        Self::TooManyOpenZones,
        Self::InvalidTransition,
        Self::WriteFault,
        Self::UnrecoveredRead,
        Self::Unwritten,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidField => "invalid field",
            Self::LbaOutOfRange => "out of range",
            Self::InvalidZoneOperation => "invalid zone operation",
            Self::NoRandomWriteArea => "no random write area",
            Self::ZoneBoundary => "zone boundary",
            Self::ZoneIsFull => "zone full",
            Self::ZoneIsReadOnly => "zone read-only",
            Self::ZoneIsOffline => "zone offline",
            Self::ZoneInvalidWrite => "not at the write pointer",
            Self::TooManyActiveZones => "too many active zones",
            Self::TooManyOpenZones => "too many open zones",
            Self::InvalidTransition => "invalid zone transition",
            Self::WriteFault => "write fault",
            Self::UnrecoveredRead => "unrecovered read",
            Self::Unwritten => "unwritten",
        }
    }

    /// Status code type and status code of the completion.
    //= zns 3.1.2
    #[must_use]
    pub const fn code(self) -> (u8, u8) {
        match self {
            Self::InvalidField => (0, 0x02),
            Self::LbaOutOfRange => (0, 0x80),
            Self::InvalidZoneOperation => (1, 0xb6),
            Self::NoRandomWriteArea => (1, 0xb7),
            Self::ZoneBoundary => (1, 0xb8),
            Self::ZoneIsFull => (1, 0xb9),
            Self::ZoneIsReadOnly => (1, 0xba),
            Self::ZoneIsOffline => (1, 0xbb),
            Self::ZoneInvalidWrite => (1, 0xbc),
            Self::TooManyActiveZones => (1, 0xbd),
            Self::TooManyOpenZones => (1, 0xbe),
            Self::InvalidTransition => (1, 0xbf),
            Self::WriteFault => (2, 0x80),
            Self::UnrecoveredRead => (2, 0x81),
            Self::Unwritten => (2, 0x87),
        }
    }
}

/// What an open resource would have to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenRoom {
    /// One is free.
    Free,
    /// None is free, and the controller may close a zone that a write opened.
    ByEviction,
    /// None is free, and the host holds all of them.
    None,
}

/// What is left of the limits of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Whether one more zone may be active.
    pub active: bool,
    /// Whether one more may be open.
    pub open: OpenRoom,
}

/// A step of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state that follows.
    pub to: ZoneState,
    /// Whether the controller has to close another zone first.
    pub evict: bool,
}

#[derive(Clone, Copy)]
enum Rule {
    To(ZoneState),
    Refuse(ZoneStatus),
}

use Rule::To;
const ILLEGAL: Rule = Rule::Refuse(ZoneStatus::InvalidTransition);
const FULL: Rule = Rule::Refuse(ZoneStatus::ZoneIsFull);
const READ_ONLY: Rule = Rule::Refuse(ZoneStatus::ZoneIsReadOnly);
const OFFLINE: Rule = Rule::Refuse(ZoneStatus::ZoneIsOffline);

/// By event, then by state: what follows. A zone of any state may fail; a finish takes
/// no resource, since the zone holds none afterwards.
//= zns 2.1.1
//= zns 3.4.3
#[rustfmt::skip]
const TABLE: [[Rule; 7]; 12] = [
    //             Empty               ImplicitlyOpen      ExplicitlyOpen      Closed              Full          ReadOnly      Offline
    /* Write   */ [To(ImplicitlyOpen), To(ImplicitlyOpen), To(ExplicitlyOpen), To(ImplicitlyOpen), FULL,         READ_ONLY,    OFFLINE],
    /* Filled  */ [ILLEGAL,            To(Full),           To(Full),           ILLEGAL,            ILLEGAL,      ILLEGAL,      ILLEGAL],
    /* Open    */ [To(ExplicitlyOpen), To(ExplicitlyOpen), To(ExplicitlyOpen), To(ExplicitlyOpen), ILLEGAL,      ILLEGAL,      ILLEGAL],
    /* Close   */ [ILLEGAL,            To(Closed),         To(Closed),         To(Closed),         ILLEGAL,      ILLEGAL,      ILLEGAL],
    /* Finish  */ [To(Full),           To(Full),           To(Full),           To(Full),           To(Full),     ILLEGAL,      ILLEGAL],
    /* Reset   */ [To(Empty),          To(Empty),          To(Empty),          To(Empty),          To(Empty),    ILLEGAL,      ILLEGAL],
    /* Offline */ [ILLEGAL,            ILLEGAL,            ILLEGAL,            ILLEGAL,            ILLEGAL,      To(Offline),  To(Offline)],
    /* Evicted */ [ILLEGAL,            To(Closed),         ILLEGAL,            ILLEGAL,            ILLEGAL,      ILLEGAL,      ILLEGAL],
    /* Program */ [To(ReadOnly),       To(ReadOnly),       To(ReadOnly),       To(ReadOnly),       To(ReadOnly), To(ReadOnly), To(Offline)],
    /* Blocks  */ [To(Offline),        To(Offline),        To(Offline),        To(Offline),        To(Offline),  To(Offline),  To(Offline)],
    /* Written */ [To(Closed),         To(Closed),         To(Closed),         To(Closed),         To(Full),     To(ReadOnly), To(Offline)],
    /* Blank   */ [To(Empty),          To(Empty),          To(Empty),          To(Empty),          To(Full),     To(ReadOnly), To(Offline)],
];

/// The state that follows `event` in `state`, with `room` left of the limits.
///
/// # Errors
/// The status of the specification for a step that there is not, or for which a
/// limit leaves no room; nothing changes then.
pub fn transition(state: ZoneState, event: ZoneEvent, room: Room) -> Result<Step, ZoneStatus> {
    let to = match TABLE[event as usize][state as usize] {
        To(to) => to,
        Rule::Refuse(status) => return Err(status),
    };
    // What the power left is within the limits: it was so before.
    if matches!(event, ZoneEvent::PowerOnWritten) {
        return Ok(Step { to, evict: false });
    }
    if to.is_active() && !state.is_active() && !room.active {
        return Err(ZoneStatus::TooManyActiveZones);
    }
    let opens = to.is_open() && !state.is_open();
    if opens && room.open == OpenRoom::None {
        return Err(ZoneStatus::TooManyOpenZones);
    }
    Ok(Step {
        to,
        evict: opens && room.open == OpenRoom::ByEviction,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const ROOMS: [Room; 6] = {
        const fn room(active: bool, open: OpenRoom) -> Room {
            Room { active, open }
        }
        [
            room(true, OpenRoom::Free),
            room(true, OpenRoom::ByEviction),
            room(true, OpenRoom::None),
            room(false, OpenRoom::Free),
            room(false, OpenRoom::ByEviction),
            room(false, OpenRoom::None),
        ]
    };

    /// Every state with every event under every limit, as a page.
    fn page() -> String {
        let mut page = String::from(
            "state | event | active, open | active, by eviction | active, no open | no active, open | no active, by eviction | neither\n",
        );
        for state in ZoneState::ALL {
            for event in ZoneEvent::ALL {
                let cell = |room: Room| match transition(state, event, room) {
                    Ok(Step { to, evict: false }) => to.name().to_owned(),
                    Ok(Step { to, evict: true }) => format!("{} evicting", to.name()),
                    Err(status) => format!("{status:?}"),
                };
                let cells = ROOMS.map(cell);
                let same = cells.iter().all(|cell| *cell == cells[0]);
                let cells = if same {
                    format!("any: {}", cells[0])
                } else {
                    cells.join(" | ")
                };
                let _ = writeln!(page, "{} | {event:?} | {cells}", state.name());
            }
        }
        page
    }

    //= zns 2.1.1
    //= zns 3.1.2
    //= zns 3.4.3
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
        for (index, state) in ZoneState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
        for (index, event) in ZoneEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }

    #[test]
    fn every_status_has_a_code_of_its_own() {
        let mut codes: Vec<_> = ZoneStatus::ALL.map(ZoneStatus::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ZoneStatus::ALL.len());
    }
}
