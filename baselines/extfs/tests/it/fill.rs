//! Full and large file systems, checked by e2fsprogs and read by the kernel.

use crate::driver::{Driver, NOW, Node, attr, new_image, on_image, pattern};
use crate::tools::{self, Mounted};
use extfs::MkfsOptions;
use std::collections::BTreeMap;
use std::path::Path;
use vfs::{Access, Body, Errno, FallocateMode, FileKind, XattrFlags};

type Contents = BTreeMap<String, Vec<u8>>;

/// Runs a phase on `image`, checks the result with e2fsck, and returns the new image.
fn phase<W>(
    dir: &Path,
    name: &str,
    image: &[u8],
    work: impl FnOnce(Driver) -> W + 'static,
) -> Vec<u8>
where
    W: Future<Output = Driver>,
{
    println!("phase: {name}");
    let image = on_image(image, work);
    assert_eq!(extfs::check(&image[..]), []);
    if tools::has("e2fsck") {
        tools::assert_clean(&tools::save(dir, "image", &image));
    }
    image
}

/// Compares files, read through the kernel, with `contents`.
fn compare_mounted(dir: &Path, image: &[u8], contents: &Contents) {
    let path = tools::save(dir, "image", image);
    let Some(mounted) = Mounted::new(&path, &dir.join("mnt")) else {
        return;
    };
    for (name, expected) in contents {
        let found = std::fs::read(mounted.dir.join(name)).unwrap();
        assert!(found == *expected, "{name} reads differently");
    }
}

fn options(mib: u64) -> MkfsOptions {
    MkfsOptions {
        now: NOW,
        ..MkfsOptions::new(mib * 256)
    }
}

async fn check_contents(driver: &Driver, contents: &Contents) {
    for (name, expected) in contents {
        let node = driver.walk(name).await.unwrap();
        assert!(driver.read(&node).await.unwrap() == *expected, "{name}");
    }
}

#[test]
fn files_of_all_sizes_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    for inode_size in [128, 256] {
        let options = MkfsOptions {
            inode_size,
            ..options(64)
        };
        let contents: Contents = (0..300_u64)
            .map(|n| (format!("d{}/f{n}", n % 7), pattern(n, (n * n * 5) as usize)))
            .collect();
        let expected = contents.clone();
        let image = phase(
            dir.path(),
            "create",
            &new_image(&options),
            async move |driver| {
                for n in 0..7 {
                    driver.mkdir(&format!("d{n}")).await.unwrap();
                }
                for (name, bytes) in &contents {
                    driver.put(name, bytes).await.unwrap();
                }
                driver
            },
        );
        compare_mounted(dir.path(), &image, &expected);
        let again = expected.clone();
        let image = phase(
            dir.path(),
            "read again, remove half",
            &image,
            async move |driver| {
                check_contents(&driver, &again).await;
                for name in again.keys().step_by(2) {
                    driver.unlink(name).await.unwrap();
                }
                driver
            },
        );
        let left: Contents = expected.into_iter().skip(1).step_by(2).collect();
        compare_mounted(dir.path(), &image, &left);
        let image = phase(dir.path(), "remove all", &image, async move |driver| {
            for name in left.keys() {
                driver.unlink(name).await.unwrap();
            }
            for n in 0..7 {
                driver.rmdir(&format!("d{n}")).await.unwrap();
            }
            driver
        });
        phase(dir.path(), "nothing is lost", &image, async move |driver| {
            let fresh = extfs::mkfs(&options).unwrap();
            assert!(!fresh.is_empty());
            let entries = driver.list(&driver.root().await).await.unwrap();
            assert_eq!(entries.len(), 1);
            driver
        });
    }
}

#[test]
fn directory_of_100_000_names_is_listed_and_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let options = MkfsOptions {
        bytes_per_inode: 4096,
        ..options(600)
    };
    let name = |n: u32| format!("big/{n:x}-{}", "n".repeat((n % 90) as usize));
    let image = phase(
        dir.path(),
        "create",
        &new_image(&options),
        async move |driver| {
            driver.mkdir("big").await.unwrap();
            for n in 0..100_000 {
                driver.make(&name(n), FileKind::Regular, b"").await.unwrap();
            }
            driver
        },
    );
    let path = tools::save(dir.path(), "image", &image);
    if let Some(mounted) = Mounted::new(&path, &dir.path().join("mnt")) {
        let entries = std::fs::read_dir(mounted.dir.join("big")).unwrap();
        assert_eq!(entries.count(), 100_000);
        assert!(mounted.dir.join(name(77_777)).exists());
    }
    phase(dir.path(), "list and remove", &image, async move |driver| {
        let big = driver.walk("big").await.unwrap();
        let entries = driver.list(&big).await.unwrap();
        assert_eq!(entries.len(), 100_000);
        assert!(entries.is_sorted_by_key(|entry| entry.cookie));
        for n in 0..100_000 {
            if n % 10 != 0 {
                driver.unlink(&name(n)).await.unwrap();
            }
        }
        assert_eq!(driver.list(&big).await.unwrap().len(), 10_000);
        driver
    });
}

/// Writes every other block of a file (even or odd ones, by `odd`) in random order.
async fn scatter(driver: &Driver, node: &Node, blocks: u64, odd: u64) {
    let mut order: Vec<u64> = (0..blocks).filter(|block| block % 2 == odd).collect();
    let mut rng = sim::Seed(odd).stream("order");
    for index in (1..order.len()).rev() {
        order.swap(index, rng.below(index as u64 + 1) as usize);
    }
    for block in order {
        driver
            .write(node, block * 4096, &pattern(block, 4096))
            .await
            .unwrap();
    }
}

#[test]
fn extent_trees_grow_and_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = 6000;
    let image = phase(
        dir.path(),
        "every other block",
        &new_image(&options(64)),
        async move |driver| {
            let node = driver.put("sparse", b"").await.unwrap();
            scatter(&driver, &node, blocks, 0).await;
            driver
        },
    );
    let image = phase(dir.path(), "the others", &image, async move |driver| {
        let node = driver.walk("sparse").await.unwrap();
        scatter(&driver, &node, blocks, 1).await;
        driver
    });
    let whole: Vec<u8> = (0..blocks).flat_map(|block| pattern(block, 4096)).collect();
    compare_mounted(dir.path(), &image, &[("sparse".to_owned(), whole)].into());
    let image = phase(dir.path(), "punch", &image, async move |driver| {
        let node = driver.walk("sparse").await.unwrap();
        for n in (0..blocks).step_by(3) {
            let range = n * 4096 + n % 2 * 100..(n + 1) * 4096;
            driver
                .fs
                .fallocate(&Access::root(), &node, FallocateMode::Punch, range, NOW)
                .await
                .unwrap();
        }
        driver
    });
    let image = phase(
        dir.path(),
        "cut in the middle",
        &image,
        async move |driver| {
            let node = driver.walk("sparse").await.unwrap();
            driver.cut(&node, 3000 * 4096 + 17).await.unwrap();
            let bytes = driver.read(&node).await.unwrap();
            let kept = pattern(1, 4096);
            assert_eq!(
                (bytes.len(), &bytes[4096..8192]),
                (3000 * 4096 + 17, &kept[..])
            );
            assert!(bytes[..4096].iter().all(|&byte| byte == 0));
            driver
        },
    );
    phase(dir.path(), "cut to nothing", &image, async move |driver| {
        let node = driver.walk("sparse").await.unwrap();
        driver.cut(&node, 0).await.unwrap();
        assert_eq!(attr(&node).sectors, 0);
        driver
    });
}

#[test]
fn preallocated_ranges_read_as_zeros_and_keep_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let image = phase(
        dir.path(),
        "fallocate",
        &new_image(&options(64)),
        async move |driver| {
            let node = driver.put("a", &pattern(1, 50_000)).await.unwrap();
            let fs = &driver.fs;
            let keep = FallocateMode::Allocate { keep_size: true };
            fs.fallocate(&Access::root(), &node, keep, 0..4_000_000, NOW)
                .await
                .unwrap();
            assert_eq!(attr(&node).size, 50_000);
            let grow = FallocateMode::Allocate { keep_size: false };
            let other = driver.put("b", b"").await.unwrap();
            fs.fallocate(&Access::root(), &other, grow, 0..3_000_000, NOW)
                .await
                .unwrap();
            driver
                .write(&other, 1_000_000, &pattern(2, 70_000))
                .await
                .unwrap();
            let zero = FallocateMode::Zero { keep_size: true };
            fs.fallocate(&Access::root(), &other, zero, 1_000_100..1_050_000, NOW)
                .await
                .unwrap();
            driver
        },
    );
    let mut b = vec![0; 3_000_000];
    b[1_000_000..1_070_000].copy_from_slice(&pattern(2, 70_000));
    b[1_000_100..1_050_000].fill(0);
    let contents = [("a".to_owned(), pattern(1, 50_000)), ("b".to_owned(), b)];
    let contents = Contents::from(contents);
    compare_mounted(dir.path(), &image, &contents);
    phase(dir.path(), "read again", &image, async move |driver| {
        check_contents(&driver, &contents).await;
        driver
    });
}

#[test]
fn links_renames_and_symlinks_are_read_by_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let long = "t/".repeat(400);
    let target = long.clone();
    let image = phase(
        dir.path(),
        "names",
        &new_image(&options(64)),
        async move |driver| {
            for path in ["a", "a/b", "a/b/c", "x", "y", "empty", "gone"] {
                driver.mkdir(path).await.unwrap();
            }
            driver.put("a/f", b"one").await.unwrap();
            driver.put("x/g", b"two").await.unwrap();
            driver.link("a/f", "x/hard").await.unwrap();
            driver
                .make("short", FileKind::Symlink, b"a/f")
                .await
                .unwrap();
            driver
                .make("long", FileKind::Symlink, target.as_bytes())
                .await
                .unwrap();
            driver
                .make("dev", FileKind::BlockDevice, b"")
                .await
                .unwrap();
            driver.make("pipe", FileKind::Fifo, b"").await.unwrap();
            driver.rename("a/f", "y/moved", false).await.unwrap();
            driver.rename("x/g", "y/moved", false).await.unwrap();
            driver.rename("a/b", "y/b", false).await.unwrap();
            driver.rename("y/b", "empty", false).await.unwrap();
            driver.rename("x", "y/moved", true).await.unwrap();
            assert_eq!(driver.rename("a", "y", false).await, Err(Errno::ENOTEMPTY));
            driver.rmdir("gone").await.unwrap();
            driver
        },
    );
    let contents = [
        ("y/moved/hard".to_owned(), b"one".to_vec()),
        ("x".to_owned(), b"two".to_vec()),
    ];
    compare_mounted(dir.path(), &image, &contents.into());
    phase(dir.path(), "names again", &image, async move |driver| {
        let link = driver.walk("long").await.unwrap();
        assert_eq!(driver.fs.readlink(&link).await.unwrap(), long.as_bytes());
        let link = driver.walk("short").await.unwrap();
        assert_eq!(driver.fs.readlink(&link).await.unwrap(), b"a/f");
        let moved = driver.walk("empty").await.unwrap();
        assert_eq!(driver.fs.parent(&moved).await.unwrap(), driver.fs.root());
        assert_eq!(attr(&driver.root().await).nlink, 6);
        assert_eq!(attr(&driver.walk("y/moved/hard").await.unwrap()).nlink, 1);
        driver.unlink("long").await.unwrap();
        driver.unlink("dev").await.unwrap();
        driver
    });
}

#[test]
fn attributes_in_inode_and_block_are_read_by_debugfs() {
    let dir = tempfile::tempdir().unwrap();
    let image = phase(
        dir.path(),
        "set",
        &new_image(&options(64)),
        async move |driver| {
            let fs = &driver.fs;
            let node = driver.put("f", b"x").await.unwrap();
            let any = XattrFlags::Any;
            fs.set_xattr(&node, b"user.small", b"value", any, NOW)
                .await
                .unwrap();
            fs.set_xattr(&node, b"user.large", &pattern(1, 3000), any, NOW)
                .await
                .unwrap();
            fs.set_xattr(&node, b"trusted.other", &pattern(2, 300), any, NOW)
                .await
                .unwrap();
            let again = fs.set_xattr(&node, b"user.small", b"", XattrFlags::Create, NOW);
            assert_eq!(again.await, Err(Errno::EEXIST));
            let missing = fs.set_xattr(&node, b"user.no", b"", XattrFlags::Replace, NOW);
            assert_eq!(missing.await, Err(Errno::ENODATA));
            let value = pattern(3, 4000);
            let much = fs.set_xattr(&node, b"user.much", &value, any, NOW);
            assert_eq!(much.await, Err(Errno::ENOSPC));
            let foreign = fs.set_xattr(&node, b"foreign.a", b"", any, NOW).await;
            assert_eq!(foreign, Err(Errno::EOPNOTSUPP));
            driver
        },
    );
    if tools::has("debugfs") {
        let path = tools::save(dir.path(), "image", &image);
        let text = tools::debugfs(&path, "ea_list f");
        assert!(text.contains("user.small (5) = \"value\""), "{text}");
        assert!(text.contains("user.large (3000)"), "{text}");
    }
    let image = phase(dir.path(), "remove", &image, async move |driver| {
        let fs = &driver.fs;
        let node = driver.walk("f").await.unwrap();
        assert_eq!(
            fs.get_xattr(&node, b"user.large").await.unwrap(),
            pattern(1, 3000)
        );
        assert_eq!(fs.list_xattrs(&node).await.unwrap().len(), 3);
        fs.remove_xattr(&node, b"user.large", NOW).await.unwrap();
        fs.remove_xattr(&node, b"user.small", NOW).await.unwrap();
        driver
    });
    phase(dir.path(), "remove the file", &image, async move |driver| {
        driver.unlink("f").await.unwrap();
        driver
    });
}

#[test]
fn full_file_system_refuses_writes_until_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    phase(
        dir.path(),
        "fill up",
        &new_image(&options(16)),
        async move |driver| {
            let mut made = 0;
            let error = loop {
                match driver
                    .put(&format!("f{made}"), &pattern(made, 200_000))
                    .await
                {
                    Ok(_) => made += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(error, Errno::ENOSPC);
            assert!(made > 40, "{made}");
            for n in 0..made {
                driver.unlink(&format!("f{n}")).await.unwrap();
            }
            for n in 0..made {
                driver
                    .put(&format!("g{n}"), &pattern(n, 200_000))
                    .await
                    .unwrap();
            }
            driver
        },
    );
}

#[test]
fn unnamed_files_are_freed_unless_linked() {
    let dir = tempfile::tempdir().unwrap();
    phase(
        dir.path(),
        "orphans",
        &new_image(&options(64)),
        async move |driver| {
            let new = vfs::NewInode {
                kind: FileKind::Regular,
                mode: 0o600,
                uid: 1,
                gid: 1,
                rdev: 0,
                target: b"",
                now: NOW,
            };
            let mut unnamed = Vec::new();
            for n in 0..5 {
                let node = Node::new(driver.fs.create_unnamed(new).await.unwrap());
                driver.write(&node, 0, &pattern(n, 10_000)).await.unwrap();
                unnamed.push(node);
            }
            let root = driver.root().await;
            driver
                .fs
                .link(&root, b"named", &unnamed[2], NOW)
                .await
                .unwrap();
            for index in [0, 4, 1, 3] {
                driver.fs.evict(&unnamed[index]).await.unwrap();
            }
            driver
        },
    );
}
