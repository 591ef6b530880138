//! Mounting, again and in the wrong place.

use crate::bench::{BLOCKS, assert_clean, holding, mounted, open, put, root, small, strict};
use bytefs::{ByteFsError, Options};
use extfs::MkfsOptions;
use extfs::ext4;
use host::{BytePort, RamDisk, Who};
use sim::{Kernel, Seed, Sim};
use units::Bytes;

#[test]
fn a_file_system_is_mounted_again_after_an_unmount_and_after_a_cut_only() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, small());
    kernel.block_on(async move {
        let mut ids = Vec::new();
        for round in 0..3 {
            let vfs = mounted(&sim, &disk, strict()).await;
            let process = root(&vfs);
            for file in 0..10 {
                open(&process, &format!("/{round}-{file}")).await;
            }
            ids.push(vfs.body().persist().metrics().skipped_ids);
            process.exit().await;
            vfs.unmount().await.unwrap();
            assert_clean(&disk.to_image());
        }
        assert_eq!(ids, [0; 3], "numbers of a mount before were used again");
        let vfs = mounted(&sim, &disk, strict()).await;
        let again = bytefs::mount(&sim, &disk, strict()).await;
        assert_eq!(again.err(), Some(ByteFsError::InUse));
        let process = root(&vfs);
        let fd = open(&process, "/last").await;
        put(&process, fd, 0, b"here").await;
        let left = disk.after_cut(&mut Seed(3).stream("cut"));
        let disk = holding(&sim, left);
        let vfs = mounted(&sim, &disk, strict()).await;
        let process = root(&vfs);
        let fd = open(&process, "/last").await;
        assert_eq!(process.read_bytes(fd, 0, 10).await.unwrap(), b"here");
        assert_eq!(vfs.body().persist().metrics().skipped_ids, 0);
    });
}

/// The times of a file that was written, and of another whose times were set.
async fn times(process: &vfs::Process<crate::bench::Body>) -> [[vfs::Timestamp; 3]; 2] {
    let mut found = [[vfs::Timestamp::default(); 3]; 2];
    for (name, times) in [b"/written", &b"/touched"[..]].into_iter().zip(&mut found) {
        let attr = process.stat(name).await.unwrap();
        *times = [attr.atime, attr.mtime, attr.ctime];
    }
    found
}

#[test]
fn times_are_shown_as_they_are_kept() {
    for inode_size in [128, 256] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = holding(
            &sim,
            crate::bench::formatted(&MkfsOptions {
                inode_size,
                ..bytefs::mkfs_options(BLOCKS)
            }),
        );
        kernel.block_on(async move {
            let vfs = mounted(&sim, &disk, strict()).await;
            let process = root(&vfs);
            sim.sleep(units::Ns(1_700_000_001)).await;
            let fd = open(&process, "/written").await;
            put(&process, fd, 0, b"here").await;
            open(&process, "/touched").await;
            let at = |secs, nanos| vfs::Timestamp { secs, nanos };
            let [set, far] = [at(7, 999_999_999), at(1 << 40, 5)].map(vfs::SetTime::At);
            for (file, time) in [(b"/touched", set), (b"/written", far)] {
                let touched = process.utimens(file, Some(time), Some(time), true);
                touched.await.unwrap();
            }
            let shown = times(&process).await;
            let nanos = u32::from(inode_size > 128) * 999_999_999;
            assert_eq!(shown[1][..2], [at(7, nanos); 2]);
            // The latest second of the format: in 2446, or 2038.
            let latest = i64::from(i32::MAX) + i64::from(inode_size > 128) * (3 << 32);
            assert_eq!(shown[0][..2], [at(latest, 0); 2]);
            process.exit().await;
            vfs.unmount().await.unwrap();
            let vfs = mounted(&sim, &disk, strict()).await;
            let process = root(&vfs);
            assert_eq!(times(&process).await, shown);
        });
    }
}

/// A mount replays changes that are only in the journal of ext4.
async fn theirs_is_found(sim: &Sim, left: crate::bench::Contents) {
    let left = holding(sim, left);
    let vfs = mounted(sim, &left, strict()).await;
    let process = root(&vfs);
    let flags = vfs::RenameFlags::default();
    let renamed = process.rename(b"/theirs", b"/found", flags);
    renamed.await.unwrap();
    process.exit().await;
    vfs.unmount().await.unwrap();
    assert_clean(&left.to_image());
}

#[test]
fn what_is_stored_is_as_ext4_has_it() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::new(&sim, Bytes(BLOCKS * 4_096));
    kernel.block_on(async move {
        // With a journal of blocks, which stays empty.
        let options = MkfsOptions {
            journal_blocks: Some(1_024),
            ..MkfsOptions::new(BLOCKS)
        };
        bytefs::format(&disk, &options).await.unwrap();
        let vfs = mounted(&sim, &disk, strict()).await;
        let process = root(&vfs);
        let fd = open(&process, "/ours").await;
        put(&process, fd, 0, b"lines").await;
        process.exit().await;
        vfs.unmount().await.unwrap();
        let image = disk.to_image();
        assert_clean(&image);
        let disk = RamDisk::from_image(&sim, &image);
        let (body, _) = ext4::mount(&sim, &disk, ext4::Options::default())
            .await
            .unwrap();
        let config = vfs::CacheConfig::default();
        let (clock, free) = (vfs::Clock::default(), vfs::Compute::unlimited());
        let ext4 = vfs::Vfs::mount(&sim, body, config, clock, free);
        let process = vfs::Process::new(&ext4, vfs::Access::root());
        let fd = process
            .open(b"/ours", vfs::OpenFlags::BOTH, 0)
            .await
            .unwrap();
        assert_eq!(process.read_bytes(fd, 0, 10).await.unwrap(), b"lines");
        process
            .write(fd, vfs::Source::Bytes(b"block"))
            .await
            .unwrap();
        process.fsync(fd).await.unwrap();
        let flags = vfs::OpenFlags::BOTH | vfs::OpenFlags::CREATE;
        let theirs = process.open(b"/theirs", flags, 0o644).await.unwrap();
        process.fsync(theirs).await.unwrap();
        let left = disk.after_cut(&mut Seed(3).stream("cut"));
        theirs_is_found(&sim, left).await;
        process.exit().await;
        ext4.unmount().await.unwrap();
        let disk = RamDisk::from_image(&sim, &disk.to_image());
        let vfs = mounted(&sim, &disk, strict()).await;
        let process = root(&vfs);
        let fd = open(&process, "/ours").await;
        assert_eq!(process.read_bytes(fd, 0, 10).await.unwrap(), b"block");
    });
}

#[test]
fn what_cannot_be_is_refused_with_what_is_needed() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, small());
    kernel.block_on(async move {
        let few = Options {
            open_lines: 63,
            ..strict()
        };
        let refused = bytefs::mount(&sim, &disk, few).await.err().unwrap();
        let said = "open_lines is 63; at least 64 are needed";
        assert_eq!(refused.to_string(), said);
        let empty = RamDisk::new(&sim, Bytes(1 << 20));
        let refused = bytefs::mount(&sim, &empty, strict()).await;
        assert!(matches!(refused.err(), Some(ByteFsError::Mount(_))));
        // A medium that another file system has used since power-on.
        let used = holding(&sim, small());
        used.recover().await.unwrap();
        used.store(8_192, &[1; 64], 1, Who::default())
            .await
            .unwrap();
        used.verify().await.unwrap();
        used.commit(1).await.unwrap();
        bytefs::format(&used, &bytefs::mkfs_options(BLOCKS))
            .await
            .unwrap();
        let vfs = mounted(&sim, &used, strict()).await;
        open(&root(&vfs), "/file").await;
        open(&root(&vfs), "/other").await;
        assert_eq!(vfs.body().persist().metrics().skipped_ids, 1);
    });
}
