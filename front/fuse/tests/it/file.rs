//! A drive as a file: reads return earlier writes, and invalid calls are refused.

use crate::support::{Shown, config};
use engine::Pace;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::unistd::{Whence, lseek};
use sim::{Rng, Seed};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// A random range of a file of `size` bytes: of bytes, sectors or pages.
fn range(rng: &mut Rng, size: usize, most: usize) -> (usize, usize) {
    let unit = [1, 512, 4096][rng.below(3) as usize];
    let len = (1 + rng.below(most as u64) as usize).next_multiple_of(unit);
    let start = rng.below((size - len) as u64) as usize / unit * unit;
    (start, len)
}

fn filled(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&rng.next_u64().to_le_bytes()[..piece.len()]);
    }
    bytes
}

fn clear(file: &File, mode: FallocateFlags, start: usize, len: usize) {
    let mode = FallocateFlags::FALLOC_FL_KEEP_SIZE | mode;
    fallocate(file, mode, start as i64, len as i64).expect("never refused");
}

fn read(file: &File, start: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; len];
    file.read_exact_at(&mut bytes, start as u64)
        .expect("it can be read");
    bytes
}

/// Random requests of any size and place, compared with a model in memory.
fn play(protected: bool) {
    let shown = Shown::new(&config(protected), Pace::Free);
    let (file, size) = (shown.open(), 32 * MIB);
    let mut rng = Seed(7).stream("requests");
    let mut model = vec![0; size];
    for _ in 0..800 {
        let (start, len) = range(&mut rng, size, 300_000);
        match rng.below(8) {
            0 => file.sync_data().expect("it can be flushed"),
            1 => {
                clear(&file, FallocateFlags::FALLOC_FL_PUNCH_HOLE, start, len);
                model[start..start + len].fill(0);
            }
            2 => {
                clear(&file, FallocateFlags::FALLOC_FL_ZERO_RANGE, start, len);
                model[start..start + len].fill(0);
            }
            3 | 4 => assert!(read(&file, start, len) == model[start..start + len]),
            _ => {
                let bytes = filled(&mut rng, len);
                file.write_all_at(&bytes, start as u64)
                    .expect("it can be written");
                model[start..start + len].copy_from_slice(&bytes);
            }
        }
    }
    assert!(read(&file, 0, size) == model);
    drop(file);
    let shown = shown.again();
    assert!(read(&shown.open(), 0, size) == model, "after a shutdown");
}

#[test]
fn random_requests_agree_with_a_model() {
    if judges::has_fuse() {
        play(true);
        play(false);
    }
}

#[test]
fn concurrent_writes_to_one_sector_are_all_kept() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(&config(true), Pace::Free);
    let (writers, pieces, len) = (4, 300, 100);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let file = shown.open();
            scope.spawn(move || {
                for piece in 0..pieces {
                    let at = (piece * writers + writer) * len;
                    let bytes = vec![1 + writer as u8; len];
                    file.write_all_at(&bytes, at as u64)
                        .expect("it can be written");
                }
            });
        }
    });
    let bytes = read(&shown.open(), 0, writers * pieces * len);
    for (index, piece) in bytes.chunks(len).enumerate() {
        let writer = 1 + (index % writers) as u8;
        assert!(piece.iter().all(|&byte| byte == writer), "piece {index}");
    }
}

#[test]
fn direct_requests_reach_the_drive() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(&config(true), Pace::Free);
    let direct = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(shown.path("drive"))
        .expect("O_DIRECT is taken");
    // A vector is not page-aligned, so an aligned part of it is used.
    let mut memory = vec![0x5a_u8; 3 * 4096];
    let from = memory.as_ptr().align_offset(4096);
    direct
        .write_all_at(&memory[from..from + 8192], 4096)
        .expect("written");
    let part = &mut memory[from..from + 8192];
    part.fill(0);
    direct.read_exact_at(part, 4096).expect("read");
    assert!(part.iter().all(|&byte| byte == 0x5a));
    let smart = std::fs::read_to_string(shown.path("smart.json")).expect("counters");
    assert!(smart.contains("\"host_write_bytes\": 8192"), "{smart}");
    assert!(smart.contains("\"host_read_bytes\": 8192"), "{smart}");
    assert!(
        smart.contains("\"schema\": \"flashloom.smart/1\""),
        "{smart}"
    );
}

#[test]
fn size_of_the_file_cannot_change() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(&config(true), Pace::Free);
    let (file, size) = (shown.open(), 32 * MIB as u64);
    file.write_all_at(b"first", 0).expect("written");
    file.write_all_at(b"last", size - 4).expect("written");
    let refused = |result: std::io::Result<()>, errno: Errno| {
        let code = result.expect_err("refused").raw_os_error();
        assert_eq!(code, Some(errno as i32));
    };
    refused(file.set_len(1), Errno::EPERM);
    refused(file.set_len(size + 1), Errno::EPERM);
    refused(file.write_all_at(b"x", size), Errno::ENOSPC);
    assert_eq!(file.write_at(b"last", size - 2).expect("in part"), 2);
    assert_eq!(file.read_at(&mut [0; 8], size).expect("nothing"), 0);
    let mode = FallocateFlags::empty();
    assert_eq!(fallocate(&file, mode, 0, 10), Err(Errno::EOPNOTSUPP));
    clear(
        &file,
        FallocateFlags::FALLOC_FL_PUNCH_HOLE,
        size as usize - 1,
        10,
    );
    drop(
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(shown.path("drive")),
    );
    assert_eq!(shown.open().metadata().expect("attributes").size(), size);
    assert_eq!(read(&shown.open(), 0, 5), b"first");
    let names = std::fs::read_dir(shown.path("")).expect("a directory");
    assert_eq!(names.count(), 2);
    assert!(File::create(shown.path("other")).is_err());
    assert!(std::fs::remove_file(shown.path("drive")).is_err());
    assert!(
        File::options()
            .write(true)
            .open(shown.path("smart.json"))
            .is_err()
    );
}

#[test]
fn unwritten_ranges_are_holes() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(&config(true), Pace::Free);
    let file = shown.open();
    file.write_all_at(&[1; 4096], 8192).expect("written");
    let seek = |from, whence| lseek(&file, from, whence);
    assert_eq!(seek(0, Whence::SeekData), Ok(8192));
    assert_eq!(seek(8200, Whence::SeekData), Ok(8200));
    assert_eq!(seek(8200, Whence::SeekHole), Ok(12288));
    assert_eq!(seek(12288, Whence::SeekData), Err(Errno::ENXIO));
    assert_eq!(seek(0, Whence::SeekHole), Ok(0));
    // A hole of more than 4 GiB is cut at the drive's end.
    clear(&file, FallocateFlags::FALLOC_FL_PUNCH_HOLE, 0, 5 << 30);
    assert_eq!(seek(0, Whence::SeekData), Err(Errno::ENXIO));
    assert_eq!(seek(100, Whence::SeekHole), Ok(100));
}

#[test]
fn request_takes_the_time_of_the_timing_model() {
    if !judges::has_fuse() {
        return;
    }
    let mut config = config(false);
    config.flash.part = "qlc".to_owned();
    let read = config.timing().expect("it has times").read.0;
    let shown = Shown::new(&config, Pace::Wall);
    let file = shown.open();
    file.write_all_at(&[7; 65536], 0).expect("written");
    file.sync_data().expect("flushed");
    let mut least = Duration::MAX;
    for at in 0..16 {
        let start = Instant::now();
        assert_eq!(self::read(&file, at * 4096, 4096), [7; 4096]);
        least = least.min(start.elapsed());
    }
    assert!(
        least >= Duration::from_nanos(read),
        "{least:?} for {read} ns"
    );
    // Sixteen concurrent reads on several dies take less time than serial ones, unless the machine
    // is busy in all 100 attempts.
    let serial = 16 * least.max(Duration::from_millis(1));
    let overlaps = (0..100).any(|_| sixteen_at_once(&file) < serial);
    assert!(overlaps, "never below {serial:?}");
}

fn sixteen_at_once(file: &File) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for at in 0..16 {
            scope.spawn(move || assert_eq!(self::read(file, at * 4096, 4096), [7; 4096]));
        }
    });
    start.elapsed()
}
