//! The file of a powered drive, read at any instant.

use engine::{Access, DriveFile, FileError, Keeper};
use host::{Pm, PmConfig, PmMedia};
use sim::{Kernel, Rng, Seed};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Preset};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use units::{Bytes, Extent, KIB, MIB, Origin, Placement};

pub(crate) fn config() -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.flash.keep_contents = true;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 1;
    config.geometry.blocks_per_plane = 20;
    config.controller.write_buffer = Bytes(512 * KIB);
    config.capacity = Bytes(16 * MIB);
    config
}

/// A blank drive in a file of `folder`.
pub(crate) fn made(config: &DriveConfig) -> (TempDir, PathBuf, DriveMedia) {
    let folder = TempDir::new().expect("a directory");
    let path = folder.path().join("d.flash");
    let media = DriveMedia::new(config, Seed(1)).expect("it can be built");
    DriveFile::create(&path, config, &media).expect("written");
    (folder, path, media)
}

/// Writes a page of one pattern; returns the page and its pattern.
fn write(kernel: &Kernel, drive: &Drive, rng: &mut Rng) -> (usize, u64) {
    let (page, pattern) = (rng.below(16 * MIB / 4096), rng.next_u64());
    let drive = drive.clone();
    let bytes = pattern.to_le_bytes().repeat(512);
    kernel.block_on(async move {
        let extent = Extent::new(page * 8, 8);
        let content = Content::Bytes(&bytes);
        let written = drive.write(extent, content, Placement(0), Origin(0), false);
        written.await.expect("written");
    });
    (page as usize, pattern)
}

/// First word of every page of the drive in a file.
fn words(path: &Path) -> Vec<u64> {
    let file = std::fs::File::open(path).expect("it is there");
    let (config, media) = ssd::image::read(&mut std::io::BufReader::new(file)).expect("a drive");
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(2)).expect("it has power");
    let word = |page| {
        let mut bytes = [0; 8];
        if let Some(found) = drive.peek(page) {
            assert!(found[0].copy_to(0, &mut bytes));
        }
        u64::from_le_bytes(bytes)
    };
    (0..drive.layout().host_pages).map(word).collect()
}

#[test]
fn file_holds_a_complete_drive_at_every_instant() {
    let config = config();
    let (_folder, path, _) = made(&config);
    let mut expected = vec![0; (16 * MIB / 4096) as usize];
    let mut rng = Seed(1).stream("pages");
    let (mut renewed, mut last) = (0, 0);
    for _life in 0..3 {
        let file = DriveFile::open(&path, Access::Change).expect("it is free");
        let opened = file.load().expect("a drive");
        let kernel = Kernel::new();
        let media = opened.media.clone();
        let drive = Drive::ready(&kernel.sim(), &config, media, Seed(2)).expect("it has power");
        let mut keeper = Keeper::new(file, &opened, &drive).expect("it can be kept");
        keeper.renew_after(256 * KIB);
        for number in 0..4_000 {
            let (page, pattern) = write(&kernel, &drive, &mut rng);
            expected[page] = pattern;
            keeper.note().expect("noted");
            if number % 800 == 0 {
                assert!(words(&path) == expected, "write {number}");
            }
            let number = std::fs::metadata(&path).expect("it is there").ino();
            renewed += u32::from(std::mem::replace(&mut last, number) != number);
        }
        // The keeper is dropped before it closes the file.
    }
    assert!(words(&path) == expected);
    // The number depends on the speed of this machine's disk; the first file is the original.
    assert!(renewed > 1, "it was written anew {renewed} times");
}

/// Stores a pattern into memory; fences three stores out of four.
fn store(kernel: &Kernel, pm: &Pm, rng: &mut Rng) {
    let (at, pattern) = (rng.below(MIB - 200), rng.next_u64().to_le_bytes());
    let (on, fenced) = (pm.clone(), rng.chance(3, 4));
    kernel.block_on(async move {
        match fenced {
            true => on.persist(at, &pattern.repeat(20)).await,
            false => on.store(at, &pattern).await,
        }
    });
}

/// The file holds the memory beside a drive as a power cut leaves it, also while the file is
/// rewritten.
#[test]
fn memory_beside_a_drive_survives_a_power_cut() {
    let mut config = (Preset::named("ocssd").expect("a preset").config)();
    config.flash.keep_contents = true;
    config.geometry.blocks_per_plane = 20;
    config.capacity = Bytes(16 * MIB);
    let (_folder, path, media) = made(&config);
    let mut file = DriveFile::open(&path, Access::Change).expect("it is free");
    let blank = PmMedia::new(Bytes(MIB));
    let saved = file.save(&config, &media, Some(&blank.kept()));
    saved.expect("written");
    let kept = || {
        let file = std::fs::File::open(&path).expect("it is there");
        let opened = ssd::image::open(&mut std::io::BufReader::new(file));
        opened.expect("a drive").memory.expect("it has memory")
    };
    let mut rng = Seed(1).stream("lines");
    let (mut renewed, mut last, mut lines) = (0, 0, 0);
    for _life in 0..3 {
        let opened = file.load().expect("a drive");
        let kernel = Kernel::new();
        let media = opened.media.clone();
        let drive = Drive::ready(&kernel.sim(), &config, media, Seed(2)).expect("it has power");
        let mut keeper = Keeper::new(file, &opened, &drive).expect("it can be kept");
        keeper.renew_after(256 * KIB);
        let memory = PmMedia::of(opened.memory.expect("it has memory"));
        let pm = Pm::new(&kernel.sim(), PmConfig::default(), memory, None);
        keeper.keep_memory(&pm);
        for turn in 0..4_000 {
            store(&kernel, &pm, &mut rng);
            keeper.note().expect("noted");
            if turn % 400 == 0 {
                assert_eq!(PmMedia::of(kept()), pm.durable(), "turn {turn}");
                lines += u32::from(pm.has_unflushed());
            }
            let number = std::fs::metadata(&path).expect("it is there").ino();
            renewed += u32::from(std::mem::replace(&mut last, number) != number);
        }
        // The keeper is dropped before it closes the file.
        drop(keeper);
        assert_eq!(PmMedia::of(kept()), pm.durable());
        file = DriveFile::open(&path, Access::Change).expect("it is free");
    }
    assert!(renewed > 4 && lines > 10, "{renewed} {lines}");
    let opened = file.load().expect("a drive");
    let kernel = Kernel::new();
    let media = opened.media.clone();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(2)).expect("it has power");
    let keeper = Keeper::new(file, &opened, &drive).expect("it can be kept");
    // The memory was not powered on: its contents stay.
    let left = drive.settled();
    keeper.close(&config, &left).expect("it is written");
    assert_eq!(Some(kept()), opened.memory);
}

#[test]
fn open_waits_for_a_server_that_writes_the_drive() {
    let (_folder, path, _) = made(&config());
    // A server shares the lock until the drive is in its file.
    let others = DriveFile::open(&path, Access::Look).expect("it is free");
    let mut others = Some(others);
    let waited = DriveFile::open_after_others(&path, || drop(others.take()));
    let served = waited.expect("the others are gone");
    assert!(others.is_none(), "somebody was told");
    let waits = DriveFile::open_after_others(&path, || panic!("it is not shared"));
    assert!(matches!(waits, Err(FileError::InUse)));
    drop(served);
}

#[test]
fn shared_lock_excludes_writers() {
    let (_folder, path, media) = made(&config());
    let open = |access| DriveFile::open(&path, access);
    let first = open(Access::Look).expect("it is free");
    let second = open(Access::Look).expect("it is free");
    assert!(matches!(open(Access::Change), Err(FileError::InUse)));
    drop((first, second));
    let mut changes = open(Access::Change).expect("it is free");
    assert!(matches!(open(Access::Look), Err(FileError::InUse)));
    changes.save(&config(), &media, None).expect("saved");
    assert!(
        matches!(open(Access::Look), Err(FileError::InUse)),
        "still locked"
    );
    drop(changes);
    open(Access::Look).expect("it is free");
}
