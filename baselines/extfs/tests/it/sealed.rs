//! Damaged images whose checksums are right: a wrong field reaches the code behind the checksum.
//!
//! Each image is checked, inspected, mounted with every kind of journal and used. It is refused, or
//! calls fail; nothing panics or runs on.

use crate::driver::{Driver, NOW};
use crate::hostile::{Contents, inspect, look, work};
use crate::seal::{Image, Role, block, edit, half, word};
use extfs::{BLOCK, MkfsOptions, Persist, ext4, pmfs};
use host::RamDisk;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::OnceLock;
use units::Bytes;
use vfs::{Body, FileKind, XattrFlags};

/// 16 MiB, the smallest with a journal.
const BLOCKS: u64 = 4_096;

/// Events of one use at most; some thousands are usual.
const EVENTS: u64 = 1_000_000;

/// Makes some of everything.
async fn fill<P: Persist>(driver: &Driver<P>) {
    for n in 0..220 {
        let name = format!("file-with-a-long-name-{n:050}");
        driver.put(&name, &[0xAA; 500]).await.unwrap();
    }
    driver.mkdir("dir").await.unwrap();
    driver.mkdir("dir/below").await.unwrap();
    let sparse = driver.put("dir/sparse", b"").await.unwrap();
    for n in 0..30 {
        let written = driver.write(&sparse, n * 8192, &[0xAA; 4096]);
        written.await.unwrap();
    }
    let link = driver.make("link", FileKind::Symlink, b"dir/sparse");
    link.await.unwrap();
    let long = driver.make("long", FileKind::Symlink, &[b'x'; 300]);
    long.await.unwrap();
    for (name, value) in [(&b"user.large"[..], &[7; 1000][..]), (b"user.a", b"b")] {
        let set = driver
            .fs
            .set_xattr(&sparse, name, value, XattrFlags::Any, NOW);
        set.await.unwrap();
    }
}

/// An image after an unmount, and one after a power cut, with transactions in its log.
fn images() -> &'static [Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::new(&sim, Bytes(BLOCKS * BLOCK as u64));
        kernel.block_on(async move {
            let options = MkfsOptions {
                now: NOW,
                journal_blocks: Some(1_024),
                ..MkfsOptions::new(BLOCKS)
            };
            ext4::format(&disk, &options).await.unwrap();
            let mut contents = Vec::new();
            for left in [true, false] {
                let mounted = ext4::mount(&sim, &disk, ext4::Options::default()).await;
                let driver = Driver::new(mounted.unwrap().0);
                if left {
                    fill(&driver).await;
                    driver.unmount().await;
                } else {
                    for n in 0..20 {
                        let name = format!("file-with-a-long-name-{n:050}");
                        driver.unlink(&name).await.unwrap();
                        driver.put(&format!("dir/{n}"), &[1; 5_000]).await.unwrap();
                        driver.fs.sync_all().await.unwrap();
                    }
                }
                contents.push(disk.after_cut(&mut Seed(1).stream("cut")));
            }
            let [left, cut] = [contents.remove(0), contents.remove(0)];
            let left = Image::of(left);
            let mut behind = left.clone();
            behind.contents = cut;
            [left, behind]
        })
    })
}

/// Runs `uses` on the contents; returns whether they could be mounted.
fn with<W: Future<Output = bool> + 'static>(
    contents: &Contents,
    uses: impl FnOnce(Sim, RamDisk) -> W,
) -> bool {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(BLOCKS * BLOCK as u64), contents.clone());
    let result = Rc::new(Cell::new(None));
    let (kept, running) = (Rc::clone(&result), uses(sim.clone(), disk));
    sim.spawn_detached(async move { kept.set(Some(running.await)) });
    for _ in 0..EVENTS {
        if result.get().is_some() || !kernel.step() {
            return result
                .get()
                .expect("the use of a damaged image comes to its end");
        }
    }
    panic!("the use of a damaged image goes on and on");
}

async fn use_all<P: Persist>(driver: Driver<P>) {
    look(&driver).await;
    work(&driver).await;
}

/// Uses an image with every kind of journal; returns how many mounts succeeded.
fn survive(contents: &Contents) -> u32 {
    inspect(contents);
    let plain = with(contents, |sim, disk| async move {
        let mounted = Driver::mount(&sim, disk).await;
        let is_mounted = mounted.is_ok();
        if let Ok(driver) = mounted {
            use_all(driver).await;
        }
        is_mounted
    });
    let journalled = with(contents, |sim, disk| async move {
        let mounted = ext4::mount(&sim, &disk, ext4::Options::default()).await;
        let is_mounted = mounted.is_ok();
        if let Ok((body, _)) = mounted {
            use_all(Driver::new(body)).await;
        }
        is_mounted
    });
    let undoing = with(contents, |sim, disk| async move {
        let mounted = pmfs::mount(&sim, &disk, pmfs::Options::default()).await;
        let is_mounted = mounted.is_ok();
        if let Ok((body, _)) = mounted {
            use_all(Driver::new(body)).await;
        }
        is_mounted
    });
    u32::from(plain) + u32::from(journalled) + u32::from(undoing)
}

/// A field: its offset and its bytes.
type Place = (usize, usize);

const SUPER: [usize; 32] = [
    0x0, 0x4, 0x8, 0xC, 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24, 0x28, 0x3A, 0x3C, 0x4C, 0x54, 0x58,
    0x5A, 0x5C, 0x60, 0x64, 0xCE, 0xE0, 0xE8, 0xEC, 0xFC, 0xFE, 0x104, 0x150, 0x154, 0x15C, 0x174,
    0x270,
];
const INODE: [Place; 26] = [
    (0x0, 2),
    (0x2, 2),
    (0x4, 4),
    (0x14, 4),
    (0x1A, 2),
    (0x1C, 4),
    (0x20, 4),
    (0x28, 2),
    (0x2A, 2),
    (0x2C, 2),
    (0x2E, 2),
    (0x34, 4),
    (0x38, 2),
    (0x38, 4),
    (0x3A, 2),
    (0x3C, 4),
    (0x40, 4),
    (0x44, 2),
    (0x64, 4),
    (0x68, 4),
    (0x6C, 4),
    (0x74, 2),
    (0x76, 2),
    (0x80, 2),
    (0xA0, 4),
    (0xA4, 4),
];

/// A field of a block of this role.
fn field(image: &Image, role: Role, bytes: &[u8], rng: &mut Rng) -> Place {
    let any = |rng: &mut Rng, len: usize| rng.below(len as u64) as usize;
    match role {
        Role::Superblock => (1024 + SUPER[any(rng, SUPER.len())], [4, 2, 1][any(rng, 3)]),
        Role::Groups => (any(rng, 32) * 2, [2, 4][any(rng, 2)]),
        Role::BlockBitmap(_) | Role::InodeBitmap(_) => (any(rng, 64) * 8, 8),
        Role::Inodes(first) => {
            let used = image.inodes.iter();
            let used = used.filter(|&&ino| (first..first + 16).contains(&ino));
            let used: Vec<u32> = used.copied().collect();
            let (_, at) = image.place(used[any(rng, used.len())]);
            let (field, len) = INODE[any(rng, INODE.len())];
            (at + field, len)
        }
        Role::Leaf(_) => {
            let mut at = 0;
            for _ in 0..any(rng, 12) {
                let len = usize::from(half(bytes, at + 4));
                if len >= 12 && at + len < BLOCK - 24 {
                    at += len;
                }
            }
            let (field, len) = [(0, 4), (4, 2), (6, 1), (7, 1), (8, 4)][any(rng, 5)];
            (at + field, len)
        }
        Role::Index(_, at) => match rng.below(4) {
            0 => (at, 2),
            1 => (at + 2, 2),
            2 => (at + 4 + any(rng, 6) * 4, 4),
            _ => [
                (0x1C, 1),
                (0x1D, 1),
                (0x1E, 1),
                (0x4, 2),
                (0x10, 2),
                (0xC, 4),
            ][any(rng, 6)],
        },
        Role::Extents(_) => match rng.below(2) {
            0 => (any(rng, 5) * 2, 2),
            _ => {
                let (field, len) = [(0, 4), (4, 2), (4, 4), (6, 2), (8, 4)][any(rng, 5)];
                (12 + any(rng, 8) * 12 + field, len)
            }
        },
        Role::Attributes => match rng.below(2) {
            0 => (any(rng, 5) * 4, 4),
            _ => {
                let (field, len) = [(0, 1), (1, 1), (2, 2), (4, 4), (8, 4), (12, 4)][any(rng, 6)];
                (32 + any(rng, 2) * 24 + field, len)
            }
        },
        Role::Journal => match rng.below(3) {
            0 => (any(rng, 24) * 4, 4),
            _ => (any(rng, 64) * 4, [4, 2, 1][any(rng, 3)]),
        },
    }
}

/// Boundaries, neighbours of the old value, and numbers of blocks and inodes that are there, such
/// as the block itself.
fn value(image: &Image, number: u64, old: u64, rng: &mut Rng) -> u64 {
    let roles = image.roles.len() as u64;
    let some = image.roles.keys().nth(rng.below(roles) as usize).copied();
    match rng.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => number,
        6 => some.unwrap_or(0),
        7 => u64::from(image.inodes[rng.below(image.inodes.len() as u64) as usize]),
        8 => old ^ 1 << rng.below(32),
        9 => u64::from(u32::MAX) >> 1,
        10 => BLOCKS - 1 + rng.below(3),
        _ => rng.next_u64(),
    }
}

/// Changes a field of a block of a role that is chosen first, so that rare roles are met as well.
fn tamper(image: &Image, contents: &mut Contents, rng: &mut Rng) -> u64 {
    let kinds: BTreeSet<u8> = image.roles.values().map(|role| kind(*role)).collect();
    let chosen = kinds.iter().nth(rng.below(kinds.len() as u64) as usize);
    let blocks = image.roles.iter();
    let blocks = blocks.filter(|(_, role)| Some(&kind(**role)) == chosen);
    // Behind the first blocks of the journal there is nothing.
    let blocks: Vec<(u64, Role)> = blocks.map(|(n, role)| (*n, *role)).take(48).collect();
    let (number, role) = blocks[rng.below(blocks.len() as u64) as usize];
    let (at, len) = field(image, role, &block(contents, number), rng);
    let is_big = matches!(role, Role::Journal);
    edit(contents, number, |bytes| {
        let mut old = [0; 8];
        old[..len].copy_from_slice(&bytes[at..at + len]);
        if is_big {
            old[..len].reverse();
        }
        let mut new = value(image, number, u64::from_le_bytes(old), rng).to_le_bytes();
        if is_big {
            new[..len].reverse();
        }
        bytes[at..at + len].copy_from_slice(&new[..len]);
    });
    number
}

fn kind(role: Role) -> u8 {
    match role {
        Role::Superblock => 0,
        Role::Groups => 1,
        Role::BlockBitmap(_) => 2,
        Role::InodeBitmap(_) => 3,
        Role::Inodes(_) => 4,
        Role::Leaf(_) => 5,
        Role::Index(..) => 6,
        Role::Extents(_) => 7,
        Role::Attributes => 8,
        Role::Journal => 9,
    }
}

/// The checksums that are computed here are those of the format: an image that is sealed without a
/// change stays the same. After a power cut only the journal is at one state.
#[test]
fn sealed_image_without_a_change_is_the_same() {
    for (is_cut, image) in [false, true].into_iter().zip(images()) {
        let mut sealed = image.contents.clone();
        image.reseal(&mut sealed, &image.roles.keys().copied().collect());
        for (number, role) in &image.roles {
            let same = block(&sealed, *number) == block(&image.contents, *number);
            let is_settled = !is_cut || *role == Role::Journal;
            assert!(
                same || !is_settled,
                "block {number}, {role:?}, cut: {is_cut}"
            );
        }
        // Only the journal of blocks can recover its log.
        assert_eq!(survive(&sealed), if is_cut { 1 } else { 3 });
    }
}

#[test]
fn sealed_fields_may_say_anything() {
    let mut mounted = 0;
    for seed in 0..240 {
        let mut rng = Seed(seed).stream("sealed");
        let image = &images()[(seed % 2) as usize];
        let mut contents = image.contents.clone();
        let edits = 1 + rng.below(3);
        let changed = (0..edits).map(|_| tamper(image, &mut contents, &mut rng));
        let changed = changed.collect();
        image.reseal(&mut contents, &changed);
        mounted += survive(&contents);
    }
    assert!(mounted > 240, "{mounted} were mounted");
}

/// The inode of a name in the root directory.
fn inode_of(image: &Image, name: &[u8]) -> u32 {
    let leaves = image.roles.iter();
    let mut leaves = leaves.filter(|(_, role)| matches!(role, Role::Leaf(_)));
    let found = leaves.find_map(|(number, _)| {
        let bytes = block(&image.contents, *number);
        let mut at = 0;
        while at < BLOCK - 12 {
            let len = usize::from(half(&bytes, at + 4));
            let end = at + 8 + usize::from(bytes[at + 6]);
            if bytes[at + 8..end] == *name && word(&bytes, at) != 0 {
                return Some(word(&bytes, at));
            }
            at += len.max(12);
        }
        None
    });
    found.expect("it is there")
}

/// A list of orphans that leads back to its first inode, or to itself.
#[test]
fn list_of_orphans_that_loops_ends() {
    let image = &images()[0];
    let (one, two) = (inode_of(image, b"sparse"), inode_of(image, b"long"));
    for list in [
        vec![one, one],
        vec![one, two, one],
        vec![two, 2, two],
        vec![8, 8],
    ] {
        let mut contents = image.contents.clone();
        let mut changed = BTreeSet::from([0]);
        edit(&mut contents, 0, |bytes| {
            bytes[1024 + 0xE8..1024 + 0xEC].copy_from_slice(&list[0].to_le_bytes());
        });
        for pair in list.windows(2) {
            let (number, at) = image.place(pair[0]);
            changed.insert(number);
            edit(&mut contents, number, |bytes| {
                bytes[at + 0x14..at + 0x18].copy_from_slice(&pair[1].to_le_bytes());
                bytes[at + 0x1A..at + 0x1C].fill(0);
            });
        }
        image.reseal(&mut contents, &changed);
        survive(&contents);
    }
}

/// A directory whose entry leads to its parent, or to itself.
#[test]
fn directory_that_contains_its_parent_is_used_or_refused() {
    let image = &images()[0];
    let (dir, below) = (inode_of(image, b"dir"), inode_of(image, b"below"));
    for (from, to) in [(below, dir), (below, 2), (dir, dir), (dir, 2)] {
        let mut contents = image.contents.clone();
        let leaves = image.roles.iter();
        let leaves = leaves.filter(|(_, role)| matches!(role, Role::Leaf(_)));
        for (number, _) in leaves {
            edit(&mut contents, *number, |bytes| {
                let mut at = 0;
                while at < BLOCK - 12 {
                    if word(bytes, at) == from && bytes[at + 8] != b'.' {
                        bytes[at..at + 4].copy_from_slice(&to.to_le_bytes());
                    }
                    at += usize::from(half(bytes, at + 4)).max(12);
                }
            });
        }
        image.reseal(&mut contents, &BTreeSet::new());
        survive(&contents);
    }
}

/// A log whose copies belong into the log itself, each over a block behind it.
#[test]
fn log_that_replays_onto_itself_is_refused() {
    let image = &images()[1];
    let mut refused = 0;
    for &number in image.journal.iter().take(64) {
        let bytes = block(&image.contents, number);
        if bytes[..8] != [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1] {
            continue;
        }
        let mut contents = image.contents.clone();
        let home = number as u32 + 1;
        edit(&mut contents, number, |bytes| {
            bytes[12..16].copy_from_slice(&home.to_be_bytes());
        });
        image.reseal(&mut contents, &BTreeSet::from([number]));
        refused += u32::from(survive(&contents) == 0);
    }
    // Descriptors before the start of the log are not replayed.
    assert!(refused > 1, "{refused} descriptors");
}
