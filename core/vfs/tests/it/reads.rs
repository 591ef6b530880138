//! Reads of the medium: which pages, and when.

use crate::bench::{cache, errno, fill, make, mount, slow, with_root};
use sim::Kernel;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::{
    Access, Advice, CacheConfig, CallCosts, Errno, Fd, OpenFlags, PAGE, Process, ReadSink, Source,
};

/// Runs `test` over a file of `pages` pages with an empty cache.
fn with_cold_file<F>(pages: u64, test: impl FnOnce(Process<MemFs>, Fd) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let kernel = Kernel::new();
    let vfs = mount(&kernel.sim(), slow(&kernel.sim()), cache(4096));
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, pages * PAGE).await;
        process.fsync(fd).await.unwrap();
        process.vfs().drop_caches().await.unwrap();
        process.vfs().body().take_reads();
        test(process, fd).await;
    });
    kernel.run();
    vfs.check();
}

/// First page and length of each read of the medium so far.
fn reads(process: &Process<MemFs>) -> Vec<(u64, usize)> {
    let reads = process.vfs().body().take_reads();
    reads.iter().map(|read| (read.1, read.2)).collect()
}

async fn read(process: &Process<MemFs>, fd: Fd, page: u64, pages: u64) {
    let done = process.pread(fd, page * PAGE, pages * PAGE, &mut ()).await;
    assert_eq!(done, Ok(pages * PAGE));
}

#[test]
fn a_sequential_reader_is_read_ahead_for_in_growing_windows() {
    with_cold_file(200, |process, fd| async move {
        for page in 0..90 {
            read(&process, fd, page, 1).await;
        }
        process.vfs().sim().sleep(Ns::ms(1)).await;
        let windows = reads(&process);
        assert_eq!(
            windows,
            [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32)]
        );
        let stats = process.vfs().stats();
        assert_eq!(stats.misses, 1);
        assert_eq!(stats.read_ahead, 123);
    });
}

#[test]
fn the_next_window_is_read_while_the_reader_goes_on() {
    with_cold_file(200, |process, fd| async move {
        read(&process, fd, 0, 1).await;
        let sim = process.vfs().sim().clone();
        let start = sim.now();
        read(&process, fd, 1, 3).await;
        assert_eq!(sim.now(), start, "nobody waits at the mark");
        read(&process, fd, 4, 1).await;
        assert_eq!(sim.now().since(start), Ns::us(100));
    });
}

#[test]
fn a_random_reader_is_given_what_it_asks_for() {
    with_cold_file(1000, |process, fd| async move {
        for page in [700, 30, 500, 90] {
            read(&process, fd, page, 2).await;
        }
        assert_eq!(reads(&process), [(700, 2), (30, 2), (500, 2), (90, 2)]);
    });
}

#[test]
fn advice_is_followed() {
    with_cold_file(1000, |process, fd| async move {
        let handle = process.handle(fd).unwrap();
        let vfs = process.vfs().clone();
        vfs.advise(&handle, 0, 0, Advice::Random).await.unwrap();
        read(&process, fd, 0, 1).await;
        read(&process, fd, 1, 1).await;
        assert_eq!(reads(&process), [(0, 1), (1, 1)]);
        let (start, len) = (100 * PAGE, 300 * PAGE);
        vfs.advise(&handle, start, len, Advice::WillNeed)
            .await
            .unwrap();
        assert_eq!(reads(&process), [(100, 256), (356, 44)]);
        read(&process, fd, 250, 1).await;
        assert_eq!(reads(&process), []);
        vfs.advise(&handle, start, len, Advice::DontNeed)
            .await
            .unwrap();
        assert_eq!(vfs.stats().cached, 2);
        vfs.advise(&handle, 0, 0, Advice::Sequential).await.unwrap();
        for page in 2..200 {
            read(&process, fd, page, 1).await;
        }
        let largest = reads(&process).into_iter().map(|read| read.1).max();
        assert_eq!(largest, Some(64), "twice the usual limit");
    });
}

#[test]
fn without_read_ahead_only_what_is_asked_for_is_read() {
    let kernel = Kernel::new();
    let config = CacheConfig {
        read_ahead: Bytes(0),
        ..cache(1024)
    };
    let vfs = mount(&kernel.sim(), slow(&kernel.sim()), config);
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, 10 * PAGE).await;
        process.sync().await.unwrap();
        process.vfs().drop_caches().await.unwrap();
        for page in 0..3 {
            read(&process, fd, page, 1).await;
        }
        assert_eq!(reads(&process), [(0, 1), (1, 1), (2, 1)]);
    });
}

#[test]
fn two_readers_of_a_page_meet_one_load() {
    with_cold_file(1, |process, fd| async move {
        let sim = process.vfs().sim().clone();
        let others: Vec<_> = (0..3)
            .map(|_| {
                let (vfs, handle) = (process.vfs().clone(), process.handle(fd).unwrap());
                sim.spawn(async move { vfs.read(&handle, 0, PAGE, &mut ()).await })
            })
            .collect();
        for other in others {
            assert_eq!(other.await, Ok(PAGE));
        }
        assert_eq!(reads(&process), [(0, 1)]);
    });
}

#[test]
fn a_partial_write_reads_the_page_first_and_a_whole_one_does_not() {
    with_cold_file(4, |process, fd| async move {
        process.pwrite(fd, 10, Source::Bytes(b"x")).await.unwrap();
        assert_eq!(reads(&process), [(0, 1)]);
        fill(&process, fd, PAGE, PAGE).await;
        process
            .pwrite(fd, 4 * PAGE + 5, Source::Bytes(b"x"))
            .await
            .unwrap();
        assert_eq!(reads(&process), [], "nor does one past the end");
    });
}

#[test]
fn a_hit_costs_the_processor_one_event_and_no_more() {
    let kernel = Kernel::new();
    let config = CacheConfig {
        costs: CallCosts::default(),
        ..cache(64)
    };
    let vfs = mount(&kernel.sim(), slow(&kernel.sim()), config);
    let process = Process::new(&vfs, Access::root());
    kernel.block_on(async move {
        let fd = make(&process, "/a").await;
        fill(&process, fd, 0, 4 * PAGE).await;
        let sim = process.vfs().sim().clone();
        // Wait until the write-back task sleeps.
        sim.sleep(Ns(1)).await;
        let (events, now) = (sim.events(), sim.now());
        read(&process, fd, 0, 4).await;
        assert_eq!(sim.events() - events, 1);
        assert_eq!(sim.now().since(now), Ns(170 + 4 * 400));
    });
}

#[test]
fn pages_can_be_read_as_they_are_kept() {
    with_root(|process| async move {
        let fd = make(&process, "/a").await;
        let source = Source::Fill {
            pattern: 7,
            len: 2 * PAGE,
        };
        process.pwrite(fd, 0, source).await.unwrap();
        let mut pages = vec![nand::Payload::Zero; 2];
        let sink = &mut pages.as_mut_slice();
        process.pread(fd, 0, 2 * PAGE, sink).await.unwrap();
        assert_eq!(pages, [nand::Payload::Fill(7), nand::Payload::Fill(7)]);
        fn is_sink(_: &impl ReadSink) {}
        is_sink(&());
    });
}

#[test]
fn reads_obey_how_the_file_was_opened() {
    with_root(|process| async move {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = process.open(b"/a", flags, 0o600).await.unwrap();
        assert_eq!(errno(process.read_bytes(fd, 0, 1).await), Errno::EBADF);
        let dir = process.open(b"/", OpenFlags::READ, 0).await.unwrap();
        assert_eq!(errno(process.read_bytes(dir, 0, 1).await), Errno::EISDIR);
        let gone = Fd(99);
        assert_eq!(errno(process.read_bytes(gone, 0, 1).await), Errno::EBADF);
    });
}
