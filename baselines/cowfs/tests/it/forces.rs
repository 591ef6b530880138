//! Forces: during a commit in progress, and the attributes, sizes and holes they make durable.

use crate::bench::{Fs, cache, made, mounted};
use cowfs::{Batch, Btrfs, MkfsOptions, MountOptions, Persist, mount_with};
use host::{Disk, RamDisk};
use nand::Payload;
use sim::{Kernel, Seed, Sim, join};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::{
    Access, Attr, Clock, Compute, FallocateMode, Fd, OpenFlags, PAGE, Process, Result, Source, Vfs,
};

const BLOCKS: u64 = 12_288;

/// Btrfs whose publications take 100 µs more and are counted.
pub(crate) struct Slow {
    pub(crate) sim: Sim,
    pub(crate) inner: Btrfs,
    pub(crate) published: Rc<Cell<u32>>,
}

impl Persist for Slow {
    fn port(&self) -> &Disk {
        self.inner.port()
    }

    async fn publish(&self, batch: Batch) -> Result<()> {
        self.sim.sleep(Ns::us(100)).await;
        self.inner.publish(batch).await?;
        self.published.set(self.published.get() + 1);
        Ok(())
    }
}

/// The file has not changed since the commit in progress began.
#[test]
fn force_waits_for_the_commit_in_progress_that_holds_the_file() {
    let image = made(&MkfsOptions::new(BLOCKS));
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let published = Rc::new(Cell::new(0));
    let strategy = Slow {
        sim: sim.clone(),
        inner: Btrfs::new(&RamDisk::from_image(&sim, &image), false),
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

/// Makes a file durable, applies `change`, forces the file, and cuts the power with eight
/// different selections of the unflushed writes. Returns the file found after each cut.
fn after_cuts<F>(
    in_place: bool,
    data_only: bool,
    change: impl FnOnce(Rc<Process<Fs>>, Fd) -> F + 'static,
) -> Vec<(Attr, Vec<u8>)>
where
    F: Future<Output = ()>,
{
    let image = made(&MkfsOptions::new(BLOCKS));
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &image);
    let kept = disk.clone();
    let options = MountOptions {
        in_place,
        ..MountOptions::default()
    };
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, options, false).await;
        let process = Rc::new(Process::new(&vfs, Access::root()));
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let file = process.open(b"/a", flags, 0o600).await.unwrap();
        let (pattern, len) = (7, 5_000);
        let write = process.pwrite(file, 0, Source::Fill { pattern, len });
        write.await.unwrap();
        process.sync().await.unwrap();
        change(Rc::clone(&process), file).await;
        let forced = match data_only {
            true => process.fdatasync(file).await,
            false => process.fsync(file).await,
        };
        forced.unwrap();
    });
    let left = (0..8).map(|seed| kept.after_cut(&mut Seed(seed).stream("cut")));
    left.map(|left| found(left, options)).collect()
}

/// Mounts the contents of a disk; returns attributes and bytes of `/a`.
fn found(left: BTreeMap<u64, Payload>, options: MountOptions) -> (Attr, Vec<u8>) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(BLOCKS * PAGE), left);
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, options, false).await;
        let process = Process::new(&vfs, Access::root());
        let file = process.open(b"/a", OpenFlags::READ, 0).await.unwrap();
        let attr = process.fstat(file).await.unwrap();
        let bytes = process.read_bytes(file, 0, attr.size as usize).await;
        (attr, bytes.unwrap())
    })
}

#[test]
fn fsync_makes_attributes_durable() {
    for (attr, _) in after_cuts(false, false, |process, _| async move {
        process.chmod(b"/a", 0o640).await.unwrap();
    }) {
        assert_eq!(attr.mode & 0o777, 0o640);
    }
}

#[test]
fn fdatasync_makes_size_growth_within_a_page_durable() {
    for (attr, bytes) in after_cuts(false, true, |process, file| async move {
        process.ftruncate(file, 6_000).await.unwrap();
    }) {
        assert_eq!(attr.size, 6_000);
        assert!(bytes[5_000..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn fdatasync_makes_an_in_place_overwrite_durable() {
    for (_, bytes) in after_cuts(true, true, |process, file| async move {
        let (pattern, len) = (9, 4_096);
        let write = process.pwrite(file, 0, Source::Fill { pattern, len });
        write.await.unwrap();
    }) {
        assert_eq!(bytes[..8], 9_u64.to_le_bytes());
    }
}

#[test]
fn fdatasync_makes_in_place_growth_within_a_page_durable() {
    for (attr, bytes) in after_cuts(true, true, |process, file| async move {
        let (pattern, len) = (9, 500);
        let write = process.pwrite(file, 5_000, Source::Fill { pattern, len });
        write.await.unwrap();
    }) {
        assert_eq!(attr.size, 5_500);
        assert_eq!(bytes[5_000..5_008], 9_u64.to_le_bytes());
    }
}

#[test]
fn fsync_makes_a_size_over_preallocated_space_durable() {
    for (attr, _) in after_cuts(false, false, |process, file| async move {
        let mode = |keep_size| FallocateMode::Allocate { keep_size };
        process
            .fallocate(file, mode(true), 0, 20_000)
            .await
            .unwrap();
        process.sync().await.unwrap();
        process
            .fallocate(file, mode(false), 0, 20_000)
            .await
            .unwrap();
    }) {
        assert_eq!(attr.size, 20_000);
    }
}

/// A forced truncation removes the contents that the last commit holds past the new end. In
/// whatever way the file grows again, the range between the two ends is a hole.
#[test]
fn truncated_contents_do_not_return_when_the_file_grows() {
    const CUT: u64 = 8_192;
    const AGAIN: u64 = 49_152;
    let ways = ["write", "allocate", "share", "size over what is dirty"];
    for (way, data_only) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let left = after_cuts(false, data_only, move |process, file| async move {
            let fill = |pattern, len| Source::Fill { pattern, len };
            process.pwrite(file, 0, fill(7, 65_536)).await.unwrap();
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            let other = process.open(b"/b", flags, 0o600).await.unwrap();
            process.pwrite(other, 0, fill(9, PAGE)).await.unwrap();
            process.sync().await.unwrap();
            process.ftruncate(file, CUT).await.unwrap();
            process.fdatasync(file).await.unwrap();
            match way {
                "write" => {
                    process.pwrite(file, AGAIN, fill(9, PAGE)).await.unwrap();
                }
                "allocate" => {
                    let mode = FallocateMode::Allocate { keep_size: false };
                    process.fallocate(file, mode, AGAIN, PAGE).await.unwrap();
                }
                "share" => {
                    let copy = process.copy_file_range(other, 0, file, AGAIN, PAGE);
                    assert_eq!(copy.await, Ok(PAGE));
                }
                _ => {
                    process.pwrite(file, AGAIN, fill(9, PAGE)).await.unwrap();
                    process.ftruncate(file, AGAIN + 2 * PAGE).await.unwrap();
                }
            }
        });
        for (attr, bytes) in left {
            assert!(attr.size >= AGAIN + PAGE, "{way} {data_only} {}", attr.size);
            let gap = &bytes[CUT as usize..AGAIN as usize];
            let there = gap.iter().position(|&byte| byte != 0);
            assert_eq!(there, None, "{way}, data only: {data_only}");
        }
    }
}
