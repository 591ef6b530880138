//! Fast and thorough cleaning of logs in use.

use crate::bench::{Fs, mounted, new_image, with_root};
use crate::model::agree;
use host::{Purpose, RamDisk};
use novafs::Cleaning;
use sim::{Kernel, Rng};
use vfs::model::{Op, list_renaming};
use vfs::{Access, FallocateMode, OpenFlags, PAGE, Process, RenameFlags, Source, XattrFlags};

const NAMES: [&str; 6] = [
    "/a",
    "/b",
    "/c",
    "/d/e",
    "/d/f",
    "/a long name that takes two lines of a log",
];

fn path(rng: &mut Rng) -> Vec<u8> {
    NAMES[rng.below(6) as usize].as_bytes().to_vec()
}

/// A small change of one of a few files that stay, so that their logs grow.
pub(crate) fn small_op(rng: &mut Rng) -> Op {
    match rng.below(40) {
        0..16 => small_name_op(rng),
        _ => small_file_op(rng),
    }
}

fn small_name_op(rng: &mut Rng) -> Op {
    let (one, two) = (path(rng), path(rng));
    let name = b"user.x".to_vec();
    match rng.below(16) {
        0..4 => Op::Open {
            path: one,
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        4..6 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: rng.below(2) == 0,
                exchange: false,
            },
        },
        6 => Op::Unlink { path: one },
        7 => Op::Link {
            path: one,
            new: two,
        },
        8 => Op::Mkdir {
            path: b"/d".to_vec(),
        },
        9..12 => Op::Chmod {
            path: one,
            mode: rng.below(0o1000) as u16,
        },
        12..15 => Op::SetXattr {
            path: one,
            name,
            value: vec![7; [3, 300, 900][rng.below(3) as usize]],
            flags: XattrFlags::Any,
        },
        _ => Op::RemoveXattr { path: one, name },
    }
}

fn small_file_op(rng: &mut Rng) -> Op {
    let (fd, offset) = (rng.below(6) as u32, rng.below(12) * PAGE);
    let len = [8, 4_096, 9_000][rng.below(3) as usize];
    let keep_size = true;
    let modes = [
        FallocateMode::Punch,
        FallocateMode::Allocate { keep_size },
        FallocateMode::Zero { keep_size },
    ];
    match rng.below(24) {
        0..3 => Op::Ftruncate {
            fd,
            size: rng.below(50_000),
        },
        3..5 => Op::Fallocate {
            fd,
            mode: modes[rng.below(3) as usize],
            offset,
            len,
        },
        5..9 => Op::Read { fd, offset, len },
        _ => Op::Write {
            fd,
            offset,
            byte: rng.next_u64() as u8,
            len,
        },
    }
}

#[test]
fn cleaning_is_invisible_to_programs() {
    let mut all = Cleaning::default();
    for seed in 0..6 {
        let cleaning = agree(seed, 2_048, small_op, 8_000);
        all.unlinked += cleaning.unlinked;
        all.rewritten += cleaning.rewritten;
        all.gained += cleaning.gained;
    }
    assert!(all.unlinked > 50 && all.rewritten > 50, "{all:?}");
    assert!(all.gained > 20, "{all:?}");
}

/// Bytes written for one purpose.
fn written(disk: &RamDisk, purpose: Purpose) -> u64 {
    let write = disk.ledger().purpose(purpose).write;
    assert_eq!(write.block, 0, "nothing goes by blocks");
    write.byte
}

#[test]
fn a_page_of_dead_entries_is_unlinked_without_writing_any() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(512, 1));
    let port = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk.clone(), false).await;
        let process = Process::new(&vfs, Access::root());
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/f", flags, 0o600).await.unwrap();
        let before = written(&disk, Purpose::Pointer);
        // Each write replaces the same page: of 63 entries in a log page, only the last is live.
        for byte in 0..1_000_u64 {
            let source = Source::Fill {
                pattern: byte,
                len: PAGE,
            };
            process.pwrite(fd, 0, source).await.unwrap();
        }
        let cleaning = vfs.body().cleaning();
        // 1000 entries fill 15 pages and start another; the first page is live until the second
        // starts, and the page of the tail stays.
        assert_eq!((cleaning.unlinked, cleaning.rewritten), (14, 0));
        // 1000 entries of a line; with each page its trailer, and a link to it.
        let lines = written(&disk, Purpose::Pointer) - before;
        let links = 16 + 15 + cleaning.unlinked;
        assert!(
            (1_000 + 16 + 15..=1_000 + links).contains(&(lines / 64)),
            "{}",
            lines / 64
        );
        process.close(fd).await.unwrap();
        vfs.unmount().await.unwrap();
    });
    assert_eq!(novafs::check(&port.to_image()[..]), []);
}

async fn make(process: &Process<Fs>, path: &[u8]) {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    let fd = process.open(path, flags, 0o600).await.unwrap();
    process.close(fd).await.unwrap();
}

#[test]
fn listing_ends_although_every_entry_is_renamed() {
    with_root(512, |process| async move {
        assert_eq!(list_renaming(&process, 30).await, Ok(2 + 30));
        process.exit().await;
    });
}

#[test]
fn a_log_that_is_mostly_dead_is_written_anew() {
    with_root(512, |process| async move {
        let stays = |round| format!("stays {round:02}").into_bytes();
        // Each page gets a name that stays, so no page is dead as a whole.
        for round in 0..20 {
            make(&process, &[b"/", &stays(round)[..]].concat()).await;
            for n in 0..40 {
                let name = format!("/goes {}", n % 3).into_bytes();
                make(&process, &name).await;
                process.unlink(&name).await.unwrap();
            }
        }
        let cleaning = process.vfs().body().cleaning();
        assert!(cleaning.rewritten >= 5, "{cleaning:?}");
        assert!(cleaning.gained >= cleaning.rewritten, "{cleaning:?}");
        process.vfs().drop_caches().await.unwrap();
        let fd = process.open(b"/", OpenFlags::READ, 0).await.unwrap();
        let names = process.read_dir(fd, 100).await.unwrap();
        let names: Vec<_> = names.into_iter().skip(2).map(|entry| entry.name).collect();
        let expected: Vec<_> = (0..20).map(stays).collect();
        assert_eq!(names, expected, "in the order of their making");
        process.exit().await;
    });
}
