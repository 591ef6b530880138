//! Images with fields changed by an attacker that knows the format: checksums are made to fit
//! again, counts too if so chosen, and numbers lead to existing places.

use crate::bench::{made, mounted, with_root};
use crate::hostile::survive;
use bolero::TypeGenerator;
use host::RamDisk;
use lfs::{BLOCK, Block, Geometry, MkfsOptions};
use nand::Payload;
use sim::Kernel;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use vfs::{Access, OpenFlags, Process, Source, XattrFlags};

type Contents = BTreeMap<u64, Payload>;

const BLOCKS: u64 = 13_312;

/// A number at this place of a block, which may be zeros.
fn word(contents: &Contents, block: u64, at: usize) -> u32 {
    let mut bytes = [0; 4];
    if let Some(payload) = contents.get(&block) {
        let _ = payload.copy_to(at, &mut bytes);
    }
    u32::from_le_bytes(bytes)
}

fn change(contents: &mut Contents, block: u64, edit: impl FnOnce(&mut Block)) {
    let old = contents.get(&block).unwrap_or(&Payload::Zero);
    let mut bytes = old.to_bytes();
    edit(&mut bytes);
    contents.insert(block, Payload::Bytes(Arc::new(bytes)));
}

/// Blocks of an image by what they are.
#[derive(Clone, Default)]
struct Image {
    contents: Contents,
    /// Numbers of the first and last blocks of packs, and of those between.
    heads: Vec<(u64, u64)>,
    between: Vec<u64>,
    sit: Vec<u64>,
    nat: Vec<u64>,
    summaries: Vec<u64>,
    nodes: Vec<u64>,
    entries: Vec<u64>,
}

impl Image {
    fn of(contents: Contents) -> Self {
        let mut first = [0; BLOCK];
        assert!(contents[&0].copy_to(0, &mut first));
        let geometry = Geometry::decode(&first, BLOCKS).expect("it was made");
        let area = |at: usize| u64::from(word(&contents, 0, 1024 + at));
        let (sit, nat, ssa, main) = (area(80), area(84), area(88), area(92));
        assert_eq!(main, u64::from(geometry.main()));
        let used = |range: std::ops::Range<u64>| -> Vec<u64> {
            contents.range(range).map(|(block, _)| *block).collect()
        };
        let mut image = Self {
            sit: used(sit..nat),
            nat: used(nat..ssa),
            summaries: used(ssa..main),
            ..Self::default()
        };
        for pack in geometry.checkpoints().step_by(512).map(u64::from) {
            let len = u64::from(word(&contents, pack, 136));
            if (3..512).contains(&len) {
                image.heads.push((pack, pack + len - 1));
                image.between.extend(pack + 1..pack + len - 1);
            }
        }
        let entry = |block: u64, at: usize| u64::from(word(&contents, block, at * 9 + 5));
        let nat = image.nat.iter();
        let listed = nat.flat_map(|&block| (0..455).map(move |at| entry(block, at)));
        let listed: BTreeSet<u64> = listed.filter(|addr| *addr >= main).collect();
        // No entry leads to nodes that were forced since.
        let is_node = |block: &u64| {
            let (nid, ino) = (word(&contents, *block, 4072), word(&contents, *block, 4076));
            (3..1 << 16).contains(&nid) && (3..=nid).contains(&ino)
        };
        let nodes = used(main..BLOCKS).into_iter();
        image.nodes = nodes.filter(|b| listed.contains(b) || is_node(b)).collect();
        for &node in &image.nodes {
            let head = word(&contents, node, 0);
            let is_table = head & 0xF000 == 0x4000 && head >> 24 & 4 == 0;
            let addrs = (0..20).map(|at| u64::from(word(&contents, node, 360 + at * 4)));
            let addrs = addrs.filter(|addr| is_table && *addr >= main);
            image.entries.extend(addrs);
        }
        let all = [
            &image.sit,
            &image.nat,
            &image.summaries,
            &image.nodes,
            &image.entries,
        ];
        assert!(all.into_iter().all(|blocks| !blocks.is_empty()));
        image.contents = contents;
        image
    }
}

/// Some of everything: files with nodes of all levels, small and long ones, a directory of
/// blocks, attributes, links.
async fn some_of_everything(p: &Process<crate::bench::Fs>) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    p.mkdir(b"/d", 0o700).await.unwrap();
    p.mkdir(b"/e", 0o700).await.unwrap();
    for n in 0..300_u64 {
        let path = format!("/d/{n}");
        let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
        let source = Source::Fill {
            pattern: n,
            len: 1 + n * 40,
        };
        let far = [0, 1, 2, 3, 4, 20, 9_000][n as usize % 7] * 1_000_000;
        p.pwrite(fd, far, source).await.unwrap();
        p.close(fd).await.unwrap();
    }
    p.symlink(b"d", b"/link").await.unwrap();
    p.link(b"/d/5", b"/e/5").await.unwrap();
    let any = XattrFlags::Any;
    for (path, len) in [(&b"/d/1"[..], 900), (b"/d/2", 20), (b"/d/3", 3_000)] {
        p.set_xattr(path, b"user.a", &vec![1; len], any)
            .await
            .unwrap();
    }
}

/// An image that was left, and one of which files were forced since its checkpoint.
fn images() -> &'static [Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let left = with_root(&made(&MkfsOptions::new(BLOCKS)), async |p| {
            some_of_everything(&p).await;
        });
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &left);
        let kept = disk.clone();
        kernel.block_on(async move {
            let vfs = mounted(&sim, disk, false).await;
            let p = Process::new(&vfs, Access::root());
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            // Files without names while the checkpoint is written: orphans.
            for path in [&b"/d/20"[..], b"/d/21", b"/d/22"] {
                p.open(path, OpenFlags::BOTH, 0).await.unwrap();
                p.unlink(path).await.unwrap();
            }
            p.sync().await.unwrap();
            for path in [&b"/d/4"[..], b"/d/11", b"/d/12", b"/new", b"/e/new"] {
                let fd = p.open(path, flags, 0o600).await.unwrap();
                let (pattern, len) = (9, 50_000);
                p.pwrite(fd, 4_000, Source::Fill { pattern, len })
                    .await
                    .unwrap();
                p.fsync(fd).await.unwrap();
                p.close(fd).await.unwrap();
            }
        });
        [left, kept.to_image()].map(|bytes| {
            let kernel = Kernel::new();
            let disk = RamDisk::from_image(&kernel.sim(), &bytes);
            Image::of(disk.after_cut(&mut sim::Seed(0).stream("none")))
        })
    })
}

/// A change of a field.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct Edit {
    what: u8,
    block: u16,
    field: u16,
    width: u8,
    how: u8,
    value: u32,
}

/// Fields of the superblock, of the head of a checkpoint, and of an inode.
const SUPER: [usize; 19] = [
    24, 28, 36, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 1148, 1664,
];
const HEAD: [usize; 32] = [
    0, 4, 12, 20, 156, 160, 164, 168, 172, 8, 16, 24, 28, 32, 36, 40, 44, 68, 70, 72, 84, 88, 92,
    116, 118, 120, 132, 136, 140, 144, 148, 152,
];
const INODE: [usize; 26] = [
    0, 2, 3, 4, 12, 16, 20, 24, 68, 72, 76, 80, 84, 88, 92, 347, 348, 352, 356, 4072, 4076, 4080,
    4084, 4088, 4092, 364,
];

impl Edit {
    fn of<T: Copy>(self, from: &[T]) -> T {
        from[usize::from(self.block) % from.len()]
    }

    /// New value of a field whose value was `old`.
    fn number(self, image: &Image, old: u32) -> u32 {
        let somewhere = |blocks: &[u64]| blocks[self.value as usize % blocks.len()] as u32;
        match self.how % 12 {
            0 => self.value,
            1 => self.value % 64,
            2 => somewhere(&image.nodes),
            3 => somewhere(&image.entries),
            4 => self.value % 1_000,
            5 => u32::MAX,
            6 => 0,
            7 => old ^ 1 << (self.value % 32),
            8 => old.wrapping_add(1),
            9 => old.wrapping_sub(1),
            10 => somewhere(&image.summaries),
            _ => word(&image.contents, somewhere(&image.nodes).into(), 4072),
        }
    }

    /// Writes one, two or four bytes of the number.
    fn put(self, image: &Image, block: &mut Block, at: usize) {
        let at = at.min(BLOCK - 4);
        let old = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let width = [4, 4, 2, 1][usize::from(self.width) % 4];
        let new = self.number(image, old).to_le_bytes();
        block[at..at + width].copy_from_slice(&new[..width]);
    }

    /// A place in a table of entries of this size.
    fn in_entry(self, size: usize, behind: usize) -> usize {
        let entries = (BLOCK - behind) / size;
        let within = [0, 1, 2, 4, 5, 8, 10][usize::from(self.width) % 7];
        behind + usize::from(self.field) % entries * size + within
    }

    fn apply(self, image: &Image, contents: &mut Contents) {
        let mut put = |block: u64, at: usize| {
            change(contents, block, |bytes| self.put(image, bytes, at));
        };
        let field = usize::from(self.field);
        match self.what % 16 {
            // Most of what a superblock can say ends a mount at once.
            0 if self.width < 64 => {
                let at = 1024 + SUPER[field % SUPER.len()];
                put(0, at);
                put(1, at);
            }
            1 | 2 => {
                let (first, last) = self.of(&image.heads);
                put(first, HEAD[field % HEAD.len()]);
                change(contents, first, fit_sum);
                restamp(image, contents, first);
                let same = contents[&first].clone();
                contents.insert(last, same);
            }
            3 => {
                let block = self.of(&image.between);
                let orphans = [0, 4, 4, 4084, 4086, 4088][field % 6];
                let at = if self.width < 128 {
                    orphans
                } else {
                    field % BLOCK
                };
                put(block, at);
                if word(&image.contents, block, 4092) == sum_of(&image.contents, block, 4092) {
                    let sum = sum_of(contents, block, 4092).to_le_bytes();
                    change(contents, block, |bytes| bytes[4092..].copy_from_slice(&sum));
                }
            }
            4 => {
                let block = self.of(&image.sit);
                put(block, self.in_entry(74, 0));
                let entry = field % 55 * 74;
                if self.value.is_multiple_of(2) {
                    change(contents, block, |bytes| fit_count(bytes, entry));
                }
            }
            5 | 6 => put(self.of(&image.nat), self.in_entry(9, 0)),
            7 => put(self.of(&image.summaries), self.in_entry(7, 0)),
            8 | 9 => put(self.of(&image.nodes), INODE[field % INODE.len()]),
            10 => put(self.of(&image.nodes), 360 + field % 923 * 4),
            11 => put(self.of(&image.nodes), 4052 + field % 11 * 4),
            12 => put(self.of(&image.entries), self.in_entry(11, 30)),
            13 => put(self.of(&image.entries), field % BLOCK),
            14 => put(self.of(&image.nodes), field % 120),
            _ => {
                let from = self.value as usize % image.nodes.len();
                let from = contents[&image.nodes[from]].clone();
                contents.insert(self.of(&image.nodes), from);
            }
        }
    }
}

/// Makes the sum of the head of a checkpoint that of its bytes.
fn fit_sum(block: &mut Block) {
    let at = u32::from_le_bytes([block[164], block[165], block[166], block[167]]) as usize;
    let at = at.min(BLOCK - 4);
    let sum = sum(&block[..at]);
    block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xF2F5_2010, |crc: u32, &byte| {
        let step = |crc: u32| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
        (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
    })
}

/// The checksum of the first bytes of a block.
fn sum_of(contents: &Contents, block: u64, bytes: usize) -> u32 {
    let payload = contents.get(&block).unwrap_or(&Payload::Zero);
    sum(&payload.to_bytes()[..bytes])
}

/// The stamp of nodes that are forced after the checkpoint with this head.
fn stamp(contents: &Contents, head: u64) -> [u8; 8] {
    let at = (word(contents, head, 164) as usize).min(BLOCK - 4);
    let version = u64::from(word(contents, head, 4)) << 32 | u64::from(word(contents, head, 0));
    let of_head = match word(contents, head, 132) & 0x40 {
        0 => 0,
        _ => u64::from(word(contents, head, at)) << 32,
    };
    (version | of_head).to_le_bytes()
}

/// Gives the nodes that were forced after a checkpoint the stamp of its changed head: otherwise
/// the changed checkpoint would never be rolled forward.
fn restamp(image: &Image, contents: &mut Contents, head: u64) {
    let (old, new) = (stamp(&image.contents, head), stamp(contents, head));
    for &node in &image.nodes {
        let is_of_head = [0, 4]
            .into_iter()
            .all(|at| word(contents, node, 4084 + at).to_le_bytes() == old[at..at + 4]);
        if is_of_head {
            change(contents, node, |bytes| {
                bytes[4084..4092].copy_from_slice(&new);
            });
        }
    }
}

/// Makes the count of a segment that of its map.
fn fit_count(block: &mut Block, entry: usize) {
    let map = &block[entry + 2..entry + 66];
    let valid: u32 = map.iter().map(|byte| byte.count_ones()).sum();
    let kept = u16::from_le_bytes([block[entry], block[entry + 1]]) & 0xFC00;
    let both = (kept | valid as u16).to_le_bytes();
    block[entry..entry + 2].copy_from_slice(&both);
}

/// The checksums that the test computes are those of the format.
#[test]
fn refitted_checksums_of_a_sound_image_are_the_same() {
    let (mut orphans, mut stamped_nodes) = (0, 0);
    for image in images() {
        for &(first, _) in &image.heads {
            let mut contents = image.contents.clone();
            change(&mut contents, first, fit_sum);
            restamp(image, &mut contents, first);
            let same = |block: &u64| contents[block].to_bytes() == image.contents[block].to_bytes();
            assert!(contents.keys().all(same));
        }
        let between = image.between.iter();
        let is_list = |block: &&u64| {
            word(&image.contents, **block, 4092) == sum_of(&image.contents, **block, 4092)
        };
        orphans += between.filter(is_list).count();
        let stamps = image
            .heads
            .iter()
            .map(|head| stamp(&image.contents, head.0));
        let stamps: Vec<_> = stamps.collect();
        let stamped = |node: &&u64| {
            let bytes = image.contents[*node].to_bytes();
            stamps.iter().any(|stamp| bytes[4084..4092] == *stamp)
        };
        stamped_nodes += image.nodes.iter().filter(stamped).count();
    }
    assert!(orphans > 0, "a checkpoint lists orphans");
    assert!(stamped_nodes > 0, "nodes were forced since a checkpoint");
}

#[test]
fn fields_of_known_structures_may_say_anything() {
    bolero::check!()
        .with_type::<(bool, Vec<Edit>)>()
        .with_iterations(150)
        .for_each(|(forced, edits)| {
            let image = &images()[usize::from(*forced)];
            let mut contents = image.contents.clone();
            edits
                .iter()
                .take(8)
                .for_each(|edit| edit.apply(image, &mut contents));
            survive(contents, BLOCKS);
        });
}
