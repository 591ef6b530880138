//! [`Tables`]: the tables of an image that is not mounted, read on demand.

use crate::format::checkpoint::Head;
use crate::format::nat::{self, NatEntry};
use crate::format::sit::{self, SitEntry};
use crate::format::summary::{self, Owner, Owners};
use crate::format::superblock::Geometry;
use crate::format::{Block, SEG_BLOCKS, blank, high_bit};
use crate::mount::data_summaries;
use crate::nat::Nat;
use crate::persist::{Pack, Table};
use crate::turns::place;
use host::Image;
use std::collections::BTreeMap;

/// Tables of the last checkpoint of an image, with its journals.
pub(super) struct Tables {
    pub(super) geometry: Geometry,
    pub(super) head: Head,
    pub(super) orphans: Vec<u32>,
    pub(super) segments: Vec<SitEntry>,
    journaled: BTreeMap<u32, NatEntry>,
    /// Owners of the blocks in the segments of logs; `None` where the checkpoint has no summary.
    current: BTreeMap<u32, Option<Owners>>,
    nats: BTreeMap<u32, Vec<NatEntry>>,
    summaries: BTreeMap<u32, Owners>,
}

fn block<I: Image + ?Sized>(image: &I, at: u32) -> Option<Box<Block>> {
    let mut bytes = blank();
    image.read(u64::from(at), &mut bytes).then_some(bytes)
}

fn pack<I: Image + ?Sized>(image: &I, geometry: &Geometry, segment: u32) -> Option<Pack> {
    let start = geometry.cp + segment * SEG_BLOCKS;
    let head = Head::decode(&*block(image, start)?, geometry)?;
    let blocks: Option<Vec<_>> = (start..start + head.pack_blocks)
        .map(|at| block(image, at))
        .collect();
    Some(Pack::decode(blocks?, geometry)?.0)
}

impl Tables {
    /// Reads the superblock, the newest whole checkpoint, and the entries of all segments.
    ///
    /// # Errors
    /// A sentence that names the part that is damaged or cannot be read.
    pub(super) fn read<I: Image + ?Sized>(image: &I) -> Result<Self, String> {
        let superblock = |at| {
            let bytes = block(image, at).ok_or_else(|| "it cannot be read".to_owned())?;
            Geometry::decode(&bytes, image.blocks()).map_err(|error| error.to_string())
        };
        let geometry = superblock(0).or_else(|error| superblock(1).map_err(|_| error))?;
        let packs = [0, 1].map(|segment| pack(image, &geometry, segment));
        let newest = packs
            .into_iter()
            .flatten()
            .max_by_key(|pack| pack.head.version);
        let pack = newest.ok_or("neither checkpoint is whole")?;
        let (nats, sits, owners) = data_summaries(&pack).ok_or("the summaries are not whole")?;
        let mut segments = Vec::new();
        for index in 0..geometry.sit_blocks() {
            let second = high_bit(&pack.head.sit_bitmap, index as usize);
            let bytes = block(image, place(&geometry, Table::Sit(index), second));
            let bytes = bytes.ok_or("a block of the SIT cannot be read")?;
            segments.extend(sit::decode(&bytes));
        }
        segments.truncate(geometry.main_segments as usize);
        for (segment, entry) in summary::sits_of(&sits) {
            let place = segments.get_mut(segment as usize);
            *place.ok_or("the journal has a segment that is not there")? = entry;
        }
        let nodes = (0..3).map(|log| pack.nodes.get(log).map(|block| summary::decode(block)));
        let owners = owners.into_iter().map(Some).chain(nodes);
        let logs = pack.head.logs.iter().map(|log| log.segment);
        Ok(Self {
            current: logs.zip(owners).collect(),
            journaled: summary::nats_of(&nats).into_iter().collect(),
            orphans: pack.orphans,
            head: pack.head,
            segments,
            geometry,
            nats: BTreeMap::new(),
            summaries: BTreeMap::new(),
        })
    }

    /// Newest copy of block `index` of the NAT; `None` if it cannot be read.
    fn nat_block<I: Image + ?Sized>(&self, image: &I, index: u32) -> Option<Box<Block>> {
        let second = high_bit(&self.head.nat_bitmap, index as usize);
        block(image, place(&self.geometry, Table::Nat(index), second))
    }

    /// Entry of node `nid`; free (address 0) if the table block cannot be read.
    pub(super) fn nat<I: Image + ?Sized>(&mut self, image: &I, nid: u32) -> NatEntry {
        if let Some(entry) = self.journaled.get(&nid) {
            return *entry;
        }
        if nid >= self.geometry.nids() {
            return NatEntry::default();
        }
        let index = Nat::block_of(nid);
        if !self.nats.contains_key(&index) {
            let block = self.nat_block(image, index);
            let entries = block.map_or_else(Vec::new, |block| nat::decode(&block));
            self.nats.insert(index, entries);
        }
        let entry = self.nats[&index].get(nid as usize % nat::PER_BLOCK);
        entry.copied().unwrap_or_default()
    }

    /// Numbers of all nodes that have an address in the NAT or in its journal, in order, reserved
    /// numbers excluded.
    pub(super) fn used_nids<I: Image + ?Sized>(&self, image: &I) -> Vec<u32> {
        let journaled = self.journaled.iter();
        let journaled = journaled.filter(|(_, entry)| entry.addr != 0);
        let mut used: Vec<u32> = journaled.map(|(&nid, _)| nid).collect();
        for index in 0..self.geometry.nat_blocks() {
            let Some(block) = self.nat_block(image, index) else {
                continue;
            };
            let first = index * nat::PER_BLOCK as u32;
            let in_table = (first..).zip(nat::addresses(&block));
            let in_table = in_table.filter(|&(_, addr)| addr != 0).map(|(nid, _)| nid);
            used.extend(in_table.filter(|nid| !self.journaled.contains_key(nid)));
        }
        used.retain(|&nid| nid > 2);
        used.sort_unstable();
        used
    }

    /// Owner of block `at` of a segment; `None` if only the block itself names the owner.
    pub(super) fn owner<I: Image + ?Sized>(
        &mut self,
        image: &I,
        segment: u32,
        at: usize,
    ) -> Option<Owner> {
        if let Some(owners) = self.current.get(&segment) {
            return owners.as_ref().map(|owners| owners[at]);
        }
        let geometry = &self.geometry;
        let owners = self.summaries.entry(segment).or_insert_with(|| {
            let bytes = block(image, place(geometry, Table::Summary(segment), false));
            bytes.map_or_else(summary::nobody, |bytes| summary::decode(&bytes))
        });
        Some(owners[at])
    }

    /// Number of segments without a valid block or a log.
    pub(super) fn empty_segments(&self) -> u32 {
        let all = (0..).zip(&self.segments);
        let empty = all.filter(|(at, entry)| entry.valid == 0 && !self.current.contains_key(at));
        empty.count() as u32
    }
}
