//! Programs on the file system, compared with the reference model of the file API.

use crate::bench::{mounted, new_image};
use host::RamDisk;
use novafs::{Cleaning, check};
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::Cell;
use std::rc::Rc;
use vfs::model::{Model, Op, Order, Tree, draw, run_beside};
use vfs::{Access, Process};

/// Generator of random calls.
type Draw = fn(&mut Rng) -> Op;

async fn compare(sim: Sim, disk: RamDisk, seed: u64, draw: Draw, calls: u32) -> Cleaning {
    let tiny = seed.is_multiple_of(2);
    let mut rng = Seed(seed).stream("calls");
    let mut model = Model::new(2, Order::Journal);
    let vfs = mounted(&sim, disk.clone(), tiny).await;
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, calls)).await;
    let before = vfs.statfs().await.unwrap();
    vfs.unmount().await.unwrap();
    vfs.check();
    let cleaning = vfs.body().cleaning();
    let vfs = mounted(&sim, disk, tiny).await;
    let after = vfs.statfs().await.unwrap();
    // The page counts of a walk equal those kept while mounted.
    assert_eq!(after.blocks_free, before.blocks_free);
    assert_eq!(after.files_free, before.files_free);
    let process = Process::new(&vfs, Access::root());
    let tree = Tree::read(&process).await.unwrap();
    assert_eq!(vfs::model::check(&model, &tree), []);
    process.exit().await;
    vfs.unmount().await.unwrap();
    cleaning
}

/// Runs calls on a file system of `pages` pages and compares; returns the counters of cleaning.
pub(crate) fn agree(seed: u64, pages: u64, draw: Draw, calls: u32) -> Cleaning {
    println!("seed {seed}");
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let cores = 1 + (seed % 3) as u32;
    let disk = RamDisk::from_image(&sim, &new_image(pages, cores));
    let done = Rc::new(Cell::new(Cleaning::default()));
    let (out, port) = (Rc::clone(&done), disk.clone());
    kernel.block_on(async move { out.set(compare(sim, port, seed, draw, calls).await) });
    assert_eq!(check(&disk.to_image()[..]), []);
    done.get()
}

#[test]
fn random_calls_match_the_reference_model() {
    for seed in 0..24 {
        agree(seed, 4_096, draw, 2_000);
    }
}
