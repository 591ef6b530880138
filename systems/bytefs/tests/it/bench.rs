//! Helpers of the tests: a disk in memory with a file system, mounted and watched.

use bytefs::{ByteFs, Metrics, Options};
use extfs::{ExtFs, MkfsOptions};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::Bytes;
pub(crate) use vfs::model::cache;
use vfs::{Access, CacheConfig, Clock, Compute, Fd, OpenFlags, Process, Source, Vfs};

/// 16 MiB.
pub(crate) const BLOCKS: u64 = 4_096;

pub(crate) type Strategy = ByteFs;
pub(crate) type Body = ExtFs<ByteFs>;
pub(crate) type Mounted = Vfs<Body>;
pub(crate) type Contents = BTreeMap<u64, Payload>;

/// A disk of [`BLOCKS`] blocks with these contents.
pub(crate) fn holding(sim: &Sim, contents: Contents) -> RamDisk {
    RamDisk::holding(sim, Bytes(BLOCKS * 4_096), contents)
}

/// Options with which calls wait for their commit.
pub(crate) fn strict() -> Options {
    Options {
        strict: true,
        ..Options::default()
    }
}

/// The image of a new file system with `options`.
pub(crate) fn formatted(options: &MkfsOptions) -> Contents {
    let kernel = Kernel::new();
    let disk = RamDisk::new(&kernel.sim(), Bytes(options.blocks * 4_096));
    let (port, options) = (disk.clone(), options.clone());
    kernel.block_on(async move { bytefs::format(&port, &options).await.unwrap() });
    disk.after_cut(&mut Seed(0).stream("nothing is left to chance"))
}

/// The smallest file system of the tests.
pub(crate) fn small() -> Contents {
    formatted(&bytefs::mkfs_options(BLOCKS))
}

pub(crate) fn vfs(sim: &Sim, body: Body, cache: CacheConfig) -> Mounted {
    Vfs::mount(sim, body, cache, Clock::default(), Compute::unlimited())
}

/// Mounts with the large cache.
pub(crate) async fn mounted(sim: &Sim, disk: &RamDisk, options: Options) -> Mounted {
    let (body, _) = bytefs::mount(sim, disk, options).await.unwrap();
    vfs(sim, body, cache(false))
}

/// Runs `work` to its end, looking at the table between any two events; `watch` is
/// where the work puts the strategy.
pub(crate) fn watched<W: Future<Output = ()> + 'static>(
    kernel: &Kernel,
    work: impl FnOnce(Watch) -> W,
) {
    let watch = Watch::default();
    kernel.sim().spawn_detached(work(watch.clone()));
    while kernel.step() {
        watch.look();
    }
}

/// The strategy whose table is checked.
#[derive(Clone, Default)]
pub(crate) struct Watch(Rc<RefCell<Option<ByteFs>>>);

impl Watch {
    pub(crate) fn set(&self, body: &Body) {
        *self.0.borrow_mut() = Some(body.persist().clone());
    }

    /// Asserts the invariants of the table and returns the counters so far.
    pub(crate) fn look(&self) -> Metrics {
        let strategy = self.0.borrow();
        strategy.as_ref().map_or_else(Metrics::default, |strategy| {
            strategy.check();
            strategy.metrics()
        })
    }
}

/// Asserts that our checker finds nothing in an image, and one from `outside` neither.
pub(crate) fn assert_sound(image: &[u8], outside: bool) {
    if outside {
        assert_clean(image);
    } else {
        assert_eq!(extfs::check(image), []);
    }
}

/// Asserts that our own checker finds nothing, and `e2fsck -fn` neither.
pub(crate) fn assert_clean(image: &[u8]) {
    assert_eq!(extfs::check(image), []);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, image).unwrap();
    if judges::has("e2fsck") {
        let output = judges::run(std::process::Command::new("e2fsck").arg("-fn").arg(&path));
        assert!(output.status.success(), "{}", judges::text(&output));
    }
}

/// Opens `path` with access for all users; creates it if absent.
pub(crate) async fn open(process: &Process<Body>, path: &str) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    process.open(path.as_bytes(), flags, 0o644).await.unwrap()
}

/// Writes bytes and waits until they are durable.
pub(crate) async fn put(process: &Process<Body>, fd: Fd, at: u64, bytes: &[u8]) {
    process.pwrite(fd, at, Source::Bytes(bytes)).await.unwrap();
    process.fsync(fd).await.unwrap();
}

pub(crate) fn root(vfs: &Mounted) -> Process<Body> {
    Process::new(vfs, Access::root())
}
