//! Placed files as a body of the file API.
//!
//! Operations that touch neither the bytes nor the length of a placed file go to the ordinary file
//! system.

use crate::choose::Chooser;
use crate::names::Paths;
use crate::state::{State, is_marked, of_key};
use crate::volume::{Volume, VolumeError};
use crate::zones::payload;
use host::ZoneDisk;
use nand::Payload;
use shimmer::Options;
use sim::{Boxed, Sim};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use units::{Origin, Refusals};
use vfs::{
    Access, AnyBody, AnyPrivate, Attr, Body, Change, Cleaning, DirEntry, DirtyPage, ExtentCounts,
    FallocateMode, FileKind, Ino, Inode, LogStats, NewInode, PAGE, Rename, Result, SeekWhat,
    StatFs, TimeRange, Timestamp, TreeStats, XattrFlags,
};

pub use crate::state::MARK;

/// Memory that the core needs for each zone, in bytes.
//= dissertation 5.3.1
const ZONE_ROW: u64 = 16;

/// An ordinary file system, with placed files in zones if the drive has zones.
pub struct Placed {
    state: Rc<State>,
}

impl Placed {
    /// Mounts placed files beside `below`, in `zones` that hold a volume; without zones, files get
    /// hints only. Requests on behalf of no file have `origin`.
    ///
    /// # Errors
    /// If the zones hold no volume, or fail.
    pub fn mount(
        sim: &Sim,
        below: AnyBody,
        zones: Option<ZoneDisk>,
        how: (Chooser, Options),
        origin: Origin,
    ) -> Boxed<'static, std::result::Result<Self, VolumeError>> {
        let sim = sim.clone();
        Box::pin(async move { Self::open(&sim, below, zones, how, origin).await })
    }

    async fn open(
        sim: &Sim,
        below: AnyBody,
        zones: Option<ZoneDisk>,
        (chooser, options): (Chooser, Options),
        origin: Origin,
    ) -> std::result::Result<Self, VolumeError> {
        let volume = match zones {
            None => None,
            Some(port) => Some(Volume::open(port, options, origin).await?),
        };
        let state = Rc::new(State {
            below,
            sim: sim.clone(),
            volume,
            chooser,
            paths: Paths::default(),
            files: RefCell::default(),
            refusals: RefCell::default(),
            origin,
        });
        let placed = Self { state };
        placed.drop_strays().await?;
        placed.state.pump();
        Ok(placed)
    }

    /// The ordinary file system.
    #[must_use]
    pub fn below(&self) -> &AnyBody {
        &self.state.below
    }

    /// Bytes of zones that are allocated to files.
    #[must_use]
    pub fn in_zones(&self) -> u64 {
        let Some(volume) = &self.state.volume else {
            return 0;
        };
        let core = volume.core.borrow();
        let held = core.files().filter_map(|(_, id)| core.status(id));
        held.map(|status| status.allocated).sum()
    }

    /// Removes files from the core that have no counterpart in the ordinary file system.
    async fn drop_strays(&self) -> std::result::Result<(), VolumeError> {
        let Some(volume) = &self.state.volume else {
            return Ok(());
        };
        for key in volume.keys() {
            if !self.stands(&key).await? {
                // The name was removed durably, or never existed.
                let _ = volume.core.borrow_mut().unlink(&key);
            }
        }
        Ok(())
    }

    async fn stands(&self, key: &[u8]) -> Result<bool> {
        let Some((ino, generation)) = of_key(key) else {
            return Ok(false);
        };
        let below = &self.state.below;
        let inode = match below.load(ino).await {
            Ok(inode) => inode,
            Err(vfs::Errno::ENOENT) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let attr = inode.attr.get();
        let same = attr.kind == FileKind::Regular && attr.generation == generation;
        let marked = match same {
            true => is_marked(below, &inode).await,
            false => Ok(false),
        };
        below.evict(&inode).await?;
        marked
    }

    fn is_regular(attr: &Attr) -> bool {
        attr.kind == FileKind::Regular
    }
}

impl From<Placed> for AnyBody {
    fn from(body: Placed) -> Self {
        Self::new(body)
    }
}

impl Body for Placed {
    type Private = AnyPrivate;

    vfs::pass_body!([|own| &own.state.below] wants_duplicates, is_dax, max_size, max_links, times,
        is_read_only, is_frozen, root, create_unnamed, rmdir, readlink, read_dir, last_cookie, parent, clones, change,
        settle, get_xattr, count_extents, tree_stats);

    //= dissertation 5.4.2
    async fn takes_write(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        offset: u64,
        len: u64,
    ) -> Result<bool> {
        let state = &self.state;
        state.look(inode);
        state
            .chooser
            .wrote(state.sim.now(), inode.ino, (offset, len));
        let (Some(id), Some(volume)) = (state.kept(inode.ino), &state.volume) else {
            return state.below.takes_write(who, inode, offset, len).await;
        };
        let demotes = volume.core.borrow().demotes(id, offset);
        if demotes.is_some() {
            state.demote(who, inode, inode.attr.get().size).await?;
            return Ok(false);
        }
        Ok(true)
    }

    async fn load(&self, ino: Ino) -> Result<Inode<AnyPrivate>> {
        let inode = self.state.below.load(ino).await?;
        if !Self::is_regular(&inode.attr.get()) {
            return Ok(inode);
        }
        if self.state.files.borrow().contains_key(&ino) {
            if let Some(id) = self.state.kept(ino) {
                self.state.show(&inode, id);
            }
            return Ok(inode);
        }
        self.state.met(inode, false).await
    }

    async fn evict(&self, inode: &Inode<AnyPrivate>) -> Result<()> {
        self.state.paths.forget(inode.ino);
        let left = self.state.left(inode).await;
        self.state.below.evict(inode).await.and(left)
    }

    async fn lookup(&self, dir: &Inode<AnyPrivate>, name: &[u8]) -> Result<Option<Ino>> {
        let found = self.state.below.lookup(dir, name).await?;
        if let Some(ino) = found {
            self.state.paths.learn(ino, dir.ino, name);
        }
        Ok(found)
    }

    //= dissertation 5.4.1
    async fn create(
        &self,
        dir: &Inode<AnyPrivate>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<AnyPrivate>> {
        let made = self.state.below.create(dir, name, new).await?;
        self.state.paths.learn(made.ino, dir.ino, name);
        match Self::is_regular(&made.attr.get()) {
            true => self.state.met(made, true).await,
            false => Ok(made),
        }
    }

    async fn link(
        &self,
        dir: &Inode<AnyPrivate>,
        name: &[u8],
        inode: &Inode<AnyPrivate>,
        now: Timestamp,
    ) -> Result<()> {
        self.state.below.link(dir, name, inode, now).await?;
        self.state.unforce(inode.ino);
        Ok(())
    }

    async fn unlink(
        &self,
        dir: &Inode<AnyPrivate>,
        name: &[u8],
        inode: &Inode<AnyPrivate>,
        now: Timestamp,
    ) -> Result<()> {
        self.state.below.unlink(dir, name, inode, now).await?;
        self.state.unforce(inode.ino);
        Ok(())
    }

    async fn rename(&self, rename: Rename<'_, AnyPrivate>) -> Result<()> {
        let state = &self.state;
        let (from, to, moved) = (rename.from.ino, rename.to.ino, rename.moved);
        let (from_name, to_name) = (rename.from_name, rename.to_name);
        let other = rename.replaced.filter(|_| rename.exchange);
        state.below.rename(rename).await?;
        let places = [(Some(moved), to, to_name), (other, from, from_name)];
        for (inode, dir, name) in places {
            let Some(inode) = inode else { continue };
            state.paths.learn(inode.ino, dir, name);
            state.unforce(inode.ino);
            if Self::is_regular(&inode.attr.get()) {
                let path = state.paths.of(inode.ino);
                let directive = state.chooser.renamed(state.sim.now(), inode.ino, &path);
                state.moved(inode.ino, directive);
            }
        }
        Ok(())
    }

    async fn store(&self, inode: &Inode<AnyPrivate>) -> Result<()> {
        if self.state.holds_back(inode) {
            return Ok(());
        }
        self.state.below.store(inode).await
    }

    async fn truncate(&self, inode: &Inode<AnyPrivate>, old: u64) -> Result<()> {
        let state = &self.state;
        let size = inode.attr.get().size;
        if let Some(id) = state.kept(inode.ino) {
            if size <= old {
                state.cut(id, size).await?;
                state.show(inode, id);
                return Ok(());
            }
            state.demote(&Access::root(), inode, old).await?;
        }
        state.below.truncate(inode, old).await
    }

    async fn seal_end(&self, inode: &Inode<AnyPrivate>) -> Result<()> {
        match self.state.kept(inode.ino) {
            Some(_) => Ok(()),
            None => self.state.below.seal_end(inode).await,
        }
    }

    fn end_on_medium(&self, inode: &Inode<AnyPrivate>) -> u64 {
        match self.state.kept(inode.ino) {
            Some(_) => inode.attr.get().size,
            None => self.state.below.end_on_medium(inode),
        }
    }

    //= dissertation 5.4.2
    async fn read_pages(
        &self,
        inode: &Inode<AnyPrivate>,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()> {
        let Some(id) = self.state.kept(inode.ino) else {
            return self.state.below.read_pages(inode, first, pages).await;
        };
        let len = pages.len() as u64 * PAGE;
        let bytes = self.state.get(id, first * PAGE, len).await?;
        let mut read = bytes.chunks(PAGE as usize);
        for page in pages {
            *page = read.next().map_or(Payload::Zero, payload);
        }
        Ok(())
    }

    async fn reserve(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        pages: Range<u64>,
    ) -> Result<()> {
        match self.state.kept(inode.ino) {
            Some(_) => Ok(()),
            None => self.state.below.reserve(who, inode, pages).await,
        }
    }

    /// The only page of a placed file that is ever dirty is one cut by truncation, whose bytes the
    /// core has.
    async fn write_pages(&self, inode: &Inode<AnyPrivate>, pages: &[DirtyPage]) -> Result<()> {
        match self.state.kept(inode.ino) {
            Some(_) => Ok(()),
            None => self.state.below.write_pages(inode, pages).await,
        }
    }

    async fn read_direct(
        &self,
        inode: &Inode<AnyPrivate>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(id) = self.state.kept(inode.ino) else {
            return self.state.below.read_direct(inode, offset, out).await;
        };
        let bytes = self.state.get(id, offset, out.len() as u64).await?;
        let (read, rest) = out.split_at_mut(bytes.len());
        read.copy_from_slice(&bytes);
        rest.fill(0);
        Ok(())
    }

    async fn write_direct(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        let state = &self.state;
        let (Some(id), Some(volume)) = (state.kept(inode.ino), &state.volume) else {
            return state.below.write_direct(who, inode, offset, bytes).await;
        };
        let demotes = volume.core.borrow().demotes(id, offset);
        if demotes.is_some() {
            // Since the check, its buffer went to another file.
            state.demote(who, inode, inode.attr.get().size).await?;
            return state.patch_below(who, inode, offset, bytes).await;
        }
        let written = state.put(id, offset, bytes).await;
        state.show(inode, id);
        written
    }

    async fn fallocate(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let (state, size) = (&self.state, inode.attr.get().size);
        if state.kept(inode.ino).is_some() {
            if matches!(mode, FallocateMode::Allocate { .. }) {
                // Space is allocated when data is written, and the file is as long as that
                // (5.4.3.1).
                let directive = state
                    .chooser
                    .allocated(state.sim.now(), inode.ino, range.end);
                state.moved(inode.ino, directive);
                return Ok(());
            }
            state.demote(who, inode, size).await?;
        }
        state.below.fallocate(who, inode, mode, range, now).await
    }

    async fn clone_range(
        &self,
        from: &Inode<AnyPrivate>,
        span: Range<u64>,
        to: &Inode<AnyPrivate>,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let state = &self.state;
        if state.kept(from.ino).is_some() || state.kept(to.ino).is_some() {
            return Ok(false);
        }
        state.below.clone_range(from, span, to, place, now).await
    }

    async fn seek(
        &self,
        inode: &Inode<AnyPrivate>,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>> {
        if self.state.kept(inode.ino).is_none() {
            return self.state.below.seek(inode, offset, what).await;
        }
        let size = inode.attr.get().size;
        Ok(match what {
            SeekWhat::Data => Some(offset).filter(|&offset| offset < size),
            SeekWhat::Hole => Some(size.max(offset)),
        })
    }

    async fn sync(&self, inode: &Inode<AnyPrivate>, data_only: bool) -> Result<()> {
        match self.state.kept(inode.ino) {
            Some(id) => self.state.sync_kept(inode, id, data_only).await,
            None => self.state.below.sync(inode, data_only).await,
        }
    }

    async fn sync_all(&self) -> Result<()> {
        if self.state.volume.is_some() {
            self.state.force(None).await?;
        }
        self.state.below.sync_all().await
    }

    async fn unmount(&self) -> Result<()> {
        if self.state.volume.is_some() {
            self.state.force(None).await?;
            self.state.rest(&self.state.sim).await;
        }
        self.state.below.unmount().await
    }

    async fn set_xattr(
        &self,
        inode: &Inode<AnyPrivate>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let below = &self.state.below;
        below.set_xattr(inode, name, value, flags, now).await?;
        self.state.unforce(inode.ino);
        Ok(())
    }

    async fn remove_xattr(
        &self,
        inode: &Inode<AnyPrivate>,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.state.below.remove_xattr(inode, name, now).await?;
        self.state.unforce(inode.ino);
        Ok(())
    }

    async fn list_xattrs(&self, inode: &Inode<AnyPrivate>) -> Result<Vec<Vec<u8>>> {
        let mut names = self.state.below.list_xattrs(inode).await?;
        names.retain(|name| name != MARK);
        Ok(names)
    }

    fn stat(&self) -> StatFs {
        let mut stat = self.state.below.stat();
        if let Some(volume) = &self.state.volume {
            let block = u64::from(stat.block_size).max(1);
            let free = volume.capacity.saturating_sub(self.in_zones()) / block;
            stat.blocks += volume.capacity / block;
            stat.blocks_free += free;
            stat.blocks_available += free;
        }
        stat
    }

    fn refusals(&self) -> Refusals {
        let own = self.state.refusals.borrow();
        match own.met().is_empty() {
            true => self.state.below.refusals(),
            false => own.clone(),
        }
    }

    fn log_stats(&self) -> Option<LogStats> {
        let Some(volume) = &self.state.volume else {
            return self.state.below.log_stats();
        };
        let counts = volume.core.borrow().counts();
        let zones = volume.zones.reports().len() as u64;
        Some(LogStats {
            memory: zones * ZONE_ROW,
            background: Cleaning {
                calls: volume.resets.get(),
                moved_bytes: counts.moved,
                ..Cleaning::default()
            },
            checkpoints: counts.epochs,
            ..LogStats::default()
        })
    }
}
