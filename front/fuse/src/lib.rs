//! What the kernel sees of Flashloom through FUSE: a drive as one file
//! ([`DriveFs`]), a file system of ours ([`VolumeFs`]), its zones as files
//! ([`ZonesFs`]), or files that another process keeps ([`TreeFs`]).
//!
//! This crate translates calls of the kernel to requests of [`engine`] and their
//! errors to numbers.
//!
//! # A drive as a file
//!
//! A loop device over the file brings the kernel's own file systems
//! onto the drive:
//!
//! ```text
//! flashloom serve d.flash --file DIR --background
//! losetup --direct-io=on -b 4096 --show -f DIR/drive
//! ```
//!
//! - It has the size of the drive, for ever: to cut or to grow it is refused with
//!   `EPERM`, a write past its end with `ENOSPC`. Opening it with `O_TRUNC` leaves
//!   it as it is, as for a block device.
//! - Nothing is cached: every read and write reaches the drive, with `O_DIRECT` or
//!   without. What is written through a mapping is kept by the kernel until
//!   `msync`, `fsync` or the next read or write of the same range.
//! - `fallocate` with a hole or zeros, `KEEP_SIZE` in both cases, deallocates, and
//!   is never refused. Other modes are answered with `EOPNOTSUPP`.
//! - `fsync`, `fdatasync` and the closing of a file that was open for writing are
//!   flushes of the drive.
//! - What is deallocated or was never written is a hole to `SEEK_HOLE`.
//!
//! Beside it lies `smart.json`, the counters of the drive at this instant.
//!
//! # A file system
//!
//! Any [`vfs::Body`] can be mounted. The kernel checks permissions and keeps locks.
//! A file can be opened by its handle after the kernel has forgotten it.
//!
//! What the kernel gives out of its own cache is not heard of here: when a file is
//! opened whose next read is to be noted, the kernel drops what it has of it. Further
//! reads through the same open file are not noted.
//!
//! `fsync` and `fdatasync` make durable, also against the death of the process;
//! `sync` writes what the kernel has, but it does not tell a FUSE file system, so
//! it promises nothing. Files without a name (`O_TMPFILE`) are not there: the
//! library that speaks FUSE does not know them. Nor are access control lists: the
//! attributes that hold them are refused with `EOPNOTSUPP`.
//!
//! # Zones as files
//!
//! A zoned drive with a zonefs is mounted as Linux mounts it. `.zones.json`, which no
//! listing shows, has what Linux has in `/sys/fs/zonefs`, each zone, and what was refused
//! last for want of zones.
//!
//! Where FUSE does not let us be Linux' zonefs:
//!
//! - A shared mapping of a sequential file that is open to write is refused with
//!   `ENODEV` and not with `EINVAL`.
//! - To seek behind the end of a file is no error.
//! - A direct read or write of more than 1 MiB comes in pieces, one after the other: if
//!   the last one is not of whole blocks, those before it are carried out; if the memory
//!   does not begin at a page, it is refused with `EINVAL`.
//! - Asynchronous requests of one file are carried out one after the other.
//! - Once the zone of a file is offline, who has opened it before without `O_DIRECT`
//!   reads nothing more, rather than `EPERM`.
//! - `statfs` names FUSE as the type, and an `errors=` that made the file system
//!   read-only is seen in `.zones.json` and not in the table of mounts.
//! - The times of reads are not noted, and there are no swap files.
//!
//! # Files of others
//!
//! What somebody else keeps ([`Tree`]) can be shown to be read ([`TreeFs`]), with the rights
//! of the files that stand for it. A file that is open goes once its keeper lets it go.

mod answer;
mod drive;
mod files;
mod options;
mod session;
mod tasks;
mod translate;
mod tree;
mod volume;
mod wants;
mod zones;

pub use answer::VolumeFs;
pub use drive::{DRIVE_NAME, DriveFs};
pub use options::MountOptions;
pub use session::{End, MountError, Mounted, Show, mount};
pub use translate::timestamp;
pub use tree::{Tree, TreeFs};
pub use volume::{CloseError, Volume};
pub use zones::{Zones, ZonesFs};
