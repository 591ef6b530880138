//! What the tests set up and do again and again.

use sim::{Kernel, Sim};
use std::future::Future;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{
    Access, CacheConfig, CallCosts, Clock, Compute, Errno, Fd, OpenFlags, PAGE, Process, Source,
    Vfs,
};

/// A cache of `pages` pages whose calls cost nothing.
pub(crate) fn cache(pages: u64) -> CacheConfig {
    CacheConfig {
        memory: Bytes(pages * PAGE),
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    }
}

/// An empty file system of 64 MiB whose medium takes 100 µs for everything, and
/// that keeps what it is asked for.
pub(crate) fn slow(sim: &Sim) -> MemFs {
    MemFs::slow(sim, Bytes(64 << 20), Ns::us(100)).recording()
}

pub(crate) fn mount(sim: &Sim, body: MemFs, config: CacheConfig) -> Vfs<MemFs> {
    Vfs::mount(sim, body, config, Clock::default(), Compute::unlimited())
}

/// Runs `test` over a file system in memory with a large cache, and the kernel to
/// its rest.
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

/// Another user's program.
pub(crate) fn user(process: &Process<MemFs>, uid: u32, gid: u32) -> Process<MemFs> {
    let groups = Vec::new();
    let other = Process::new(process.vfs(), Access { uid, gid, groups });
    other.umask(0);
    other
}

/// Opens for reading and writing, and makes it if need be.
pub(crate) async fn make(process: &Process<MemFs>, path: &str) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    process.open(path.as_bytes(), flags, 0o666).await.unwrap()
}

/// Writes `len` bytes of a pattern.
pub(crate) async fn fill(process: &Process<MemFs>, fd: Fd, offset: u64, len: u64) {
    let source = Source::Fill {
        pattern: 0x0101_0101_0101_0101,
        len,
    };
    assert_eq!(process.pwrite(fd, offset, source).await, Ok(len));
}

/// The error that a call must give.
pub(crate) fn errno<T: std::fmt::Debug>(result: Result<T, Errno>) -> Errno {
    result.expect_err("the call must fail")
}
