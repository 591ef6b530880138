//! Costs of calls, in cache lines and blocks.

use crate::bench::{BLOCKS, formatted, holding, mounted, open, put, root, strict};
use bytefs::{Metrics, Options, Variant};
use extfs::MkfsOptions;
use host::{Purpose, RamDisk};
use sim::Kernel;
use vfs::{OpenFlags, Source};

fn over<W: Future<Output = ()> + 'static>(
    inode_size: u16,
    options: Options,
    work: impl FnOnce(crate::bench::Mounted, RamDisk) -> W + 'static,
) {
    let mkfs = MkfsOptions {
        inode_size,
        ..bytefs::mkfs_options(BLOCKS)
    };
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), formatted(&mkfs)));
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, options).await;
        work(vfs, disk).await;
    });
}

/// Growth of the counters of the strategy during `work`.
async fn cost<F: Future<Output = ()>>(vfs: &crate::bench::Mounted, work: F) -> Metrics {
    let before = vfs.body().persist().metrics();
    work.await;
    vfs.body().persist().metrics() - before
}

#[test]
//= bytefs 4.5
fn an_update_of_an_inode_takes_the_lines_of_its_hot_fields_and_of_its_checksum() {
    for (inode_size, lines) in [(128, 2), (256, 3)] {
        over(inode_size, strict(), async move |vfs, _| {
            let process = root(&vfs);
            let fd = open(&process, "/file").await;
            put(&process, fd, 0, &[1; 10]).await;
            let chmod = async { process.chmod(b"/file", 0o600).await.unwrap() };
            let cost = cost(&vfs, async {
                chmod.await;
                vfs.sync().await.unwrap();
            });
            let cost = cost.await;
            assert_eq!((cost.metadata_lines, cost.stores), (lines, 1));
            assert_eq!((cost.verifies, cost.commits), (1, 1));
        });
    }
}

#[test]
//= bytefs 4.6
fn a_page_goes_by_the_interface_that_its_change_is_worth() {
    over(128, strict(), async |vfs, disk| {
        let process = root(&vfs);
        let fd = open(&process, "/file").await;
        put(&process, fd, 0, &[1; 8_192]).await;
        for lines in 0..=9 {
            let bytes = vec![lines as u8 + 2; lines * 64];
            let before = disk.ledger();
            let cost = cost(&vfs, put(&process, fd, 64, &bytes)).await;
            let data = disk.ledger().since(&before).purpose(Purpose::Data).write;
            let expected = match lines {
                0 => (0, 0, 0),
                1..8 => (lines as u64, 64 * lines as u64, 0),
                _ => (0, 0, 4_096),
            };
            assert_eq!((cost.data_lines, data.byte, data.block), expected);
        }
    });
}

#[test]
fn one_line_of_a_file_needs_no_transaction() {
    over(128, strict(), async |vfs, _| {
        let process = root(&vfs);
        let fd = open(&process, "/file").await;
        put(&process, fd, 0, &[1; 4_096]).await;
        process
            .pwrite(fd, 70, Source::Bytes(&[2; 10]))
            .await
            .unwrap();
        // Its times are as they were: the clock of the file system stands still.
        let cost = cost(&vfs, async { process.fdatasync(fd).await.unwrap() }).await;
        assert_eq!((cost.single_lines, cost.commits), (1, 0));
        assert_eq!((cost.stores, cost.verifies, cost.flushes), (1, 1, 0));
    });
}

#[test]
//= bytefs 4.5
fn a_new_file_takes_lines_and_no_block() {
    over(128, strict(), async |vfs, disk| {
        let process = root(&vfs);
        // The first one fills a block of the table of inodes.
        open(&process, "/first").await;
        let before = disk.ledger();
        let cost = cost(&vfs, async {
            open(&process, "/second").await;
        })
        .await;
        let traffic = disk.ledger().since(&before);
        let blocks = Purpose::ALL.map(|p| traffic.purpose(p).write.block);
        assert_eq!(blocks.iter().sum::<u64>(), 0);
        // Bitmap and descriptor; the inode; the entry, which here goes over the end of a
        // line, and the checksum of its block; the inode of the directory.
        assert_eq!(cost.metadata_lines, 1 + 1 + 2 + 3 + 2);
        assert_eq!((cost.verifies, cost.commits), (1, 1));
    });
}

#[test]
//= bytefs 4.6
fn small_direct_requests_go_by_bytes_at_any_offset() {
    let log = Options {
        variant: Variant::Log,
        ..strict()
    };
    over(128, strict(), async |vfs, disk| {
        let process = root(&vfs);
        let fd = open(&process, "/file").await;
        let mut expected = vec![1; 8_192];
        put(&process, fd, 0, &expected).await;
        let flags = OpenFlags::BOTH | OpenFlags::DIRECT;
        let direct = process.open(b"/file", flags, 0).await.unwrap();
        for (at, len, lines) in [
            (0, 512, 8),
            (3, 1, 1),
            (60, 10, 2),
            (4_090, 12, 2),
            (512, 512, 8),
        ] {
            expected[at..at + len].fill((at % 100) as u8 + 7);
            let bytes = expected[at..at + len].to_vec();
            let cost = cost(&vfs, async {
                let written = process.pwrite(direct, at as u64, Source::Bytes(&bytes));
                assert_eq!(written.await, Ok(len as u64));
            });
            assert_eq!(cost.await.data_lines, lines, "{len} bytes at {at}");
        }
        let before = disk.ledger();
        let read = process.read_bytes(direct, 4_000, 200).await.unwrap();
        assert!(read == expected[4_000..4_200]);
        let read = disk.ledger().since(&before).purpose(Purpose::Data).read;
        assert_eq!((read.byte, read.block), (256, 0));
        process
            .pwrite(direct, 1_024, Source::Bytes(&[9; 1_024]))
            .await
            .unwrap();
        expected[1_024..2_048].fill(9);
        let odd = process.pwrite(direct, 3, Source::Bytes(&[9; 700])).await;
        assert_eq!(odd, Err(vfs::Errno::EINVAL));
        let read = process.read_bytes(fd, 0, 8_192).await.unwrap();
        assert!(read == expected);
    });
    over(128, log, async |vfs, _| {
        let process = root(&vfs);
        let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::DIRECT;
        let direct = process.open(b"/file", flags, 0o644).await.unwrap();
        let odd = process.pwrite(direct, 0, Source::Bytes(&[9; 64])).await;
        assert_eq!(odd, Err(vfs::Errno::EINVAL));
        let sector = process.pwrite(direct, 0, Source::Bytes(&[9; 512])).await;
        assert_eq!(sector, Ok(512));
        assert_eq!(vfs.body().persist().metrics().byte_requests, 0);
    });
}

#[test]
fn the_superblock_goes_as_a_block_where_it_goes_alone() {
    over(128, strict(), async |vfs, disk| {
        let strategy = vfs.body().persist().clone();
        assert_eq!(strategy.metrics().superblocks, 1);
        let process = root(&vfs);
        open(&process, "/file").await;
        process.exit().await;
        vfs.unmount().await.unwrap();
        assert_eq!(strategy.metrics().superblocks, 2);
        let superblock = disk.ledger().purpose(Purpose::Superblock).write;
        assert_eq!(superblock.block, 2 * 4_096);
    });
}

/// Mail, and small changes in place, each forced.
async fn forced_changes<B: vfs::Body>(process: &vfs::Process<B>) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    for mail in 0..100_u64 {
        let path = format!("/mail{mail}");
        let fd = process.open(path.as_bytes(), flags, 0o644).await.unwrap();
        process
            .write(fd, Source::Bytes(&[1; 16_384]))
            .await
            .unwrap();
        process.fsync(fd).await.unwrap();
        process.close(fd).await.unwrap();
        if mail % 2 == 0 {
            process.unlink(path.as_bytes()).await.unwrap();
        }
    }
    let fd = process.open(b"/table", flags, 0o644).await.unwrap();
    let all = Source::Bytes(&[1; 400_000]);
    process.write(fd, all).await.unwrap();
    for row in 0..200_u64 {
        let at = row * 7_919 % 399_900;
        process
            .pwrite(fd, at, Source::Bytes(&[2; 100]))
            .await
            .unwrap();
        process.fsync(fd).await.unwrap();
    }
    process.sync().await.unwrap();
}

/// Writes to a disk: by bytes, and by blocks.
fn written(disk: &RamDisk) -> (u64, u64) {
    let ledger = disk.ledger();
    let grains = Purpose::ALL.map(|purpose| ledger.purpose(purpose).write);
    let sum = |part: fn(&host::Grain) -> u64| grains.iter().map(part).sum();
    (sum(|g| g.byte), sum(|g| g.block))
}

fn on_ext4() -> (u64, u64) {
    let mkfs = MkfsOptions {
        journal_blocks: Some(1_024),
        ..bytefs::mkfs_options(BLOCKS)
    };
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), formatted(&mkfs)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let options = extfs::ext4::Options::default();
        let (body, _) = extfs::ext4::mount(&sim, &disk, options).await.unwrap();
        let cache = crate::bench::cache(false);
        let (clock, free) = (vfs::Clock::default(), vfs::Compute::unlimited());
        let vfs = vfs::Vfs::mount(&sim, body, cache, clock, free);
        let process = vfs::Process::new(&vfs, vfs::Access::root());
        forced_changes(&process).await;
    });
    written(&kept)
}

fn on_bytefs(variant: Variant) -> (u64, u64) {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), crate::bench::small()));
    let kept = disk.clone();
    kernel.block_on(async move {
        let options = Options {
            variant,
            ..strict()
        };
        let vfs = mounted(&sim, &disk, options).await;
        forced_changes(&root(&vfs)).await;
    });
    written(&kept)
}

#[test]
//= bytefs 5.4
fn each_part_of_the_mechanism_writes_less() {
    let ext4 = on_ext4();
    let (log, full) = (on_bytefs(Variant::Log), on_bytefs(Variant::Full));
    println!("(bytes, blocks): ext4 {ext4:?}, log {log:?}, full {full:?}");
    let all = |(bytes, blocks): (u64, u64)| bytes + blocks;
    assert!(all(full) < all(log) && all(log) < all(ext4));
    assert_eq!(ext4.0, 0);
}
