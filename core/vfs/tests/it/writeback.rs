//! Write-back: its schedule, and writes while it runs.

use crate::bench::{cache, errno, fill, make, mount, slow, with_root};
use sim::{Kernel, join};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{Access, CacheConfig, Errno, OpenFlags, PAGE, Process, Source, Vfs};

/// A kernel, a file system on a slow medium, and a process with an open file.
struct Scene {
    kernel: Kernel,
    vfs: Vfs<MemFs>,
}

impl Scene {
    fn new(config: CacheConfig) -> Self {
        let kernel = Kernel::new();
        let vfs = mount(&kernel.sim(), slow(&kernel.sim()), config);
        Self { kernel, vfs }
    }

    /// Runs `test` with a process of user 0.
    fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        test: impl FnOnce(Process<MemFs>) -> F,
    ) -> T {
        let process = Process::new(&self.vfs, Access::root());
        let result = self.kernel.block_on(test(process));
        self.vfs.check();
        result
    }

    /// Writes pages of a file and leaves it open.
    fn dirty(&self, path: &'static str, first: u64, pages: u64) {
        self.run(move |process| async move {
            let fd = make(&process, path).await;
            fill(&process, fd, first * PAGE, pages * PAGE).await;
            process.close(fd).await.unwrap();
        });
    }

    /// Number of pages written to the medium since the last call.
    fn written(&self) -> usize {
        let writes = self.vfs.body().take_writes();
        writes.iter().map(|write| write.2).sum()
    }
}

#[test]
fn a_file_is_written_back_once_it_is_30_seconds_old() {
    let scene = Scene::new(cache(1024));
    scene.dirty("/a", 0, 10);
    scene.kernel.run_until(Ns::secs(29));
    assert_eq!(scene.written(), 0);
    scene.kernel.run_until(Ns::secs(36));
    assert_eq!(scene.vfs.body().take_writes().len(), 1, "one batch");
    assert_eq!(scene.vfs.stats().dirty, 0);
}

#[test]
fn the_kernel_comes_to_rest_when_nothing_is_dirty() {
    let scene = Scene::new(cache(1024));
    scene.dirty("/a", 0, 10);
    scene.kernel.run();
    assert_eq!(scene.written(), 10);
    let end = scene.kernel.sim().now();
    assert!((Ns::secs(30)..Ns::secs(40)).contains(&end), "{end}");
}

#[test]
fn after_an_unmount_the_kernel_rests_at_once() {
    let scene = Scene::new(cache(1024));
    let vfs = scene.vfs.clone();
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, PAGE).await;
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    scene.kernel.run();
    assert!(scene.kernel.sim().now() < Ns::secs(1));
}

#[test]
fn above_the_background_ratio_the_oldest_files_go_first() {
    let scene = Scene::new(cache(1000));
    scene.dirty("/a", 0, 60);
    scene.kernel.run_until(Ns::ms(10));
    scene.dirty("/b", 0, 39);
    scene.kernel.run_until(Ns::secs(1));
    assert_eq!(scene.written(), 0, "99 of 100 pages that may be dirty");
    scene.dirty("/c", 0, 2);
    scene.kernel.run_until(Ns::secs(2));
    let writes = scene.vfs.body().take_writes();
    let pages: Vec<_> = writes.iter().map(|write| write.2).collect();
    assert_eq!(pages[0], 60, "the oldest one first: {pages:?}");
    assert!(scene.vfs.stats().dirty <= 100);
}

#[test]
fn writers_wait_above_the_dirty_ratio() {
    let config = CacheConfig {
        batch: 16,
        ..cache(1000)
    };
    let scene = Scene::new(config);
    scene.dirty("/a", 0, 800);
    let stats = scene.vfs.stats();
    assert_eq!(stats.throttled, 1);
    assert!(stats.throttled_time >= Ns::us(100));
    assert!(stats.dirty + stats.writing <= 200, "{stats:?}");
}

#[test]
fn a_full_memory_is_written_back_and_taken() {
    // All of the memory may be dirty, so only memory pressure starts write-back.
    let config = CacheConfig {
        dirty_background_ratio: 100,
        dirty_ratio: 100,
        ..cache(64)
    };
    let scene = Scene::new(config);
    scene.dirty("/a", 0, 200);
    let stats = scene.vfs.stats();
    assert!(stats.cached <= 64 && stats.evicted >= 136, "{stats:?}");
    let bytes = scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        process
            .read_bytes(fd, 0, 200 * PAGE as usize)
            .await
            .unwrap()
    });
    assert!(bytes.iter().all(|&byte| byte == 1));
}

#[test]
fn pages_that_are_used_again_stay_under_pressure() {
    let scene = Scene::new(cache(160));
    scene.run(|process| async move {
        let hot = make(&process, "/hot").await;
        fill(&process, hot, 0, 8 * PAGE).await;
        let cold = make(&process, "/cold").await;
        fill(&process, cold, 0, 500 * PAGE).await;
        process.sync().await.unwrap();
        process.vfs().drop_caches().await.unwrap();
        process.vfs().body().take_reads();
        for start in 0..62 {
            process.read_bytes(hot, 0, 8 * PAGE as usize).await.unwrap();
            let at = start * 8 * PAGE;
            process
                .read_bytes(cold, at, 8 * PAGE as usize)
                .await
                .unwrap();
        }
        let reads = process.vfs().body().take_reads();
        let hot = process.ino(hot).unwrap();
        let again = reads.iter().filter(|read| read.0 == hot).count();
        assert_eq!(again, 1, "loaded once");
    });
}

#[test]
fn batches_ascend_and_are_as_large_as_configured() {
    let config = CacheConfig {
        batch: 4,
        ..cache(1024)
    };
    let scene = Scene::new(config);
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        for page in [9, 3, 1, 7, 5, 0] {
            fill(&process, fd, page * PAGE, PAGE).await;
        }
        process.fsync(fd).await.unwrap();
    });
    let writes = scene.vfs.body().take_writes();
    let batches: Vec<_> = writes.iter().map(|w| (w.1, w.2)).collect();
    assert_eq!(batches, [(0, 4), (7, 2)]);
}

#[test]
fn what_is_written_meanwhile_is_dirty_again_and_written_again() {
    let scene = Scene::new(cache(1024));
    scene.dirty("/a", 0, 1);
    let vfs = scene.vfs.clone();
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        let forcing = Process::new(&vfs, Access::root());
        let other = make(&forcing, "/a").await;
        let sim = vfs.sim().clone();
        let force = sim.spawn(async move { forcing.fsync(other).await });
        // The page is under write-back now.
        sim.sleep(Ns::us(50)).await;
        assert_eq!(vfs.stats().writing, 1);
        process.pwrite(fd, 0, Source::Bytes(b"new")).await.unwrap();
        assert_eq!(vfs.stats().dirty, 1);
        assert_eq!(force.await, Ok(()));
        assert_eq!(vfs.stats().dirty, 1, "dirty again");
        process.fsync(fd).await.unwrap();
        vfs.drop_caches().await.unwrap();
        let read = process.read_bytes(fd, 0, 4).await.unwrap();
        assert_eq!(read, b"new\x01");
    });
    assert_eq!(scene.written(), 2);
}

#[test]
fn a_force_waits_for_what_is_on_its_way_already() {
    let scene = Scene::new(cache(1024));
    scene.dirty("/a", 0, 1);
    let vfs = scene.vfs.clone();
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        let sim = vfs.sim().clone();
        let (other, same) = (vfs.clone(), process.handle(fd).unwrap());
        sim.spawn_detached(async move { other.sync_range(&same, 0, 0).await.unwrap() });
        sim.sleep(Ns::us(10)).await;
        assert_eq!(vfs.stats().writing, 1);
        process.fsync(fd).await.unwrap();
        assert_eq!(vfs.stats().writing, 0);
    });
}

#[test]
fn a_failure_is_told_once_to_each_open_file() {
    let scene = Scene::new(cache(1024));
    scene.run(|process| async move {
        let (one, two) = (make(&process, "/a").await, make(&process, "/a").await);
        fill(&process, one, 0, PAGE).await;
        process.vfs().body().break_writes(Some(Errno::EIO));
        assert_eq!(errno(process.fsync(one).await), Errno::EIO);
        process.vfs().body().break_writes(None);
        assert_eq!(process.fsync(one).await, Ok(()));
        assert_eq!(errno(process.fsync(two).await), Errno::EIO);
        assert_eq!(process.fsync(two).await, Ok(()));
        let three = make(&process, "/a").await;
        assert_eq!(process.fsync(three).await, Ok(()));
    });
}

#[test]
fn clone_of_data_that_failed_to_be_written_fails() {
    let scene = Scene::new(cache(1024));
    scene.run(|process| async move {
        let (from, to) = (make(&process, "/a").await, make(&process, "/b").await);
        fill(&process, from, 0, 2 * PAGE).await;
        fill(&process, to, 0, PAGE).await;
        process.fsync(from).await.unwrap();
        process.fsync(to).await.unwrap();
        let held = process.read_bytes(to, 0, PAGE as usize).await.unwrap();
        process
            .pwrite(from, 0, Source::Bytes(b"newer"))
            .await
            .unwrap();
        process.vfs().body().break_writes(Some(Errno::EIO));
        let cloned = process.copy_file_range(from, 0, to, 0, PAGE).await;
        assert_eq!(errno(cloned), Errno::EIO);
        let still = process.read_bytes(to, 0, PAGE as usize).await.unwrap();
        assert!(held == still, "a clone that failed has changed nothing");
        process.vfs().body().break_writes(None);
        process
            .pwrite(from, 0, Source::Bytes(b"newest"))
            .await
            .unwrap();
        let cloned = process.copy_file_range(from, 0, to, PAGE, 2 * PAGE).await;
        assert_eq!(cloned, Ok(2 * PAGE));
        assert_eq!(process.read_bytes(to, PAGE, 6).await.unwrap(), b"newest");
    });
}

#[test]
fn nothing_is_copied_of_nothing() {
    with_root(|process| async move {
        let (from, to) = (make(&process, "/a").await, make(&process, "/b").await);
        fill(&process, from, 0, PAGE).await;
        let before = process.fstat(to).await.unwrap();
        process.vfs().sim().sleep(Ns::secs(1)).await;
        assert_eq!(process.copy_file_range(from, 0, to, 0, 0).await, Ok(0));
        assert_eq!(process.fstat(to).await.unwrap(), before);
    });
}

#[test]
fn a_failure_of_any_file_is_told_once_to_each_that_syncs_the_file_system() {
    let scene = Scene::new(cache(1024));
    scene.run(|process| async move {
        let (one, two) = (make(&process, "/a").await, make(&process, "/b").await);
        fill(&process, one, 0, PAGE).await;
        process.vfs().body().break_writes(Some(Errno::EIO));
        assert_eq!(errno(process.sync().await), Errno::EIO);
        process.vfs().body().break_writes(None);
        assert_eq!(process.sync().await, Ok(()));
        assert_eq!(errno(process.syncfs(two).await), Errno::EIO);
        assert_eq!(process.syncfs(two).await, Ok(()));
        assert_eq!(process.fsync(two).await, Ok(()), "its own pages are there");
        let three = make(&process, "/b").await;
        assert_eq!(process.syncfs(three).await, Ok(()), "somebody was told");
        // Other files have reported the failures of all files, but not those of this one.
        let late = make(&process, "/a").await;
        assert_eq!(errno(process.fsync(late).await), Errno::EIO);
        assert_eq!(errno(process.fsync(one).await), Errno::EIO);
        assert_eq!(process.fsync(one).await, Ok(()));
    });
}

#[test]
fn a_synchronous_write_is_on_the_medium_when_it_returns() {
    let scene = Scene::new(cache(1024));
    scene.run(|process| async move {
        for flag in [OpenFlags::SYNC, OpenFlags::DATA_SYNC] {
            let flags = OpenFlags::BOTH | OpenFlags::CREATE | flag;
            let fd = process.open(b"/a", flags, 0o600).await.unwrap();
            fill(&process, fd, PAGE, 100).await;
            let writes = process.vfs().body().take_writes();
            assert_eq!(writes, [(process.ino(fd).unwrap(), 1, 1)]);
        }
    });
}

#[test]
fn a_file_that_is_gone_is_never_written_back() {
    let scene = Scene::new(cache(1024));
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, 10 * PAGE).await;
        process.unlink(b"/a").await.unwrap();
        let bytes = process.read_bytes(fd, 0, 9).await.unwrap();
        assert_eq!(bytes, [1; 9], "open files live on");
        process.close(fd).await.unwrap();
        assert_eq!(process.vfs().stats().dirty, 0);
        assert_eq!(process.vfs().stats().cached, 0);
    });
    scene.kernel.run();
    assert_eq!(scene.written(), 0);
}

#[test]
fn bodies_get_duplicates_of_dirty_pages_on_request() {
    let kernel = Kernel::new();
    let body = MemFs::new(Bytes(1 << 20)).with_duplicates().recording();
    let vfs = mount(&kernel.sim(), body, cache(64));
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, PAGE).await;
        process.fsync(fd).await.unwrap();
        process.pwrite(fd, 7, Source::Bytes(b"x")).await.unwrap();
        process.fsync(fd).await.unwrap();
        let pages = process.vfs().body().take_duplicates();
        let known: Vec<_> = pages.iter().map(|page| page.before.is_some()).collect();
        assert_eq!(
            known,
            [false, true],
            "of a page that was never clean nothing is known"
        );
        let before = pages[1].before.as_ref().unwrap();
        assert_eq!(before.to_bytes(), [1; PAGE as usize]);
        assert_eq!(pages[1].now.to_bytes()[6..9], [1, b'x', 1]);
    });
}

#[test]
fn two_files_are_written_back_at_once() {
    let scene = Scene::new(cache(1024));
    scene.dirty("/a", 0, 1);
    scene.dirty("/b", 0, 1);
    let start = scene.kernel.sim().now();
    let spent = Rc::new(Cell::new(Ns(0)));
    let (vfs, end) = (scene.vfs.clone(), Rc::clone(&spent));
    scene.run(|process| async move {
        process.sync().await.unwrap();
        end.set(vfs.sim().now().since(start));
    });
    assert_eq!(spent.get(), Ns::us(200), "both pages, then the force");
}

#[test]
fn force_waits_for_batches_of_other_tasks() {
    let config = CacheConfig {
        batch: 4,
        ..cache(1024)
    };
    let scene = Scene::new(config);
    scene.dirty("/a", 0, 12);
    let forces = [0, 1].map(|_| {
        let process = Process::new(&scene.vfs, Access::root());
        scene.kernel.sim().spawn(async move {
            let fd = process.open(b"/a", OpenFlags::BOTH, 0).await.unwrap();
            let handle = process.handle(fd).unwrap();
            process.vfs().sync_range(&handle, 0, 0).await.unwrap();
            // Each file is written four pages at a time, alternating with the other.
            let stats = process.vfs().stats();
            assert_eq!((stats.dirty, stats.writing), (0, 0));
            process.exit().await;
        })
    });
    scene.kernel.block_on(async move {
        for force in forces {
            force.await;
        }
    });
}

/// Were the page dropped, the medium would show the data from before the forced write until the
/// truncation itself is durable.
#[test]
fn pages_under_a_force_are_written_before_truncation() {
    let config = CacheConfig {
        batch: 1,
        ..cache(64)
    };
    for whole in [false, true] {
        let scene = Scene::new(config);
        let vfs = scene.vfs.clone();
        scene.run(move |process| async move {
            let fd = make(&process, "/a").await;
            fill(&process, fd, 0, 3 * PAGE).await;
            let force = async {
                match whole {
                    true => vfs.sync().await,
                    false => process.fsync(fd).await,
                }
            };
            let cut = async {
                vfs.sim().sleep(Ns::us(50)).await;
                process.ftruncate(fd, PAGE).await
            };
            assert_eq!(join(force, cut).await, (Ok(()), Ok(())));
        });
        assert_eq!(scene.written(), 3, "whole: {whole}");
    }
}

#[test]
fn truncation_without_a_force_writes_nothing() {
    let scene = Scene::new(cache(64));
    scene.run(|process| async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, 3 * PAGE).await;
        assert_eq!(process.ftruncate(fd, PAGE).await, Ok(()));
    });
    assert_eq!(scene.written(), 0);
}
