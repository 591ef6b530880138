//! Tests of a memory-mapped drive: cost of lines, and durability of stores.

use host::{BlockDevice, BlockPort, BytePort, HostConfig, Purpose, Who};
use sim::{Kernel, Seed, Sim};
use ssd::front::FrontConfig;
use ssd::wlog::{CommitError, StoreError};
use ssd::{ByteError, Content, Drive, DriveConfig, DriveMedia, IoError, Preset};
use std::collections::BTreeSet;
use std::future::Future;
use units::{Bytes, Extent, KIB, MIB, Ns, Placement};

const LINE: usize = 64;

fn config(log: bool) -> DriveConfig {
    let mut config = (Preset::named("byte").unwrap().config)().resized(Bytes(64 * MIB));
    config.flash.keep_contents = true;
    let mut front = match log {
        true => FrontConfig::write_log(),
        false => FrontConfig::page_cache(),
    };
    if log {
        front.log.bytes = Bytes(256 * KIB);
    }
    config.front = Some(front);
    config
}

/// Runs `work` on a new drive; returns its result, the device afterwards and the kernel.
fn on_drive<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    host: HostConfig,
    work: impl FnOnce(Sim, BlockDevice) -> F,
) -> (T, BlockDevice, Kernel) {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    let device = BlockDevice::new(&kernel.sim(), host, drive).unwrap();
    let done = kernel.block_on(work(kernel.sim(), device.clone()));
    (done, device, kernel)
}

async fn store(device: &BlockDevice, at: u64, value: u8, tx: u32) -> Result<(), ByteError> {
    device.store(at, &[value; LINE], tx, Who::default()).await
}

/// Possible first bytes of the two lines after a power cut now and a recovery.
fn after_cuts(device: &BlockDevice, config: &DriveConfig, lines: [u64; 2]) -> BTreeSet<[u8; 2]> {
    let mut rng = Seed(3).stream("arriving");
    let cut = |_| {
        let (media, arrived) = (device.drive().at_power_cut(), device.arriving(&mut rng));
        let kernel = Kernel::new();
        let (sim, config) = (kernel.sim(), config.clone());
        kernel.block_on(async move {
            let drive = Drive::power_on(&sim, &config, media, Seed(1))
                .await
                .unwrap();
            let device = BlockDevice::after_cut(&sim, HostConfig::default(), drive, arrived);
            let device = device.unwrap();
            device.recover().await.unwrap();
            let mut first = [0; 2];
            for (at, first) in lines.into_iter().zip(&mut first) {
                let mut line = [0; LINE];
                device.load(at, &mut line, Who::default()).await.unwrap();
                *first = line[0];
            }
            first
        })
    };
    (0..32).map(cut).collect()
}

#[test]
fn loads_and_stores_take_the_times_of_the_tables() {
    for (load, store_cost) in [(4_800, 600), (175, 175)] {
        let mut host = HostConfig::default();
        (host.bytes.load, host.bytes.store) = (Ns(load), Ns(store_cost));
        let (spans, ..) = on_drive(&config(true), host, move |sim, device| async move {
            let mut spans = Vec::new();
            let mut begin = sim.now();
            let mut lap = || {
                spans.push(sim.now().since(begin).0);
                begin = sim.now();
            };
            device
                .store(0, &[1; 4 * LINE], 0, Who::default())
                .await
                .unwrap();
            lap();
            device.verify().await.unwrap();
            lap();
            device
                .load(0, &mut [0; 2 * LINE], Who::default())
                .await
                .unwrap();
            lap();
            spans
        });
        // The look-up of a page takes 89 ns, the DRAM's first byte takes 100 ns, and then
        // the DRAM moves 12.8 bytes per ns; a write to a page has a descriptor of 16 bytes.
        let moved = |bytes: u64| (bytes * 10).div_ceil(128);
        let arrival = 89 + 100 + moved(4 * 64 + 16);
        assert_eq!(
            spans,
            [
                4 * store_cost,
                arrival + load,
                2 * load + 89 + 100 + moved(2 * 64)
            ]
        );
    }
}

#[test]
fn a_drive_without_a_volatile_cache_is_sent_no_flush() {
    for bytes in [true, false] {
        let mut config = config(false);
        if !bytes {
            config.front = None;
        }
        let work = |sim: Sim, device: BlockDevice| async move {
            let begin = sim.now();
            BlockPort::flush(&device).await.unwrap();
            sim.now().since(begin)
        };
        let (span, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        let flushes = (device.ledger().flushes, device.drive().ledger().flushes);
        assert_eq!(span == Ns::ZERO, bytes);
        assert_eq!(flushes, (u64::from(!bytes), u64::from(!bytes)));
    }
}

#[test]
fn store_is_durable_once_it_is_verified_and_not_before() {
    for log in [true, false] {
        let config = config(log);
        let work = |_, device: BlockDevice| async move {
            store(&device, 0, 1, 0).await.unwrap();
            store(&device, 8_192, 1, 0).await.unwrap();
            device.verify().await.unwrap();
            store(&device, 0, 2, 0).await.unwrap();
            store(&device, 8_192, 2, 0).await.unwrap();
        };
        let (_, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        let seen = after_cuts(&device, &config, [0, 8_192]);
        assert_eq!(seen, [[1, 1], [1, 2], [2, 1], [2, 2]].into(), "log: {log}");
    }
}

#[test]
fn load_or_command_forces_the_arrival_of_earlier_stores() {
    for load in [true, false] {
        let config = config(true);
        let work = move |_, device: BlockDevice| async move {
            store(&device, 0, 1, 0).await.unwrap();
            store(&device, 64, 1, 0).await.unwrap();
            let who = Who::default();
            if load {
                device.load(8_192, &mut [0; LINE], who).await.unwrap();
            } else {
                let extent = Extent::new(0, 8);
                let mut page = [0; 4_096];
                let mut sink = &mut page[..];
                device.read(extent, &mut sink, who).await.unwrap();
                assert_eq!((page[0], page[64], page[128]), (1, 1, 0));
            }
        };
        let (_, device, _kernel) = on_drive(&config, HostConfig::default(), work);
        assert_eq!(after_cuts(&device, &config, [0, 64]), [[1, 1]].into());
    }
}

#[test]
fn transaction_is_durable_as_a_whole_once_it_has_committed() {
    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        store(&device, 0, 7, 9).await.unwrap();
        store(&device, 64, 7, 9).await.unwrap();
    };
    let (_, device, kernel) = on_drive(&config, HostConfig::default(), work);
    assert_eq!(after_cuts(&device, &config, [0, 64]), [[0, 0]].into());
    let committed = device.clone();
    kernel.block_on(async move { committed.commit(9).await.unwrap() });
    assert_eq!(after_cuts(&device, &config, [0, 64]), [[7, 7]].into());
}

#[test]
fn block_write_supersedes_its_lines_and_the_ledger_separates_both_interfaces() {
    let config = config(true);
    let who = Who {
        purpose: Purpose::Inode,
        ..Who::default()
    };
    let work = move |_, device: BlockDevice| async move {
        store(&device, 0, 5, 0).await.unwrap();
        let fill = Content::Fill(u64::from_le_bytes([3; 8]));
        let block = device.write(Extent::new(0, 8), fill, Placement(0), who, false);
        block.await.unwrap();
        device.store(64, &[4; LINE], 0, who).await.unwrap();
        let mut lines = [0; 3 * LINE];
        device.load(0, &mut lines, who).await.unwrap();
        [lines[0], lines[64], lines[128]]
    };
    let (lines, device, _kernel) = on_drive(&config, HostConfig::default(), work);
    assert_eq!(lines, [3, 4, 3]);
    let traffic = device.ledger().purpose(Purpose::Inode);
    assert_eq!((traffic.write.byte, traffic.write.block), (64, 4_096));
    assert_eq!((traffic.read.byte, traffic.read.block), (192, 0));
}

#[test]
fn impossible_store_is_refused_at_once() {
    let refused = |log: bool, at: u64, len: usize, tx: u32| {
        let work = move |_, device: BlockDevice| async move {
            let bytes = vec![0; len];
            device.store(at, &bytes, tx, Who::default()).await
        };
        let (result, ..) = on_drive(&config(log), HostConfig::default(), work);
        result.unwrap_err().to_string()
    };
    let unaligned = refused(true, 32, 64, 0);
    assert_eq!(unaligned, "64 bytes at 32 are not whole lines of 64 bytes");
    assert!(refused(true, 64 * MIB, 64, 0).contains("past the end"));
    assert!(refused(false, 0, 64, 1).contains("no transactions"));
}

/// A host whose processor posts up to `posted` lines.
fn posting(posted: u32) -> HostConfig {
    let mut host = HostConfig::default();
    host.bytes.posted = posted;
    host
}

/// Number of stores in flight: the maximum that arrives over many possible cuts.
fn on_their_way(device: &BlockDevice) -> usize {
    let mut rng = Seed(5).stream("arriving");
    let cuts = (0..64).map(|_| device.arriving(&mut rng).len());
    cuts.max().unwrap_or(0)
}

#[test]
fn posted_lines_above_the_limit_force_their_arrival() {
    let work = |_, device: BlockDevice| async move {
        let mut waiting = Vec::new();
        for line in 0..6 {
            store(&device, line * 64, 1, 0).await.unwrap();
            waiting.push(on_their_way(&device));
        }
        // A store above the limit is posted as a whole.
        device
            .store(4_096, &[1; 5 * LINE], 0, Who::default())
            .await
            .unwrap();
        waiting.push(on_their_way(&device));
        waiting
    };
    let (waiting, ..) = on_drive(&config(true), posting(4), work);
    assert_eq!(waiting, [1, 2, 3, 4, 0, 1, 0]);
}

#[test]
fn line_in_flight_belongs_to_its_transaction() {
    let work = |_, device: BlockDevice| async move {
        store(&device, 4_096 + 64, 1, 8).await.unwrap();
        let by = 8;
        let (page, line) = (1, 1);
        let locked = Err(StoreError::Locked { page, line, by }.into());
        assert_eq!(store(&device, 4_096 + 64, 2, 9).await, locked);
        let wide = device.store(4_096, &[2; 3 * LINE], 0, Who::default());
        assert_eq!(wide.await, locked);
        store(&device, 4_096 + 64, 3, 8).await.unwrap();
        store(&device, 4_096 + 128, 3, 9).await.unwrap();
        device.verify().await.unwrap();
        assert_eq!(store(&device, 4_096 + 64, 2, 9).await, locked);
        device.commit(8).await.unwrap();
        store(&device, 4_096 + 64, 4, 9).await.unwrap();
        device.verify().await
    };
    let (verified, ..) = on_drive(&config(true), posting(64), work);
    assert_eq!(verified, Ok(()), "nothing was refused when it arrived");
}

#[test]
fn lines_in_flight_count_toward_the_limit_of_transaction_lines() {
    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        let most = device.transaction_lines();
        for line in 0..most {
            store(&device, line * 64, 1, 1 + line as u32 % 3)
                .await
                .unwrap();
        }
        let refused = store(&device, most * 64, 1, 2).await;
        let oversized = matches!(
            refused,
            Err(ByteError::Store(StoreError::Oversized { open, .. })) if u64::from(open) == most + 1
        );
        assert!(oversized, "{refused:?}");
        store(&device, most * 64, 1, 0).await.unwrap();
        device.verify().await
    };
    let (verified, ..) = on_drive(&config, posting(60_000), work);
    assert_eq!(verified, Ok(()));
}

/// Stores a line of `tx`, commits `tx`, and posts a second line that arrives behind the
/// commit and is rejected.
async fn store_late(sim: &Sim, device: &BlockDevice, at: u64, tx: u32) {
    store(device, at, 1, tx).await.unwrap();
    let other = device.clone();
    let committing = sim.spawn(async move { other.commit(tx).await });
    // The commit command is in flight to the drive.
    sim.sleep(Ns(1_000)).await;
    store(device, at + 64, 1, tx).await.unwrap();
    assert_eq!(committing.await, Ok(()));
}

#[test]
fn verify_reports_the_first_store_refused_on_arrival_until_recovery() {
    let work = |sim: Sim, device: BlockDevice| async move {
        let late = |tx| Err(StoreError::Committed(tx).into());
        store_late(&sim, &device, 0, 5).await;
        assert_eq!(device.verify().await, late(5));
        store(&device, 128, 1, 0).await.unwrap();
        assert_eq!(device.verify().await, late(5), "nobody knows whose it was");
        store_late(&sim, &device, 4_096, 6).await;
        assert_eq!(device.verify().await, late(5), "the first one is told");
        device.recover().await.unwrap();
        assert_eq!(device.verify().await, Ok(()));
        store_late(&sim, &device, 8_192, 7).await;
        assert_eq!(device.recover().await, Err(ByteError::Recovered));
        assert_eq!(device.verify().await, late(7), "it has not recovered again");
        let mut lines = [9; 3 * LINE];
        device.load(0, &mut lines, Who::default()).await.unwrap();
        [lines[0], lines[64], lines[128]]
    };
    let (lines, ..) = on_drive(&config(true), posting(64), work);
    assert_eq!(lines, [1, 0, 1]);
}

#[test]
fn stores_of_several_tasks_arrive_in_posting_order() {
    let config = config(true);
    let work = |sim: Sim, device: BlockDevice| async move {
        let task = |number: u8| {
            let device = device.clone();
            sim.spawn(async move {
                let (mut last, mut mine) = (0, 0);
                for round in 0..40_u8 {
                    // One line shared by all tasks, and one in the task's own transaction.
                    last = round.wrapping_mul(8) + number;
                    store(&device, 0, last, 0).await.unwrap();
                    let tx = u32::from(number) + 1;
                    let own = store(&device, 64 + 64 * u64::from(round % 2), last, tx).await;
                    mine += u32::from(own.is_ok());
                }
                (last, mine)
            })
        };
        let tasks: Vec<_> = (0..4).map(task).collect();
        let mut done = Vec::new();
        for task in tasks {
            done.push(task.await);
        }
        let mut now = [0; LINE];
        device.load(0, &mut now, Who::default()).await.unwrap();
        assert!(done.iter().any(|(last, _)| *last == now[0]), "the last one");
        // The first transaction to store to a line owns the line until its commit.
        let owners = done.iter().filter(|(_, mine)| *mine > 0).count();
        assert!((1..=2).contains(&owners), "{done:?}");
        device.verify().await
    };
    let (verified, ..) = on_drive(&config, posting(16), work);
    assert_eq!(verified, Ok(()));
}

#[test]
fn commit_waits_for_log_space_for_lines_in_flight() {
    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        // Nearly fills the log.
        let slots = 256 * KIB / 80;
        for line in 0..slots - 1_400 {
            store(&device, MIB + line * 64, 1, 0).await.unwrap();
        }
        device.verify().await.unwrap();
        for line in 0..1_300 {
            store(&device, line * 64, 7, 3).await.unwrap();
        }
        let before = device.drive().ledger().bytes;
        device.commit(3).await.unwrap();
        let after = device.drive().ledger().bytes;
        assert!(after.cleanings > before.cleanings, "room was made");
        device.verify().await
    };
    let (verified, device, _kernel) = on_drive(&config, posting(60_000), work);
    assert_eq!(verified, Ok(()));
    let seen = after_cuts(&device, &config, [0, 1_299 * 64]);
    assert_eq!(seen, [[7, 7]].into(), "all of it or nothing");
}

/// Cuts the power of `device` and attaches the drive again, with some stores in flight
/// arrived; without a recovery.
fn powered_on(device: &BlockDevice, config: &DriveConfig) -> (BlockDevice, Kernel) {
    let mut rng = Seed(4).stream("arriving");
    let (media, arrived) = (device.drive().at_power_cut(), device.arriving(&mut rng));
    let kernel = Kernel::new();
    let (sim, config) = (kernel.sim(), config.clone());
    let device = kernel.block_on(async move {
        let drive = Drive::power_on(&sim, &config, media, Seed(1));
        BlockDevice::after_cut(&sim, HostConfig::default(), drive.await.unwrap(), arrived)
    });
    (device.unwrap(), kernel)
}

/// A drive after a power cut and power-on, before recovery. It has a durable line to recover;
/// at the cut, stores of the number 2 to its first 16 lines were in flight.
fn cut_with_lines_on_their_way(config: &DriveConfig) -> (BlockDevice, Kernel) {
    let work = |_, device: BlockDevice| async move {
        store(&device, 8_192, 1, 0).await.unwrap();
        device.verify().await.unwrap();
        for line in 0..16 {
            store(&device, line * 64, 2, 0).await.unwrap();
        }
    };
    let (_, device, _kernel) = on_drive(config, posting(64), work);
    powered_on(&device, config)
}

#[test]
fn lines_that_arrived_at_a_cut_survive_the_next_cut() {
    for commits in [Bytes(KIB), Bytes(0)] {
        let mut config = config(true);
        config.front.as_mut().unwrap().log.commits = commits;
        let (back, kernel) = cut_with_lines_on_their_way(&config);
        let arrived = new_lines(&back, 16);
        assert!((1..16).contains(&arrived), "some of 16: {arrived}");
        assert_eq!(on_their_way(&back), 0, "the log has them");
        let (again, _kernel) = powered_on(&back, &config);
        assert_eq!(new_lines(&again, 16), arrived);
        let recovered = back.clone();
        kernel.block_on(async move {
            recovered.recover().await.unwrap();
            recovered.verify().await.unwrap();
        });
        assert_eq!(new_lines(&back, 16), arrived, "commits: {commits}");
        let (last, _kernel) = powered_on(&back, &config);
        assert_eq!(new_lines(&last, 16), arrived);
    }
}

/// Number of lines among the first `lines` of the drive that hold the number 2.
fn new_lines(device: &BlockDevice, lines: usize) -> usize {
    let page = device.drive().peek(0).map(|page| page[0].to_bytes());
    let page = page.unwrap_or([0; 4096]);
    let lines = page.chunks(LINE).take(lines);
    lines.filter(|line| line[0] == 2).count()
}

#[test]
fn block_write_before_recovery_is_newer_than_lines_that_arrived_at_the_cut() {
    let config = config(true);
    let (back, kernel) = cut_with_lines_on_their_way(&config);
    assert!(new_lines(&back, 16) > 0);
    let written = back.clone();
    kernel.block_on(async move {
        let fill = Content::Fill(u64::from_le_bytes([3; 8]));
        let block = Extent::new(0, 1);
        let block = written.write(block, fill, Placement(0), Who::default(), false);
        block.await.unwrap();
    });
    let (newest, kernel) = (new_lines(&back, 8), kernel);
    assert_eq!(newest, 0, "a sector is eight lines");
    let behind = new_lines(&back, 16);
    let (cut, _kernel) = powered_on(&back, &config);
    assert_eq!((new_lines(&cut, 8), new_lines(&cut, 16)), (0, behind));
    let recovered = back.clone();
    kernel.block_on(async move { recovered.recover().await.unwrap() });
    assert_eq!((new_lines(&back, 8), new_lines(&back, 16)), (0, behind));
}

#[test]
fn second_recovery_is_refused_and_changes_nothing() {
    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        for page in 0..20 {
            store(&device, page * 4_096, 2, 0).await.unwrap();
        }
        device.verify().await.unwrap();
    };
    let (_, device, _kernel) = on_drive(&config, posting(64), work);
    let (back, kernel) = powered_on(&device, &config);
    let sim = kernel.sim();
    kernel.block_on(async move {
        let first = back.clone();
        let first = sim.spawn(async move { first.recover_bytes().await });
        // The recovery command has arrived at the drive, which is writing pages.
        sim.sleep(Ns::us(20)).await;
        assert!(back.drive().log_state().unwrap().is_unrecovered);
        assert_eq!(back.recover().await, Err(ByteError::Recovered));
        assert!(
            back.drive().log_state().unwrap().is_unrecovered,
            "the first one goes on"
        );
        assert_eq!(store(&back, 0, 1, 0).await, Err(ByteError::Unrecovered));
        let report = first.await.unwrap();
        assert_eq!((report.pages, report.kept), (20, 20));
        store(&back, 0, 1, 0).await.unwrap();
        assert_eq!(back.verify().await, Ok(()));
    });
}

#[test]
fn invalid_byte_requests_return_specific_errors() {
    let config = config(true);
    let capacity = config.capacity.0;
    let work = move |_, device: BlockDevice| async move {
        let who = Who::default();
        let mut line = [0; LINE];
        let past = |error| matches!(error, Err(ByteError::Io(IoError::OutOfRange { .. })));
        assert!(past(device.load(capacity, &mut line, who).await));
        assert!(past(store(&device, capacity, 1, 0).await));
        assert!(past(store(&device, u64::MAX - 63, 1, 0).await));
        let two = device.load(capacity - 64, &mut [0; 2 * LINE], who).await;
        assert!(past(two));
        for (at, len) in [(1, LINE), (0, 63), (64, 0)] {
            let refused = Err(ByteError::Unaligned {
                at,
                len: len as u64,
            });
            assert_eq!(device.load(at, &mut line[..len], who).await, refused);
            assert_eq!(device.store(at, &line[..len], 1, who).await, refused);
        }
        let unknown = |tx| Err(CommitError::Unknown(tx).into());
        let committed = |tx| Err(CommitError::Committed(tx).into());
        for tx in [0, 1, u32::MAX] {
            assert_eq!(device.commit(tx).await, unknown(tx));
        }
        // The largest number is valid too. The host chooses the order of numbers; a number
        // that the log still holds is refused.
        for tx in [u32::MAX, 1] {
            store(&device, u64::from(tx % 7) * 64, 1, tx).await.unwrap();
            device.commit(tx).await.unwrap();
            assert_eq!(device.commit(tx).await, committed(tx));
            let again = Err(StoreError::Committed(tx).into());
            assert_eq!(store(&device, 640, 1, tx).await, again);
        }
        device.recover().await.unwrap();
        assert_eq!(device.recover().await, Err(ByteError::Recovered));
        device.verify().await
    };
    let (verified, ..) = on_drive(&config, HostConfig::default(), work);
    assert_eq!(verified, Ok(()), "nothing of it was taken");
}

#[test]
fn block_drive_and_unrecovered_drive_refuse_byte_access() {
    let mut blocks = config(true);
    blocks.front = None;
    let work = |_, device: BlockDevice| async move {
        let mut line = [0; LINE];
        let none = Err(ByteError::NoBytes);
        let load = device.load(0, &mut line, Who::default()).await;
        assert_eq!(load, none);
        assert_eq!(store(&device, 0, 1, 0).await, none);
        assert_eq!(device.commit(1).await, none);
        device.recover().await
    };
    let (recovered, ..) = on_drive(&blocks, HostConfig::default(), work);
    assert_eq!(recovered, Err(ByteError::NoBytes));

    let config = config(true);
    let work = |_, device: BlockDevice| async move {
        store(&device, 0, 1, 3).await.unwrap();
        device.commit(3).await.unwrap();
    };
    let (_, device, _kernel) = on_drive(&config, HostConfig::default(), work);
    let (back, kernel) = powered_on(&device, &config);
    kernel.block_on(async move {
        let refused = Err(ByteError::Unrecovered);
        assert_eq!(store(&back, 0, 2, 0).await, refused);
        assert_eq!(back.commit(3).await, refused);
        back.recover().await.unwrap();
        assert_eq!(
            back.commit(3).await,
            Err(CommitError::Unknown(3).into()),
            "its lines are on flash"
        );
        store(&back, 0, 2, 0).await.unwrap();
        assert_eq!(back.verify().await, Ok(()));
    });
}
