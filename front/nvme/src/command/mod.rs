//! Typed commands. Raw fields are not visible outside this module.

pub(crate) mod admin;
pub(crate) mod fabrics;
pub(crate) mod io;
mod length;

pub(crate) use admin::Admin;
pub(crate) use fabrics::Fabrics;
pub(crate) use io::Io;
pub(crate) use length::data_len;

use crate::entry::Entry;
use crate::status::Status;
use fabrics::Property;

/// A parsed command, by its command set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Fabrics(Fabrics),
    Admin(Admin),
    Io { nsid: u32, io: Io },
}

impl Command {
    /// Whether the command disables the controller.
    //= nvme-2.1 3.1.4.5
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Fabrics(Fabrics::PropertySet(Property::Configuration, value)) if value & 1 == 0)
    }
}

/// Kind of the queue that a command arrived on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Admin,
    Io,
}

/// Parses `entry`, received on a queue of this kind.
pub(crate) fn parse(entry: &Entry, queue: QueueKind) -> Result<Command, Status> {
    // Fused operations are not supported.
    //= nvme-2.1 3.4.2
    if entry.is_fused() {
        return Err(Status::InvalidField);
    }
    if entry.is_fabrics() {
        return fabrics::parse(entry).map(Command::Fabrics);
    }
    match queue {
        QueueKind::Admin => admin::parse(entry).map(Command::Admin),
        QueueKind::Io => {
            let nsid = entry.nsid();
            io::parse(entry).map(|io| Command::Io { nsid, io })
        }
    }
}
