//! Concurrent tasks, over a cache of few blocks.

use crate::driver::{Driver, Node, new_image, on_image, pattern};
use extfs::{ExtFs, MkfsOptions, MountOptions, NoJournal, check};
use host::RamDisk;
use nand::Payload;
use sim::Kernel;
use std::rc::Rc;
use units::{Ns, Placement};
use vfs::{Access, Body, DirtyPage, Errno};

const TASKS: u64 = 8;

type Shared = Rc<Driver>;

/// Creates, cuts, forces, removes and renames files in the task's own directory.
async fn own_files(driver: Shared, task: u64) {
    let path = |n: u64| format!("t{task}/{n}");
    for n in 0..60 {
        let bytes = pattern(task * 1000 + n, (n * 997) as usize);
        let node = driver.put(&path(n), &bytes).await.unwrap();
        match n % 4 {
            0 => driver.cut(&node, n * 10).await.unwrap(),
            1 => driver.fs.sync(&node, false).await.unwrap(),
            2 => driver.unlink(&path(n)).await.unwrap(),
            _ => driver
                .rename(&path(n), &format!("t{task}/x{n}"), false)
                .await
                .unwrap(),
        }
    }
}

async fn check_files(driver: &Driver, task: u64) {
    for n in (1..60).step_by(2) {
        let name = if n % 4 == 1 {
            format!("t{task}/{n}")
        } else {
            format!("t{task}/x{n}")
        };
        let node = driver.walk(&name).await.unwrap();
        let bytes = pattern(task * 1000 + n, (n * 997) as usize);
        assert!(driver.read(&node).await.unwrap() == bytes, "{name}");
    }
}

/// Writes the task's pages of a file that all tasks write.
async fn shared_file(driver: Shared, task: u64) {
    let node = driver.walk("shared").await.unwrap();
    for n in 0..100 {
        let page = (n * TASKS + task) * 2;
        driver
            .write(&node, page * 4096, &pattern(page, 4096))
            .await
            .unwrap();
    }
}

#[test]
fn last_inode_goes_to_one_of_two_tasks() {
    // 16 inodes, of which 11 are taken from the start.
    let few = MkfsOptions {
        bytes_per_inode: 4 << 20,
        ..MkfsOptions::new(64 * 256)
    };
    let image = on_image(&new_image(&few), |driver| async move {
        for dir in ["a", "b"] {
            driver.mkdir(dir).await.unwrap();
        }
        for file in ["a/1", "a/2"] {
            driver.put(file, b"").await.unwrap();
        }
        driver
    });
    let image = on_image(&image, |driver| async move {
        for dir in ["a", "b"] {
            driver.walk(dir).await.unwrap();
        }
        let made = sim::join(driver.put("a/x", b""), driver.put("b/x", b"")).await;
        let made = [made.0.map(drop), made.1.map(drop)];
        assert_eq!(made, [Ok(()), Err(Errno::ENOSPC)]);
        assert_eq!(driver.fs.stat().files_free, 0);
        // The group is full, and no more than that.
        driver.unlink("a/x").await.unwrap();
        driver.put("b/x", b"").await.unwrap();
        driver
    });
    assert_eq!(check(&image[..]), []);
}

#[test]
fn concurrent_tasks_read_back_their_own_contents() {
    for seed in 0..3 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(64 * 256)));
        let kept = disk.clone();
        kernel.block_on(async move {
            let persist = NoJournal::new(&sim, &disk, 4, Placement(0));
            let fs = ExtFs::mount(&sim, persist, MountOptions::default())
                .await
                .unwrap();
            let driver = Rc::new(Driver::new(fs));
            driver.put("shared", b"").await.unwrap();
            for task in 0..TASKS {
                driver.mkdir(&format!("t{task}")).await.unwrap();
            }
            let mut tasks = Vec::new();
            for task in (0..TASKS).map(|task| (task + seed) % TASKS) {
                tasks.push(sim.spawn(own_files(Rc::clone(&driver), task)));
                tasks.push(sim.spawn(shared_file(Rc::clone(&driver), task)));
            }
            sim::join_all(tasks).await;
            for task in 0..TASKS {
                check_files(&driver, task).await;
            }
            let shared = driver.walk("shared").await.unwrap();
            let bytes = driver.read(&shared).await.unwrap();
            for page in (0..TASKS * 100).map(|n| n * 2) {
                let at = page as usize * 4096;
                assert!(bytes[at..at + 4096] == pattern(page, 4096), "page {page}");
            }
            driver.unmount().await;
        });
        assert_eq!(check(&kept.to_image()[..]), []);
    }
}

/// Dirty pages with promised space, as the cache passes them to write-back.
async fn promised(driver: &Driver, node: &Node, pages: u64) -> Vec<DirtyPage> {
    let who = Access::root();
    driver.fs.reserve(&who, node, 0..pages).await.unwrap();
    node.update(|attr| attr.size = pages * 4096);
    let page = |index| DirtyPage {
        index,
        now: Payload::Fill(index),
        before: None,
    };
    (0..pages).map(page).collect()
}

/// Truncates a file during its write-back and returns the image before the blocks behind
/// the new end are freed.
fn cut_during_write_back(after: Ns, size: u64) -> Vec<u8> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &new_image(&MkfsOptions::new(64 * 256)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let driver = Driver::mount(&sim, disk).await.unwrap();
        let node = driver.put("cut", b"").await.unwrap();
        let dirty = promised(&driver, &node, 8).await;
        let written = driver.fs.write_pages(&node, &dirty);
        let cut = async {
            sim.sleep(after).await;
            node.update(|attr| attr.size = size);
        };
        sim::join(written, cut).await.0.unwrap();
        driver.fs.unmount().await.unwrap();
    });
    kept.to_image()
}

#[test]
fn file_truncated_during_write_back_has_a_size_that_covers_its_blocks() {
    for after in 0..6 {
        for size in [0, 100, 3 * 4096, 5 * 4096 + 1] {
            let image = cut_during_write_back(Ns(after), size);
            assert_eq!(check(&image[..]), [], "cut to {size} after {after} ns");
        }
    }
}
