//! Inodes in memory and their slots in the tables.
//!
//! Invariants: [`vfs::Face::attr`] holds the newest attributes; the size on the medium
//! covers written-back contents only; every change of a slot stores all attributes with
//! it, as the ranges of bytes that differ.

use crate::alloc::NewSlot;
use crate::buffer::BLOCK;
use crate::extents::State;
use crate::format::extent;
use crate::format::inode as raw;
use crate::fs::{ExtFs, Node, Private, damaged};
use crate::persist::Persist;
use host::Purpose;
use sim::Semaphore;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{Attr, Errno, FileKind, Ino, NewInode, Result};

/// Inode number of the root directory.
pub(crate) const ROOT: u32 = 2;

/// A copy of an inode's slot; slots of 128 bytes use a part of it.
pub(crate) type Slot = [u8; raw::MAX_SIZE];

impl<P: Persist> ExtFs<P> {
    /// Block of the inode table that holds the slot of `ino`, and the slot's offset in it.
    fn slot_place(&self, ino: u32) -> (u64, usize) {
        let (number, index) = self.geometry.place_of(ino);
        let table = self.alloc.borrow().groups[number as usize]
            .descriptor
            .inode_table;
        let byte = index as usize * self.geometry.inode_size;
        (table + (byte / BLOCK) as u64, byte % BLOCK)
    }

    /// Loads and checks an inode. `special` admits the reserved inodes, which no name leads to.
    ///
    /// # Errors
    ///
    /// `ENOENT` for a free inode, `EUCLEAN` for a damaged one, `EOPNOTSUPP` for inline or encrypted
    /// contents.
    pub(crate) async fn load_inode(&self, ino: u32, special: bool) -> Result<Node> {
        let usable = special || ino == ROOT || ino >= self.geometry.first_inode;
        if ino == 0 || ino > self.geometry.inodes || !usable {
            return Err(Errno::EUCLEAN);
        }
        let (block, at) = self.slot_place(ino);
        let buffer = self.persist.read(block, Purpose::Inode).await?;
        let mut slot = [0; raw::MAX_SIZE];
        let slot = &mut slot[..self.geometry.inode_size];
        slot.copy_from_slice(&buffer.bytes()[at..at + self.geometry.inode_size]);
        if raw::LINKS.get(slot) == 0 && (raw::MODE.get(slot) == 0 || !special) {
            return Err(Errno::ENOENT);
        }
        let seed = raw::seed(self.geometry.seed, ino, raw::GENERATION.get(slot));
        if self.geometry.checksums && !raw::is_whole(seed, slot) {
            return Err(Errno::EUCLEAN);
        }
        let attr = damaged(raw::attr(slot))?;
        let flags = raw::FLAGS.get(slot);
        self.check_inode(slot, &attr, flags)?;
        let private = self.private(buffer, at, flags, seed, attr.size);
        Ok(Node::new(Ino(u64::from(ino)), attr, private))
    }

    fn check_inode(&self, slot: &[u8], attr: &Attr, flags: u32) -> Result<()> {
        let foreign = raw::FLAG_INLINE | raw::FLAG_ENCRYPT | raw::FLAG_EA_INODE;
        if flags & foreign != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let extra = raw::EXTRA_SIZE;
        let fits = slot.len() == raw::OLD_SIZE || {
            let extra = usize::from(extra.get(slot));
            extra % 4 == 0 && extra + raw::OLD_SIZE <= slot.len()
        };
        let most = match attr.kind {
            FileKind::Directory => self.geometry.blocks.saturating_mul(BLOCK as u64),
            FileKind::Symlink => BLOCK as u64,
            _ => u64::from(u32::MAX) * BLOCK as u64,
        };
        let whole = attr.kind != FileKind::Directory || attr.size.is_multiple_of(BLOCK as u64);
        damaged((fits && attr.size <= most && whole).then_some(()))
    }

    fn private(
        &self,
        buffer: Rc<crate::Buffer>,
        at: usize,
        flags: u32,
        seed: u32,
        size: u64,
    ) -> Private {
        Private {
            buffer,
            at,
            flags: Cell::new(flags),
            seed,
            disk_size: Cell::new(size),
            turn: Semaphore::new(&self.sim, 1),
            extents: RefCell::default(),
            reserved: RefCell::default(),
            // It is unknown whether the last change of the inode is durable: assume the newest.
            changed: Cell::new(self.persist.newest()),
            data_changed: Cell::new(self.persist.newest()),
            room: Cell::new(0),
        }
    }

    /// Copies the slot of `node`; also returns its length, 128 or 256 bytes.
    pub(crate) fn slot(&self, node: &Node) -> (Slot, usize) {
        let (mut slot, len) = ([0; raw::MAX_SIZE], self.geometry.inode_size);
        let at = node.private.at;
        slot[..len].copy_from_slice(&node.private.buffer.bytes()[at..at + len]);
        (slot, len)
    }

    /// Stores all attributes of `node` and the changes of `edit` in its slot.
    pub(crate) fn edit_inode(&self, tx: &P::Tx, node: &Node, edit: impl FnOnce(&mut [u8])) {
        let (mut slot, len) = self.slot(node);
        let slot = &mut slot[..len];
        let mut attr = node.attr.get();
        if attr.kind == FileKind::Directory && attr.nlink > self.links_max() {
            attr.nlink = 1;
        }
        raw::set_attr(slot, &attr);
        raw::set_size(slot, node.private.disk_size.get());
        raw::FLAGS.put(slot, node.private.flags.get());
        raw::count_change(slot);
        edit(slot);
        if self.geometry.checksums {
            raw::seal(node.private.seed, slot);
        }
        self.write_changed(tx, &node.private.buffer, node.private.at, slot);
        node.private.changed.set(self.persist.id(tx));
    }

    /// Stores all attributes of `node` in its slot.
    pub(crate) fn store_inode(&self, tx: &P::Tx, node: &Node) {
        self.edit_inode(tx, node, |_| ());
    }

    /// Changes the sector count of an inode and stores the inode at once, so that its slot is part
    /// of this transaction before any other handle stores the new count.
    pub(crate) fn count_sectors(&self, tx: &P::Tx, node: &Node, count: impl FnOnce(u64) -> u64) {
        node.update(|attr| attr.sectors = count(attr.sectors));
        self.store_inode(tx, node);
    }

    /// Stores an inode whose map or size has changed: `fdatasync` has to force this transaction.
    pub(crate) fn store_data(&self, tx: &P::Tx, node: &Node) {
        self.store_inode(tx, node);
        node.private.data_changed.set(self.persist.id(tx));
    }

    /// Most links of a file; a directory with more counts 1 (`dir_nlink`).
    pub(crate) const fn links_max(&self) -> u32 {
        65_000
    }

    /// Fills a new slot with an empty map and returns the inode, without links. The caller counts
    /// links and stores the attributes.
    pub(crate) fn init_inode(
        &self,
        tx: &P::Tx,
        slot: NewSlot,
        new: &NewInode<'_>,
        flags: u32,
    ) -> Node {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let device = matches!(new.kind, FileKind::CharDevice | FileKind::BlockDevice);
        let attr = Attr {
            kind: new.kind,
            mode: new.mode & 0o7777,
            nlink: 0,
            uid: new.uid,
            gid: new.gid,
            rdev: if device { new.rdev } else { 0 },
            size: 0,
            sectors: 0,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: new.now,
            generation,
        };
        let mapped = matches!(
            new.kind,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        let map = match new.kind {
            _ if mapped => extent::empty_map(),
            _ if device => raw::device_map(new.rdev),
            _ => [0; raw::MAP_SIZE],
        };
        let flags = flags & raw::FLAGS_INHERITED | if mapped { raw::FLAG_EXTENTS } else { 0 };
        let seed = raw::seed(self.geometry.seed, slot.ino, generation);
        let mut bytes = [0; raw::MAX_SIZE];
        let bytes = &mut bytes[..self.geometry.inode_size];
        if bytes.len() > raw::OLD_SIZE {
            raw::EXTRA_SIZE.put(bytes, self.geometry.extra_size);
        }
        raw::MAP.put(bytes, map);
        // The caller's store of the attributes overwrites these bytes.
        self.write_changed(tx, &slot.buffer, slot.at, bytes);
        let private = self.private(slot.buffer, slot.at, flags, seed, 0);
        private.extents.borrow_mut().set(0, 1 << 32, State::Hole);
        Node::new(Ino(u64::from(slot.ino)), attr, private)
    }

    /// Clears the slot of an inode without blocks and frees the inode.
    pub(crate) async fn free_inode(&self, tx: &P::Tx, node: &Node) -> Result<()> {
        self.edit_inode(tx, node, |slot| {
            raw::MODE.put(slot, 0);
            raw::LINKS.put(slot, 0);
            raw::DTIME.put(slot, 0);
        });
        let dir = node.attr.get().kind == FileKind::Directory;
        self.release_inode(tx, number(node), dir).await
    }
}

/// Inode number in the width of the format.
pub(crate) fn number(node: &Node) -> u32 {
    node.ino.0 as u32
}

/// Place of a slot to be changed without loading its inode.
pub(crate) struct Place {
    buffer: Rc<crate::Buffer>,
    at: usize,
}

impl<P: Persist> ExtFs<P> {
    /// Locates the slot of an inode and reads its block.
    pub(crate) async fn read_slot(&self, ino: u32) -> Result<Place> {
        let (block, at) = self.slot_place(ino);
        let buffer = self.persist.read(block, Purpose::Inode).await?;
        Ok(Place { buffer, at })
    }

    /// Applies `edit` to a slot and seals it; `edit` must not change attributes.
    pub(crate) fn edit_slot(
        &self,
        tx: &P::Tx,
        place: &Place,
        ino: u32,
        edit: impl FnOnce(&mut [u8]),
    ) {
        let mut slot = [0; raw::MAX_SIZE];
        let slot = &mut slot[..self.geometry.inode_size];
        slot.copy_from_slice(&place.buffer.bytes()[place.at..place.at + slot.len()]);
        edit(slot);
        if self.geometry.checksums {
            let seed = raw::seed(self.geometry.seed, ino, raw::GENERATION.get(slot));
            raw::seal(seed, slot);
        }
        self.write_changed(tx, &place.buffer, place.at, slot);
    }
}
