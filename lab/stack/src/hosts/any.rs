//! All file systems as one type, dispatched at each call.
//!
//! Code above the file systems, such as the cache, is compiled once and not once for each.
//!
//! Invariant: a body receives only files that it has made itself, never those of another one.

use super::{
    Btrfs, ByteFs, Directed, Ext4, F2fs, Host, Hyfim, Made, Nova, Persimmon, Persistent, Promises,
    Said, Shimmer, Undoing, Zonefs,
};
use crate::attached::Attached;
use crate::image::DriveImage;
use nand::Payload;
use sim::Sim;
use ssd::DriveConfig;
use std::ops::Range;
use units::Refusals;
use vfs::{
    Access, Body, Change, DirEntry, DirtyPage, ExtentCounts, FallocateMode, Ino, Inode, LogStats,
    NewInode, Rename, Result, SeekWhat, StatFs, TimeRange, Timestamp, TreeStats, XattrFlags,
};

/// The private part of a file, wrapped for any file system.
#[expect(clippy::large_enum_variant, reason = "a file in use is one allocation")]
pub enum Private {
    /// A file of the ext4 family.
    Ext(Inode<extfs::Private>),
    /// A file of Btrfs or HyFiM.
    Cow(Inode<cowfs::Private>),
    /// A file of F2FS or Persimmon.
    Lfs(Inode<lfs::Private>),
    /// A file of NOVA.
    Nova(Inode<novafs::Private>),
    /// A file of zonefs.
    Zone(Inode<zonefs::Place>),
}

/// The private part of a file of one file system.
trait Own: Sized {
    /// Wraps a file of this file system for all.
    fn given(inode: Inode<Self>) -> Inode<Private>;

    /// Unwraps a file for its own body.
    fn of(inode: &Inode<Private>) -> &Inode<Self>;
}

macro_rules! own {
    ($($kind:ident($private:ty)),+) => { $(
        impl Own for $private {
            fn given(inode: Inode<Self>) -> Inode<Private> {
                inode.within(Private::$kind)
            }

            fn of(inode: &Inode<Private>) -> &Inode<Self> {
                match &inode.private {
                    Private::$kind(own) => own,
                    _ => unreachable!("a file of another file system"),
                }
            }
        }
    )+ };
}

own!(
    Ext(extfs::Private),
    Cow(cowfs::Private),
    Lfs(lfs::Private),
    Nova(novafs::Private),
    Zone(zonefs::Place)
);

/// Defines the enums of all hosts and of all bodies, with conversions to them.
macro_rules! hosts {
    ($($name:ident),+) => {
        /// Any host, to be formatted and mounted.
        #[derive(Clone)]
        pub enum AnyHost {
            $(#[allow(missing_docs, reason = "a name says it")] $name($name)),+
        }

        /// Any mounted file system.
        pub enum AnyBody {
            $(#[allow(missing_docs, reason = "a name says it")] $name(<$name as Host>::Body)),+
        }

        $(
            impl From<$name> for AnyHost {
                fn from(host: $name) -> Self {
                    Self::$name(host)
                }
            }

            impl From<<$name as Host>::Body> for AnyBody {
                fn from(body: <$name as Host>::Body) -> Self {
                    Self::$name(body)
                }
            }
        )+
    };
}

/// Hosts whose files get lifetime hints by rules.
type DirectedBtrfs = Directed<Btrfs>;
type DirectedExt4 = Directed<Ext4>;
type DirectedF2fs = Directed<F2fs>;
type DirectedPersimmon = Directed<Persimmon>;

hosts!(
    Btrfs,
    ByteFs,
    DirectedBtrfs,
    DirectedExt4,
    DirectedF2fs,
    DirectedPersimmon,
    Ext4,
    F2fs,
    Hyfim,
    Nova,
    Persimmon,
    Shimmer,
    Undoing,
    Zonefs
);

/// Evaluates an expression for the variant of an [`AnyHost`] or [`AnyBody`].
macro_rules! with {
    ($any:ident $own:expr, $it:ident => $does:expr) => {
        match $own {
            $any::Btrfs($it) => $does,
            $any::ByteFs($it) => $does,
            $any::DirectedBtrfs($it) => $does,
            $any::DirectedExt4($it) => $does,
            $any::DirectedF2fs($it) => $does,
            $any::DirectedPersimmon($it) => $does,
            $any::Ext4($it) => $does,
            $any::F2fs($it) => $does,
            $any::Hyfim($it) => $does,
            $any::Nova($it) => $does,
            $any::Persimmon($it) => $does,
            $any::Shimmer($it) => $does,
            $any::Undoing($it) => $does,
            $any::Zonefs($it) => $does,
        }
    };
}

impl Host for AnyHost {
    type Body = AnyBody;

    fn promises(&self) -> Promises {
        with!(AnyHost self, host => host.promises())
    }

    fn memory(&self) -> Option<Persistent> {
        with!(AnyHost self, host => host.memory())
    }

    fn shape(&self, drive: &mut DriveConfig) {
        with!(AnyHost self, host => host.shape(drive));
    }

    fn deallocates(&self) -> bool {
        with!(AnyHost self, host => host.deallocates())
    }

    async fn format(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<()> {
        with!(AnyHost self, host => host.format(sim, device, now).await)
    }

    async fn mount(&self, sim: &Sim, device: &Attached, now: Timestamp) -> Made<AnyBody> {
        with!(AnyHost self, host => host.mount(sim, device, now).await.map(AnyBody::from))
    }

    fn has_snapshots(&self) -> bool {
        with!(AnyHost self, host => host.has_snapshots())
    }

    async fn keep(&self, body: &AnyBody, name: &[u8], now: Timestamp) -> Made<()> {
        match (self, body) {
            (Self::Btrfs(host), AnyBody::Btrfs(body)) => host.keep(body, name, now).await,
            (Self::DirectedBtrfs(host), AnyBody::DirectedBtrfs(body)) => {
                host.keep(body, name, now).await
            }
            (Self::Hyfim(host), AnyBody::Hyfim(body)) => host.keep(body, name, now).await,
            _ => Err("it has no snapshots".to_owned()),
        }
    }

    fn check(&self, image: &DriveImage<'_>) -> Vec<String> {
        with!(AnyHost self, host => host.check(image))
    }

    fn has_outside(&self) -> bool {
        with!(AnyHost self, host => host.has_outside())
    }

    fn ask_outside(&self, image: &DriveImage<'_>, recover: bool) -> Said {
        with!(AnyHost self, host => host.ask_outside(image, recover))
    }
}

/// Forwards functions of [`Body`] to the variant. Types are identifiers, or stand in brackets; a
/// `File` is unwrapped for the body.
macro_rules! pass {
    ($($name:ident($($at:ident: $of:tt),*) -> $out:ty;)+) => { $(
        async fn $name(&self $(, $at: pass!(@type $of))*) -> $out {
            with!(AnyBody self, body => Body::$name(body $(, pass!(@give $of $at))*).await)
        }
    )+ };
    (at once: $($name:ident($($at:ident: $of:tt),*) -> $out:ty;)+) => { $(
        fn $name(&self $(, $at: pass!(@type $of))*) -> $out {
            with!(AnyBody self, body => Body::$name(body $(, pass!(@give $of $at))*))
        }
    )+ };
    (@type File) => { &Inode<Private> };
    (@type [$($of:tt)+]) => { $($of)+ };
    (@type $of:ident) => { $of };
    (@give File $at:ident) => { Own::of($at) };
    (@give $of:tt $at:ident) => { $at };
}

impl Body for AnyBody {
    type Private = Private;

    pass! { at once:
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

    pass! {
        takes_write(who: [&Access], inode: File, offset: u64, len: u64) -> Result<bool>;
        evict(inode: File) -> Result<()>;
        lookup(dir: File, name: [&[u8]]) -> Result<Option<Ino>>;
        link(dir: File, name: [&[u8]], inode: File, now: Timestamp) -> Result<()>;
        unlink(dir: File, name: [&[u8]], inode: File, now: Timestamp) -> Result<()>;
        rmdir(dir: File, name: [&[u8]], inode: File, now: Timestamp) -> Result<()>;
        readlink(inode: File) -> Result<Vec<u8>>;
        read_dir(dir: File, cookie: u64, most: usize) -> Result<Vec<DirEntry>>;
        last_cookie(dir: File) -> Result<u64>;
        parent(dir: File) -> Result<Ino>;
        store(inode: File) -> Result<()>;
        truncate(inode: File, old: u64) -> Result<()>;
        seal_end(inode: File) -> Result<()>;
        read_pages(inode: File, first: u64, pages: [&mut [Payload]]) -> Result<()>;
        reserve(who: [&Access], inode: File, pages: [Range<u64>]) -> Result<()>;
        write_pages(inode: File, pages: [&[DirtyPage]]) -> Result<()>;
        read_direct(inode: File, offset: u64, out: [&mut [u8]]) -> Result<()>;
        write_direct(who: [&Access], inode: File, offset: u64, bytes: [&[u8]]) -> Result<u64>;
        fallocate(
            who: [&Access], inode: File, mode: FallocateMode, range: [Range<u64>], now: Timestamp
        ) -> Result<()>;
        clone_range(
            from: File, span: [Range<u64>], to: File, place: u64, now: Timestamp
        ) -> Result<bool>;
        seek(inode: File, offset: u64, what: SeekWhat) -> Result<Option<u64>>;
        settle(change: Change) -> Result<()>;
        sync(inode: File, data_only: bool) -> Result<()>;
        sync_all() -> Result<()>;
        unmount() -> Result<()>;
        get_xattr(inode: File, name: [&[u8]]) -> Result<Vec<u8>>;
        set_xattr(
            inode: File, name: [&[u8]], value: [&[u8]], flags: XattrFlags, now: Timestamp
        ) -> Result<()>;
        remove_xattr(inode: File, name: [&[u8]], now: Timestamp) -> Result<()>;
        list_xattrs(inode: File) -> Result<Vec<Vec<u8>>>;
        count_extents() -> Result<Option<ExtentCounts>>;
    }

    async fn load(&self, ino: Ino) -> Result<Inode<Private>> {
        with!(AnyBody self, body => body.load(ino).await.map(Own::given))
    }

    async fn create(
        &self,
        dir: &Inode<Private>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<Private>> {
        with!(AnyBody self, body => body.create(Own::of(dir), name, new).await.map(Own::given))
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Inode<Private>> {
        with!(AnyBody self, body => body.create_unnamed(new).await.map(Own::given))
    }

    async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        with!(AnyBody self, body => body.rename(own_names(&rename)).await)
    }
}

fn own_names<'a, P: Own>(rename: &Rename<'a, Private>) -> Rename<'a, P> {
    Rename {
        from: P::of(rename.from),
        from_name: rename.from_name,
        to: P::of(rename.to),
        to_name: rename.to_name,
        moved: P::of(rename.moved),
        replaced: rename.replaced.map(P::of),
        exchange: rename.exchange,
        now: rename.now,
    }
}
