//! Generation of the superblock with in-place nodes, while the tree of roots grows and shrinks.

use crate::bench::{judge, made};
use crate::seam::{Journal, Left, body, files_on};
use cowfs::MkfsOptions;
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::{Body, Timestamp};

/// Blocks of the disk; enough for a second superblock at 64 MiB.
const BLOCKS: u64 = 17_408;
/// Block numbers of the two superblocks.
const SUPERBLOCKS: [u64; 2] = [16, 16_384];
/// Number of snapshots; their root items need several leaves.
const SNAPSHOTS: u64 = 60;

/// Generations of the two superblocks.
fn generations(blocks: &BTreeMap<u64, Payload>) -> [u64; 2] {
    SUPERBLOCKS.map(|block| {
        let bytes = blocks[&block].to_bytes();
        u64::from_le_bytes(bytes[72..80].try_into().unwrap())
    })
}

/// Number of snapshots after `calls` calls of [`make_and_drop`].
fn left_after(calls: u64) -> u64 {
    calls.min((2 * SNAPSHOTS).saturating_sub(calls))
}

/// Creates all snapshots, then drops all; `done` counts the calls that have returned.
async fn make_and_drop(sim: Sim, disk: RamDisk, journal: Journal, done: Rc<Cell<u64>>) {
    let body = body(&sim, &disk, &journal).await;
    for turn in 0..2 * SNAPSHOTS {
        let name = format!("s{}", turn % SNAPSHOTS);
        let (name, now) = (name.as_bytes(), Timestamp::default());
        match turn < SNAPSHOTS {
            true => drop(body.snapshot(name, false, now).await.unwrap()),
            false => body.drop_snapshot(name, now).await.unwrap(),
        }
        done.set(turn + 1);
    }
    body.unmount().await.unwrap();
    done.set(2 * SNAPSHOTS + 1);
}

/// Mounts the state that a cut has left, which must be sound; returns its number of snapshots.
fn snapshots_in(left: Left) -> u64 {
    let tree = files_on(left, BLOCKS, "a cut");
    tree.0.keys().filter(|path| path.starts_with(b"/s")).count() as u64
}

/// A cut between the writes of the two superblocks leaves different generations: the mount
/// finds the newer one.
#[test]
fn superblock_generation_never_falls_while_snapshots_come_and_go() {
    let kernel = Kernel::new();
    let disk = RamDisk::from_image(&kernel.sim(), &made(&MkfsOptions::new(BLOCKS)));
    let (journal, done) = (Journal::default(), Rc::new(Cell::new(0)));
    let task = make_and_drop(
        kernel.sim(),
        disk.clone(),
        journal.clone(),
        Rc::clone(&done),
    );
    kernel.sim().spawn_detached(task);
    let mut rng = Seed(1).stream("cuts");
    let (mut last, mut cuts) = (0, 0);
    while done.get() <= 2 * SNAPSHOTS {
        let left = disk.after_cut(&mut rng);
        let [first, second] = generations(&left);
        // A published batch that is not yet written out may still change it.
        if journal.is_done() {
            assert!(first >= last, "{first} after {last}");
            last = first;
        }
        if first != second {
            let calls = done.get();
            let found = snapshots_in((left, journal.left()));
            let possible = [left_after(calls), left_after(calls + 1)];
            assert!(possible.contains(&found), "{found} after {calls} calls");
            cuts += 1;
        }
        assert!(kernel.step());
    }
    assert!(cuts > 40, "{cuts}");
    judge(&disk.to_image());
}
