//! Large trees, full media, files of many extents, and logs that the kernel replays.

use crate::bench::{judge, made, mounted, with_root};
use crate::tools::{can_mount, in_kernel, save};
use cowfs::{MkfsOptions, MountOptions};
use host::RamDisk;
use sim::{Kernel, Seed};
use units::{Bytes, Ns};
use vfs::model::list_renaming;
use vfs::{Access, Body, Errno, OpenFlags, Process, Source};

fn flags() -> OpenFlags {
    OpenFlags::BOTH | OpenFlags::CREATE
}

/// A directory is listed in the order of entry numbers, and a new name gets the next number.
#[test]
fn listing_ends_although_each_listed_name_is_renamed() {
    let image = made(&MkfsOptions::new(24_576));
    let image = with_root(&image, MountOptions::default(), async |p| {
        assert_eq!(list_renaming(&p, 300).await, Ok(2 + 300));
    });
    // The first listing of a mount looks up the last number.
    with_root(&image, MountOptions::default(), async |p| {
        assert_eq!(list_renaming(&p, 300).await, Ok(2 + 300));
    });
}

/// Names are added and removed in random order, so nodes split, shrink and merge again.
#[test]
fn trees_shrink_to_one_level_after_all_names_are_removed() {
    let options = MountOptions {
        interval: Ns::us(40_000),
        cache: Bytes(0),
        ..MountOptions::default()
    };
    let image = with_root(&made(&MkfsOptions::new(24_576)), options, async |p| {
        let mut rng = Seed(3).stream("names");
        let mut there = Vec::new();
        p.mkdir(b"/dir", 0o755).await.unwrap();
        for turn in 0..9_000_u64 {
            let grows = turn % 3_000 < 2_000;
            if grows || there.is_empty() {
                let name = format!("/dir/{}-{turn}", "n".repeat(rng.below(120) as usize));
                let fd = p.open(name.as_bytes(), flags(), 0o644).await.unwrap();
                if turn % 3 == 0 {
                    let source = Source::Fill {
                        pattern: turn,
                        len: turn % 9_000,
                    };
                    p.pwrite(fd, 0, source).await.unwrap();
                }
                p.close(fd).await.unwrap();
                there.push(name);
            } else {
                let at = rng.below(there.len() as u64) as usize;
                let name = there.swap_remove(at);
                p.unlink(name.as_bytes()).await.unwrap();
            }
        }
        for name in there.drain(..) {
            p.unlink(name.as_bytes()).await.unwrap();
        }
    });
    // Only an empty file system is left.
    let image = with_root(&image, MountOptions::default(), async |p| {
        p.rmdir(b"/dir").await.unwrap();
    });
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), RamDisk::from_image(&kernel.sim(), &image));
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, MountOptions::default(), false).await;
        let stats = vfs.body().tree_stats().unwrap();
        assert_eq!((stats.files_levels, stats.extents_levels), (1, 1));
    });
}

/// A medium is filled and emptied three times; a call that finds no room fails with `ENOSPC`.
#[test]
fn repeatedly_filled_medium_stays_sound() {
    for (seed, dup) in [(0, false), (1, true), (2, false)] {
        let options = MkfsOptions {
            dup,
            ..MkfsOptions::new(12_288)
        };
        let small = MountOptions {
            interval: Ns::us(3_000),
            ..MountOptions::default()
        };
        let len = [200_000, 3_000, 1_000][seed as usize];
        let image = with_root(&made(&options), small, async move |p| {
            for round in 0..3 {
                let mut names = Vec::new();
                for number in 0..40_000_u64 {
                    let name = format!("/{round}-{number}");
                    let Ok(fd) = p.open(name.as_bytes(), flags(), 0o644).await else {
                        break;
                    };
                    names.push(name);
                    let source = Source::Fill {
                        pattern: number,
                        len,
                    };
                    let written = p.pwrite(fd, 0, source).await;
                    let closed = written.is_ok_and(|count| count == len);
                    if number % 50 == 0 {
                        let _ = p.fsync(fd).await;
                    }
                    p.close(fd).await.unwrap();
                    if !closed {
                        break;
                    }
                }
                assert!(names.len() > 90, "{} in round {round}", names.len());
                let full = p.open(b"/over", flags(), 0o644).await;
                if let Ok(fd) = full {
                    let source = Source::Fill {
                        pattern: 1,
                        len: 48 << 20,
                    };
                    let done = p.pwrite(fd, 0, source).await;
                    assert!(done != Ok(48 << 20), "it was full");
                    p.close(fd).await.unwrap();
                    p.unlink(b"/over").await.unwrap();
                } else {
                    assert_eq!(full.err(), Some(Errno::ENOSPC));
                }
                for name in names {
                    p.unlink(name.as_bytes()).await.unwrap();
                }
                p.sync().await.unwrap();
            }
        });
        judge(&image);
    }
}

/// A file of 16 MiB is overwritten in pages, each forced; the kernel must read it all back.
#[test]
fn each_forced_overwrite_becomes_an_extent() {
    const SIZE: u64 = 16 << 20;
    let image = with_root(
        &made(&MkfsOptions::new(32_768)),
        MountOptions::default(),
        async |p| {
            let fd = p.open(b"/file", flags(), 0o644).await.unwrap();
            for at in (0..SIZE).step_by(256 << 10) {
                let source = Source::Fill {
                    pattern: at,
                    len: 256 << 10,
                };
                p.pwrite(fd, at, source).await.unwrap();
                p.fsync(fd).await.unwrap();
            }
            for at in (0..SIZE).step_by(4 << 10) {
                let source = Source::Fill {
                    pattern: at + 1,
                    len: 4 << 10,
                };
                p.pwrite(fd, at, source).await.unwrap();
                p.fsync(fd).await.unwrap();
            }
            p.close(fd).await.unwrap();
        },
    );
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), RamDisk::from_image(&kernel.sim(), &image));
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, MountOptions::default(), false).await;
        let process = Process::new(&vfs, Access::root());
        let counts = vfs.body().count_extents().await.unwrap().unwrap();
        assert_eq!((counts.files, counts.pieces), (1, SIZE / (4 << 10)));
        process.exit().await;
    });
    if can_mount() {
        let dir = tempfile::tempdir().unwrap();
        let path = save(dir.path(), "image", &image);
        let said = in_kernel(
            dir.path(),
            &path,
            "ro",
            "od -A n -t u8 -v file | awk '{print $1}' | uniq -c",
        );
        let runs = said.lines().count() as u64;
        assert_eq!(runs, SIZE / (4 << 10), "{}", &said[..200]);
    }
}

/// Forced files that no commit holds are there once the kernel has mounted the image.
#[test]
fn kernel_replays_the_log_of_forced_files() {
    if !can_mount() {
        return;
    }
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(32_768)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, disk, MountOptions::default(), false).await;
        let p = Process::new(&vfs, Access::root());
        p.mkdir(b"/d", 0o755).await.unwrap();
        let old = p.open(b"/d/old", flags(), 0o644).await.unwrap();
        let source = Source::Fill {
            pattern: 0x6161_6161_6161_6161,
            len: 100_000,
        };
        p.pwrite(old, 0, source).await.unwrap();
        p.sync().await.unwrap();
        p.pwrite(old, 50_000, Source::Bytes(b"changed"))
            .await
            .unwrap();
        p.ftruncate(old, 60_000).await.unwrap();
        p.fsync(old).await.unwrap();
        for (name, len) in [(&b"/d/new"[..], 30_000), (b"/d/small", 5)] {
            let fd = p.open(name, flags(), 0o640).await.unwrap();
            let source = Source::Fill {
                pattern: 0x6262_6262_6262_6262,
                len,
            };
            p.pwrite(fd, 0, source).await.unwrap();
            p.fsync(fd).await.unwrap();
        }
        let stats = vfs.body().tree_stats().unwrap();
        assert_eq!((stats.logged_forces, stats.forced_commits), (3, 0));
    });
    let dir = tempfile::tempdir().unwrap();
    let path = save(dir.path(), "image", &kept.to_image());
    let script = "stat -c '%n %s %h %a' d/*; md5sum d/* | cut -c1-32";
    let said = in_kernel(dir.path(), &path, "rw", script);
    let mut old = vec![b'a'; 60_000];
    old[50_000..50_007].copy_from_slice(b"changed");
    std::fs::write(dir.path().join("old"), &old).unwrap();
    std::fs::write(dir.path().join("new"), vec![b'b'; 30_000]).unwrap();
    std::fs::write(dir.path().join("small"), b"bbbbb").unwrap();
    let sums = format!(
        "cd {} && md5sum new old small | cut -c1-32",
        dir.path().display()
    );
    let (_, sums) = crate::tools::run("sh", &["-c", &sums]);
    let wanted = format!("d/new 30000 1 640\nd/old 60000 1 644\nd/small 5 1 640\n{sums}");
    assert_eq!(said, wanted);
    judge(&std::fs::read(&path).unwrap());
}
