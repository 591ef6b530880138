//! Random calls of two processes, compared with the reference model of the file API, before and
//! after a remount.

use crate::bench::{judge, made, mounted};
use cowfs::{MkfsOptions, MountOptions};
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use units::{Bytes, Ns};
use vfs::model::{Model, Order, Tree, draw, run_beside};
use vfs::{Access, Process};

async fn compare(sim: Sim, disk: RamDisk, seed: u64, calls: u32) {
    let tiny = seed.is_multiple_of(2);
    let options = MountOptions {
        in_place: seed % 4 == 3,
        interval: Ns::us(500),
        cache: Bytes(0),
        ..MountOptions::default()
    };
    let mut rng = Seed(seed).stream("calls");
    let mut model = Model::new(2, Order::Entries).with_single_links();
    let vfs = mounted(&sim, disk.clone(), options, tiny).await;
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, calls)).await;
    vfs.unmount().await.unwrap();
    vfs.check();
    let before = vfs.statfs().await.unwrap();
    let vfs = mounted(&sim, disk, options, tiny).await;
    let after = vfs.statfs().await.unwrap();
    assert_eq!(after.blocks_free, before.blocks_free);
    let process = Process::new(&vfs, Access::root());
    let tree = Tree::read(&process).await.unwrap();
    assert_eq!(vfs::model::check(&model, &tree), []);
    process.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn random_calls_match_the_reference_model() {
    for seed in 0..16 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let options = MkfsOptions {
            dup: seed % 3 == 2,
            ..MkfsOptions::new(16_384)
        };
        let disk = RamDisk::from_image(&sim, &made(&options));
        let port = disk.clone();
        kernel.block_on(async move { compare(sim, port, seed, 2_000).await });
        judge(&disk.to_image());
    }
}
