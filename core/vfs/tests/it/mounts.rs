//! Options of a mount, and calls for front ends that cache contents and handles themselves.

use crate::bench::{cache, errno, fill, make, mount, with_root};
use sim::Kernel;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{Access, Atime, CacheConfig, Errno, OpenFlags, Process};

/// Seconds of atime of a file and of a directory after reads one and two seconds after their last
/// change.
fn reads_noted(atime: Atime, diratime: bool) -> [[i64; 2]; 2] {
    let kernel = Kernel::new();
    let config = CacheConfig {
        atime,
        diratime,
        ..cache(64)
    };
    let sim = kernel.sim();
    let vfs = mount(&sim, MemFs::new(Bytes(1 << 20)), config);
    let root = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        root.mkdir(b"/d", 0o755).await.unwrap();
        let fd = make(&root, "/d/f").await;
        fill(&root, fd, 0, 10).await;
        let dir = root.open(b"/d", OpenFlags::READ, 0).await.unwrap();
        let dir = root.handle(dir).unwrap();
        let start = root.stat(b"/d").await.unwrap().mtime.secs;
        let mut noted = [[0; 2]; 2];
        for turn in 0..2 {
            sim.sleep(Ns::secs(1)).await;
            root.read_bytes(fd, 0, 1).await.unwrap();
            vfs.read_dir(&dir, 0, 8).await.unwrap();
            for (noted, path) in noted.iter_mut().zip([&b"/d/f"[..], b"/d"]) {
                noted[turn] = root.stat(path).await.unwrap().atime.secs - start;
            }
        }
        noted
    })
}

#[test]
fn a_mount_says_which_reads_are_noted() {
    let cases = [
        (Atime::Never, true, [[0, 0], [0, 0]]),
        (Atime::Relative, true, [[1, 1], [1, 1]]),
        (Atime::Relative, false, [[1, 1], [0, 0]]),
        (Atime::Always, true, [[1, 2], [1, 2]]),
        (Atime::Always, false, [[1, 2], [0, 0]]),
    ];
    for (atime, diratime, expected) in cases {
        let noted = reads_noted(atime, diratime);
        assert_eq!(noted, expected, "{atime:?}, {diratime}");
    }
}

#[test]
fn notes_read_tells_whether_a_read_would_set_atime() {
    with_root(|p| async move {
        let vfs = p.vfs().clone();
        let fd = make(&p, "/f").await;
        fill(&p, fd, 0, 10).await;
        let (who, ino) = (Access::root(), p.ino(fd).unwrap());
        let quiet = OpenFlags::READ | OpenFlags::NO_ATIME;
        let read = vfs.open(&who, ino, OpenFlags::READ).await.unwrap();
        let quiet = vfs.open(&who, ino, quiet).await.unwrap();
        let write = vfs.open(&who, ino, OpenFlags::WRITE).await.unwrap();
        vfs.sim().sleep(Ns::secs(1)).await;
        assert_eq!(vfs.notes_read(&read), Ok(true));
        assert_eq!(vfs.notes_read(&quiet), Ok(false));
        assert_eq!(vfs.notes_read(&write), Ok(false));
        p.read_bytes(fd, 0, 1).await.unwrap();
        assert_eq!(
            vfs.notes_read(&read),
            Ok(false),
            "it is newer than the write"
        );
        vfs.release(read).await;
        assert_eq!(vfs.notes_read(&read), Err(Errno::EBADF));
    });
}

#[test]
fn an_inode_is_found_by_its_number_while_it_is_there() {
    with_root(|p| async move {
        let vfs = p.vfs().clone();
        let fd = make(&p, "/f").await;
        let ino = p.ino(fd).unwrap();
        p.close(fd).await.unwrap();
        vfs.drop_caches().await.unwrap();
        let (found, attr) = vfs.refer(ino).await.unwrap();
        assert_eq!((found, attr.nlink), (ino, 1));
        p.unlink(b"/f").await.unwrap();
        let (_, attr) = vfs.refer(ino).await.unwrap();
        assert_eq!(attr.nlink, 0, "somebody refers to it");
        vfs.forget(ino, 2).await;
        assert_eq!(errno(vfs.refer(ino).await), Errno::ENOENT);
    });
}

#[test]
fn set_id_bits_go_with_the_right_to_them() {
    with_root(|p| async move {
        let vfs = p.vfs().clone();
        let fd = make(&p, "/f").await;
        let ino = p.ino(fd).unwrap();
        for (before, after) in [(0o6_755, 0o755), (0o2_644, 0o2_644), (0o4_600, 0o600)] {
            p.chmod(b"/f", before).await.unwrap();
            vfs.drop_privileges(ino).await.unwrap();
            assert_eq!(p.stat(b"/f").await.unwrap().mode, after);
        }
    });
}
