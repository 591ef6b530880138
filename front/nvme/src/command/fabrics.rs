//! Fabrics commands: connections, properties and authentication.

use crate::entry::Entry;
use crate::status::Status;
use units::layout::Field;

/// Size in bytes of the data of a Connect.
//= nvme-2.1 6.3
pub(crate) const CONNECT_BYTES: usize = 1024;

/// A controller property (register).
//= nvme-2.1 3.1.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Capabilities,
    Version,
    Configuration,
    State,
    Reset,
    ReadyTimeouts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fabrics {
    Connect(Connect),
    PropertyGet(Property),
    PropertySet(Property, u64),
    Disconnect,
    /// Authentication message from the host; length in bytes.
    AuthenticationSend(u32),
    /// Authentication message to the host; most bytes to return.
    AuthenticationReceive(u32),
}

/// The fields of a Connect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) queue: u16,
    /// Queue size in entries, zero-based.
    pub(crate) last_entry: u16,
    /// Whether the host disables submission queue flow control.
    pub(crate) no_flow_control: bool,
    pub(crate) keep_alive_ms: u32,
}

/// The data of a Connect command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectData {
    pub(crate) host_id: [u8; 16],
    pub(crate) controller: u16,
    pub(crate) subsystem: String,
    pub(crate) host: String,
}

const CONTROLLER_AT: usize = 16;
const SUBSYSTEM_AT: usize = 256;
const HOST_AT: usize = 512;
const NAME_BYTES: usize = 256;

pub(super) fn parse(entry: &Entry) -> Result<Fabrics, Status> {
    match entry.fabrics_type() {
        0x00 => {
            let property = property(entry)?;
            Ok(Fabrics::PropertySet(property, entry.field(48)))
        }
        0x01 => connect(entry).map(Fabrics::Connect),
        0x04 => property(entry).map(Fabrics::PropertyGet),
        //= nvme-2.1 6.2
        0x05 => authentication(entry).map(Fabrics::AuthenticationSend),
        //= nvme-2.1 6.1
        0x06 => authentication(entry).map(Fabrics::AuthenticationReceive),
        //= nvme-2.1 6.4
        0x08 if entry.field::<u16>(40) == 0 => Ok(Fabrics::Disconnect),
        0x08 => Err(Status::ConnectIncompatible),
        _ => Err(Status::InvalidOpcode),
    }
}

//= nvme-2.1 6.3
fn connect(entry: &Entry) -> Result<Connect, Status> {
    if entry.field::<u16>(40) != 0 {
        return Err(Status::ConnectIncompatible);
    }
    let last_entry = entry.field::<u16>(44);
    if last_entry == 0 {
        return Err(Status::ConnectInvalid {
            data: false,
            at: 44,
        });
    }
    Ok(Connect {
        queue: entry.field(42),
        last_entry,
        no_flow_control: entry.field::<u8>(46) & 0b100 != 0,
        keep_alive_ms: entry.field(48),
    })
}

/// Data length in bytes of a message of the authentication protocol.
//= nvme-2.1 6.1
//= nvme-2.1 6.2
fn authentication(entry: &Entry) -> Result<u32, Status> {
    let is_ours = entry.field::<[u8; 3]>(41) == [1, 1, 0xe9];
    let len = is_ours.then(|| entry.field(44));
    len.ok_or(Status::InvalidField)
}

//= nvme-2.1 6.5
//= nvme-2.1 6.6
fn property(entry: &Entry) -> Result<Property, Status> {
    let is_wide = entry.field::<u8>(40) & 0b111 == 1;
    let property = match entry.field::<u32>(44) {
        0x00 => Property::Capabilities,
        0x08 => Property::Version,
        0x14 => Property::Configuration,
        0x1c => Property::State,
        0x20 => Property::Reset,
        0x68 => Property::ReadyTimeouts,
        _ => return Err(Status::InvalidField),
    };
    let fits = is_wide == (property == Property::Capabilities);
    fits.then_some(property).ok_or(Status::InvalidField)
}

impl ConnectData {
    /// Parses the data of a Connect.
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Status> {
        if data.len() < CONNECT_BYTES {
            return Err(Status::DataLengthInvalid);
        }
        let name = |at: usize| {
            let wrong = Status::ConnectInvalid {
                data: true,
                at: at as u16,
            };
            qualified_name(&data[at..at + NAME_BYTES]).ok_or(wrong)
        };
        Ok(Self {
            host_id: Field::<[u8; 16]>::at(0).get(data),
            controller: Field::<u16>::at(CONTROLLER_AT).get(data),
            subsystem: name(SUBSYSTEM_AT)?,
            // Some clients, such as SPDK's, send an empty name; an empty name never passes a list
            // of allowed hosts.
            host: match data[HOST_AT] {
                0 => String::new(),
                _ => name(HOST_AT)?,
            },
        })
    }

    /// Status for an unknown subsystem name.
    pub(crate) const NO_SUBSYSTEM: Status = Status::ConnectInvalid {
        data: true,
        at: SUBSYSTEM_AT as u16,
    };

    /// Status for an unknown controller identifier.
    pub(crate) const NO_CONTROLLER: Status = Status::ConnectInvalid {
        data: true,
        at: CONTROLLER_AT as u16,
    };
}

/// A qualified name: at most 223 bytes and a terminating zero.
//= nvme-2.1 4.7
fn qualified_name(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(&bytes[..end]).ok()?;
    let fits = (1..=223).contains(&end) && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned())
}
