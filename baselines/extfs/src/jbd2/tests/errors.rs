//! Tests of a mounted file system after a failure of the medium: state in memory, and errors
//! recorded on the medium.

use super::probe::Probe;
use super::*;
use crate::MkfsOptions;
use crate::ext4::{self, Options};
use crate::format::superblock as sb;
use sim::Kernel;
use vfs::{Access, Body, CacheConfig, Clock, Compute, OpenFlags, Process, Vfs};

const BLOCKS: u64 = 8192;

/// A new file system on a port that fails when told to.
async fn formatted(sim: &Sim) -> Probe {
    let disk = host::RamDisk::new(sim, Bytes(BLOCKS * BLOCK as u64));
    let plan = MkfsOptions {
        journal_blocks: Some(1024),
        ..MkfsOptions::new(BLOCKS)
    };
    ext4::format(&disk, &plan).await.unwrap();
    Probe::new(sim, disk)
}

async fn mounted(sim: &Sim, probe: &Probe) -> Vfs<crate::ExtFs<Jbd2>> {
    let (body, _) = ext4::mount(sim, probe, Options::default()).await.unwrap();
    let cache = CacheConfig::default();
    Vfs::mount(sim, body, cache, Clock::default(), Compute::unlimited())
}

/// Makes a commit fail, but not the writes that record the failure.
async fn abort<B: Body>(sim: &Sim, probe: &Probe, process: &Process<B>) {
    process.mkdir(b"/lost", 0o755).await.unwrap();
    probe.latency.set(Ns::ms(1));
    probe.failing.set(true);
    let (waiter, repaired) = (sim.clone(), probe.failing.clone());
    sim.spawn_detached(async move {
        waiter.sleep(Ns(1_500_000)).await;
        repaired.set(false);
    });
    assert_eq!(process.sync().await, Err(Errno::EIO));
    sim.sleep(Ns::ms(10)).await;
    probe.latency.set(Ns(0));
}

/// The superblock of the file system as it is at home.
fn superblock(probe: &Probe) -> Vec<u8> {
    block_of(&probe.disk, 0)[sb::OFFSET..sb::OFFSET + sb::SIZE].to_vec()
}

#[test]
fn file_system_after_a_failed_commit_is_read_only() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let probe = formatted(&sim).await;
        let vfs = mounted(&sim, &probe).await;
        let process = Process::new(&vfs, Access::root());
        let fd = process.open(b"/file", OpenFlags::CREAT, 0o644).await;
        let fd = fd.unwrap();
        let bytes = vfs::Source::Bytes(b"contents");
        process.write(fd, bytes).await.unwrap();
        process.fsync(fd).await.unwrap();
        abort(&sim, &probe, &process).await;
        assert_eq!(process.write(fd, bytes).await, Err(Errno::EROFS));
        assert_eq!(process.ftruncate(fd, 3).await, Err(Errno::EROFS));
        assert_eq!(process.fsync(fd).await, Err(Errno::EROFS));
        assert_eq!(process.mkdir(b"/d", 0o755).await, Err(Errno::EROFS));
        let mode = process.chmod(b"/file", 0o600).await;
        assert_eq!(mode, Err(Errno::EROFS));
        let again = process.open(b"/file", OpenFlags::BOTH, 0).await;
        assert_eq!(again, Err(Errno::EROFS));
        vfs.drop_caches().await.unwrap();
        let read = process.open(b"/file", OpenFlags::READ, 0).await.unwrap();
        let bytes = process.read_bytes(read, 0, 100).await;
        assert_eq!(bytes.as_deref(), Ok(&b"contents"[..]));
    });
}

#[test]
fn failure_recorded_by_the_journal_is_carried_over_by_a_mount() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let probe = formatted(&sim).await;
        let vfs = mounted(&sim, &probe).await;
        let process = Process::new(&vfs, Access::root());
        process.mkdir(b"/kept", 0o755).await.unwrap();
        process.sync().await.unwrap();
        abort(&sim, &probe, &process).await;
        let mut failed = superblock(&probe);
        assert_eq!(sb::STATE.get(&failed) & sb::STATE_ERROR, sb::STATE_ERROR);
        assert_eq!(sb::ERROR_COUNT.get(&failed), 1);
        assert_eq!(sb::checksum(&failed), sb::CHECKSUM.get(&failed));
        let place = crate::find_journal(&probe).await.unwrap().unwrap();
        let errno = inspect(&probe, &place.runs).await.unwrap().errno;
        assert_eq!(errno, -5);

        // Restores the superblock as it was before the failure was recorded.
        let (disk, who) = (probe.disk.clone(), Who::default());
        sb::STATE.put(&mut failed, sb::STATE_CLEAN);
        let sum = sb::checksum(&failed);
        sb::CHECKSUM.put(&mut failed, sum);
        let mut block = block_of(&disk, 0);
        block[sb::OFFSET..sb::OFFSET + sb::SIZE].copy_from_slice(&failed);
        let content = Content::Bytes(&block);
        let home = disk.write(extent(0, 1), content, Placement(0), who, true);
        home.await.unwrap();

        let vfs = mounted(&sim, &probe).await;
        let errno = inspect(&probe, &place.runs).await.unwrap().errno;
        assert_eq!(errno, 0, "it is written down elsewhere");
        vfs.unmount().await.unwrap();
        let state = sb::STATE.get(&superblock(&probe));
        assert_eq!(state, sb::STATE_CLEAN | sb::STATE_ERROR);
    });
}
