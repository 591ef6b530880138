//! Random calls of two processes, compared with the reference model of the file API.

use crate::bench::{judge, made, mounted};
use host::RamDisk;
use lfs::MkfsOptions;
use sim::{Kernel, Seed, Sim};
use vfs::model::{Model, Order, Tree, draw, run_beside};
use vfs::{Access, Process};

async fn compare(sim: Sim, disk: RamDisk, seed: u64, calls: u32) {
    let tiny = seed.is_multiple_of(2);
    let mut rng = Seed(seed).stream("calls");
    let mut model = Model::new(2, Order::Journal);
    let vfs = mounted(&sim, disk.clone(), tiny).await;
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, calls)).await;
    let before = vfs.statfs().await.unwrap();
    vfs.unmount().await.unwrap();
    vfs.check();
    let vfs = mounted(&sim, disk, tiny).await;
    let after = vfs.statfs().await.unwrap();
    assert_eq!(after.blocks_free, before.blocks_free);
    assert_eq!(after.files_free, before.files_free);
    let process = Process::new(&vfs, Access::root());
    let tree = Tree::read(&process).await.unwrap();
    assert_eq!(vfs::model::check(&model, &tree), []);
    process.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn random_calls_match_the_reference_model() {
    for seed in 0..16 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let large = seed % 3 == 2;
        let options = MkfsOptions {
            segs_per_sec: 1 + u32::from(large),
            ..MkfsOptions::new(if large { 40_960 } else { 16_384 })
        };
        let disk = RamDisk::from_image(&sim, &made(&options));
        let port = disk.clone();
        kernel.block_on(async move { compare(sim, port, seed, 2_000).await });
        judge(&disk.to_image());
    }
}
