//! File calls.
//!
//! Offsets and lengths are in bytes. The result of a call is no part of it: see [`super::Event`].

use super::field::{Field, FieldSink, FieldSource};
use super::{
    Advice, Allocation, Fd, Hint, Lock, Mode, MsyncHow, Name, NodeKind, OpenFlags, RangeSync,
    RenameHow, Target, XattrHow,
};

/// Declares the kinds of calls: number in binary formats, name in text formats, fields.
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
            /// Number and name of every kind of call.
            pub const KINDS: &'static [(u8, &'static str)] = &[$(($number, $word)),*];

            /// Number of the kind in binary formats. A number never changes its meaning.
            #[must_use]
            pub const fn number(&self) -> u8 {
                match self { $(Self::$call { .. } => $number,)* }
            }

            /// Name of the kind in text formats and reports.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$call { .. } => $word,)* }
            }

            /// Hands the fields to `sink`, in the order of declaration.
            pub fn put(&self, sink: &mut impl FieldSink) {
                match *self {
                    $(Self::$call { $($field),* } => {
                        let _ = &sink;
                        $($field.put(stringify!($field), sink);)*
                    })*
                }
            }

            /// Takes the call of kind `number` from `source`; `None` if there is no such kind.
            ///
            /// # Errors
            /// The first error of the source.
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
    /// Opens the file at `path` in the free slot `fd`. A call that fails takes no slot.
    1 "open" Open {
        /// Slot of the open file.
        fd: Fd,
        /// Path of the file; with `TMPFILE`, of the directory.
        path: Name,
        /// Access mode and other open flags.
        flags: OpenFlags,
        /// Permissions of a new file, before the umask of the process.
        mode: Mode,
    }
    /// Closes the last descriptor of an open file.
    2 "close" Close {
        /// Slot that becomes free.
        fd: Fd,
    }
    /// Reads from the offset of the open file, and moves it.
    3 "read" Read {
        /// Open file.
        fd: Fd,
        /// Bytes requested.
        len: u64,
    }
    /// Writes at the offset of the open file, or at the end of a file that is
    /// open with `APPEND`, and moves the offset behind it.
    4 "write" Write {
        /// Open file.
        fd: Fd,
        /// Bytes to write.
        len: u64,
    }
    /// Reads from an offset; the offset of the open file stays. Recorded reads are of this kind,
    /// since their offset is known.
    5 "pread" Pread {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes requested.
        len: u64,
    }
    /// Writes at an offset; the offset of the open file stays. Recorded writes are of this kind
    /// unless the file is open with `APPEND`.
    6 "pwrite" Pwrite {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes to write.
        len: u64,
    }
    /// Finds data at or after an offset (`SEEK_DATA`).
    7 "seek-data" SeekData {
        /// Open file.
        fd: Fd,
        /// Offset at which the search begins.
        at: u64,
    }
    /// Finds a hole at or after an offset (`SEEK_HOLE`).
    8 "seek-hole" SeekHole {
        /// Open file.
        fd: Fd,
        /// Offset at which the search begins.
        at: u64,
    }
    /// Makes a file durable.
    9 "fsync" Fsync {
        /// Open file.
        fd: Fd,
    }
    /// Makes the data of a file durable, and the metadata needed to read it.
    10 "fdatasync" Fdatasync {
        /// Open file.
        fd: Fd,
    }
    /// Writes back a range without its metadata.
    11 "sync-range" SyncRange {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes of the range; 0 for all to the end of the file.
        len: u64,
        /// Write-back that the call starts or waits for.
        how: RangeSync,
    }
    /// Makes the whole file system of an open file durable.
    12 "syncfs" SyncFs {
        /// Any open file of the file system.
        fd: Fd,
    }
    /// Makes every file system durable.
    13 "sync" Sync {}
    /// Sets the size of a file.
    14 "truncate" Truncate {
        /// File to cut or extend.
        of: Target,
        /// New size in bytes.
        len: u64,
    }
    /// Allocates, punches or moves a range.
    15 "fallocate" Fallocate {
        /// Open file.
        fd: Fd,
        /// Operation on the range.
        how: Allocation,
        /// Offset of the first byte.
        at: u64,
        /// Bytes of the range.
        len: u64,
    }
    /// Gives a file another name.
    16 "rename" Rename {
        /// Old path of the file.
        from: Name,
        /// New path of the file.
        to: Name,
        /// Treatment of a file that has the new name.
        how: RenameHow,
    }
    /// Removes a name.
    17 "unlink" Unlink {
        /// Path to remove.
        path: Name,
    }
    /// Removes an empty directory.
    18 "rmdir" Rmdir {
        /// Path of the directory.
        path: Name,
    }
    /// Makes a directory.
    19 "mkdir" Mkdir {
        /// Path of the new directory.
        path: Name,
        /// Permissions, before the umask of the process.
        mode: Mode,
    }
    /// Makes a file, pipe, socket or device.
    20 "mknod" Mknod {
        /// Path of the new node.
        path: Name,
        /// Kind of the node.
        kind: NodeKind,
        /// Permissions, before the umask of the process.
        mode: Mode,
    }
    /// Gives a file a second name.
    21 "link" Link {
        /// The file; an open one stands for `linkat` on a descriptor, which gives a name to a file
        /// opened with `TMPFILE`.
        of: Target,
        /// New path of the file.
        to: Name,
    }
    /// Makes a symbolic link.
    22 "symlink" Symlink {
        /// Target of the link, verbatim.
        target: Name,
        /// Path of the link.
        path: Name,
    }
    /// Reads a symbolic link.
    23 "readlink" Readlink {
        /// Path of the link.
        path: Name,
    }
    /// Reads the attributes of a file.
    24 "stat" Stat {
        /// File to examine.
        of: Target,
    }
    /// Checks the permission to use a file.
    25 "access" Access {
        /// File to check.
        of: Target,
        /// Permission to check: read 4, write 2, execute 1, existence 0.
        mode: Mode,
    }
    /// Reads the totals of a file system: size and free space.
    26 "statfs" StatFs {
        /// Any file of the file system.
        of: Target,
    }
    /// Reads the next entries of a directory.
    27 "readdir" Readdir {
        /// Open directory.
        fd: Fd,
        /// Upper bound on the entries returned.
        entries: u64,
    }
    /// Goes back to the first entry of a directory.
    28 "rewinddir" Rewinddir {
        /// Open directory.
        fd: Fd,
    }
    /// Changes the permissions of a file.
    29 "chmod" Chmod {
        /// File to change.
        of: Target,
        /// New permissions.
        mode: Mode,
    }
    /// Changes the owner or the group of a file.
    30 "chown" Chown {
        /// File to change.
        of: Target,
        /// New user; 2^32 - 1 keeps the user.
        uid: u32,
        /// New group; 2^32 - 1 keeps the group.
        gid: u32,
    }
    /// Changes the times of access and modification.
    31 "utimens" Utimens {
        /// File to change.
        of: Target,
    }
    /// Reads an extended attribute.
    32 "getxattr" GetXattr {
        /// File to examine.
        of: Target,
        /// Name of the attribute.
        name: Name,
        /// Bytes of the buffer for the value.
        len: u64,
    }
    /// Sets an extended attribute.
    33 "setxattr" SetXattr {
        /// File to change.
        of: Target,
        /// Name of the attribute.
        name: Name,
        /// Bytes of the value.
        len: u64,
        /// Whether the attribute must exist or must not.
        how: XattrHow,
    }
    /// Lists the names of a file's extended attributes.
    34 "listxattr" ListXattr {
        /// File to examine.
        of: Target,
        /// Bytes of the buffer for the names.
        len: u64,
    }
    /// Removes an extended attribute.
    35 "removexattr" RemoveXattr {
        /// File to change.
        of: Target,
        /// Name of the attribute.
        name: Name,
    }
    /// Locks an open file as a whole.
    36 "flock" Flock {
        /// Open file.
        fd: Fd,
        /// Lock to take, or release.
        lock: Lock,
        /// Whether the call waits for the lock.
        wait: bool,
    }
    /// Locks a range for a process, or for the open file.
    37 "lock" RecordLock {
        /// Open file.
        fd: Fd,
        /// Lock to take, or release.
        lock: Lock,
        /// Offset of the first byte.
        at: u64,
        /// Bytes of the range; 0 for all to the end of the file.
        len: u64,
        /// Whether the call waits for the lock.
        wait: bool,
    }
    /// Announces the access pattern of a range (`posix_fadvise`, `madvise`).
    38 "advise" Advise {
        /// Open file.
        fd: Fd,
        /// Access pattern to expect.
        advice: Advice,
        /// Offset of the first byte.
        at: u64,
        /// Bytes of the range; 0 for all to the end of the file.
        len: u64,
    }
    /// Sets the expected lifetime of a file's data (write-life hint).
    39 "hint" Hint {
        /// Open file.
        fd: Fd,
        /// Expected lifetime.
        life: Hint,
    }
    /// Reads a range through a mapping.
    40 "load" Load {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes to read.
        len: u64,
    }
    /// Writes a range through a shared mapping.
    41 "store" Store {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes to write.
        len: u64,
    }
    /// Writes back the stores to a range of a mapping.
    42 "msync" Msync {
        /// Open file.
        fd: Fd,
        /// Offset of the first byte.
        at: u64,
        /// Bytes of the range.
        len: u64,
        /// Whether the call waits for the write-back.
        how: MsyncHow,
    }
    /// Copies a range between files inside the file system.
    43 "copy-range" CopyRange {
        /// Open source file.
        from: Fd,
        /// Offset of the first byte in the source.
        from_at: u64,
        /// Open destination file.
        to: Fd,
        /// Offset of the first byte in the destination.
        to_at: u64,
        /// Bytes requested.
        len: u64,
    }
}

impl Call {
    /// This call with its open files and names replaced by those that `fd` and `name` return;
    /// `None` if either returns `None`. `name` gets the key of the field, which is `path`, `from`
    /// or `to` for paths.
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

/// Sink that keeps fields as numbers, with open files and names replaced.
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

/// Source that returns the numbers kept by [`Exchange`], in order.
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
    fn map_replaces_open_files_and_names() {
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
    fn call_returns_the_number_and_name_of_its_kind() {
        let sync = Call::Sync {};
        assert_eq!((sync.number(), sync.name()), (13, "sync"));
        assert!(Call::KINDS.contains(&(13, "sync")));
    }
}
