//! [`mkfs`]: a pure function from a plan to the blocks of an empty file system.
//!
//! Invariant: the blocks depend on nothing but the plan. Every block that the first checkpoint
//! leads to is among them, so earlier contents of the medium do not matter.

use crate::format::checkpoint::{COMPACT, CRC_RECOVERY, Head, LogAt, UMOUNT};
use crate::format::nat::{self, NatEntry};
use crate::format::sit::SitEntry;
use crate::format::summary::{self, Owner};
use crate::format::superblock::{Geometry, ROOT};
use crate::format::{BLOCK, Block, SEG_BLOCKS, blank, crc, dentry, node, set_high_bit};
use crate::inplace::runs;
use crate::persist::{Log, Table};
use crate::turns::place;
use host::{BlockPort, Disk, Purpose, Who};
use sim::Boxed;
use ssd::{Content, IoError};
use std::collections::BTreeMap;
use units::{Extent, Origin, Placement, SECTOR};
use vfs::{Attr, FileKind, Timestamp};

/// Blocks with their contents, by number.
pub type Blocks = BTreeMap<u64, Box<Block>>;

/// Fixed starts of areas, in blocks and multiples of 512, for media that restrict them (zones).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// First block of the checkpoint area.
    pub first: u32,
    /// First block of the main area.
    pub main: u32,
}

/// Plan of a file system, the input of [`mkfs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of the medium in blocks of 4,096 bytes.
    pub blocks: u64,
    /// UUID of the file system. The version of the first checkpoint is a checksum of it and `now`.
    pub uuid: [u8; 16],
    /// Creation time, which becomes each timestamp of the root directory.
    pub now: Timestamp,
    /// Label, up to 512 code units of UTF-16.
    pub label: String,
    /// Segments in a section, the unit that cleaning frees; `mkfs.f2fs` defaults to 1.
    pub segs_per_sec: u32,
    /// Sections in a zone; each log starts in another zone. `mkfs.f2fs` defaults to 1.
    pub secs_per_zone: u32,
    /// Over-provisioning in hundredths of a percent of the main area without its reserved
    /// sections; `None` chooses the value that leaves files the most space.
    pub overprovision: Option<u32>,
    /// Endings of the names of files with cold contents: up to 64, of 1 to 8 bytes each.
    pub cold: Vec<Vec<u8>>,
    /// Starts of the areas; `None` places them as `mkfs.f2fs` does.
    pub areas: Option<Areas>,
    /// Sections reserved for cleaning; `None` computes their number as `mkfs.f2fs` does.
    pub reserved_sections: Option<u32>,
}

impl MkfsOptions {
    /// Defaults of `mkfs.f2fs` for a medium of `blocks` blocks, but with a fixed UUID, time 0 and
    /// no endings.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Self {
            blocks,
            uuid: *b"\x1f\x1a\x55\x10\x00\x00\x40\x00\x80\x00f2fs\x00\x01",
            now: Timestamp::default(),
            label: String::new(),
            segs_per_sec: 1,
            secs_per_zone: 1,
            overprovision: None,
            cold: Vec::new(),
            areas: None,
            reserved_sections: None,
        }
    }
}

/// Errors of [`mkfs`] and [`format()`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MkfsError {
    /// Files would have at most six zones, or no more than is reserved for cleaning.
    #[error(
        "{blocks} blocks of 4096 bytes are too few for a file system: {zones} zones are left for \
         files, and more than 6 zones and more than is reserved for cleaning are needed"
    )]
    TooSmall {
        /// Blocks of the medium.
        blocks: u64,
        /// Zones that files would have.
        zones: u32,
    },
    /// Block addresses exceed 32 bits, or the bitmap of the SIT exceeds a checkpoint's head.
    #[error("{0} blocks of 4096 bytes are too many: up to about 3 TiB are supported")]
    TooLarge(u64),
    /// The capacity of a zone, here in bytes, is less than a segment.
    #[error("zones that hold {0} bytes are too small: a segment of 2 MiB has to fit")]
    Zones(u64),
    /// The tables do not fit before the main area.
    #[error(
        "the tables of the file system take {wanted} segments of 2 MiB, and there is room for \
         {room}: expected a larger drive or more conventional zones"
    )]
    Tables {
        /// Segments that the tables take.
        wanted: u64,
        /// Segments that there are for them.
        room: u64,
    },
    /// Segments per section, or sections per zone, are out of range.
    #[error("{0} segments to a section and {1} sections to a zone: 1 to 4096 each are possible")]
    Shape(u32, u32),
    /// The over-provisioning, in hundredths of a percent, is out of range.
    #[error("{0} hundredths of a percent cannot be kept from files: 1 to 9500 are possible")]
    Overprovision(u32),
    /// The label is too long.
    #[error("the label is longer than 512 units of UTF-16")]
    Label,
    /// More than 64 endings, or one that is empty or longer than 8 bytes.
    #[error("up to 64 endings of 1 to 8 bytes are possible")]
    Endings,
    /// A command to the drive failed; the medium may be half written.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
}

/// Numbers of segments that files cannot use: `reserved` for cleaning, and `all` in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) reserved: u32,
    pub(crate) all: u32,
}

/// Segments that cleaning needs at an over-provisioning of `hundredths` of a percent: in the
/// worst case only this share of each victim is free. Includes a section for each log.
fn reserved(hundredths: u32, segs_per_sec: u32) -> u32 {
    let (share, each) = (u64::from(hundredths), u64::from(segs_per_sec));
    ((20_000 + 8 * share) * each / share).min(u64::from(u32::MAX)) as u32
}

/// Over-provisioning in hundredths of a percent that leaves files the most space. f2fs-tools
/// tries 10 % to 95 % in steps of 5 % below 256 segments, else 0.01 % to 10 % in hundredths.
//= f2fs-tools 1
fn best_share(main: u32, segs_per_sec: u32) -> Option<u32> {
    let shares = match main {
        0..256 => (1000..=9500).step_by(500),
        _ => (1..=1000).step_by(1),
    };
    // Usable space times the share; the comparison below multiplies by the other share.
    let space = |share: i128| {
        let reserved = (20_000 + 8 * share) * i128::from(segs_per_sec);
        (i128::from(main) * share - reserved) * (10_000 - share)
    };
    let better = |best: Option<u32>, share: u32| {
        let (most, by) = best.map_or((0, 1), |b| (space(i128::from(b)), i128::from(b)));
        let here = space(i128::from(share));
        if here * by > most * i128::from(share) {
            Some(share)
        } else {
            best
        }
    };
    shares.fold(None, better)
}

/// Segments of `main` that files cannot use, with `sections` reserved sections if given; `None`
/// if no segment is left for files.
pub(crate) fn kept(
    main: u32,
    segs_per_sec: u32,
    share: Option<u32>,
    sections: Option<u32>,
) -> Option<Kept> {
    let share = match share {
        Some(share) => share,
        None => best_share(main, segs_per_sec)?,
    };
    let reserved = match sections {
        Some(sections) => sections.checked_mul(segs_per_sec)?,
        None => reserved(share, segs_per_sec),
    };
    let rest = main.checked_sub(2)?.checked_sub(reserved)? + 2;
    let all = reserved + (u64::from(rest) * u64::from(share) / 10_000) as u32;
    (all < main).then_some(Kept { reserved, all })
}

fn check(options: &MkfsOptions) -> Result<(), MkfsError> {
    let (segs, secs) = (options.segs_per_sec, options.secs_per_zone);
    if !(1..=4096).contains(&segs) || !(1..=4096).contains(&secs) {
        return Err(MkfsError::Shape(segs, secs));
    }
    if options.label.encode_utf16().count() > 512 {
        return Err(MkfsError::Label);
    }
    let is_ending = |ending: &Vec<u8>| (1..=8).contains(&ending.len());
    if options.cold.len() > 64 || !options.cold.iter().all(is_ending) {
        return Err(MkfsError::Endings);
    }
    match options.overprovision {
        Some(share) if !(1..=9500).contains(&share) => Err(MkfsError::Overprovision(share)),
        _ => Ok(()),
    }
}

/// Segments of one copy of the SIT, of one copy of the NAT, and of the summary area.
struct TableSizes {
    sit: u64,
    nat: u64,
    ssa: u64,
}

impl TableSizes {
    /// Sizes of the tables for a main area of `segments` segments.
    fn of_main(segments: u64) -> Self {
        let sit = sit_segments(segments);
        Self {
            sit,
            nat: nat_segments(segments, sit),
            ssa: segments.div_ceil(SEG),
        }
    }

    /// Segments before the summary area: two checkpoint packs, and both copies of SIT and NAT.
    const fn before_summaries(&self) -> u64 {
        2 + 2 * self.sit + 2 * self.nat
    }
}

/// Blocks of a segment.
const SEG: u64 = SEG_BLOCKS as u64;

/// Segments of one copy of the SIT for `segments` segments, at 55 entries a block.
const fn sit_segments(segments: u64) -> u64 {
    segments.div_ceil(55).div_ceil(SEG)
}

/// Segments of one copy of the NAT for `segments` segments: 455 entries a block and an entry
/// for each block, limited by the room for its bitmap beside that of the SIT in a checkpoint.
fn nat_segments(segments: u64, sit: u64) -> u64 {
    let most = (4092 - 192_u64).saturating_sub(sit * 64) * 8 / SEG;
    (segments * SEG).div_ceil(455).div_ceil(SEG).min(most)
}

/// Segments that checkpoints and tables take for a main area of `main` segments.
#[must_use]
pub fn table_segments(main: u64) -> u64 {
    let sizes = TableSizes::of_main(main);
    sizes.before_summaries() + sizes.ssa
}

fn too_small(options: &MkfsOptions, zones: u64) -> MkfsError {
    MkfsError::TooSmall {
        blocks: options.blocks,
        zones: zones as u32,
    }
}

/// Segments of one copy of the SIT; [`MkfsError::TooLarge`] if its bitmap exceeds a checkpoint.
fn sit_of(options: &MkfsOptions, segments: u64) -> Result<u64, MkfsError> {
    let sit = sit_segments(segments);
    if sit * 64 + 192 + 64 > 4092 || options.blocks > u64::from(u32::MAX) {
        return Err(MkfsError::TooLarge(options.blocks));
    }
    Ok(sit)
}

/// Sizes of the tables, which fill the space between `areas`, and zones of the main area.
fn sizes_between(options: &MkfsOptions, areas: Areas) -> Result<(TableSizes, u64), MkfsError> {
    let per_zone = u64::from(options.segs_per_sec * options.secs_per_zone);
    let main = u64::from(areas.main);
    let zones = options.blocks.saturating_sub(main) / SEG / per_zone;
    sit_of(options, zones * per_zone)?;
    let mut sizes = TableSizes::of_main(zones * per_zone);
    let room = main.saturating_sub(u64::from(areas.first)) / SEG;
    let wanted = sizes.before_summaries() + sizes.ssa;
    if wanted > room {
        return Err(MkfsError::Tables { wanted, room });
    }
    sizes.ssa = room - sizes.before_summaries();
    Ok((sizes, zones))
}

/// Sizes of the tables from block `first` on, padded to a zone, and zones of the main area.
fn sizes_anywhere(options: &MkfsOptions, first: u64) -> Result<(TableSizes, u64), MkfsError> {
    let per_zone = u64::from(options.segs_per_sec * options.secs_per_zone);
    let none = || too_small(options, 0);
    let segments = options.blocks.saturating_sub(first) / SEG / per_zone * per_zone;
    let sit = sit_of(options, segments)?;
    let rest = segments.checked_sub(2 + 2 * sit).ok_or_else(none)?;
    let nat = nat_segments(rest, sit);
    let rest = rest.checked_sub(2 * nat).ok_or_else(none)?;
    let tables = 2 + 2 * sit + 2 * nat;
    let ssa = (tables + (rest + 1).div_ceil(SEG)).next_multiple_of(per_zone) - tables;
    let zones = (segments / per_zone).saturating_sub((tables + ssa) / per_zone);
    Ok((TableSizes { sit, nat, ssa }, zones))
}

/// Computes the place of each area with the arithmetic of `mkfs.f2fs`.
//= f2fs-tools 1
fn plan(options: &MkfsOptions) -> Result<Geometry, MkfsError> {
    let per_zone = u64::from(options.segs_per_sec * options.secs_per_zone);
    let first = match options.areas {
        Some(areas) => u64::from(areas.first),
        None => 2_u64.next_multiple_of(per_zone * SEG),
    };
    let (sizes, zones) = match options.areas {
        Some(areas) => sizes_between(options, areas)?,
        None => sizes_anywhere(options, first)?,
    };
    if zones <= 6 {
        return Err(too_small(options, zones));
    }
    let before = sizes.before_summaries();
    let main = zones * per_zone;
    let at = |segments: u64| (first + segments * SEG) as u32;
    Ok(Geometry {
        blocks: options.blocks,
        segs_per_sec: options.segs_per_sec,
        secs_per_zone: options.secs_per_zone,
        segments: (before + sizes.ssa + main) as u32,
        segment0: at(0),
        cp: at(0),
        sit: at(2),
        nat: at(2 + 2 * sizes.sit),
        ssa: at(before),
        main: at(before + sizes.ssa),
        sit_segments: 2 * sizes.sit as u32,
        nat_segments: 2 * sizes.nat as u32,
        ssa_segments: sizes.ssa as u32,
        main_segments: main as u32,
        uuid: options.uuid,
        cold: options.cold.clone(),
    })
}

/// First segment of each log. Node logs and hot data start in zones 0 to 3, cold data near a
/// quarter of the main area and warm data near its middle, so that each has room behind it.
fn first_segments(geometry: &Geometry) -> [u32; 6] {
    let per_zone = geometry.segs_per_sec * geometry.secs_per_zone;
    let zones = geometry.main_segments / per_zone;
    let cold = (zones / 4).saturating_sub(1).max(4);
    let warm = (zones / 2).saturating_sub(1).max(cold + 1);
    [3, warm, cold, 0, 1, 2].map(|zone| zone * per_zone)
}

/// Inode of the root directory for the block at `addr`; its entries are in the block at `data`.
fn root(options: &MkfsOptions, addr: u32, data: u32) -> Box<Block> {
    let mut inode = node::fresh(ROOT, ROOT, 0);
    let bytes = &mut inode;
    node::set_attr(
        bytes,
        &Attr {
            kind: FileKind::Directory,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: BLOCK as u64,
            sectors: 0,
            atime: options.now,
            mtime: options.now,
            ctime: options.now,
            btime: options.now,
            generation: 0,
        },
    );
    node::SIZE.put(&mut bytes[..], BLOCK as u64);
    node::BLOCKS.put(&mut bytes[..], 2);
    node::DEPTH.put(&mut bytes[..], 1);
    node::PARENT.put(&mut bytes[..], ROOT);
    node::set_addr(bytes, 0, data);
    node::STAMP.put(&mut bytes[..], 1);
    node::NEXT.put(&mut bytes[..], addr + 1);
    inode
}

fn root_entries() -> Box<Block> {
    let mut block = blank();
    let kind = FileKind::Directory;
    dentry::IN_BLOCK.put(&mut block[..], 0, b".", ROOT, kind);
    dentry::IN_BLOCK.put(&mut block[..], 1, b"..", ROOT, kind);
    block
}

/// Computes the blocks of a new file system.
///
/// # Errors
/// The [`MkfsError`] of the first option that is out of range or does not fit the medium.
pub fn mkfs(options: &MkfsOptions) -> Result<Blocks, MkfsError> {
    check(options)?;
    let geometry = plan(options)?;
    let main = geometry.main_segments;
    let (share, sections) = (options.overprovision, options.reserved_sections);
    let kept = kept(main, geometry.segs_per_sec, share, sections);
    let kept = kept.ok_or(MkfsError::TooSmall {
        blocks: options.blocks,
        zones: main / (geometry.segs_per_sec * geometry.secs_per_zone),
    })?;
    let segments = first_segments(&geometry);
    let mut blocks = Blocks::new();
    for at in 0..2 {
        blocks.insert(at, geometry.encode(&options.label));
    }
    for index in 0..geometry.sit_blocks() {
        let at = place(&geometry, Table::Sit(index), false);
        blocks.insert(u64::from(at), blank());
    }
    for index in 0..geometry.nat_blocks() {
        let at = place(&geometry, Table::Nat(index), false);
        blocks.insert(u64::from(at), blank());
    }
    let addr = geometry.addr_of(segments[Log::HotNode as usize], 0);
    let data = geometry.addr_of(segments[Log::HotData as usize], 0);
    blocks.insert(u64::from(addr), root(options, addr, data));
    blocks.insert(u64::from(data), root_entries());
    let entry = |ino: u32, addr: u32| NatEntry {
        version: 0,
        ino,
        addr,
    };
    let first = [entry(0, 0), entry(1, 1), entry(2, 1), entry(ROOT, addr)];
    let at = place(&geometry, Table::Nat(0), false);
    blocks.insert(u64::from(at), nat::encode(&first));
    insert_packs(&mut blocks, &geometry, options, kept, segments);
    Ok(blocks)
}

/// Adds the first checkpoint, and in the other place a head of version 0, older than any other.
fn insert_packs(
    blocks: &mut Blocks,
    geometry: &Geometry,
    options: &MkfsOptions,
    kept: Kept,
    segments: [u32; 6],
) {
    let mut head = head(geometry, options, kept, segments);
    let start = u64::from(geometry.cp);
    for (at, block) in (start + 1..).zip(summaries(segments)) {
        blocks.insert(at, block);
    }
    for (start, version) in [(start, head.version), (start + u64::from(SEG_BLOCKS), 0)] {
        head.version = version;
        blocks.insert(start, head.encode());
        blocks.insert(start + 5, head.encode());
    }
}

/// Whether the new file system has a block in `log`: the root's inode, or its entries.
const fn has_block(log: Log) -> bool {
    matches!(log, Log::HotData | Log::HotNode)
}

fn head(geometry: &Geometry, options: &MkfsOptions, kept: Kept, segments: [u32; 6]) -> Head {
    let logs = Log::ALL.map(|log| LogAt {
        segment: segments[log as usize],
        at: u16::from(has_block(log)),
        fills: false,
    });
    let files = geometry.main_segments - kept.all;
    let identity = [&options.uuid[..], &options.now.secs.to_le_bytes()].concat();
    Head {
        // Nodes of an earlier file system carry another version, so recovery skips them.
        version: u64::from(crc(&identity) & 0x7FFF_FFFF | 1),
        user_blocks: u64::from(files) * u64::from(SEG_BLOCKS),
        valid_blocks: 2,
        reserved_segments: kept.reserved,
        overprovision: kept.all,
        free_segments: geometry.main_segments - 6,
        logs,
        flags: UMOUNT | COMPACT | CRC_RECOVERY,
        pack_blocks: 6,
        summaries_at: 1,
        valid_nodes: 1,
        valid_inodes: 1,
        next_nid: ROOT + 1,
        elapsed: 0,
        sit_bitmap: vec![0; geometry.sit_segments as usize / 2 * 64],
        nat_bitmap: vec![0; geometry.nat_segments as usize / 2 * 64],
    }
}

/// Blocks between the heads of the first pack: a compact summary, then one of each node log.
fn summaries(segments: [u32; 6]) -> Vec<Box<Block>> {
    let sits = Log::ALL.map(|log| {
        let mut entry = SitEntry {
            log: log as u8,
            ..SitEntry::default()
        };
        if has_block(log) {
            entry.valid = 1;
            set_high_bit(&mut entry.map, 0, true);
        }
        (segments[log as usize], entry)
    });
    let sits = summary::sit_journal(sits.iter().map(|(segment, entry)| (*segment, entry)));
    let mut owners = summary::nobody();
    owners[0] = Owner {
        nid: ROOT,
        version: 0,
        at: 0,
    };
    let nobody = summary::nobody();
    let data = [(&owners, 1), (&nobody, 0), (&nobody, 0)];
    let compact = summary::compact(&summary::nat_journal(&[]), &sits, data);
    let mut pack = compact.unwrap_or_default();
    for owners in [&owners, &nobody, &nobody] {
        pack.push(summary::encode(owners, true, &[]));
    }
    pack
}

/// Deallocates all of `port`, then writes and flushes a new file system.
///
/// # Errors
/// [`MkfsError::Io`] if the drive failed; otherwise the option that does not fit the medium.
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
    let sectors = BLOCK as u64 / SECTOR;
    let who = Who {
        origin: Origin(0),
        purpose: Purpose::Metadata,
    };
    for (at, run) in runs(blocks.iter().map(|(at, block)| (*at as u32, block))) {
        for (index, part) in run.chunks(256).enumerate() {
            let bytes: Vec<u8> = part.iter().flat_map(|b| b.iter()).copied().collect();
            let first = (u64::from(at) + index as u64 * 256) * sectors;
            let extent = Extent::new(first, (part.len() as u64 * sectors) as u32);
            let content = Content::Bytes(&bytes);
            port.write(extent, content, Placement(0), who, false)
                .await?;
        }
    }
    Ok(port.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_segments_equal_those_of_f2fs_tools() {
        // Printed by mkfs.f2fs 1.15 for 64 MiB and 1 GiB.
        let printed = |reserved, all| Some(Kept { reserved, all });
        assert_eq!(kept(24, 1, None, None), printed(13, 16));
        assert_eq!(best_share(24, 1), Some(3500));
        assert_eq!(best_share(502, 1), Some(636));
        assert_eq!(kept(502, 1, None, None), printed(39, 68));
        assert_eq!(kept(7, 1, None, None), None);
    }

    #[test]
    fn mkfs_options_out_of_range_are_refused() {
        let made = |change: fn(&mut MkfsOptions)| {
            let mut options = MkfsOptions::new(16_384);
            change(&mut options);
            mkfs(&options).map(|blocks| blocks.len())
        };
        assert!(made(|_| ()).is_ok());
        assert!(matches!(
            made(|o| o.blocks = 3000),
            Err(MkfsError::TooSmall { .. })
        ));
        assert!(matches!(
            made(|o| o.blocks = 1 << 33),
            Err(MkfsError::TooLarge(_))
        ));
        assert!(matches!(
            made(|o| o.segs_per_sec = 0),
            Err(MkfsError::Shape(..))
        ));
        assert!(matches!(
            made(|o| o.overprovision = Some(0)),
            Err(MkfsError::Overprovision(0))
        ));
        assert!(matches!(
            made(|o| o.label = "x".repeat(513)),
            Err(MkfsError::Label)
        ));
        assert!(matches!(
            made(|o| o.cold = vec![vec![]]),
            Err(MkfsError::Endings)
        ));
    }
}
