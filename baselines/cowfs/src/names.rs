//! Names: looked for, made, linked, removed and moved.
//!
//! An entry of a directory is there twice: by the hash of its name, where it is looked
//! for, and by its number, in the order in which a directory is read. The inode has the
//! name a third time, with its directory and the number.
//!
//! Invariant: each change is within one operation, so a commit has all of it or nothing;
//! what may be refused comes before anything is changed.
//= btrfs-format 4.2

use crate::forest::{Tree, Try, sound};
use crate::format::inode::{Entry, NameRef, entries, entry_key, entry_span, far_key, name_refs};
use crate::format::{Key, id, kind, node};
use crate::fs::{Core, File, Private, ino_of};
use crate::inodes::{inode_key, is_dir};
use crate::persist::Persist;
use vfs::{DirEntry, Errno, FileKind, NewInode, Rename, Result, Timestamp};

/// Most names of a file: of Linux.
pub(crate) const LINKS_MAX: u32 = 65_535;
/// The number of the first entry of a directory: those before stand for `.` and `..`.
const FIRST_INDEX: u64 = 2;

/// Items that a name is made of, with the directory, and as many for what shares them.
pub(crate) const NAME_ITEMS: u64 = 5;

/// The name of a file in a directory.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) dir: u64,
    pub(crate) name: &'a [u8],
}

impl<S: Persist> Core<S> {
    /// Looks up `name`: key and file type of its target.
    pub(crate) async fn find(
        &self,
        tree: &Tree,
        dir: u64,
        name: &[u8],
    ) -> Result<Option<(Key, u8)>> {
        let key = entry_key(dir, name);
        let pick = |data: &[u8]| {
            let found = entries(data).find(|entry| entry.name == name);
            found.map(|entry| (entry.location, entry.kind))
        };
        let found = self.with(|| self.forest.read(tree, key, pick)).await?;
        Ok(found.flatten())
    }

    /// The inode that a name leads to.
    pub(crate) async fn lookup(&self, dir: &File, name: &[u8]) -> Result<Option<vfs::Ino>> {
        let private = &dir.private;
        let found = self.find(&private.tree, private.number, name).await?;
        let Some((key, _)) = found else {
            return Ok(None);
        };
        self.with(|| self.inode_at(&private.tree, key)).await
    }

    /// The inode that an entry of a tree leads to; none if it is that of a subvolume which
    /// was there when the tree was copied, and is in the tree that it was copied from.
    fn inode_at(&self, tree: &Tree, location: Key) -> Try<Option<vfs::Ino>> {
        if location.kind != kind::ROOT_ITEM {
            return Ok(Some(ino_of(tree.id, location.object)));
        }
        let named = Key::new(tree.id, kind::ROOT_REF, location.object);
        let own = self.forest.read(&self.forest.roots, named, |_| ())?;
        Ok(own.map(|()| ino_of(location.object, id::FIRST_FREE)))
    }

    /// Entries of a directory behind `cookie`, which is the number of one.
    pub(crate) async fn list(&self, dir: &File, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        let (tree, number) = (&dir.private.tree, dir.private.number);
        let mut found = Vec::new();
        let Some(mut from) = cookie.max(1).checked_add(1) else {
            return Ok(Vec::new());
        };
        while found.len() < most {
            let some = self.with(|| {
                let key = Key::new(number, kind::DIR_INDEX, from);
                let Some((leaf, slot)) = self.forest.leaf_from(tree, key)? else {
                    return Ok(Vec::new());
                };
                let bytes = leaf.bytes();
                let mut some = Vec::new();
                for slot in slot..node::items(&bytes) {
                    let key = node::key(&bytes, slot);
                    if (key.object, key.kind) != (number, kind::DIR_INDEX) || some.len() == most {
                        break;
                    }
                    let entry = sound(entries(node::data(&bytes, slot)).next())?;
                    let ino = self.inode_at(tree, entry.location)?;
                    some.push((
                        key.offset,
                        ino.map(|ino| (ino, entry.kind, entry.name.to_vec())),
                    ));
                }
                Ok(some)
            });
            let some = some.await?;
            let Some((last, _)) = some.last() else { break };
            from = last.checked_add(1).ok_or(Errno::EUCLEAN)?;
            for (cookie, led) in some {
                let Some((ino, kind, name)) = led else {
                    continue;
                };
                found.push(DirEntry {
                    cookie,
                    ino,
                    kind: FileKind::of_entry(kind).ok_or(Errno::EUCLEAN)?,
                    name,
                });
            }
        }
        found.truncate(most);
        Ok(found)
    }

    /// Whether a directory has no entries.
    pub(crate) async fn is_empty(&self, dir: &File) -> Result<bool> {
        let number = dir.private.number;
        let from = Key::new(number, kind::DIR_INDEX, 0);
        let found = self.with(|| {
            self.forest
                .first_from(&dir.private.tree, from, |key, _| key)
        });
        let found = found.await?;
        Ok(found.is_none_or(|key| (key.object, key.kind) != (number, kind::DIR_INDEX)))
    }

    /// The number of the next entry of a directory.
    pub(crate) async fn next_index(&self, dir: &File) -> Result<u64> {
        let known = dir.private.next_index.get();
        if known > 0 {
            return Ok(known);
        }
        let private = &dir.private;
        self.index_behind(&private.tree, private.number).await
    }

    /// The number behind those of all entries of a directory.
    pub(crate) async fn index_behind(&self, tree: &Tree, number: u64) -> Result<u64> {
        let last = Key::new(number, kind::DIR_INDEX, u64::MAX - 1);
        let last = self.with(|| self.forest.last_until(tree, last, |key, _| key));
        let last = last
            .await?
            .filter(|key| (key.object, key.kind) == (number, kind::DIR_INDEX));
        Ok(last.map_or(FIRST_INDEX, |key| (key.offset + 1).max(FIRST_INDEX)))
    }

    /// Whether the entry of a name has room among those with the same hash.
    pub(crate) async fn ensure_room(&self, tree: &Tree, dir: u64, name: &[u8]) -> Result<()> {
        let key = entry_key(dir, name);
        let held = self.with(|| self.forest.read(tree, key, <[u8]>::len));
        let entry = Entry {
            location: Key::default(),
            kind: 0,
            name,
            value: b"",
        };
        if held.await?.unwrap_or(0) + entry.len() > node::ITEM_MOST {
            return Err(self.refuse_hash());
        }
        Ok(())
    }

    /// Puts the entry of a name in, which leads to `location`.
    pub(crate) async fn put_entry(
        &self,
        tree: &Tree,
        at: Named<'_>,
        index: u64,
        location: Key,
        kind: u8,
    ) -> Result<()> {
        let entry = Entry {
            location,
            kind,
            name: at.name,
            value: b"",
        };
        let bytes = entry.bytes(self.forest.transid.get());
        let key = entry_key(at.dir, at.name);
        self.with(|| {
            let held = self.forest.read(tree, key, <[u8]>::to_vec)?;
            match held {
                Some(held) => self.forest.set(tree, key, &[held, bytes.clone()].concat()),
                None => self.forest.insert(tree, key, &bytes),
            }
        })
        .await?;
        let key = Key::new(at.dir, kind::DIR_INDEX, index);
        self.with(|| self.forest.insert(tree, key, &bytes)).await
    }

    /// Takes the entry of a name out.
    pub(crate) async fn take_entry(&self, tree: &Tree, at: Named<'_>, index: u64) -> Result<()> {
        let key = entry_key(at.dir, at.name);
        self.with(|| {
            let held = sound(self.forest.read(tree, key, <[u8]>::to_vec)?)?;
            let span = sound(entry_span(&held, at.name))?;
            if span.len() == held.len() {
                return self.forest.remove(tree, key);
            }
            let left = [&held[..span.start], &held[span.end..]].concat();
            self.forest.set(tree, key, &left)
        })
        .await?;
        let key = Key::new(at.dir, kind::DIR_INDEX, index);
        self.with(|| self.forest.remove(tree, key)).await
    }

    /// Has an inode know its name.
    pub(crate) async fn put_ref(
        &self,
        tree: &Tree,
        ino: u64,
        at: Named<'_>,
        index: u64,
    ) -> Result<()> {
        let name = NameRef {
            parent: at.dir,
            index,
            name: at.name,
        };
        let near = Key::new(ino, kind::INODE_REF, at.dir);
        let held = self
            .with(|| self.forest.read(tree, near, <[u8]>::len))
            .await?;
        let bytes = name.bytes(kind::INODE_REF);
        let (key, bytes) = match held.unwrap_or(0) + bytes.len() <= node::ITEM_MOST {
            true => (near, bytes),
            false => (
                far_key(ino, at.dir, at.name),
                name.bytes(kind::INODE_EXTREF),
            ),
        };
        self.with(|| match self.forest.read(tree, key, <[u8]>::to_vec)? {
            Some(held) => self.forest.set(tree, key, &[held, bytes.clone()].concat()),
            None => self.forest.insert(tree, key, &bytes),
        })
        .await
    }

    /// Has an inode forget a name; gives the number of its entry.
    pub(crate) async fn take_ref(&self, tree: &Tree, ino: u64, at: Named<'_>) -> Result<u64> {
        let near = Key::new(ino, kind::INODE_REF, at.dir);
        for key in [near, far_key(ino, at.dir, at.name)] {
            let taken = self.with(|| {
                let Some(held) = self.forest.read(tree, key, <[u8]>::to_vec)? else {
                    return Ok(None);
                };
                let mut refs = name_refs(key, &held);
                let own = refs.find(|(_, name)| name.name == at.name && name.parent == at.dir);
                let Some((span, index)) = own.map(|(span, name)| (span, name.index)) else {
                    return Ok(None);
                };
                if span.len() == held.len() {
                    self.forest.remove(tree, key)?;
                } else {
                    let left = [&held[..span.start], &held[span.end..]].concat();
                    self.forest.set(tree, key, &left)?;
                }
                Ok(Some(index))
            });
            if let Some(index) = taken.await? {
                return Ok(index);
            }
        }
        Err(Errno::EUCLEAN)
    }

    /// Gives `file` a name that is free.
    async fn add_name(
        &self,
        dir: &File,
        name: &[u8],
        file: &Private,
        kind: FileKind,
    ) -> Result<()> {
        let index = self.next_index(dir).await?;
        let behind = index.checked_add(1).ok_or(Errno::EUCLEAN)?;
        dir.private.next_index.set(behind);
        let at = Named {
            dir: dir.private.number,
            name,
        };
        let tree = &dir.private.tree;
        let location = inode_key(file.number);
        self.put_entry(tree, at, index, location, kind.entry_number())
            .await?;
        self.put_ref(tree, file.number, at, index).await?;
        dir.update(|attr| attr.size += 2 * name.len() as u64);
        Ok(())
    }

    /// Takes a name from `file`.
    async fn remove_name(&self, dir: &File, name: &[u8], file: &Private) -> Result<()> {
        let at = Named {
            dir: dir.private.number,
            name,
        };
        let tree = &dir.private.tree;
        let index = self.take_ref(tree, file.number, at).await?;
        self.take_entry(tree, at, index).await?;
        let less = 2 * name.len() as u64;
        dir.update(|attr| attr.size = attr.size.saturating_sub(less));
        Ok(())
    }

    /// Names in `dir` have changed.
    async fn touch(&self, dir: &File, now: Timestamp) -> Result<()> {
        dir.update(|attr| (attr.mtime, attr.ctime) = (now, now));
        self.store_inode(dir).await
    }

    /// Makes an inode with a name.
    pub(crate) async fn make(&self, dir: &File, name: &[u8], new: NewInode<'_>) -> Result<File> {
        self.ensure_room(&dir.private.tree, dir.private.number, name)
            .await?;
        self.ensure_changeable(&dir.private.tree)?;
        let made = self.new_inode(Some(dir), &dir.private.tree, &new).await;
        let made = made?;
        let named = async {
            self.add_name(dir, name, &made.private, new.kind).await?;
            self.touch(dir, new.now).await
        };
        self.noted(named.await)?;
        Ok(made)
    }

    /// Whether anything may be changed in a subvolume.
    pub(crate) fn ensure_changeable(&self, tree: &Tree) -> Result<()> {
        match tree.item.borrow().is_read_only() {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Gives `file` another name.
    pub(crate) async fn link(
        &self,
        dir: &File,
        name: &[u8],
        file: &File,
        now: Timestamp,
    ) -> Result<()> {
        if dir.private.tree.id != file.private.tree.id {
            return Err(Errno::EXDEV);
        }
        if file.attr.get().nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        self.ensure_changeable(&dir.private.tree)?;
        self.ensure_room(&dir.private.tree, dir.private.number, name)
            .await?;
        let linked = async {
            let kind = file.attr.get().kind;
            self.add_name(dir, name, &file.private, kind).await?;
            if file.attr.get().nlink == 0 {
                let tree = &file.private.tree;
                self.remove_orphan(tree, file.private.number).await?;
            }
            file.update(|attr| {
                attr.nlink += 1;
                attr.ctime = now;
            });
            self.since.borrow_mut().renamed(file);
            self.store_inode(file).await?;
            self.touch(dir, now).await
        };
        self.noted(linked.await)
    }

    /// One of the names of `file` is gone.
    async fn lose_name(&self, file: &File, now: Timestamp) -> Result<()> {
        file.update(|attr| {
            attr.nlink = attr.nlink.saturating_sub(1);
            attr.ctime = now;
        });
        if file.attr.get().nlink == 0 {
            self.add_orphan(&file.private.tree, file.private.number)
                .await?;
        }
        self.since.borrow_mut().renamed(file);
        self.store_inode(file).await
    }

    /// Takes a name from `file`.
    pub(crate) async fn unlink(
        &self,
        dir: &File,
        name: &[u8],
        file: &File,
        now: Timestamp,
    ) -> Result<()> {
        self.ensure_removable(dir, file).await?;
        let unlinked = async {
            self.remove_name(dir, name, &file.private).await?;
            self.lose_name(file, now).await?;
            self.touch(dir, now).await
        };
        self.noted(unlinked.await)
    }

    /// Whether a file can lose a name in `dir`.
    async fn ensure_removable(&self, dir: &File, file: &File) -> Result<()> {
        self.ensure_changeable(&dir.private.tree)?;
        if dir.private.tree.id != file.private.tree.id {
            // A subvolume goes by a way of its own.
            return Err(Errno::EPERM);
        }
        if is_dir(file) && !self.is_empty(file).await? {
            return Err(Errno::ENOTEMPTY);
        }
        Ok(())
    }

    /// Renames, exchanges or replaces a name, within one operation.
    pub(crate) async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        let Rename {
            from,
            to,
            moved,
            replaced,
            exchange,
            ..
        } = rename;
        if from.private.tree.id != to.private.tree.id
            || moved.private.tree.id != from.private.tree.id
        {
            return Err(Errno::EXDEV);
        }
        self.ensure_changeable(&from.private.tree)?;
        match replaced {
            Some(replaced) if exchange && replaced.private.tree.id != to.private.tree.id => {
                return Err(Errno::EXDEV);
            }
            Some(replaced) if !exchange => self.ensure_removable(to, replaced).await?,
            Some(_) => {
                self.ensure_room(&from.private.tree, from.private.number, rename.from_name)
                    .await?;
            }
            None => {}
        }
        self.ensure_room(&to.private.tree, to.private.number, rename.to_name)
            .await?;
        let renamed = self.change_names(rename).await;
        self.noted(renamed)
    }

    async fn change_names(&self, rename: Rename<'_, Private>) -> Result<()> {
        let Rename {
            from,
            from_name,
            to,
            to_name,
            moved,
            replaced,
            exchange,
            now,
        } = rename;
        self.remove_name(from, from_name, &moved.private).await?;
        if let Some(replaced) = replaced {
            self.remove_name(to, to_name, &replaced.private).await?;
            if exchange {
                let kind = replaced.attr.get().kind;
                self.add_name(from, from_name, &replaced.private, kind)
                    .await?;
                self.since
                    .borrow_mut()
                    .moved(replaced, to.private.number, to_name);
                self.settle_in(replaced, now).await?;
            } else {
                self.lose_name(replaced, now).await?;
            }
        }
        let kind = moved.attr.get().kind;
        self.add_name(to, to_name, &moved.private, kind).await?;
        self.since
            .borrow_mut()
            .moved(moved, from.private.number, from_name);
        self.settle_in(moved, now).await?;
        self.touch(from, now).await?;
        if from.ino != to.ino {
            self.touch(to, now).await?;
        }
        Ok(())
    }

    /// Sets the change time of a renamed inode.
    async fn settle_in(&self, file: &File, now: Timestamp) -> Result<()> {
        file.update(|attr| attr.ctime = now);
        self.store_inode(file).await
    }

    /// The directory that `dir` is in.
    pub(crate) async fn parent(&self, dir: &File) -> Result<vfs::Ino> {
        let (tree, number) = (&dir.private.tree, dir.private.number);
        if number == id::FIRST_FREE && tree.id != id::FS_TREE {
            return self.parent_of_tree(tree.id).await;
        }
        let from = Key::new(number, kind::INODE_REF, 0);
        let found = self.with(|| {
            self.forest.first_from(tree, from, |key, data| {
                let own = key.object == number && key.kind <= kind::INODE_EXTREF;
                let first = name_refs(key, data).next().filter(|_| own);
                first.map(|(_, name)| name.parent)
            })
        });
        let parent = found.await?.flatten().ok_or(Errno::EUCLEAN)?;
        Ok(ino_of(tree.id, parent))
    }

    /// The directory that a subvolume is in.
    async fn parent_of_tree(&self, tree: u64) -> Result<vfs::Ino> {
        let from = Key::new(tree, kind::ROOT_BACKREF, 0);
        let found = self.with(|| {
            self.forest
                .first_from(&self.forest.roots, from, |key, data| {
                    let own = (key.object, key.kind) == (tree, kind::ROOT_BACKREF);
                    let dir = crate::format::tree::root_ref::DIR;
                    own.then(|| (key.offset, dir.get(data)))
                })
        });
        let (above, dir) = found.await?.flatten().ok_or(Errno::EUCLEAN)?;
        Ok(ino_of(above, dir))
    }
}
