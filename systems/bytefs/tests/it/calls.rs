//! Calls of programs, over caches large and tiny, beside the reference model.

use crate::bench::{Watch, assert_clean, cache, formatted, holding, strict, vfs, watched};
use bytefs::{Metrics, Options, Variant};
use extfs::MkfsOptions;
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use std::cell::Cell;
use std::rc::Rc;
use vfs::model::{Model, Order, draw, run_beside};
use vfs::{Access, Process};

async fn compare(
    sim: Sim,
    disk: RamDisk,
    (seed, options): (u64, Options),
    watch: Watch,
) -> Metrics {
    let (body, _) = bytefs::mount(&sim, &disk, options).await.unwrap();
    watch.set(&body);
    let vfs = vfs(&sim, body, cache(seed.is_multiple_of(2)));
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    processes[0].rmdir(b"/lost+found").await.unwrap();
    let mut model = Model::new(2, Order::Journal);
    let mut rng = Seed(seed).stream("calls");
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, 1_200)).await;
    let metrics = vfs.body().persist().metrics();
    vfs.unmount().await.unwrap();
    metrics
}

fn run(seed: u64, options: Options) -> Metrics {
    println!("seed {seed}, {options:?}");
    let mkfs = MkfsOptions {
        inode_size: [128, 256][(seed / 2 % 2) as usize],
        ..bytefs::mkfs_options(crate::bench::BLOCKS)
    };
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), formatted(&mkfs));
    let found = Rc::new(Cell::new(Metrics::default()));
    let (sim, kept, metrics) = (kernel.sim(), disk.clone(), Rc::clone(&found));
    watched(&kernel, |watch| async move {
        metrics.set(compare(sim, disk, (seed, options), watch).await);
    });
    let image = kept.to_image();
    if seed < 2 {
        assert_clean(&image);
    }
    assert_eq!(extfs::check(&image[..]), []);
    found.get()
}

#[test]
fn random_calls_match_the_reference_model() {
    let mut byte_pages = 0;
    for seed in 0..12 {
        let metrics = run(seed, strict());
        assert!(metrics.commits > 0 && metrics.new_blocks > 0 && metrics.block_pages > 0);
        byte_pages += metrics.byte_pages;
    }
    assert!(byte_pages > 0);
}

#[test]
fn every_choice_of_interfaces_shows_the_same_files() {
    let everything = Options {
        byte_lines: 65,
        ..strict()
    };
    let nothing = Options {
        byte_lines: 0,
        direct_bytes: 0,
        ..strict()
    };
    let log = Options {
        variant: Variant::Log,
        ..strict()
    };
    for seed in 0..4 {
        let metrics = run(seed, everything);
        assert_eq!(metrics.new_blocks, 0);
        for options in [nothing, log] {
            let metrics = run(seed, options);
            assert_eq!((metrics.byte_pages, metrics.comparisons), (0, 0));
        }
    }
}
