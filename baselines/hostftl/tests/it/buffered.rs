//! The write buffer in persistent memory: forced writes survive any cut.

use crate::cuts::{cut_recovery, judge};
use crate::support::{
    Ftl, Left, Model, Rig, SECTORS, Shared, ftl_config, read, sectors, tiny, value, work,
};
use host::{BlockPort, Pm, PmConfig, Who};
use hostftl::FtlError;
use nand::Payload;
use sim::{Cut, Kernel, Rng, Seed};
use ssd::{Cause, Content, DriveConfig, IoError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Ns, Placement};

/// Slots of these tests, and the address of the slot heads in memory without a table.
const SLOTS: u64 = 24;
const HEADS: u64 = 4096 + 64;

async fn force(ftl: &Ftl, sector: u32, value: u64) -> Result<(), IoError> {
    let (at, content) = (sectors(sector, 1), Content::Fill(value));
    let write = ftl.write(at, content, Placement(0), Who::default(), true);
    write.await
}

/// Writes with force, or deallocates, a few sectors that are `index` modulo 3. Each write is
/// durable on return; a deallocation is not.
async fn press(ftl: Ftl, model: Shared, mut rng: Rng, index: u32, ops: u64) {
    for op in 1..=ops {
        let sector = rng.below(5) as u32 * 3 + index;
        if rng.below(8) == 0 {
            model.borrow_mut().begin(sector, 0);
            let trimmed = ftl.trim(sectors(sector, 1)).await;
            trimmed.expect("within");
            model.borrow_mut().acknowledge(sector);
            continue;
        }
        let value = u64::from(index + 1) << 32 | op;
        model.borrow_mut().begin(sector, value);
        force(&ftl, sector, value).await.expect("there is room");
        model.borrow_mut().acknowledge(sector);
        model.borrow_mut().promise_one(sector);
    }
}

/// States after a cut at `event`: all ways to lose unflushed lines if these are few, else three
/// random ones; with the model.
fn ways(config: &DriveConfig, first: &Left, event: u64) -> Option<(Vec<Left>, Shared)> {
    const MOST: usize = 16;
    let (kernel, model) = (Kernel::new(), Model::shared());
    let rig = Rig::on(&kernel, config, first.clone());
    let (running, shown, ftl) = (rig.clone(), model.clone(), ftl_config(config));
    let mut run = kernel.sim().spawn(async move {
        let ftl = running.mount(ftl).await.expect("a new drive");
        let workers = [0, 1, 2].map(|index| {
            let rng = Seed(8).child(index.into()).stream("press");
            let work = press(ftl.clone(), shown.clone(), rng, index, 8);
            running.sim.spawn(work)
        });
        for worker in workers {
            worker.await;
        }
    });
    let mut rng = Seed(event).stream("memory");
    let pm = rig.pm.clone().expect("it has some");
    let look = || {
        let some = (0..3).map(|_| rig.cut(&mut rng)).collect::<Vec<_>>();
        match pm.whole_lines_at_power_cut(MOST) {
            None => some,
            Some(all) => all
                .into_iter()
                .map(|memory| Left {
                    memory: Some(memory),
                    ..some[0].clone()
                })
                .collect(),
        }
    };
    match kernel.run_to_cut(event, look) {
        Cut::Off(ways) => Some((ways, model)),
        Cut::AtRest => {
            assert!(run.take().is_some(), "somebody waits for ever");
            None
        }
    }
}

/// At events throughout a run, loses unflushed lines of memory.
#[test]
fn forced_writes_survive_any_loss_of_lines() {
    let config = tiny();
    for kept in [false, true] {
        let (mut all, mut in_part) = (0, 0);
        let first = Left::buffered(&config, kept);
        for event in (u64::from(kept)..).step_by(9) {
            let Some((ways, model)) = ways(&config, &first, event) else {
                break;
            };
            in_part += u64::from(ways.len() > 1);
            for (way, mut left) in ways.into_iter().enumerate() {
                let cut = (event + way as u64) % 23;
                if let Some(half) = cut_recovery(&config, left.clone(), cut).filter(|_| cut < 9) {
                    left = half;
                }
                let model = Rc::new(RefCell::new(model.borrow().clone()));
                judge(&config, left, &model, &format!("event {event}, way {way}"));
                all += 1;
            }
        }
        assert!(all > 50 && in_part > 5, "{all} ways, {in_part} events");
    }
}

/// A drive cut while busy, with slots in use, and its model.
fn busy(config: &DriveConfig, kept: bool) -> (Left, Shared) {
    let (kernel, model) = (Kernel::new(), Model::shared());
    let rig = Rig::on(&kernel, config, Left::buffered(config, kept));
    let (running, shown, ftl) = (rig.clone(), model.clone(), ftl_config(config));
    let ftl = kernel.block_on(async move {
        let ftl = running.mount(ftl).await.expect("a new drive");
        for sector in 0..40 {
            shown.borrow_mut().begin(sector, u64::from(sector) + 7);
            force(&ftl, sector, u64::from(sector) + 7)
                .await
                .expect("room");
            shown.borrow_mut().acknowledge(sector);
            shown.borrow_mut().promise_one(sector);
        }
        ftl
    });
    ftl.check();
    assert!(ftl.is_holding());
    (rig.cut(&mut Seed(1).stream("none")), model)
}

#[test]
fn forced_sector_takes_no_unit_and_survives_in_the_buffer() {
    let config = tiny();
    for kept in [false, true] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::buffered(&config, kept));
        let (on, ftl) = (rig.clone(), ftl_config(&config));
        kernel.block_on(async move {
            let ftl = on.mount(ftl).await.expect("a new drive");
            for turn in 0..9 {
                force(&ftl, turn % 3, u64::from(turn) + 1)
                    .await
                    .expect("there is room");
            }
            assert_eq!(on.drive.ledger().by_cause(Cause::Host), 0);
            for sector in 3..6 {
                force(&ftl, sector, 50).await.expect("there is room");
            }
            on.sim.sleep(Ns::ms(10)).await;
            // A unit has four sectors.
            let (stats, ledger) = (ftl.stats(), on.drive.ledger());
            assert_eq!((stats.written, stats.data, stats.padding), (12, 4, 0));
            assert_eq!(ledger.by_cause(Cause::Padding), 0);
            ftl.check();
        });
        let left = rig.cut(&mut Seed(1).stream("none"));
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let ftl = ftl_config(&config);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl).await.expect("what was left");
            assert_eq!(ftl.stats().replayed, 2);
            let held = read(&ftl, 0, 7).await.expect("it can be read");
            let held: Vec<_> = held.iter().map(value).collect();
            assert_eq!(held, [7, 8, 9, 50, 50, 50, 0].map(Some));
            ftl.check();
        });
    }
}

/// A store takes the time of its cache lines: contents, head and tag, and one tag more when an
/// older slot is freed.
#[test]
fn store_takes_the_time_of_its_cache_lines() {
    let config = tiny();
    let kernel = Kernel::new();
    let left = Left::buffered(&config, false);
    let memory = left.memory.clone().expect("it has some");
    let rig = Rig {
        pm: Some(Pm::new(
            &kernel.sim(),
            PmConfig::default().optane(),
            memory,
            None,
        )),
        ..Rig::on(&kernel, &config, left)
    };
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        for (sector, lines) in [(1, 66), (2, 66), (1, 67)] {
            let begun = rig.sim.now().0;
            force(&ftl, sector, 1).await.expect("there is room");
            assert_eq!(rig.sim.now().0 - begun, 100 * lines, "sector {sector}");
        }
        let begun = rig.sim.now().0;
        read(&ftl, 0, 3).await.expect("it can be read");
        assert_eq!(rig.sim.now().0 - begun, 2 * 64 * 300);
    });
}

#[test]
fn write_waits_for_a_full_buffer() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::buffered(&config, true));
    let waited = Rc::new(Cell::new(false));
    let told = Rc::clone(&waited);
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let writers: Vec<_> = (0..60)
            .map(|sector| {
                let ftl = ftl.clone();
                rig.sim.spawn(async move { force(&ftl, sector, 9).await })
            })
            .collect();
        rig.sim.sleep(Ns(1_000)).await;
        told.set(ftl.is_full());
        for writer in writers {
            writer.await.expect("there is room after a while");
        }
        assert!(!ftl.is_full());
        assert!(ftl.stats().waits >= 60 - SLOTS, "{:?}", ftl.stats());
        ftl.check();
    });
    assert!(waited.get());
}

/// A deallocated version keeps its slot until its record is on flash, and the record waits to be
/// written.
#[test]
fn waiting_write_gets_the_slot_of_a_deallocated_version() {
    let config = tiny();
    for kept in [false, true] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::buffered(&config, kept));
        let ftl = ftl_config(&config);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl).await.expect("a new drive");
            // Three sectors are less than a unit.
            for first in (0..SLOTS as u32 + 3).step_by(3) {
                let all = (first..first + 3).map(|sector| (sector, Payload::Fill(9)));
                let all: Vec<_> = all.collect();
                let written = ftl.write_sectors(&all, Who::default()).await;
                written.expect("there is room");
                let trimmed = ftl.trim(sectors(first, 3)).await;
                trimmed.expect("within");
            }
            assert!(ftl.stats().waits > 0, "{:?}", ftl.stats());
            // The last record is still unwritten.
            let last = [SLOTS as u32, SLOTS as u32 + 1];
            ftl.pin(&last).await.expect("it can be written");
            assert_eq!(last.map(|sector| ftl.place(sector)), [None, None]);
            ftl.unpin(&last);
            ftl.check();
        });
    }
}

/// The sectors of a full buffer are deallocated before the first unit is written, while a write
/// waits for room.
#[test]
fn deallocation_wakes_a_write_that_waits_for_room() {
    let config = tiny();
    for first in [Left::new(&config, false), Left::buffered(&config, true)] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, first);
        let ftl = ftl_config(&config);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl).await.expect("a new drive");
            let write = |sector: u32| {
                let ftl = ftl.clone();
                let all = [(sector, Payload::Fill(9))];
                let write = async move { ftl.write_sectors(&all, Who::default()).await };
                rig.sim.spawn(write)
            };
            let writers: Vec<_> = (0..=SLOTS as u32).map(write).collect();
            let on = ftl.clone();
            let trim = async move { on.trim(sectors(0, SLOTS as u32)).await };
            rig.sim.spawn(trim).await.expect("within");
            for writer in writers {
                writer.await.expect("there is room after a while");
            }
            ftl.check();
        });
    }
}

/// Random requests with cleaning: contents are the same with and without the persistent buffer.
#[test]
fn contents_are_the_same_without_the_persistent_buffer() {
    let run = |first: Left, seed: u64| {
        let config = tiny();
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, first);
        let (on, ftl) = (rig.clone(), ftl_config(&config));
        kernel.block_on(async move {
            let ftl = on.mount(ftl).await.expect("a new drive");
            let rng = Seed(seed).stream("work");
            work(ftl.clone(), Model::shared(), rng, (0, 1), 3_000).await;
            ftl.flush().await.expect("there is room");
            ftl.check();
            assert!(ftl.stats().cleaned > 0, "{:?}", ftl.stats());
        });
        let left = rig.cut(&mut Seed(1).stream("none"));
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&config)).await.expect("what was left");
            let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
            held.iter()
                .map(|payload| value(payload).expect("a number"))
                .collect::<Vec<_>>()
        })
    };
    let config = tiny();
    for seed in 0..4 {
        let without = run(Left::new(&config, false), seed);
        assert!(without.iter().any(|&value| value > 0));
        for kept in [false, true] {
            assert_eq!(
                run(Left::buffered(&config, kept), seed),
                without,
                "seed {seed}"
            );
        }
    }
}

/// Whether the mount is refused; asserts the guarantees if it is not.
fn is_refused(config: &DriveConfig, left: Left, model: &Shared, what: &str) -> bool {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left.clone());
    let ftl = ftl_config(config);
    let mounted = kernel.block_on(async move { rig.mount(ftl).await.map(drop) });
    match mounted {
        Ok(()) => {
            let model = Rc::new(RefCell::new(model.borrow().clone()));
            judge(config, left, &model, what);
            false
        }
        Err(FtlError::Buffer(_)) => true,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn lost_line_or_bit_is_detected_or_was_unused() {
    let config = tiny();
    let (good, model) = busy(&config, false);
    let memory = good.memory.clone().expect("it has some");
    let (mut refused, mut sound) = (0, 0);
    let mut tally = |memory, what: String| {
        let left = Left {
            memory: Some(memory),
            ..good.clone()
        };
        match is_refused(&config, left, &model, &what) {
            true => refused += 1,
            false => sound += 1,
        }
    };
    for at in (4096..memory.bytes()).step_by(64) {
        let mut lost = memory.clone();
        lost.write(at, &[0; 64]);
        if lost != memory {
            tally(lost, format!("line {at}"));
        }
    }
    // Head of the region, and heads of some slots.
    let heads = (0..4).map(|slot| HEADS + 64 * slot);
    for bit in [HEADS - 64]
        .into_iter()
        .chain(heads)
        .flat_map(|at| at * 8..at * 8 + 24 * 8)
    {
        let (mut flipped, mut byte) = (memory.clone(), [0]);
        flipped.read(bit / 8, &mut byte);
        flipped.write(bit / 8, &[byte[0] ^ 1 << (bit % 8)]);
        tally(flipped, format!("bit {bit}"));
    }
    assert!(refused > 1_500, "{refused} {sound}");
}

#[test]
fn forged_buffers_are_refused_or_mount_soundly() {
    let config = tiny();
    let (good, _) = busy(&config, false);
    bolero::check!()
        .with_type::<(bool, Vec<(u8, u8, u32, u16, Vec<(u16, u8)>)>)>()
        .with_iterations(300)
        .for_each(|(sealed, slots)| {
            let mut left = good.clone();
            let memory = left.memory.as_mut().expect("it has some");
            for (slot, sector, number, high, edits) in slots {
                let slot = u64::from(*slot) % SLOTS;
                let number = u64::from(*number) | u64::from(*high) << 48;
                let contents = HEADS + SLOTS * 64 + slot * 4096;
                let mut bytes = [0; 4096];
                memory.read(contents, &mut bytes);
                edits
                    .iter()
                    .for_each(|&(at, byte)| bytes[usize::from(at) % 4096] = byte);
                memory.write(contents, &bytes);
                if *sealed {
                    put(memory, slot, u32::from(*sector) * 4, number, &bytes);
                }
            }
            let kernel = Kernel::new();
            let rig = Rig::on(&kernel, &config, left);
            kernel.block_on(async move {
                match rig.mount(ftl_config(&tiny())).await {
                    Ok(ftl) => {
                        ftl.check();
                        read(&ftl, 0, SECTORS).await.expect("it can be read");
                        force(&ftl, 3, 5).await.expect("there is room");
                        ftl.check();
                    }
                    Err(FtlError::Buffer(_) | FtlError::Numbers) => {}
                    Err(other) => panic!("{other}"),
                }
            });
        });
}

/// Writes the head of a slot with valid checksums; `sector` is the sector plus one, 0 for a free
/// slot.
fn put(memory: &mut host::PmMedia, slot: u64, sector: u32, number: u64, bytes: &[u8]) {
    let index = (slot as u32).to_le_bytes();
    let tag = crc32c::crc32c_append(crc32c::crc32c(&index), &sector.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&index), &number.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, bytes);
    let words = [u64::from(sector) | u64::from(tag) << 32, number, sum.into()];
    let words = words.map(u64::to_le_bytes);
    memory.write(HEADS + slot * 64, words.as_flattened());
}

#[test]
fn foreign_or_too_small_buffer_is_refused() {
    let config = tiny();
    let (left, _) = busy(&config, false);
    let refused = |config: &DriveConfig, buffer: u64| {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, config, left.clone());
        let ftl = hostftl::FtlConfig {
            buffer: Bytes(buffer * 4096),
            ..ftl_config(config)
        };
        let mounted = kernel.block_on(async move { rig.mount(ftl).await.map(drop) });
        let error = mounted.expect_err("it is of another one");
        assert!(matches!(error, FtlError::Buffer(_)), "{error}");
        error.to_string()
    };
    assert!(refused(&config, 23).contains("of another mapping"));
    assert!(refused(&config, 25).contains("25 slots need"));
    let mut smaller = config.clone();
    smaller.capacity = Bytes(600 * 4096);
    assert!(refused(&smaller, SLOTS).contains("of another mapping"));
}

/// A unit of four sectors is in flight when two of them are pinned, and their versions change
/// owners before its program ends.
#[test]
fn sectors_in_flight_are_pinned_and_exchanged_before_their_program_ends() {
    let config = tiny();
    for cut in [false, true] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::buffered(&config, true));
        let (on, ftl) = (rig.clone(), ftl_config(&config));
        kernel.block_on(async move {
            let ftl = on.mount(ftl).await.expect("a new drive");
            // Sector 5 has an older version on flash; sector 6 has one in flight beside that of 20.
            for sector in [5, 1, 2, 3] {
                force(&ftl, sector, 40).await.expect("there is room");
            }
            on.sim.sleep(Ns::ms(10)).await;
            for sector in [6, 20, 21, 22] {
                let value = u64::from(sector);
                force(&ftl, sector, value).await.expect("there is room");
            }
            on.sim.sleep(Ns(1_000)).await;
            let (begun, data) = (on.sim.now(), ftl.stats().data);
            ftl.pin(&[5, 6, 20, 21]).await.expect("it can be written");
            assert_eq!(on.sim.now(), begun, "nothing is waited for");
            let [first, second] = [20, 21].map(|spare| ftl.place(spare));
            ftl.remap(&[(5, first), (6, second), (20, None), (21, None)])
                .await;
            assert_eq!(ftl.stats().data, data, "the unit is in flight still");
            ftl.check();
            // The unit's program ends, but its entries wait for the unpin.
            on.sim.sleep(Ns::ms(10)).await;
            assert_eq!([5, 6].map(|sector| ftl.place(sector)), [first, second]);
            ftl.unpin(&[5, 6, 20, 21]);
            if !cut {
                on.sim.sleep(Ns::ms(10)).await;
                let stats = ftl.stats();
                assert_eq!((stats.data, stats.written), (data + 4, 8));
            }
            ftl.check();
        });
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, rig.cut(&mut Seed(1).stream("none")));
        let ftl = ftl_config(&config);
        kernel.block_on(async move {
            let ftl = rig.mount(ftl).await.expect("what was left");
            assert_eq!(ftl.stats().replayed, if cut { 3 } else { 0 });
            for (sector, wanted) in [(5, 20), (6, 21), (20, 0), (21, 0), (22, 22), (1, 40)] {
                let held = read(&ftl, sector, 1).await.expect("it can be read");
                assert_eq!(value(&held[0]), Some(wanted), "sector {sector}");
            }
            ftl.check();
        });
    }
}
