//! The node address table in memory, and numbers that are free.
//!
//! Invariants: a block of the table is read once and then kept; a number that was freed
//! is given out again only after a checkpoint.

use crate::format::nat::{self, NatEntry, PER_BLOCK};
use crate::fs::Core;
use crate::persist::{Persist, Table};
use std::collections::{BTreeMap, BTreeSet};
use vfs::Result;

/// Blocks of the table that are in memory, and the free numbers known from them.
#[derive(Default)]
pub(crate) struct Nat {
    blocks: BTreeMap<u32, Vec<NatEntry>>,
    /// Entries that are not in the table on the medium.
    pub(crate) changed: BTreeSet<u32>,
    free: BTreeSet<u32>,
    freed: Vec<u32>,
    /// Numbers that recovery has found nodes with: not given out until the next checkpoint.
    claimed: BTreeSet<u32>,
    /// Blocks that were looked through for free numbers, counted from `first` on.
    looked: u32,
    first: u32,
}

impl Nat {
    /// A table with no block in memory; the search for free numbers starts at the block of `next`.
    pub(crate) fn new(next: u32) -> Self {
        Self {
            first: Self::block_of(next),
            ..Self::default()
        }
    }

    /// The block of the table that an entry is in.
    pub(crate) const fn block_of(nid: u32) -> u32 {
        nid / PER_BLOCK as u32
    }

    /// Bytes of the entries in memory.
    pub(crate) fn memory(&self) -> usize {
        self.blocks.len() * PER_BLOCK * size_of::<NatEntry>()
    }

    /// The entry of a number whose block is in memory.
    pub(crate) fn get(&self, nid: u32) -> Option<NatEntry> {
        let block = self.blocks.get(&Self::block_of(nid))?;
        block.get(nid as usize % PER_BLOCK).copied()
    }

    /// Changes the entry of a number whose block is in memory.
    pub(crate) fn set(&mut self, nid: u32, entry: NatEntry) {
        if let Some(block) = self.blocks.get_mut(&Self::block_of(nid)) {
            block[nid as usize % PER_BLOCK] = entry;
            self.changed.insert(nid);
        }
    }

    /// Frees `nid` and raises its version; it is given out again after a checkpoint only.
    pub(crate) fn free(&mut self, nid: u32) {
        let old = self.get(nid).unwrap_or_default();
        let entry = NatEntry {
            version: old.version.wrapping_add(1),
            ino: 0,
            addr: 0,
        };
        self.set(nid, entry);
        self.freed.push(nid);
    }

    /// Takes a free number, if any is known.
    fn take(&mut self) -> Option<u32> {
        self.free.pop_first()
    }

    /// Returns a taken number for which nothing was written; it is free at once.
    pub(crate) fn give_back(&mut self, nid: u32) {
        self.free.insert(nid);
    }

    /// Keeps a number from being given out: recovery has found a node with it.
    pub(crate) fn claim(&mut self, nid: u32) {
        self.free.remove(&nid);
        self.claimed.insert(nid);
    }

    /// Numbers that are known to be free.
    pub(crate) fn known_free(&self) -> u64 {
        self.free.len() as u64
    }

    /// Numbers that were freed since the last checkpoint.
    pub(crate) const fn waiting(&self) -> u64 {
        self.freed.len() as u64
    }

    /// Makes freed and unused claimed numbers free, once a checkpoint is durable.
    pub(crate) fn let_go(&mut self) {
        self.free.extend(self.freed.drain(..));
        for nid in std::mem::take(&mut self.claimed) {
            if self.get(nid).is_some_and(|entry| entry.addr == 0) {
                self.free.insert(nid);
            }
        }
    }

    /// The number that is free next, as a checkpoint notes it.
    pub(crate) fn next_free(&self) -> u32 {
        self.free
            .first()
            .copied()
            .unwrap_or(self.first * PER_BLOCK as u32)
    }

    /// All entries of a block in memory.
    pub(crate) fn block(&self, index: u32) -> Option<&[NatEntry]> {
        self.blocks.get(&index).map(|entries| &entries[..])
    }
}

impl<P: Persist> Core<P> {
    /// Brings a block of the table to memory.
    pub(crate) async fn load_nat(&self, index: u32) -> Result<()> {
        if self.nat.borrow().blocks.contains_key(&index) {
            return Ok(());
        }
        let block = self.persist.read_table(Table::Nat(index)).await?;
        // Another task may have loaded the block meanwhile, and may have changed it since.
        let mut nat = self.nat.borrow_mut();
        nat.blocks
            .entry(index)
            .or_insert_with(|| nat::decode(&block));
        Ok(())
    }

    /// Takes a number for a node.
    ///
    /// # Errors
    /// `ENOSPC` if none is free.
    pub(crate) async fn take_nid(&self) -> Result<u32> {
        loop {
            if let Some(nid) = self.nat.borrow_mut().take() {
                return Ok(nid);
            }
            let blocks = self.geometry.nat_blocks();
            let (first, looked) = {
                let nat = self.nat.borrow();
                (nat.first, nat.looked)
            };
            if looked >= blocks {
                return Err(self.refuse_number());
            }
            let index = (first + looked) % blocks;
            self.load_nat(index).await?;
            let mut nat = self.nat.borrow_mut();
            if nat.looked != looked {
                continue;
            }
            nat.looked += 1;
            let start = index * PER_BLOCK as u32;
            let entries = nat.blocks.get(&index).map_or(&[][..], |entries| entries);
            let free = (start..)
                .zip(entries)
                .filter(|(nid, e)| *nid > 3 && e.addr == 0);
            let mut free: BTreeSet<u32> = free.map(|(nid, _)| nid).collect();
            for nid in nat.freed.iter().chain(&nat.claimed) {
                free.remove(nid);
            }
            nat.free.append(&mut free);
        }
    }
}
