//! Tests of the undo journal alone: transactions on a disk in memory, with power cuts at
//! every event.
//!
//! Each task stores version after version to lines of a block of its own. After a cut all lines of
//! a task have the same version: at least the last durable one, and at most the version under way.

use super::area::Area;
use super::claim::Claim;
use super::format::{Record, head};
use super::recover::{Opened, Recovery, Undone};
use super::ring::Ring;
use super::{Durable, Undo};
use crate::buffer::{BLOCK, Buffer};
use crate::geometry::MountError;
use crate::jbd2;
use crate::lines::config::LineOptions;
use crate::lines::medium::Medium;
use crate::lines::snapshot::Piece;
use crate::persist::Run;
use host::{ByteDisk, BytePort, Purpose, RamDisk, Who};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns, Origin, Placement};

const BLOCKS: u64 = 64;
const TASKS: u64 = 5;
/// Lines of a block that a task changes: runs of one, two, three and ten.
const LINES: u64 = 1 | 0b11 << 8 | 0b111 << 16 | 0x3ff << 40;

type Contents = BTreeMap<u64, Payload>;
/// The durable version of each task, and its version under way.
type Ledger = Rc<RefCell<[(u8, u8); TASKS as usize]>>;

fn options() -> LineOptions {
    LineOptions {
        in_place: true,
        compares: false,
        byte_lines: u32::MAX,
        direct_bytes: None,
        open_lines: 1 << 10,
        handles: 8,
        commit_interval: None,
        cache_blocks: 8,
        origin: Origin(0),
        placement: Placement(0),
        compare: Ns::ZERO,
    }
}

/// A journal of two runs with 128 records.
fn area() -> Area {
    let runs = [(10, 3), (40, 1)].map(|(start, len)| Run { start, len });
    Area::new(&runs, BLOCKS).unwrap()
}

fn disk(sim: &Sim, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, Bytes(BLOCKS * BLOCK as u64), contents)
}

/// An undo journal that allocates numbers below `last`.
fn journal(sim: &Sim, last: u32) -> Undo {
    let opened = Opened {
        claim: Claim::new(10, &jbd2::format(4, [0; 16]), Who::default()).unwrap(),
        area: area(),
        epoch: 1,
        undone: Undone::default(),
    };
    Undo {
        ring: RefCell::new(Ring::new(area().slots(), last)),
        ..Undo::new(sim, opened)
    }
}

/// The change from one version of a block to another.
fn change(block: u64, from: u8, to: u8) -> Piece {
    let buffer = Buffer::new(block, Purpose::Metadata, Box::new([to; BLOCK]));
    Piece::of_buffer(&buffer, LINES, false, Some(&[from; BLOCK]))
}

async fn versions(medium: Rc<Medium>, undo: Rc<Undo>, task: u64, ledger: Ledger) {
    for version in 1..=20 {
        let piece = change(20 + task, version - 1, version);
        ledger.borrow_mut()[task as usize].1 = version;
        undo.persist(&medium, &[&piece], None).await.unwrap();
        ledger.borrow_mut()[task as usize].0 = version;
    }
}

/// The epoch in the head on the disk.
fn epoch(contents: &Contents) -> u64 {
    let block = contents.get(&11).map_or([0; BLOCK], Payload::to_bytes);
    let line = block[..64].try_into().unwrap();
    super::format::epoch_of(&line).expect("it is whole at any time")
}

/// Recovers a disk of contents `left`; with `again`, cuts the power at each event of the
/// recovery as well and recovers again.
fn recovered(left: &Contents, again: Option<&mut Rng>) -> Contents {
    let kernel = Kernel::new();
    let disk = disk(&kernel.sim(), left.clone());
    let (port, epoch) = (disk.clone(), epoch(left));
    kernel.sim().spawn_detached(async move {
        let _ = port.recover().await;
        let (area, origin) = (area(), Origin(0));
        let recovery = Recovery {
            port: &ByteDisk::from(&port),
            area,
            origin,
        };
        recovery.undo(epoch).await.unwrap();
        recovery.begin(epoch + 1).await.unwrap();
    });
    let mut again = again;
    while kernel.step() {
        if let Some(rng) = &mut again {
            let twice = recovered(&disk.after_cut(rng), None);
            let once = recovered(left, None);
            assert!(
                same(&once, &twice),
                "a second cut changes what is recovered"
            );
        }
    }
    disk.after_cut(&mut Seed(0).stream("nothing is left to chance"))
}

fn same(a: &Contents, b: &Contents) -> bool {
    let block = |of: &Contents, task| of.get(&(20 + task)).map(Payload::to_bytes);
    (0..TASKS).all(|task| block(a, task) == block(b, task))
}

fn judge(contents: &Contents, ledger: &[(u8, u8); TASKS as usize]) {
    for (task, &(floor, ceiling)) in (0..).zip(ledger) {
        let block = contents
            .get(&(20 + task))
            .map_or([0; BLOCK], Payload::to_bytes);
        let lines = block.as_chunks::<64>().0.iter().enumerate();
        let versions = lines.filter(|(at, _)| LINES >> at & 1 == 1);
        let versions: Vec<u8> = versions.flat_map(|(_, line)| *line).collect();
        let version = versions[0];
        assert!(
            versions.iter().all(|&v| v == version),
            "task {task} is torn"
        );
        let may = (floor..=ceiling).contains(&version);
        assert!(may, "task {task}: {version} of {floor} to {ceiling}");
    }
}

fn explore(seed: u64, last: u32) -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = disk(&sim, Contents::new());
    let (ledger, port) = (Ledger::default(), disk.clone());
    let medium = Rc::new(Medium::new(
        &sim,
        ByteDisk::from(&disk),
        options(),
        Rc::default(),
    ));
    let (kept, promised) = (Rc::clone(&medium), Rc::clone(&ledger));
    let begun = Rc::new(std::cell::Cell::new(false));
    let started = Rc::clone(&begun);
    sim.clone().spawn_detached(async move {
        port.recover().await.unwrap();
        port.store(11 * 4096, &head(1), 0, Who::default())
            .await
            .unwrap();
        port.verify().await.unwrap();
        started.set(true);
        let undo = Rc::new(journal(&sim, last));
        for task in 0..TASKS {
            let (medium, undo) = (Rc::clone(&medium), Rc::clone(&undo));
            let ledger = Rc::clone(&promised);
            sim.spawn_detached(versions(medium, undo, task, ledger));
        }
    });
    let mut rng = Seed(seed).stream("cuts");
    let mut cuts = 0_u64;
    while kernel.step() {
        if !begun.get() {
            continue;
        }
        cuts += 1;
        let left = disk.after_cut(&mut rng);
        let again = cuts.is_multiple_of(25).then_some(&mut rng);
        judge(&recovered(&left, again), &ledger.borrow());
    }
    assert_eq!(*ledger.borrow(), [(20, 20); TASKS as usize]);
    let met = kept.metrics();
    assert!(met.journal_waits > 0, "the ring was never full: {met:?}");
    cuts
}

#[test]
fn lines_of_a_transaction_cut_at_any_event_are_all_old_or_all_new() {
    for seed in 0..3 {
        println!("seed {seed}");
        let cuts = explore(seed, u32::MAX);
        assert!(cuts > 300, "{cuts}");
    }
}

#[test]
fn epoch_out_of_numbers_is_followed_by_another() {
    explore(9, 7);
}

/// Recovers a journal of epoch 1 that holds `lines` as records.
fn read(lines: &[[u8; 64]]) -> Result<Undone, MountError> {
    let kernel = Kernel::new();
    let disk = disk(&kernel.sim(), Contents::new());
    let lines = lines.concat();
    kernel.block_on(async move {
        disk.recover().await.unwrap();
        disk.store(12 * 4096, &lines, 0, Who::default())
            .await
            .unwrap();
        disk.verify().await.unwrap();
        let (area, origin) = (area(), Origin(0));
        let recovery = Recovery {
            port: &ByteDisk::from(&disk),
            area,
            origin,
        };
        recovery.undo(1).await
    })
}

fn line(tx: u32, back: u16, at: u64, old: &[u8]) -> [u8; 64] {
    Record { tx, back, at, old }.encode(1)
}

#[test]
fn records_out_of_range_are_refused() {
    let end = BLOCKS * BLOCK as u64;
    let old = [1; 48];
    assert!(read(&[line(1, 0, 4096, &old)]).is_ok());
    for (what, bad) in [
        ("past the end", line(1, 0, end - 16, &old)),
        ("into the journal", line(1, 0, 40 * 4096, &old)),
        ("older than all", line(1, 2, 4096, &old)),
    ] {
        assert!(read(&[bad]).is_err(), "{what}");
    }
}

#[test]
fn transactions_done_are_not_undone() {
    let old = [1; 16];
    let lines = |records: &[[u8; 64]]| read(records).unwrap().lines;
    let (changed, mark) = (line(5, 0, 4096, &old), line(5, 0, 0, &[]));
    assert_eq!(lines(&[changed]), 1);
    assert_eq!(lines(&[changed, mark]), 0);
    // The mark was overwritten by a record whose distance says that transaction 5 is done.
    assert_eq!(lines(&[changed, line(6, 0, 8192, &old)]), 1);
    assert_eq!(lines(&[changed, line(6, 1, 8192, &old)]), 2);
}

#[test]
fn random_records_are_undone_or_refused() {
    let mut rng = Seed(4).stream("hostile");
    let (mut read_so, mut refused) = (0, 0);
    for _ in 0..500 {
        let count = 1 + rng.below(40);
        let lines: Vec<[u8; 64]> = (0..count)
            .map(|_| {
                let len = rng.below(4) as usize * 16;
                let (tx, back) = (rng.below(6) as u32, rng.below(3) as u16);
                let at = rng.below(BLOCKS * 256 + 2) * 16;
                let mut line = line(tx, back, at, &[rng.below(250) as u8; 48][..len]);
                if rng.chance(1, 8) {
                    line[rng.below(64) as usize] ^= 1 << rng.below(8);
                }
                line
            })
            .collect();
        match read(&lines) {
            Ok(_) => read_so += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read_so > 50 && refused > 50, "{read_so} {refused}");
}
