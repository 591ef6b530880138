//! Tests of the journal's behaviour: its requests, their times and their order.

use super::probe::{Passed, Probe};
use super::*;
use sim::Kernel;
use std::cell::Cell;

/// Runs `client` on a journal of `blocks` blocks over a probe, then to rest.
fn run<F: Future<Output = ()> + 'static>(
    blocks: u32,
    mode: Mode,
    client: impl FnOnce(Jbd2, Probe, Sim) -> F + 'static,
) -> (Kernel, Probe) {
    let kernel = Kernel::new();
    let (disk, mut config) = new_disk(&kernel.sim(), blocks);
    config.mode = mode;
    let probe = Probe::new(&kernel.sim(), disk);
    let (sim, port) = (kernel.sim(), probe.clone());
    kernel.block_on(async move {
        let (journal, _) = Jbd2::open(&sim, &port, config).await.unwrap();
        port.take();
        client(journal, port, sim).await;
    });
    (kernel, probe)
}

async fn change(journal: &Jbd2, blocks: &[u64], value: u8) -> TxId {
    let mut buffers = Vec::new();
    for &block in blocks {
        buffers.push(journal.read(block, Purpose::Inode).await.unwrap());
    }
    let tx = journal.begin(blocks.len()).await.unwrap();
    for buffer in &buffers {
        journal.write(&tx, buffer, 0, &[value; 8]);
    }
    journal.end(tx).await.unwrap()
}

#[test]
fn commit_writes_superblock_log_flush_and_commit_block_in_order() {
    run(256, Mode::Ordered, |journal, port, _| async move {
        let id = change(&journal, &[7, 8, 9], 1).await;
        port.take();
        journal.force(id).await.unwrap();
        let wanted = [
            Passed::Write(LOG, 1, false),
            Passed::Write(LOG + 1, 4, false),
            Passed::Flush,
            Passed::Write(LOG + 5, 1, true),
        ];
        assert_eq!(port.take(), wanted);
    });
}

#[test]
fn force_of_a_durable_transaction_flushes_file_contents_only() {
    run(256, Mode::Ordered, |journal, port, _| async move {
        let id = change(&journal, &[7], 1).await;
        journal.force(id).await.unwrap();
        port.take();
        journal.force(id).await.unwrap();
        assert_eq!(port.take(), [Passed::Flush]);
    });
}

#[test]
fn contents_in_ordered_mode_land_before_the_flush_of_the_commit() {
    for mode in [Mode::Ordered, Mode::Writeback] {
        run(256, mode, move |journal, port, sim| async move {
            let buffer = journal.read(7, Purpose::Inode).await.unwrap();
            let tx = journal.begin(1).await.unwrap();
            journal.write(&tx, &buffer, 0, &[1]);
            let id = journal.id(&tx);
            port.take();
            port.latency.set(Ns::ms(1));
            let writer = journal.clone();
            let write = sim.spawn(async move {
                let pages = [page(5)];
                let write = DataWrite {
                    start: 50,
                    pages: &pages,
                    held: 0,
                    end: u64::MAX,
                    placement: Placement(0),
                    who: Who::default(),
                };
                writer.write_data(Some(tx), &[write]).await.unwrap();
            });
            sim.sleep(Ns::us(500)).await;
            port.latency.set(Ns(0));
            journal.force(id).await.unwrap();
            write.await;
            let passed = port.take();
            let at = |what: Passed| passed.iter().position(|p| *p == what).unwrap();
            let ordered = at(Passed::Write(50, 1, false)) < at(Passed::Flush);
            assert_eq!(ordered, mode == Mode::Ordered);
        });
    }
}

#[test]
fn concurrent_forces_share_few_commits() {
    run(1024, Mode::Ordered, |journal, port, sim| async move {
        port.latency.set(Ns::us(20));
        let tasks: Vec<_> = (0..64)
            .map(|block| {
                let journal = journal.clone();
                sim.spawn(async move {
                    let id = change(&journal, &[block], 1).await;
                    journal.force(id).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let commits = journal.counts().commits;
        assert!(commits <= 3, "{commits}");
    });
}

#[test]
fn idle_transaction_is_committed_after_5_s_and_home_after_35_s() {
    let (kernel, probe) = run(256, Mode::Ordered, |journal, port, sim| async move {
        let start = sim.now();
        change(&journal, &[7], 9).await;
        sim.sleep_until(Ns(start.0 + Ns::ms(4_999).0)).await;
        assert_eq!(journal.counts().commits, 0);
        sim.sleep(Ns::ms(2)).await;
        assert_eq!(journal.counts().commits, 1);
        assert!(!port.take().contains(&Passed::Write(7, 1, false)));
    });
    kernel.run();
    assert!(probe.take().contains(&Passed::Write(7, 1, false)));
    let seconds = kernel.sim().now().0 / 1_000_000_000;
    assert!((35..=40).contains(&seconds), "{seconds}");
}

#[test]
fn log_of_64_blocks_wraps_many_times() {
    let (kernel, _) = run(64, Mode::Ordered, |journal, port, _| async move {
        for round in 0..200_u64 {
            let blocks: Vec<_> = (0..6).map(|i| round * 6 % 90 + i).collect();
            change(&journal, &blocks, round as u8).await;
            if round % 3 == 0 {
                journal.force_all().await.unwrap();
            }
        }
        let wraps = port.take();
        let starts = wraps
            .iter()
            .filter(|p| matches!(p, Passed::Write(b, ..) if *b == LOG + 1));
        assert!(starts.count() > 5);
        journal.shut_down().await.unwrap();
        let runs = journal.core.config.runs.clone();
        let log = inspect(&port, &runs).await.unwrap();
        assert_eq!((log.start, log.transactions.len()), (0, 0));
    });
    kernel.run();
}

#[test]
fn handles_too_large_are_refused_and_large_ones_start_a_transaction() {
    run(64, Mode::Ordered, |journal, _, _| async move {
        assert_eq!(journal.begin(16).await.err(), Some(Errno::ENOSPC));
        let mut tx = journal.begin(10).await.unwrap();
        let first = journal.id(&tx);
        assert!(journal.extend(&mut tx, 5));
        assert!(!journal.extend(&mut tx, 1));
        journal.end(tx).await.unwrap();
        for block in 0..10 {
            change(&journal, &[block], 1).await;
        }
        let tx = journal.begin(10).await.unwrap();
        assert!(journal.id(&tx) > first);
        journal.end(tx).await.unwrap();
    });
}

#[test]
fn change_of_a_committing_block_does_not_wait() {
    run(256, Mode::Ordered, |journal, port, sim| async move {
        let id = change(&journal, &[7], 1).await;
        port.latency.set(Ns::ms(1));
        let forcer = journal.clone();
        let forced = sim.spawn(async move { forcer.force(id).await.unwrap() });
        sim.sleep(Ns::us(100)).await;
        let before = sim.now();
        let next = change(&journal, &[7], 2).await;
        assert!(next > id && sim.now() == before);
        forced.await;
        port.latency.set(Ns(0));
        let runs = journal.core.config.runs.clone();
        let log = inspect(&port.disk, &runs).await.unwrap();
        let copy = log.transactions[0].copies[0];
        let image = block_of(&port.disk, LOG + u64::from(copy.index));
        assert_eq!((log.transactions.len(), image[0]), (1, 1));
    });
}

#[test]
fn blocks_freed_are_available_once_their_transaction_is_durable() {
    run(256, Mode::Ordered, |journal, _, _| async move {
        let run = Run { start: 70, len: 3 };
        let tx = journal.begin(1).await.unwrap();
        journal.free(&tx, run);
        let id = journal.end(tx).await.unwrap();
        assert!(journal.freed().is_empty());
        journal.force(id).await.unwrap();
        assert_eq!((journal.freed(), journal.freed()), (vec![run], vec![]));
    });
}

#[test]
fn blocks_read_concurrently_are_read_once_and_kept_within_the_bound() {
    run(256, Mode::Ordered, |journal, port, sim| async move {
        let read = |block| {
            let journal = journal.clone();
            sim.spawn(async move {
                journal.read(block, Purpose::Inode).await.unwrap();
            })
        };
        let (a, b) = (read(5), read(5));
        a.await;
        b.await;
        assert_eq!(port.take(), [Passed::Read(5)]);
    });
    let kernel = Kernel::new();
    let (disk, mut config) = new_disk(&kernel.sim(), 64);
    config.cache_blocks = 8;
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = Probe::new(&sim, disk);
        let (journal, _) = Jbd2::open(&sim, &port, config).await.unwrap();
        let held = journal.read(0, Purpose::Inode).await.unwrap();
        for block in 1..100 {
            journal.read(block, Purpose::Inode).await.unwrap();
            journal.read(1, Purpose::Inode).await.unwrap();
        }
        assert!(journal.counts().cached <= 8);
        port.take();
        for block in [0, 1, 99] {
            journal.read(block, Purpose::Inode).await.unwrap();
        }
        assert_eq!((port.take(), held.block), (vec![], 0));
    });
}

#[test]
fn journal_after_a_failed_commit_is_aborted_and_writes_nothing_home() {
    let (kernel, probe) = run(256, Mode::Ordered, |journal, port, _| async move {
        let id = change(&journal, &[7], 1).await;
        port.failing.set(true);
        assert_eq!(journal.force(id).await, Err(Errno::EIO));
        assert!(journal.is_aborted());
        assert_eq!(journal.begin(1).await.err(), Some(Errno::EROFS));
        assert_eq!(journal.shut_down().await, Err(Errno::EIO));
    });
    kernel.run();
    let aborted = probe.disk.clone();
    assert_eq!(block_of(&aborted, 7)[0], 0);
}

#[test]
fn error_of_the_medium_is_recorded_until_it_is_cleared() {
    let failed = Rc::new(Cell::new(false));
    let (kernel, probe) = run(256, Mode::Ordered, move |journal, port, sim| async move {
        let id = change(&journal, &[7], 1).await;
        // The copies fail, and the superblock after them does not.
        port.latency.set(Ns::ms(1));
        port.failing.set(true);
        let (repaired, done) = (port.failing.clone(), failed.clone());
        let waiter = sim.clone();
        sim.spawn_detached(async move {
            waiter.sleep(Ns(1_500_000)).await;
            repaired.set(false);
            done.set(true);
        });
        assert_eq!(journal.force(id).await, Err(Errno::EIO));
        sim.sleep(Ns::ms(3)).await;
    });
    let sim = kernel.sim();
    kernel.block_on(async move {
        let config = new_disk(&sim, 256).1;
        let opened = Jbd2::open(&sim, &probe.disk, config.clone()).await;
        let (journal, report) = opened.unwrap();
        assert_eq!(report.errno, -5);
        journal.clear_errno().await.unwrap();
        let opened = Jbd2::open(&sim, &probe.disk, config).await;
        assert_eq!(opened.unwrap().1.errno, 0);
    });
}

#[test]
fn journaled_contents_are_read_before_they_are_home() {
    let (kernel, probe) = run(256, Mode::Journal, |journal, port, _| async move {
        // The contents start with the magic number of the log.
        let pattern = u64::from_le_bytes([0xc0, 0x3b, 0x39, 0x98, 1, 2, 3, 4]);
        let pages = [page(pattern), page(2)];
        let write = DataWrite {
            start: 50,
            pages: &pages,
            held: 0,
            end: u64::MAX,
            placement: Placement(0),
            who: Who::default(),
        };
        journal.write_data(None, &[write]).await.unwrap();
        journal.force(TxId(0)).await.unwrap();
        assert!(!port.take().contains(&Passed::Write(50, 2, false)));
        let mut read = vec![Payload::Zero; 3];
        journal
            .read_data(50, &mut read, Who::default())
            .await
            .unwrap();
        assert_eq!(
            read,
            [Payload::Fill(pattern), Payload::Fill(2), Payload::Zero]
        );
        let mut bytes = [0; 512];
        journal
            .read_direct(50, 4096, &mut bytes, Who::default())
            .await
            .unwrap();
        assert_eq!(bytes[..8], 2_u64.to_le_bytes());
        journal
            .write_direct(51, 512, &[7; 512], Placement(0), Who::default())
            .await
            .unwrap();
        journal
            .read_direct(51, 512, &mut bytes, Who::default())
            .await
            .unwrap();
        assert_eq!(bytes, [7; 512]);
    });
    let (sim, disk) = (kernel.sim(), probe.disk.clone());
    kernel.run();
    assert_eq!(block_of(&disk, 50)[..4], [0xc0, 0x3b, 0x39, 0x98]);
    assert_eq!(block_of(&disk, 51)[512..514], [7, 7]);
    drop(sim);
}

#[test]
fn direct_requests_of_partial_sectors_are_refused() {
    run(256, Mode::Ordered, |journal, _, _| async move {
        let who = Who::default();
        let write = journal.write_direct(50, 512, &[7; 1024], Placement(0), who);
        write.await.unwrap();
        let mut out = [0; 1024];
        journal.read_direct(50, 512, &mut out, who).await.unwrap();
        assert_eq!(out, [7; 1024]);
        for (offset, len) in [(1, 512), (512, 100)] {
            let read = journal.read_direct(50, offset, &mut out[..len], who).await;
            assert_eq!(read, Err(Errno::EINVAL));
        }
        let far = journal.read_direct(u64::MAX, 0, &mut out, who).await;
        assert_eq!(far, Err(Errno::EINVAL));
    });
}

#[test]
fn writes_of_log_and_home_are_attributed_by_purpose() {
    let (kernel, probe) = run(256, Mode::Ordered, |journal, _, _| async move {
        let id = change(&journal, &[7, 8], 1).await;
        journal.force(id).await.unwrap();
    });
    let journal = probe.disk.ledger().purpose(Purpose::Journal).write.block;
    assert_eq!(
        journal,
        5 * BLOCK as u64,
        "superblock, descriptor, copies, commit"
    );
    kernel.run();
    let home = probe.disk.ledger().purpose(Purpose::Inode).write.block;
    assert_eq!(home, 2 * BLOCK as u64);
}

/// Contents that do not fit the transaction are written around the log, and a replay does
/// not overwrite them with older contents of the log.
#[test]
fn contents_too_many_for_the_log_are_not_overwritten_by_a_replay() {
    let (kernel, probe) = run(64, Mode::Journal, |journal, _, _| async move {
        let write = |start, pages| DataWrite {
            start,
            pages,
            held: 0,
            end: u64::MAX,
            placement: Placement(0),
            who: Who::default(),
        };
        let old = [page(1), page(1)];
        journal.write_data(None, &[write(50, &old)]).await.unwrap();
        journal.force_all().await.unwrap();
        let new: Vec<_> = (0..40).map(|_| page(2)).collect();
        let tx = journal.begin(1).await.unwrap();
        journal.create(&tx, 7, Purpose::Inode);
        let id = journal
            .write_data(Some(tx), &[write(50, &new)])
            .await
            .unwrap();
        let mut read = vec![Payload::Zero; 40];
        journal
            .read_data(50, &mut read, Who::default())
            .await
            .unwrap();
        assert!(read.iter().all(|page| *page == Payload::Fill(2)));
        journal.force(id).await.unwrap();
    });
    let sim = kernel.sim();
    kernel.block_on(async move {
        let config = new_disk(&sim, 64).1;
        let (_, report) = Jbd2::open(&sim, &probe.disk, config).await.unwrap();
        assert_eq!((report.transactions, report.revoked), (2, 2));
        assert_eq!(block_of(&probe.disk, 50)[0], 2);
    });
}

/// A block that becomes metadata again in the transaction that forgot it is replayed: its
/// revoke was cancelled.
#[test]
fn metadata_forgotten_and_created_again_is_replayed() {
    let (kernel, probe) = run(64, Mode::Ordered, |journal, _, _| async move {
        change(&journal, &[7], 1).await;
        let tx = journal.begin(1).await.unwrap();
        journal.forget(&tx, 7);
        let buffer = journal.create(&tx, 7, Purpose::Inode);
        journal.write(&tx, &buffer, 0, &[2]);
        let id = journal.end(tx).await.unwrap();
        journal.force(id).await.unwrap();
    });
    let sim = kernel.sim();
    kernel.block_on(async move {
        let config = new_disk(&sim, 64).1;
        Jbd2::open(&sim, &probe.disk, config).await.unwrap();
        assert_eq!(block_of(&probe.disk, 7)[0], 2);
    });
}

/// Starts to write all dirty blocks home, with a delay for block 7.
async fn slowly_home(journal: &Jbd2, port: &Probe, sim: &Sim) {
    port.slow.set(Some(7));
    let core = Rc::clone(&journal.core);
    sim.spawn_detached(async move { core.write_home(core.dirty()).await.unwrap() });
    sim.sleep(Ns(1)).await;
    port.slow.set(None);
}

#[test]
fn block_freed_during_a_home_write_is_available_after_that_write() {
    run(256, Mode::Ordered, |journal, port, sim| async move {
        let id = change(&journal, &[7], 1).await;
        journal.force(id).await.unwrap();
        slowly_home(&journal, &port, &sim).await;
        let tx = journal.begin(1).await.unwrap();
        journal.forget(&tx, 7);
        journal.free(&tx, Run { start: 7, len: 1 });
        let id = journal.end(tx).await.unwrap();
        journal.force(id).await.unwrap();
        assert_eq!(journal.freed().len(), 1);
        assert!(port.take().contains(&Passed::Write(7, 1, false)));
    });
}

#[test]
fn home_writes_of_one_block_land_in_order() {
    let (kernel, probe) = run(256, Mode::Ordered, |journal, port, sim| async move {
        let id = change(&journal, &[7], 1).await;
        journal.force(id).await.unwrap();
        slowly_home(&journal, &port, &sim).await;
        let id = change(&journal, &[7], 2).await;
        journal.force(id).await.unwrap();
        let core = &journal.core;
        core.write_home(core.dirty()).await.unwrap();
        journal.shut_down().await.unwrap();
    });
    kernel.run();
    assert_eq!(block_of(&probe.disk, 7)[0], 2);
}
