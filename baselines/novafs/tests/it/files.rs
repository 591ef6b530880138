//! Behaviour particular to this file system.

use crate::bench::{Fs, mounted, new_image, with_root};
use host::{Purpose, RamDisk};
use novafs::check;
use sim::Kernel;
use vfs::{
    Access, Body, Errno, FallocateMode, FileKind, OpenFlags, PAGE, Process, Source, Whence,
    XattrFlags,
};

const MAKE: OpenFlags = OpenFlags::CREAT;

async fn put(process: &Process<Fs>, path: &[u8], bytes: &[u8]) {
    let fd = process.open(path, MAKE, 0o644).await.unwrap();
    let written = process.pwrite(fd, 0, Source::Bytes(bytes)).await;
    assert_eq!(written, Ok(bytes.len() as u64));
    process.close(fd).await.unwrap();
}

/// Runs `work` over an image, and returns the medium without an unmount, as after a power cut.
fn until_cut<W>(image: &[u8], work: impl FnOnce(Process<Fs>) -> W + 'static) -> Vec<u8>
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
    });
    kept.to_image()
}

#[test]
fn files_without_a_name_are_gone_after_a_cut_with_their_pages() {
    let image = new_image(512, 2);
    let free = |image: &[u8]| {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, image);
        kernel.block_on(async move { mounted(&sim, disk, false).await.statfs().await.unwrap() })
    };
    let before = free(&image);
    let left = until_cut(&image, |process| async move {
        let flags = OpenFlags::BOTH | OpenFlags::TMPFILE;
        let fd = process.open(b"/", flags, 0o600).await.unwrap();
        let source = Source::Bytes(&[7; 20_000]);
        process.pwrite(fd, 0, source).await.unwrap();
        put(&process, b"/f", &[1; 9_000]).await;
        let open = process.open(b"/f", OpenFlags::READ, 0).await.unwrap();
        process.unlink(b"/f").await.unwrap();
        assert_eq!(process.read_bytes(open, 0, 2).await, Ok(vec![1, 1]));
        std::mem::forget(process);
    });
    assert_eq!(check(&left[..]).len(), 2, "two inodes without a name");
    let after = free(&left);
    assert_eq!(
        after.files_free,
        before.files_free - 31,
        "the log of the root has a page"
    );
    assert_eq!(after.blocks_free, before.blocks_free - 1);
}

#[test]
fn special_files_and_links_keep_their_type_and_target() {
    let image = with_root(512, |p| async move {
        p.umask(0);
        for (kind, path) in [
            (FileKind::CharDevice, &b"/char"[..]),
            (FileKind::BlockDevice, b"/block"),
            (FileKind::Fifo, b"/fifo"),
            (FileKind::Socket, b"/socket"),
        ] {
            p.mknod(path, kind, 0o640, 0x801).await.unwrap();
        }
        let target = vec![b't'; 4_095];
        p.symlink(&target, b"/long").await.unwrap();
        p.symlink(b"t", b"/short").await.unwrap();
        p.exit().await;
    });
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &image);
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, false).await;
        let p = Process::new(&vfs, Access::root());
        for (path, kind, rdev) in [
            (&b"/char"[..], FileKind::CharDevice, 0x801),
            (b"/block", FileKind::BlockDevice, 0x801),
            (b"/fifo", FileKind::Fifo, 0),
            (b"/socket", FileKind::Socket, 0),
        ] {
            let attr = p.stat(path).await.unwrap();
            assert_eq!((attr.kind, attr.mode, attr.rdev), (kind, 0o640, rdev));
        }
        assert_eq!(p.readlink(b"/long").await, Ok(vec![b't'; 4_095]));
        assert_eq!(p.readlink(b"/short").await, Ok(b"t".to_vec()));
    });
}

#[test]
fn holes_and_data_are_found() {
    with_root(512, |p| async move {
        let fd = p.open(b"/f", OpenFlags::BOTH | MAKE, 0o600).await.unwrap();
        let fill = |len| Source::Fill { pattern: 1, len };
        p.pwrite(fd, 2 * PAGE + 5, fill(2 * PAGE)).await.unwrap();
        p.ftruncate(fd, 10 * PAGE + 1).await.unwrap();
        let mode = FallocateMode::Allocate { keep_size: true };
        p.fallocate(fd, mode, 6 * PAGE, PAGE).await.unwrap();
        assert_eq!(p.lseek(fd, Whence::Data(0)).await, Ok(2 * PAGE));
        assert_eq!(p.lseek(fd, Whence::Hole(2 * PAGE)).await, Ok(5 * PAGE));
        let none = p.lseek(fd, Whence::Data(5 * PAGE)).await;
        assert_eq!(none, Err(Errno::ENXIO), "what is allocated is no data yet");
        assert_eq!(p.fstat(fd).await.unwrap().sectors, 4 * 8);
        p.fallocate(fd, FallocateMode::Punch, 3 * PAGE, PAGE)
            .await
            .unwrap();
        assert_eq!(p.lseek(fd, Whence::Hole(2 * PAGE)).await, Ok(3 * PAGE));
        assert_eq!(p.fstat(fd).await.unwrap().sectors, 3 * 8);
        p.exit().await;
    });
}

#[test]
fn values_take_a_line_or_a_page_and_no_more() {
    with_root(512, |p| async move {
        put(&p, b"/f", b"").await;
        let free = p.vfs().statfs().await.unwrap().blocks_free;
        for (len, taken) in [(0, 1), (400, 1), (4_096, 2), (5, 1)] {
            let value = vec![len as u8; len];
            let set = p.set_xattr(b"/f", b"user.x", &value, XattrFlags::Any);
            set.await.unwrap();
            assert_eq!(p.get_xattr(b"/f", b"user.x").await, Ok(value));
            let now = p.vfs().statfs().await.unwrap().blocks_free;
            assert_eq!(now, free - taken, "{len} bytes");
        }
        let long = p.set_xattr(b"/f", b"user.y", &[0; 4_097], XattrFlags::Any);
        assert_eq!(long.await, Err(Errno::ENOSPC));
        p.exit().await;
    });
}

#[test]
fn a_full_file_system_can_be_emptied() {
    with_root(200, |p| async move {
        let before = p.vfs().statfs().await.unwrap();
        let mut made = 0;
        loop {
            let path = format!("/{made}").into_bytes();
            let fd = match p.open(&path, OpenFlags::BOTH | MAKE, 0o600).await {
                Ok(fd) => fd,
                Err(errno) => break assert_eq!(errno, Errno::ENOSPC),
            };
            made += 1;
            let source = Source::Fill {
                pattern: 9,
                len: 3 * PAGE,
            };
            let written = p.pwrite(fd, 0, source).await;
            assert!(matches!(written, Ok(12_288) | Err(Errno::ENOSPC)));
            p.close(fd).await.unwrap();
        }
        let full = p.vfs().statfs().await.unwrap();
        assert_eq!(full.blocks_available, 0);
        assert!(made > 31, "the tables have grown: {made}");
        for n in 0..made {
            let path = format!("/{n}").into_bytes();
            p.truncate(&path, 1).await.unwrap();
            p.unlink(&path).await.unwrap();
        }
        let after = p.vfs().statfs().await.unwrap();
        // Table pages, which are never freed, and log pages remain.
        let kept = before.blocks_free - after.blocks_free;
        assert!(kept <= made / 31 + 3, "{kept} pages are not free again");
        p.exit().await;
    });
}

#[test]
fn a_write_costs_its_pages_an_entry_and_a_tail() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(512, 1));
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk.clone(), false).await;
        let p = Process::new(&vfs, Access::root());
        let fd = p.open(b"/f", OpenFlags::BOTH | MAKE, 0o600).await.unwrap();
        p.pwrite(fd, 0, Source::Bytes(&[1; 3 * PAGE as usize]))
            .await
            .unwrap();
        let before = disk.ledger();
        p.pwrite(fd, PAGE - 8, Source::Bytes(&[2; 16]))
            .await
            .unwrap();
        let spent = disk.ledger().since(&before);
        let bytes = |purpose| spent.purpose(purpose).write.byte;
        assert_eq!(bytes(Purpose::Data), 2 * PAGE, "parts of pages are copied");
        assert_eq!(spent.purpose(Purpose::Data).read.byte, 2 * PAGE);
        assert_eq!(bytes(Purpose::Pointer), 64);
        assert_eq!(bytes(Purpose::Inode), 64);
        assert_eq!(bytes(Purpose::Journal), 0);
        let before = disk.ledger();
        p.fsync(fd).await.unwrap();
        assert!(disk.ledger() == before, "it is durable already");
        p.mkdir(b"/d", 0o755).await.unwrap();
        let spent = disk.ledger().since(&before);
        let bytes = |purpose| spent.purpose(purpose).write.byte;
        assert_eq!(bytes(Purpose::Directory), 64, "a name");
        assert_eq!(
            bytes(Purpose::Journal),
            3 * 64,
            "two old lines, and that it is done"
        );
        assert_eq!(
            bytes(Purpose::Inode),
            3 * 64,
            "two first lines, and the new inode"
        );
        assert_eq!(spent.write_bytes(), 7 * 64);
        for purpose in Purpose::ALL {
            let all = disk.ledger().purpose(purpose);
            assert_eq!((all.read.block, all.write.block), (0, 0), "no blocks");
        }
    });
}

#[test]
fn a_store_to_a_mapped_file_is_one_write() {
    let image = new_image(512, 1);
    let left = until_cut(&image, |p| async move {
        let fd = p.open(b"/f", OpenFlags::BOTH | MAKE, 0o600).await.unwrap();
        p.pwrite(fd, 0, Source::Bytes(&[1; 6_000])).await.unwrap();
        let (vfs, handle) = (p.vfs().clone(), p.handle(fd).unwrap());
        let stored = vfs.map_write(&handle, 4_090, Source::Bytes(&[2; 12])).await;
        assert_eq!(stored, Ok(12));
        let past = vfs
            .map_write(&handle, 5_990, Source::Bytes(&[3; 100]))
            .await;
        assert_eq!(past, Ok(10), "behind the end nothing is written");
        let mut seen = [0; 16];
        let mut sink = seen.as_mut_slice();
        assert_eq!(vfs.map_read(&handle, 4_088, 16, &mut sink).await, Ok(16));
        assert_eq!(seen[..4], [1, 1, 2, 2]);
        assert_eq!(vfs.stats().cached, 0);
    });
    // The data were not forced, and are there.
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &left);
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, false).await;
        let p = Process::new(&vfs, Access::root());
        let fd = p.open(b"/f", OpenFlags::READ, 0).await.unwrap();
        let bytes = p.read_bytes(fd, 0, 10_000).await.unwrap();
        let mut expected = vec![1; 6_000];
        expected[4_090..4_102].fill(2);
        expected[5_990..].fill(3);
        assert_eq!(bytes, expected);
    });
}

/// A refused page, and a refused attribute value, report their limits and the holders.
#[test]
fn refused_allocation_reports_its_limit() {
    with_root(512, |p| async move {
        let fd = p.open(b"/full", MAKE, 0o600).await.unwrap();
        let mut end = 0;
        loop {
            let bytes = Source::Bytes(&[7; 65_536]);
            match p.pwrite(fd, end, bytes).await {
                Ok(len) => end += len,
                Err(error) => break assert_eq!(error, Errno::ENOSPC),
            }
        }
        let why = p.vfs().body().refusals().last().unwrap().clone();
        let held: u64 = why.held_by.iter().map(|holder| holder.amount).sum();
        assert_eq!((why.limit, why.total), ("pages", 512));
        assert_eq!(held + why.free, 512, "{why}");
        assert!(
            why.reserve > 0 && why.asked > why.free - why.reserve,
            "{why}"
        );
        assert_eq!(
            why.held_by[0].amount, 5,
            "a superblock, two journals, two tables"
        );
        let rest = why.held_by.last().unwrap();
        assert!(rest.amount * PAGE >= end, "{why}");
        let large = p.set_xattr(b"/full", b"user.a", &[1; 9_000], XattrFlags::Any);
        assert_eq!(large.await, Err(Errno::ENOSPC));
        let why = p.vfs().body().refusals().last().unwrap().clone();
        assert_eq!((why.asked, why.total), (9_000, 4_096));
        p.close(fd).await.unwrap();
    });
}
