//! The body over its journal and under the cache: durability after a force, and promises of space.

use extfs::ext4::{self, Options};
use extfs::jbd2::Jbd2;
use extfs::{ExtFs, MkfsOptions, check};
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use units::{Bytes, Ns};
use vfs::{
    Access, CacheConfig, Clock, Compute, Errno, FallocateMode, OpenFlags, Process, Source, Vfs,
};

/// 16 MiB: the smallest disk with a journal.
const BLOCKS: u64 = 4_096;

type Mounted = Vfs<ExtFs<Jbd2>>;

/// Mounts; the cache writes files back once they are `expire` old.
async fn mount(sim: &Sim, disk: &RamDisk, expire: Ns) -> Mounted {
    let (body, _) = ext4::mount(sim, disk, Options::default()).await.unwrap();
    let config = CacheConfig {
        expire,
        writeback_interval: Ns::ms(100),
        ..CacheConfig::default()
    };
    Vfs::mount(sim, body, config, Clock::default(), Compute::unlimited())
}

/// A new file system, mounted.
async fn fresh(sim: &Sim, expire: Ns) -> (RamDisk, Mounted) {
    let disk = RamDisk::new(sim, Bytes(BLOCKS * 4_096));
    let options = MkfsOptions {
        journal_blocks: Some(1_024),
        ..MkfsOptions::new(BLOCKS)
    };
    ext4::format(&disk, &options).await.unwrap();
    let vfs = mount(sim, &disk, expire).await;
    (disk, vfs)
}

fn run<W: Future<Output = ()> + 'static>(work: impl FnOnce(Sim) -> W) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(work(sim));
}

/// First 8 KiB of `/file` after a power cut.
async fn after_cut(sim: &Sim, disk: &RamDisk) -> vfs::Result<Vec<u8>> {
    let left = disk.after_cut(&mut Seed(1).stream("cut"));
    let disk = RamDisk::holding(sim, Bytes(BLOCKS * 4_096), left);
    let vfs = mount(sim, &disk, Ns::secs(30)).await;
    let process = Process::new(&vfs, Access::root());
    let fd = process.open(b"/file", OpenFlags::READ, 0).await?;
    process.read_bytes(fd, 0, 8_192).await
}

#[test]
fn file_dropped_from_the_cache_is_durable_after_an_fsync() {
    for data_only in [false, true] {
        run(async move |sim| {
            let (disk, vfs) = fresh(&sim, Ns::ms(1)).await;
            let process = Process::new(&vfs, Access::root());
            let create = OpenFlags::BOTH | OpenFlags::CREATE;
            let fd = process.open(b"/file", create, 0o644).await.unwrap();
            process.write(fd, Source::Bytes(&[7; 5_000])).await.unwrap();
            process.close(fd).await.unwrap();
            // The file is written back, and its transaction is not committed.
            sim.sleep(Ns::secs(1)).await;
            vfs.drop_caches().await.unwrap();
            let fd = process.open(b"/file", OpenFlags::BOTH, 0).await.unwrap();
            let forced = if data_only {
                process.fdatasync(fd).await
            } else {
                process.fsync(fd).await
            };
            forced.unwrap();
            assert_eq!(after_cut(&sim, &disk).await, Ok(vec![7; 5_000]));
        });
    }
}

/// SQLite commits by removing its journal, and forces the directory with `fdatasync`.
#[test]
fn removed_name_is_durable_after_an_fdatasync_of_its_directory() {
    run(async move |sim| {
        let (disk, vfs) = fresh(&sim, Ns::secs(30)).await;
        let process = Process::new(&vfs, Access::root());
        let create = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/file", create, 0o644).await.unwrap();
        process.fsync(fd).await.unwrap();
        process.close(fd).await.unwrap();
        process.unlink(b"/file").await.unwrap();
        let root = process.open(b"/", OpenFlags::READ, 0).await.unwrap();
        process.fdatasync(root).await.unwrap();
        assert_eq!(after_cut(&sim, &disk).await, Err(Errno::ENOENT));
    });
}

/// Allocates or writes 64 KiB at a time until no space is left.
async fn take_all(process: &Process<ExtFs<Jbd2>>, direct: bool) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let flags = if direct {
        flags | OpenFlags::DIRECT
    } else {
        flags
    };
    let fd = process.open(b"/other", flags, 0o644).await.unwrap();
    let mode = FallocateMode::Allocate { keep_size: false };
    let full = (0..BLOCKS).map(|step| step * 65_536);
    for offset in full {
        let taken = if direct {
            let bytes = Source::Fill {
                pattern: 3,
                len: 65_536,
            };
            process.pwrite(fd, offset, bytes).await.map(drop)
        } else {
            process.fallocate(fd, mode, offset, 65_536).await
        };
        if taken.is_err() {
            assert_eq!(taken, Err(Errno::ENOSPC));
            return;
        }
    }
    panic!("the file system is endless");
}

#[test]
fn space_promised_to_a_file_is_not_allocated_to_others() {
    for direct in [false, true] {
        run(async move |sim| {
            let (disk, vfs) = fresh(&sim, Ns::secs(30)).await;
            let process = Process::new(&vfs, Access::root());
            let create = OpenFlags::BOTH | OpenFlags::CREATE;
            let fd = process.open(b"/file", create, 0o644).await.unwrap();
            let bytes = vec![7; 4_000_000];
            process.write(fd, Source::Bytes(&bytes)).await.unwrap();
            take_all(&process, direct).await;
            assert_eq!(process.fsync(fd).await, Ok(()), "direct: {direct}");
            assert_eq!(after_cut(&sim, &disk).await, Ok(vec![7; 8_192]));
        });
    }
}

#[test]
fn promise_refused_takes_no_space() {
    run(async move |sim| {
        let (_disk, vfs) = fresh(&sim, Ns::secs(30)).await;
        let process = Process::new(&vfs, Access::root());
        let create = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/file", create, 0o644).await.unwrap();
        let page = Source::Bytes(&[7; 4_096]);
        process.pwrite(fd, 150 * 4_096, page).await.unwrap();
        process.fsync(fd).await.unwrap();
        let other = process.open(b"/other", create, 0o644).await.unwrap();
        let mode = FallocateMode::Allocate { keep_size: false };
        // Leaves room to promise 150 blocks, but not 250.
        let free = vfs.statfs().await.unwrap().blocks_free;
        let len = (free - 82 - 200) * 4_096;
        process.fallocate(other, mode, 0, len).await.unwrap();
        let before = vfs.statfs().await.unwrap().blocks_free;
        let ino = process.ino(fd).unwrap();
        let inode = vfs::Body::load(vfs.body(), ino).await.unwrap();
        let root = Access::root();
        let promised = vfs::Body::reserve(vfs.body(), &root, &inode, 0..256).await;
        assert_eq!(promised, Err(Errno::ENOSPC));
        assert_eq!(vfs.statfs().await.unwrap().blocks_free, before);
        let promised = vfs::Body::reserve(vfs.body(), &root, &inode, 0..150).await;
        assert_eq!(promised, Ok(()));
        assert_eq!(vfs.statfs().await.unwrap().blocks_free, before - 150);
    });
}

/// Takes all free blocks, those kept for metadata included.
async fn leave_nothing(process: &Process<ExtFs<Jbd2>>) {
    take_all(process, false).await;
    process.sync().await.unwrap();
    for number in 0..BLOCKS {
        let path = format!("/{number}");
        match process.mkdir(path.as_bytes(), 0o755).await {
            Ok(()) => {}
            Err(error) => return assert_eq!(error, Errno::ENOSPC),
        }
    }
    panic!("the file system is endless");
}

/// Makes `/file` of four extents of ten pages, as many as an inode has room for; the third
/// is allocated and not written.
async fn four_pieces(process: &Process<ExtFs<Jbd2>>) -> vfs::Fd {
    let create = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(b"/file", create, 0o644).await.unwrap();
    for piece in [0, 1, 3] {
        let bytes = Source::Bytes(&[7; 40_960]);
        process.pwrite(fd, piece * 81_920, bytes).await.unwrap();
    }
    let mode = FallocateMode::Allocate { keep_size: true };
    process.fallocate(fd, mode, 163_840, 40_960).await.unwrap();
    process.fsync(fd).await.unwrap();
    fd
}

#[test]
fn extent_split_on_a_full_disk_fails_and_changes_nothing() {
    for punched in [false, true] {
        run(async move |sim| {
            let (disk, vfs) = fresh(&sim, Ns::secs(30)).await;
            let process = Process::new(&vfs, Access::root());
            let fd = four_pieces(&process).await;
            leave_nothing(&process).await;
            let before = process.fstat(fd).await.unwrap();
            let split = if punched {
                let punch = process.fallocate(fd, FallocateMode::Punch, 81_920 + 16_384, 8_192);
                punch.await
            } else {
                let page = Source::Bytes(&[8; 4_096]);
                let written = process.pwrite(fd, 163_840 + 16_384, page).await;
                written.unwrap();
                process.fsync(fd).await
            };
            assert_eq!(split, Err(Errno::ENOSPC), "punched: {punched}");
            assert_eq!(process.fstat(fd).await.unwrap().sectors, before.sectors);
            vfs.drop_caches().await.unwrap();
            let bytes = process.read_bytes(fd, 81_920, 40_960).await.unwrap();
            assert!(bytes.iter().all(|&byte| byte == 7), "punched: {punched}");
            process.exit().await;
            vfs.unmount().await.unwrap();
            assert_eq!(check(&disk.to_image()[..]), []);
        });
    }
}

#[test]
fn bytes_behind_the_end_after_a_cut_read_as_zeros_once_the_file_grows() {
    run(async move |sim| {
        let (disk, vfs) = fresh(&sim, Ns::ms(1)).await;
        let process = Process::new(&vfs, Access::root());
        let create = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/file", create, 0o644).await.unwrap();
        process.write(fd, Source::Bytes(&[7; 100])).await.unwrap();
        process.fsync(fd).await.unwrap();
        process.write(fd, Source::Bytes(&[8; 100])).await.unwrap();
        // The file is written back and not committed; the cut keeps all writes.
        sim.sleep(Ns::secs(1)).await;
        let image = disk.to_image();
        for way in 0..3 {
            let disk = RamDisk::from_image(&sim, &image);
            let vfs = mount(&sim, &disk, Ns::secs(30)).await;
            let process = Process::new(&vfs, Access::root());
            let fd = process.open(b"/file", OpenFlags::BOTH, 0).await.unwrap();
            assert_eq!(process.fstat(fd).await.unwrap().size, 100);
            let allocate = FallocateMode::Allocate { keep_size: false };
            let far = Source::Bytes(&[9; 10]);
            match way {
                0 => process.ftruncate(fd, 4_096).await,
                1 => process.fallocate(fd, allocate, 150, 5_000).await,
                _ => process.pwrite(fd, 5_000, far).await.map(drop),
            }
            .unwrap();
            vfs.sync().await.unwrap();
            vfs.drop_caches().await.unwrap();
            let read = process.read_bytes(fd, 0, 300).await.unwrap();
            assert_eq!(read, [[7; 100], [0; 100], [0; 100]].concat(), "way {way}");
        }
    });
}
