//! Damaged images, by accident or by design: they are refused or read with errors, and
//! nothing panics or runs forever.

use crate::driver::{Driver, NOW, attr, formatted, new_image};
use extfs::{BLOCK, Inspector, MkfsOptions, MountError, Persist, check};
use host::RamDisk;
use nand::Payload;
use sim::Kernel;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Bytes;
use vfs::{Access, Body, FallocateMode, FileKind, SeekWhat, XattrFlags};

const BLOCKS: u64 = 2048;
const SUPERBLOCK: usize = 1024;

pub(crate) type Contents = BTreeMap<u64, Payload>;

/// Most events that the use of a small image may take.
const EVENTS: u64 = 3_000_000;

fn options() -> MkfsOptions {
    MkfsOptions {
        now: NOW,
        ..MkfsOptions::new(BLOCKS)
    }
}

/// Turns the feature `metadata_csum` off, so that checksums do not reveal the damage.
fn without_checksums(image: &mut [u8]) {
    let at = SUPERBLOCK + 0x64;
    let ro = u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    image[at..at + 4].copy_from_slice(&(ro & !0x400).to_le_bytes());
}

/// A small image with files of every kind; file contents repeat the byte 0xAA.
fn sample(checksums: bool) -> Contents {
    let kernel = Kernel::new();
    let mut image = new_image(&options());
    if !checksums {
        without_checksums(&mut image);
    }
    let disk = RamDisk::from_image(&kernel.sim(), &image);
    let (sim, kept) = (kernel.sim(), disk.clone());
    kernel.block_on(async move {
        let driver = Driver::mount(&sim, disk).await.unwrap();
        for n in 0..400 {
            driver
                .put(&format!("file-with-a-long-name-{n:050}"), &[0xAA; 500])
                .await
                .unwrap();
        }
        driver.mkdir("dir").await.unwrap();
        driver.mkdir("dir/below").await.unwrap();
        let sparse = driver.put("dir/sparse", b"").await.unwrap();
        for n in 0..30 {
            driver
                .write(&sparse, n * 8192, &[0xAA; 4096])
                .await
                .unwrap();
        }
        driver
            .make("link", FileKind::Symlink, b"dir/sparse")
            .await
            .unwrap();
        driver
            .make("long", FileKind::Symlink, &[b'x'; 300])
            .await
            .unwrap();
        let value = [7; 1000];
        driver
            .fs
            .set_xattr(&sparse, b"user.large", &value, XattrFlags::Any, NOW)
            .await
            .unwrap();
        driver
            .fs
            .set_xattr(&sparse, b"user.a", b"b", XattrFlags::Any, NOW)
            .await
            .unwrap();
        driver.unmount().await;
    });
    let image = kept.to_image();
    let blocks = image.chunks_exact(BLOCK).enumerate();
    let used = blocks.filter(|(_, bytes)| bytes.iter().any(|&b| b != 0));
    let payload = |bytes: &[u8]| Payload::Bytes(Arc::new(bytes.try_into().unwrap()));
    used.map(|(n, bytes)| (n as u64, payload(bytes))).collect()
}

/// Blocks without file contents.
fn metadata(contents: &Contents) -> Vec<u64> {
    let is_data = |payload: &Payload| payload.to_bytes()[..500].iter().all(|&b| b == 0xAA);
    let blocks = contents.iter().filter(|(_, payload)| !is_data(payload));
    blocks.map(|(&block, _)| block).collect()
}

fn change(contents: &mut Contents, block: u64, at: usize, edit: impl FnOnce(&mut u8)) {
    let old = contents.get(&block).unwrap_or(&Payload::Zero);
    let mut bytes = old.to_bytes();
    edit(&mut bytes[at % BLOCK]);
    contents.insert(block, Payload::Bytes(Arc::new(bytes)));
}

/// Reads all directories, files and attributes; ignores errors.
pub(crate) async fn look<P: Persist>(driver: &Driver<P>) {
    let mut dirs = vec![driver.root().await];
    let mut seen = 0;
    while let Some(dir) = dirs.pop() {
        let _ = driver.fs.parent(&dir).await;
        let entries = driver.list(&dir).await.unwrap_or_default();
        for entry in entries {
            seen += 1;
            let Ok(node) = driver.node(entry.ino).await else {
                continue;
            };
            let _ = driver.fs.lookup(&dir, &entry.name).await;
            for name in driver.fs.list_xattrs(&node).await.unwrap_or_default() {
                let _ = driver.fs.get_xattr(&node, &name).await;
            }
            let attr = attr(&node);
            match attr.kind {
                FileKind::Directory if seen < 5000 => dirs.push(node),
                FileKind::Symlink => drop(driver.fs.readlink(&node).await),
                _ if attr.size < 1 << 20 => drop(driver.read(&node).await),
                _ => {}
            }
        }
    }
}

/// Changes files, directories and attributes in many ways; ignores errors.
pub(crate) async fn work<P: Persist>(driver: &Driver<P>) {
    for n in 0..30 {
        let _ = driver.put(&format!("new-{n:0100}"), &[1; 9000]).await;
        let _ = driver
            .unlink(&format!("file-with-a-long-name-{n:050}"))
            .await;
    }
    if let Ok(node) = driver.walk("dir/sparse").await {
        let _ = driver.fs.seek(&node, 0, SeekWhat::Hole).await;
        for n in 0..10 {
            let _ = driver.write(&node, n * 8192 + 4096, &[2; 4096]).await;
        }
        let range = 20_000..100_000;
        let _ = driver
            .fs
            .fallocate(
                &Access::root(),
                &node,
                FallocateMode::Punch,
                range.clone(),
                NOW,
            )
            .await;
        let zero = FallocateMode::Zero { keep_size: false };
        let _ = driver
            .fs
            .fallocate(&Access::root(), &node, zero, range, NOW)
            .await;
        let _ = driver
            .fs
            .set_xattr(&node, b"user.b", &[3; 500], XattrFlags::Any, NOW)
            .await;
        let _ = driver.cut(&node, 5000).await;
    }
    let _ = driver.mkdir("dir/new").await;
    let _ = driver.rename("dir/below", "below", false).await;
    let _ = driver.rename("link", "dir/link", false).await;
    let _ = driver.rmdir("below").await;
    let _ = driver.unlink("dir/sparse").await;
    let _ = driver.unlink("long").await;
    let _ = driver.fs.unmount().await;
}

/// Checks an image and prints its structures.
pub(crate) fn inspect(contents: &Contents) {
    let _ = check(contents);
    if let Ok(inspector) = Inspector::new(contents) {
        for ino in [2, 11, 12, 13, 415] {
            let _ = (
                inspector.inode(ino),
                inspector.extents(ino),
                inspector.directory(ino),
            );
        }
        let _ = (inspector.superblock(), inspector.groups());
    }
}

/// Mounts and uses an image; it may be refused.
fn use_image(contents: Contents) {
    inspect(&contents);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(BLOCKS * BLOCK as u64), contents);
    let port = disk.clone();
    let task = sim.clone();
    sim.spawn_detached(async move {
        let _ = extfs::find_journal(&port).await;
        if let Ok(driver) = Driver::mount(&task, disk).await {
            look(&driver).await;
            work(&driver).await;
        }
    });
    for _ in 0..EVENTS {
        if !kernel.step() {
            return;
        }
    }
    panic!("looking at a damaged image goes on and on");
}

fn flip_bits(checksums: bool, rounds: u64) {
    let contents = sample(checksums);
    assert_eq!(check(&contents), []);
    let blocks = metadata(&contents);
    for round in 0..rounds {
        let mut rng = sim::Seed(round).stream("flips");
        let mut damaged = contents.clone();
        for _ in 0..=rng.below(4) {
            let block = blocks[rng.below(blocks.len() as u64) as usize];
            // The start of a block has most of its fields.
            let most = if rng.below(2) == 0 { 128 } else { BLOCK as u64 };
            let bit = rng.below(8);
            change(&mut damaged, block, rng.below(most) as usize, |byte| {
                *byte ^= 1 << bit;
            });
        }
        use_image(damaged);
    }
}

#[test]
fn bit_flips_with_checksums_do_no_harm() {
    flip_bits(true, 60);
}

#[test]
fn bit_flips_without_checksums_do_no_harm() {
    flip_bits(false, 300);
}

#[test]
fn bit_flips_in_metadata_are_found_by_the_checker() {
    let contents = sample(true);
    let blocks = metadata(&contents);
    let (mut found, rounds) = (0, 600);
    for round in 0..rounds {
        let mut rng = sim::Seed(round).stream("flips");
        let mut damaged = contents.clone();
        let block = blocks[rng.below(blocks.len() as u64) as usize];
        let at = rng.below(BLOCK as u64) as usize;
        change(&mut damaged, block, at, |byte| *byte ^= 1 << rng.below(8));
        found += u64::from(!check(&damaged).is_empty());
    }
    // The other flips are in the boot sector, behind the descriptor, behind the inodes in
    // use, and in the journal.
    assert!(found * 100 > rounds * 80, "{found} of {rounds}");
}

#[test]
fn wrong_bytes_in_superblock_or_descriptor_do_no_harm() {
    let contents = sample(false);
    let superblock = (0..0x280).map(|at| (0, SUPERBLOCK + at));
    for (block, at) in superblock.chain((0..64).map(|at| (1, at))) {
        for value in [0, 0xFF] {
            let mut damaged = contents.clone();
            change(&mut damaged, block, at, |byte| *byte = value);
            use_image(damaged);
        }
    }
}

/// Inode number of `dir/sparse`, the file with many extents.
fn sparse_inode(contents: &Contents) -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(BLOCKS * BLOCK as u64), contents.clone());
    kernel.block_on(async move {
        let driver = Driver::mount(&sim, disk).await.unwrap();
        driver.walk("dir/sparse").await.unwrap().ino.0
    })
}

#[test]
fn extent_tree_with_a_cycle_is_found_and_does_no_harm() {
    let contents = sample(false);
    let ino = sparse_inode(&contents);
    let text = Inspector::new(&contents)
        .unwrap()
        .extents(ino as u32)
        .unwrap();
    let (_, rest) = text.split_once("node ").unwrap();
    let node: u64 = rest.lines().next().unwrap().parse().unwrap();
    for depth in 0..6 {
        let mut damaged = contents.clone();
        // The node gets this depth, and an only entry that leads to the node itself.
        change(&mut damaged, node, 6, |byte| *byte = depth);
        change(&mut damaged, node, 2, |byte| *byte = 1);
        for (at, byte) in node.to_le_bytes().into_iter().take(6).enumerate() {
            change(&mut damaged, node, 16 + at, |old| *old = byte);
        }
        assert_ne!(check(&damaged), []);
        use_image(damaged);
    }
}

#[test]
fn wrong_bytes_in_an_inode_do_no_harm() {
    let contents = sample(false);
    let ino = sparse_inode(&contents);
    let inspector = Inspector::new(&contents).unwrap();
    let groups = inspector.groups();
    let (_, rest) = groups.split_once("table ").unwrap();
    let table: u64 = rest.split(',').next().unwrap().parse().unwrap();
    // Half of the bytes with each value, the other half with the next.
    for at in 0..256 {
        for (value, ino) in [(0, ino), (0xFF, ino), (0x5A, 2)] {
            if (at + usize::from(value)) % 2 == 0 {
                continue;
            }
            let mut damaged = contents.clone();
            let byte = (ino as usize - 1) * 256 + at;
            change(
                &mut damaged,
                table + (byte / BLOCK) as u64,
                byte % BLOCK,
                |b| *b = value,
            );
            use_image(damaged);
        }
    }
}

#[test]
fn random_edits_of_metadata_do_no_harm() {
    let contents = sample(false);
    let blocks = metadata(&contents);
    bolero::check!()
        .with_type::<Vec<(u16, u16, u8)>>()
        .with_iterations(100)
        .for_each(|edits| {
            let mut damaged = contents.clone();
            for &(block, at, value) in edits {
                let block = blocks[usize::from(block) % blocks.len()];
                change(&mut damaged, block, usize::from(at), |byte| *byte = value);
            }
            use_image(damaged);
        });
}

#[test]
fn features_not_supported_are_refused_by_name() {
    let mount = |at: usize, bits: u32| {
        let mut image = new_image(&options());
        without_checksums(&mut image);
        let at = SUPERBLOCK + at;
        let old = u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        image[at..at + 4].copy_from_slice(&(old | bits).to_le_bytes());
        let kernel = Kernel::new();
        let (sim, disk) = (kernel.sim(), RamDisk::from_image(&kernel.sim(), &image));
        kernel.block_on(async move { Driver::mount(&sim, disk).await.err() })
    };
    let features = |name: &str| Some(MountError::Features(name.into()));
    assert_eq!(mount(0x60, 0x8000), features("inline_data"));
    assert_eq!(mount(0x60, 0x1_0010), features("meta_bg, encrypt"));
    assert_eq!(mount(0x60, 0x4000_0000), features("bit 0x40000000"));
    assert_eq!(mount(0x60, 4), Some(MountError::Unrecovered));
    assert_eq!(
        mount(0x64, 0x200),
        Some(MountError::ReadOnly("bigalloc".into()))
    );
    assert_eq!(mount(0x18, 3), Some(MountError::BlockSize(8192)));
}

#[test]
fn journal_of_a_new_file_system_is_found() {
    let kernel = Kernel::new();
    let disk = formatted(&kernel.sim(), &options());
    let place = kernel.block_on(async move { extfs::find_journal(&disk).await });
    let place = place.unwrap().unwrap();
    assert_eq!(place.runs.iter().map(|run| run.len).sum::<u64>(), 1024);
    assert!(!place.needs_recovery);
}
