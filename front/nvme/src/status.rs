//! Status of a command, with its numeric codes.
//!
//! Invariant: each error of this crate is a [`Status`]; only this module knows the codes.

use ssd::ZoneStatus;

/// Status code types (SCT), the upper part of a status field.
//= nvme-2.1 4.2.3
const GENERIC: u16 = 0;
const SPECIFIC: u16 = 1;
const MEDIA: u16 = 2;

/// Error status of a command.
//= nvme-2.1 4.2.3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The command is not supported.
    InvalidOpcode,
    /// Invalid value in a field of the command.
    InvalidField,
    /// The drive cannot continue: its file cannot be written, or its thread has ended.
    InternalError,
    /// The drive has lost its power: never sent, the connection closes instead.
    PowerLost,
    /// Data were corrupted in transit; the host may retry.
    TransientTransport,
    /// The controller is busy; the host may retry.
    Interrupted,
    /// The command identifier is in use.
    CommandIdConflict,
    /// Aborted by the host.
    AbortRequested,
    /// Invalid or inactive namespace.
    InvalidNamespace,
    /// Command out of sequence.
    CommandSequence,
    /// Data length does not match the command.
    DataLengthInvalid,
    /// The type of an SGL descriptor is not supported.
    SglTypeInvalid,
    /// In-capsule data outside of the capsule.
    SglOffsetInvalid,
    /// Host memory cannot be accessed as required.
    DataTransfer,
    /// Invalid offset of a PRP entry or list.
    PrpOffset,
    /// Invalid or endless SGL segment.
    SglSegment,
    /// Too many SGL descriptors.
    SglCount,
    /// The namespace is read-only.
    WriteProtected,
    /// Flexible data placement is not enabled.
    FdpDisabled,
    /// A placement handle does not exist.
    InvalidPlacementHandles,
    /// The range reaches past the end of the namespace.
    LbaOutOfRange,
    /// The queue identifier is invalid or in use.
    InvalidQueue,
    /// Invalid completion queue identifier.
    InvalidCompletionQueue,
    /// The queue size is out of range.
    InvalidQueueSize,
    /// The interrupt vector does not exist.
    InvalidVector,
    /// The completion queue is still used by submission queues.
    InvalidQueueDeletion,
    /// Too many open asynchronous event requests.
    TooManyEventRequests,
    /// The log page is not supported.
    InvalidLogPage,
    /// Unsupported LBA format or format option.
    InvalidFormat,
    /// The feature cannot be saved.
    FeatureNotSaveable,
    /// The feature cannot be changed.
    FeatureNotChangeable,
    /// End-to-end protection is not supported.
    InvalidProtection,
    /// A limit of this command is exceeded.
    CommandSizeLimit,
    /// Unsupported combination of command sets.
    CommandSetCombination,
    /// Unsupported format of a Connect.
    ConnectIncompatible,
    /// No controller or queue is available.
    ConnectBusy,
    /// Invalid parameter of a Connect.
    ConnectInvalid {
        /// Whether the parameter is in the data, or else in the command.
        data: bool,
        /// Offset of its first byte.
        at: u16,
    },
    /// The host is not allowed to use the subsystem.
    ConnectInvalidHost,
    /// The host must authenticate first.
    AuthenticationRequired,
    /// Compare found a difference.
    CompareFailure,
    /// Uncorrectable read error of the flash.
    UnrecoveredRead,
    /// Write error of the flash.
    WriteFault,
    /// Violation of the rules of zones.
    Zone(ZoneStatus),
}

impl Status {
    /// Status code type and status code.
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

    /// Whether a retry would fail in the same way (do not retry).
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

    /// Dword 0 of the completion.
    #[must_use]
    pub fn result(self) -> u64 {
        match self {
            //= nvme-2.1 6.3
            Self::ConnectInvalid { data, at } => u64::from(data) << 16 | u64::from(at),
            _ => 0,
        }
    }
}

/// Code of a zone error.
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
