//! Translation of the system's numbers to words of the trace's language.

use super::spool::Said;
use workload::files::{
    Advice, Allocation, Call, Fd, Lock, Mode, NodeKind, OpenFlags, RangeSync, RenameHow,
};

/// Translates flags of `open`. Creation flags (`CREATE`, `EXCLUSIVE`, `TRUNCATE`) are kept only if
/// `created`, i.e. if an `open` with these flags was seen.
pub(super) fn flags(flags: i32, created: bool) -> OpenFlags {
    let has = |bit: i32| flags & bit == bit;
    let access = match flags & libc::O_ACCMODE {
        _ if has(libc::O_PATH) => OpenFlags::NONE,
        libc::O_WRONLY => OpenFlags::WRITE,
        libc::O_RDWR => OpenFlags::READ.and(OpenFlags::WRITE),
        _ => OpenFlags::READ,
    };
    let temporary = has(libc::O_TMPFILE);
    access
        .and_if(created && has(libc::O_CREAT), OpenFlags::CREATE)
        .and_if(created && has(libc::O_EXCL), OpenFlags::EXCLUSIVE)
        .and_if(created && has(libc::O_TRUNC), OpenFlags::TRUNCATE)
        .and_if(has(libc::O_APPEND), OpenFlags::APPEND)
        .and_if(has(libc::O_DIRECT), OpenFlags::DIRECT)
        .and_if(has(libc::O_SYNC), OpenFlags::SYNC)
        .and_if(has(libc::O_DSYNC) && !has(libc::O_SYNC), OpenFlags::DSYNC)
        .and_if(temporary, OpenFlags::TMPFILE)
        .and_if(has(libc::O_DIRECTORY) && !temporary, OpenFlags::DIRECTORY)
        .and_if(has(libc::O_NOFOLLOW), OpenFlags::NOFOLLOW)
        .and_if(has(libc::O_NOATIME), OpenFlags::NOATIME)
}

pub(super) fn mode(bits: u64) -> Mode {
    Mode((bits & 0o7777) as u16)
}

/// The variant of `all` at `index`, or the first one if there is none.
pub(super) fn choice<T: Copy>(all: &[T], index: u64) -> T {
    let found = usize::try_from(index).ok().and_then(|index| all.get(index));
    *found.unwrap_or(&all[0])
}

/// Clamps an offset or a length to `i64::MAX`, the largest that the language allows.
pub(super) fn bounded(number: u64) -> u64 {
    number.min(i64::MAX as u64)
}

pub(super) fn allocation(flags: u32) -> Allocation {
    let has = |bit: i32| flags & bit as u32 != 0;
    match () {
        () if has(libc::FALLOC_FL_PUNCH_HOLE) => Allocation::Punch,
        () if has(libc::FALLOC_FL_COLLAPSE_RANGE) => Allocation::Collapse,
        () if has(libc::FALLOC_FL_INSERT_RANGE) => Allocation::Insert,
        () if has(libc::FALLOC_FL_UNSHARE_RANGE) => Allocation::Unshare,
        () if has(libc::FALLOC_FL_ZERO_RANGE) && has(libc::FALLOC_FL_KEEP_SIZE) => {
            Allocation::ZeroKeepSize
        }
        () if has(libc::FALLOC_FL_ZERO_RANGE) => Allocation::Zero,
        () if has(libc::FALLOC_FL_KEEP_SIZE) => Allocation::KeepSize,
        () => Allocation::Extend,
    }
}

pub(super) fn rename_how(flags: u32) -> RenameHow {
    match flags {
        f if f & libc::RENAME_EXCHANGE != 0 => RenameHow::Exchange,
        f if f & libc::RENAME_WHITEOUT != 0 => RenameHow::Whiteout,
        f if f & libc::RENAME_NOREPLACE != 0 => RenameHow::NoReplace,
        _ => RenameHow::Replace,
    }
}

pub(super) fn node_kind(mode: u64) -> NodeKind {
    match mode as u32 & libc::S_IFMT {
        libc::S_IFIFO => NodeKind::Fifo,
        libc::S_IFSOCK => NodeKind::Socket,
        libc::S_IFCHR => NodeKind::Character,
        libc::S_IFBLK => NodeKind::Block,
        _ => NodeKind::File,
    }
}

/// Advice of `posix_fadvise`, indexed by the system's number.
pub(super) const ADVICE: [Advice; 6] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::NoReuse,
];

/// Kinds of record locks, indexed by the system's number.
pub(super) const LOCKS: [Lock; 3] = [Lock::Shared, Lock::Exclusive, Lock::Unlock];

/// The descriptor that a call refers to by a path under `/proc/self/fd`, or by an empty path.
pub(super) fn descriptor_path(said: &Said) -> Option<i32> {
    if said.s1.is_empty() && said.head.flags as i32 & libc::AT_EMPTY_PATH != 0 {
        return Some(said.head.fd);
    }
    let number = said.s1.strip_prefix(b"/proc/self/fd/")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

pub(super) fn range_sync(flags: u32) -> RangeSync {
    let has = |bit: u32| flags & bit != 0;
    RangeSync::NONE
        .and_if(
            has(libc::SYNC_FILE_RANGE_WAIT_BEFORE),
            RangeSync::WAIT_BEFORE,
        )
        .and_if(has(libc::SYNC_FILE_RANGE_WRITE), RangeSync::WRITE)
        .and_if(has(libc::SYNC_FILE_RANGE_WAIT_AFTER), RangeSync::WAIT_AFTER)
}

pub(super) fn flock(fd: Fd, flags: i32) -> Call {
    let lock = match flags & !libc::LOCK_NB {
        libc::LOCK_SH => Lock::Shared,
        libc::LOCK_UN => Lock::Unlock,
        _ => Lock::Exclusive,
    };
    let wait = flags & libc::LOCK_NB == 0;
    Call::Flock { fd, lock, wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_translated() {
        let said = flags(libc::O_WRONLY | libc::O_CREAT | libc::O_SYNC, true);
        let wanted = OpenFlags::WRITE.and(OpenFlags::CREATE).and(OpenFlags::SYNC);
        assert_eq!(said, wanted);
        assert_eq!(flags(libc::O_CREAT, false), OpenFlags::READ);
        let temporary = flags(libc::O_TMPFILE | libc::O_RDWR, true);
        assert!(temporary.has(OpenFlags::TMPFILE) && !temporary.has(OpenFlags::DIRECTORY));
        assert_eq!(flags(libc::O_PATH, true), OpenFlags::NONE);
    }

    #[test]
    fn other_numbers_are_translated() {
        assert_eq!(allocation(3), Allocation::Punch);
        assert_eq!(allocation(17), Allocation::ZeroKeepSize);
        assert_eq!(choice(&ADVICE, 3), Advice::WillNeed);
        assert_eq!(choice(&LOCKS, 99), Lock::Shared);
        assert_eq!(rename_how(2), RenameHow::Exchange);
        assert_eq!(node_kind(u64::from(libc::S_IFIFO)), NodeKind::Fifo);
        assert_eq!(bounded(u64::MAX), i64::MAX as u64);
    }
}
