//! The body under the cache, beside the reference model of the file API.

use crate::driver::new_image;
use ::vfs::model::{Model, Op, Order, Tree, perform};
use ::vfs::{
    Access, CacheConfig, CallCosts, Clock, Compute, FallocateMode, OpenFlags, PAGE, Process,
    RenameFlags, Vfs, XattrFlags,
};
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, check};
use host::RamDisk;
use sim::{Kernel, Rng, Seed};
use units::{Bytes, Placement};

fn path(rng: &mut Rng) -> Vec<u8> {
    let depth = 1 + rng.below(3);
    let names = (0..depth).map(|_| ["a", "b", "c"][rng.below(3) as usize]);
    format!("/{}", names.collect::<Vec<_>>().join("/")).into_bytes()
}

fn offset(rng: &mut Rng) -> u64 {
    if rng.below(2) == 0 {
        rng.below(60_000)
    } else {
        rng.below(30) * PAGE
    }
}

fn name_op(rng: &mut Rng) -> Op {
    let (one, two) = (path(rng), path(rng));
    let name = b"user.x".to_vec();
    match rng.below(16) {
        0..4 => Op::Open {
            path: one,
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        4..6 => Op::Mkdir { path: one },
        6 => Op::Rmdir { path: one },
        7 => Op::Unlink { path: one },
        8 | 9 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: rng.below(4) == 0,
                exchange: false,
            },
        },
        10 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: false,
                exchange: true,
            },
        },
        11 => Op::Link {
            path: one,
            new: two,
        },
        12 => Op::Symlink {
            target: two.repeat(1 + rng.below(20) as usize),
            path: one,
        },
        13 => Op::ReadDir { path: one },
        14 => Op::SetXattr {
            path: one,
            name,
            value: vec![7; rng.below(400) as usize],
            flags: XattrFlags::Any,
        },
        _ => Op::GetXattr { path: one, name },
    }
}

fn file_op(rng: &mut Rng) -> Op {
    let fd = rng.below(5) as u32;
    let (at, len) = (offset(rng), rng.below(30_000));
    match rng.below(12) {
        0 | 1 => Op::Close { fd },
        2..5 => Op::Read {
            fd,
            offset: at,
            len,
        },
        5..9 => Op::Write {
            fd,
            offset: at,
            byte: rng.next_u64() as u8,
            len,
        },
        9 => Op::Ftruncate { fd, size: at },
        10 => Op::Fallocate {
            fd,
            mode: [
                FallocateMode::Punch,
                FallocateMode::Allocate { keep_size: true },
                FallocateMode::Allocate { keep_size: false },
                FallocateMode::Zero { keep_size: true },
                FallocateMode::Zero { keep_size: false },
            ][rng.below(5) as usize],
            offset: at,
            len,
        },
        _ => Op::Fsync {
            fd,
            data_only: rng.below(2) == 0,
        },
    }
}

/// A cache so small that everything is pushed out of it soon, or a large one.
fn cache(tiny: bool) -> CacheConfig {
    let large = CacheConfig {
        memory: Bytes(4096 * PAGE),
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    };
    if !tiny {
        return large;
    }
    CacheConfig {
        memory: Bytes(64 * PAGE),
        inodes: 3,
        names: 4,
        batch: 3,
        ..large
    }
}

async fn compare(sim: sim::Sim, disk: RamDisk, seed: u64) {
    let persist = NoJournal::new(&sim, disk, 16, Placement(0));
    let body = ExtFs::mount(&sim, persist, MountOptions::default())
        .await
        .unwrap();
    let vfs = Vfs::mount(
        &sim,
        body,
        cache(seed.is_multiple_of(2)),
        Clock::default(),
        Compute::unlimited(),
    );
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    processes[0].rmdir(b"/lost+found").await.unwrap();
    let mut model = Model::new(2, Order::Journal);
    let mut rng = Seed(seed).stream("calls");
    for number in 0..1200 {
        let op = if rng.below(2) == 0 {
            name_op(&mut rng)
        } else {
            file_op(&mut rng)
        };
        let process = rng.below(2) as usize;
        let expected = model.perform(process, &op);
        let got = perform(&processes[process], &op).await;
        assert_eq!(got, expected, "call {number}: {op:?}");
        if rng.below(60) == 0 {
            vfs.drop_caches().await.unwrap();
        }
    }
    model.perform(0, &Op::Sync).unwrap();
    let tree = Tree::read(&processes[0]).await.unwrap();
    assert_eq!(::vfs::model::check(&model, &tree), []);
    for process in processes {
        process.exit().await;
    }
    vfs.unmount().await.unwrap();
    vfs.check();
}

#[test]
fn programs_see_what_the_model_says() {
    for seed in 0..16 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(64 * 256)));
        kernel.block_on(compare(sim, disk.clone(), seed));
        assert_eq!(check(&disk.to_image()[..]), []);
    }
}
