//! Extents and nodes that files or snapshots share.

use crate::bench::{Fs, cache, judge, made};
use crate::tools::{can_mount, in_kernel, save};
use cowfs::{MkfsOptions, MountOptions, mount};
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use units::Ns;
use vfs::model::Tree;
use vfs::{
    Access, Body, Clock, Compute, Errno, Fd, OpenFlags, Process, RenameFlags, Source, Timestamp,
    Vfs, XattrFlags,
};

fn flags() -> OpenFlags {
    OpenFlags::BOTH | OpenFlags::CREATE
}

async fn body(sim: &Sim, disk: &RamDisk) -> Fs {
    let options = MountOptions {
        interval: Ns::us(2_000),
        ..MountOptions::default()
    };
    mount(sim, disk, options).await.unwrap().0
}

fn vfs(sim: &Sim, body: Fs) -> Vfs<Fs> {
    Vfs::mount(
        sim,
        body,
        cache(false),
        Clock::default(),
        Compute::unlimited(),
    )
}

fn on_new(blocks: u64, work: impl AsyncFnOnce(Sim, RamDisk) + 'static) -> Vec<u8> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(blocks)));
    let kept = disk.clone();
    kernel.block_on(async move { work(sim, disk).await });
    let image = kept.to_image();
    judge(&image);
    image
}

#[test]
fn shared_range_is_copied_on_write() {
    on_new(16_384, async |sim, disk| {
        let vfs = vfs(&sim, body(&sim, &disk).await);
        let p = Process::new(&vfs, Access::root());
        let from = p.open(b"/from", flags(), 0o600).await.unwrap();
        let to = p.open(b"/to", flags(), 0o600).await.unwrap();
        let source = Source::Fill {
            pattern: 5,
            len: 4 << 20,
        };
        p.pwrite(from, 0, source).await.unwrap();
        p.sync().await.unwrap();
        let before = vfs.statfs().await.unwrap().blocks_free;
        for turn in 0..6 {
            let done = p
                .copy_file_range(from, 0, to, turn * (4 << 20), 4 << 20)
                .await;
            assert_eq!(done, Ok(4 << 20));
        }
        p.sync().await.unwrap();
        let after = vfs.statfs().await.unwrap().blocks_free;
        assert!(before - after < 64, "nothing was copied: {before} {after}");
        p.pwrite(to, 8_192, Source::Bytes(b"changed"))
            .await
            .unwrap();
        p.pwrite(
            from,
            1 << 20,
            Source::Fill {
                pattern: 9,
                len: 8_192,
            },
        )
        .await
        .unwrap();
        p.sync().await.unwrap();
        vfs.drop_caches().await.unwrap();
        assert_eq!(
            p.read_bytes(from, 8_192, 7).await.unwrap(),
            [5, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(p.read_bytes(to, 8_192, 7).await.unwrap(), b"changed");
        assert_eq!(p.read_bytes(to, 1 << 20, 1).await.unwrap(), [5]);
        p.exit().await;
        p_gone(&vfs, b"/from").await;
        vfs.unmount().await.unwrap();
    });
}

async fn p_gone(vfs: &Vfs<Fs>, path: &[u8]) {
    let p = Process::new(vfs, Access::root());
    p.unlink(path).await.unwrap();
    p.exit().await;
}

/// Makes `calls` random calls that create, change and remove files.
async fn change(p: &Process<Fs>, seed: u64, calls: u64) {
    let mut rng = Seed(seed).stream("changes");
    for _ in 0..calls {
        let path = format!("/d{}/{}", rng.below(3), rng.below(400));
        let dir = &path[..3];
        let _ = p.mkdir(dir.as_bytes(), 0o755).await;
        if rng.below(4) == 0 {
            let _ = p.unlink(path.as_bytes()).await;
            continue;
        }
        let fd = p.open(path.as_bytes(), flags(), 0o644).await.unwrap();
        let source = Source::Fill {
            pattern: rng.below(1 << 40),
            len: 1 + rng.below(9_000),
        };
        p.pwrite(fd, rng.below(4) * 4_096, source).await.unwrap();
        p.close(fd).await.unwrap();
    }
}

/// Files whose paths begin with `path`, with that prefix removed.
fn part(tree: &Tree, path: &str) -> Part {
    let own = tree
        .0
        .iter()
        .filter(|(at, _)| at.starts_with(path.as_bytes()));
    own.map(|(at, seen)| (at[path.len()..].to_vec(), seen.data.clone()))
        .collect()
}

/// Paths of files, each with its contents.
type Part = Vec<(Vec<u8>, Vec<u8>)>;

/// Changes files and takes a snapshot, four times. Returns the expected files of each snapshot.
async fn take_four(sim: &Sim, disk: &RamDisk) -> Vec<Part> {
    let mut kept: Vec<Part> = Vec::new();
    for round in 0..4_u64 {
        let mounted = vfs(sim, body(sim, disk).await);
        let p = Process::new(&mounted, Access::root());
        change(&p, round, 500).await;
        let tree = Tree::read(&p).await.unwrap();
        kept.push(part(&tree, "/d"));
        for (number, kept) in kept[..round as usize].iter().enumerate() {
            assert_eq!(
                &part(&tree, &format!("/s{number}/d")),
                kept,
                "snapshot {number}"
            );
        }
        p.exit().await;
        mounted.unmount().await.unwrap();
        let body = body(sim, disk).await;
        let name = format!("s{round}");
        let made = body.snapshot(name.as_bytes(), round % 2 == 0, Timestamp::default());
        made.await.unwrap();
        let again = body.snapshot(name.as_bytes(), false, Timestamp::default());
        assert_eq!(again.await, Err(Errno::EEXIST));
        body.unmount().await.unwrap();
        judge(&disk.to_image());
    }
    kept
}

/// Snapshots are taken between changes and then dropped out of order; the image is sound after
/// each step.
#[test]
fn snapshots_keep_their_contents_through_changes_and_drops() {
    let image = on_new(32_768, async |sim, disk| {
        let kept = take_four(&sim, &disk).await;
        let mounted = vfs(&sim, body(&sim, &disk).await);
        let p = Process::new(&mounted, Access::root());
        let made = p.open(b"/s0/d0/new", flags(), 0o644).await;
        assert_eq!(made.err(), Some(Errno::EROFS));
        assert!(p.open(b"/s1/d0/new", flags(), 0o644).await.is_ok());
        refuses_to_change(&mounted, &p, b"/s0").await;
        change(&p, 9, 300).await;
        p.exit().await;
        mounted.unmount().await.unwrap();
        for number in [1, 3, 0] {
            let body = body(&sim, &disk).await;
            let name = format!("s{number}");
            body.drop_snapshot(name.as_bytes(), Timestamp::default())
                .await
                .unwrap();
            body.unmount().await.unwrap();
            judge(&disk.to_image());
        }
        let mounted = vfs(&sim, body(&sim, &disk).await);
        let p = Process::new(&mounted, Access::root());
        let tree = Tree::read(&p).await.unwrap();
        assert_eq!(part(&tree, "/s2/d"), kept[2]);
        p.exit().await;
        mounted.unmount().await.unwrap();
    });
    if can_mount() {
        let dir = tempfile::tempdir().unwrap();
        let path = save(dir.path(), "image", &image);
        // The kernel cleans a dropped subvolume up at the next commit, by default after 30 s.
        let said = in_kernel(
            dir.path(),
            &path,
            "rw,commit=1",
            "btrfs subvolume list . | wc -l; cat s2/d0/* | wc -c; btrfs subvolume delete s2 >/dev/null && btrfs subvolume sync . && sync",
        );
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0].trim(), "1", "{said}");
        judge(&std::fs::read(&path).unwrap());
    }
}

/// Sets an extended attribute of the file at `path`.
async fn mark(vfs: &Vfs<Fs>, path: &[u8]) -> Result<(), Errno> {
    let root = Access::root();
    let mut at = vfs.root();
    for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
        at = vfs.lookup(&root, at, name).await?.0;
        vfs.forget(at, 1).await;
    }
    vfs.set_xattr(&root, at, b"user.x", b"y", XattrFlags::Any)
        .await
}

/// Asserts that every change of a file in the read-only snapshot `top` fails with `EROFS`, and
/// that reads leave its attributes as they are.
async fn refuses_to_change(vfs: &Vfs<Fs>, p: &Process<Fs>, top: &[u8]) {
    let mut seen = 0;
    for (path, size) in vfs::model::sizes(p).await.unwrap() {
        if !path.starts_with(top) {
            continue;
        }
        seen += 1;
        let before = p.stat(&path).await.unwrap();
        let refused = Err(Errno::EROFS);
        assert_eq!(p.truncate(&path, size + 1).await, refused);
        assert_eq!(p.truncate(&path, size / 2).await, refused);
        assert_eq!(p.chmod(&path, 0o600).await, refused);
        let opened = p.open(&path, OpenFlags::BOTH, 0).await;
        assert_eq!(opened.err(), Some(Errno::EROFS));
        let beside = [&path[..], b".x"].concat();
        assert_eq!(p.link(&path, &beside).await, refused);
        let moved = p.rename(&path, &beside, RenameFlags::default());
        assert_eq!(moved.await, refused);
        assert_eq!(p.mkdir(&beside, 0o755).await, refused);
        assert_eq!(p.unlink(&path).await, refused);
        assert_eq!(mark(vfs, &path).await, refused);
        let fd = p.open(&path, OpenFlags::READ, 0).await.unwrap();
        p.read_bytes(fd, 0, size as usize).await.unwrap();
        p.close(fd).await.unwrap();
        assert_eq!(p.stat(&path).await.unwrap(), before);
    }
    assert!(seen > 0);
    vfs.sync().await.unwrap();
    vfs.drop_caches().await.unwrap();
}

/// Creates a file of `pieces` extents of one page, each followed by a hole of one page.
async fn in_pieces(p: &Process<Fs>, path: &[u8], pieces: u64) -> Fd {
    let fd = p.open(path, flags(), 0o600).await.unwrap();
    for piece in 0..pieces {
        let source = Source::Fill {
            pattern: piece + 1,
            len: 4_096,
        };
        p.pwrite(fd, piece * 8_192, source).await.unwrap();
    }
    p.sync().await.unwrap();
    fd
}

/// A clone that runs out of space keeps as much as the size of its file covers.
#[test]
fn clone_that_runs_out_of_space_leaves_only_zeros_past_its_end() {
    const PIECES: u64 = 3_000;
    on_new(16_384, async |sim, disk| {
        let vfs = vfs(&sim, body(&sim, &disk).await);
        let p = Process::new(&vfs, Access::root());
        let from = in_pieces(&p, b"/from", PIECES).await;
        let rest = p.open(b"/rest", flags(), 0o600).await.unwrap();
        let source = Source::Fill {
            pattern: 1,
            len: 64 << 20,
        };
        let filled = p.pwrite(rest, 0, source).await.unwrap();
        assert!(filled < 64 << 20, "there is no room for any chunk");
        let len = PIECES * 8_192 - 4_096;
        let mut ended = 0;
        for copy in 0.. {
            let path = format!("/{copy}");
            let to = match p.open(path.as_bytes(), flags(), 0o600).await {
                Err(Errno::ENOSPC) => break,
                to => to.unwrap(),
            };
            let cloned = p.copy_file_range(from, 0, to, 0, len).await;
            if cloned.is_ok() {
                p.close(to).await.unwrap();
                continue;
            }
            assert_eq!(cloned, Err(Errno::ENOSPC));
            // Promised pages can still be written.
            p.sync().await.unwrap();
            p.unlink(b"/rest").await.unwrap();
            ended = p.fstat(to).await.unwrap().size;
            see(&p, to, ended).await;
            break;
        }
        assert!(
            0 < ended && ended < len,
            "a clone ended at {ended} of {len}"
        );
        p.exit().await;
        vfs.unmount().await.unwrap();
    });
}

/// Asserts that the `size` bytes of a clone match their source, and that bytes past them are
/// zeros once the file grows.
async fn see(p: &Process<Fs>, to: Fd, size: u64) {
    p.ftruncate(to, 32 << 20).await.unwrap();
    let bytes = p.read_bytes(to, 0, 32 << 20).await.unwrap();
    let (held, grown) = bytes.split_at(size as usize);
    assert!(grown.iter().all(|&byte| byte == 0), "behind {size}");
    for (piece, page) in held.chunks(8_192).enumerate() {
        let (first, rest) = page.split_at(page.len().min(4_096));
        let wanted = (piece as u64 + 1).to_le_bytes();
        assert!(first.chunks(8).all(|word| word == wanted), "piece {piece}");
        assert!(rest.iter().all(|&byte| byte == 0));
    }
}
