//! Flashloom's FUSE front ends: a drive as one file ([`DriveFs`]), a file system of ours
//! ([`VolumeFs`]), a zonefs ([`ZonesFs`]), or files of another process ([`TreeFs`]).
//!
//! This crate translates calls of the kernel to requests of [`engine`], and their errors to error
//! numbers.
//!
//! # A drive as a file
//!
//! A loop device over the file puts the kernel's own file systems on the drive:
//!
//! ```text
//! flashloom serve d.flash --file DIR --background
//! losetup --direct-io=on -b 4096 --show -f DIR/drive
//! ```
//!
//! - The file has the drive's size, for ever: changes of its size are refused with `EPERM`, a write
//!   behind its end with `ENOSPC`. `O_TRUNC` is ignored, as for a block device.
//! - Nothing is cached: every read and write reaches the drive, with `O_DIRECT` or without. Stores
//!   through a mapping stay in the kernel until `msync`, `fsync` or the next read or write of the
//!   same range.
//! - `fallocate` to punch a hole or zero a range (with `KEEP_SIZE`) deallocates, and is never
//!   refused. Other modes fail with `EOPNOTSUPP`.
//! - `fsync`, `fdatasync` and the close of a file that was open for writing flush the drive.
//! - Sectors that were deallocated or never written are holes for `SEEK_HOLE`.
//!
//! The file `smart.json` beside it shows the drive's current counters.
//!
//! # A file system
//!
//! Any [`vfs::Body`] can be mounted. The kernel checks permissions and keeps locks. A file can be
//! opened by its file handle after the kernel has dropped its inode.
//!
//! Reads from the kernel's cache are not seen here. When a file is opened whose next read must
//! update the access time, the kernel drops its cache of it. Later reads through the same open file
//! do not update the time.
//!
//! `fsync` and `fdatasync` make data durable, also against the death of the process. `sync` writes
//! back the kernel's cache, but does not reach a FUSE file system, so it guarantees nothing. Files
//! without a name (`O_TMPFILE`) are missing, as the FUSE library does not support them. So are
//! access control lists: the attributes that hold them are refused with `EOPNOTSUPP`.
//!
//! # Zones as files
//!
//! A zoned drive with a zonefs is mounted as by Linux. The file `.zones.json`, which no listing
//! shows, has the contents of Linux' `/sys/fs/zonefs`, the state of each zone, and the latest call
//! that was refused for lack of zones.
//!
//! Differences from Linux' zonefs that FUSE imposes:
//!
//! - A shared mapping of a sequential file that is open for writing is refused with `ENODEV`, not
//!   `EINVAL`.
//! - A seek behind the end of a file is no error.
//! - A direct read or write of more than 1 MiB arrives in pieces, one after the other. If the last
//!   piece is not of whole blocks, those before it are carried out; if the memory is not aligned to
//!   a page, the call is refused with `EINVAL`.
//! - Asynchronous requests on one file are carried out one after the other.
//! - Once the zone of a file is offline, a file that was opened before without `O_DIRECT` reads
//!   nothing more, rather than fail with `EPERM`.
//! - `statfs` names FUSE as the type, and a file system that `errors=` made read-only shows it in
//!   `.zones.json`, not in the mount table.
//! - Access times are not updated, and swap files are not possible.
//!
//! # Files of other processes
//!
//! Files that another process keeps ([`Tree`]) can be shown read-only ([`TreeFs`]), with the
//! permissions of the files that stand for them. An open file disappears when its process drops it.

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
pub use session::{End, MountError, Mounted, Show, mount, mount_alone};
pub use translate::timestamp;
pub use tree::{Tree, TreeFs};
pub use volume::{CloseError, Volume};
pub use zones::{Zones, ZonesFs};
