//! Directories: entries in the inode while they fit, then levels of hash tables.
//!
//! Invariants: a block of entries is in memory at most once, and stays while it is dirty; only
//! checkpoints write it, so a power cut finds all names as of one instant, but for those of files
//! that were forced. Callers hold the directory exclusively where they change it.

use crate::format::dentry::{self, Entry, IN_BLOCK, IN_INODE, LEVELS, Shape};
use crate::format::{BLOCK, Block, NEW_ADDR, blank, node};
use crate::fs::{Core, File, damaged, number, show_blocks};
use crate::nodes::Found;
use crate::persist::{MainArea, Persist};
use host::Purpose;
use nand::Payload;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{DirEntry, Errno, FileKind, Ino, Result};

/// Blocks in memory before clean ones are let go: 32 MiB, a choice of ours.
const MOST: usize = 8_192;

/// A block of entries in memory.
pub(crate) struct DirBlock {
    pub(crate) bytes: RefCell<Box<Block>>,
    dirty: Cell<bool>,
}

/// All blocks of entries in memory, by directory and number.
#[derive(Default)]
pub(crate) struct DirCache {
    blocks: BTreeMap<(u32, u64), Rc<DirBlock>>,
    pub(crate) dirty: BTreeSet<(u32, u64)>,
}

impl DirCache {
    /// The block of this directory and number, if it is in memory.
    pub(crate) fn get(&self, ino: u32, index: u64) -> Option<Rc<DirBlock>> {
        self.blocks.get(&(ino, index)).cloned()
    }

    /// Puts a block in; one that is there stays. Returns the one that is there then.
    pub(crate) fn insert(&mut self, ino: u32, index: u64, bytes: Box<Block>) -> Rc<DirBlock> {
        if self.blocks.len() > MOST {
            self.blocks
                .retain(|_, block| block.dirty.get() || Rc::strong_count(block) > 1);
        }
        let block = self.blocks.entry((ino, index)).or_insert_with(|| {
            Rc::new(DirBlock {
                bytes: RefCell::new(bytes),
                dirty: Cell::new(false),
            })
        });
        Rc::clone(block)
    }

    /// Forgets all blocks of a directory.
    pub(crate) fn forget(&mut self, ino: u32) {
        let range = (ino, 0)..=(ino, u64::MAX);
        let keys: Vec<_> = self.blocks.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            self.blocks.remove(&key);
            self.dirty.remove(&key);
        }
    }

    /// A block was written.
    pub(crate) fn clean(&mut self, ino: u32, index: u64) {
        self.dirty.remove(&(ino, index));
        if let Some(block) = self.blocks.get(&(ino, index)) {
            block.dirty.set(false);
        }
    }
}

/// Place of an entry of a directory, and the inode that the entry names.
pub(crate) struct Lead {
    /// The block of entries; none if they are in the inode.
    block: Option<u64>,
    slot: usize,
    pub(crate) ino: u32,
}

impl Lead {
    fn of(block: Option<u64>, entry: &Entry<'_>) -> Self {
        Self {
            block,
            slot: entry.slot,
            ino: entry.ino,
        }
    }
}

/// The number that goes on after an entry.
const fn cookie(block: u64, slot: usize) -> u64 {
    block * IN_BLOCK.slots as u64 + slot as u64 + 1
}

fn in_inode(dir: &File) -> bool {
    node::has(&dir.private.buf.bytes(), node::HAS_DENTRY)
}

/// Blocks that a directory may have entries in.
fn blocks_of(dir: &File) -> u64 {
    node::SIZE
        .get(&dir.private.buf.bytes()[..])
        .div_ceil(BLOCK as u64)
}

impl<P: Persist> Core<P> {
    /// A block of entries; none in a gap.
    pub(crate) async fn dir_block(&self, dir: &File, index: u64) -> Result<Option<Rc<DirBlock>>> {
        let inode = &dir.private.buf;
        let known = self.dirs.borrow().get(inode.ino, index);
        if known.is_some() {
            return Ok(known);
        }
        let addr = self.addr_of(inode, index).await?;
        let mut bytes = blank();
        match addr {
            0 => return Ok(None),
            NEW_ADDR => {}
            _ => {
                let mut payload = [Payload::Zero];
                let who = self.who(Purpose::Directory);
                self.persist.main().read(addr, &mut payload, who).await?;
                if !payload[0].copy_to(0, &mut bytes[..]) {
                    return Err(Errno::EIO);
                }
            }
        }
        Ok(Some(self.dirs.borrow_mut().insert(inode.ino, index, bytes)))
    }

    /// A block of entries has changed, or is to be moved.
    pub(crate) fn soil_block(&self, ino: u32, index: u64, block: &DirBlock) {
        block.dirty.set(true);
        self.dirs.borrow_mut().dirty.insert((ino, index));
        self.note_change();
    }

    /// Looks `name` up in a directory; `None` if it has no such entry.
    pub(crate) async fn find_name(&self, dir: &File, name: &[u8]) -> Result<Option<Lead>> {
        let hash = dentry::hash(name);
        if in_inode(dir) {
            let bytes = dir.private.buf.bytes();
            let entry = IN_INODE.find(node::inline(&bytes), name, hash);
            return Ok(entry.map(|entry| Lead::of(None, &entry)));
        }
        let (depth, level) = {
            let bytes = dir.private.buf.bytes();
            (node::DEPTH.get(&bytes[..]), node::DIR_LEVEL.get(&bytes[..]))
        };
        let end = blocks_of(dir);
        for at in 0..depth.min(LEVELS) {
            let first = dentry::bucket(at, level, hash);
            for index in first..(first + dentry::bucket_blocks(at)).min(end) {
                let Some(block) = self.dir_block(dir, index).await? else {
                    continue;
                };
                let bytes = block.bytes.borrow();
                if let Some(entry) = IN_BLOCK.find(&bytes[..], name, hash) {
                    return Ok(Some(Lead::of(Some(index), &entry)));
                }
            }
        }
        Ok(None)
    }

    /// Changes the table that a lead is in.
    async fn edit_table(
        &self,
        dir: &File,
        block: Option<u64>,
        edit: impl FnOnce(Shape, &mut [u8]),
    ) -> Result<()> {
        match block {
            None => {
                let buf = &dir.private.buf;
                buf.edit(|bytes| edit(IN_INODE, node::inline_mut(bytes)));
                self.soil(buf);
            }
            Some(index) => {
                let block = damaged(self.dir_block(dir, index).await?)?;
                edit(IN_BLOCK, &mut block.bytes.borrow_mut()[..]);
                self.soil_block(number(dir), index, &block);
            }
        }
        Ok(())
    }

    /// Puts a name into a directory that has none like it.
    pub(crate) async fn add_name(
        &self,
        dir: &File,
        name: &[u8],
        ino: u32,
        kind: FileKind,
    ) -> Result<()> {
        if in_inode(dir) {
            let room = IN_INODE.room(node::inline(&dir.private.buf.bytes()), name.len());
            if let Some(slot) = room {
                let put = |shape: Shape, table: &mut [u8]| shape.put(table, slot, name, ino, kind);
                return self.edit_table(dir, None, put).await;
            }
            self.outgrow(dir).await?;
        }
        let (index, slot) = self.find_room(dir, name).await?;
        let put = |shape: Shape, table: &mut [u8]| shape.put(table, slot, name, ino, kind);
        self.edit_table(dir, Some(index), put).await
    }

    /// Moves entries from the inode into a block, where they keep their slots.
    async fn outgrow(&self, dir: &File) -> Result<()> {
        self.take_block()?;
        let buf = &dir.private.buf;
        let mut table = blank();
        IN_BLOCK.take_over(&mut table[..], &IN_INODE, node::inline(&buf.bytes()));
        buf.edit(|bytes| {
            node::drop_inline(bytes);
            node::set_addr(bytes, 0, NEW_ADDR);
            node::DEPTH.put(bytes, 1);
        });
        self.add_blocks(buf, 1);
        self.set_dir_size(dir, BLOCK as u64);
        let block = self.dirs.borrow_mut().insert(buf.ino, 0, table);
        self.soil_block(buf.ino, 0, &block);
        Ok(())
    }

    fn set_dir_size(&self, dir: &File, size: u64) {
        dir.update(|attr| attr.size = size);
        dir.private.disk_size.set(size);
        dir.private.buf.edit(|bytes| node::SIZE.put(bytes, size));
        self.soil(&dir.private.buf);
        show_blocks(dir);
    }

    /// A block with room for a name, in the first level that has it, and where in it.
    async fn find_room(&self, dir: &File, name: &[u8]) -> Result<(u64, usize)> {
        let hash = dentry::hash(name);
        let level = node::DIR_LEVEL.get(&dir.private.buf.bytes()[..]);
        for at in 0..LEVELS {
            let first = dentry::bucket(at, level, hash);
            for index in first..first + dentry::bucket_blocks(at) {
                let Some(block) = self.dir_block(dir, index).await? else {
                    self.add_block(dir, index, at).await?;
                    return Ok((index, 0));
                };
                let room = IN_BLOCK.room(&block.bytes.borrow()[..], name.len());
                if let Some(slot) = room {
                    return Ok((index, slot));
                }
            }
        }
        Err(self.refuse_name(LEVELS))
    }

    /// Adds an empty block of entries to `level` of a directory.
    async fn add_block(&self, dir: &File, index: u64, level: u32) -> Result<()> {
        let inode = &dir.private.buf;
        let (buf, at) = self.find_or_make(inode, index).await?;
        self.take_block()?;
        buf.edit(|bytes| node::set_addr(bytes, at, NEW_ADDR));
        self.soil(&buf);
        self.add_blocks(inode, 1);
        inode.edit(|bytes| {
            let depth = node::DEPTH.get(bytes).max(level + 1);
            node::DEPTH.put(bytes, depth);
        });
        let size = dir.attr.get().size.max((index + 1) * BLOCK as u64);
        self.set_dir_size(dir, size);
        let block = self.dirs.borrow_mut().insert(inode.ino, index, blank());
        self.soil_block(inode.ino, index, &block);
        Ok(())
    }

    /// Takes a name out.
    pub(crate) async fn remove_name(&self, dir: &File, lead: &Lead, name: &[u8]) -> Result<()> {
        let (slot, len) = (lead.slot, name.len());
        let remove = |shape: Shape, table: &mut [u8]| shape.remove(table, slot, len);
        self.edit_table(dir, lead.block, remove).await
    }

    /// Makes a name lead elsewhere.
    pub(crate) async fn turn_name(
        &self,
        dir: &File,
        lead: &Lead,
        ino: u32,
        kind: FileKind,
    ) -> Result<()> {
        let turn = |shape: Shape, table: &mut [u8]| shape.lead(table, lead.slot, ino, kind);
        self.edit_table(dir, lead.block, turn).await
    }

    /// Whether a directory has no names.
    pub(crate) async fn is_empty(&self, dir: &File) -> Result<bool> {
        if in_inode(dir) {
            return Ok(IN_INODE.is_empty(node::inline(&dir.private.buf.bytes())));
        }
        let mut index = 0;
        while index < blocks_of(dir) {
            let (block, next) = self.next_block(dir, index).await?;
            index = next;
            if block.is_some_and(|block| !IN_BLOCK.is_empty(&block.bytes.borrow()[..])) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Block `index` of a directory, and the number of the next one that may be there.
    async fn next_block(&self, dir: &File, index: u64) -> Result<(Option<Rc<DirBlock>>, u64)> {
        match self.find(&dir.private.buf, index).await? {
            Found::Gap(next) => Ok((None, next)),
            Found::At(..) => Ok((self.dir_block(dir, index).await?, index + 1)),
        }
    }

    /// Up to `most` names after `cookie`.
    pub(crate) async fn list(&self, dir: &File, from: u64, most: usize) -> Result<Vec<DirEntry>> {
        let mut listed = Vec::new();
        if in_inode(dir) {
            let bytes = dir.private.buf.bytes();
            let table = node::inline(&bytes);
            let entries = IN_INODE.entries(table, usize::try_from(from).unwrap_or(usize::MAX));
            push(&mut listed, entries, 0, most)?;
            return Ok(listed);
        }
        let slots = IN_BLOCK.slots as u64;
        let (mut index, mut slot) = (from / slots, (from % slots) as usize);
        while index < blocks_of(dir) && listed.len() < most {
            let (block, next) = self.next_block(dir, index).await?;
            if let Some(block) = block {
                let bytes = block.bytes.borrow();
                push(&mut listed, IN_BLOCK.entries(&bytes[..], slot), index, most)?;
            }
            (index, slot) = (next, 0);
        }
        Ok(listed)
    }

    /// The directory that `dir` is in.
    pub(crate) async fn parent(&self, dir: &File) -> Result<u32> {
        let lead = self.find_name(dir, b"..").await?;
        let noted = node::PARENT.get(&dir.private.buf.bytes()[..]);
        Ok(lead.map_or(noted, |lead| lead.ino))
    }
}

/// Adds entries of block `index` to a list that shall have no more than `most`.
fn push<'a>(
    listed: &mut Vec<DirEntry>,
    entries: impl Iterator<Item = Entry<'a>>,
    index: u64,
    most: usize,
) -> Result<()> {
    let named = entries.filter(|entry| entry.name != b"." && entry.name != b"..");
    for entry in named.take(most - listed.len()) {
        // An entry that begins within another one's name is a sign of damage.
        let sound = !entry.name.contains(&b'/') && entry.hash == dentry::hash(entry.name);
        damaged(sound.then_some(()))?;
        let last = entry.slot + dentry::slots_of(entry.name.len()) - 1;
        listed.push(DirEntry {
            cookie: cookie(index, last),
            ino: Ino(u64::from(entry.ino)),
            kind: damaged(entry.kind)?,
            name: entry.name.to_vec(),
        });
    }
    Ok(())
}
