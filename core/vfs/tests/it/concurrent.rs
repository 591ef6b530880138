//! Concurrent calls on the same names, files and pages.

use crate::bench::{cache, errno, fill, make, mount, slow};
use sim::{Kernel, Seed, join_all};
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::model::{Op, perform};
use vfs::{Access, CacheConfig, Errno, OpenFlags, PAGE, Process, RenameFlags, Source, Vfs};

/// Runs `test` over a slow medium, then the kernel until it is idle.
fn with_vfs<F>(config: CacheConfig, test: impl FnOnce(Vfs<MemFs>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let kernel = Kernel::new();
    let vfs = mount(&kernel.sim(), slow(&kernel.sim()), config);
    kernel.block_on(test(vfs.clone()));
    kernel.run();
    vfs.check();
}

#[test]
fn concurrent_exclusive_creates_of_a_name_succeed_once() {
    with_vfs(cache(64), |vfs| async move {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        let tasks = (0..4).map(|_| {
            let process = Process::new(&vfs, Access::root());
            async move { process.open(b"/f", flags, 0o600).await.map(drop) }
        });
        let results = join_all(tasks.collect()).await;
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 1);
        let refused = results.into_iter().filter(Result::is_err);
        assert!(refused.map(errno).all(|e| e == Errno::EEXIST));
    });
}

#[test]
fn concurrent_creating_opens_of_a_name_share_one_file() {
    with_vfs(cache(64), |vfs| async move {
        let tasks = (0..4).map(|_| {
            let process = Process::new(&vfs, Access::root());
            async move {
                let fd = make(&process, "/f").await;
                process.ino(fd).unwrap()
            }
        });
        let inos = join_all(tasks.collect()).await;
        assert!(inos.iter().all(|&ino| ino == inos[0]));
    });
}

#[test]
fn concurrent_lookups_of_a_name_share_one_access() {
    with_vfs(cache(64), |vfs| async move {
        let process = Process::new(&vfs, Access::root());
        process.mkdir(b"/d", 0o755).await.unwrap();
        vfs.drop_caches().await.unwrap();
        let sim = vfs.sim().clone();
        let start = sim.now();
        let tasks = (0..5).map(|_| async { process.stat(b"/d").await.unwrap() });
        join_all(tasks.collect()).await;
        // One lookup and one load at the medium's speed serve all tasks.
        assert_eq!(sim.now().since(start), Ns::us(200));
    });
}

#[test]
fn writes_of_one_file_do_not_mix() {
    with_vfs(cache(64), |vfs| async move {
        let process = Process::new(&vfs, Access::root());
        let fd = make(&process, "/f").await;
        let tasks = (0..4_u8).map(|task| {
            let process = &process;
            async move {
                let bytes = vec![task + 1; 3 * PAGE as usize];
                for _ in 0..3 {
                    process
                        .pwrite(fd, 100, Source::Bytes(&bytes))
                        .await
                        .unwrap();
                    let read = process.read_bytes(fd, 100, bytes.len()).await.unwrap();
                    assert!(read.iter().all(|&byte| byte == read[0]));
                }
            }
        });
        join_all(tasks.collect()).await;
    });
}

/// Each byte of the file was written by exactly one task: none was overwritten and none was
/// skipped.
#[test]
fn calls_that_share_an_offset_come_one_after_the_other() {
    let config = CacheConfig {
        memory: Bytes(64 * PAGE),
        ..CacheConfig::default()
    };
    with_vfs(config, |vfs| async move {
        let parent = Process::new(&vfs, Access::root());
        let fd = make(&parent, "/f").await;
        let writes = (1..5_u8).map(|task| {
            let child = parent.fork();
            async move {
                let bytes = vec![task; 3_000];
                for _ in 0..3 {
                    let written = child.write(fd, Source::Bytes(&bytes)).await;
                    assert_eq!(written, Ok(3_000));
                }
            }
        });
        join_all(writes.collect()).await;
        let bytes = parent.read_bytes(fd, 0, 100_000).await.unwrap();
        assert_eq!(bytes.len(), 4 * 3 * 3_000);
        let whole = |record: &[u8]| record.iter().all(|&byte| byte == record[0]);
        assert!(bytes.chunks(3_000).all(whole));
        parent.lseek(fd, vfs::Whence::Start(0)).await.unwrap();
        let reads = (0..4).map(|_| async { parent.read(fd, 9_000, &mut ()).await });
        assert_eq!(join_all(reads.collect()).await, [Ok(9_000); 4]);
        let end = parent.lseek(fd, vfs::Whence::Current(0)).await;
        assert_eq!(end, Ok(36_000));
    });
}

#[test]
fn a_file_that_is_closed_during_a_call_is_closed_after_it() {
    with_vfs(cache(64), |vfs| async move {
        let process = Process::new(&vfs, Access::root());
        for call in 0..4 {
            let fd = make(&process, "/f").await;
            fill(&process, fd, 0, 3 * PAGE).await;
            process.fsync(fd).await.unwrap();
            let dir = OpenFlags::READ | OpenFlags::DIRECTORY;
            let dir = process.open(b"/", dir, 0).await.unwrap();
            vfs.drop_caches().await.unwrap();
            let fd = if call == 3 { dir } else { fd };
            let handle = process.handle(fd).unwrap();
            let during = async {
                match call {
                    0 => process.read(fd, PAGE, &mut ()).await.map(drop),
                    1 => process.write(fd, Source::Bytes(b"x")).await.map(drop),
                    2 => process.lseek(fd, vfs::Whence::Data(0)).await.map(drop),
                    _ => process.read_dir(fd, 9).await.map(drop),
                }
            };
            let parts: Vec<std::pin::Pin<Box<dyn Future<Output = vfs::Result<()>> + '_>>> =
                vec![Box::pin(during), Box::pin(process.close(fd))];
            assert_eq!(join_all(parts).await, [Ok(()), Ok(())], "call {call}");
            assert_eq!(vfs.flags(&handle), Err(Errno::EBADF), "call {call}");
        }
    });
}

#[test]
fn directories_that_move_into_each_other_make_no_circle() {
    with_vfs(cache(64), |vfs| async move {
        let process = Process::new(&vfs, Access::root());
        for dir in ["/a", "/b", "/a/x", "/b/y"] {
            process.mkdir(dir.as_bytes(), 0o755).await.unwrap();
        }
        let flags = RenameFlags::default();
        let one = process.rename(b"/a", b"/b/y/a", flags);
        let two = process.rename(b"/b", b"/a/x/b", flags);
        let (one, two) = sim::join(one, two).await;
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    });
}

#[test]
fn a_file_is_cut_while_it_is_read_ahead_and_written_back() {
    with_vfs(cache(256), |vfs| async move {
        let process = Process::new(&vfs, Access::root());
        let fd = make(&process, "/f").await;
        fill(&process, fd, 0, 100 * PAGE).await;
        process.sync().await.unwrap();
        vfs.drop_caches().await.unwrap();
        process.read_bytes(fd, 0, 2 * PAGE as usize).await.unwrap();
        fill(&process, fd, 50 * PAGE, PAGE).await;
        let force = process.fsync(fd);
        let cut = process.ftruncate(fd, 100);
        let (forced, cut) = sim::join(force, cut).await;
        assert_eq!((forced, cut), (Ok(()), Ok(())));
        process.ftruncate(fd, 60 * PAGE).await.unwrap();
        let bytes = process.read_bytes(fd, 0, 60 * PAGE as usize).await.unwrap();
        assert!(bytes[..100].iter().all(|&byte| byte == 1));
        assert!(bytes[100..].iter().all(|&byte| byte == 0));
    });
}

/// A random call of a busy program.
fn any_op(rng: &mut sim::Rng) -> Op {
    let names = ["/a", "/b", "/a/c", "/b/c", "/a/d", "/b/d"];
    let mut path = || names[rng.below(6) as usize].as_bytes().to_vec();
    let (one, two) = (path(), path());
    let fd = rng.below(4) as u32;
    let flags = RenameFlags {
        no_replace: false,
        exchange: rng.below(2) == 0,
    };
    match rng.below(11) {
        0 => Op::Mkdir { path: one },
        1 => Op::Rmdir { path: one },
        2 => Op::Unlink { path: one },
        3 | 4 => Op::Rename {
            from: one,
            to: two,
            flags,
        },
        5 => Op::Link {
            path: one,
            new: two,
        },
        6 => Op::Close { fd },
        7 => Op::Write {
            fd,
            offset: rng.below(9_000),
            byte: 3,
            len: rng.below(9_000),
        },
        8 => Op::Truncate {
            path: one,
            size: rng.below(9_000),
        },
        9 => Op::ReadDir { path: b"/a".into() },
        _ => Op::Open {
            path: one,
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
    }
}

/// Many programs in a cache that evicts all the time: no task hangs, the invariants hold, and the
/// final tree is consistent.
#[test]
fn busy_programs_leave_a_tree_in_order() {
    let config = CacheConfig {
        inodes: 2,
        names: 3,
        batch: 2,
        ..cache(64)
    };
    for seed in 0..60 {
        let kernel = Kernel::new();
        let body = MemFs::slow(&kernel.sim(), Bytes(64 << 20), Ns::us(20));
        let vfs = mount(&kernel.sim(), body, config);
        let root = vfs.clone();
        kernel.block_on(async move {
            let tasks = (0..6).map(|task| {
                let process = Process::new(&root, Access::root());
                let (mut rng, root) = (Seed(seed * 8 + task).stream("ops"), root.clone());
                async move {
                    for step in 0..60 {
                        // Many calls fail; only the state that they leave matters.
                        let _ = perform(&process, &any_op(&mut rng)).await;
                        if step % 20 == 19 {
                            root.drop_caches().await.unwrap();
                        }
                        root.check();
                    }
                    process.exit().await;
                }
            });
            join_all(tasks.collect()).await;
            root.unmount().await.unwrap();
            root.body().check();
        });
        kernel.run();
        vfs.check();
        assert_eq!(vfs.stats().cached, 0);
    }
}
