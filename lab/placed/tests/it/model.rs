//! Programs on placed files, compared with the reference model of the file API: most operations
//! move files out of zones, which must stay invisible.

use crate::bench::{device, mounted};
use sim::{Kernel, Seed, Sim};
use vfs::model::{Model, Op, Order, draw, run_beside};
use vfs::{Access, FallocateMode, OpenFlags, Process};

/// Any call but an extending `fallocate`, which leaves the length of a placed file as it is
/// (`calls.rs` has that difference) and extends the model's.
fn anything(rng: &mut sim::Rng) -> Op {
    let mut op = draw(rng);
    if let Op::Fallocate {
        mode: FallocateMode::Allocate { keep_size },
        ..
    } = &mut op
    {
        *keep_size = true;
    }
    op
}

/// Mostly appends and reads, and sometimes any other operation.
fn appends(rng: &mut sim::Rng) -> Op {
    let name = ["/a", "/b", "/c", "/d"][rng.below(4) as usize];
    match rng.below(14) {
        0..3 => Op::Open {
            path: name.as_bytes().to_vec(),
            flags: OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::APPEND,
        },
        3..9 => Op::Write {
            fd: rng.below(5) as u32,
            offset: 0,
            byte: rng.next_u64() as u8,
            len: rng.below(90_000),
        },
        9 => Op::Unlink {
            path: name.as_bytes().to_vec(),
        },
        _ => anything(rng),
    }
}

async fn compare(sim: Sim, seed: u64, (draw, calls): (fn(&mut sim::Rng) -> Op, u32)) -> u64 {
    let device = device(&sim, 16);
    let tiny = seed.is_multiple_of(2);
    let mut rng = Seed(seed).stream("calls");
    let mut model = Model::new(2, Order::Journal);
    let vfs = mounted(&sim, device, tiny).await;
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    run_beside(&vfs, processes, &mut model, &mut rng, (draw, calls)).await;
    let written = vfs.body().in_zones();
    vfs.unmount().await.unwrap();
    vfs.check();
    written
}

#[test]
fn random_calls_on_placed_files_match_the_reference_model() {
    let mut in_zones = 0;
    for seed in 0..16 {
        println!("seed {seed}");
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let mix: (fn(&mut sim::Rng) -> Op, u32) = match seed % 4 {
            3 => (anything, 1_500),
            _ => (appends, 1_500),
        };
        in_zones += kernel.block_on(async move { compare(sim, seed, mix).await });
    }
    println!("{in_zones} bytes in zones at the end");
    assert!(in_zones > 500_000, "{in_zones}");
}
