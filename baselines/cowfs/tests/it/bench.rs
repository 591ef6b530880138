//! Fixtures of the tests: images, mounts and a disk with random latency.

use crate::tools::{assert_clean, has, save};
use cowfs::{Btrfs, CowFs, MkfsOptions, MountOptions, mkfs, mount};
use host::{BlockPort, Computing, RamDisk, Who};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Content, IoError, Sink};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};
pub(crate) use vfs::model::{cache, eager};
use vfs::{Access, Clock, Compute, Process, Vfs};

pub(crate) type Fs = CowFs<Btrfs>;

/// An image of an empty file system, as [`mkfs`] writes it.
pub(crate) fn made(options: &MkfsOptions) -> Vec<u8> {
    let mut image = vec![0; options.blocks as usize * cowfs::SECTOR];
    for (at, block) in mkfs(options).unwrap() {
        let at = at as usize * cowfs::SECTOR;
        image[at..at + cowfs::SECTOR].copy_from_slice(&block[..]);
    }
    image
}

pub(crate) async fn mounted(
    sim: &Sim,
    disk: RamDisk,
    options: MountOptions,
    tiny: bool,
) -> Vfs<Fs> {
    let (body, _) = mount(sim, &disk, options).await.unwrap();
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body, cache(tiny), clock, compute)
}

/// Asserts that the checker, and `btrfs check` if installed, find no fault in an image.
pub(crate) fn judge(image: &[u8]) {
    assert_eq!(cowfs::check(image), []);
    if has("btrfs") {
        let dir = tempfile::tempdir().unwrap();
        assert_clean(&save(dir.path(), "image", image));
    }
}

/// Runs `work` as root on the file system in `image` and unmounts it. Returns the resulting
/// image, which must be sound.
pub(crate) fn with_root<W>(
    image: &[u8],
    options: MountOptions,
    work: impl FnOnce(Process<Fs>) -> W + 'static,
) -> Vec<u8>
where
    W: Future<Output = ()>,
{
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, options, false).await;
        work(Process::new(&vfs, Access::root())).await;
        vfs.unmount().await.unwrap();
        vfs.check();
    });
    let image = kept.to_image();
    judge(&image);
    image
}

/// A disk that delays each command by a random time below 4 µs: commands overtake each other,
/// and publications take long.
#[derive(Clone)]
pub(crate) struct Late {
    disk: RamDisk,
    sim: Sim,
    rng: Rc<RefCell<Rng>>,
}

impl Late {
    pub(crate) fn new(sim: &Sim, disk: &RamDisk, seed: u64) -> Self {
        Self {
            disk: disk.clone(),
            sim: sim.clone(),
            rng: Rc::new(RefCell::new(Seed(seed).stream("latency"))),
        }
    }

    async fn wait(&self) {
        let span = self.rng.borrow_mut().below(4_000);
        self.sim.sleep(Ns(span)).await;
    }
}

impl BlockPort for Late {
    host::pass_block!([|own| &own.disk] capacity, handles, trim, compute);

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.wait().await;
        self.disk.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        self.wait().await;
        self.disk.write(extent, content, placement, who, fua).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.wait().await;
        self.disk.flush().await
    }
}
