//! Translation of a workload's flags into those of the system.

use nix::libc;
use rustix::fs::{self, FallocateFlags, FlockOperation, OFlags, RenameFlags, XattrFlags};
use workload::files::{Advice, Allocation, Lock, Mode, NodeKind, OpenFlags, RenameHow, XattrHow};

/// Open flags with a direct counterpart in the system.
const OPEN: &[(OpenFlags, OFlags)] = &[
    (OpenFlags::CREATE, OFlags::CREATE),
    (OpenFlags::EXCLUSIVE, OFlags::EXCL),
    (OpenFlags::TRUNCATE, OFlags::TRUNC),
    (OpenFlags::APPEND, OFlags::APPEND),
    (OpenFlags::DIRECT, OFlags::DIRECT),
    (OpenFlags::SYNC, OFlags::SYNC),
    (OpenFlags::DSYNC, OFlags::DSYNC),
    (OpenFlags::TMPFILE, OFlags::TMPFILE),
    (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
    (OpenFlags::NOFOLLOW, OFlags::NOFOLLOW),
    (OpenFlags::NOATIME, OFlags::NOATIME),
];

pub(crate) fn open(flags: OpenFlags) -> OFlags {
    let read = flags.has(OpenFlags::READ);
    let mut out = match (read, flags.has(OpenFlags::WRITE)) {
        (false, false) => return path_only(flags),
        (true, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    for &(ours, theirs) in OPEN {
        out.set(theirs, out.contains(theirs) || flags.has(ours));
    }
    // Opening a pipe without a peer would block; regular files ignore the flag.
    out | OFlags::NONBLOCK
}

/// Flags of an open without access, by `O_PATH`. `openat2` rejects most flags beside it.
fn path_only(flags: OpenFlags) -> OFlags {
    let mut out = OFlags::PATH;
    out.set(OFlags::DIRECTORY, flags.has(OpenFlags::DIRECTORY));
    out.set(OFlags::NOFOLLOW, flags.has(OpenFlags::NOFOLLOW));
    out
}

/// Mode for an open with these flags. It is empty if the open creates no file, because `openat2`
/// rejects a mode then.
pub(crate) fn open_mode(flags: OpenFlags, mode: Mode) -> fs::Mode {
    let makes = flags.has(OpenFlags::CREATE) || flags.has(OpenFlags::TMPFILE);
    let used = flags.has(OpenFlags::READ) || flags.has(OpenFlags::WRITE);
    if makes && used {
        self::mode(mode)
    } else {
        fs::Mode::empty()
    }
}

pub(crate) fn mode(mode: Mode) -> fs::Mode {
    fs::Mode::from_raw_mode(mode.0.into())
}

pub(crate) fn allocation(how: Allocation) -> FallocateFlags {
    let keep = FallocateFlags::KEEP_SIZE;
    match how {
        Allocation::Extend => FallocateFlags::empty(),
        Allocation::KeepSize => keep,
        Allocation::Punch => FallocateFlags::PUNCH_HOLE | keep,
        Allocation::Zero => FallocateFlags::ZERO_RANGE,
        Allocation::ZeroKeepSize => FallocateFlags::ZERO_RANGE | keep,
        Allocation::Collapse => FallocateFlags::COLLAPSE_RANGE,
        Allocation::Insert => FallocateFlags::INSERT_RANGE,
        Allocation::Unshare => FallocateFlags::UNSHARE_RANGE,
    }
}

pub(crate) fn rename(how: RenameHow) -> RenameFlags {
    match how {
        RenameHow::Replace => RenameFlags::empty(),
        RenameHow::NoReplace => RenameFlags::NOREPLACE,
        RenameHow::Exchange => RenameFlags::EXCHANGE,
        RenameHow::Whiteout => RenameFlags::WHITEOUT,
    }
}

pub(crate) const fn node(kind: NodeKind) -> fs::FileType {
    match kind {
        NodeKind::File => fs::FileType::RegularFile,
        NodeKind::Fifo => fs::FileType::Fifo,
        NodeKind::Socket => fs::FileType::Socket,
        NodeKind::Character => fs::FileType::CharacterDevice,
        NodeKind::Block => fs::FileType::BlockDevice,
    }
}

pub(crate) fn xattr(how: XattrHow) -> XattrFlags {
    match how {
        XattrHow::Set => XattrFlags::empty(),
        XattrHow::Create => XattrFlags::CREATE,
        XattrHow::Replace => XattrFlags::REPLACE,
    }
}

pub(crate) const fn flock(lock: Lock, wait: bool) -> FlockOperation {
    match (lock, wait) {
        (Lock::Shared, true) => FlockOperation::LockShared,
        (Lock::Shared, false) => FlockOperation::NonBlockingLockShared,
        (Lock::Exclusive, true) => FlockOperation::LockExclusive,
        (Lock::Exclusive, false) => FlockOperation::NonBlockingLockExclusive,
        (Lock::Unlock, true) => FlockOperation::Unlock,
        (Lock::Unlock, false) => FlockOperation::NonBlockingUnlock,
    }
}

/// Lock of `len` bytes at `at`; a length of 0, or one beyond `i64::MAX`, reaches to the end.
pub(crate) fn record_lock(lock: Lock, at: u64, len: u64) -> libc::flock {
    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Exclusive => libc::F_WRLCK,
        Lock::Unlock => libc::F_UNLCK,
    };
    libc::flock {
        l_type: i16::try_from(kind).expect("small numbers"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("a small number"),
        l_start: i64::try_from(at).unwrap_or(i64::MAX),
        l_len: i64::try_from(len).unwrap_or(0),
        l_pid: 0,
    }
}

pub(crate) const fn advice(advice: Advice) -> fs::Advice {
    match advice {
        Advice::Normal => fs::Advice::Normal,
        Advice::Sequential => fs::Advice::Sequential,
        Advice::Random => fs::Advice::Random,
        Advice::NoReuse => fs::Advice::NoReuse,
        Advice::WillNeed => fs::Advice::WillNeed,
        Advice::DontNeed => fs::Advice::DontNeed,
    }
}
