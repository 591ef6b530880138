//! Contents of files that go through the journal: whole or not at all.

use crate::bench::{
    BLOCKS, Contents, Watch, assert_clean, assert_sound, cache, formatted, holding, mounted, open,
    put, root, small, strict, vfs, watched,
};
use bytefs::{ByteFsError, Data, Metrics, Options};
use extfs::jbd2::{Inspection, inspect};
use extfs::{MkfsOptions, find_journal};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use vfs::OpenFlags;

const PAGE: usize = 4_096;
/// Pages of the file that is written again and again.
const PAGES: usize = 40;

/// A file system with the smallest journal.
pub(crate) fn journaled() -> Contents {
    formatted(&MkfsOptions {
        journal_blocks: Some(1_024),
        ..bytefs::mkfs_options(BLOCKS)
    })
}

pub(crate) fn journal() -> Options {
    Options {
        data: Data::Journal,
        ..strict()
    }
}

/// The least and the greatest version that may be there.
type Promised = Rc<Cell<(u8, u8)>>;

async fn versions(sim: Sim, disk: RamDisk, options: Options, last: u8, promised: Promised) {
    let (body, _) = bytefs::mount(&sim, &disk, options).await.unwrap();
    let vfs = vfs(&sim, body, cache(false));
    let process = root(&vfs);
    let fd = open(&process, "/file").await;
    for version in 1..=last {
        promised.set((version - 1, version));
        put(&process, fd, 0, &[version; PAGES * PAGE]).await;
        promised.set((version, version));
    }
}

/// The versions that a file system shows in its file.
fn shown(left: Contents, options: Options, outside: bool) -> RangeInclusive<u8> {
    let kernel = Kernel::new();
    let (sim, found) = (kernel.sim(), Rc::new(Cell::new((0, 0))));
    let disk = holding(&sim, left);
    let (kept, seen) = (disk.clone(), Rc::clone(&found));
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, options).await;
        let process = root(&vfs);
        if let Ok(fd) = process.open(b"/file", OpenFlags::READ, 0).await {
            let bytes = process.read_bytes(fd, 0, PAGES * PAGE).await.unwrap();
            let of = |end: Option<&u8>| end.copied().unwrap_or(0);
            assert!(bytes.is_empty() || bytes.len() == PAGES * PAGE);
            seen.set((of(bytes.iter().min()), of(bytes.iter().max())));
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_sound(&kept.to_image(), outside);
    found.get().0..=found.get().1
}

/// Cuts after each event; how often a write was half there.
fn halves(contents: Contents, options: Options) -> u64 {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), contents);
    let (kept, promised) = (disk.clone(), Promised::default());
    let work = versions(kernel.sim(), disk, options, 5, Rc::clone(&promised));
    kernel.sim().spawn_detached(work);
    let mut rng = Seed(7).stream("cuts");
    let (mut halves, mut events) = (0, 0);
    while kernel.step() {
        events += 1;
        let (floor, ceiling) = promised.get();
        let left = kept.after_cut(&mut rng);
        let versions = shown(left, options, events % 40 == 0);
        let (least, most) = (*versions.start(), *versions.end());
        assert!(least >= floor && most <= ceiling, "{versions:?}");
        halves += u64::from(least != most);
    }
    assert_eq!(promised.get(), (5, 5), "somebody waits for ever");
    halves
}

#[test]
//= bytefs 4.6
fn a_write_is_there_whole_or_not_at_all_and_in_the_ordered_mode_in_part() {
    assert_eq!(halves(journaled(), journal()), 0);
    assert!(halves(small(), strict()) > 0);
}

/// Contents that a power cut leaves after some versions were forced.
fn after_versions(rng: &mut Rng) -> Contents {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), journaled());
    let (kept, promised) = (disk.clone(), Promised::default());
    let work = versions(kernel.sim(), disk, journal(), 3, Rc::clone(&promised));
    kernel.sim().spawn_detached(work);
    while promised.get() != (3, 3) {
        assert!(kernel.step());
    }
    kept.after_cut(rng)
}

async fn list(disk: &RamDisk) -> Inspection {
    let place = find_journal(disk).await.unwrap().unwrap();
    inspect(disk, &place.runs).await.unwrap()
}

#[test]
//= bytefs 4.7
fn a_replay_that_is_cut_is_repeated() {
    let mut rng = Seed(3).stream("cuts");
    let left = after_versions(&mut rng);
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), left.clone());
    let (sim, kept) = (kernel.sim(), disk.clone());
    kernel.sim().spawn_detached(async move {
        bytefs::mount(&sim, &disk, journal()).await.unwrap();
    });
    let mut cuts = 0;
    while kernel.step() {
        cuts += 1;
        let versions = shown(kept.after_cut(&mut rng), journal(), cuts % 20 == 0);
        assert_eq!(versions, 3..=3, "cut {cuts}");
    }
    assert!(cuts > 10);
    // A mount without a data journal replays the log all the same.
    assert_eq!(shown(left, strict(), true), 3..=3);
}

#[test]
//= bytefs 4.6
fn a_record_bears_the_number_of_its_transaction() {
    let left = after_versions(&mut Seed(4).stream("cuts"));
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), left);
    kernel.block_on(async move {
        let found = list(&disk).await;
        let records = &found.transactions;
        assert!(!records.is_empty() && !found.damaged);
        for pair in records.windows(2) {
            assert!(pair[0].tx < pair[1].tx);
        }
        for record in records {
            assert!(record.tx > 0 && record.copies.len() == PAGES);
        }
    });
}

async fn fill(sim: Sim, disk: RamDisk, watch: Watch, met: Rc<Cell<Metrics>>) {
    let (body, _) = bytefs::mount(&sim, &disk, journal()).await.unwrap();
    watch.set(&body);
    let vfs = vfs(&sim, body, cache(false));
    let process = root(&vfs);
    let fd = open(&process, "/large").await;
    // All of it goes around the journal several times, and the last is larger than it.
    for version in 1..=20 {
        put(&process, fd, 0, &[version; 200 * PAGE]).await;
        put(&process, fd, 17 * 64, &[version + 100; 64]).await;
    }
    put(&process, fd, 0, &[99; 1_500 * PAGE]).await;
    vfs.drop_caches().await.unwrap();
    let bytes = process.read_bytes(fd, 0, 1_500 * PAGE).await.unwrap();
    assert!(bytes.len() == 1_500 * PAGE && bytes.iter().all(|&b| b == 99));
    met.set(vfs.body().persist().metrics());
    process.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn the_journal_goes_around_and_takes_what_fits() {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), journaled());
    let (kept, met) = (disk.clone(), Rc::new(Cell::new(Metrics::default())));
    let (sim, found) = (kernel.sim(), Rc::clone(&met));
    watched(&kernel, |watch| fill(sim, disk, watch, found));
    let met = met.get();
    assert!(met.journaled_pages > 5_000 && met.records > 20, "{met:?}");
    assert!(met.homed_pages >= 1_000, "{met:?}");
    assert!(met.block_pages > 0, "all of it fitted: {met:?}");
    let image = kept.to_image();
    assert_clean(&image);
    let start = (0..).zip(image.as_chunks::<PAGE>().0);
    let contents = start.map(|(at, bytes)| (at, Payload::Bytes(Arc::new(*bytes))));
    let (kernel, contents) = (Kernel::new(), contents.collect());
    let disk = holding(&kernel.sim(), contents);
    kernel.block_on(async move { assert_eq!(list(&disk).await.start, 0, "it is empty") });
}

/// Whatever the journal holds: it is refused, or the file system is there.
#[test]
fn a_damaged_journal_is_refused_without_harm() {
    let mut rng = Seed(5).stream("damage");
    let left = after_versions(&mut rng);
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), left.clone());
    let runs = kernel.block_on(async move { find_journal(&disk).await.unwrap().unwrap().runs });
    let mut refused = 0;
    for _ in 0..60 {
        let mut damaged = left.clone();
        for _ in 0..=rng.below(3) {
            let block = runs[0].start + rng.below(3) * rng.below(60);
            let bytes = damaged.get(&block).map_or([0; PAGE], Payload::to_bytes);
            let mut bytes = Box::new(bytes);
            bytes[rng.below(64) as usize] ^= 1 << rng.below(8);
            damaged.insert(block, Payload::Bytes(Arc::new(*bytes)));
        }
        let kernel = Kernel::new();
        let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), damaged));
        refused += kernel.block_on(async move {
            match bytefs::mount(&sim, &disk, journal()).await {
                Ok(_) => 0,
                Err(ByteFsError::Journal(_)) => 1,
                Err(error) => panic!("{error}"),
            }
        });
    }
    assert!((1..60).contains(&refused), "{refused} refused");
}

#[test]
fn contents_need_a_journal_to_go_through() {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), small()));
    kernel.block_on(async move {
        let refused = bytefs::mount(&sim, &disk, journal()).await.err();
        assert_eq!(refused, Some(ByteFsError::NoJournal));
    });
}
