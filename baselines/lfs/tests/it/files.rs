//! Large and sparse files, large directories, extended attributes, full media, and images of
//! `mkfs.f2fs`.

use crate::bench::{Fs, judge, made, mounted, with_root};
use crate::tools::{has, run, save};
use host::RamDisk;
use lfs::MkfsOptions;
use nand::Payload;
use sim::{Kernel, Seed};
use units::Bytes;
use vfs::{Access, Body, Errno, OpenFlags, Process, RenameFlags, Source, XattrFlags};

fn fill(pattern: u64, len: u64) -> Source<'static> {
    Source::Fill { pattern, len }
}

const CREATE: OpenFlags = OpenFlags::CREATE;

async fn put(p: &Process<Fs>, path: &[u8], offset: u64, pattern: u64, len: u64) {
    let fd = p.open(path, OpenFlags::BOTH | CREATE, 0o600).await.unwrap();
    assert_eq!(p.pwrite(fd, offset, fill(pattern, len)).await, Ok(len));
    p.close(fd).await.unwrap();
}

async fn is_there(p: &Process<Fs>, path: &[u8], offset: u64, pattern: u64) {
    let fd = p.open(path, OpenFlags::READ, 0).await.unwrap();
    let bytes = p.read_bytes(fd, offset, 8).await.unwrap();
    assert_eq!(bytes, pattern.to_le_bytes());
    p.close(fd).await.unwrap();
}

/// A direct write to a part of a page reads the page first. The blocks of the write are reserved
/// by then, and after an error no write-back would use them.
#[test]
fn direct_write_over_a_lost_page_takes_no_space() {
    let options = MkfsOptions::new(16_384);
    let image = with_root(&made(&options), async |p| put(&p, b"/f", 0, 7, 4_096).await);
    let (kernel, size) = (Kernel::new(), Bytes(options.blocks * 4_096));
    let sim = kernel.sim();
    let mut left = RamDisk::from_image(&sim, &image).after_cut(&mut Seed(0).stream("none"));
    let page = [7_u64.to_le_bytes(); 512].concat();
    let mut blocks = left.values_mut();
    let found = blocks.find(|block| block.to_bytes()[..] == page[..]);
    *found.unwrap() = Payload::Lost;
    let disk = RamDisk::holding(&sim, size, left);
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, false).await;
        let p = Process::new(&vfs, Access::root());
        let free = async || p.vfs().statfs().await.unwrap().blocks_free;
        let flags = OpenFlags::BOTH | OpenFlags::DIRECT;
        let fd = p.open(b"/f", flags, 0).await.unwrap();
        let before = (free().await, p.fstat(fd).await.unwrap().sectors);
        assert_eq!(p.pwrite(fd, 512, fill(9, 5 * 4_096)).await, Err(Errno::EIO));
        assert_eq!((free().await, p.fstat(fd).await.unwrap().sectors), before);
        assert_eq!(p.pwrite(fd, 4_096, fill(9, 8_192)).await, Ok(8_192));
        is_there(&p, b"/f", 4_096, 9).await;
        p.close(fd).await.unwrap();
        vfs.unmount().await.unwrap();
        vfs.check();
    });
}

/// Pages under each kind of node: inode, direct, indirect and double indirect nodes.
const PAGES: [u64; 7] = [0, 900, 1_900, 3_000, 1_038_000, 2_076_000, 3_200_000];

#[test]
fn sparse_file_is_read_and_truncated_at_each_level_of_nodes() {
    let image = with_root(&made(&MkfsOptions::new(16_384)), async |p| {
        for page in PAGES {
            put(&p, b"/sparse", page * 4096, page + 1, 4096).await;
        }
        p.sync().await.unwrap();
        p.vfs().drop_caches().await.unwrap();
        for page in PAGES {
            is_there(&p, b"/sparse", page * 4096, page + 1).await;
        }
        let before = p.vfs().statfs().await.unwrap().blocks_free;
        p.truncate(b"/sparse", 2_000 * 4096).await.unwrap();
        p.sync().await.unwrap();
        // Four pages are freed, and the nodes above them: 1 + 1, 1 + 1, 1 + 1 + 1, and the
        // direct node of page 3,000.
        let after = p.vfs().statfs().await.unwrap().blocks_free;
        assert!(after > before + 7, "{before} {after}");
        is_there(&p, b"/sparse", 1_900 * 4096, 1_901).await;
    });
    judge(&image);
}

#[test]
fn directory_of_6000_names_is_looked_up_and_changed() {
    with_root(&made(&MkfsOptions::new(32_768)), async |p| {
        p.mkdir(b"/d", 0o700).await.unwrap();
        let name = |n: u32| format!("/d/{}-{n}", "x".repeat(n as usize % 90)).into_bytes();
        for n in 0..6_000 {
            put(&p, &name(n), 0, u64::from(n), 8).await;
        }
        p.sync().await.unwrap();
        p.vfs().drop_caches().await.unwrap();
        for n in (0..6_000).step_by(7) {
            is_there(&p, &name(n), 0, u64::from(n)).await;
            p.unlink(&name(n)).await.unwrap();
        }
        for n in (1..6_000).step_by(7) {
            let to = format!("/{n}").into_bytes();
            p.rename(&name(n), &to, RenameFlags::default())
                .await
                .unwrap();
        }
        assert_eq!(p.rmdir(b"/d").await, Err(Errno::ENOTEMPTY));
    });
}

#[test]
fn attributes_beyond_the_inode_are_kept_in_a_node() {
    with_root(&made(&MkfsOptions::new(16_384)), async |p| {
        put(&p, b"/f", 0, 1, 100).await;
        let (f, any) = (b"/f", XattrFlags::Any);
        for n in 0..12_u8 {
            let name = format!("user.{n}").into_bytes();
            let value = vec![n; 40 + 20 * usize::from(n)];
            p.set_xattr(f, &name, &value, any).await.unwrap();
        }
        let large = p.set_xattr(f, b"user.large", &[1; 4_000], any).await;
        assert_eq!(large, Err(Errno::ENOSPC));
        let why = p.vfs().body().refusals().last().unwrap().clone();
        assert_eq!(why.limit, "bytes of attributes of a file");
        assert!(why.asked > why.free && why.free == why.total, "{why}");
        p.sync().await.unwrap();
        p.vfs().drop_caches().await.unwrap();
        assert_eq!(p.get_xattr(f, b"user.11").await, Ok(vec![11; 260]));
        for n in 1..12 {
            let name = format!("user.{n}").into_bytes();
            p.remove_xattr(f, &name).await.unwrap();
        }
        assert_eq!(p.list_xattrs(f).await, Ok(vec![b"user.0".to_vec()]));
    });
}

#[test]
fn full_medium_can_be_overwritten_and_emptied() {
    let image = with_root(&made(&MkfsOptions::new(16_384)), async |p| {
        let fd = p
            .open(b"/full", OpenFlags::BOTH | CREATE, 0o600)
            .await
            .unwrap();
        let mut end = 0;
        loop {
            match p.pwrite(fd, end, fill(end, 65_536)).await {
                Ok(len) => end += len,
                Err(error) => break assert_eq!(error, Errno::ENOSPC),
            }
        }
        assert!(end > 14 << 20, "{end}");
        let why = p.vfs().body().refusals().last().unwrap().clone();
        let held = |who: &str| {
            let of = why.held_by.iter().filter(|holder| holder.who == who);
            of.map(|holder| holder.amount).sum::<u64>()
        };
        let sum: u64 = why.held_by.iter().map(|holder| holder.amount).sum();
        assert_eq!(
            (why.limit, why.free, sum),
            ("blocks", 0, why.total),
            "{why}"
        );
        assert!(held("data").abs_diff(end / 4096) < 16, "{why}");
        let stat = p.vfs().statfs().await.unwrap();
        let kept = held("reserved sections") + held("over-provision for cleaning");
        assert_eq!(why.total - kept, stat.blocks, "{why}");
        assert_eq!(held("data") + held("nodes"), stat.blocks, "{why}");
        let mut rng = sim::Seed(3).stream("pages");
        for _ in 0..12_000 {
            let at = rng.below(end / 4096) * 4096;
            p.pwrite(fd, at, fill(at, 4096)).await.unwrap();
            if rng.below(200) == 0 {
                p.fsync(fd).await.unwrap();
            }
        }
        p.close(fd).await.unwrap();
        p.unlink(b"/full").await.unwrap();
        p.sync().await.unwrap();
        let stat = p.vfs().statfs().await.unwrap();
        assert_eq!(stat.blocks - stat.blocks_free, 2);
    });
    judge(&image);
}

#[test]
fn image_of_mkfs_f2fs_is_filled_and_read_by_dump_f2fs() {
    if !has("mkfs.f2fs") || !has("dump.f2fs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let theirs = save(dir.path(), "theirs", &vec![0; 64 << 20]);
    run("mkfs.f2fs", &["-f", "-l", "theirs"], &theirs);
    let image = std::fs::read(&theirs).unwrap();
    let image = with_root(&image, async |p| {
        put(&p, b"/small", 0, 5, 100).await;
        put(&p, b"/song.mp3", 0, 6, 100_000).await;
        p.mkdir(b"/dir", 0o755).await.unwrap();
        for n in 0..500_u64 {
            put(&p, format!("/dir/{n}").as_bytes(), n * 1_000, n, 5_000).await;
        }
        p.symlink(b"small", b"/link").await.unwrap();
        p.symlink(&[b't'; 4_000], b"/long").await.unwrap();
        p.link(b"/small", b"/dir/hard").await.unwrap();
    });
    let path = save(dir.path(), "filled", &image);
    let said = run("dump.f2fs", &["-i", "3"], &path);
    assert!(said.contains("small") || said.contains("i_links"), "{said}");
    with_root(&image, async |p| {
        for n in 0..500_u64 {
            // A pattern repeats in words of 8 bytes from the start of the file.
            let at = (n * 1_000).next_multiple_of(8);
            is_there(&p, format!("/dir/{n}").as_bytes(), at, n).await;
        }
        assert_eq!(p.readlink(b"/long").await, Ok(vec![b't'; 4_000]));
    });
}
