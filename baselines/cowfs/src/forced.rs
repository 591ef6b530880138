//! Forces (`fsync`) between commits: a log tree with copies of the items that a file needs.
//!
//! A commit for each forced file would write all that has changed since the last one. Instead,
//! the items of the file go into a tree of their own, the log of its subvolume, and a
//! superblock points to that log. A mount replays the log over the last commit.
//!
//! Invariants: the log holds a file as it was at one instant, with all that differs from the
//! last commit. Changes that the log cannot express force a commit: names moved or removed,
//! directories, files in new directories, and anything that may lie in a chunk that no commit
//! has recorded yet. A commit leaves no log behind.
//= btrfs-format 6

use crate::forest::Tree;
use crate::format::extent::Part;
use crate::format::inode::name_refs;
use crate::format::superblock::Start;
use crate::format::{Key, NODE_BYTES, SECTOR_BYTES, id, kind};
use crate::fs::{Core, File};
use crate::inodes::{inode_key, is_dir};
use crate::nodes::TreeKind;
use crate::persist::{Persist, Reason};
use crate::pieces::{Found, piece_key};
use crate::space::{Ranges, Use};
use host::BlockPort;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use vfs::{Errno, FileKind, Result};

/// Changes to a file since the last commit that the log does not have yet.
#[derive(Debug, Default)]
struct Changes {
    /// Byte ranges of the file whose pieces or contents differ from those in the log.
    ranges: Ranges,
    /// The inode item differs from the one in the log.
    inode: bool,
    /// Pieces, checksummed contents or the size differ from those in the log.
    data: bool,
    /// Contents without sums were overwritten in place, so the drive needs a flush.
    in_place: bool,
    /// Extended attributes differ from those in the log.
    attributes: bool,
    /// The log holds the file.
    logged: bool,
    /// Stamp of the force that last put the file into the log; 0 if none has.
    stamp: u64,
}

/// Changes since the last commit, from which a force chooses between log and commit.
#[derive(Default)]
pub(crate) struct Since {
    files: BTreeMap<(u64, u64), Changes>,
    /// Files that gained or lost a name after they were made.
    renamed: BTreeSet<(u64, u64)>,
    /// Names that were moved away, as (tree, directory, name).
    moved: BTreeSet<(u64, u64, Vec<u8>)>,
    /// A directory was moved or removed.
    dirs_moved: bool,
    /// A chunk was made: a log must not point into it before a commit has recorded it.
    new_chunk: bool,
    /// The log holds a file in part and must not be published.
    broken: bool,
    /// Logs by the id of their subvolume.
    logs: BTreeMap<u64, Rc<Tree>>,
    /// Tree of the root items of all logs; the superblock points to it.
    log_root: Option<Rc<Tree>>,
    /// Stamps of the last force put into the log, and of the last durable one.
    stamp: u64,
    durable: u64,
}

fn id_of(file: &File) -> (u64, u64) {
    (file.private.tree.id, file.private.number)
}

impl Since {
    /// Records that the pieces, contents or size of `file` have changed; `range` may be empty.
    pub(crate) fn wrote(&mut self, file: &File, range: Range<u64>) {
        let changes = self.files.entry(id_of(file)).or_default();
        if range.start < range.end {
            changes.ranges.add(range.start, range.end - range.start);
        }
        (changes.inode, changes.data) = (true, true);
    }

    /// Records that contents of `file` without sums were overwritten in place.
    pub(crate) fn rewrote(&mut self, file: &File) {
        let changes = self.files.entry(id_of(file)).or_default();
        (changes.inode, changes.in_place) = (true, true);
    }

    /// Records that only the inode item of `file` was written.
    pub(crate) fn stored(&mut self, file: &File) {
        self.files.entry(id_of(file)).or_default().inode = true;
    }

    /// Records that extended attributes of `file` have changed.
    pub(crate) fn attributed(&mut self, file: &File) {
        self.files.entry(id_of(file)).or_default().attributes = true;
    }

    /// Records that `file` has gained or lost a name.
    pub(crate) fn renamed(&mut self, file: &File) {
        self.renamed.insert(id_of(file));
        self.dirs_moved |= is_dir(file);
    }

    /// Records that `name` of `file` was moved away from directory `dir`.
    pub(crate) fn moved(&mut self, file: &File, dir: u64, name: &[u8]) {
        self.renamed(file);
        self.moved
            .insert((file.private.tree.id, dir, name.to_vec()));
    }

    /// Records that a chunk was made, so that forces commit until the next commit.
    pub(crate) fn made_chunk(&mut self) {
        self.new_chunk = true;
    }

    /// Drops the record of an inode that was deleted.
    pub(crate) fn forget(&mut self, tree: u64, number: u64) {
        self.files.remove(&(tree, number));
    }

    /// Resets the record: the commit under way covers all changes and every stamp so far.
    pub(crate) fn clear(&mut self) {
        let stamp = self.stamp;
        *self = Self {
            stamp,
            durable: stamp,
            ..Self::default()
        };
    }
}

/// Ways to make a file durable.
enum Way {
    /// No write of its own: the file is durable, will be with the commit under way, or has no
    /// name by which recovery could find it.
    Nothing,
    /// Waits until the log is durable up to this stamp; then flushes the drive if `true`
    /// (contents were overwritten in place since).
    Wait(u64, bool),
    /// Puts the file into the log and publishes the log.
    Log,
    /// Commits the whole file system.
    Commit,
}

impl<S: Persist> Core<S> {
    /// Makes `file` durable, by its log or by a commit; `data_only` is `fdatasync`.
    pub(crate) async fn force(&self, file: &File, data_only: bool) -> Result<()> {
        self.ensure_sound()?;
        if self.forest.in_place {
            return self.commit_forced().await;
        }
        let alone = self.alone().await;
        let way = self.way_of(file, data_only).await?;
        let (stamp, flush) = match way {
            Way::Nothing => {
                drop(alone);
                // A commit that covers the file may still be under way.
                let _publishing = self.publishing.acquire(1).await;
                return self.ensure_sound();
            }
            Way::Wait(stamp, flush) => (stamp, flush),
            Way::Log => {
                let Ok(stamp) = self.log_file(file).await else {
                    // The usual error is lack of space.
                    self.since.borrow_mut().broken = true;
                    drop(alone);
                    return self.commit_forced().await;
                };
                (stamp, false)
            }
            Way::Commit => {
                drop(alone);
                return self.commit_forced().await;
            }
        };
        drop(alone);
        self.publish_log(stamp).await?;
        if flush {
            let flushed = self.persist.port().flush().await;
            self.noted(flushed.map_err(crate::persist::errno))?;
        }
        Ok(())
    }

    /// Chooses how to force `file`. The caller keeps all operations out meanwhile.
    async fn way_of(&self, file: &File, data_only: bool) -> Result<Way> {
        let private = &file.private;
        if self.settled.get() >= self.changes.get() {
            return Ok(Way::Nothing);
        }
        let regular = file.attr.get().kind == FileKind::Regular;
        if !regular && vfs::mutant::is("btrfs-fsync-skips-directory") {
            return Ok(Way::Nothing);
        }
        if !regular {
            return Ok(Way::Commit);
        }
        if file.attr.get().nlink == 0 {
            // The last commit may hold a name of the file: either that name must go, or the
            // contents behind it must be the forced ones.
            let had_name = self.since.borrow().renamed.contains(&id_of(file));
            return Ok(if had_name || !data_only {
                Way::Commit
            } else {
                Way::Nothing
            });
        }
        let is_new = private.generation == self.forest.transid.get();
        {
            let since = self.since.borrow();
            let id = id_of(file);
            let renamed =
                since.renamed.contains(&id) && !vfs::mutant::is("btrfs-rename-not-forced");
            if since.broken || renamed || is_new && since.dirs_moved {
                return Ok(Way::Commit);
            }
            match since.files.get(&id) {
                None if !is_new => return Ok(Way::Nothing),
                Some(c) if c.logged && !c.inode && !c.attributes => {
                    return Ok(Way::Wait(c.stamp, false));
                }
                Some(c)
                    if data_only
                        && !is_new
                        && (!c.data || vfs::mutant::is("btrfs-fdatasync-skips-data"))
                        && !c.attributes =>
                {
                    return Ok(Way::Wait(c.stamp, c.in_place));
                }
                _ => {}
            }
        }
        let unknown = self.since.borrow().new_chunk;
        if unknown || !self.log_has_room(file) || is_new && !self.names_are_plain(file).await? {
            return Ok(Way::Commit);
        }
        Ok(Way::Log)
    }

    /// Whether nodes have space for a log, besides what operations and the next commit hold.
    fn log_has_room(&self, file: &File) -> bool {
        let levels = u64::from(file.private.tree.start.get().level) + 2;
        let space = self.forest.space.borrow();
        let needed = space.held() + self.debt() + LOG_NODES * levels * NODE_BYTES;
        let pinned = space.pinned(Use::Nodes);
        space.free(Use::Nodes) >= needed && pinned <= space.size(Use::Nodes) / 2 + needed
    }

    /// Checks that nodes have space for one more step of putting a file into a log.
    ///
    /// # Errors
    /// `ENOSPC` if they have not.
    fn ensure_log_room(&self) -> Result<()> {
        let space = self.forest.space.borrow();
        let needed = space.held() + self.debt() + STEP_NODES * NODE_BYTES;
        let room = space.free(Use::Nodes) >= needed;
        room.then_some(()).ok_or(Errno::ENOSPC)
    }

    /// Whether all names of a new file are in directories older than this transaction, and none
    /// of these names was moved away from another file since the last commit.
    async fn names_are_plain(&self, file: &File) -> Result<bool> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let refs = self
            .items_of(tree, number, kind::INODE_REF, kind::INODE_EXTREF)
            .await?;
        for (key, data) in refs {
            for (_, name) in name_refs(key, &data) {
                let moved = (tree.id, name.parent, name.name.to_vec());
                if self.since.borrow().moved.contains(&moved) {
                    return Ok(false);
                }
                let parent = self.inode_item(tree, name.parent).await?;
                let old = |item: &crate::format::inode::InodeItem| {
                    item.generation < self.forest.transid.get()
                };
                if !parent.as_ref().is_some_and(old) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Makes an empty tree for a log.
    fn new_log(&self) -> Result<Rc<Tree>> {
        let start = Start::default();
        let tree = Rc::new(Tree::at(id::LOG, start));
        let root = self.forest.new_node(&tree, 0)?;
        self.forest.lead_to(&tree, None, &root);
        Ok(tree)
    }

    /// The log of subvolume `tree`; made if there is none.
    fn log_of(&self, tree: u64) -> Result<Rc<Tree>> {
        if let Some(log) = self.since.borrow().logs.get(&tree) {
            return Ok(Rc::clone(log));
        }
        let log = self.new_log()?;
        self.since.borrow_mut().logs.insert(tree, Rc::clone(&log));
        Ok(log)
    }

    fn log_root(&self) -> Result<Rc<Tree>> {
        if let Some(root) = &self.since.borrow().log_root {
            return Ok(Rc::clone(root));
        }
        let root = self.new_log()?;
        self.since.borrow_mut().log_root = Some(Rc::clone(&root));
        Ok(root)
    }

    /// Puts `file` into the log and returns the stamp of this force.
    async fn log_file(&self, file: &File) -> Result<u64> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let log = self.log_of(tree.id)?;
        let (ranges, whole) = {
            let mut since = self.since.borrow_mut();
            since.stamp += 1;
            let stamp = since.stamp;
            let changes = since.files.entry(id_of(file)).or_default();
            let whole = !changes.logged || changes.attributes;
            let ranges = std::mem::take(&mut changes.ranges);
            *changes = Changes {
                logged: true,
                stamp,
                ..Changes::default()
            };
            (ranges, whole)
        };
        if whole {
            self.log_items(&log, tree, number).await?;
        }
        let item = self.item_of(file).bytes();
        self.with(|| self.forest.put(&log, inode_key(number), &item))
            .await?;
        for (start, len) in ranges.iter() {
            self.log_range(&log, file, start..start.saturating_add(len))
                .await?;
        }
        let mut item = log.item.borrow().clone();
        let start = log.start.get();
        item.set_place(start.bytenr, start.generation, start.level);
        item.set_bytes_used(log.bytes_used.get());
        let root = self.log_root()?;
        let key = Key::new(id::LOG, kind::ROOT_ITEM, tree.id);
        self.with(|| self.forest.put(&root, key, item.bytes()))
            .await?;
        Ok(self.since.borrow().stamp)
    }

    /// Puts names and attributes of an inode into the log, and removes those that the inode no
    /// longer has.
    async fn log_items(&self, log: &Tree, tree: &Tree, number: u64) -> Result<()> {
        let (first, last) = (kind::INODE_REF, kind::XATTR_ITEM);
        let items = self.items_of(tree, number, first, last).await?;
        for (key, _) in self.items_of(log, number, first, last).await? {
            if !items.iter().any(|(other, _)| *other == key) {
                self.with(|| self.forest.remove(log, key)).await?;
            }
        }
        for (key, data) in items {
            if vfs::mutant::is("btrfs-log-without-names") && key.kind != kind::XATTR_ITEM {
                continue;
            }
            self.ensure_log_room()?;
            self.with(|| self.forest.put(log, key, &data)).await?;
        }
        Ok(())
    }

    /// Puts the pieces of `span` of a file into the log, with holes between them, and the sums
    /// of their contents.
    async fn log_range(&self, log: &Tree, file: &File, span: Range<u64>) -> Result<()> {
        let (tree, number) = (&file.private.tree, file.private.number);
        self.cut(log, number, span.clone()).await?;
        let end = file.private.disk_size.get().next_multiple_of(SECTOR_BYTES);
        let mut at = span.start;
        for piece in self.pieces(tree, number, span.clone()).await? {
            let own = piece.span();
            let (from, to) = (own.start.max(span.start), own.end.min(span.end));
            self.ensure_log_room()?;
            self.log_hole(log, number, at..from).await?;
            at = to;
            match piece {
                Found::Inline(_) => {
                    let key = piece_key(number, 0);
                    let item = self.with(|| self.forest.read(tree, key, <[u8]>::to_vec));
                    let item = item.await?.unwrap_or_default();
                    self.with(|| self.forest.put(log, key, &item)).await?;
                }
                Found::Part(start, part) => {
                    let part = part.from(from - start).until(to - from);
                    self.with(|| self.forest.put_part(log, number, from, part))
                        .await?;
                    self.log_sums(log, part).await?;
                }
            }
        }
        self.log_hole(log, number, at..span.end.min(end)).await
    }

    async fn log_hole(&self, log: &Tree, number: u64, span: Range<u64>) -> Result<()> {
        if span.start >= span.end || vfs::mutant::is("btrfs-log-without-holes") {
            return Ok(());
        }
        let hole = Part {
            generation: self.forest.transid.get(),
            bytenr: 0,
            len: 0,
            offset: 0,
            bytes: span.end - span.start,
            written: true,
        };
        self.with(|| self.forest.put_part(log, number, span.start, hole))
            .await
    }

    async fn log_sums(&self, log: &Tree, part: Part) -> Result<()> {
        if part.is_hole() || !part.written || vfs::mutant::is("btrfs-log-without-checksums") {
            return Ok(());
        }
        let (at, sectors) = (part.bytenr + part.offset, part.bytes / SECTOR_BYTES);
        let csums = &self.forest.csums;
        let sums = self.sums(csums, at, sectors as usize).await?;
        let sums: Option<Vec<u32>> = sums.into_iter().collect();
        match sums {
            Some(sums) => self.put_sums(log, at, &sums).await,
            None => Ok(()),
        }
    }

    /// Makes the log durable at least up to `stamp`; commits instead if the log is broken.
    //= btrfs-format 1.2
    async fn publish_log(&self, stamp: u64) -> Result<()> {
        let publishing = self.publishing.acquire(1).await;
        // With operations kept out, no file is half in the log.
        let alone = self.alone().await;
        self.ensure_sound()?;
        if self.since.borrow().broken {
            drop((alone, publishing));
            return self.commit_forced().await;
        }
        let reached = {
            let since = self.since.borrow();
            (since.durable < stamp).then(|| (since.stamp, since.log_root.clone()))
        };
        // An earlier publication may have included this force, or a commit has covered it.
        let Some((reached, Some(root))) = reached else {
            self.tally(|counts| counts.logged += 1);
            return Ok(());
        };
        let is_log = |node: &crate::nodes::Node| TreeKind::of(node.owner()) == TreeKind::Log;
        let (mut batch, on_their_way) = self.noted(self.take_nodes(Reason::Forced, is_log))?;
        let mut superblock = self.committed.borrow().clone();
        superblock.log_root = Some(root.start.get());
        let first = crate::format::superblock::PLACES[0];
        batch.superblocks = vec![(first, superblock.encode(first))];
        drop(alone);
        let published = self.persist.publish(batch).await;
        self.noted(published)?;
        drop(on_their_way);
        let mut since = self.since.borrow_mut();
        since.durable = since.durable.max(reached);
        self.tally(|counts| counts.logged += 1);
        Ok(())
    }

    /// Pins the nodes of the log, so that they are free once the commit that has begun is durable.
    pub(crate) fn drop_log(&self) {
        let nodes = std::mem::take(&mut self.forest.refs.borrow_mut().log_nodes);
        for bytenr in nodes {
            self.forest.nodes.borrow_mut().remove(bytenr);
            self.forest.space.borrow_mut().pin(bytenr, NODE_BYTES);
        }
    }
}

/// Nodes per level that a file is expected to need in a log at most. A choice of this model:
/// a force that finds less space makes a commit.
const LOG_NODES: u64 = 64;
/// Most nodes that one step may need: putting one item, or one piece of a file with the sums of
/// its contents (nine leaves for 128 MiB), into a log.
const STEP_NODES: u64 = 32;
