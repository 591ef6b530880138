//! Any body as one type: the code above it is compiled once and not for each file system, and a
//! file system once, in its own crate.
//!
//! Invariants: a body receives only files that it has made itself, never those of another one. A
//! crate converts its bodies by functions that are not generic (`From<Body> for AnyBody`), so that
//! crates above it only link them.

use crate::body::{Body, Change, DirtyPage, NewInode, Rename};
use crate::errno::Result;
use crate::inode::Inode;
use crate::types::{
    Access, DirEntry, ExtentCounts, FallocateMode, Ino, LogStats, SeekWhat, StatFs, TimeRange,
    Timestamp, TreeStats, XattrFlags,
};
use nand::Payload;
use sim::Boxed;
use std::any::Any;
use std::ops::Range;
use units::Refusals;

/// A file of any body: the body's own [`Inode`].
pub struct AnyPrivate(Box<dyn Any>);

/// A body of any file system.
pub struct AnyBody(Box<dyn Calls>);

fn own<P: 'static>(inode: &Inode<AnyPrivate>) -> &Inode<P> {
    let own = inode.private.0.downcast_ref();
    own.expect("a body receives its own files only")
}

fn given<P: 'static>(inode: Inode<P>) -> Inode<AnyPrivate> {
    inode.within(|inode| AnyPrivate(Box::new(inode)))
}

fn own_names<'a, P: 'static>(rename: &Rename<'a, AnyPrivate>) -> Rename<'a, P> {
    Rename {
        from: own(rename.from),
        from_name: rename.from_name,
        to: own(rename.to),
        to_name: rename.to_name,
        moved: own(rename.moved),
        replaced: rename.replaced.map(own),
        exchange: rename.exchange,
        now: rename.now,
    }
}

impl AnyBody {
    /// Converts `body`. The caller's crate compiles the body's functions.
    pub fn new<B: Body>(body: B) -> Self {
        Self(Box::new(body))
    }

    /// The body as its own type; `None` if it is of another type.
    #[must_use]
    pub fn own<B: Body>(&self) -> Option<&B> {
        self.0.as_any().downcast_ref()
    }
}

/// Declares the functions of [`Body`] for a table of calls and forwards [`AnyBody`] to it. `File`
/// is an inode, `Ref` and `Mut` are references.
macro_rules! calls {
    (at once { $($now:ident($($a:ident: $a_type:tt $(($($a_of:tt)+))?),*) -> $now_out:ty;)+ }
     waiting { $($call:ident($($b:ident: $b_type:tt $(($($b_of:tt)+))?),*) -> $out:ty;)+ }) => {
        /// The functions of [`Body`], boxed, over files of any body.
        trait Calls {
            fn as_any(&self) -> &dyn Any;
            fn load(&self, ino: Ino) -> Boxed<'_, Result<Inode<AnyPrivate>>>;
            fn create<'a>(
                &'a self, dir: &'a Inode<AnyPrivate>, name: &'a [u8], new: NewInode<'a>
            ) -> Boxed<'a, Result<Inode<AnyPrivate>>>;
            fn create_unnamed<'a>(
                &'a self, new: NewInode<'a>
            ) -> Boxed<'a, Result<Inode<AnyPrivate>>>;
            fn rename<'a>(&'a self, rename: Rename<'a, AnyPrivate>) -> Boxed<'a, Result<()>>;
            $(fn $now(&self $(, $a: calls!(@type $a_type $(($($a_of)+))?))*) -> $now_out;)+
            $(fn $call<'a>(
                &'a self $(, $b: calls!(@long 'a $b_type $(($($b_of)+))?))*
            ) -> Boxed<'a, $out>;)+
        }

        impl<B: Body> Calls for B {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn load(&self, ino: Ino) -> Boxed<'_, Result<Inode<AnyPrivate>>> {
                Box::pin(async move { Body::load(self, ino).await.map(given) })
            }

            fn create<'a>(
                &'a self, dir: &'a Inode<AnyPrivate>, name: &'a [u8], new: NewInode<'a>
            ) -> Boxed<'a, Result<Inode<AnyPrivate>>> {
                Box::pin(async move { Body::create(self, own(dir), name, new).await.map(given) })
            }

            fn create_unnamed<'a>(
                &'a self, new: NewInode<'a>
            ) -> Boxed<'a, Result<Inode<AnyPrivate>>> {
                Box::pin(async move { Body::create_unnamed(self, new).await.map(given) })
            }

            fn rename<'a>(&'a self, rename: Rename<'a, AnyPrivate>) -> Boxed<'a, Result<()>> {
                Box::pin(Body::rename(self, own_names(&rename)))
            }

            $(fn $now(&self $(, $a: calls!(@type $a_type $(($($a_of)+))?))*) -> $now_out {
                Body::$now(self $(, calls!(@give $a_type $a))*)
            })+

            $(fn $call<'a>(
                &'a self $(, $b: calls!(@long 'a $b_type $(($($b_of)+))?))*
            ) -> Boxed<'a, $out> {
                Box::pin(Body::$call(self $(, calls!(@give $b_type $b))*))
            })+
        }

        impl Body for AnyBody {
            type Private = AnyPrivate;

            async fn load(&self, ino: Ino) -> Result<Inode<AnyPrivate>> {
                self.0.load(ino).await
            }

            async fn create(
                &self, dir: &Inode<AnyPrivate>, name: &[u8], new: NewInode<'_>
            ) -> Result<Inode<AnyPrivate>> {
                self.0.create(dir, name, new).await
            }

            async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Inode<AnyPrivate>> {
                self.0.create_unnamed(new).await
            }

            async fn rename(&self, rename: Rename<'_, AnyPrivate>) -> Result<()> {
                self.0.rename(rename).await
            }

            $(fn $now(&self $(, $a: calls!(@type $a_type $(($($a_of)+))?))*) -> $now_out {
                self.0.$now($($a),*)
            })+

            $(async fn $call(
                &self $(, $b: calls!(@type $b_type $(($($b_of)+))?))*
            ) -> $out {
                self.0.$call($($b),*).await
            })+
        }
    };
    (@type File) => { &Inode<AnyPrivate> };
    (@type Ref($of:ty)) => { &$of };
    (@type Mut($of:ty)) => { &mut $of };
    (@type Range(u64)) => { Range<u64> };
    (@type $of:ident) => { $of };
    (@long $life:lifetime File) => { &$life Inode<AnyPrivate> };
    (@long $life:lifetime Ref($of:ty)) => { &$life $of };
    (@long $life:lifetime Mut($of:ty)) => { &$life mut $of };
    (@long $life:lifetime Range(u64)) => { Range<u64> };
    (@long $life:lifetime $of:ident) => { $of };
    (@give File $at:ident) => { own($at) };
    (@give $of:tt $at:ident) => { $at };
}

calls! {
    at once {
    wants_duplicates() -> bool;
    is_dax() -> bool;
    max_size() -> u64;
    max_links() -> u32;
    times() -> TimeRange;
    is_read_only() -> bool;
    is_frozen(inode: File) -> bool;
    root() -> Ino;
    clones() -> bool;
    stat() -> StatFs;
    refusals() -> Refusals;
    tree_stats() -> Option<TreeStats>;
    log_stats() -> Option<LogStats>;
    end_on_medium(inode: File) -> u64;
    change(inode: File) -> Change;
    }
    waiting {
    takes_write(who: Ref(Access), inode: File, offset: u64, len: u64) -> Result<bool>;
    evict(inode: File) -> Result<()>;
    lookup(dir: File, name: Ref([u8])) -> Result<Option<Ino>>;
    link(dir: File, name: Ref([u8]), inode: File, now: Timestamp) -> Result<()>;
    unlink(dir: File, name: Ref([u8]), inode: File, now: Timestamp) -> Result<()>;
    rmdir(dir: File, name: Ref([u8]), inode: File, now: Timestamp) -> Result<()>;
    readlink(inode: File) -> Result<Vec<u8>>;
    read_dir(dir: File, cookie: u64, most: usize) -> Result<Vec<DirEntry>>;
    last_cookie(dir: File) -> Result<u64>;
    parent(dir: File) -> Result<Ino>;
    store(inode: File) -> Result<()>;
    truncate(inode: File, old: u64) -> Result<()>;
    seal_end(inode: File) -> Result<()>;
    read_pages(inode: File, first: u64, pages: Mut([Payload])) -> Result<()>;
    reserve(who: Ref(Access), inode: File, pages: Range(u64)) -> Result<()>;
    write_pages(inode: File, pages: Ref([DirtyPage])) -> Result<()>;
    read_direct(inode: File, offset: u64, out: Mut([u8])) -> Result<()>;
    write_direct(who: Ref(Access), inode: File, offset: u64, bytes: Ref([u8])) -> Result<u64>;
    fallocate(
        who: Ref(Access), inode: File, mode: FallocateMode, range: Range(u64), now: Timestamp
    ) -> Result<()>;
    clone_range(
        from: File, span: Range(u64), to: File, place: u64, now: Timestamp
    ) -> Result<bool>;
    seek(inode: File, offset: u64, what: SeekWhat) -> Result<Option<u64>>;
    settle(change: Change) -> Result<()>;
    sync(inode: File, data_only: bool) -> Result<()>;
    sync_all() -> Result<()>;
    unmount() -> Result<()>;
    get_xattr(inode: File, name: Ref([u8])) -> Result<Vec<u8>>;
    set_xattr(
        inode: File, name: Ref([u8]), value: Ref([u8]), flags: XattrFlags, now: Timestamp
    ) -> Result<()>;
    remove_xattr(inode: File, name: Ref([u8]), now: Timestamp) -> Result<()>;
    list_xattrs(inode: File) -> Result<Vec<Vec<u8>>>;
    count_extents() -> Result<Option<ExtentCounts>>;
    }
}
