//! Where there is little room, or what there is was made since the last commit: nothing that
//! was forced is lost, and nothing is refused for good.

use crate::bench::{Fs, cache, eager, judge, made, mounted};
use cowfs::{Batch, Btrfs, MkfsOptions, MountOptions, Persist, mount, mount_with};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::{
    Access, Body, Clock, Compute, Errno, FallocateMode, OpenFlags, Process, Result, Source, Vfs,
};

fn flags() -> OpenFlags {
    OpenFlags::BOTH | OpenFlags::CREATE
}

type Contents = BTreeMap<u64, Payload>;

/// Commits when it is asked for alone.
fn patient() -> MountOptions {
    MountOptions {
        interval: Ns::secs(1_000_000),
        ..MountOptions::default()
    }
}

/// What the medium has right after `work`, of what was not flushed what `seed` chooses.
fn left_by(
    blocks: u64,
    options: MountOptions,
    seed: u64,
    work: impl AsyncFnOnce(Process<Fs>) + 'static,
) -> Contents {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(blocks)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, options, false).await;
        work(Process::new(&vfs, Access::root())).await;
    });
    kept.after_cut(&mut Seed(seed).stream("cut"))
}

/// A disk that `contents` are on, for another power-on.
fn disk(sim: &Sim, blocks: u64, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, Bytes(blocks * vfs::PAGE), contents)
}

/// Contents and nodes that go to a chunk which no commit has are not led to by a log.
#[test]
fn what_is_forced_in_a_new_chunk_is_there() {
    const BLOCKS: u64 = 32_768;
    let left = left_by(BLOCKS, patient(), 1, async |p| {
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        p.sync().await.unwrap();
        for at in 0..30_u64 {
            let (pattern, len) = (at + 1, 1 << 20);
            let source = Source::Fill { pattern, len };
            p.pwrite(fd, at << 20, source).await.unwrap();
            p.fsync(fd).await.unwrap();
        }
    });
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = disk(&sim, BLOCKS, left);
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, patient(), false).await;
        let p = Process::new(&vfs, Access::root());
        let fd = p.open(b"/a", flags(), 0o600).await.unwrap();
        for at in 0..30_u64 {
            let read = p.read_bytes(fd, at << 20, 1).await.unwrap();
            assert_eq!(read, [at as u8 + 1]);
        }
        p.exit().await;
        vfs.unmount().await.unwrap();
    });
    judge(&kept.to_image());
}
