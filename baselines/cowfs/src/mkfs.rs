//! Making an empty file system: a pure function from a plan to the sectors that it has.
//!
//! Invariant: the result depends on nothing but the plan, and does not depend on what was
//! on the medium: superblocks that it does not write lead to nothing newer.

use crate::chunks::chunk_len;
use crate::format::extent::{self, Extent, Ref};
use crate::format::inode::{Entry, InodeItem, NameRef, entry_key};
use crate::format::node::{self, Head};
use crate::format::superblock::{Start, State, Superblock};
use crate::format::tree::{Chunk, RootItem, dev_extent, uuid_key};
use crate::format::{Block, Key, NODE_BYTES, SECTOR, SECTOR_BYTES, Uuid, group, id, kind};
use crate::inodes::inode_key;
use crate::persist::extent as sectors_at;
use crate::space::{FIRST, Space, Use};
use host::{BlockPort, Disk, Purpose, Who};
use sim::Boxed;
use ssd::{Content, IoError};
use std::collections::BTreeMap;
use units::{Origin, Placement};
use vfs::Timestamp;

/// Sectors with their contents, by number.
pub type Blocks = BTreeMap<u64, Box<Block>>;

/// Parameters of a new file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of the medium in blocks of 4,096 bytes.
    pub blocks: u64,
    /// UUID of the file system.
    pub uuid: Uuid,
    /// Time of creation, for all timestamps.
    pub now: Timestamp,
    /// Label, up to 255 bytes.
    pub label: String,
    /// Whether there are two copies of each node. One, where the medium is flash that
    /// holds both in the same cells: that was the default of `mkfs.btrfs` for such drives
    /// until version 5.15, whose default is two everywhere.
    pub dup: bool,
}

impl MkfsOptions {
    /// The plan for a medium of `blocks` blocks, with one copy of each node.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Self {
            blocks,
            uuid: *b"\x1f\x1a\x55\x10\x00\x00\x40\x00\x80\x00btrfs\x01",
            now: Timestamp::default(),
            label: String::new(),
            dup: false,
        }
    }
}

/// Why no file system can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MkfsError {
    /// The medium is too small.
    #[error("a medium of {0} blocks is too small; expected at least {LEAST} blocks of 4096 bytes")]
    Small(u64),
    /// The label is too long.
    #[error("expected a label of up to 255 bytes, found {0}")]
    Label(usize),
    /// A write to the drive failed.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
}

/// Blocks of the smallest medium, 40 MiB, a choice of ours: chunks of 8 MiB for nodes
/// (twice, if they are there twice) and contents.
const LEAST: u64 = 10_240;
/// Bytes of the first chunk of nodes of the tree of chunks.
const SYSTEM: u64 = 4 << 20;
/// Generation of everything that mkfs writes.
const GENERATION: u64 = 1;

/// The trees of an empty file system, in the order in which their nodes lie.
const TREES: [u64; 8] = [
    id::CHUNK_TREE,
    id::ROOT_TREE,
    id::EXTENT_TREE,
    id::DEV_TREE,
    id::FS_TREE,
    id::CSUM_TREE,
    id::UUID_TREE,
    id::DATA_RELOC_TREE,
];

type Items = BTreeMap<Key, Vec<u8>>;

struct Plan<'a> {
    options: &'a MkfsOptions,
    chunks: Vec<Chunk>,
    /// Address of the root node of each of [`TREES`].
    places: Vec<u64>,
}

/// Another identity of the same file system.
fn other(uuid: Uuid, which: u8) -> Uuid {
    let mut uuid = uuid;
    uuid[15] ^= which;
    uuid[0] = uuid[0].wrapping_add(which.wrapping_mul(29));
    uuid
}

impl Plan<'_> {
    fn of(options: &MkfsOptions) -> Result<Plan<'_>, MkfsError> {
        let small = MkfsError::Small(options.blocks);
        if options.blocks < LEAST {
            return Err(small);
        }
        if options.label.len() > 255 {
            return Err(MkfsError::Label(options.label.len()));
        }
        let total = options.blocks * SECTOR_BYTES;
        let mut space = Space::new(total);
        let mut chunks = Vec::new();
        for kind in [Use::System, Use::Nodes, Use::Data] {
            let len = if kind == Use::System {
                SYSTEM
            } else {
                chunk_len(kind, total)
            };
            let dup = options.dup && kind != Use::Data;
            let chunk = space
                .plan_chunk(kind, len, dup)
                .ok_or_else(|| small.clone())?;
            space.add_chunk(chunk.clone());
            chunks.push(chunk);
        }
        let places = TREES.map(|tree| {
            let kind = if tree == id::CHUNK_TREE {
                Use::System
            } else {
                Use::Nodes
            };
            space.take_node(kind).unwrap_or(FIRST)
        });
        Ok(Plan {
            options,
            chunks,
            places: places.to_vec(),
        })
    }

    fn place(&self, tree: u64) -> u64 {
        let at = TREES.iter().position(|other| *other == tree);
        at.map_or(0, |at| self.places[at])
    }

    fn start(&self, tree: u64) -> Start {
        Start {
            bytenr: self.place(tree),
            generation: GENERATION,
            level: 0,
        }
    }

    fn superblock(&self) -> Superblock {
        let used = |chunk: &Chunk| chunk.len * chunk.copies.len() as u64;
        let mut superblock = Superblock {
            fsid: self.options.uuid,
            device: other(self.options.uuid, 1),
            generation: GENERATION,
            root: self.start(id::ROOT_TREE),
            chunk_root: self.start(id::CHUNK_TREE),
            log_root: None,
            total_bytes: self.options.blocks * SECTOR_BYTES,
            bytes_used: TREES.len() as u64 * NODE_BYTES,
            device_used: self.chunks.iter().map(used).sum(),
            more_features: 0,
            label: self.options.label.clone().into_bytes(),
            uuid_tree_generation: GENERATION,
            system: vec![self.chunks[0].clone()],
            backups: [State::default(); 4],
        };
        let trees = [
            id::ROOT_TREE,
            id::CHUNK_TREE,
            id::EXTENT_TREE,
            id::FS_TREE,
            id::DEV_TREE,
            id::CSUM_TREE,
        ];
        superblock.backups[(GENERATION % 4) as usize] = State {
            starts: trees.map(|tree| self.start(tree)),
            bytes_used: superblock.bytes_used,
        };
        superblock
    }

    fn items(&self, tree: u64) -> Items {
        match tree {
            id::CHUNK_TREE => self.chunk_items(),
            id::ROOT_TREE => self.root_items(),
            id::EXTENT_TREE => self.extent_items(),
            id::DEV_TREE => self.device_items(),
            id::FS_TREE | id::DATA_RELOC_TREE => top_items(id::FIRST_FREE, self.options.now),
            id::UUID_TREE => {
                let key = uuid_key(other(self.options.uuid, 3));
                Items::from([(key, id::FS_TREE.to_le_bytes().to_vec())])
            }
            _ => Items::new(),
        }
    }

    fn chunk_items(&self) -> Items {
        let superblock = self.superblock();
        let key = Key::new(id::DEV_ITEMS, kind::DEV_ITEM, id::DEVICE);
        let device = (key, superblock.device_item().to_vec());
        let chunks = self.chunks.iter();
        let chunks = chunks.map(|chunk| (chunk.key(), chunk.item(superblock.device)));
        chunks.chain([device]).collect()
    }

    fn device_items(&self) -> Items {
        let tree = other(self.options.uuid, 2);
        let mut items = Items::new();
        for chunk in &self.chunks {
            for copy in &chunk.copies {
                let key = Key::new(id::DEVICE, kind::DEV_EXTENT, *copy);
                let item = dev_extent::bytes(chunk.start, chunk.len, tree);
                items.insert(key, item.to_vec());
            }
        }
        items
    }

    fn root_items(&self) -> Items {
        let (options, mut items) = (self.options, Items::new());
        for tree in TREES {
            let place = self.place(tree);
            let item = match tree {
                id::ROOT_TREE | id::CHUNK_TREE => continue,
                id::FS_TREE => {
                    let uuid = other(options.uuid, 3);
                    RootItem::subvolume(place, GENERATION, uuid, options.now)
                }
                id::DATA_RELOC_TREE => {
                    RootItem::subvolume(place, GENERATION, [0; 16], Timestamp::default())
                }
                _ => RootItem::new(place, GENERATION),
            };
            let key = Key::new(tree, kind::ROOT_ITEM, 0);
            items.insert(key, item.bytes().to_vec());
        }
        // The directory that names the default subvolume.
        items.extend(top_items(id::ROOT_DIR, options.now));
        let name = b"default";
        let entry = Entry {
            location: Key::new(id::FS_TREE, kind::ROOT_ITEM, u64::MAX),
            kind: vfs::FileKind::Directory.entry_number(),
            name,
            value: b"",
        };
        items.insert(entry_key(id::ROOT_DIR, name), entry.bytes(0));
        let named = NameRef {
            parent: id::ROOT_DIR,
            index: 0,
            name,
        };
        let key = Key::new(id::FS_TREE, kind::INODE_REF, id::ROOT_DIR);
        items.insert(key, named.bytes(kind::INODE_REF));
        items
    }

    fn extent_items(&self) -> Items {
        let mut items = Items::new();
        for tree in TREES {
            let extent = Extent {
                refs: 1,
                generation: GENERATION,
                flags: extent::TREE_BLOCK,
                inline: vec![(Ref::Tree(tree), 1)],
            };
            let key = Key::new(self.place(tree), kind::METADATA_ITEM, 0);
            items.insert(key, extent.bytes());
        }
        for chunk in &self.chunks {
            let nodes = match chunk.flags & group::WHAT {
                group::SYSTEM => 1,
                group::METADATA => TREES.len() as u64 - 1,
                _ => 0,
            };
            let mut item = vec![0; extent::group::SIZE];
            extent::group::USED.put(&mut item, nodes * NODE_BYTES);
            extent::group::CHUNK_OBJECT.put(&mut item, id::CHUNKS);
            extent::group::FLAGS.put(&mut item, chunk.flags);
            let key = Key::new(chunk.start, kind::BLOCK_GROUP_ITEM, chunk.len);
            items.insert(key, item);
        }
        items
    }

    /// The node of a tree.
    fn node(&self, tree: u64) -> Box<node::Bytes> {
        let mut bytes = node::fresh(&Head {
            fsid: self.options.uuid,
            chunk_tree: other(self.options.uuid, 2),
            bytenr: self.place(tree),
            generation: GENERATION,
            owner: tree,
            level: 0,
        });
        for (slot, (key, data)) in self.items(tree).into_iter().enumerate() {
            node::insert_item(&mut bytes, slot, key, data.len());
            node::data_mut(&mut bytes, slot).copy_from_slice(&data);
        }
        node::seal(&mut bytes);
        bytes
    }

    /// Device addresses of the node at the logical address `at`.
    fn copies(&self, at: u64) -> Vec<u64> {
        let own = self
            .chunks
            .iter()
            .find(|chunk| (chunk.start..chunk.start + chunk.len).contains(&at));
        let copies = own.map(|chunk| {
            chunk
                .copies
                .iter()
                .map(|copy| copy + at - chunk.start)
                .collect()
        });
        copies.unwrap_or_default()
    }
}

/// The items of the directory at the top of a tree.
pub(crate) fn top_items(number: u64, now: Timestamp) -> Items {
    let top = InodeItem::top(GENERATION, now).bytes().to_vec();
    let name = NameRef {
        parent: number,
        index: 0,
        name: b"..",
    };
    let key = Key::new(number, kind::INODE_REF, number);
    Items::from([(inode_key(number), top), (key, name.bytes(kind::INODE_REF))])
}

/// The sectors of an empty file system, by number. Others may hold anything.
///
/// # Errors
/// What cannot be made.
//= btrfs-format 1
pub fn mkfs(options: &MkfsOptions) -> Result<Blocks, MkfsError> {
    let plan = Plan::of(options)?;
    let mut blocks = Blocks::new();
    for tree in TREES {
        let bytes = plan.node(tree);
        for copy in plan.copies(plan.place(tree)) {
            for (turn, sector) in bytes.chunks_exact(SECTOR).enumerate() {
                let sector: Block = sector.try_into().expect("chunks have this length");
                blocks.insert(copy / SECTOR_BYTES + turn as u64, Box::new(sector));
            }
        }
    }
    let superblock = plan.superblock();
    for at in Superblock::places(superblock.total_bytes) {
        blocks.insert(at / SECTOR_BYTES, superblock.encode(at));
    }
    Ok(blocks)
}

/// Makes an empty file system on `port`. All of the drive is deallocated first, as by
/// `mkfs.btrfs` without `--nodiscard`.
///
/// # Errors
/// What cannot be made, or why the drive failed.
pub fn format<'a>(
    port: &impl BlockPort,
    options: &'a MkfsOptions,
) -> Boxed<'a, Result<(), MkfsError>> {
    format_disk(Disk::from(port), options)
}

fn format_disk(port: Disk, options: &MkfsOptions) -> Boxed<'_, Result<(), MkfsError>> {
    Box::pin(async move { write_all(&port, options).await })
}

async fn write_all(port: &Disk, options: &MkfsOptions) -> Result<(), MkfsError> {
    let blocks = mkfs(options)?;
    host::deallocate(port).await?;
    let who = Who {
        origin: Origin(0),
        purpose: Purpose::Metadata,
    };
    for (at, block) in blocks {
        let place = sectors_at(at * SECTOR_BYTES, 1);
        let content = Content::Bytes(&block[..]);
        port.write(place, content, Placement(0), who, false).await?;
    }
    port.flush().await?;
    Ok(())
}
