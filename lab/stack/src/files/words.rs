//! Translation of a workload's vocabulary to that of the file API.

use vfs::{FallocateMode, FileKind, LockKind, RenameFlags, XattrFlags};
use workload::files::{Advice, Allocation, Errno, Lock, NodeKind, OpenFlags, RenameHow, XattrHow};

/// Open flags of workloads, and of the file API.
const FLAGS: [(OpenFlags, vfs::OpenFlags); 13] = [
    (OpenFlags::READ, vfs::OpenFlags::READ),
    (OpenFlags::WRITE, vfs::OpenFlags::WRITE),
    (OpenFlags::CREATE, vfs::OpenFlags::CREATE),
    (OpenFlags::EXCLUSIVE, vfs::OpenFlags::EXCLUSIVE),
    (OpenFlags::TRUNCATE, vfs::OpenFlags::TRUNCATE),
    (OpenFlags::APPEND, vfs::OpenFlags::APPEND),
    (OpenFlags::DIRECT, vfs::OpenFlags::DIRECT),
    (OpenFlags::SYNC, vfs::OpenFlags::SYNC),
    (OpenFlags::DSYNC, vfs::OpenFlags::DATA_SYNC),
    (OpenFlags::TMPFILE, vfs::OpenFlags::TMPFILE),
    (OpenFlags::DIRECTORY, vfs::OpenFlags::DIRECTORY),
    (OpenFlags::NOFOLLOW, vfs::OpenFlags::NO_FOLLOW),
    (OpenFlags::NOATIME, vfs::OpenFlags::NO_ATIME),
];

pub(super) fn open_flags(flags: OpenFlags) -> vfs::OpenFlags {
    let access = OpenFlags::READ.and(OpenFlags::WRITE);
    let none = !flags.has(OpenFlags::READ) && !flags.has(OpenFlags::WRITE);
    debug_assert!(
        none || !access.has(OpenFlags::CREATE),
        "access is two flags"
    );
    let start = match none {
        true => vfs::OpenFlags::PATH,
        false => vfs::OpenFlags::default(),
    };
    let set = FLAGS.iter().filter(|(ours, _)| flags.has(*ours));
    set.fold(start, |all, (_, theirs)| all | *theirs)
}

pub(super) fn errno(errno: vfs::Errno) -> Errno {
    Errno(u16::try_from(errno.number()).unwrap_or(u16::MAX))
}

/// The mode of an allocation; `None` if the file API lacks it.
pub(super) const fn allocation(how: Allocation) -> Option<FallocateMode> {
    Some(match how {
        Allocation::Extend => FallocateMode::Allocate { keep_size: false },
        Allocation::KeepSize => FallocateMode::Allocate { keep_size: true },
        Allocation::Punch => FallocateMode::Punch,
        Allocation::Zero => FallocateMode::Zero { keep_size: false },
        Allocation::ZeroKeepSize => FallocateMode::Zero { keep_size: true },
        Allocation::Collapse | Allocation::Insert | Allocation::Unshare => return None,
    })
}

/// The flags of a rename; `None` if the file API lacks them.
pub(super) const fn rename(how: RenameHow) -> Option<RenameFlags> {
    Some(RenameFlags {
        no_replace: matches!(how, RenameHow::NoReplace),
        exchange: match how {
            RenameHow::Whiteout => return None,
            how => matches!(how, RenameHow::Exchange),
        },
    })
}

pub(super) const fn kind(kind: NodeKind) -> FileKind {
    match kind {
        NodeKind::File => FileKind::Regular,
        NodeKind::Fifo => FileKind::Fifo,
        NodeKind::Socket => FileKind::Socket,
        NodeKind::Character => FileKind::CharDevice,
        NodeKind::Block => FileKind::BlockDevice,
    }
}

pub(super) const fn xattr(how: XattrHow) -> XattrFlags {
    match how {
        XattrHow::Set => XattrFlags::Any,
        XattrHow::Create => XattrFlags::Create,
        XattrHow::Replace => XattrFlags::Replace,
    }
}

/// The kind of a lock; `None` releases it.
pub(super) const fn lock(lock: Lock) -> Option<LockKind> {
    match lock {
        Lock::Shared => Some(LockKind::Shared),
        Lock::Exclusive => Some(LockKind::Exclusive),
        Lock::Unlock => None,
    }
}

pub(super) const fn advice(advice: Advice) -> vfs::Advice {
    match advice {
        Advice::Normal | Advice::NoReuse => vfs::Advice::Normal,
        Advice::Sequential => vfs::Advice::Sequential,
        Advice::Random => vfs::Advice::Random,
        Advice::WillNeed => vfs::Advice::WillNeed,
        Advice::DontNeed => vfs::Advice::DontNeed,
    }
}
