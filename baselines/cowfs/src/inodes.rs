//! Inodes: brought to memory, made, written down and freed.
//!
//! Invariant: an inode without a name has an item that says so in its tree, until it is
//! freed: a mount frees it then.
//= btrfs-format 4.1

use crate::forest::Tree;
use crate::format::inode::{InodeItem, NODATACOW, NODATASUM};
use crate::format::{Key, extent, id, inode, kind, node};
use crate::fs::{Core, File, Private, ino_of, place_of};
use crate::persist::{Overwrite, Persist};
use crate::read::SIZE_MAX;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{Attr, Errno, FileKind, Ino, NewInode, Result, Timestamp};

/// Items that are taken out at once when an inode is freed: they follow each other.
const AT_ONCE: u64 = 16;
/// Items whose ways those share at most: in three leaves, and of the inode without a name.
const WAYS: u64 = 4;

/// Whether an inode is a directory.
pub(crate) fn is_dir(file: &File) -> bool {
    file.attr.get().kind == FileKind::Directory
}

pub(crate) const fn inode_key(number: u64) -> Key {
    Key::new(number, kind::INODE_ITEM, 0)
}

pub(crate) const fn orphan_key(number: u64) -> Key {
    Key::new(id::ORPHANS, kind::ORPHAN_ITEM, number)
}

impl<S: Persist> Core<S> {
    /// The item of an inode, if there is one.
    pub(crate) async fn inode_item(&self, tree: &Tree, number: u64) -> Result<Option<InodeItem>> {
        self.with(|| self.forest.read(tree, inode_key(number), InodeItem::get))
            .await
    }

    fn loaded(&self, tree: &Rc<Tree>, number: u64, item: &InodeItem) -> Result<File> {
        let most = item.size.max(item.nbytes);
        let attr = item.attr().filter(|_| most <= SIZE_MAX);
        let attr = attr.ok_or(Errno::EUCLEAN)?;
        let private = Private {
            tree: Rc::clone(tree),
            number,
            generation: item.generation,
            flags: Cell::new(item.flags),
            sequence: Cell::new(item.sequence),
            nbytes: Cell::new(item.nbytes),
            disk_size: Cell::new(item.size),
            turn: sim::Semaphore::new(&self.sim, 1),
            promised: RefCell::default(),
            next_index: Cell::new(0),
        };
        Ok(File::new(ino_of(tree.id, number), attr, private))
    }

    /// Brings an inode to memory.
    pub(crate) async fn load_inode(&self, ino: Ino) -> Result<File> {
        let (tree, number) = place_of(ino);
        let tree = self.tree(tree).ok_or(Errno::ENOENT)?;
        if !id::is_subvolume(tree.id) || number < id::FIRST_FREE {
            return Err(Errno::ENOENT);
        }
        let item = self.inode_item(&tree, number).await?;
        self.loaded(&tree, number, &item.ok_or(Errno::ENOENT)?)
    }

    /// Whether contents of a new file have sums and are copied: not where the strategy
    /// writes in place and nodes do not change with it.
    fn new_flags(&self, parent: u64, kind: FileKind) -> u64 {
        let in_place = self.persist.overwrite(false) == Overwrite::Replace;
        let plain = in_place && !self.forest.in_place;
        let own = match kind {
            FileKind::Regular if plain => NODATACOW | NODATASUM,
            FileKind::Regular if !self.settings.sums => NODATASUM,
            _ => 0,
        };
        own | parent & (NODATACOW | NODATASUM)
    }

    /// A new inode without names, within an operation.
    pub(crate) async fn new_inode(
        &self,
        dir: Option<&File>,
        tree: &Rc<Tree>,
        new: &NewInode<'_>,
    ) -> Result<File> {
        let number = self.take_inode(tree).await?;
        let transid = self.forest.transid.get();
        let inherited = dir.map_or(0, |dir| dir.private.flags.get());
        let is_link = new.kind == FileKind::Symlink;
        let size = if is_link { new.target.len() as u64 } else { 0 };
        let mut item = InodeItem {
            generation: transid,
            transid,
            size,
            nbytes: size,
            flags: self.new_flags(inherited, new.kind),
            ..InodeItem::top(transid, new.now)
        };
        item.set_attr(&Attr {
            kind: new.kind,
            mode: new.mode,
            nlink: 1,
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            size,
            sectors: 0,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: new.now,
            generation: transid as u32,
        });
        let bytes = item.bytes();
        self.with(|| self.forest.insert(tree, inode_key(number), &bytes))
            .await?;
        if is_link {
            let item = extent::inline_item(transid, new.target);
            let key = Key::new(number, kind::EXTENT_DATA, 0);
            let put = self.with(|| self.forest.insert(tree, key, &item)).await;
            self.noted(put)?;
        }
        self.note_change();
        self.loaded(tree, number, &item)
    }

    /// An inode as it is to lie on the medium.
    pub(crate) fn item_of(&self, file: &File) -> InodeItem {
        let (attr, private) = (file.attr.get(), &file.private);
        let regular = attr.kind == FileKind::Regular;
        let mut item = InodeItem {
            generation: private.generation,
            transid: self.forest.transid.get(),
            size: if regular {
                private.disk_size.get()
            } else {
                attr.size
            },
            nbytes: private.nbytes.get(),
            flags: private.flags.get(),
            sequence: private.sequence.get(),
            ..InodeItem::top(private.generation, Timestamp::default())
        };
        item.set_attr(&attr);
        item
    }

    /// Writes an inode down.
    pub(crate) async fn store_inode(&self, file: &File) -> Result<()> {
        let private = &file.private;
        private.sequence.set(private.sequence.get().wrapping_add(1));
        let bytes = self.item_of(file).bytes();
        let (tree, key) = (&private.tree, inode_key(private.number));
        let stored = self.with(|| self.forest.set(tree, key, &bytes)).await;
        self.noted(stored)?;
        file.update(|attr| attr.sectors = private.nbytes.get().div_ceil(512));
        self.since.borrow_mut().stored(file);
        self.note_change();
        Ok(())
    }

    /// Makes an inode without a name.
    pub(crate) async fn make_unnamed(&self, new: NewInode<'_>) -> Result<File> {
        let tree = self.tree(id::FS_TREE).ok_or(Errno::EUCLEAN)?;
        let made = self.new_inode(None, &tree, &new).await?;
        made.update(|attr| attr.nlink = 0);
        let number = made.private.number;
        let key = inode_key(number);
        let nameless = |bytes: &[u8]| {
            let mut item = InodeItem::get(bytes);
            item.nlink = 0;
            item.bytes()
        };
        let item = self.with(|| self.forest.read(&tree, key, nameless)).await?;
        let item = item.ok_or(Errno::EUCLEAN)?;
        let stored = self.with(|| self.forest.set(&tree, key, &item)).await;
        self.noted(stored)?;
        let orphaned = self.add_orphan(&tree, number).await;
        self.noted(orphaned)?;
        Ok(made)
    }

    /// An inode has no name any more.
    pub(crate) async fn add_orphan(&self, tree: &Tree, number: u64) -> Result<()> {
        self.orphans.borrow_mut().insert((tree.id, number));
        self.with(|| self.forest.put(tree, orphan_key(number), &[]))
            .await
    }

    /// An inode has a name again, or is no more.
    pub(crate) async fn remove_orphan(&self, tree: &Tree, number: u64) -> Result<()> {
        self.orphans.borrow_mut().remove(&(tree.id, number));
        match self
            .with(|| self.forest.remove(tree, orphan_key(number)))
            .await
        {
            Err(Errno::ENOENT) => Ok(()),
            done => done,
        }
    }

    /// Frees an inode that has no name and is not used, in steps.
    pub(crate) async fn delete(&self, tree: &Rc<Tree>, number: u64) -> Result<()> {
        loop {
            let _operation = self.operate_to_free(WAYS).await?;
            let done = self.delete_some(tree, number).await;
            self.note_change();
            if self.noted(done)? {
                return Ok(());
            }
        }
    }

    /// Takes some of the last items of an inode out; gives whether it is gone.
    async fn delete_some(&self, tree: &Tree, number: u64) -> Result<bool> {
        let last = Key::new(number, u8::MAX, u64::MAX);
        for _ in 0..AT_ONCE {
            let found = self.with(|| {
                self.forest.last_until(tree, last, |key, data| {
                    let own = key.object == number;
                    own.then(|| (key, data.to_vec()))
                })
            });
            let Some((key, data)) = found.await?.flatten() else {
                self.remove_orphan(tree, number).await?;
                self.since.borrow_mut().forget(tree.id, number);
                return Ok(true);
            };
            if key.kind == kind::EXTENT_DATA {
                self.drop_piece(tree, key, &data);
            }
            self.with(|| self.forest.remove(tree, key)).await?;
        }
        Ok(false)
    }

    /// A piece of a file is no more: nor is its reference to an extent.
    pub(crate) fn drop_piece(&self, tree: &Tree, key: Key, data: &[u8]) {
        if let Some(part) = extent::referred(data) {
            let by = part.owner(tree.id, key.object, key.offset);
            self.forest.drop_ref(part.bytenr, part.len, None, by, 1);
        }
    }

    /// Frees what had no name when the power went.
    pub(crate) async fn free_orphans(&self, tree: &Rc<Tree>) -> Result<u64> {
        let (mut freed, mut from) = (0, orphan_key(0));
        loop {
            let found = self.with(|| {
                self.forest.first_from(tree, from, |key, _| {
                    (key.object == id::ORPHANS && key.kind == kind::ORPHAN_ITEM).then_some(key)
                })
            });
            let Some(key) = found.await?.flatten() else {
                return Ok(freed);
            };
            let item = self.inode_item(tree, key.offset).await?;
            if item.is_some_and(|item| item.nlink > 0) {
                let _operation = self.operate_to_free(2).await?;
                self.remove_orphan(tree, key.offset).await?;
                self.note_change();
            } else {
                self.delete(tree, key.offset).await?;
                freed += 1;
            }
            from = key.next().ok_or(Errno::EUCLEAN)?;
        }
    }

    /// All items of an inode from `first` to `last` of their kinds.
    pub(crate) async fn items_of(
        &self,
        tree: &Tree,
        number: u64,
        first: u8,
        last: u8,
    ) -> Result<Vec<(Key, Vec<u8>)>> {
        let mut all = Vec::new();
        let mut from = Key::new(number, first, 0);
        let end = Key::new(number, last, u64::MAX);
        loop {
            let some = self.with(|| {
                let Some((leaf, slot)) = self.forest.leaf_from(tree, from)? else {
                    return Ok(Vec::new());
                };
                let bytes = leaf.bytes();
                let slots = slot..node::items(&bytes);
                let items = slots.map(|slot| (node::key(&bytes, slot), node::data(&bytes, slot)));
                let own = items.take_while(|(key, _)| *key <= end);
                Ok(own.map(|(key, data)| (key, data.to_vec())).collect())
            });
            let some: Vec<(Key, Vec<u8>)> = some.await?;
            let Some((last, _)) = some.last() else {
                return Ok(all);
            };
            from = last.next().ok_or(Errno::EUCLEAN)?;
            all.extend(some);
        }
    }

    /// Reads the target of a symbolic link.
    pub(crate) async fn target(&self, file: &File) -> Result<Vec<u8>> {
        let key = Key::new(file.private.number, kind::EXTENT_DATA, 0);
        let inline = |data: &[u8]| match extent::piece(data) {
            Some(extent::Piece::Inline(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        let found = self.with(|| self.forest.read(&file.private.tree, key, inline));
        let target = found.await?.flatten();
        target
            .filter(|target| !target.is_empty())
            .ok_or(Errno::EUCLEAN)
    }
}

const _: () = assert!(inode::INODE == 160);
