//! What a file system has to do.
//!
//! A body is called through the cache and by nobody else, so it may count on
//! arguments that were checked: names are 1 to 255 bytes without `/` and are not
//! `.` or `..`; a directory is a directory and is locked exclusively while it is
//! changed; what is to be unlinked exists; what replaces fits what it replaces;
//! permissions were checked and times are set in [`Face::attr`](crate::Face::attr) by the body
//! itself where it changes links, from the `now` of the call.

use crate::errno::Result;
use crate::inode::Inode;
use crate::types::{
    Access, DirEntry, ExtentCounts, FallocateMode, FileKind, Ino, LogStats, SeekWhat, StatFs,
    Timestamp, TreeStats, XattrFlags,
};
use nand::Payload;
use std::ops::Range;
use units::Refusals;

/// Something that the body has changed and that [`Body::settle`] waits for; the
/// default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub u64);

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// What it is.
    pub kind: FileKind,
    /// Permissions, 12 bits, with the umask taken off.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of a device.
    pub rdev: u32,
    /// Where a symbolic link leads.
    pub target: &'a [u8],
    /// The present.
    pub now: Timestamp,
}

/// One name takes the place of another.
pub struct Rename<'a, P> {
    /// Directory of the old name.
    pub from: &'a Inode<P>,
    /// Old name.
    pub from_name: &'a [u8],
    /// Directory of the new name; may be the same inode.
    pub to: &'a Inode<P>,
    /// New name.
    pub to_name: &'a [u8],
    /// What is renamed.
    pub moved: &'a Inode<P>,
    /// What had the new name.
    pub replaced: Option<&'a Inode<P>>,
    /// Whether the two change places.
    pub exchange: bool,
    /// The present.
    pub now: Timestamp,
}

/// A page to be written back.
#[derive(Clone, Debug)]
pub struct DirtyPage {
    /// Its number in the file.
    pub index: u64,
    /// Its contents; bytes past the end of the file are zero.
    pub now: Payload,
    /// Its contents when it was last clean, where the body asked for them.
    pub before: Option<Payload>,
}

/// A file system. `Private` is what it keeps with each inode in memory.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Body: 'static {
    /// What it keeps with each inode.
    type Private: 'static;

    /// Whether write-back is given the contents that a page had when it was
    /// last clean.
    fn wants_duplicates(&self) -> bool {
        false
    }

    /// Whether contents are read and written where they lie on the medium, so that
    /// no page of them is cached. Then every read and write, also of mapped files,
    /// comes to [`Body::read_direct`] and [`Body::write_direct`], with any offset and
    /// length; a write makes the times in [`Face::attr`](crate::Face::attr) as durable as its bytes;
    /// and what a cut leaves behind the end stays hidden as [`Body::seal_end`] says.
    fn is_dax(&self) -> bool {
        false
    }

    /// Whether a write of `len` bytes at `offset` goes around the cache to
    /// [`Body::write_direct`], whatever its offset and length, because the body has
    /// buffers of its own for this file; reads are cached all the same. Asked before each
    /// write, with the file locked: a body may let go of the file and say no.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`: then nothing is written.
    async fn takes_write(
        &self,
        _who: &Access,
        _inode: &Inode<Self::Private>,
        _offset: u64,
        _len: u64,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Largest size of a file in bytes.
    fn max_size(&self) -> u64;

    /// Most names of a file.
    fn max_links(&self) -> u32;

    /// Nanoseconds between two times that the medium can tell apart, of which whole ones are in
    /// a second: nothing finer is told, so that a time does not change when its file leaves
    /// memory (`s_time_gran` in Linux, where files are stamped with nothing finer either).
    fn time_grain(&self) -> u32 {
        1
    }

    /// Whether nothing can be changed any more, as after a failure of the medium
    /// that the file system could not go on from.
    fn is_read_only(&self) -> bool;

    /// Whether nothing can be changed of a file, or in a directory, because it is kept as it
    /// was, as in a snapshot.
    fn is_frozen(&self, _inode: &Inode<Self::Private>) -> bool {
        false
    }

    /// The number of the root directory.
    fn root(&self) -> Ino;

    /// Brings an inode to memory.
    ///
    /// # Errors
    /// `ENOENT` if there is none of this number; `EUCLEAN`, `EIO`.
    async fn load(&self, ino: Ino) -> Result<Inode<Self::Private>>;

    /// Lets an inode go from memory: it is not open and its pages are clean or
    /// worthless. One without a name is freed.
    ///
    /// # Errors
    /// `EIO`.
    async fn evict(&self, inode: &Inode<Self::Private>) -> Result<()>;

    /// Which inode `name` leads to.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn lookup(&self, dir: &Inode<Self::Private>, name: &[u8]) -> Result<Option<Ino>>;

    /// Makes an inode and gives it a name that is free. Its number may be that of
    /// an inode whose [`Body::evict`] has not returned yet, if it is free already;
    /// then the new one may be loaded before it is used.
    ///
    /// # Errors
    /// `ENOSPC`, `EMLINK`, `EIO`.
    async fn create(
        &self,
        dir: &Inode<Self::Private>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<Self::Private>>;

    /// Makes an inode without a name, which is gone after a power cut.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Inode<Self::Private>>;

    /// Gives `inode` another name, that is free; it may have had none.
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

    /// Takes a name from `inode`, which is no directory. If it was the last one,
    /// the inode lives on until it is evicted, or until the power goes.
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

    /// Takes the name from an empty directory.
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

    /// Renames, at once: no power cut leaves both names or none.
    ///
    /// # Errors
    /// `ENOTEMPTY` if a directory is replaced that is not empty; `ENOSPC`,
    /// `EMLINK`, `EIO`.
    async fn rename(&self, rename: Rename<'_, Self::Private>) -> Result<()>;

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn readlink(&self, inode: &Inode<Self::Private>) -> Result<Vec<u8>>;

    /// Up to `most` entries after `cookie` (0 from the start) without `.` and
    /// `..`; an empty list at the end.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn read_dir(
        &self,
        dir: &Inode<Self::Private>,
        cookie: u64,
        most: usize,
    ) -> Result<Vec<DirEntry>>;

    /// The cookie behind which no entry of a directory is yet, and behind which all are
    /// that it gets from now on; the largest number if a new one may come anywhere.
    /// Where new names come last, a listing ends there: somebody who renames what he is
    /// given would be given the new names for ever.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn last_cookie(&self, _dir: &Inode<Self::Private>) -> Result<u64> {
        Ok(u64::MAX)
    }

    /// The directory that `dir` is in.
    ///
    /// # Errors
    /// `EUCLEAN`, `EIO`.
    async fn parent(&self, dir: &Inode<Self::Private>) -> Result<Ino>;

    /// Writes down the attributes of `inode`: owner, permissions, times.
    ///
    /// # Errors
    /// `EIO`.
    async fn store(&self, inode: &Inode<Self::Private>) -> Result<()>;

    /// Sets the size and frees what lies past it. The attribute is set already,
    /// pages past the end are gone and the last one is cut. `old` is the size
    /// that it had.
    ///
    /// # Errors
    /// `EIO`.
    async fn truncate(&self, inode: &Inode<Self::Private>, old: u64) -> Result<()>;

    /// Is told that a file is about to grow whose end, at its present size, is
    /// within a page; that page is not in the cache. What the medium holds of it
    /// behind the end, where writing or cutting was overtaken by a power cut, is
    /// zeros afterwards. A body on whose medium that cannot be does nothing.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn seal_end(&self, _inode: &Inode<Self::Private>) -> Result<()> {
        Ok(())
    }

    /// Where the file ends on the medium as far as a power cut shows it: no further
    /// than its size says. What is written back behind may take that end with it, and
    /// what the medium has of the page that it is in then belongs to the file.
    fn end_on_medium(&self, inode: &Inode<Self::Private>) -> u64 {
        inode.attr.get().size
    }

    /// Fills `pages` with the contents of the pages from number `first` on;
    /// holes are zeros. All lie within the file, or begin in it.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn read_pages(
        &self,
        inode: &Inode<Self::Private>,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()>;

    /// Is told that `pages` are about to become dirty. May reserve space for
    /// them, or allocate it. Some of the space may be kept for others than `who`.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`, `EIO`: then nothing is written.
    async fn reserve(
        &self,
        who: &Access,
        inode: &Inode<Self::Private>,
        pages: Range<u64>,
    ) -> Result<()>;

    /// Writes back dirty pages in ascending order; returns when the medium has
    /// taken them, which does not make them durable.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    async fn write_pages(&self, inode: &Inode<Self::Private>, pages: &[DirtyPage]) -> Result<()>;

    /// Reads around the cache, which has nothing dirty there. `offset` and the
    /// length of `out` are as the program gave them; of a body without a cache
    /// ([`Body::is_dax`]) the file has all of these bytes.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot read at such an offset or length.
    async fn read_direct(
        &self,
        inode: &Inode<Self::Private>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()>;

    /// Writes around the cache, which has nothing there. The size has not been
    /// raised yet; the body raises it in [`Face::attr`](crate::Face::attr). Gives how many of the first
    /// bytes were written: one at least, and not all if the space ran out after them.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot write at such an offset or length;
    /// `ENOSPC`, `EIO`. Then nothing of it can be seen in the file.
    async fn write_direct(
        &self,
        who: &Access,
        inode: &Inode<Self::Private>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64>;

    /// Changes the allocation of a range of bytes. Its pages are clean and not
    /// in the cache; the attribute `size` is set by the body where it grows.
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

    /// Has the bytes `span` of `from` be in `to` from `place` on too, without copying them:
    /// both are locked, and nothing of either range is dirty or in the cache of `to`. The
    /// attribute `size` is set by the body where it grows. False, and nothing done, if they
    /// have to be copied.
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

    /// The first offset from `offset` on where `what` begins; none if there is
    /// no more data. Nothing of the file is dirty.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn seek(
        &self,
        inode: &Inode<Self::Private>,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>>;

    /// The last change of `inode`, for [`Body::settle`]. Asked while what was locked
    /// for the change still is.
    fn change(&self, _inode: &Inode<Self::Private>) -> Change {
        Change::default()
    }

    /// Waits until `change` is as durable as this body makes what a call has changed
    /// before the call returns: not at all, unless it says otherwise. Nothing is
    /// locked meanwhile, so that others change the same directory or file and their
    /// changes go to the medium together.
    ///
    /// # Errors
    /// `EIO`: it may be durable or not, and nothing can be changed any more.
    async fn settle(&self, _change: Change) -> Result<()> {
        Ok(())
    }

    /// Makes durable what was written back of `inode` and what leads to it; with
    /// `data_only` attributes that nobody needs to read the data may wait.
    ///
    /// # Errors
    /// `EIO`.
    async fn sync(&self, inode: &Inode<Self::Private>, data_only: bool) -> Result<()>;

    /// Makes everything durable that was changed or written back.
    ///
    /// # Errors
    /// `EIO`.
    async fn sync_all(&self) -> Result<()>;

    /// Leaves the medium as a clean unmount does. Nothing is dirty.
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

    /// How full it is.
    fn stat(&self) -> StatFs;

    /// Limits that allocations have met, and who held them then: why there was
    /// `ENOSPC`. None of a body that does not say.
    fn refusals(&self) -> Refusals {
        Refusals::default()
    }

    /// How many pieces of the medium files lie in; none of a body that does not say.
    ///
    /// # Errors
    /// `EIO`, `EUCLEAN`.
    async fn count_extents(&self) -> Result<Option<ExtentCounts>> {
        Ok(None)
    }

    /// What a copy-on-write file system of trees has counted and holds; none of another one.
    fn tree_stats(&self) -> Option<TreeStats> {
        None
    }

    /// What a log-structured file system has counted and holds; none of another one.
    fn log_stats(&self) -> Option<LogStats> {
        None
    }
}
