//! What the tests set up again and again.

use host::RamDisk;
use novafs::{MkfsOptions, MountOptions, NovaFs, check, mkfs};
use sim::{Kernel, Rng, Sim};
use units::Bytes;
use vfs::model::Op;
use vfs::{
    Access, CacheConfig, CallCosts, Clock, Compute, FallocateMode, OpenFlags, PAGE, Process,
    RenameFlags, Vfs, XattrFlags,
};

pub(crate) type Fs = NovaFs<RamDisk>;

/// An empty file system of so many pages.
pub(crate) fn new_image(pages: u64, cores: u32) -> Vec<u8> {
    let kernel = Kernel::new();
    let disk = RamDisk::new(&kernel.sim(), Bytes(pages * PAGE));
    let port = disk.clone();
    let options = MkfsOptions {
        cores,
        ..MkfsOptions::default()
    };
    kernel.block_on(async move { mkfs(&port, &options).await.unwrap() });
    let image = disk.to_image();
    assert_eq!(check(&image[..]), []);
    image
}

/// A cache so small that inodes and names are pushed out of it soon, or a large one.
pub(crate) fn cache(tiny: bool) -> CacheConfig {
    let large = CacheConfig {
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
        ..large
    }
}

pub(crate) async fn mounted(sim: &Sim, disk: RamDisk, tiny: bool) -> Vfs<Fs> {
    let body = NovaFs::mount(sim, disk, MountOptions::default()).await;
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body.unwrap(), cache(tiny), clock, compute)
}

/// Runs `work` as root on a file system of `pages` pages, unmounts it, and gives what
/// is on the medium, which must be sound.
pub(crate) fn with_root<W>(pages: u64, work: impl FnOnce(Process<Fs>) -> W + 'static) -> Vec<u8>
where
    W: Future<Output = ()>,
{
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(pages, 2));
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, false).await;
        work(Process::new(&vfs, Access::root())).await;
        vfs.unmount().await.unwrap();
        vfs.check();
        assert_eq!(vfs.stats().cached, 0, "there is no page cache");
    });
    let image = kept.to_image();
    assert_eq!(check(&image[..]), []);
    image
}

fn path(rng: &mut Rng) -> Vec<u8> {
    let depth = 1 + rng.below(3);
    let names = (0..depth).map(|_| ["a", "b", "c"][rng.below(3) as usize]);
    format!("/{}", names.collect::<Vec<_>>().join("/")).into_bytes()
}

fn offset(rng: &mut Rng) -> u64 {
    if rng.below(2) == 0 {
        rng.below(60_000)
    } else {
        rng.below(15) * PAGE
    }
}

pub(crate) fn name_op(rng: &mut Rng) -> Op {
    let (one, two) = (path(rng), path(rng));
    let name = [&b"user.x"[..], b"user.y"][rng.below(2) as usize].to_vec();
    match rng.below(18) {
        0..4 => Op::Open {
            path: one,
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        4..6 => Op::Mkdir { path: one },
        6 => Op::Rmdir { path: one },
        7 | 8 => Op::Unlink { path: one },
        9 | 10 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: rng.below(4) == 0,
                exchange: false,
            },
        },
        11 => Op::Rename {
            from: one,
            to: two,
            flags: RenameFlags {
                no_replace: false,
                exchange: true,
            },
        },
        12 => Op::Link {
            path: one,
            new: two,
        },
        13 => Op::Symlink {
            target: two.repeat(1 + rng.below(20) as usize),
            path: one,
        },
        14 => Op::ReadDir { path: one },
        15 => Op::SetXattr {
            path: one,
            name,
            value: vec![7; rng.below(1_200) as usize],
            flags: XattrFlags::Any,
        },
        16 => Op::RemoveXattr { path: one, name },
        _ => Op::GetXattr { path: one, name },
    }
}

const MODES: [FallocateMode; 5] = [
    FallocateMode::Punch,
    FallocateMode::Allocate { keep_size: true },
    FallocateMode::Allocate { keep_size: false },
    FallocateMode::Zero { keep_size: true },
    FallocateMode::Zero { keep_size: false },
];

pub(crate) fn file_op(rng: &mut Rng) -> Op {
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
            mode: MODES[rng.below(5) as usize],
            offset: at,
            len,
        },
        _ => Op::Fsync {
            fd,
            data_only: rng.below(2) == 0,
        },
    }
}
