//! The state machine of a zone: states, events, and the table of transitions.
//!
//! Invariants: only [`transition`] decides which state follows; it depends on no drive, time or
//! address. The share that a zone has in the drive's limits ([`ZoneState::is_open`],
//! [`ZoneState::is_active`]) follows from the state alone, so the resources that a step needs are
//! the difference of two states.
//!
//! A write that the table allows must also be at the write pointer and within the capacity; that is
//! checked where addresses are known.

/// State of a sequential zone.
//= zns 2.1.1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneState {
    /// Without data; the next write starts at its first address.
    #[default]
    Empty,
    /// Opened by a write.
    ImplicitlyOpen,
    /// Opened by the host.
    ExplicitlyOpen,
    /// Written in part, and not open.
    Closed,
    /// No more data can be written before a reset.
    Full,
    /// A program failed: the zone can be read, and nothing else.
    ReadOnly,
    /// Unusable: its blocks are lost.
    Offline,
}

use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};

impl ZoneState {
    /// Every state, in the order of the table's columns.
    pub const ALL: [Self; 7] = [
        Empty,
        ImplicitlyOpen,
        ExplicitlyOpen,
        Closed,
        Full,
        ReadOnly,
        Offline,
    ];

    /// Whether the zone counts against the limit of open zones.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, ImplicitlyOpen | ExplicitlyOpen)
    }

    /// Whether the zone counts against the limit of active zones.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Closed)
    }

    /// Whether the zone can never be written again, not even after a reset.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        matches!(self, ReadOnly | Offline)
    }

    /// The state's name in reports.
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

/// Event in the life of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneEvent {
    /// The host writes, appends, or copies to the zone.
    Write,
    /// The write pointer reached the capacity.
    Filled,
    /// The host opens the zone.
    Open,
    /// The host closes the zone.
    Close,
    /// The host finishes the zone.
    Finish,
    /// The host resets the zone.
    Reset,
    /// The host takes a read-only zone offline.
    SetOffline,
    /// The controller closes the zone to open another one.
    Evicted,
    /// A program of the zone failed.
    ProgramFailed,
    /// Too few good blocks are left for the zone.
    OutOfBlocks,
    /// The power returned, and the zone has data.
    PowerOnWritten,
    /// The power returned, and the zone has no data.
    PowerOnBlank,
}

impl ZoneEvent {
    /// Every event, in the order of the table's rows.
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

/// Status of a command that a zoned drive rejected or failed, named as in the specification.
//= zns 3.1.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ZoneStatus {
    /// The command does not cover whole logical blocks, does not name the start of a zone, is too
    /// long, or names a zone without write pointer.
    #[error("Invalid Field in Command: the command does not fit the zones of the drive")]
    InvalidField,
    /// The command reaches past the last zone.
    #[error("LBA Out of Range: the command reaches past the last zone")]
    LbaOutOfRange,
    /// An append to a zone with a random write area, or an attempt to create such an area in a zone
    /// that is not empty.
    #[error("Invalid Zone Operation Request: the random write area of the zone forbids it")]
    InvalidZoneOperation,
    /// Every random write area is in use.
    #[error("Zone Random Write Area Resources Unavailable: all of them are in use")]
    NoRandomWriteArea,
    /// A write past the capacity of the zone, or a read past its end.
    #[error("Zone Boundary Error: the command reaches past the capacity or the end of the zone")]
    ZoneBoundary,
    /// The zone is full.
    #[error("Zone Is Full")]
    ZoneIsFull,
    /// A program of the zone's flash failed.
    #[error("Zone Is Read Only: a program of its flash has failed")]
    ZoneIsReadOnly,
    /// The zone's flash is lost.
    #[error("Zone Is Offline: its flash is gone")]
    ZoneIsOffline,
    /// The write does not start at the write pointer.
    #[error("Zone Invalid Write: the write does not begin at the write pointer")]
    ZoneInvalidWrite,
    /// The limit of active zones is reached.
    #[error("Too Many Active Zones: finish or reset one first")]
    TooManyActiveZones,
    /// The limit of open zones is reached, by zones that the host opened itself.
    #[error("Too Many Open Zones: close one first")]
    TooManyOpenZones,
    /// The state machine has no such step.
    #[error("Invalid Zone State Transition")]
    InvalidTransition,
    /// Data cannot be written to flash.
    #[error("Write Fault: a program of the flash has failed")]
    WriteFault,
    /// The flash returned more bit errors than can be corrected.
    #[error("Unrecovered Read Error")]
    UnrecoveredRead,
    /// A read beyond the written data, on a drive that rejects such reads.
    #[error("Deallocated or Unwritten Logical Block")]
    Unwritten,
}

impl ZoneStatus {
    /// Every status, in the order of declaration.
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

    /// The status's name in reports.
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

/// Source of the resource for one more open zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenRoom {
    /// An open resource is free.
    Free,
    /// No resource is free, but the controller may close a zone that a write opened.
    ByEviction,
    /// No resource is free, and the host opened all open zones.
    None,
}

/// Resources left of the limits of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Whether one more zone may be active.
    pub active: bool,
    /// Whether one more zone may be open.
    pub open: OpenRoom,
}

/// A step of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// State after the step.
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

/// Next state or status, by event and then by state. A zone of any state may fail; a finish takes
/// no resource, because the zone holds none afterwards.
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

/// The state after `event` in `state`, with `room` left of the limits.
///
/// # Errors
/// The specification's status if the step is illegal, or if a limit leaves no room; the state does
/// not change then.
pub fn transition(state: ZoneState, event: ZoneEvent, room: Room) -> Result<Step, ZoneStatus> {
    let to = match TABLE[event as usize][state as usize] {
        To(to) => to,
        Rule::Refuse(status) => return Err(status),
    };
    // Zones that survived a power cycle are within the limits, as they were before.
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

    /// A page with the result of every event in every state under every limit.
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
    fn zone_transitions_match_the_golden_page() {
        let golden = include_str!("transitions.txt");
        for (number, (is, was)) in page().lines().zip(golden.lines()).enumerate() {
            assert_eq!(is, was, "line {}", number + 1);
        }
        assert_eq!(page(), golden);
    }

    #[test]
    fn zone_table_order_matches_its_enums() {
        for (index, state) in ZoneState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
        for (index, event) in ZoneEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }

    #[test]
    fn zone_status_codes_are_distinct() {
        let mut codes: Vec<_> = ZoneStatus::ALL.map(ZoneStatus::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ZoneStatus::ALL.len());
    }
}
