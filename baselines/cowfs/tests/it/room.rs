//! Full media, and space in chunks newer than the last commit: forced contents are not lost, and
//! a refused call can succeed once space is freed.

use crate::bench::{Fs, cache, eager, judge, made, mounted};
use crate::forces::Slow;
use cowfs::{Btrfs, MkfsOptions, MountOptions, mount, mount_with};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Seed, Sim, join};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::{
    Access, Body, Clock, Compute, Errno, FallocateMode, OpenFlags, Process, Result, Source, Vfs,
};

fn flags() -> OpenFlags {
    OpenFlags::BOTH | OpenFlags::CREATE
}

type Contents = BTreeMap<u64, Payload>;

/// Mount options that leave commits to explicit calls.
fn patient() -> MountOptions {
    MountOptions {
        interval: Ns::secs(1_000_000),
        ..MountOptions::default()
    }
}

/// Runs `work` on a new file system and cuts the power at its end; `seed` selects the unflushed
/// writes that survive.
fn left_by(
    blocks: u64,
    options: MountOptions,
    seed: u64,
    work: impl AsyncFnOnce(Process<Fs>) + 'static,
) -> Contents {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(blocks)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, options, false).await;
        work(Process::new(&vfs, Access::root())).await;
    });
    kept.after_cut(&mut Seed(seed).stream("cut"))
}

/// A disk of `blocks` blocks that holds `contents`, for the mount after a cut.
fn disk(sim: &Sim, blocks: u64, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, Bytes(blocks * vfs::PAGE), contents)
}

/// A log must not lead to contents or nodes in a chunk that no commit holds.
#[test]
fn forced_contents_in_a_new_chunk_survive_a_cut() {
    const BLOCKS: u64 = 32_768;
    let left = left_by(BLOCKS, patient(), 1, async |p| {
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        p.sync().await.unwrap();
        for at in 0..30_u64 {
            let (pattern, len) = (at + 1, 1 << 20);
            let source = Source::Fill { pattern, len };
            p.pwrite(fd, at << 20, source).await.unwrap();
            p.fsync(fd).await.unwrap();
        }
    });
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = disk(&sim, BLOCKS, left);
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, patient(), false).await;
        let p = Process::new(&vfs, Access::root());
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        for at in 0..30_u64 {
            let read = p.read_bytes(fd, at << 20, 1).await.unwrap();
            assert_eq!(read, [at as u8 + 1]);
        }
        p.exit().await;
        vfs.unmount().await.unwrap();
    });
    judge(&kept.to_image());
}

/// Fills all space for contents.
async fn fill(p: &Process<Fs>) {
    let fd = p.open(b"/rest", flags(), 0o600).await.unwrap();
    let mut at = 0;
    for len in [1 << 20, 64 << 10, vfs::PAGE] {
        while let Some(written) = roomy(
            p.pwrite(fd, at, Source::Fill { pattern: 3, len }).await,
            "fill",
        ) && written > 0
        {
            at += written;
        }
    }
    p.sync().await.unwrap();
    p.close(fd).await.unwrap();
}

/// Preallocated space can be written, and so can contents that are overwritten in place.
#[test]
fn space_that_a_file_owns_is_writable_on_a_full_medium() {
    for in_place in [false, true] {
        let options = MountOptions {
            in_place,
            ..patient()
        };
        left_by(12_288, options, 1, async move |p| {
            let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
            let mode = FallocateMode::Allocate { keep_size: false };
            p.fallocate(fd, mode, 0, 4 << 20).await.unwrap();
            p.sync().await.unwrap();
            fill(&p).await;
            for turn in 0..1 + u64::from(in_place) {
                let (pattern, len) = (turn + 9, 4 << 20);
                let written = p.pwrite(fd, 0, Source::Fill { pattern, len }).await;
                assert_eq!(written, Ok(len), "turn {turn}");
                assert_eq!(p.fsync(fd).await, Ok(()));
            }
            let over = Source::Fill {
                pattern: 1,
                len: 8 << 20,
            };
            assert_ne!(p.pwrite(fd, 4 << 20, over).await, Ok(8 << 20), "it is full");
        });
    }
}

/// An extent stays allocated whole while any part of it is referenced, so that a file which is
/// preallocated and then truncated to less keeps its first extent. Linux 6.18 says the same of 100
/// such files: 440 MiB used for 201 MiB (`df` and `du`), as RocksDB's `allow_fallocate` warns of.
#[test]
fn truncated_preallocation_keeps_its_whole_extent() {
    const ASKED: u64 = 4_613_734;
    const KEPT: u64 = 2_100_000;
    left_by(65_536, patient(), 1, async |p| {
        let available = async || {
            p.sync().await.unwrap();
            p.vfs().statfs().await.unwrap().blocks_available
        };
        let before = available().await;
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        let mode = FallocateMode::Allocate { keep_size: true };
        p.fallocate(fd, mode, 0, ASKED).await.unwrap();
        let (pattern, len) = (1, KEPT);
        let written = p.pwrite(fd, 0, Source::Fill { pattern, len }).await;
        assert_eq!(written, Ok(KEPT));
        p.ftruncate(fd, KEPT).await.unwrap();
        p.close(fd).await.unwrap();
        assert_eq!(before - available().await, ASKED.div_ceil(4096));
        p.unlink(b"/a").await.unwrap();
        assert_eq!(available().await, before);
    });
}

/// An allocation larger than the device adds no chunk of contents, so that chunks of nodes can
/// still use the room.
#[test]
fn refused_allocation_takes_no_space() {
    left_by(65_536, patient(), 1, async |p| {
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        let free = p.vfs().statfs().await.unwrap().blocks_available;
        let mode = FallocateMode::Allocate { keep_size: false };
        let asked = p.fallocate(fd, mode, 0, 1 << 50).await;
        assert_eq!(asked, Err(Errno::ENOSPC));
        assert_eq!(p.vfs().statfs().await.unwrap().blocks_available, free);
        // Inline contents need chunks of nodes.
        for number in 0..14_000 {
            let name = format!("/{number}");
            let fd = p.open(name.as_bytes(), flags(), 0o600).await.unwrap();
            let source = Source::Fill {
                pattern: 1,
                len: 2_000,
            };
            p.pwrite(fd, 0, source).await.unwrap();
            p.close(fd).await.unwrap();
        }
        p.sync().await.unwrap();
    });
}

/// The cache keeps the nodes of a commit until they are durable.
#[test]
fn nodes_in_flight_are_served_from_the_cache() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(24_576)));
    let strategy = Slow {
        sim: sim.clone(),
        inner: Btrfs::new(&disk, false),
        published: Rc::new(Cell::new(0)),
    };
    kernel.block_on(async move {
        let options = MountOptions {
            cache: Bytes(0),
            ..patient()
        };
        let (body, _) = mount_with(&sim, strategy, options).await.unwrap();
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, body, cache(true), clock, compute);
        let p = Process::new(&vfs, Access::root());
        for number in 0..12_000 {
            let name = format!("/{}-{number}", "n".repeat(100));
            let fd = p.open(name.as_bytes(), flags(), 0o600).await.unwrap();
            p.close(fd).await.unwrap();
        }
        let list = async {
            sim.sleep(Ns::us(20)).await;
            let dir = p.open(b"/", OpenFlags::READ, 0).await.unwrap();
            let mut count = 0;
            loop {
                let some = p.read_dir(dir, 500).await?;
                count += some.len();
                if some.is_empty() {
                    return Ok::<_, Errno>(count);
                }
            }
        };
        let (all, listed) = join(vfs.sync(), list).await;
        assert_eq!(all, Ok(()));
        assert!(listed.unwrap() >= 12_000);
        p.exit().await;
        vfs.unmount().await.unwrap();
    });
    judge(&disk.to_image());
}

/// The pieces of the file need more nodes in a log than are free.
#[test]
fn force_without_room_for_its_log_commits() {
    const BLOCKS: u64 = 49_152;
    let left = left_by(BLOCKS, patient(), 1, async |p| {
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        let mode = FallocateMode::Allocate { keep_size: false };
        p.fallocate(fd, mode, 0, 110 << 20).await.unwrap();
        fill(&p).await;
        p.sync().await.unwrap();
        for page in 0..13_000_u64 {
            let source = Source::Fill {
                pattern: page + 1,
                len: vfs::PAGE,
            };
            p.pwrite(fd, page * 2 * vfs::PAGE, source).await.unwrap();
        }
        assert_eq!(p.fsync(fd).await, Ok(()));
        let one = Source::Fill {
            pattern: 1,
            len: vfs::PAGE,
        };
        p.pwrite(fd, vfs::PAGE, one).await.unwrap();
        assert_eq!(p.fsync(fd).await, Ok(()));
    });
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = disk(&sim, BLOCKS, left);
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, patient(), false).await;
        let p = Process::new(&vfs, Access::root());
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        for page in (1..13_000_u64).step_by(97) {
            let read = p.read_bytes(fd, page * 2 * vfs::PAGE, 8).await.unwrap();
            assert_eq!(read, (page + 1).to_le_bytes());
        }
        p.exit().await;
        vfs.unmount().await.unwrap();
    });
}

const FILES: usize = 24;
/// Maximum pages of a file.
const PAGES: u64 = 700;

/// Expected pattern of each page, per file; `None` for any contents, after a failed call.
#[derive(Clone, Default)]
struct Expected(Vec<BTreeMap<u64, Option<u64>>>);

impl Expected {
    fn new() -> Self {
        Self(vec![BTreeMap::new(); FILES])
    }

    fn set(&mut self, file: usize, pages: std::ops::Range<u64>, to: Option<u64>) {
        for page in pages {
            self.0[file].insert(page, to);
        }
    }
}

/// The result of a call; `None` for `ENOSPC`. Panics on any other error.
fn roomy<T>(done: Result<T>, what: &str) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(Errno::ENOSPC) => None,
        Err(errno) => panic!("{what} ended with {errno:?}"),
    }
}

fn name(file: usize) -> Vec<u8> {
    format!("/{file}").into_bytes()
}

const fn fill_of(pattern: u64, len: u64) -> Source<'static> {
    Source::Fill { pattern, len }
}

/// Makes one random call and updates `expected`; `stamp` is the pattern it may write.
async fn call(p: &Process<Fs>, rng: &mut sim::Rng, stamp: u64, expected: &mut Expected) {
    let file = rng.below(FILES as u64) as usize;
    let Some(fd) = roomy(p.open(&name(file), flags(), 0o600).await, "open") else {
        return;
    };
    let first = rng.below(PAGES - 64);
    let most = [2, 64][rng.below(2) as usize];
    let pages = first..first + 1 + rng.below(most);
    let (at, len) = (first * vfs::PAGE, (pages.end - first) * vfs::PAGE);
    match rng.below(24) {
        0..11 => {
            let source = fill_of(stamp, len);
            let done = roomy(p.pwrite(fd, at, source).await, "write").unwrap_or(0);
            assert!(done.is_multiple_of(vfs::PAGE));
            expected.set(file, first..first + done / vfs::PAGE, Some(stamp));
        }
        11..13 => {
            let mode = FallocateMode::Allocate { keep_size: false };
            roomy(p.fallocate(fd, mode, at, len).await, "fallocate");
        }
        13..15 => {
            let mode = match rng.below(2) {
                0 => FallocateMode::Punch,
                _ => FallocateMode::Zero { keep_size: true },
            };
            let done = roomy(p.fallocate(fd, mode, at, len).await, "punch");
            expected.set(file, pages, done.map(|()| 0));
        }
        15 => {
            if roomy(p.ftruncate(fd, at).await, "truncate").is_some() {
                expected.0[file].split_off(&first);
            } else {
                expected.set(file, first..PAGES + 64, None);
            }
        }
        16..18 => {
            let to = (file + 1) % FILES;
            if let Some(other) = roomy(p.open(&name(to), flags(), 0o600).await, "open") {
                let done = p.copy_file_range(fd, at, other, at, len).await;
                let done = roomy(done, "copy").map(|done| done.div_ceil(vfs::PAGE));
                let copied = done.map_or(pages.clone(), |done| first..first + done);
                for page in copied {
                    let held = expected.0[file].get(&page).copied().unwrap_or(Some(0));
                    let held = if done.is_some() { held } else { None };
                    expected.0[to].insert(page, held);
                }
                p.close(other).await.unwrap();
            }
        }
        18..20 => {
            if roomy(p.unlink(&name(file)).await, "unlink").is_some() {
                expected.0[file].clear();
            }
        }
        20..23 => assert_eq!(p.fsync(fd).await, Ok(())),
        _ => assert_eq!(p.sync().await, Ok(())),
    }
    p.close(fd).await.unwrap();
}

async fn compare(p: &Process<Fs>, expected: &Expected) {
    for (file, pages) in expected.0.iter().enumerate() {
        let Ok(fd) = p.open(&name(file), OpenFlags::READ, 0).await else {
            assert!(pages.is_empty(), "file {file} is not there");
            continue;
        };
        for (page, held) in pages {
            let Some(held) = held else { continue };
            let mut found = p.read_bytes(fd, page * vfs::PAGE, 8).await.unwrap();
            found.resize(8, 0);
            assert_eq!(found, held.to_le_bytes(), "page {page} of {file}");
        }
        p.close(fd).await.unwrap();
    }
}

/// Four rounds of random calls on a mostly full medium, with a snapshot and a check after each.
async fn crowd(sim: &Sim, disk: &RamDisk, options: MountOptions, seed: u64) {
    let mut rng = Seed(seed).stream("calls");
    let mut expected = Expected::new();
    let mut snapshots = Vec::new();
    for round in 0..4_u64 {
        let (body, _) = mount(sim, disk, options).await.unwrap();
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(sim, body, eager(), clock, compute);
        let p = Process::new(&vfs, Access::root());
        compare(&p, &expected).await;
        for turn in 0..500 {
            let stamp = (round + 1) << 32 | turn;
            call(&p, &mut rng, stamp, &mut expected).await;
        }
        compare(&p, &expected).await;
        assert_eq!(p.sync().await, Ok(()));
        p.exit().await;
        vfs.unmount().await.unwrap();
        assert_eq!(cowfs::check(&disk.to_image()[..]), []);
        let (body, _) = mount(sim, disk, options).await.unwrap();
        let now = vfs::Timestamp::default();
        if snapshots.len() > 1 {
            let gone: Vec<u8> = snapshots.remove(0);
            if roomy(body.drop_snapshot(&gone, now).await, "drop").is_none() {
                snapshots.insert(0, gone);
            }
        }
        let made = format!("s{round}").into_bytes();
        if roomy(body.snapshot(&made, false, now).await, "snapshot").is_some() {
            snapshots.push(made);
        }
        body.unmount().await.unwrap();
        assert_eq!(cowfs::check(&disk.to_image()[..]), []);
    }
    judge(&disk.to_image());
    empty(sim, disk, options, &snapshots).await;
}

/// Removes all files and snapshots, and writes a large file into the freed space.
async fn empty(sim: &Sim, disk: &RamDisk, options: MountOptions, snapshots: &[Vec<u8>]) {
    let mounted_again = async || {
        let (body, _) = mount(sim, disk, options).await.unwrap();
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        Vfs::mount(sim, body, eager(), clock, compute)
    };
    let vfs = mounted_again().await;
    let p = Process::new(&vfs, Access::root());
    for file in 0..FILES {
        match p.unlink(&name(file)).await {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => panic!("unlink ended with {errno:?}"),
        }
    }
    p.sync().await.unwrap();
    p.exit().await;
    vfs.unmount().await.unwrap();
    let (body, _) = mount(sim, disk, options).await.unwrap();
    for name in snapshots {
        body.drop_snapshot(name, vfs::Timestamp::default())
            .await
            .unwrap();
    }
    body.unmount().await.unwrap();
    let vfs = mounted_again().await;
    let p = Process::new(&vfs, Access::root());
    let fd = p.open(b"/again", flags(), 0o600).await.unwrap();
    let (pattern, len) = (7, 12 << 20);
    let written = p.pwrite(fd, 0, Source::Fill { pattern, len }).await;
    assert_eq!(written, Ok(len));
    p.fsync(fd).await.unwrap();
    p.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn crowded_medium_stays_usable_under_random_calls() {
    for seed in 0..4 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let dup = seed % 4 == 1;
        let blocks = if dup { 14_000 } else { 10_240 + seed * 700 };
        let made = made(&MkfsOptions {
            dup,
            ..MkfsOptions::new(blocks)
        });
        let disk = RamDisk::from_image(&sim, &made);
        let options = MountOptions {
            interval: Ns::us(400),
            in_place: seed % 4 == 3,
            cache: Bytes(0),
            ..MountOptions::default()
        };
        let kept = disk.clone();
        kernel.block_on(async move { crowd(&sim, &disk, options, seed).await });
        judge(&kept.to_image());
    }
}
