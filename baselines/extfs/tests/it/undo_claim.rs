//! The claim of the undo journal: e2fsck and the block journal refuse a file system with lines to
//! undo.

use crate::driver::Driver;
use crate::tools::{assert_clean, has, run, save, text};
use crate::undo::{BLOCKS, Contents, assert_sound, empty, half_done, holding, mounted};
use extfs::ext4::{self, Ext4Error, Options};
use extfs::jbd2::JournalError;
use extfs::lines::undo::Undone;
use extfs::{BLOCK, MountError, find_journal, pmfs};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Seed};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Blocks of two groups, so that the file system has a copy of the superblock.
const TWO_GROUPS: u64 = 40_960;

/// Reaction of another implementation to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Refused,
    Whole,
}

fn image(contents: Contents) -> Vec<u8> {
    let kernel = Kernel::new();
    holding(&kernel.sim(), BLOCKS, contents).to_image()
}

fn e2fsck(how: &str, image: &Path) -> String {
    let output = run(Command::new("e2fsck").arg(how).arg(image));
    text(&output)
}

/// Mounts with the block journal; checks the structure if the mount succeeds.
fn by_block_journal(contents: Contents) -> Taken {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, BLOCKS, contents);
    let kept = disk.clone();
    let taken = kernel.block_on(async move {
        let asked = ext4::has_to_recover(&disk).await.map(drop);
        match ext4::mount(&sim, &disk, Options::default()).await {
            Ok((body, _)) => {
                asked.unwrap();
                Driver::new(body).unmount().await;
                Taken::Whole
            }
            Err(Ext4Error::Journal(JournalError::Lent)) => {
                let asked = asked.unwrap_err();
                assert!(matches!(asked, Ext4Error::Journal(JournalError::Lent)));
                Taken::Refused
            }
            Err(error) => panic!("{error}"),
        }
    });
    if taken == Taken::Whole {
        assert_eq!(extfs::check(&kept.to_image()[..]), []);
    }
    taken
}

/// Runs `e2fsck`, which must refuse the image or find no fault.
fn by_others(contents: Contents) -> Taken {
    let dir = tempfile::tempdir().unwrap();
    let image = save(dir.path(), "image", &image(contents));
    if e2fsck("-fn", &image).contains("unknown incompatible feature") {
        return Taken::Refused;
    }
    assert_clean_or_unreplayed(&image);
    Taken::Whole
}

/// [`assert_clean`] without complaints about a journal that was not replayed.
fn assert_clean_or_unreplayed(image: &Path) {
    let output = run(Command::new("e2fsck").arg("-fn").arg(image));
    assert!(output.status.success(), "{}", text(&output));
}

fn undone(contents: Contents) -> Undone {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), BLOCKS, contents));
    let kept = disk.clone();
    let undone = kernel.block_on(async move {
        let (driver, undone) = mounted(&sim, &disk).await;
        driver.unmount().await;
        undone
    });
    assert_eq!(extfs::check(&kept.to_image()[..]), []);
    undone
}

#[test]
fn file_system_with_lines_to_undo_is_refused_by_others_at_any_cut() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, BLOCKS);
    let kept = disk.clone();
    sim.clone().spawn_detached(async move {
        let (driver, _) = mounted(&sim, &disk).await;
        for file in 0..2 {
            driver.put(&format!("f{file}"), &[7; 100]).await.unwrap();
        }
        driver.unmount().await;
    });
    let asks = has("e2fsck");
    let mut rng = Seed(4).stream("cuts");
    let (mut turns, mut last, mut half_done) = (0, Taken::Whole, 0);
    while kernel.step() {
        let left = kept.after_cut(&mut rng);
        let taken = by_block_journal(left.clone());
        if asks {
            assert_eq!(by_others(left.clone()), taken);
        }
        if undone(left).lines > 0 {
            assert_eq!(taken, Taken::Refused);
            half_done += 1;
        }
        turns += u64::from(taken != last);
        last = taken;
    }
    assert!(half_done > 0);
    assert_eq!((turns, last), (2, Taken::Whole), "it is refused once");
}

#[test]
fn file_system_with_lines_to_undo_is_not_changed_by_others() {
    let left = half_done(BLOCKS, 1);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, BLOCKS, left);
    let before = disk.to_image();
    kernel.block_on({
        let (sim, disk) = (sim.clone(), disk.clone());
        async move {
            let refused = ext4::mount(&sim, &disk, Options::default()).await;
            let said = refused.err().unwrap().to_string();
            assert!(said.contains("flashloom mount pmfs"), "{said}");
        }
    });
    if has("e2fsck") {
        let dir = tempfile::tempdir().unwrap();
        let image = save(dir.path(), "image", &before);
        let said = e2fsck("-fy", &image);
        assert!(said.contains("unknown incompatible feature"), "{said}");
        assert!(std::fs::read(&image).unwrap() == before);
    }
    assert!(disk.to_image() == before);
    kernel.block_on({
        let (sim, disk) = (sim.clone(), disk.clone());
        async move {
            let (driver, undone) = mounted(&sim, &disk).await;
            assert!(undone.lines > 0);
            driver.unmount().await;
        }
    });
    assert_sound(&disk.to_image());
}

/// Changes bytes of a block.
fn edit(contents: &mut Contents, block: u64, edit: impl FnOnce(&mut [u8; BLOCK])) {
    let mut bytes = contents.get(&block).map_or([0; BLOCK], Payload::to_bytes);
    edit(&mut bytes);
    contents.insert(block, Payload::Bytes(Arc::new(bytes)));
}

#[test]
fn torn_superblock_is_refused_as_claimed_not_as_damaged() {
    // A cut has stored the head of the list of orphans and not the checksum.
    let mut left = half_done(BLOCKS, 1);
    edit(&mut left, 0, |block| block[1024 + 0xe8] ^= 1);
    assert_eq!(by_block_journal(left), Taken::Refused);
}

/// Changes the superblock and updates its checksum.
fn edit_superblock(contents: &mut Contents, change: impl FnOnce(&mut [u8])) {
    edit(contents, 0, |block| {
        let superblock = &mut block[1024..2048];
        change(superblock);
        let sum = !crc32c::crc32c(&superblock[..1020]);
        superblock[1020..].copy_from_slice(&sum.to_le_bytes());
    });
}

/// The first block of the journal.
fn journal(contents: &Contents) -> u64 {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), BLOCKS, contents.clone());
    let found = kernel.block_on(async move { find_journal(&disk).await });
    found.unwrap().unwrap().runs[0].start
}

#[test]
fn records_left_after_an_unmount_are_void() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, BLOCKS);
    let kept = disk.clone();
    kernel.block_on(async move {
        let (driver, _) = mounted(&sim, &disk).await;
        for file in 0..20 {
            driver.put(&format!("f{file}"), &[7; 100]).await.unwrap();
        }
        driver.unmount().await;
    });
    let mut left = kept.after_cut(&mut Seed(1).stream("cut"));
    // Models a mount by another implementation that was cut after it overwrote a part of the
    // records: the other records lack the marks of their commits.
    edit_superblock(&mut left, |superblock| superblock[0x60] |= 4);
    let first = journal(&left) + 2;
    for block in first..first + 4 {
        edit(&mut left, block, |bytes| {
            for line in bytes.chunks_mut(64).filter(|line| line[6] == 0) {
                line.fill(0);
            }
        });
    }
    assert_eq!(undone(left.clone()), Undone::default());
    // A mount that sets the claim and is cut at once does not make the records valid.
    edit(&mut left, first - 2, |superblock| {
        superblock[0x28] |= 0x40;
        superblock[0xfc..0x100].fill(0);
        let sum = !crc32c::crc32c(&superblock[..1024]);
        superblock[0xfc..0x100].copy_from_slice(&sum.to_be_bytes());
    });
    assert_eq!(by_block_journal(left.clone()), Taken::Refused);
    assert_eq!(undone(left), Undone::default());
}

async fn refused(disk: &RamDisk, sim: &sim::Sim) -> MountError {
    let mounted = pmfs::mount(sim, disk, pmfs::Options::default()).await;
    mounted.err().expect("it is damaged")
}

#[test]
fn block_journal_that_is_not_empty_is_refused() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = empty(&sim, BLOCKS);
    let kept = disk.clone();
    kernel.block_on({
        let (sim, disk) = (sim.clone(), disk.clone());
        async move { mounted(&sim, &disk).await.0.unmount().await }
    });
    // The head of the records is whole, and the claim is not set.
    let mut left = kept.after_cut(&mut Seed(1).stream("cut"));
    let at = journal(&left);
    edit(&mut left, at, |superblock| {
        superblock[0x1f] = 1;
        superblock[0xfc..0x100].fill(0);
        let sum = !crc32c::crc32c(&superblock[..1024]);
        superblock[0xfc..0x100].copy_from_slice(&sum.to_be_bytes());
    });
    let disk = holding(&sim, BLOCKS, left);
    let before = disk.to_image();
    let kept = disk.clone();
    let refused = kernel.block_on(async move { refused(&disk, &sim).await });
    assert_eq!(refused, MountError::Unrecovered);
    assert!(kept.to_image() == before, "nothing was changed");
}

/// Mounts a copy of `disk`; returns the names in the root and the undone work.
fn names(disk: &RamDisk) -> (Vec<Vec<u8>>, Undone) {
    let kernel = Kernel::new();
    let (sim, contents) = (kernel.sim(), disk.after_cut(&mut Seed(0).stream("all")));
    let disk = holding(&sim, disk.size().0 / BLOCK as u64, contents);
    kernel.block_on(async move {
        let (driver, undone) = mounted(&sim, &disk).await;
        let listed = driver.list(&driver.root().await).await.unwrap();
        (listed.into_iter().map(|entry| entry.name).collect(), undone)
    })
}

#[test]
fn mount_with_a_damaged_first_superblock_undoes_lines_through_its_copy() {
    let left = half_done(TWO_GROUPS, 3);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let (whole, _) = names(&holding(&sim, TWO_GROUPS, left.clone()));
    for torn in [false, true] {
        let mut left = left.clone();
        edit(&mut left, 0, |block| match torn {
            // The superblock names another inode as the journal.
            true => block[1024 + 0xe0] ^= 1,
            false => block.fill(0),
        });
        let disk = holding(&sim, TWO_GROUPS, left);
        let kept = disk.clone();
        let sim = sim.clone();
        let refused = kernel.block_on(async move { refused(&disk, &sim).await });
        assert_eq!(refused, MountError::Copied(32_768));
        if !has("e2fsck") {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let image = save(dir.path(), "image", &kept.to_image());
        let from_copy = ["-fy", "-b", "32768", "-B", "4096"];
        run(Command::new("e2fsck").args(from_copy).arg(&image));
        assert_clean(&image);
        let repaired = std::fs::read(&image).unwrap();
        let repaired = RamDisk::from_image(&kernel.sim(), &repaired);
        assert_eq!(names(&repaired), (whole.clone(), Undone::default()));
    }
}

#[test]
fn mount_without_a_sound_superblock_changes_nothing() {
    for (at, expected) in [
        (1024 + 0x38, MountError::Magic(0xef52)),
        (
            1024 + 0xe0,
            MountError::Journal("it is not made of extents"),
        ),
    ] {
        let mut left = half_done(BLOCKS, 3);
        edit(&mut left, 0, |block| block[at] ^= 1);
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = holding(&sim, BLOCKS, left);
        let (kept, before) = (disk.clone(), disk.to_image());
        let refused = kernel.block_on(async move { refused(&disk, &sim).await });
        assert_eq!(refused, expected);
        assert!(kept.to_image() == before);
    }
}
