//! Blocks that the superblock keeps for root.

use crate::driver::new_image;
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, check};
use host::RamDisk;
use sim::Kernel;
use units::Placement;
use vfs::{
    Access, CacheConfig, Clock, Compute, Errno, FallocateMode, OpenFlags, Process, Source, Vfs,
};

const BLOCKS: u64 = 32 * 256;
/// Blocks reserved for root: a twentieth, as in `mke2fs`.
const RESERVED: u64 = BLOCKS / 20;
/// Blocks kept for metadata: a fiftieth.
const SLACK: u64 = BLOCKS / 50;
const STEP: u64 = 16;

type Body = ExtFs<NoJournal>;

/// Way to take space: cached writes, direct writes, or allocation.
#[derive(Clone, Copy, Debug)]
enum Way {
    Cached,
    Direct,
    Allocated,
}

/// Takes space in steps of [`STEP`] blocks until a step is refused.
async fn take_all(process: &Process<Body>, path: &str, way: Way) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let flags = match way {
        Way::Direct => flags | OpenFlags::DIRECT,
        Way::Cached | Way::Allocated => flags,
    };
    let fd = process.open(path.as_bytes(), flags, 0o600).await.unwrap();
    for step in 0..BLOCKS {
        let (at, len) = (step * STEP * 4_096, STEP * 4_096);
        let bytes = Source::Fill { pattern: 1, len };
        let mode = FallocateMode::Allocate { keep_size: false };
        let taken = match way {
            Way::Allocated => process.fallocate(fd, mode, at, len).await,
            Way::Cached | Way::Direct => match process.pwrite(fd, at, bytes).await {
                Ok(short) if short < len => return,
                written => written.map(drop),
            },
        };
        if let Err(error) = taken {
            assert_eq!(error, Errno::ENOSPC);
            return;
        }
    }
    panic!("the file system is endless");
}

async fn leaves_root_his_blocks(sim: sim::Sim, disk: RamDisk, way: Way) {
    let persist = NoJournal::new(&sim, &disk, 64, Placement(0));
    let body = ExtFs::mount(&sim, persist, MountOptions::default());
    let (config, clock) = (CacheConfig::default(), Clock::default());
    let body = body.await.unwrap();
    let vfs = Vfs::mount(&sim, body, config, clock, Compute::unlimited());
    let root = Process::new(&vfs, Access::root());
    root.chmod(b"/", 0o777).await.unwrap();
    let (uid, gid, groups) = (1_000, 1_000, vec![0]);
    let user = Process::new(&vfs, Access { uid, gid, groups });

    take_all(&user, "/user", way).await;
    let stat = vfs.statfs().await.unwrap();
    let kept = RESERVED + SLACK;
    let free = stat.blocks_free;
    assert!((kept..kept + STEP).contains(&free), "{way:?}: {free} free");
    assert_eq!(stat.blocks_available, free - kept, "{way:?}");
    take_all(&user, "/more", Way::Cached).await;
    assert_eq!(user.mkdir(b"/d", 0o755).await, Err(Errno::ENOSPC));
    let long = "x".repeat(100);
    let link = user.symlink(long.as_bytes(), b"/s").await;
    assert_eq!(link, Err(Errno::ENOSPC));
    user.symlink(b"short", b"/s").await.unwrap();

    root.mkdir(b"/d", 0o755).await.unwrap();
    take_all(&root, "/root", way).await;
    let stat = vfs.statfs().await.unwrap();
    assert!(stat.blocks_free < SLACK + STEP, "{way:?}: {stat:?}");
    assert_eq!(stat.blocks_available, 0, "{way:?}");
    user.exit().await;
    root.exit().await;
    vfs.unmount().await.unwrap();
}

#[test]
fn blocks_reserved_for_root_are_refused_to_other_users() {
    for way in [Way::Cached, Way::Direct, Way::Allocated] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(BLOCKS)));
        kernel.block_on(leaves_root_his_blocks(sim, disk.clone(), way));
        assert_eq!(check(&disk.to_image()[..]), []);
    }
}
