//! The calls.
//!
//! Offsets and lengths are bytes. What a call answers is no part of it: see
//! [`super::Event`].

use super::field::{Field, FieldSink, FieldSource};
use super::{
    Advice, Allocation, Fd, Hint, Lock, Mode, MsyncHow, Name, NodeKind, OpenFlags, RangeSync,
    RenameHow, Target, XattrHow,
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
        life: Hint,
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

impl Call {
    /// This call with its open files and strings exchanged; `None` if one of
    /// them has no other. `name` is told the key of the field, which is `path`,
    /// `from` or `to` for paths.
    pub fn map(
        &self,
        fd: impl FnMut(Fd) -> Option<Fd>,
        name: impl FnMut(&'static str, Name) -> Option<Name>,
    ) -> Option<Self> {
        let mut fields = Exchange {
            fd,
            name,
            values: [0; 8],
            len: 0,
            complete: true,
        };
        self.put(&mut fields);
        let mut given = Given {
            values: fields.values.into_iter(),
        };
        let call = Self::take(self.number(), &mut given).ok().flatten();
        call.filter(|_| fields.complete)
    }
}

/// Takes fields as numbers, exchanging open files and names.
struct Exchange<F, N> {
    fd: F,
    name: N,
    values: [u64; 8],
    len: usize,
    complete: bool,
}

impl<F, N> Exchange<F, N> {
    fn push(&mut self, value: Option<u64>) {
        self.complete &= value.is_some();
        self.values[self.len] = value.unwrap_or(0);
        self.len += 1;
    }
}

impl<F, N> FieldSink for Exchange<F, N>
where
    F: FnMut(Fd) -> Option<Fd>,
    N: FnMut(&'static str, Name) -> Option<Name>,
{
    fn fd(&mut self, _: &'static str, fd: Fd) {
        let other = (self.fd)(fd).map(|fd| fd.0.into());
        self.push(other);
    }

    fn name(&mut self, key: &'static str, name: Name) {
        let other = (self.name)(key, name).map(|name| name.0.into());
        self.push(other);
    }

    fn number(&mut self, _: &'static str, number: u64) {
        self.push(Some(number));
    }

    fn word(&mut self, _: &'static str, index: usize, _: &'static [&'static str]) {
        self.push(Some(index as u64));
    }

    fn bits(&mut self, _: &'static str, bits: u32, _: &'static [&'static str]) {
        self.push(Some(bits.into()));
    }
}

/// Gives back the numbers that fields were taken as, in their order.
struct Given {
    values: std::array::IntoIter<u64, 8>,
}

impl FieldSource for Given {
    type Error = std::convert::Infallible;

    fn fd(&mut self, key: &'static str) -> Result<Fd, Self::Error> {
        Ok(Fd(self.number(key, u64::MAX)? as u32))
    }

    fn name(&mut self, key: &'static str) -> Result<Name, Self::Error> {
        Ok(Name(self.number(key, u64::MAX)? as u32))
    }

    fn number(&mut self, _: &'static str, _: u64) -> Result<u64, Self::Error> {
        Ok(self.values.next().unwrap_or(0))
    }

    fn word(
        &mut self,
        key: &'static str,
        _: &'static [&'static str],
    ) -> Result<usize, Self::Error> {
        Ok(self.number(key, u64::MAX)? as usize)
    }

    fn bits(&mut self, key: &'static str, _: &'static [&'static str]) -> Result<u32, Self::Error> {
        Ok(self.number(key, u64::MAX)? as u32)
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
    fn open_files_and_names_are_exchanged() {
        let call = Call::Link {
            of: Target::Path(Name(3)),
            to: Name(4),
        };
        let up = |_: &'static str, name: Name| (name.0 < 4).then_some(Name(name.0 + 1));
        assert_eq!(call.map(Some, up), None);
        let call = Call::CopyRange {
            from: Fd(1),
            from_at: 2,
            to: Fd(3),
            to_at: 4,
            len: 5,
        };
        let mapped = call.map(|fd| Some(Fd(fd.0 * 10)), up);
        let (from, to) = (Fd(10), Fd(30));
        assert_eq!(
            mapped,
            Some(Call::CopyRange {
                from,
                from_at: 2,
                to,
                to_at: 4,
                len: 5
            })
        );
    }

    #[test]
    fn kinds_know_their_numbers() {
        let sync = Call::Sync {};
        assert_eq!((sync.number(), sync.name()), (13, "sync"));
        assert!(Call::KINDS.contains(&(13, "sync")));
    }
}
