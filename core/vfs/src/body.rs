//! The interface between the page cache and a file system.
//!
//! Only the cache calls a body, so a body may rely on checked arguments: names are 1 to 255 bytes
//! without `/` and are not `.` or `..`; a directory is a directory and is locked exclusively while
//! it changes; a name to be removed exists; a replacing inode fits the one it replaces; permissions
//! have been granted. Where a call changes links, the body itself sets times in
//! [`Face::attr`](crate::Face::attr), from the `now` of the call.

use crate::errno::Result;
use crate::inode::Inode;
use crate::types::{
    Access, DirEntry, ExtentCounts, FallocateMode, FileKind, Ino, LogStats, SeekWhat, StatFs,
    TimeRange, Timestamp, TreeStats, XattrFlags,
};
use nand::Payload;
use std::ops::Range;
use units::Refusals;

/// A change that [`Body::settle`] waits for; the default is no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub u64);

/// Attributes of an inode to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// Type of the new file.
    pub kind: FileKind,
    /// Permissions, 12 bits, with the umask taken off.
    pub mode: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Device number, for a device; else 0.
    pub rdev: u32,
    /// Target of a symbolic link; empty for other kinds.
    pub target: &'a [u8],
    /// Time of the call, for all timestamps.
    pub now: Timestamp,
}

/// Arguments of a rename.
pub struct Rename<'a, P> {
    /// Directory of the old name.
    pub from: &'a Inode<P>,
    /// Name in `from`, which exists.
    pub from_name: &'a [u8],
    /// Directory of the new name; may be the same inode.
    pub to: &'a Inode<P>,
    /// Name in `to`, which may exist.
    pub to_name: &'a [u8],
    /// Inode that the old name leads to.
    pub moved: &'a Inode<P>,
    /// Inode that the new name leads to; `None` if the new name is free.
    pub replaced: Option<&'a Inode<P>>,
    /// Whether the two names exchange their inodes.
    pub exchange: bool,
    /// Time of the call, for changed timestamps.
    pub now: Timestamp,
}

/// A page to be written back.
#[derive(Clone, Debug)]
pub struct DirtyPage {
    /// Number of the page in its file.
    pub index: u64,
    /// Contents to write; bytes past the end of the file are zero.
    pub now: Payload,
    /// Contents when the page was last clean, if the body asked for them.
    pub before: Option<Payload>,
}

/// A file system. `Private` is its own state of each inode in memory.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Body: 'static {
    /// State that the body keeps with each inode in memory.
    type Private: 'static;

    /// Whether write-back also passes the contents that a page had when it was last clean.
    fn wants_duplicates(&self) -> bool {
        false
    }

    /// Whether contents are read and written in place on the medium, so that the cache holds no
    /// page of them. Every read and write, also of mapped files, then calls [`Body::read_direct`]
    /// or [`Body::write_direct`] with any offset and length. A write makes the times in
    /// [`Face::attr`](crate::Face::attr) as durable as its bytes; bytes that a truncation leaves
    /// behind the end stay hidden as [`Body::seal_end`] says.
    fn is_dax(&self) -> bool {
        false
    }

    /// Whether a write of `len` bytes at `offset` bypasses the cache for [`Body::write_direct`],
    /// whatever its offset and length, because the body has its own buffers for this file. Reads
    /// are cached all the same. Called before each write, with the file locked; a body may give up
    /// its buffers of the file and return false.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`: the write is not performed.
    async fn takes_write(
        &self,
        _who: &Access,
        _inode: &Inode<Self::Private>,
        _offset: u64,
        _len: u64,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Largest size of a file, in bytes.
    fn max_size(&self) -> u64;

    /// Largest link count of an inode: names of a file, or links that subdirectories give to a
    /// directory.
    fn max_links(&self) -> u32;

    /// Timestamps that the medium can hold. Callers never see another one, so a timestamp does not
    /// change when its file leaves memory (`s_time_min`, `s_time_max` and `s_time_gran` in Linux).
    fn times(&self) -> TimeRange {
        TimeRange::default()
    }

    /// Whether the file system rejects all changes, as after a failure of the medium from which it
    /// could not recover.
    fn is_read_only(&self) -> bool;

    /// Whether a file or directory rejects changes because it belongs to a snapshot.
    fn is_frozen(&self, _inode: &Inode<Self::Private>) -> bool {
        false
    }

    /// Number of the root directory, which always exists.
    fn root(&self) -> Ino;

    /// Loads an inode from the medium.
    ///
    /// # Errors
    /// `ENOENT` if no inode has this number; `EUCLEAN`, `EIO`.
    async fn load(&self, ino: Ino) -> Result<Inode<Self::Private>>;

    /// Drops the state of an inode that is not open and whose pages are clean or worthless. Frees
    /// an inode without a name.
    ///
    /// # Errors
    /// `EIO`.
    async fn evict(&self, inode: &Inode<Self::Private>) -> Result<()>;

    /// Looks up the inode that `name` leads to; `None` if the name is free.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn lookup(&self, dir: &Inode<Self::Private>, name: &[u8]) -> Result<Option<Ino>>;

    /// Creates an inode under a free name. The new number may be that of an inode whose
    /// [`Body::evict`] has freed it but has not returned yet; the new inode may then be loaded
    /// before its first use.
    ///
    /// # Errors
    /// `ENOSPC`, `EMLINK`, `EIO`.
    async fn create(
        &self,
        dir: &Inode<Self::Private>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<Self::Private>>;

    /// Creates an inode without a name, which does not survive a power cut.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Inode<Self::Private>>;

    /// Adds a hard link under a free name; `inode` may have had no name before.
    ///
    /// # Errors
    /// `ENOSPC`, `EMLINK`, `EIO`.
    async fn link(
        &self,
        dir: &Inode<Self::Private>,
        name: &[u8],
        inode: &Inode<Self::Private>,
        now: Timestamp,
    ) -> Result<()>;

    /// Removes a name of `inode`, which is no directory. An inode that loses its last name lives
    /// until it is evicted, or until a power cut.
    ///
    /// # Errors
    /// `EIO`.
    async fn unlink(
        &self,
        dir: &Inode<Self::Private>,
        name: &[u8],
        inode: &Inode<Self::Private>,
        now: Timestamp,
    ) -> Result<()>;

    /// Removes the name of a directory, which must be empty.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `EIO`.
    async fn rmdir(
        &self,
        dir: &Inode<Self::Private>,
        name: &[u8],
        inode: &Inode<Self::Private>,
        now: Timestamp,
    ) -> Result<()>;

    /// Renames atomically: after a power cut exactly one of the names is there.
    ///
    /// # Errors
    /// `ENOTEMPTY` if the replaced directory has entries; `ENOSPC`, `EMLINK`, `EIO`.
    async fn rename(&self, rename: Rename<'_, Self::Private>) -> Result<()>;

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn readlink(&self, inode: &Inode<Self::Private>) -> Result<Vec<u8>>;

    /// Lists up to `most` entries after `cookie` (0: from the start) without `.` and `..`; empty at
    /// the end.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn read_dir(
        &self,
        dir: &Inode<Self::Private>,
        cookie: u64,
        most: usize,
    ) -> Result<Vec<DirEntry>>;

    /// A cookie at which a listing that starts now may end: no present entry is behind it, and all
    /// entries added later are. `u64::MAX` if an added entry may have any cookie. With this bound,
    /// a program that renames each entry it lists does not list the new names for ever.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn last_cookie(&self, _dir: &Inode<Self::Private>) -> Result<u64> {
        Ok(u64::MAX)
    }

    /// Number of the parent of `dir`.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn parent(&self, dir: &Inode<Self::Private>) -> Result<Ino>;

    /// Records changed attributes of `inode`: owner, permissions, times.
    ///
    /// # Errors
    /// `EIO`.
    async fn store(&self, inode: &Inode<Self::Private>) -> Result<()>;

    /// Frees the space past a new size. The size attribute is set already, pages past the end are
    /// dropped and the last page is cut. `old` is the previous size.
    ///
    /// # Errors
    /// `EIO`.
    async fn truncate(&self, inode: &Inode<Self::Private>, old: u64) -> Result<()>;

    /// Called before a file grows whose end, at its present size, is inside a page; that page is
    /// not cached. Afterwards the bytes of that page behind the end are zeros on the medium, also
    /// if a power cut interrupted an earlier write or truncation. A body whose medium cannot hold
    /// other bytes there does nothing.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn seal_end(&self, _inode: &Inode<Self::Private>) -> Result<()> {
        Ok(())
    }

    /// End of the file on the medium as a power cut would show it, at most the size. A write-back
    /// of later pages may move that end, and then the bytes of the end's page on the medium become
    /// part of the file.
    fn end_on_medium(&self, inode: &Inode<Self::Private>) -> u64 {
        inode.attr.get().size
    }

    /// Reads consecutive pages from number `first` on; holes are zeros. Each page begins before the
    /// end of the file.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn read_pages(
        &self,
        inode: &Inode<Self::Private>,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()>;

    /// Announces that `pages` are about to become dirty. The body may reserve or allocate space for
    /// them. It may withhold reserved space from `who`.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`, `EIO`: the pages stay as they are.
    async fn reserve(
        &self,
        who: &Access,
        inode: &Inode<Self::Private>,
        pages: Range<u64>,
    ) -> Result<()>;

    /// Writes back dirty pages in ascending order; returns once the medium has accepted them, which
    /// does not make them durable.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    async fn write_pages(&self, inode: &Inode<Self::Private>, pages: &[DirtyPage]) -> Result<()>;

    /// Reads around the cache, which has no dirty page in the range. `offset` and length are the
    /// program's. With a body in place ([`Body::is_dax`]), the range ends within the file.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot read at this offset or length; `EIO`.
    async fn read_direct(
        &self,
        inode: &Inode<Self::Private>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()>;

    /// Writes around the cache, which has no page in the range. The body raises the size in
    /// [`Face::attr`](crate::Face::attr). Returns the number of leading bytes written: at least
    /// one, and fewer than all if space ran out.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot write at this offset or length; `ENOSPC`, `EIO`. The file is
    /// unchanged.
    async fn write_direct(
        &self,
        who: &Access,
        inode: &Inode<Self::Private>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64>;

    /// Changes the allocation of a range of bytes. Its pages are clean and not cached; the body
    /// sets the size attribute if the file grows.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENOSPC`, `EFBIG`, `EIO`.
    async fn fallocate(
        &self,
        who: &Access,
        inode: &Inode<Self::Private>,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()>;

    /// Whether ranges of files can share space ([`Body::clone_range`]).
    fn clones(&self) -> bool {
        false
    }

    /// Shares the bytes `span` of `from` with `to` at `place`, without copying them. Both files are
    /// locked, and neither range is dirty or cached in `to`. The body sets the size attribute if
    /// `to` grows. Returns false, with nothing changed, if the bytes have to be copied.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    async fn clone_range(
        &self,
        _from: &Inode<Self::Private>,
        _span: Range<u64>,
        _to: &Inode<Self::Private>,
        _place: u64,
        _now: Timestamp,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The first offset at or after `offset` where `what` begins; `None` if there is no more data.
    /// The file has no dirty page.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn seek(
        &self,
        inode: &Inode<Self::Private>,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>>;

    /// Number of the last change of `inode`, for [`Body::settle`]. Called before the locks of the
    /// change are released.
    fn change(&self, _inode: &Inode<Self::Private>) -> Change {
        Change::default()
    }

    /// Waits until `change` is as durable as this body makes a change before its call returns; by
    /// default does not wait. No lock is held meanwhile, so other calls may change the same
    /// directory or file, and their changes reach the medium together.
    ///
    /// # Errors
    /// `EIO`: the change may be durable or not, and the file system rejects further changes.
    async fn settle(&self, _change: Change) -> Result<()> {
        Ok(())
    }

    /// Makes the written-back data of `inode` durable, with the metadata that lead to it. With
    /// `data_only`, attributes that are not needed to read the data may stay volatile.
    ///
    /// # Errors
    /// `EIO`.
    async fn sync(&self, inode: &Inode<Self::Private>, data_only: bool) -> Result<()>;

    /// Makes all changes and all written-back data durable.
    ///
    /// # Errors
    /// `EIO`.
    async fn sync_all(&self) -> Result<()>;

    /// Leaves the medium as a clean unmount does; nothing is dirty.
    ///
    /// # Errors
    /// `EIO`.
    async fn unmount(&self) -> Result<()>;

    /// The value of an extended attribute; `name` includes its namespace.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`, `EIO`.
    async fn get_xattr(&self, inode: &Inode<Self::Private>, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`, `ENOSPC`, `ERANGE`, `EOPNOTSUPP`, `EIO`.
    async fn set_xattr(
        &self,
        inode: &Inode<Self::Private>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`, `EIO`.
    async fn remove_xattr(
        &self,
        inode: &Inode<Self::Private>,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()>;

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn list_xattrs(&self, inode: &Inode<Self::Private>) -> Result<Vec<Vec<u8>>>;

    /// Capacity and free space.
    fn stat(&self) -> StatFs;

    /// Limits that allocations have hit, with the holders of the space at that time: the reasons
    /// for `ENOSPC`. Empty by default.
    fn refusals(&self) -> Refusals {
        Refusals::default()
    }

    /// Counts of the extents of all files; `None` of a body that does not count them.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn count_extents(&self) -> Result<Option<ExtentCounts>> {
        Ok(None)
    }

    /// Counters of a copy-on-write file system of trees; `None` of any other.
    fn tree_stats(&self) -> Option<TreeStats> {
        None
    }

    /// Counters of a log-structured file system; `None` of any other.
    fn log_stats(&self) -> Option<LogStats> {
        None
    }
}
