//! How a command ended, as its completion says it.
//!
//! Invariant: every refusal of this crate is a [`Status`]; its numbers are here.

use ssd::ZoneStatus;

/// Kinds of status codes.
//= nvme-2.1 4.2.3
const GENERIC: u16 = 0;
const SPECIFIC: u16 = 1;
const MEDIA: u16 = 2;

/// Why a command was refused or failed.
//= nvme-2.1 4.2.3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// There is no such command here.
    InvalidOpcode,
    /// A field has a value that it may not have.
    InvalidField,
    /// The drive cannot go on: its file cannot be written, or it is gone.
    InternalError,
    /// The power of the drive was cut: it is not told, but the connection breaks.
    PowerLost,
    /// Data were damaged on their way; the command may come again.
    TransientTransport,
    /// There is no time for it now; the command may come again.
    Interrupted,
    /// Another command of this name is under way.
    CommandIdConflict,
    /// The host took it back.
    AbortRequested,
    /// There is no such namespace, or it is not attached.
    InvalidNamespace,
    /// It may not come now.
    CommandSequence,
    /// The data have another length than the command.
    DataLengthInvalid,
    /// Data are described in a way that is not known here.
    SglTypeInvalid,
    /// Data in the capsule that are not in the capsule.
    SglOffsetInvalid,
    /// Memory of the host that is not there, or not as it is used.
    DataTransfer,
    /// A page, or a list of pages, that begins where none may.
    PrpOffset,
    /// A segment that is none, or has no end.
    SglSegment,
    /// More descriptors of data than a command may have.
    SglCount,
    /// Nothing can be written to the namespace any more.
    WriteProtected,
    /// There are no placement handles.
    FdpDisabled,
    /// A placement handle does not exist.
    InvalidPlacementHandles,
    /// Beyond the end of the namespace.
    LbaOutOfRange,
    /// There is no such queue.
    InvalidQueue,
    /// There is no such queue for completions.
    InvalidCompletionQueue,
    /// No queue has so many entries.
    InvalidQueueSize,
    /// There is no such interrupt.
    InvalidVector,
    /// Other queues need it.
    InvalidQueueDeletion,
    /// More requests for events than may wait.
    TooManyEventRequests,
    /// There is no such log page.
    InvalidLogPage,
    /// There is no such format.
    InvalidFormat,
    /// Features are not saved.
    FeatureNotSaveable,
    /// The feature is as it is.
    FeatureNotChangeable,
    /// Protection of data is asked for, which is not there.
    InvalidProtection,
    /// More is asked for than a command of this kind may.
    CommandSizeLimit,
    /// The combination of command sets is not there.
    CommandSetCombination,
    /// The format of a Connect is not known.
    ConnectIncompatible,
    /// No more controllers or queues.
    ConnectBusy,
    /// A field of a Connect: the first byte that is wrong.
    ConnectInvalid {
        /// Whether it is one of the data, or else of the command.
        data: bool,
        /// The byte.
        at: u16,
    },
    /// The host may not use the subsystem.
    ConnectInvalidHost,
    /// The host has to prove first that it is who it says.
    AuthenticationRequired,
    /// What is there differs from what was expected.
    CompareFailure,
    /// The flash cannot be read.
    UnrecoveredRead,
    /// The flash cannot be written.
    WriteFault,
    /// What the rules of zones say.
    Zone(ZoneStatus),
}

impl Status {
    /// Kind and number.
    #[must_use]
    pub const fn code(self) -> (u16, u16) {
        match self {
            Self::InvalidOpcode => (GENERIC, 0x01),
            Self::InvalidField => (GENERIC, 0x02),
            Self::CommandIdConflict => (GENERIC, 0x03),
            Self::DataTransfer => (GENERIC, 0x04),
            Self::InternalError | Self::PowerLost => (GENERIC, 0x06),
            Self::AbortRequested => (GENERIC, 0x07),
            Self::InvalidNamespace => (GENERIC, 0x0b),
            Self::CommandSequence => (GENERIC, 0x0c),
            Self::SglSegment => (GENERIC, 0x0d),
            Self::SglCount => (GENERIC, 0x0e),
            Self::DataLengthInvalid => (GENERIC, 0x0f),
            Self::SglTypeInvalid => (GENERIC, 0x11),
            Self::PrpOffset => (GENERIC, 0x13),
            Self::SglOffsetInvalid => (GENERIC, 0x16),
            Self::WriteProtected => (GENERIC, 0x20),
            Self::Interrupted => (GENERIC, 0x21),
            Self::TransientTransport => (GENERIC, 0x22),
            Self::FdpDisabled => (GENERIC, 0x29),
            Self::InvalidPlacementHandles => (GENERIC, 0x2a),
            Self::LbaOutOfRange => (GENERIC, 0x80),
            Self::InvalidCompletionQueue => (SPECIFIC, 0x00),
            Self::InvalidQueue => (SPECIFIC, 0x01),
            Self::InvalidQueueSize => (SPECIFIC, 0x02),
            Self::TooManyEventRequests => (SPECIFIC, 0x05),
            Self::InvalidVector => (SPECIFIC, 0x08),
            Self::InvalidLogPage => (SPECIFIC, 0x09),
            Self::InvalidFormat => (SPECIFIC, 0x0a),
            Self::InvalidQueueDeletion => (SPECIFIC, 0x0c),
            Self::FeatureNotSaveable => (SPECIFIC, 0x0d),
            Self::FeatureNotChangeable => (SPECIFIC, 0x0e),
            Self::CommandSetCombination => (SPECIFIC, 0x2b),
            Self::ConnectIncompatible => (SPECIFIC, 0x80),
            Self::InvalidProtection | Self::ConnectBusy => (SPECIFIC, 0x81),
            Self::ConnectInvalid { .. } => (SPECIFIC, 0x82),
            Self::CommandSizeLimit => (SPECIFIC, 0x83),
            Self::ConnectInvalidHost => (SPECIFIC, 0x84),
            Self::AuthenticationRequired => (SPECIFIC, 0x91),
            Self::WriteFault => (MEDIA, 0x80),
            Self::UnrecoveredRead => (MEDIA, 0x81),
            Self::CompareFailure => (MEDIA, 0x85),
            Self::Zone(status) => zone_code(status),
        }
    }

    /// Whether the same command would end in the same way again.
    const fn is_lasting(self) -> bool {
        !matches!(
            self,
            Self::AbortRequested
                | Self::InternalError
                | Self::PowerLost
                | Self::ConnectBusy
                | Self::TooManyEventRequests
                | Self::TransientTransport
                | Self::Interrupted
                | Self::Zone(ZoneStatus::TooManyActiveZones | ZoneStatus::TooManyOpenZones)
        )
    }

    /// The status field of a completion, with the phase bit clear.
    #[must_use]
    pub const fn field(self) -> u16 {
        let (kind, code) = self.code();
        (self.is_lasting() as u16) << 15 | kind << 9 | code << 1
    }

    /// What the first dword of the completion says besides.
    #[must_use]
    pub fn result(self) -> u64 {
        match self {
            //= nvme-2.1 6.3
            Self::ConnectInvalid { data, at } => u64::from(data) << 16 | u64::from(at),
            _ => 0,
        }
    }
}

/// What the rules of zones refuse.
//= zns 2.3
const fn zone_code(status: ZoneStatus) -> (u16, u16) {
    match status {
        ZoneStatus::InvalidField => (GENERIC, 0x02),
        ZoneStatus::LbaOutOfRange => (GENERIC, 0x80),
        ZoneStatus::InvalidZoneOperation => (SPECIFIC, 0xb6),
        ZoneStatus::NoRandomWriteArea => (SPECIFIC, 0xb7),
        ZoneStatus::ZoneBoundary => (SPECIFIC, 0xb8),
        ZoneStatus::ZoneIsFull => (SPECIFIC, 0xb9),
        ZoneStatus::ZoneIsReadOnly => (SPECIFIC, 0xba),
        ZoneStatus::ZoneIsOffline => (SPECIFIC, 0xbb),
        ZoneStatus::ZoneInvalidWrite => (SPECIFIC, 0xbc),
        ZoneStatus::TooManyActiveZones => (SPECIFIC, 0xbd),
        ZoneStatus::TooManyOpenZones => (SPECIFIC, 0xbe),
        ZoneStatus::InvalidTransition => (SPECIFIC, 0xbf),
        ZoneStatus::WriteFault => (MEDIA, 0x80),
        ZoneStatus::UnrecoveredRead => (MEDIA, 0x81),
        ZoneStatus::Unwritten => (MEDIA, 0x87),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_lies_where_the_completion_has_it() {
        // Bit 15: do not retry; 9 to 11: kind; 1 to 8: number; 0: phase.
        assert_eq!(Status::InvalidField.field(), 0x8004);
        assert_eq!(Status::InternalError.field(), 0x000c);
        assert_eq!(Status::CompareFailure.field(), 0x850a);
        assert_eq!(Status::Zone(ZoneStatus::ZoneIsFull).field(), 0x8372);
        let wrong = Status::ConnectInvalid {
            data: true,
            at: 256,
        };
        assert_eq!(wrong.result(), 0x1_0100);
    }
}
