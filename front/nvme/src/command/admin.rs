//! Admin commands and their parsing.

use crate::entry::{Dword, Entry};
use crate::status::Status;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admin {
    Identify(Identify),
    GetLog(GetLog),
    Abort(Abort),
    SetFeature(SetFeature),
    GetFeature(GetFeature),
    AwaitEvent,
    KeepAlive,
    Format(Format),
    Sanitize(SanitizeAction),
    DirectiveReceive(Directive),
    DirectiveSend(Directive),
}

//= nvme-2.1 5.1.13
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identify {
    /// Selects the data structure (CNS).
    pub(crate) cns: u8,
    pub(crate) nsid: u32,
    pub(crate) controller: u16,
    /// Command set identifier (CSI).
    pub(crate) set: u8,
}

//= nvme-2.1 5.1.12
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GetLog {
    pub(crate) page: u8,
    pub(crate) nsid: u32,
    /// Log specific field (LSP) of the command.
    pub(crate) specific: u8,
    /// Whether reading the page keeps its event masked.
    pub(crate) retain_event: bool,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    /// Log specific identifier, for example an endurance group.
    pub(crate) identifier: u16,
    pub(crate) set: u8,
}

//= nvme-2.1 5.1.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abort {
    pub(crate) queue: u16,
    pub(crate) cid: u16,
}

/// Features of Get Features and Set Features that the controller supports.
//= nvme-2.1 5.1.25
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Arbitration,
    PowerManagement,
    TemperatureThreshold,
    ErrorRecovery,
    WriteCache,
    Queues,
    InterruptCoalescing,
    InterruptVector,
    WriteAtomicity,
    EventConfiguration,
    Timestamp,
    KeepAlive,
    HostBehavior,
    EnduranceEvents,
    CommandSetProfile,
    Fdp,
    FdpEvents,
    HostIdentifier,
}

impl Feature {
    pub(crate) const ALL: [Self; 18] = [
        Self::Arbitration,
        Self::PowerManagement,
        Self::TemperatureThreshold,
        Self::ErrorRecovery,
        Self::WriteCache,
        Self::Queues,
        Self::InterruptCoalescing,
        Self::InterruptVector,
        Self::WriteAtomicity,
        Self::EventConfiguration,
        Self::Timestamp,
        Self::KeepAlive,
        Self::HostBehavior,
        Self::EnduranceEvents,
        Self::CommandSetProfile,
        Self::Fdp,
        Self::FdpEvents,
        Self::HostIdentifier,
    ];

    /// Feature identifier (FID) in commands.
    pub(crate) const fn id(self) -> u8 {
        match self {
            Self::Arbitration => 0x01,
            Self::PowerManagement => 0x02,
            Self::TemperatureThreshold => 0x04,
            Self::ErrorRecovery => 0x05,
            Self::WriteCache => 0x06,
            Self::Queues => 0x07,
            Self::InterruptCoalescing => 0x08,
            Self::InterruptVector => 0x09,
            Self::WriteAtomicity => 0x0a,
            Self::EventConfiguration => 0x0b,
            Self::Timestamp => 0x0e,
            Self::KeepAlive => 0x0f,
            Self::HostBehavior => 0x16,
            Self::EnduranceEvents => 0x18,
            Self::CommandSetProfile => 0x19,
            Self::Fdp => 0x1d,
            Self::FdpEvents => 0x1e,
            Self::HostIdentifier => 0x81,
        }
    }

    fn of(id: u8) -> Result<Self, Status> {
        let found = Self::ALL.into_iter().find(|feature| feature.id() == id);
        found.ok_or(Status::InvalidField)
    }
}

/// Selects a value of a feature.
//= nvme-2.1 5.1.11
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    Current,
    Default,
    Saved,
    Capabilities,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GetFeature {
    pub(crate) feature: Feature,
    pub(crate) select: Select,
    pub(crate) nsid: u32,
    pub(crate) value: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetFeature {
    pub(crate) feature: Feature,
    pub(crate) save: bool,
    pub(crate) nsid: u32,
    pub(crate) value: u32,
    /// Dword 12: a second argument.
    pub(crate) second: u32,
}

//= nvme-2.1 5.1.10
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) nsid: u32,
    /// Index of the LBA format.
    pub(crate) format: u8,
    pub(crate) erase: Erase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    None,
    Data,
}

//= nvme-2.1 5.1.22
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SanitizeAction {
    ExitFailure,
    BlockErase,
}

/// Fields of a Directive Send or Receive.
//= nvme-2.1 8.1.8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) nsid: u32,
    pub(crate) kind: u8,
    pub(crate) operation: u8,
    pub(crate) specific: u16,
    pub(crate) len: u64,
    pub(crate) value: u32,
}

/// Bytes of a zero-based number of dwords.
fn dwords(last: u64) -> u64 {
    (last + 1) * 4
}

pub(super) fn parse(entry: &Entry) -> Result<Admin, Status> {
    Ok(match entry.opcode() {
        0x02 => Admin::GetLog(get_log(entry)),
        0x06 => Admin::Identify(Identify {
            cns: entry.dword(10).byte(0),
            nsid: entry.nsid(),
            controller: entry.dword(10).word(16),
            set: entry.dword(11).byte(24),
        }),
        0x08 => Admin::Abort(Abort {
            queue: entry.dword(10).word(0),
            cid: entry.dword(10).word(16),
        }),
        0x09 => Admin::SetFeature(SetFeature {
            feature: Feature::of(entry.dword(10).byte(0))?,
            save: entry.dword(10).is_set(31),
            nsid: entry.nsid(),
            value: entry.dword(11).0,
            second: entry.dword(12).0,
        }),
        0x0a => Admin::GetFeature(get_feature(entry)?),
        0x0c => Admin::AwaitEvent,
        0x18 => Admin::KeepAlive,
        0x19 => Admin::DirectiveSend(directive(entry)),
        0x1a => Admin::DirectiveReceive(directive(entry)),
        0x80 => Admin::Format(format(entry)?),
        0x84 => Admin::Sanitize(sanitize(entry.dword(10))?),
        _ => return Err(Status::InvalidOpcode),
    })
}

fn get_log(entry: &Entry) -> GetLog {
    let (first, second) = (entry.dword(10), entry.dword(11));
    let last = u64::from(second.word(0)) << 16 | u64::from(first.word(16));
    GetLog {
        page: first.byte(0),
        nsid: entry.nsid(),
        specific: first.bits(8, 14) as u8,
        retain_event: first.is_set(15),
        len: dwords(last),
        offset: u64::from(entry.dword(13).0) << 32 | u64::from(entry.dword(12).0),
        identifier: second.word(16),
        set: entry.dword(14).byte(24),
    }
}

fn get_feature(entry: &Entry) -> Result<GetFeature, Status> {
    let select = match entry.dword(10).bits(8, 10) {
        0 => Select::Current,
        1 => Select::Default,
        2 => Select::Saved,
        3 => Select::Capabilities,
        _ => return Err(Status::InvalidField),
    };
    Ok(GetFeature {
        feature: Feature::of(entry.dword(10).byte(0))?,
        select,
        nsid: entry.nsid(),
        value: entry.dword(11).0,
    })
}

fn format(entry: &Entry) -> Result<Format, Status> {
    let dword = entry.dword(10);
    // Metadata settings, protection and cryptographic erase.
    if dword.bits(4, 8) != 0 {
        return Err(Status::InvalidFormat);
    }
    let erase = match dword.bits(9, 11) {
        0 => Erase::None,
        1 => Erase::Data,
        _ => return Err(Status::InvalidField),
    };
    Ok(Format {
        nsid: entry.nsid(),
        format: (dword.bits(12, 13) << 4 | dword.bits(0, 3)) as u8,
        erase,
    })
}

fn sanitize(dword: Dword) -> Result<SanitizeAction, Status> {
    match dword.bits(0, 2) {
        1 => Ok(SanitizeAction::ExitFailure),
        2 => Ok(SanitizeAction::BlockErase),
        _ => Err(Status::InvalidField),
    }
}

fn directive(entry: &Entry) -> Directive {
    let dword = entry.dword(11);
    Directive {
        nsid: entry.nsid(),
        operation: dword.byte(0),
        kind: dword.byte(8),
        specific: dword.word(16),
        len: dwords(entry.dword(10).0.into()),
        value: entry.dword(12).0,
    }
}
