//! Translation between types of FUSE and of the file API.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{Access, Attr, Errno, FallocateMode, FileKind, OpenFlags, SetTime, Timestamp};

/// `fallocate`: flag to keep the size.
const KEEP_SIZE: i32 = 1;
/// `fallocate`: flag to deallocate a range.
const PUNCH_HOLE: i32 = 2;
/// `fallocate`: flag to zero a range.
const ZERO_RANGE: i32 = 16;

pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.number())
}

pub(crate) const fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(ino: INodeNo, attr: &Attr) -> FileAttr {
    FileAttr {
        ino,
        size: attr.size,
        blocks: attr.sectors,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: time(attr.btime),
        kind: kind(attr.kind),
        perm: attr.mode & 0o7_777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: 4096,
        flags: 0,
    }
}

fn time(stamp: Timestamp) -> SystemTime {
    let secs = Duration::from_secs(stamp.secs.unsigned_abs());
    let nanos = Duration::from_nanos(stamp.nanos.into());
    if stamp.secs < 0 {
        return UNIX_EPOCH - secs + nanos;
    }
    UNIX_EPOCH + secs + nanos
}

/// A time of day as a time stamp of files; times before 1970 have negative seconds.
#[must_use]
pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp {
            secs: after.as_secs() as i64,
            nanos: after.subsec_nanos(),
        },
        Err(before) => {
            let before = before.duration();
            let nanos = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
            Timestamp {
                secs: -(before.as_secs() as i64) - i64::from(nanos > 0),
                nanos,
            }
        }
    }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(timestamp(time)),
    }
}

/// The operation of a mode of `fallocate`; `EOPNOTSUPP` for unsupported ones.
pub(crate) const fn allocation(mode: i32) -> vfs::Result<FallocateMode> {
    const PUNCH: i32 = PUNCH_HOLE | KEEP_SIZE;
    const ZERO_KEEP: i32 = ZERO_RANGE | KEEP_SIZE;
    Ok(match mode {
        0 => FallocateMode::Allocate { keep_size: false },
        KEEP_SIZE => FallocateMode::Allocate { keep_size: true },
        PUNCH => FallocateMode::Punch,
        ZERO_RANGE => FallocateMode::Zero { keep_size: false },
        ZERO_KEEP => FallocateMode::Zero { keep_size: true },
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// Flags to open a file with, after the kernel has granted access. The kernel finds the end of a
/// file that is appended to, truncates files with a call of its own, and passes `O_SYNC` with each
/// write; these flags are left out.
pub(crate) fn open_flags(flags: i32) -> OpenFlags {
    let kept = OpenFlags::BOTH | OpenFlags::DIRECT | OpenFlags::DIRECTORY | OpenFlags::NO_ATIME;
    let flags = OpenFlags::from_linux(flags);
    flags.without(all_but(kept))
}

/// Every flag that is not in `kept`.
fn all_but(kept: OpenFlags) -> OpenFlags {
    let all = OpenFlags::from_linux(0o37_777_702) | OpenFlags::BOTH;
    all.without(kept)
}

/// The user on whose behalf a request is made. The kernel passes user and group; for users other
/// than root the supplementary groups are looked up.
pub(crate) fn who(request: &fuser::Request) -> Access {
    let (uid, gid) = (request.uid(), request.gid());
    let groups = match uid {
        0 => Vec::new(),
        _ => groups(request.pid()),
    };
    Access { uid, gid, groups }
}

/// The supplementary groups of a process; none if it has ended or is not visible here.
fn groups(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

pub(crate) fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive_a_round_trip() {
        for (secs, nanos) in [
            (0, 0),
            (1, 999_999_999),
            (-1, 0),
            (-2, 1),
            (-1, 999_999_999),
        ] {
            let stamp = Timestamp { secs, nanos };
            assert_eq!(timestamp(time(stamp)), stamp);
        }
    }

    #[test]
    fn open_flags_that_the_kernel_handles_are_left_out() {
        // O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_SYNC and O_DIRECT.
        let flags = open_flags(0o4_053_102);
        assert_eq!(flags, OpenFlags::BOTH | OpenFlags::DIRECT);
        assert_eq!(
            open_flags(0o200_000),
            OpenFlags::READ | OpenFlags::DIRECTORY
        );
    }

    #[test]
    fn other_modes_of_fallocate_are_not_supported() {
        assert_eq!(allocation(3), Ok(FallocateMode::Punch));
        for mode in [2, 8, 32, 64, 19] {
            assert_eq!(allocation(mode), Err(Errno::EOPNOTSUPP));
        }
    }
}
