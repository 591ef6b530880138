//! The superblock: where the trees begin, and how the file system is made.
//!
//! Invariant: a superblock that was decoded describes one device, in sectors and nodes of
//! the sizes that this crate knows, with features that it has.
//= btrfs-format 1.1

use super::node::LEVELS;
use super::tree::Chunk;
use super::{Block, Key, NODE_BYTES, SECTOR, SECTOR_BYTES, Uuid, id, kind, sum};

mod field {
    units::layout! { 4096:
        SUM: u32 = 0,
        FSID: [u8; 16] = 32,
        BYTENR: u64 = 48,
        FLAGS: u64 = 56,
        MAGIC: [u8; 8] = 64,
        GENERATION: u64 = 72,
        ROOT: u64 = 80,
        CHUNK_ROOT: u64 = 88,
        LOG_ROOT: u64 = 96,
        TOTAL_BYTES: u64 = 112,
        BYTES_USED: u64 = 120,
        ROOT_DIR: u64 = 128,
        DEVICES: u64 = 136,
        SECTOR_SIZE: u32 = 144,
        NODE_SIZE: u32 = 148,
        LEAF_SIZE: u32 = 152,
        STRIPE_SIZE: u32 = 156,
        SYS_ARRAY_SIZE: u32 = 160,
        CHUNK_ROOT_GENERATION: u64 = 164,
        COMPAT: u64 = 172,
        COMPAT_RO: u64 = 180,
        INCOMPAT: u64 = 188,
        SUM_KIND: u16 = 196,
        ROOT_LEVEL: u8 = 198,
        CHUNK_ROOT_LEVEL: u8 = 199,
        LOG_ROOT_LEVEL: u8 = 200,
        LABEL: [u8; 256] = 299,
        CACHE_GENERATION: u64 = 555,
        UUID_TREE_GENERATION: u64 = 563,
    }
    /// Offset of the copy of the device's item.
    pub(super) const DEVICE: usize = 201;
    /// Offset of the chunks that hold the chunk tree, each with its key.
    pub(super) const SYS_ARRAY: usize = 811;
    /// Offset of the last four states.
    pub(super) const BACKUPS: usize = 2_859;
}

/// The item of the device.
mod device {
    units::layout! { 98:
        NUMBER: u64 = 0,
        TOTAL_BYTES: u64 = 8,
        BYTES_USED: u64 = 16,
        IO_ALIGN: u32 = 24,
        IO_WIDTH: u32 = 28,
        SECTOR_SIZE: u32 = 32,
        UUID: [u8; 16] = 66,
        FSID: [u8; 16] = 82,
    }
}

/// A state of the file system.
mod backup {
    units::layout! { 168:
        TOTAL_BYTES: u64 = 96,
        BYTES_USED: u64 = 104,
        DEVICES: u64 = 112,
        LEVELS: [u8; 6] = 152,
    }
    pub(super) const SIZE: usize = 168;
}

/// Bytes of the item of a device.
pub(crate) const DEVICE: usize = 98;
/// Addresses of the superblock's copies; copies beyond the end of the device are omitted.
pub(crate) const PLACES: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
/// Bytes around each of them that nothing else may be in.
pub(crate) const KEPT: u64 = 64 << 10;
const MAGIC: &[u8; 8] = b"_BHRfS_M";
/// Bytes for chunks of nodes of the chunk tree.
const SYS_ARRAY: usize = 2_048;

/// References by trees and by nodes; large nodes are none of it where they are as large as a page;
/// names in items of their own; extents of nodes without their size; no items for holes.
const FEATURES: u64 = MIXED_BACKREF | EXTENDED_REF | SKINNY | NO_HOLES;
const MIXED_BACKREF: u64 = 1;
const EXTENDED_REF: u64 = 1 << 6;
const SKINNY: u64 = 1 << 8;
const NO_HOLES: u64 = 1 << 9;
/// Another default subvolume, and nodes larger than a page, which change nothing here.
const HARMLESS: u64 = 1 << 1 | 1 << 5;

/// Why a superblock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperError {
    /// It could not be read.
    #[error("no superblock could be read")]
    Unread,
    /// The sectors hold no superblock of Btrfs.
    #[error("there is no superblock of Btrfs")]
    Magic,
    /// The checksum does not match the contents.
    #[error("the superblock has another sum than it says")]
    Sum,
    /// A field of it makes no sense.
    #[error("the superblock has a senseless {0}")]
    Field(&'static str),
    /// It has a feature that is not known here, or lacks one that is needed.
    #[error("the file system has features {0:#x}, and only those of {FEATURES:#x} are built")]
    Features(u64),
    /// It can be read, but not written.
    #[error("the file system keeps {0}, which nothing here would keep up")]
    ReadOnly(&'static str),
}

/// Root node of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) bytenr: u64,
    pub(crate) generation: u64,
    pub(crate) level: u8,
}

/// A state of the file system: roots, chunks, extents, files, devices and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) starts: [Start; 6],
    pub(crate) bytes_used: u64,
}

/// Decoded fields of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) fsid: Uuid,
    pub(crate) device: Uuid,
    pub(crate) generation: u64,
    pub(crate) root: Start,
    pub(crate) chunk_root: Start,
    /// The tree of roots of logs; its generation is the next one.
    pub(crate) log_root: Option<Start>,
    pub(crate) total_bytes: u64,
    pub(crate) bytes_used: u64,
    pub(crate) device_used: u64,
    /// Features besides those that are always there.
    pub(crate) more_features: u64,
    pub(crate) label: Vec<u8>,
    pub(crate) uuid_tree_generation: u64,
    /// Chunks of nodes of the chunk tree.
    pub(crate) system: Vec<Chunk>,
    /// The last states, by generation.
    pub(crate) backups: [State; 4],
}

impl Superblock {
    /// Its bytes for the place `at`.
    pub(crate) fn encode(&self, at: u64) -> Box<Block> {
        let mut out = Box::new([0; SECTOR]);
        let bytes = &mut out[..];
        field::FSID.put(bytes, self.fsid);
        field::BYTENR.put(bytes, at);
        field::FLAGS.put(bytes, 1);
        field::MAGIC.put(bytes, *MAGIC);
        field::GENERATION.put(bytes, self.generation);
        field::ROOT.put(bytes, self.root.bytenr);
        field::CHUNK_ROOT.put(bytes, self.chunk_root.bytenr);
        field::TOTAL_BYTES.put(bytes, self.total_bytes);
        field::BYTES_USED.put(bytes, self.bytes_used);
        field::ROOT_DIR.put(bytes, id::ROOT_DIR);
        field::DEVICES.put(bytes, 1);
        field::SECTOR_SIZE.put(bytes, SECTOR as u32);
        field::NODE_SIZE.put(bytes, NODE_BYTES as u32);
        field::LEAF_SIZE.put(bytes, NODE_BYTES as u32);
        field::STRIPE_SIZE.put(bytes, SECTOR as u32);
        field::CHUNK_ROOT_GENERATION.put(bytes, self.chunk_root.generation);
        field::INCOMPAT.put(bytes, FEATURES | self.more_features);
        field::ROOT_LEVEL.put(bytes, self.root.level);
        field::CHUNK_ROOT_LEVEL.put(bytes, self.chunk_root.level);
        if let Some(log) = self.log_root {
            field::LOG_ROOT.put(bytes, log.bytenr);
            field::LOG_ROOT_LEVEL.put(bytes, log.level);
        }
        let len = self.label.len().min(255);
        let mut label = [0; 256];
        label[..len].copy_from_slice(&self.label[..len]);
        field::LABEL.put(bytes, label);
        field::CACHE_GENERATION.put(bytes, u64::MAX);
        field::UUID_TREE_GENERATION.put(bytes, self.uuid_tree_generation);
        self.put_parts(bytes);
        let sum = sum(&bytes[32..]);
        field::SUM.put(bytes, sum);
        out
    }

    fn put_parts(&self, bytes: &mut [u8]) {
        bytes[field::DEVICE..][..DEVICE].copy_from_slice(&self.device_item());
        let mut at = field::SYS_ARRAY;
        for chunk in &self.system {
            chunk.key().put(&mut bytes[at..]);
            let item = chunk.item(self.device);
            bytes[at + Key::BYTES..][..item.len()].copy_from_slice(&item);
            at += Key::BYTES + item.len();
        }
        field::SYS_ARRAY_SIZE.put(bytes, (at - field::SYS_ARRAY) as u32);
        for (turn, state) in self.backups.iter().enumerate() {
            let out = &mut bytes[field::BACKUPS + turn * backup::SIZE..][..backup::SIZE];
            if state.starts[0].bytenr == 0 {
                continue;
            }
            for (tree, start) in state.starts.iter().enumerate() {
                out[tree * 16..][..8].copy_from_slice(&start.bytenr.to_le_bytes());
                out[tree * 16 + 8..][..8].copy_from_slice(&start.generation.to_le_bytes());
            }
            backup::TOTAL_BYTES.put(out, self.total_bytes);
            backup::BYTES_USED.put(out, state.bytes_used);
            backup::DEVICES.put(out, 1);
            backup::LEVELS.put(out, state.starts.map(|start| start.level));
        }
    }

    /// The item of the device.
    pub(crate) fn device_item(&self) -> [u8; DEVICE] {
        let mut bytes = [0; DEVICE];
        let out = &mut bytes[..];
        device::NUMBER.put(out, id::DEVICE);
        device::TOTAL_BYTES.put(out, self.total_bytes);
        device::BYTES_USED.put(out, self.device_used);
        device::IO_ALIGN.put(out, SECTOR as u32);
        device::IO_WIDTH.put(out, SECTOR as u32);
        device::SECTOR_SIZE.put(out, SECTOR as u32);
        device::UUID.put(out, self.device);
        device::FSID.put(out, self.fsid);
        bytes
    }

    /// Decodes what was at the place `at` of a medium of `size` bytes.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn decode(bytes: &Block, at: u64, size: u64) -> Result<Self, SuperError> {
        let bytes = &bytes[..];
        if field::MAGIC.get(bytes) != *MAGIC {
            return Err(SuperError::Magic);
        }
        if field::SUM_KIND.get(bytes) != 0 {
            return Err(SuperError::Field("kind of sums"));
        }
        if field::SUM.get(bytes) != sum(&bytes[32..]) {
            return Err(SuperError::Sum);
        }
        Self::ensure_shape(bytes, at, size)?;
        let item = &bytes[field::DEVICE..][..DEVICE];
        let start = |bytenr, generation, level| Start {
            bytenr,
            generation,
            level,
        };
        let generation = field::GENERATION.get(bytes);
        let log = field::LOG_ROOT.get(bytes);
        let log = start(log, generation + 1, field::LOG_ROOT_LEVEL.get(bytes));
        let label = field::LABEL.get(bytes);
        Ok(Self {
            fsid: field::FSID.get(bytes),
            device: device::UUID.get(item),
            generation,
            root: start(
                field::ROOT.get(bytes),
                generation,
                field::ROOT_LEVEL.get(bytes),
            ),
            chunk_root: start(
                field::CHUNK_ROOT.get(bytes),
                field::CHUNK_ROOT_GENERATION.get(bytes),
                field::CHUNK_ROOT_LEVEL.get(bytes),
            ),
            log_root: (log.bytenr != 0).then_some(log),
            total_bytes: field::TOTAL_BYTES.get(bytes),
            bytes_used: field::BYTES_USED.get(bytes),
            device_used: device::BYTES_USED.get(item),
            more_features: field::INCOMPAT.get(bytes) & HARMLESS,
            label: label
                .split(|&byte| byte == 0)
                .next()
                .unwrap_or(&[])
                .to_vec(),
            uuid_tree_generation: field::UUID_TREE_GENERATION.get(bytes),
            system: Self::system(bytes)?,
            backups: std::array::from_fn(|turn| Self::backup(bytes, turn)),
        })
    }

    fn ensure_shape(bytes: &[u8], at: u64, size: u64) -> Result<(), SuperError> {
        let ensure = |holds, what| {
            if holds {
                Ok(())
            } else {
                Err(SuperError::Field(what))
            }
        };
        ensure(field::BYTENR.get(bytes) == at, "address of its own")?;
        let sectors = field::SECTOR_SIZE.get(bytes) == SECTOR as u32;
        ensure(sectors, "size of sectors: 4096 is built")?;
        let nodes = u64::from(field::NODE_SIZE.get(bytes)) == NODE_BYTES;
        ensure(nodes, "size of nodes: 16384 is built")?;
        ensure(
            field::DEVICES.get(bytes) == 1,
            "number of devices: 1 is built",
        )?;
        let total = field::TOTAL_BYTES.get(bytes);
        ensure(total <= size, "size, larger than its medium")?;
        let item = &bytes[field::DEVICE..][..DEVICE];
        let alone = device::TOTAL_BYTES.get(item) == total && device::NUMBER.get(item) == 1;
        ensure(alone, "device")?;
        let generation = field::GENERATION.get(bytes);
        ensure(generation < u64::MAX >> 1, "generation")?;
        let starts = [field::ROOT.get(bytes), field::CHUNK_ROOT.get(bytes)];
        let aligned = |start: &u64| *start > 0 && start.is_multiple_of(SECTOR_BYTES);
        ensure(starts.iter().all(aligned), "address of a tree")?;
        let levels = [
            field::ROOT_LEVEL.get(bytes),
            field::CHUNK_ROOT_LEVEL.get(bytes),
            field::LOG_ROOT_LEVEL.get(bytes),
        ];
        let built = |level: &u8| usize::from(*level) < LEVELS;
        ensure(levels.iter().all(built), "level of a tree")?;
        let features = field::INCOMPAT.get(bytes);
        if features & !HARMLESS != FEATURES {
            return Err(SuperError::Features(features));
        }
        match field::COMPAT_RO.get(bytes) {
            0 => Ok(()),
            ro if ro & 3 == ro => Err(SuperError::ReadOnly("a free space tree")),
            _ => Err(SuperError::ReadOnly("what is not known here")),
        }
    }

    fn system(bytes: &[u8]) -> Result<Vec<Chunk>, SuperError> {
        let len = field::SYS_ARRAY_SIZE.get(bytes) as usize;
        let damaged = || SuperError::Field("chunk");
        let mut left = bytes[field::SYS_ARRAY..][..SYS_ARRAY]
            .get(..len)
            .ok_or_else(damaged)?;
        let mut found = Vec::new();
        while !left.is_empty() {
            let (key, rest) = left.split_at_checked(Key::BYTES).ok_or_else(damaged)?;
            let key = Key::get(key);
            let len = Chunk::item_len(rest).ok_or_else(damaged)?;
            let (item, rest) = rest.split_at_checked(len).ok_or_else(damaged)?;
            if key.kind != kind::CHUNK_ITEM {
                return Err(damaged());
            }
            found.push(Chunk::get(key.offset, item).ok_or_else(damaged)?);
            left = rest;
        }
        Ok(found)
    }

    fn backup(bytes: &[u8], turn: usize) -> State {
        let bytes = &bytes[field::BACKUPS + turn * backup::SIZE..][..backup::SIZE];
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let levels = backup::LEVELS.get(bytes);
        State {
            starts: std::array::from_fn(|tree| Start {
                bytenr: word(tree * 16),
                generation: word(tree * 16 + 8),
                level: levels[tree],
            }),
            bytes_used: backup::BYTES_USED.get(bytes),
        }
    }

    /// The places of superblocks on the device.
    pub(crate) fn places(total_bytes: u64) -> impl Iterator<Item = u64> {
        let fits = move |at: &u64| at + SECTOR_BYTES <= total_bytes;
        PLACES.into_iter().filter(fits)
    }
}
