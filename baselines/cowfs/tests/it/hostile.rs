//! Images tampered with in knowledge of the format, with valid sums. Mount, checker and
//! inspector return an error or some answer; they never panic, and always end.

use crate::bench::{cache, made, with_root};
use crate::seam::{Exchange, Journal};
use cowfs::{
    Btrfs, CowFs, Inspector, MkfsOptions, MountOptions, NODE, Persist, ROOT, SECTOR, check, mount,
    mount_with,
};
use host::{Image, RamDisk};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use units::{Bytes, Ns};
use vfs::model::endure;
use vfs::{
    Access, Body, Clock, Compute, FallocateMode, OpenFlags, Process, Source, Timestamp, Vfs,
    XattrFlags,
};

/// Prints with each function of the inspector.
fn inspect<I: Image + ?Sized>(image: &I) {
    let Ok(mut inspector) = Inspector::new(image) else {
        return;
    };
    let _ = (inspector.superblock(), inspector.groups());
    let _ = (inspector.directory(ROOT), inspector.inode(ROOT + 1));
    let _ = inspector.extents(ROOT + 2);
}

/// An image with every kind of item, forced files in a log included, and the byte offsets of
/// its nodes.
fn image() -> &'static (Vec<u8>, Vec<usize>) {
    static IMAGE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let image = with_root(
            &made(&MkfsOptions::new(10_240)),
            MountOptions::default(),
            async |p| {
                let flags = OpenFlags::BOTH | OpenFlags::CREATE;
                p.mkdir(b"/d", 0o700).await.unwrap();
                for n in 0..200_u64 {
                    let path = format!("/d/{n}");
                    let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
                    let source = Source::Fill {
                        pattern: n,
                        len: 1 + n * 40,
                    };
                    p.pwrite(fd, n % 7 * 1_000_000, source).await.unwrap();
                    let mode = FallocateMode::Allocate { keep_size: false };
                    p.fallocate(fd, mode, 9_000, 20_000).await.unwrap();
                    p.close(fd).await.unwrap();
                }
                p.symlink(b"d", b"/link").await.unwrap();
                p.link(b"/d/3", b"/other").await.unwrap();
                let any = XattrFlags::Any;
                p.set_xattr(b"/d/1", b"user.a", &[1; 900], any)
                    .await
                    .unwrap();
            },
        );
        let image = forced(&image);
        let is_node = |at: &usize| {
            let own = u64::from_le_bytes(image[at + 48..at + 56].try_into().unwrap());
            (1 << 20..40 << 20).contains(&own)
                && own.is_multiple_of(4_096)
                && image[at + 32..at + 48] == image[65_536 + 32..65_536 + 48]
        };
        let nodes = (1 << 20..image.len())
            .step_by(NODE)
            .filter(is_node)
            .collect();
        (image, nodes)
    })
}

/// Forces 20 files on the file system in `image`, without a commit afterwards; returns the image.
fn forced(image: &[u8]) -> Vec<u8> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    let kept = disk.clone();
    kernel.block_on(async move {
        let (body, _) = mount(&sim, &disk, MountOptions::default()).await.unwrap();
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, body, cache(false), clock, compute);
        let p = Process::new(&vfs, Access::root());
        for n in 0..20_u64 {
            let path = format!("/d/{}", 190 + n);
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
            let source = Source::Fill {
                pattern: n,
                len: 9_000,
            };
            p.pwrite(fd, n * 4_096, source).await.unwrap();
            p.fsync(fd).await.unwrap();
        }
    });
    kept.to_image()
}

/// An image of blocks by number, and its size in blocks; absent blocks are zeros.
struct Blocks<'a>(&'a BTreeMap<u64, Payload>, u64);

impl Image for Blocks<'_> {
    fn blocks(&self) -> u64 {
        self.1
    }

    fn read(&self, block: u64, out: &mut cowfs::Block) -> bool {
        let found = self.0.get(&block).unwrap_or(&Payload::Zero);
        block < self.1 && found.copy_to(0, out)
    }
}

/// Maximum events of one kernel run on an image; some thousands are usual.
const STEPS: u64 = 3_000_000;

/// Runs checker and inspector on an image, then mounts it, reads all files and writes some,
/// once with copied nodes and once with in-place nodes. Returns whether both could mount it.
pub(crate) fn survive(contents: BTreeMap<u64, Payload>, blocks: u64) -> bool {
    let _ = check(&Blocks(&contents, blocks));
    inspect(&Blocks(&contents, blocks));
    let journal = Journal::default();
    let in_place = move |disk: &RamDisk| Exchange::new(disk, &journal);
    let copied = |disk: &RamDisk| Btrfs::new(disk, false);
    let mounted = survive_with(contents.clone(), blocks, copied);
    survive_with(contents, blocks, in_place) && mounted
}

fn survive_with<S: Persist>(
    contents: BTreeMap<u64, Payload>,
    blocks: u64,
    strategy: impl Fn(&RamDisk) -> S + 'static,
) -> bool {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(blocks * SECTOR as u64), contents);
    let (done, mounted) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (ended, was) = (Rc::clone(&done), Rc::clone(&mounted));
    sim.clone().spawn_detached(async move {
        let options = MountOptions {
            interval: Ns(5_000),
            cache: Bytes(0),
            ..MountOptions::default()
        };
        if let Ok((body, _)) = mount_with(&sim, strategy(&disk), options).await {
            was.set(true);
            use_all(&sim, body).await;
        }
        if let Ok((body, _)) = mount_with(&sim, strategy(&disk), options).await {
            let _ = body.snapshot(b"copy", false, Timestamp::default()).await;
            let _ = body.count_extents().await;
            let _ = body.drop_snapshot(b"copy", Timestamp::default()).await;
            let _ = body.unmount().await;
        }
        ended.set(true);
    });
    while !done.get() && kernel.step() {
        assert!(kernel.sim().events() < STEPS, "it does not end");
    }
    assert!(done.get(), "it came to rest before its end");
    mounted.get()
}

/// Runs [`endure`] twice, which reads and changes files, and unmounts.
async fn use_all<S: Persist>(sim: &Sim, body: CowFs<S>) {
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    let vfs = Vfs::mount(sim, body, cache(true), clock, compute);
    let process = Process::new(&vfs, Access::root());
    endure(&process).await;
    endure(&process).await;
    process.exit().await;
    let _ = vfs.unmount().await;
}

/// Blocks of the untouched image, made once: most blocks of a changed image are these.
fn blocks() -> &'static BTreeMap<u64, Payload> {
    static BLOCKS: OnceLock<BTreeMap<u64, Payload>> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let kernel = Kernel::new();
        let disk = RamDisk::from_image(&kernel.sim(), &image().0);
        disk.after_cut(&mut Seed(0).stream("nothing is on its way"))
    })
}

fn survive_bytes(changed: &[u8]) -> bool {
    let mut contents = blocks().clone();
    let pairs = changed.chunks(SECTOR).zip(image().0.chunks(SECTOR));
    for (block, (new, old)) in (0..).zip(pairs) {
        if new != old {
            let bytes = new.try_into().expect("blocks are whole");
            contents.insert(block, Payload::Bytes(Arc::new(bytes)));
        }
    }
    survive(contents, (changed.len() / SECTOR) as u64)
}

/// Stores the sum of the `len`-byte node or superblock at `at` in its header.
fn seal(image: &mut [u8], at: usize, len: usize) {
    let sum = crc32c::crc32c(&image[at + 32..at + len]);
    image[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Changes random bytes of a node, in its header, one of its item headers or the data of an
/// item, and updates its sum.
fn tamper(image: &mut [u8], nodes: &[usize], rng: &mut Rng) {
    let node = nodes[rng.below(nodes.len() as u64) as usize];
    let items = u32::from_le_bytes(image[node + 96..node + 100].try_into().unwrap());
    let item = node + 101 + 25 * rng.below(u64::from(items.clamp(1, 600))) as usize;
    let start = u32::from_le_bytes(image[item + 17..item + 21].try_into().unwrap()) as usize;
    let at = match rng.below(4) {
        0 => node + 48 + rng.below(53) as usize,
        1 => item + rng.below(25) as usize,
        _ => node + 101 + (start + rng.below(160) as usize).min(NODE - 110),
    };
    match rng.below(4) {
        0 => image[at] ^= 1 << rng.below(8),
        1 => image[at..at + 8].fill(0xFF),
        2 => image[at..at + 8].copy_from_slice(&rng.below(40 << 20).to_le_bytes()),
        _ => image[at] = rng.below(256) as u8,
    }
    seal(image, node, NODE);
}

/// Offset and length in bytes of each field in the data of an item of type `kind`.
const fn fields(kind: u8) -> &'static [(usize, usize)] {
    match kind {
        // An inode: size, bytes, links, mode, flags, number of changes.
        1 => &[(0, 8), (16, 8), (24, 8), (40, 4), (52, 4), (64, 8), (72, 8)],
        // A name of an inode: its number and length.
        12 | 13 => &[(0, 8), (8, 2)],
        // An entry of a directory: where it leads, its lengths, its kind.
        24 | 84 | 96 => &[(0, 8), (8, 1), (9, 8), (25, 2), (27, 2), (29, 1)],
        // A piece of a file.
        108 => &[
            (0, 8),
            (8, 8),
            (16, 1),
            (20, 1),
            (21, 8),
            (29, 8),
            (37, 8),
            (45, 8),
        ],
        // A root: generation, place, bytes, last snapshot, flags, level.
        132 => &[
            (160, 8),
            (176, 8),
            (192, 8),
            (200, 8),
            (208, 8),
            (216, 4),
            (238, 1),
        ],
        // An extent, with its first inline reference.
        168 | 169 => &[
            (0, 8),
            (8, 8),
            (16, 8),
            (24, 1),
            (25, 8),
            (33, 8),
            (41, 8),
            (49, 4),
        ],
        // A block group.
        192 => &[(0, 8), (8, 8), (16, 8)],
        // A range of the device.
        204 => &[(16, 8), (24, 8)],
        // A chunk.
        228 => &[(0, 8), (8, 8), (24, 8), (44, 2), (56, 8)],
        _ => &[(0, 8)],
    }
}

/// A new value for a field: near `old`, one bit off, a random address, or an edge case.
fn value(rng: &mut Rng, old: u64) -> u64 {
    let whole = [
        0,
        4_096,
        1 << 20,
        1 << 62,
        1 << 63,
        u64::MAX << 12,
        u64::MAX << 13,
    ];
    match rng.below(6) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => u64::MAX - rng.below(3),
        3 => old ^ 1 << rng.below(64),
        4 => rng.below(10_240) * 4_096,
        _ => whole[rng.below(whole.len() as u64) as usize],
    }
}

/// Changes a field of a random leaf item, or of its key, and updates the sum of the node.
fn tamper_with_field(image: &mut [u8], nodes: &[usize], rng: &mut Rng) {
    let word = |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    let node = nodes[rng.below(nodes.len() as u64) as usize];
    let (items, level) = (word(image, node + 96), image[node + 100]);
    if items == 0 || level > 0 {
        return;
    }
    let item = node + 101 + 25 * rng.below(u64::from(items)) as usize;
    let (start, len) = (
        word(image, item + 17) as usize,
        word(image, item + 21) as usize,
    );
    let fields = fields(image[item + 8]);
    let (field, bytes) = fields[rng.below(fields.len() as u64) as usize];
    let (at, bytes) = match rng.below(8) {
        0 => (item + 9, 8),
        1 => (item, 8),
        _ if field + bytes <= len => (node + 101 + start + field, bytes),
        _ => return,
    };
    let mut old = [0; 8];
    old[..bytes].copy_from_slice(&image[at..at + bytes]);
    let new = value(rng, u64::from_le_bytes(old)).to_le_bytes();
    image[at..at + bytes].copy_from_slice(&new[..bytes]);
    seal(image, node, NODE);
}

#[test]
fn tampered_item_field_causes_no_panic_or_hang() {
    let (whole, nodes) = image();
    let mut mounted = 0;
    for seed in 0..150 {
        let mut rng = Seed(seed).stream("fields");
        let mut image = whole.clone();
        for _ in 0..1 + rng.below(6) {
            tamper_with_field(&mut image, nodes, &mut rng);
        }
        mounted += u64::from(survive_bytes(&image));
    }
    assert!(mounted > 15, "{mounted} were mounted");
}

#[test]
fn tampered_node_causes_no_panic_or_hang() {
    let (whole, nodes) = image();
    assert!(nodes.len() > 20, "{}", nodes.len());
    let mut mounted = 0;
    for seed in 0..80 {
        let mut rng = Seed(seed).stream("tampering");
        let mut image = whole.clone();
        for _ in 0..1 + rng.below(4) {
            tamper(&mut image, nodes, &mut rng);
        }
        mounted += u64::from(survive_bytes(&image));
    }
    assert!(mounted > 3, "{mounted} were mounted");
}

/// Two neighbouring pointers to one child: a merge of small neighbours must not merge the child
/// with itself.
#[test]
fn child_that_is_its_own_neighbour_causes_no_panic_or_hang() {
    let (whole, nodes) = image();
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
    let inner = nodes.iter().filter(|&&at| whole[at + 100] == 1);
    let mut mounted = 0;
    for &node in inner {
        for slot in 0..(word(node + 96) as usize - 1).min(2) {
            let mut image = whole.clone();
            // Copy address and generation of this pointer to the next slot.
            let at = node + 101 + 33 * slot + 17;
            image.copy_within(at..at + 16, at + 33);
            seal(&mut image, node, NODE);
            mounted += u64::from(survive_bytes(&image));
        }
    }
    assert!(mounted > 0, "{mounted} were mounted");
}

fn long(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

/// Offsets in the superblock of the address and the level of the trees of roots, of chunks and
/// of the log.
const TREES: [(usize, usize); 3] = [(80, 198), (88, 199), (96, 200)];

#[test]
fn wrong_level_of_a_tree_causes_no_panic_or_hang() {
    let (whole, nodes) = image();
    for (start, level) in TREES.map(|(start, level)| (65_536 + start, 65_536 + level)) {
        let root = nodes
            .iter()
            .find(|&&at| long(whole, at + 48) == long(whole, start));
        let root = *root.expect("it is there");
        for high in [1, 7, 8, 9, 255] {
            let mut image = whole.clone();
            (image[level], image[root + 100]) = (high, high);
            seal(&mut image, root, NODE);
            seal(&mut image, 65_536, SECTOR);
            survive_bytes(&image);
        }
    }
}

/// Builds an inner node behind the root node at `at`, with two pointers to that root, the second
/// for keys above all existing ones, and makes it the root in the superblock.
fn lead_twice(image: &mut [u8], (start, level): (usize, usize), at: usize) {
    let (below, to) = (at, at + NODE);
    let own = long(image, below + 48) + NODE as u64;
    image.copy_within(below..below + 101, to);
    let (first, generation) = (
        image[below + 101..below + 118].to_vec(),
        long(image, below + 80),
    );
    let mut last = first.clone();
    last[9..17].fill(0xF7);
    for (slot, key) in [first, last].into_iter().enumerate() {
        let pointer = to + 101 + 33 * slot;
        image[pointer..pointer + 17].copy_from_slice(&key);
        let place = own - NODE as u64;
        image[pointer + 17..pointer + 25].copy_from_slice(&place.to_le_bytes());
        image[pointer + 25..pointer + 33].copy_from_slice(&generation.to_le_bytes());
    }
    image[to + 48..to + 56].copy_from_slice(&own.to_le_bytes());
    image[to + 96..to + 100].copy_from_slice(&2_u32.to_le_bytes());
    image[to + 100] = image[below + 100] + 1;
    seal(image, to, NODE);
    image[65_536 + start..65_536 + start + 8].copy_from_slice(&own.to_le_bytes());
    image[65_536 + level] = image[to + 100];
    seal(image, 65_536, SECTOR);
}

/// A walk along the keys of such a tree would return to the same leaf forever.
#[test]
fn leaf_with_two_pointers_is_reported_and_causes_no_hang() {
    let (whole, nodes) = image();
    for (start, level) in TREES {
        let root = long(whole, 65_536 + start);
        let root = nodes.iter().find(|&&at| long(whole, at + 48) == root);
        let mut image = whole.clone();
        lead_twice(&mut image, (start, level), *root.expect("it is there"));
        survive_bytes(&image);
        // The checker does not read logs.
        inspect(&image[..]);
        let told = start == 96 || !check(&image[..]).is_empty();
        assert!(told, "the checker says so of the tree at {start}");
    }
}

#[test]
fn tampered_superblock_field_causes_no_panic_or_hang() {
    let (whole, _) = image();
    for at in (48..208)
        .step_by(4)
        .chain((201..300).step_by(8))
        .chain((811..920).step_by(4))
    {
        // One value each: those beside a field in turn get the others.
        let value = [0_u32, 7, u32::MAX][at / 4 % 3];
        let mut image = whole.clone();
        image[65_536 + at..65_536 + at + 4].copy_from_slice(&value.to_le_bytes());
        seal(&mut image, 65_536, SECTOR);
        survive_bytes(&image);
    }
}
