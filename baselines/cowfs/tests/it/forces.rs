//! Forces that meet a commit on its way.

use crate::bench::{cache, made};
use cowfs::{Batch, Btrfs, MkfsOptions, MountOptions, Persist, mount_with};
use host::RamDisk;
use sim::{Kernel, Sim, join};
use std::cell::Cell;
use std::rc::Rc;
use units::Ns;
use vfs::{Access, Clock, Compute, OpenFlags, Process, Result, Source, Vfs};

/// Publishes late, and counts what it has published.
struct Slow {
    sim: Sim,
    inner: Btrfs<RamDisk>,
    published: Rc<Cell<u32>>,
}

impl Persist for Slow {
    type Port = RamDisk;

    fn port(&self) -> &RamDisk {
        self.inner.port()
    }

    async fn publish(&self, batch: Batch) -> Result<()> {
        self.sim.sleep(Ns::us(100)).await;
        self.inner.publish(batch).await?;
        self.published.set(self.published.get() + 1);
        Ok(())
    }
}

/// Nothing of the file has changed since the commit began, which is on its way.
#[test]
fn a_force_waits_for_the_commit_that_has_what_it_forces() {
    let image = made(&MkfsOptions::new(12_288));
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let published = Rc::new(Cell::new(0));
    let strategy = Slow {
        sim: sim.clone(),
        inner: Btrfs::new(RamDisk::from_image(&sim, &image), false),
        published: Rc::clone(&published),
    };
    kernel.block_on(async move {
        let mounted = mount_with(&sim, strategy, MountOptions::default()).await;
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, mounted.unwrap().0, cache(false), clock, compute);
        let process = Process::new(&vfs, Access::root());
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let file = process.open(b"/a", flags, 0o600).await.unwrap();
        let (pattern, len) = (7, 10_000);
        process
            .write(file, Source::Fill { pattern, len })
            .await
            .unwrap();
        for data_only in [false, true] {
            process
                .pwrite(file, 0, Source::Fill { pattern, len })
                .await
                .unwrap();
            let before = published.get();
            let force = async {
                sim.sleep(Ns::us(50)).await;
                let done = match data_only {
                    true => process.fdatasync(file).await,
                    false => process.fsync(file).await,
                };
                (done, published.get() - before)
            };
            let (all, (forced, durable)) = join(vfs.sync(), force).await;
            assert_eq!((all, forced), (Ok(()), Ok(())));
            assert!(durable >= 1, "it came back before its commit, {data_only}");
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
}
