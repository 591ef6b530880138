//! Set-up that the tests share.

use host::RamDisk;
use novafs::{MkfsOptions, MountOptions, NovaFs, check, mkfs};
use sim::{Kernel, Sim};
use units::Bytes;
pub(crate) use vfs::model::cache;
use vfs::{Access, Clock, Compute, PAGE, Process, Vfs};

pub(crate) type Fs = NovaFs;

/// An empty file system of `pages` pages.
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

pub(crate) async fn mounted(sim: &Sim, disk: RamDisk, tiny: bool) -> Vfs<Fs> {
    let body = NovaFs::mount(sim, &disk, MountOptions::default()).await;
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body.unwrap(), cache(tiny), clock, compute)
}

/// Runs `work` as root on a file system of `pages` pages, unmounts it, checks the medium, and
/// returns its bytes.
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
