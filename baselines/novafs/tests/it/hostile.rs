//! Media with arbitrary contents: each is rejected or usable, and no call panics, hangs or takes
//! much memory.

use crate::bench::{Fs, new_image, with_root};
use host::RamDisk;
use novafs::{Damage, Finding, MkfsOptions, MountError, MountOptions, NovaFs, check, mkfs};
use sim::{Kernel, Seed, Sim};
use units::Bytes;
use vfs::{Access, OpenFlags, PAGE, Process, RenameFlags, Source, XattrFlags};

/// Pages of an image for 2 cores, whose tables are at pages 3 and 4.
const PAGES: u64 = 200;

/// A small file system with every structure, and logs of two pages.
fn image() -> Vec<u8> {
    with_root(PAGES, |p| async move {
        p.mkdir(b"/d", 0o755).await.unwrap();
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = p.open(b"/d/file", flags, 0o644).await.unwrap();
        for page in 0..70_u64 {
            let source = Source::Fill {
                pattern: page,
                len: 100,
            };
            p.pwrite(fd, page % 20 * 2 * PAGE, source).await.unwrap();
        }
        p.close(fd).await.unwrap();
        p.symlink(b"target", b"/link").await.unwrap();
        p.link(b"/d/file", b"/other").await.unwrap();
        let value = [5; 900];
        let set = p.set_xattr(b"/d/file", b"user.x", &value, XattrFlags::Any);
        set.await.unwrap();
        p.rename(b"/d", b"/e", RenameFlags::default())
            .await
            .unwrap();
        p.exit().await;
    })
}

/// Uses the file system on `disk`, if it can be mounted.
async fn try_it(sim: Sim, disk: RamDisk) -> Result<(), MountError> {
    let body = NovaFs::mount(&sim, &disk, MountOptions::default()).await?;
    let (config, clock) = (crate::bench::cache(false), vfs::Clock::default());
    let vfs = vfs::Vfs::mount(&sim, body, config, clock, vfs::Compute::unlimited());
    let p: Process<Fs> = Process::new(&vfs, Access::root());
    // A corrupt size can be anything: only the near part is read.
    let _ = vfs::model::sizes(&p).await;
    for path in [&b"/e/file"[..], b"/other", b"/link", b"/new"] {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        if let Ok(fd) = p.open(path, flags, 0o644).await {
            let _ = p.read_bytes(fd, 0, 100_000).await;
            let _ = p.pwrite(fd, 5_000, Source::Bytes(b"something")).await;
            let _ = p.ftruncate(fd, 7).await;
            let _ = p.close(fd).await;
        }
        let _ = p.get_xattr(path, b"user.x").await;
    }
    let _ = p.mkdir(b"/e/new", 0o755).await;
    let _ = p.rename(b"/e", b"/new dir", RenameFlags::default()).await;
    let _ = p.unlink(b"/other").await;
    p.exit().await;
    let _ = vfs.unmount().await;
    Ok(())
}

fn use_it(image: &[u8]) -> Result<(), MountError> {
    let _ = check(image);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    kernel.block_on(try_it(sim, disk))
}

/// Offsets of metadata: nonzero bytes of the fixed pages and of log pages.
fn metadata(image: &[u8]) -> Vec<usize> {
    let pages = image.chunks(PAGE as usize).enumerate();
    let is_meta = |(page, bytes): &(usize, &[u8])| *page < 5 || bytes[4032..4036] == *b"NLog";
    let bytes = pages.filter(is_meta).flat_map(|(page, bytes)| {
        let there = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        there
            .map(move |(at, _)| page * PAGE as usize + at)
            .collect::<Vec<_>>()
    });
    bytes.collect()
}

#[test]
fn changed_byte_causes_no_panic_or_hang() {
    let image = image();
    let bytes = metadata(&image);
    assert!(bytes.len() > 1_000, "{}", bytes.len());
    let (mut refused, mut wrong) = (0, image.clone());
    let mut rng = Seed(1).stream("flips");
    for (number, &at) in bytes.iter().enumerate() {
        // Every byte is changed in one way, one in four in a second way.
        for flip in [1 << rng.below(8), 0xFF] {
            if flip == 0xFF && number % 4 > 0 {
                continue;
            }
            wrong[at] ^= flip;
            refused += u64::from(use_it(&wrong).is_err());
            wrong[at] = image[at];
        }
    }
    // Damage to heads, tails, links, kinds and lengths is detected; damage to times and names is
    // not, as only the superblock has a checksum.
    assert!(refused > 200, "{refused}");
}

#[test]
fn noise_causes_no_panic_or_hang() {
    let image = image();
    let bytes = metadata(&image);
    for seed in 0..400 {
        let mut rng = Seed(seed).stream("noise");
        let mut wrong = image.clone();
        for _ in 0..1 + rng.below(20) {
            let at = bytes[rng.below(bytes.len() as u64) as usize];
            let from = bytes[rng.below(bytes.len() as u64) as usize];
            // Whole lines in wrong places, or single bytes.
            if at >= PAGE as usize && rng.below(2) == 0 {
                let (at, from) = (at / 64 * 64, from / 64 * 64);
                let line: Vec<u8> = image[from..from + 64].to_vec();
                wrong[at..at + 64].copy_from_slice(&line);
            } else {
                wrong[at] = rng.next_u64() as u8;
            }
        }
        let _ = use_it(&wrong);
    }
}

/// Page and slot of inode 1: with 2 cores, the first slot of the second table.
const ROOT_SLOT: usize = 4 * PAGE as usize + 128;

fn number(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

fn put(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Makes the checksum of the superblock valid.
fn reseal(image: &mut [u8]) {
    let sum = crc32c::crc32c(&image[..24]);
    image[24..28].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn sealed_superblock_with_any_field_causes_no_panic_or_hang() {
    let image = image();
    let mut same = image.clone();
    reseal(&mut same);
    assert_eq!(same, image, "the checksum is that of the format");
    let numbers = [
        0,
        1,
        2,
        3,
        4,
        64,
        65,
        PAGES - 1,
        PAGES + 1,
        1 << 20,
        1 << 31,
    ];
    let large = [u64::from(u32::MAX), 1 << 32, 1 << 52, 1 << 63, u64::MAX];
    for (at, bytes) in [(8, 4), (12, 4), (16, 8), (12, 8)] {
        for value in numbers.into_iter().chain(large) {
            let mut wrong = image.clone();
            wrong[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            reseal(&mut wrong);
            let mounted = use_it(&wrong);
            // A file system may be a little smaller than its medium.
            let is_smaller = (at, value) == (16, PAGES - 1);
            assert!(
                mounted.is_err() || wrong == image || is_smaller,
                "{at}: {value}"
            );
        }
    }
}

/// Words of inodes, tables and logs as boundaries, neighbours of the old value, and places that
/// exist, the word's own page among them.
#[test]
fn structured_words_cause_no_panic_or_hang() {
    let image = image();
    let bytes = metadata(&image);
    for seed in 0..600 {
        let mut rng = Seed(seed).stream("words");
        let mut wrong = image.clone();
        for _ in 0..1 + rng.below(3) {
            let at = bytes[rng.below(bytes.len() as u64) as usize] / 8 * 8;
            let page = (at as u64 / PAGE, rng.below(PAGES));
            let old = number(&image, at);
            let values = [
                0,
                1,
                u64::MAX,
                old.wrapping_add(1),
                old.wrapping_sub(1),
                page.0,
            ];
            let places = [
                page.0 * PAGE,
                page.1,
                page.1 * PAGE,
                PAGES,
                PAGES * PAGE,
                1 << 62,
            ];
            let value = match rng.below(2) {
                0 => values[rng.below(6) as usize],
                _ => places[rng.below(6) as usize],
            };
            put(&mut wrong, at, value);
        }
        reseal(&mut wrong);
        let _ = use_it(&wrong);
    }
}

#[test]
fn cyclic_log_is_rejected() {
    let mut image = image();
    // The file has the log of two pages.
    let pages = image.chunks(PAGE as usize).enumerate();
    let mut logs = pages.filter(|(_, bytes)| bytes[4032..4036] == *b"NLog" && bytes[4048] != 0);
    let (page, bytes) = logs.next().expect("a log has two pages");
    let ino = number(bytes, 4040);
    put(&mut image, page * PAGE as usize + 4048, page as u64);
    assert_eq!(check(&image[..])[0], Finding::Damage(Damage::Inode { ino }));
    let refused = use_it(&image).unwrap_err();
    assert_eq!(refused, MountError::Damaged(Damage::Inode { ino }));
}

#[test]
fn cyclic_table_is_rejected() {
    for (core, page) in [(0, 3), (1, 4)] {
        let mut image = image();
        put(&mut image, page * PAGE as usize + 16, page as u64);
        let refused = use_it(&image).unwrap_err();
        let index = 1;
        assert_eq!(refused, MountError::Damaged(Damage::Table { core, index }));
        let damage = Finding::Damage(Damage::Table { core, index });
        assert!(check(&image[..]).contains(&damage));
    }
}

#[test]
fn page_shared_by_two_files_is_rejected() {
    let mut image = image();
    let root = number(&image, ROOT_SLOT + 16);
    let other = (1..64).map(|slot| 3 * PAGE as usize + slot * 128);
    let mut other =
        other.filter(|&at| at != ROOT_SLOT && image[at + 4] == 1 && number(&image, at + 16) != 0);
    let slot = other.next().expect("another inode has a log");
    put(&mut image, slot + 16, root);
    put(&mut image, slot + 24, root * PAGE + 64);
    assert!(matches!(
        use_it(&image),
        Err(MountError::Damaged(
            Damage::Shared { .. } | Damage::Inode { .. }
        ))
    ));
    assert_ne!(check(&image[..]), []);
}

#[test]
fn mount_rejects_other_contents() {
    let nothing = vec![0; 200 * PAGE as usize];
    assert_eq!(use_it(&nothing), Err(MountError::Superblock));
    assert_eq!(check(&nothing[..]), [Finding::Superblock]);
    assert_eq!(check(&[][..]), [Finding::Superblock]);
    let short = &image()[..150 * PAGE as usize];
    let (pages, found) = (PAGES, 150);
    assert_eq!(use_it(short), Err(MountError::Short { pages, found }));
    let kernel = Kernel::new();
    let disk = RamDisk::new(&kernel.sim(), Bytes(60 * PAGE));
    let made = kernel.block_on(async move { mkfs(&disk, &MkfsOptions::default()).await });
    let (pages, cores, least) = (60, 4, 73);
    assert_eq!(
        made,
        Err(MountError::Size {
            pages,
            cores,
            least
        })
    );
    let mut rootless = new_image(PAGES, 2);
    rootless[ROOT_SLOT + 4] = 0;
    assert_eq!(use_it(&rootless), Err(MountError::Damaged(Damage::Root)));
}

#[test]
fn the_checker_sees_wrong_names_and_links() {
    let find = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = image();
        change(&mut image);
        check(&image[..])
    };
    let root = number(&image(), ROOT_SLOT + 16) as usize * PAGE as usize;
    // The first entry of the root's log is the name `d`, which was moved later; the
    // second one leads to the symbolic link.
    let found = find(&|image| put(image, root + 64 + 8, 99));
    assert!(
        found.iter().any(|f| matches!(
            f,
            Finding::Name {
                dir: 1,
                ino: 99,
                ..
            }
        )),
        "{found:?}"
    );
    assert!(
        found.iter().any(|f| matches!(f, Finding::Lost(_))),
        "{found:?}"
    );
    let tail = number(&image(), ROOT_SLOT + 24) as usize;
    let found = find(&|image| image[tail - 64 + 4] = 9);
    assert!(
        found.iter().any(|f| matches!(
            f,
            Finding::Links {
                ino: 1,
                said: 9,
                ..
            }
        )),
        "{found:?}"
    );
    let journal = 2 * PAGE as usize;
    let found = find(&|image| {
        let done = number(image, journal + 8);
        put(image, journal + 64, done + 1);
    });
    assert_eq!(found, [Finding::Pending(1)]);
}
