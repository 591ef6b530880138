//! Setup that the tests share: images, mounts and checks.

use crate::tools::{assert_clean, has, save};
use host::RamDisk;
use lfs::{LfsFs, MkfsOptions, MountOptions, OnDrive, mkfs, mount};
use sim::{Kernel, Sim};
pub(crate) use vfs::model::{cache, eager};
use vfs::{Access, Clock, Compute, Process, Vfs};

pub(crate) type Fs = LfsFs<OnDrive>;

/// An image of an empty file system.
pub(crate) fn made(options: &MkfsOptions) -> Vec<u8> {
    let mut image = vec![0; options.blocks as usize * lfs::BLOCK];
    for (at, block) in mkfs(options).unwrap() {
        let at = at as usize * lfs::BLOCK;
        image[at..at + lfs::BLOCK].copy_from_slice(&block[..]);
    }
    image
}

pub(crate) async fn mounted(sim: &Sim, disk: RamDisk, tiny: bool) -> Vfs<Fs> {
    let (body, _) = mount(sim, &disk, MountOptions::default()).await.unwrap();
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body, cache(tiny), clock, compute)
}

/// Asserts that our checker, and `fsck.f2fs` if it is installed, find no error in `image`.
pub(crate) fn judge(image: &[u8]) {
    assert_eq!(lfs::check(image), []);
    if has("fsck.f2fs") {
        let dir = tempfile::tempdir().unwrap();
        assert_clean(&save(dir.path(), "image", image));
    }
}

/// Runs `work` as root on the file system in `image`, unmounts it, and returns the image after
/// it passed [`judge`].
pub(crate) fn with_root<W>(image: &[u8], work: impl FnOnce(Process<Fs>) -> W + 'static) -> Vec<u8>
where
    W: Future<Output = ()>,
{
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, false).await;
        work(Process::new(&vfs, Access::root())).await;
        vfs.unmount().await.unwrap();
        vfs.check();
    });
    let image = kept.to_image();
    judge(&image);
    image
}
