//! Making, linking, unlinking and renaming.
//!
//! Invariant: each is within one operation, so a checkpoint has all of it or nothing;
//! what may fail for want of space comes before what cannot be taken back.

use crate::format::checkpoint::ORPHANS_MOST;
use crate::format::dentry::IN_INODE;
use crate::format::node;
use crate::format::superblock::ROOT;
use crate::fs::{Core, File, Private, damaged, is_dir, number};
use crate::nodes::NodeBuf;
use crate::persist::Persist;
use std::rc::Rc;
use vfs::{Attr, Errno, FileKind, Ino, NewInode, Rename, Result, Timestamp};

/// Most names of a file: what fits the number is more; the kernel's limit.
pub(crate) const LINKS_MAX: u32 = 4_000_000;

fn ensure_links(file: &File) -> Result<()> {
    let most = file.attr.get().nlink >= LINKS_MAX;
    if most { Err(Errno::EMLINK) } else { Ok(()) }
}

impl<P: Persist> Core<P> {
    /// Names in `dir` have changed, and so many directories have come or gone.
    fn touch(&self, dir: &File, now: Timestamp, links: i32) {
        dir.update(|attr| {
            attr.nlink = attr.nlink.saturating_add_signed(links);
            (attr.mtime, attr.ctime) = (now, now);
        });
        self.store_inode(dir);
    }

    /// The node of a new inode; its number and its block are taken.
    async fn new_inode(&self, parent: u32, name: &[u8], new: &NewInode<'_>) -> Result<Rc<NodeBuf>> {
        let nid = self.take_nid().await?;
        if let Err(error) = self.take_block() {
            self.nat.borrow_mut().give_back(nid);
            return Err(error);
        }
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let mut bytes = node::fresh(nid, nid, 0);
        let is_dir = new.kind == FileKind::Directory;
        let attr = Attr {
            kind: new.kind,
            mode: new.mode,
            nlink: if is_dir { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            size: 0,
            sectors: 0,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: Timestamp::default(),
            generation,
        };
        node::set_attr(&mut bytes, &attr);
        node::GENERATION.put(&mut bytes[..], generation);
        node::BLOCKS.put(&mut bytes[..], 1);
        node::set_name(&mut bytes, parent, name);
        node::set_has(&mut bytes, node::HAS_XATTR, true);
        match new.kind {
            FileKind::Directory => {
                node::set_has(&mut bytes, node::HAS_DENTRY, true);
                node::SIZE.put(&mut bytes[..], node::INLINE_MOST as u64);
                let table = node::inline_mut(&mut bytes);
                IN_INODE.put(table, 0, b".", nid, FileKind::Directory);
                IN_INODE.put(table, 1, b"..", parent, FileKind::Directory);
            }
            FileKind::BlockDevice | FileKind::CharDevice => {
                node::set_device(&mut bytes, new.rdev);
            }
            FileKind::Regular | FileKind::Symlink => {
                node::set_has(&mut bytes, node::HAS_DATA, true);
            }
            FileKind::Fifo | FileKind::Socket => {}
        }
        let cold = self
            .geometry
            .cold
            .iter()
            .any(|ending| ends_with(name, ending));
        if new.kind == FileKind::Regular && cold {
            node::ADVISE.put(&mut bytes[..], node::ADVISE_COLD);
        }
        let buf = self.add_node(bytes);
        self.since.borrow_mut().made.insert(nid, false);
        self.count(|counts| counts.inodes += 1);
        Ok(buf)
    }

    fn loaded(&self, buf: Rc<NodeBuf>) -> Result<File> {
        let attr = damaged(node::attr(&buf.bytes()))?;
        Ok(File::new(Ino(u64::from(buf.nid)), attr, self.private(buf)))
    }

    /// Brings an inode to memory.
    pub(crate) async fn load_inode(&self, ino: Ino) -> Result<File> {
        let nid = u32::try_from(ino.0).map_err(|_| Errno::ENOENT)?;
        let known = (ROOT..self.geometry.nids()).contains(&nid);
        if !known {
            return Err(Errno::ENOENT);
        }
        let buf = self.node(nid).await?;
        if buf.ino != nid {
            return Err(Errno::ENOENT);
        }
        self.loaded(buf)
    }

    /// Makes an inode with a name.
    pub(crate) async fn make(&self, dir: &File, name: &[u8], new: NewInode<'_>) -> Result<File> {
        let is_dir = new.kind == FileKind::Directory;
        if is_dir {
            ensure_links(dir)?;
        }
        let buf = self.new_inode(number(dir), name, &new).await?;
        let filled = self.fill_link(&buf, &new).await;
        let named = match filled {
            Ok(()) => self.add_name(dir, name, buf.nid, new.kind).await,
            Err(error) => Err(error),
        };
        if let Err(error) = named {
            self.delete_node(&buf).await?;
            return Err(error);
        }
        self.touch(dir, new.now, i32::from(is_dir));
        self.loaded(buf)
    }

    /// Writes down where a symbolic link leads.
    async fn fill_link(&self, buf: &Rc<NodeBuf>, new: &NewInode<'_>) -> Result<()> {
        if new.kind != FileKind::Symlink {
            return Ok(());
        }
        buf.edit(|bytes| node::SIZE.put(bytes, new.target.len() as u64));
        if new.target.len() <= node::INLINE_MOST {
            buf.edit(|bytes| node::set_inline(bytes, new.target));
            return Ok(());
        }
        self.write_target(buf, new.target).await
    }

    /// Makes an inode without a name.
    pub(crate) async fn make_unnamed(&self, new: NewInode<'_>) -> Result<File> {
        self.ensure_orphans()?;
        let buf = self.new_inode(ROOT, b"", &new).await?;
        buf.edit(|bytes| node::LINKS.put(bytes, 0));
        self.orphans.borrow_mut().insert(buf.nid);
        self.loaded(buf)
    }

    /// Gives `file` another name.
    pub(crate) async fn link(
        &self,
        dir: &File,
        name: &[u8],
        file: &File,
        now: Timestamp,
    ) -> Result<()> {
        ensure_links(file)?;
        self.add_name(dir, name, number(file), file.attr.get().kind)
            .await?;
        let first = file.attr.get().nlink == 0;
        file.update(|attr| {
            attr.nlink += 1;
            attr.ctime = now;
        });
        if first {
            self.orphans.borrow_mut().remove(&number(file));
            file.private
                .buf
                .edit(|bytes| node::set_name(bytes, number(dir), name));
        }
        self.need_whole(number(file));
        self.store_inode(file);
        self.touch(dir, now, 0);
        Ok(())
    }

    /// Whether a file can lose a name.
    fn ensure_nameless(&self, file: &File) -> Result<()> {
        let is_last = is_dir(file) || file.attr.get().nlink <= 1;
        if is_last {
            self.ensure_orphans()
        } else {
            Ok(())
        }
    }

    /// Whether a checkpoint has room for one more inode without a name.
    fn ensure_orphans(&self) -> Result<()> {
        let room = self.orphans.borrow().len() < ORPHANS_MOST;
        room.then_some(()).ok_or_else(|| self.refuse_orphan())
    }

    /// A name that `file` had is not its own any more.
    fn note_moved(&self, file: &File) {
        let mut since = self.since.borrow_mut();
        since.whole.insert(number(file));
        since.dirs_moved |= is_dir(file);
    }

    /// One of the names of `file` is gone.
    fn lose_name(&self, file: &File, now: Timestamp) {
        file.update(|attr| {
            let fewer = attr.nlink.saturating_sub(1);
            attr.nlink = if attr.kind == FileKind::Directory {
                0
            } else {
                fewer
            };
            attr.ctime = now;
        });
        if file.attr.get().nlink == 0 {
            self.orphans.borrow_mut().insert(number(file));
        }
        self.note_moved(file);
        self.store_inode(file);
    }

    /// Takes a name from `file`.
    pub(crate) async fn unlink(
        &self,
        dir: &File,
        name: &[u8],
        file: &File,
        now: Timestamp,
    ) -> Result<()> {
        if is_dir(file) && !self.is_empty(file).await? {
            return Err(Errno::ENOTEMPTY);
        }
        self.ensure_nameless(file)?;
        let lead = damaged(self.find_name(dir, name).await?)?;
        self.remove_name(dir, &lead, name).await?;
        self.lose_name(file, now);
        self.touch(dir, now, -i32::from(is_dir(file)));
        Ok(())
    }

    /// Renames a file, or exchanges two, as `rename` says.
    pub(crate) async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        let Rename {
            from,
            to,
            moved,
            replaced,
            exchange,
            now,
            ..
        } = rename;
        if let Some(replaced) = replaced.filter(|_| !exchange) {
            self.ensure_nameless(replaced)?;
        }
        let lead = damaged(self.find_name(from, rename.from_name).await?)?;
        let kind = moved.attr.get().kind;
        let across = from.ino != to.ino;
        if across && is_dir(moved) && !replaced.is_some_and(is_dir) {
            ensure_links(to)?;
        }
        match replaced {
            None => {
                self.add_name(to, rename.to_name, number(moved), kind)
                    .await?;
            }
            Some(replaced) => {
                if !exchange && is_dir(replaced) && !self.is_empty(replaced).await? {
                    return Err(Errno::ENOTEMPTY);
                }
                let other = damaged(self.find_name(to, rename.to_name).await?)?;
                self.turn_name(to, &other, number(moved), kind).await?;
            }
        }
        let links = match replaced {
            Some(replaced) if exchange => {
                let kind = replaced.attr.get().kind;
                self.turn_name(from, &lead, number(replaced), kind).await?;
                self.settle_in(replaced, from, rename.from_name, across, now)
                    .await?;
                i32::from(is_dir(moved)) - i32::from(is_dir(replaced))
            }
            _ => {
                // Adding a name may have moved the others out of the inode.
                let lead = damaged(self.find_name(from, rename.from_name).await?)?;
                self.remove_name(from, &lead, rename.from_name).await?;
                if let Some(replaced) = replaced {
                    self.lose_name(replaced, now);
                    let fewer = u32::from(is_dir(replaced));
                    to.update(|attr| attr.nlink = attr.nlink.saturating_sub(fewer));
                }
                i32::from(is_dir(moved))
            }
        };
        self.settle_in(moved, to, rename.to_name, across, now)
            .await?;
        self.touch(from, now, -links);
        self.touch(to, now, links);
        Ok(())
    }

    /// Notes the new name in a moved inode, and in a moved directory its new parent.
    async fn settle_in(
        &self,
        file: &File,
        dir: &File,
        name: &[u8],
        across: bool,
        now: Timestamp,
    ) -> Result<()> {
        if across && is_dir(file) {
            let up = damaged(self.find_name(file, b"..").await?)?;
            self.turn_name(file, &up, number(dir), FileKind::Directory)
                .await?;
        }
        file.update(|attr| attr.ctime = now);
        file.private
            .buf
            .edit(|bytes| node::set_name(bytes, number(dir), name));
        self.note_moved(file);
        self.store_inode(file);
        Ok(())
    }

    /// Frees an inode that has no name and is not used.
    pub(crate) async fn delete(&self, file: &File) -> Result<()> {
        self.unpromise(file);
        self.delete_node(&file.private.buf).await
    }

    /// Deletes a file by the node of its inode, which need not be loaded in the VFS.
    pub(crate) async fn delete_node(&self, buf: &Rc<NodeBuf>) -> Result<()> {
        let (plain, xattrs) = {
            let bytes = buf.bytes();
            let kind = FileKind::of_mode(node::MODE.get(&bytes[..]));
            let device = matches!(kind, Some(FileKind::BlockDevice | FileKind::CharDevice));
            let inline = node::has(&bytes, node::HAS_DATA | node::HAS_DENTRY);
            (!device && !inline, node::XATTR_NID.get(&bytes[..]))
        };
        if plain {
            self.cut_pages(buf, 0).await?;
        }
        if xattrs != 0 {
            self.xattr_node(buf, xattrs).await?;
            self.free_node(xattrs).await?;
        }
        self.dirs.borrow_mut().forget(buf.nid);
        self.orphans.borrow_mut().remove(&buf.nid);
        self.since.borrow_mut().made.remove(&buf.nid);
        self.free_node(buf.nid).await?;
        self.count(|counts| counts.inodes = counts.inodes.saturating_sub(1));
        Ok(())
    }
}

/// Whether a name has this ending after a dot.
fn ends_with(name: &[u8], ending: &[u8]) -> bool {
    let stem = name.len().checked_sub(ending.len() + 1);
    stem.is_some_and(|stem| name[stem] == b'.' && name[stem + 1..].eq_ignore_ascii_case(ending))
}
