//! PMFS: the body over an undo journal of lines, with contents in place.

use crate::driver::{Driver, formatted};
use crate::model::{Model, compare, step};
use crate::tools::{assert_clean, has, save};
use extfs::ext4;
use extfs::lines::undo::{UndoLines, Undone};
use extfs::{BLOCK, MkfsOptions, MountError, find_journal, pmfs};
use host::{BlockDevice, BlockPort, BytePort, HostConfig, RamDisk};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::front::FrontConfig;
use ssd::{Drive, DriveMedia, Preset};
use std::collections::BTreeMap;
use units::Bytes;
use vfs::Body;

pub(crate) type Pmfs = Driver<UndoLines>;
pub(crate) type Contents = BTreeMap<u64, Payload>;

/// 16 MiB, the smallest with a journal.
pub(crate) const BLOCKS: u64 = 4_096;

pub(crate) fn empty(sim: &Sim, blocks: u64) -> RamDisk {
    formatted(sim, &pmfs::mkfs_options(blocks))
}

pub(crate) async fn mounted(sim: &Sim, disk: &RamDisk) -> (Pmfs, Undone) {
    let mounted = pmfs::mount(sim, disk, pmfs::Options::default()).await;
    let (body, undone) = mounted.unwrap();
    (Driver::new(body), undone)
}

pub(crate) fn assert_sound(image: &[u8]) {
    assert_eq!(extfs::check(image), []);
    if has("e2fsck") {
        let dir = tempfile::tempdir().unwrap();
        assert_clean(&save(dir.path(), "image", image));
    }
}

#[test]
//= pmfs 1
//= pmfs 2
fn random_operations_agree_with_a_model() {
    for seed in 0..3_u64 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = empty(&sim, 64 * 256);
        let kept = disk.clone();
        kernel.block_on(async move {
            let mut rng = Seed(seed).stream("operations");
            let mut model = Model::new();
            let (driver, _) = mounted(&sim, &disk).await;
            for dir in 0..4 {
                driver.mkdir(&format!("d{dir}")).await.unwrap();
            }
            for _ in 0..500 {
                step(&driver, &mut model, &mut rng).await;
            }
            let metrics = driver.fs.persist().metrics();
            assert_eq!(metrics.block_pages, 0, "contents go by bytes");
            assert!(metrics.journal_lines > 0 && metrics.flushes == 0);
            driver.unmount().await;
            let (driver, undone) = mounted(&sim, &disk).await;
            assert_eq!(undone, Undone::default());
            compare(&driver, &model).await;
            driver.unmount().await;
        });
        assert_sound(&kept.to_image());
    }
}

#[test]
fn mounts_with_undo_and_block_journal_alternate() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, BLOCKS);
    kernel.block_on(async move {
        for round in 0..3 {
            let (driver, _) = mounted(&sim, &disk).await;
            driver.put(&format!("p{round}"), b"lines").await.unwrap();
            driver.unmount().await;
            assert_sound(&disk.to_image());
            let other = ext4::mount(&sim, &disk, ext4::Options::default()).await;
            let driver = Driver::new(other.unwrap().0);
            let node = driver.walk(&format!("p{round}")).await.unwrap();
            assert_eq!(driver.read(&node).await.unwrap(), b"lines");
            driver.put(&format!("e{round}"), b"blocks").await.unwrap();
            driver.fs.sync_all().await.unwrap();
            // A mount with the undo journal refuses a block journal that is not replayed.
            let left = disk.after_cut(&mut Seed(1).stream("cut"));
            let left = holding(&sim, BLOCKS, left);
            let refused = pmfs::mount(&sim, &left, pmfs::Options::default()).await;
            assert_eq!(refused.err(), Some(MountError::Unrecovered));
            driver.unmount().await;
        }
        let (driver, _) = mounted(&sim, &disk).await;
        for name in ["p0", "e0", "p2", "e2"] {
            driver.walk(name).await.unwrap();
        }
    });
}

#[test]
fn file_system_without_a_journal_is_refused() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let options = MkfsOptions {
        journal_blocks: None,
        ..MkfsOptions::new(BLOCKS)
    };
    let disk = formatted(&sim, &options);
    kernel.block_on(async move {
        assert!(pmfs::format(&disk, &options).await.is_err());
        let refused = pmfs::mount(&sim, &disk, pmfs::Options::default()).await;
        let none = MountError::Journal("there is none");
        assert_eq!(refused.err(), Some(none));
    });
}

pub(crate) fn holding(sim: &Sim, blocks: u64, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, Bytes(blocks * BLOCK as u64), contents)
}

/// Work that a mount of `contents` undoes; `None` if the mount is refused.
fn undone(blocks: u64, contents: Contents) -> Option<Undone> {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), blocks, contents));
    kernel.block_on(async move {
        let mounted = pmfs::mount(&sim, &disk, pmfs::Options::default()).await;
        mounted.ok().map(|(_, undone)| undone)
    })
}

/// Contents of a file system of `blocks` blocks after a power cut that leaves lines to undo.
pub(crate) fn half_done(blocks: u64, seed: u64) -> Contents {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, blocks);
    let kept = disk.clone();
    sim.clone().spawn_detached(async move {
        let (driver, _) = mounted(&sim, &disk).await;
        for file in 0..1_000 {
            driver.put(&format!("f{file}"), &[7; 100]).await.unwrap();
        }
    });
    let mut rng = Seed(seed).stream("cuts");
    while kernel.step() {
        if !rng.chance(1, 300) {
            continue;
        }
        let left = kept.after_cut(&mut rng);
        if undone(blocks, left.clone()).is_some_and(|undone| undone.lines > 0) {
            return left;
        }
    }
    panic!("no cut left anything half done");
}

#[test]
fn mount_with_a_damaged_journal_does_not_panic() {
    let left = half_done(BLOCKS, 2);
    let mut rng = Seed(2).stream("damage");
    for _ in 0..40 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let mut damaged = left.clone();
        let blocks = kernel.block_on({
            let disk = holding(&sim, BLOCKS, left.clone());
            async move { find_journal(&disk).await.unwrap().unwrap().runs }
        });
        let start = blocks[0].start;
        for _ in 0..1 + rng.below(6) {
            let block = start + rng.below(4);
            let mut bytes = damaged.get(&block).map_or([0; BLOCK], Payload::to_bytes);
            let at = rng.below(BLOCK as u64 / 64) as usize * 64;
            bytes[at..at + 64].fill_with(|| rng.next_u64() as u8);
            damaged.insert(block, Payload::Bytes(std::sync::Arc::new(bytes)));
        }
        let disk = holding(&sim, BLOCKS, damaged);
        kernel.block_on(async move {
            let _ = pmfs::mount(&sim, &disk, pmfs::Options::default()).await;
        });
    }
}

#[test]
fn options_below_their_minimum_are_refused() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, BLOCKS);
    let kept = disk.clone();
    let before = kept.to_image();
    kernel.block_on(async move {
        let none = pmfs::Options {
            handles: 0,
            ..pmfs::Options::default()
        };
        let few = pmfs::Options {
            open_lines: 63,
            ..pmfs::Options::default()
        };
        for (options, what, value, least) in [(none, "handles", 0, 1), (few, "open_lines", 63, 64)]
        {
            let refused = pmfs::mount(&sim, &disk, options).await.err();
            let expected = MountError::Option { what, value, least };
            assert_eq!(refused, Some(expected));
        }
    });
    assert!(kept.to_image() == before, "nothing was changed");
}

#[test]
fn drive_log_without_transactions_is_recovered_before_a_mount() {
    let mut config = (Preset::named("byte").unwrap().config)().resized(Bytes(64 << 20));
    config.flash.keep_contents = true;
    let mut front = FrontConfig::write_log();
    front.log.commits = Bytes(0);
    config.front = Some(front);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = DriveMedia::new(&config, Seed(1)).unwrap();
    let drive = Drive::ready(&sim, &config, media, Seed(1)).unwrap();
    let device = BlockDevice::new(&sim, HostConfig::default(), drive).unwrap();
    assert!(!device.has_transactions());
    kernel.block_on({
        let device = device.clone();
        async move {
            let made = pmfs::mkfs_options(device.capacity().0 / BLOCK as u64);
            pmfs::format(&device, &made).await.unwrap();
            let mounted = pmfs::mount(&sim, &device, pmfs::Options::default()).await;
            let driver = Driver::new(mounted.unwrap().0);
            driver.put("file", b"lines").await.unwrap();
            driver.fs.sync_all().await.unwrap();
        }
    });
    let left = device.drive().at_power_cut();
    let arrived = device.arriving(&mut Seed(1).stream("arriving"));
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let drive = Drive::power_on(&sim, &config, left, Seed(1)).await.unwrap();
        let device = BlockDevice::after_cut(&sim, HostConfig::default(), drive, arrived).unwrap();
        let mounted = pmfs::mount(&sim, &device, pmfs::Options::default()).await;
        let driver = Driver::new(mounted.unwrap().0);
        let node = driver.walk("file").await.unwrap();
        assert_eq!(driver.read(&node).await.unwrap(), b"lines");
        driver.unmount().await;
    });
}
