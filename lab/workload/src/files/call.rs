//! The calls.
//!
//! Offsets and lengths are bytes. What a call answers is no part of it: see
//! [`super::Event`].

use super::field::{Field, FieldSink, FieldSource};
use super::{
    Advice, Allocation, Fd, Lock, Mode, MsyncHow, Name, NodeKind, OpenFlags, RangeSync, RenameHow,
    Target, WriteHint, XattrHow,
};

/// Declares the calls: number in formats, name in texts, fields.
macro_rules! calls {
    ($($(#[$doc:meta])* $number:literal $word:literal $call:ident {
        $($(#[$f_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        /// One call of a program to a file system, without its data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            $($(#[$doc])* $call { $($(#[$f_doc])* $field: $type,)* },)*
        }

        impl Call {
            /// The number and the name of every kind of call.
            pub const KINDS: &'static [(u8, &'static str)] = &[$(($number, $word)),*];

            /// The number of its kind. A number keeps its meaning for ever.
            #[must_use]
            pub const fn number(&self) -> u8 {
                match self { $(Self::$call { .. } => $number,)* }
            }

            /// The name of its kind.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$call { .. } => $word,)* }
            }

            /// Hands its fields to `sink`.
            pub fn put(&self, sink: &mut impl FieldSink) {
                match *self {
                    $(Self::$call { $($field),* } => {
                        let _ = &sink;
                        $($field.put(stringify!($field), sink);)*
                    })*
                }
            }

            /// Takes the call of kind `number` from `source`; `None` if there
            /// is no such kind.
            ///
            /// # Errors
            /// What the source finds wrong.
            pub fn take<S: FieldSource>(number: u8, source: &mut S) -> Result<Option<Self>, S::Error> {
                let _ = &source;
                Ok(Some(match number {
                    $($number => Self::$call {
                        $($field: <$type>::take(stringify!($field), source)?,)*
                    },)*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

calls! {
    /// Opens the file at `path` in the free slot `fd`. A call that failed took
    /// no slot.
    1 "open" Open {
        /// The slot it takes.
        fd: Fd,
        /// Which file; with `TMPFILE`, in which directory.
        path: Name,
        /// How.
        flags: OpenFlags,
        /// The permissions of a new file, before the mask of the process.
        mode: Mode,
    }
    /// Closes the last descriptor of an open file.
    2 "close" Close {
        /// The slot it frees.
        fd: Fd,
    }
    /// Reads from the offset of the open file, and moves it.
    3 "read" Read {
        /// Of which file.
        fd: Fd,
        /// How much was asked for.
        len: u64,
    }
    /// Writes at the offset of the open file, or at the end of a file that is
    /// open with `APPEND`, and moves the offset behind it.
    4 "write" Write {
        /// To which file.
        fd: Fd,
        /// How much.
        len: u64,
    }
    /// Reads from an offset; the one of the open file stays. Recorded reads
    /// are of this kind: their offset is known.
    5 "pread" Pread {
        /// Of which file.
        fd: Fd,
        /// From where.
        at: u64,
        /// How much was asked for.
        len: u64,
    }
    /// Writes at an offset; the one of the open file stays. Recorded writes
    /// are of this kind unless the file is open with `APPEND`.
    6 "pwrite" Pwrite {
        /// To which file.
        fd: Fd,
        /// Where.
        at: u64,
        /// How much.
        len: u64,
    }
    /// Finds data at or after an offset (`SEEK_DATA`).
    7 "seek-data" SeekData {
        /// In which file.
        fd: Fd,
        /// From where.
        at: u64,
    }
    /// Finds a hole at or after an offset (`SEEK_HOLE`).
    8 "seek-hole" SeekHole {
        /// In which file.
        fd: Fd,
        /// From where.
        at: u64,
    }
    /// Makes a file durable.
    9 "fsync" Fsync {
        /// Which.
        fd: Fd,
    }
    /// Makes a file's data durable, and what is needed to read them.
    10 "fdatasync" Fdatasync {
        /// Which.
        fd: Fd,
    }
    /// Writes back a range without its metadata.
    11 "sync-range" SyncRange {
        /// Of which file.
        fd: Fd,
        /// From where.
        at: u64,
        /// How much; 0 means to the end.
        len: u64,
        /// What to wait for.
        how: RangeSync,
    }
    /// Makes the whole file system of an open file durable.
    12 "syncfs" SyncFs {
        /// Any file on it.
        fd: Fd,
    }
    /// Makes every file system durable.
    13 "sync" Sync {}
    /// Sets the size of a file.
    14 "truncate" Truncate {
        /// Which.
        of: Target,
        /// Its new size.
        len: u64,
    }
    /// Allocates, punches or moves a range.
    15 "fallocate" Fallocate {
        /// Of which file.
        fd: Fd,
        /// What is done.
        how: Allocation,
        /// From where.
        at: u64,
        /// How much.
        len: u64,
    }
    /// Gives a file another name.
    16 "rename" Rename {
        /// The old name.
        from: Name,
        /// The new one.
        to: Name,
        /// What happens to what has it.
        how: RenameHow,
    }
    /// Removes a name.
    17 "unlink" Unlink {
        /// Which.
        path: Name,
    }
    /// Removes an empty directory.
    18 "rmdir" Rmdir {
        /// Which.
        path: Name,
    }
    /// Makes a directory.
    19 "mkdir" Mkdir {
        /// Where.
        path: Name,
        /// Its permissions, before the mask of the process.
        mode: Mode,
    }
    /// Makes a file, pipe, socket or device.
    20 "mknod" Mknod {
        /// Where.
        path: Name,
        /// What.
        kind: NodeKind,
        /// Its permissions, before the mask of the process.
        mode: Mode,
    }
    /// Gives a file a second name.
    21 "link" Link {
        /// The file; an open one stands for `linkat` on a descriptor, which
        /// names a file that was made without a name.
        of: Target,
        /// The new name.
        to: Name,
    }
    /// Makes a symbolic link.
    22 "symlink" Symlink {
        /// What it says, as it is.
        target: Name,
        /// Where.
        path: Name,
    }
    /// Reads a symbolic link.
    23 "readlink" Readlink {
        /// Which.
        path: Name,
    }
    /// Asks for the attributes of a file.
    24 "stat" Stat {
        /// Which.
        of: Target,
    }
    /// Asks whether a file may be used.
    25 "access" Access {
        /// Which.
        of: Target,
        /// For what: reading 4, writing 2, executing 1, being there 0.
        mode: Mode,
    }
    /// Asks how full a file system is.
    26 "statfs" StatFs {
        /// Any file on it.
        of: Target,
    }
    /// Reads the next entries of a directory.
    27 "readdir" Readdir {
        /// Which.
        fd: Fd,
        /// How many at most.
        entries: u64,
    }
    /// Goes back to the first entry of a directory.
    28 "rewinddir" Rewinddir {
        /// Which.
        fd: Fd,
    }
    /// Changes permissions.
    29 "chmod" Chmod {
        /// Of which file.
        of: Target,
        /// To what.
        mode: Mode,
    }
    /// Changes the owner.
    30 "chown" Chown {
        /// Of which file.
        of: Target,
        /// The user; 2^32 - 1 leaves it.
        uid: u32,
        /// The group; 2^32 - 1 leaves it.
        gid: u32,
    }
    /// Changes the times of access and modification.
    31 "utimens" Utimens {
        /// Of which file.
        of: Target,
    }
    /// Reads an extended attribute.
    32 "getxattr" GetXattr {
        /// Of which file.
        of: Target,
        /// Its name.
        name: Name,
        /// For how many bytes there is room.
        len: u64,
    }
    /// Sets an extended attribute.
    33 "setxattr" SetXattr {
        /// Of which file.
        of: Target,
        /// Its name.
        name: Name,
        /// Bytes of the value.
        len: u64,
        /// What is expected.
        how: XattrHow,
    }
    /// Lists the extended attributes.
    34 "listxattr" ListXattr {
        /// Of which file.
        of: Target,
        /// For how many bytes there is room.
        len: u64,
    }
    /// Removes an extended attribute.
    35 "removexattr" RemoveXattr {
        /// Of which file.
        of: Target,
        /// Its name.
        name: Name,
    }
    /// Locks an open file as a whole.
    36 "flock" Flock {
        /// Which.
        fd: Fd,
        /// What is done.
        lock: Lock,
        /// Whether to wait for it.
        wait: bool,
    }
    /// Locks a range for a process, or for the open file.
    37 "lock" RecordLock {
        /// Of which file.
        fd: Fd,
        /// What is done.
        lock: Lock,
        /// From where.
        at: u64,
        /// How much; 0 means to the end.
        len: u64,
        /// Whether to wait for it.
        wait: bool,
    }
    /// Says what will be done with a range.
    38 "advise" Advise {
        /// Of which file.
        fd: Fd,
        /// What.
        advice: Advice,
        /// From where.
        at: u64,
        /// How much; 0 means to the end.
        len: u64,
    }
    /// Says how long the data of a file will live.
    39 "hint" Hint {
        /// Which.
        fd: Fd,
        /// How long.
        life: WriteHint,
    }
    /// Reads a range through a mapping.
    40 "load" Load {
        /// Of which file.
        fd: Fd,
        /// From where.
        at: u64,
        /// How much.
        len: u64,
    }
    /// Writes a range through a shared mapping.
    41 "store" Store {
        /// Of which file.
        fd: Fd,
        /// From where.
        at: u64,
        /// How much.
        len: u64,
    }
    /// Writes back what was stored in a range.
    42 "msync" Msync {
        /// Of which file.
        fd: Fd,
        /// From where.
        at: u64,
        /// How much.
        len: u64,
        /// What to wait for.
        how: MsyncHow,
    }
    /// Copies a range between files inside the file system.
    43 "copy-range" CopyRange {
        /// From which file.
        from: Fd,
        /// From where.
        from_at: u64,
        /// To which.
        to: Fd,
        /// Where.
        to_at: u64,
        /// How much was asked for.
        len: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_small_and_its_kinds_are_distinct() {
        assert!(size_of::<Call>() <= 40);
        let mut kinds = Call::KINDS.to_vec();
        kinds.sort_unstable();
        kinds.dedup_by_key(|kind| kind.0);
        assert_eq!(kinds.len(), Call::KINDS.len());
        kinds.sort_unstable_by_key(|kind| kind.1);
        kinds.dedup_by_key(|kind| kind.1);
        assert_eq!(kinds.len(), Call::KINDS.len());
    }

    #[test]
    fn kinds_know_their_numbers() {
        let sync = Call::Sync {};
        assert_eq!((sync.number(), sync.name()), (13, "sync"));
        assert!(Call::KINDS.contains(&(13, "sync")));
    }
}
