//! Set-up that the tests share.

use sim::{Kernel, Sim};
use std::future::Future;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{
    Access, CacheConfig, CallCosts, Clock, Compute, Errno, Fd, OpenFlags, PAGE, Process, Source,
    Vfs,
};

/// A cache of `pages` pages without costs.
pub(crate) fn cache(pages: u64) -> CacheConfig {
    CacheConfig {
        memory: Bytes(pages * PAGE),
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    }
}

/// An empty file system of 64 MiB whose accesses to the medium take 100 µs each, and that records
/// calls for pages.
pub(crate) fn slow(sim: &Sim) -> MemFs {
    MemFs::slow(sim, Bytes(64 << 20), Ns::us(100)).recording()
}

pub(crate) fn mount(sim: &Sim, body: MemFs, config: CacheConfig) -> Vfs<MemFs> {
    Vfs::mount(sim, body, config, Clock::default(), Compute::unlimited())
}

/// Runs `test` over a file system in memory with a large cache, then the kernel until it is idle.
pub(crate) fn with_root<F>(test: impl FnOnce(Process<MemFs>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let kernel = Kernel::new();
    let vfs = mount(&kernel.sim(), MemFs::new(Bytes(64 << 20)), cache(4096));
    let root = Process::new(&vfs, Access::root());
    root.umask(0);
    kernel.block_on(test(root));
    kernel.run();
    vfs.check();
}

/// A process of another user on the mount of `process`.
pub(crate) fn user(process: &Process<MemFs>, uid: u32, gid: u32) -> Process<MemFs> {
    let groups = Vec::new();
    let other = Process::new(process.vfs(), Access { uid, gid, groups });
    other.umask(0);
    other
}

/// Opens a file for reading and writing; creates it if it does not exist.
pub(crate) async fn make(process: &Process<MemFs>, path: &str) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    process.open(path.as_bytes(), flags, 0o666).await.unwrap()
}

/// Writes `len` bytes of a pattern at `offset`.
pub(crate) async fn fill(process: &Process<MemFs>, fd: Fd, offset: u64, len: u64) {
    let source = Source::Fill {
        pattern: 0x0101_0101_0101_0101,
        len,
    };
    assert_eq!(process.pwrite(fd, offset, source).await, Ok(len));
}

/// The error of a call that must fail.
pub(crate) fn errno<T: std::fmt::Debug>(result: Result<T, Errno>) -> Errno {
    result.expect_err("the call must fail")
}
