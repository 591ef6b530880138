//! Check of references and space: the extents that trees refer to against the trees of extents,
//! chunks and checksums.

use super::Check;
use crate::format::extent::{self, Extent, Piece, Ref, piece, summed};
use crate::format::node::{self, Expected};
use crate::format::superblock::Start;
use crate::format::tree::dev_extent;
use crate::format::{Block, Key, NODE_BYTES, SECTOR, SECTOR_BYTES, id, kind, sum};
use crate::space::{Ranges, Use};
use host::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Length of an extent in bytes, its level if it is a node, and the count of each reference.
type Referred = (u64, Option<u8>, BTreeMap<Ref, u64>);

/// References and extents collected by the walk.
#[derive(Default)]
pub(super) struct Met {
    /// References, by the address of their extent.
    refs: BTreeMap<u64, Referred>,
    /// Nodes whose references were counted.
    counted: BTreeSet<u64>,
    /// Contents that have sums.
    summed: Ranges,
}

impl Met {
    fn refer(&mut self, at: u64, len: u64, level: Option<u8>, by: Ref) -> bool {
        let held = self
            .refs
            .entry(at)
            .or_insert_with(|| (len, level, BTreeMap::new()));
        *held.2.entry(by).or_default() += 1;
        held.0 == len && held.1 == level
    }

    pub(super) fn take_sums(&mut self, spans: impl Iterator<Item = Range<u64>>) {
        for span in spans {
            self.summed.add(span.start, span.end - span.start);
        }
    }
}

/// Contents of the extent tree.
#[derive(Default)]
struct Said {
    extents: BTreeMap<u64, (u64, Option<u8>, Extent)>,
    /// References in items of their own.
    refs: BTreeMap<u64, Vec<(Ref, u32)>>,
    /// Block groups: length, used, flags.
    groups: BTreeMap<u64, (u64, u64, u64)>,
}

impl Said {
    fn take(&mut self, key: Key, data: &[u8]) {
        match key.kind {
            kind::EXTENT_ITEM | kind::METADATA_ITEM => {
                let Some(extent) = Extent::get(data) else {
                    return;
                };
                let (len, level) = match key.kind {
                    kind::EXTENT_ITEM => (key.offset, None),
                    _ => (NODE_BYTES, Some(key.offset as u8)),
                };
                self.extents.insert(key.object, (len, level, extent));
            }
            kind::BLOCK_GROUP_ITEM => {
                let used = extent::group::USED.get(data);
                let flags = extent::group::FLAGS.get(data);
                self.groups.insert(key.object, (key.offset, used, flags));
            }
            _ => {
                if let Some(found) = Ref::of_item(key, data) {
                    self.refs.entry(key.object).or_default().push(found);
                }
            }
        }
    }
}

impl<I: Image + ?Sized> Check<'_, I> {
    /// Counts what the nodes of a tree refer to.
    pub(super) fn refer_from(&mut self, tree: u64, start: Start) {
        self.met
            .refer(start.bytenr, NODE_BYTES, Some(start.level), Ref::Tree(tree));
        let mut left = vec![Self::root(start)];
        while let Some(expected) = left.pop() {
            if !self.met.counted.insert(expected.bytenr) {
                continue;
            }
            if let Some(bytes) = self.node(&expected) {
                self.refer_node(&expected, &bytes, &mut left);
            }
        }
    }

    fn refer_node(&mut self, of: &Expected, bytes: &node::Bytes, left: &mut Vec<Expected>) {
        let owner = node::owner(bytes);
        let full = self.full_nodes().contains(&of.bytenr);
        for slot in 0..node::items(bytes) {
            let (at, len, level, by) = if of.level > 0 {
                let below = Self::child(bytes, slot);
                left.push(below);
                let by = if full {
                    Ref::Node(of.bytenr)
                } else {
                    Ref::Tree(owner)
                };
                (below.bytenr, NODE_BYTES, Some(below.level), by)
            } else {
                let key = node::key(bytes, slot);
                let held = (key.kind == kind::EXTENT_DATA).then(|| piece(node::data(bytes, slot)));
                let Some(Some(Piece::Extent(part))) = held else {
                    continue;
                };
                if part.is_hole() {
                    continue;
                }
                let by = match full {
                    true => Ref::Leaf(of.bytenr),
                    false => part.owner(owner, key.object, key.offset),
                };
                (part.bytenr, part.len, None, by)
            };
            if !self.met.refer(at, len, level, by) {
                self.say(format!(
                    "what is at {at} is referred to as something else, too"
                ));
            }
        }
    }

    /// Nodes that refer to what they lead to by themselves.
    fn full_nodes(&mut self) -> std::rc::Rc<BTreeSet<u64>> {
        if let Some(known) = &self.full {
            return std::rc::Rc::clone(known);
        }
        let mut full = BTreeSet::new();
        if let Some(start) = self.extents {
            self.items(start, &mut |key, data| {
                let flags =
                    (key.kind == kind::METADATA_ITEM).then(|| extent::item::FLAGS.get(data));
                if flags.is_some_and(|flags| flags & extent::FULL_BACKREF != 0) {
                    full.insert(key.object);
                }
            });
        }
        let full = std::rc::Rc::new(full);
        self.full = Some(std::rc::Rc::clone(&full));
        full
    }

    /// Sets what was met beside what is said.
    pub(super) fn compare_space(&mut self, extents: Start, sums: Start, devices: Start) {
        let mut said = Said::default();
        self.items(extents, &mut |key, data| said.take(key, data));
        self.compare_extents(&said);
        self.compare_groups(&said);
        self.compare_devices(devices);
        self.compare_sums(sums, &said);
    }

    fn compare_extents(&mut self, said: &Said) {
        let met = std::mem::take(&mut self.met.refs);
        for (at, (len, level, by)) in &met {
            let Some((said_len, said_level, extent)) = said.extents.get(at) else {
                self.say(format!("the extent at {at} is used, and is none"));
                continue;
            };
            if (said_len, said_level) != (len, level) {
                self.say(format!("the extent at {at} is of another length or level"));
            }
            let own = said.refs.get(at).into_iter().flatten();
            let all = extent.inline.iter().chain(own);
            let mut named: BTreeMap<Ref, u64> = BTreeMap::new();
            for (by, count) in all {
                *named.entry(*by).or_default() += u64::from(*count);
            }
            let total: u64 = by.values().sum();
            if &named != by || total != extent.refs {
                self.say(format!(
                    "the extent at {at} is referred to by {by:?}, and says {named:?}, {} times",
                    extent.refs
                ));
            }
        }
        for at in said.extents.keys().filter(|at| !met.contains_key(at)) {
            self.say(format!("nobody refers to the extent at {at}"));
        }
    }

    fn compare_groups(&mut self, said: &Said) {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        let mut total = 0_u64;
        for (at, (len, level, _)) in &said.extents {
            let fits = self.space.occupy(*at, *len);
            let group = self.space.group_of(*at).map(|group| &group.chunk);
            let wanted =
                group.is_some_and(|chunk| (Use::of(chunk.flags) == Use::Data) == level.is_none());
            if let Some(start) = group.map(|chunk| chunk.start) {
                let used = used.entry(start).or_default();
                *used = len.saturating_add(*used);
            }
            total = len.saturating_add(total);
            if !fits || !wanted {
                self.say(format!(
                    "the extent at {at} overlaps another, or is in the wrong chunk"
                ));
            }
        }
        let chunks: Vec<_> = self
            .space
            .groups()
            .map(|group| group.chunk.clone())
            .collect();
        for chunk in &chunks {
            let own = used.get(&chunk.start).copied().unwrap_or(0);
            let said = said.groups.get(&chunk.start);
            if said != Some(&(chunk.len, own, chunk.flags)) {
                let start = chunk.start;
                self.say(format!(
                    "the block group at {start} has {own} bytes used, and says {said:?}"
                ));
            }
        }
        if said.groups.len() != chunks.len() {
            self.say("there are block groups without a chunk".to_owned());
        }
        if total != self.superblock.bytes_used {
            let said = self.superblock.bytes_used;
            self.say(format!(
                "{total} bytes are used, and the superblock says {said}"
            ));
        }
    }

    fn compare_devices(&mut self, devices: Start) {
        let mut said = BTreeSet::new();
        self.items(devices, &mut |key, data| {
            if key.kind == kind::DEV_EXTENT {
                let chunk = dev_extent::CHUNK.get(data);
                said.insert((key.offset, chunk, dev_extent::LEN.get(data)));
            }
        });
        let chunks = self.space.groups().map(|group| &group.chunk);
        let met: BTreeSet<(u64, u64, u64)> = chunks
            .flat_map(|chunk| {
                chunk
                    .copies
                    .iter()
                    .map(|copy| (*copy, chunk.start, chunk.len))
            })
            .collect();
        let used: u64 = met.iter().map(|(_, _, len)| len).sum();
        if said != met || used != self.superblock.device_used {
            self.say("the tree of the device says other chunks than there are".to_owned());
        }
    }

    fn compare_sums(&mut self, start: Start, said: &Said) {
        let mut items = Vec::new();
        self.items(start, &mut |key, data| {
            if key.kind == kind::EXTENT_CSUM && key.object == id::CSUMS {
                items.push((key.offset, summed(data), crate::sums::words(data)));
            }
        });
        let mut wanted = std::mem::take(&mut self.met.summed);
        let mut data = Ranges::default();
        for (at, (len, level, _)) in &said.extents {
            if level.is_none() {
                data.add(*at, *len);
            }
        }
        let mut end = 0;
        for (at, len, words) in items {
            if at < end {
                self.say(format!("sums of {at} are there twice"));
            }
            end = at + len;
            wanted.remove(at, len);
            if data.remove(at, len) != len {
                self.say(format!("there are sums of what is no extent at {at}"));
                continue;
            }
            self.verify_sums(at, &words);
        }
        if wanted.total() > 0 {
            let bytes = wanted.total();
            self.say(format!("{bytes} bytes of contents have no sums"));
        }
    }

    fn verify_sums(&mut self, at: u64, words: &[u32]) {
        for (turn, word) in words.iter().enumerate() {
            let at = at + turn as u64 * SECTOR_BYTES;
            let place = self
                .space
                .place(at)
                .and_then(|(copies, skip, _)| Some(copies.first()? + skip));
            let mut block: Block = [0; SECTOR];
            let read = place.is_some_and(|place| self.image.read(place / SECTOR_BYTES, &mut block));
            if !read || sum(&block) != *word {
                self.say(format!("the contents at {at} have another sum"));
            }
        }
    }
}
