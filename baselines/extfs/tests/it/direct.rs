//! Direct requests to blocks that were never written.

use crate::driver::{formatted, new_image};
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, Persist, check, pmfs};
use host::RamDisk;
use sim::{Kernel, Sim};
use units::Placement;
use vfs::{
    Access, CacheConfig, Clock, Compute, Errno, FallocateMode, Fd, OpenFlags, Process, Source, Vfs,
};

type Body = ExtFs<NoJournal>;

/// Runs `work` over a file system with bytes other than zeros in all free blocks.
fn over_garbage<W: Future<Output = ()> + 'static>(work: impl FnOnce(Process<Body>) -> W + 'static) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(8 * 256)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let persist = NoJournal::new(&sim, &disk, 64, Placement(0));
        let body = ExtFs::mount(&sim, persist, MountOptions::default());
        let (config, clock) = (CacheConfig::default(), Clock::default());
        let body = body.await.unwrap();
        let vfs = Vfs::mount(&sim, body, config, clock, Compute::unlimited());
        let process = Process::new(&vfs, Access::root());
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = process.open(b"/garbage", flags, 0o600).await.unwrap();
        let all = Source::Fill {
            pattern: u64::MAX,
            len: 1 << 30,
        };
        process.write(fd, all).await.unwrap();
        process.fsync(fd).await.unwrap();
        process.close(fd).await.unwrap();
        process.unlink(b"/garbage").await.unwrap();
        process.sync().await.unwrap();
        work(process).await;
        vfs.unmount().await.unwrap();
    });
    assert_eq!(check(&kept.to_image()[..]), []);
}

async fn open(process: &Process<Body>, path: &[u8]) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::DIRECT;
    process.open(path, flags, 0o644).await.unwrap()
}

#[test]
fn direct_requests_of_partial_sectors_are_refused_also_in_a_hole() {
    over_garbage(|process| async move {
        let fd = open(&process, b"/file").await;
        let free = process.vfs().statfs().await.unwrap().blocks_free;
        for (offset, len) in [(0, 100), (100, 512), (100, 412), (511, 1), (1, 4096)] {
            let bytes = Source::Fill { pattern: 7, len };
            let written = process.pwrite(fd, offset, bytes).await;
            assert_eq!(written, Err(Errno::EINVAL), "{len} bytes at {offset}");
        }
        let attr = process.fstat(fd).await.unwrap();
        assert_eq!((attr.size, attr.sectors), (0, 0));
        let after = process.vfs().statfs().await.unwrap().blocks_free;
        assert_eq!(after, free);
        process.ftruncate(fd, 65_536).await.unwrap();
        for (offset, len) in [(0, 100), (100, 512), (511, 1)] {
            let read = process.read_bytes(fd, offset, len).await;
            assert_eq!(read, Err(Errno::EINVAL), "{len} bytes at {offset}");
        }
        assert_eq!(process.read_bytes(fd, 512, 512).await, Ok(vec![0; 512]));
        process.exit().await;
    });
}

#[test]
fn direct_write_of_a_sector_to_a_new_block_leaves_zeros_around_it() {
    over_garbage(|process| async move {
        for allocated in [false, true] {
            let fd = open(&process, b"/file").await;
            if allocated {
                let mode = FallocateMode::Allocate { keep_size: true };
                process.fallocate(fd, mode, 0, 32_768).await.unwrap();
            }
            let mut expected = vec![0; 20_480];
            for at in [512, 8_192 + 3_584, 16_384 + 1_024] {
                let sector = Source::Bytes(&[7; 512]);
                assert_eq!(process.pwrite(fd, at, sector).await, Ok(512));
                expected[at as usize..][..512].fill(7);
            }
            assert_eq!(process.fstat(fd).await.unwrap().size, 16_384 + 1_536);
            // A larger size exposes the bytes behind the former end.
            process.ftruncate(fd, 20_480).await.unwrap();
            process.vfs().drop_caches().await.unwrap();
            let direct = process.read_bytes(fd, 0, 20_480).await.unwrap();
            assert!(direct == expected, "allocated: {allocated}");
            let cached = process.open(b"/file", OpenFlags::READ, 0).await.unwrap();
            let cached = process.read_bytes(cached, 0, 20_480).await.unwrap();
            assert!(cached == expected, "allocated: {allocated}");
            process.unlink(b"/file").await.unwrap();
        }
        process.exit().await;
    });
}

/// Writes more than the file system has room for, in one direct call.
async fn overfill<P: Persist>(sim: Sim, body: ExtFs<P>) {
    const MOST: usize = 20 << 20;
    let (config, clock) = (CacheConfig::default(), Clock::default());
    let vfs = Vfs::mount(&sim, body, config, clock, Compute::unlimited());
    let process = Process::new(&vfs, Access::root());
    let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::DIRECT;
    let fd = process.open(b"/file", flags, 0o644).await.unwrap();
    // The first block of the file exists already.
    let bytes: Vec<u8> = (0..MOST).map(|at| (at / 512) as u8).collect();
    let first = Source::Bytes(&bytes[..4_096]);
    assert_eq!(process.pwrite(fd, 0, first).await, Ok(4_096));
    let all = Source::Bytes(&bytes);
    let written = process.pwrite(fd, 0, all).await.unwrap() as usize;
    assert!((4 << 20..MOST).contains(&written), "{written}");
    assert_eq!(process.fstat(fd).await.unwrap().size, written as u64);
    let held = process.read_bytes(fd, 0, MOST).await.unwrap();
    assert!(held == bytes[..written]);
    let free = process.vfs().statfs().await.unwrap().blocks_free;
    assert!(free < 200, "{free} blocks are free");
    // A write without any room has no effect.
    let behind = written as u64 + (1 << 20);
    let refused = process.pwrite(fd, behind, Source::Bytes(&bytes)).await;
    assert_eq!(refused, Err(Errno::ENOSPC));
    assert_eq!(process.fstat(fd).await.unwrap().size, written as u64);
    process.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn direct_write_beyond_free_space_is_short_by_the_rest() {
    for in_place in [false, true] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = formatted(&sim, &pmfs::mkfs_options(16 * 256));
        let kept = disk.clone();
        kernel.block_on(async move {
            if in_place {
                let options = pmfs::Options::default();
                let (body, _) = pmfs::mount(&sim, &disk, options).await.unwrap();
                overfill(sim, body).await;
            } else {
                let options = extfs::ext4::Options::default();
                let mounted = extfs::ext4::mount(&sim, &disk, options).await;
                overfill(sim, mounted.unwrap().0).await;
            }
        });
        assert_eq!(check(&kept.to_image()[..]), []);
    }
}
