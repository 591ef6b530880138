//! Mounts of drives with unreadable blocks, and with blocks that another writer wrote.

use crate::support::{Ftl, Left, Rig, SECTORS, ftl_config, read, sectors, tiny, value};
use host::{BlockPort, Pm, PmConfig, RawMark, RawPort, Who};
use hostftl::{FtlConfig, FtlError};
use sim::{Kernel, Rng, Seed};
use ssd::{Cause, Content, DriveConfig, IoError, Meta, VictimPolicy};
use std::sync::Arc;
use units::{Bytes, Placement};

async fn write(ftl: &Ftl, sector: u32, value: u64, fua: bool) -> Result<(), IoError> {
    let content = Content::Fill(value);
    ftl.write(
        sectors(sector, 1),
        content,
        Placement(0),
        Who::default(),
        fua,
    )
    .await
}

/// Drive after `run` on an empty one.
fn after(config: &DriveConfig, run: impl AsyncFnOnce(Rig) + 'static) -> Left {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, Left::new(config, false));
    let running = rig.clone();
    kernel.block_on(async move { run(running).await });
    rig.cut(&mut Seed(1).stream("none"))
}

/// Values of sectors 7 and 8.
async fn both(ftl: &Ftl) -> [u64; 2] {
    let held = read(ftl, 7, 2).await.expect("it can be read");
    [value(&held[0]), value(&held[1])].map(|held| held.expect("a number"))
}

/// The newest version of a sector is on a block that one mount cannot read. The block is counted
/// and never erased, later writes are newer, and the next mount finds the block again.
#[test]
fn unreadable_block_at_recovery_is_counted_and_kept() {
    let config = tiny();
    let on = config.clone();
    let left = after(&config, async move |rig| {
        let ftl = rig.mount(ftl_config(&on)).await.expect("a new drive");
        for (sector, value) in [(7, 1), (8, 1), (7, 2), (8, 2)] {
            write(&ftl, sector, value, true).await.expect("room");
        }
    });
    let (on, again) = (config.clone(), left.clone());
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    let running = rig.clone();
    kernel.block_on(async move {
        let rig = running;
        let port = rig.port();
        // Make the newest versions of both sectors unreadable.
        for at in port.written().await {
            let block = port.peek(at).expect("it is written");
            if value(&block.payload) == Some(2) {
                port.unreadable.borrow_mut().insert(at);
            }
        }
        let ftl = rig
            .mount_on(port.clone(), ftl_config(&on))
            .await
            .expect("it mounts");
        ftl.check();
        let stats = ftl.stats();
        assert_eq!((stats.unreadable, stats.foreign), (2, 0), "{stats:?}");
        assert_eq!(both(&ftl).await, [1, 1]);
        // Cleaning never erases that line, whatever is written.
        for turn in 0..8_000_u64 {
            let sector = 9 + (turn * 7 % 300) as u32;
            write(&ftl, sector, turn, false).await.expect("room");
        }
        write(&ftl, 8, 3, true).await.expect("room");
        ftl.flush().await.expect("room");
        assert!(ftl.stats().cleaned > 20, "{:?}", ftl.stats());
        for &at in port.unreadable.borrow().iter() {
            let block = port.peek(at).expect("it is still there");
            assert_eq!(value(&block.payload), Some(2));
        }
        ftl.check();
    });
    let left = rig.cut(&mut Seed(1).stream("none"));
    for (left, expected) in [(left, [2, 3]), (again, [2, 2])] {
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let config = config.clone();
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&config)).await.expect("it mounts");
            assert_eq!(ftl.stats().unreadable, 0);
            assert_eq!(both(&ftl).await, expected);
        });
    }
}

/// Metadata of a block, with a valid checksum.
fn beside(kind: u8, number: u64, address: u32) -> Meta {
    let mut meta = [0; 16];
    meta[..8].copy_from_slice(&(number << 8 | u64::from(kind)).to_le_bytes());
    meta[8..12].copy_from_slice(&address.to_le_bytes());
    let sum = crc32c::crc32c(&meta[..12]);
    meta[12..].copy_from_slice(&sum.to_le_bytes());
    meta
}

/// A random record of deallocations, with a valid checksum.
fn record(rng: &mut Rng) -> nand::Payload {
    let mut bytes = [0; 4096];
    let count = rng.below(257) as u32;
    for range in bytes[16..].chunks_exact_mut(16) {
        range[..8].copy_from_slice(&hostile(rng, 3_000).to_le_bytes());
        range[8..12].copy_from_slice(&(hostile(rng, 900) as u32).to_le_bytes());
        range[12..].copy_from_slice(&(hostile(rng, 9) as u32).to_le_bytes());
    }
    bytes[..4].copy_from_slice(&count.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[16..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    nand::Payload::Bytes(Arc::new(bytes))
}

/// A random number, mostly below `bound`, else near the end of its range.
fn hostile(rng: &mut Rng, bound: u64) -> u64 {
    match rng.below(8) {
        0 => u64::MAX - rng.below(3),
        1 => (1 << 53) - rng.below(3),
        _ => rng.below(bound),
    }
}

/// A drive full of blocks with valid checksums and random numbers, sectors and ranges: it mounts,
/// takes writes, is cleaned, and keeps the writes.
#[test]
fn hostile_metadata_never_prevent_use() {
    let config = tiny();
    for turn in 0..20 {
        let left = after(&config, async move |rig| {
            let (port, mut rng) = (rig.port(), Seed(3).child(turn).stream("hostile"));
            let geometry = port.geometry();
            for chunk in 0..geometry.all_chunks() / 2 {
                for block in (0..geometry.blocks).step_by(4) {
                    let first = chunk * geometry.blocks + block;
                    let at = (first..first + 4).map(|n| geometry.ppa(geometry.nth(n)));
                    let meta = [0; 4].map(|_: i32| {
                        let kind = 1 + rng.below(4) as u8;
                        beside(
                            kind,
                            hostile(&mut rng, 5_000),
                            hostile(&mut rng, 900) as u32,
                        )
                    });
                    let payload: [_; 4] = std::array::from_fn(|_| record(&mut rng));
                    let mark = RawMark {
                        cause: Cause::Host,
                        who: Who::default(),
                    };
                    let at: Vec<_> = at.collect();
                    let written = port.write(&at, &payload, &meta, &[mark; 4]).await;
                    written.expect("it is in order");
                }
            }
        });
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let (running, on) = (rig.clone(), config.clone());
        let drop_it = kernel.block_on(async move {
            let ftl = running.mount(ftl_config(&on)).await.expect("it mounts");
            ftl.check();
            assert!(ftl.stats().foreign > 100, "{:?}", ftl.stats());
            for turn in 0..4_000_u64 {
                let sector = (turn * 11 % u64::from(SECTORS)) as u32;
                write(&ftl, sector, turn, false).await.expect("room");
            }
            ftl.flush().await.expect("room");
            ftl.check();
            ftl
        });
        drop(drop_it);
        let left = rig.cut(&mut Seed(1).stream("none"));
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        let on = config.clone();
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&on)).await.expect("it mounts");
            let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
            for turn in 4_000 - u64::from(SECTORS)..4_000 {
                let sector = (turn * 11 % u64::from(SECTORS)) as usize;
                assert_eq!(value(&held[sector]), Some(turn), "sector {sector}");
            }
        });
    }
}

/// A mount refuses version numbers that leave none to follow.
#[test]
fn last_version_number_is_refused() {
    let config = tiny();
    let left = after(&config, async move |rig| {
        let port = rig.port();
        let geometry = port.geometry();
        let at = [0, 1, 2, 3].map(|n| geometry.ppa(geometry.nth(n)));
        let mark = RawMark {
            cause: Cause::Host,
            who: Who::default(),
        };
        let meta = [beside(1, (1 << 55) - 1, 5); 4];
        let written = port.write(&at, &[], &meta, &[mark; 4]).await;
        written.expect("it is in order");
    });
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let refused = rig.mount(ftl_config(&config)).await.map(drop);
        assert_eq!(refused, Err(FtlError::Numbers));
    });
}

/// Records of sectors beyond a smaller table are cleaned like any other.
#[test]
fn smaller_table_ignores_sectors_beyond_it() {
    let config = tiny();
    let on = config.clone();
    let left = after(&config, async move |rig| {
        let ftl = rig.mount(ftl_config(&on)).await.expect("a new drive");
        for sector in 0..SECTORS {
            write(&ftl, sector, 1, false).await.expect("room");
        }
        ftl.trim(sectors(300, 350)).await.expect("within");
        ftl.flush().await.expect("room");
    });
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let smaller = FtlConfig {
            capacity: Bytes(400 * 4096),
            ..ftl_config(&config)
        };
        let ftl = rig.mount(smaller).await.expect("it mounts");
        // Sectors from 400 on, and the record that reaches beyond them.
        assert_eq!(ftl.stats().foreign, 300 + 1);
        let held = read(&ftl, 290, 110).await.expect("it can be read");
        let ones = held.iter().filter(|one| value(one) == Some(1));
        assert_eq!(ones.count(), 10);
        for turn in 0..6_000_u64 {
            let sector = (turn * 7 % 290) as u32;
            write(&ftl, sector, turn, false).await.expect("room");
        }
        assert!(ftl.stats().cleaned > 20);
        ftl.check();
    });
}

/// Fills lines of a raw drive, with `valid` sectors in each and padding behind.
async fn fill_lines(rig: &Rig, lines: u32, valid: impl Fn(u32) -> u32) {
    let port = rig.port();
    let (geometry, mut sector) = (port.geometry(), 0);
    for line in 0..lines {
        let mut left = valid(line);
        for chunk in (0..geometry.all_units()).map(|unit| unit * geometry.chunks + line) {
            for block in (0..geometry.blocks).step_by(4) {
                let first = chunk * geometry.blocks + block;
                let at = [0, 1, 2, 3].map(|n| geometry.ppa(geometry.nth(first + n)));
                let meta = [0; 4].map(|_: i32| match left {
                    0 => beside(3, 0, 0),
                    _ => {
                        (left, sector) = (left - 1, sector + 1);
                        beside(1, u64::from(sector), sector - 1)
                    }
                });
                let mark = RawMark {
                    cause: Cause::Host,
                    who: Who::default(),
                };
                let payload = [0; 4].map(|_: i32| nand::Payload::Fill(u64::from(line)));
                let written = port.write(&at, &payload, &meta, &[mark; 4]).await;
                written.expect("it is in order");
            }
        }
    }
}

/// No line is free or has room, and each has valid sectors.
#[test]
fn drive_without_room_is_readable_and_refuses_writes() {
    let config = tiny();
    let left = after(&config, async |rig| fill_lines(&rig, 26, |_| 20).await);
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("it mounts");
        assert_eq!(ftl.free_lines(), 0);
        assert_eq!(write(&ftl, 5, 1, true).await, Err(IoError::ReadOnly));
        let why = ftl.refusals();
        let why = why
            .met()
            .first()
            .expect("a limit was met")
            .first
            .to_string();
        assert!(why.starts_with("lines: 1 asked for"), "{why}");
        let held = read(&ftl, 500, 1).await.expect("it is read on");
        assert_eq!(value(&held[0]), Some(25));
    });
}

/// An empty line is freed whatever the policy, and then all others one by one.
#[test]
fn one_empty_line_suffices_for_writes() {
    for victim in [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
    ] {
        let config = tiny();
        let valid = |line| if line == 17 { 0 } else { 28 };
        let left = after(&config, async move |rig| fill_lines(&rig, 26, valid).await);
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, left);
        kernel.block_on(async move {
            let config = FtlConfig {
                victim,
                ..ftl_config(&config)
            };
            let ftl = rig.mount(config).await.expect("it mounts");
            assert_eq!(ftl.free_lines(), 0);
            for turn in 0..2_000_u64 {
                let sector = (turn * 11 % u64::from(SECTORS)) as u32;
                write(&ftl, sector, turn, true)
                    .await
                    .expect("there is room");
            }
            ftl.check();
        });
    }
}

/// Lines that were worn before the mount are taken last.
#[test]
fn least_worn_lines_are_taken_first() {
    let mut config = tiny();
    config.flash.endurance = Some(255);
    let left = after(&config, async |rig| {
        let port = rig.port();
        let geometry = port.geometry();
        let mark = RawMark {
            cause: Cause::Host,
            who: Who::default(),
        };
        let chunks = geometry.chunks;
        for chunk in (0..13).chain(chunks..chunks + 13) {
            let first = chunk * geometry.blocks;
            let at: Vec<_> = (first..first + geometry.blocks)
                .map(|n| geometry.ppa(geometry.nth(n)))
                .collect();
            let (meta, marks) = (vec![beside(3, 0, 0); at.len()], vec![mark; at.len()]);
            for _ in 0..5 {
                port.write(&at, &[], &meta, &marks)
                    .await
                    .expect("it is free");
                port.reset(&at[..1]).await.expect("it is closed");
            }
        }
    });
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("it mounts");
        // Twelve and a half lines.
        for turn in 0..200_u64 {
            write(&ftl, (turn % 50) as u32, turn, true)
                .await
                .expect("room");
        }
        let worn = ftl.port().written().await.into_iter();
        let worn = worn.filter(|&at| ftl.port().chunk(at) < 13);
        assert_eq!(worn.count(), 0);
        ftl.check();
    });
}

/// A read takes the time of loading its table entries, by cache line.
#[test]
fn read_takes_the_time_of_its_entries() {
    let span = |times: PmConfig, count: u32| {
        let config = tiny();
        let kernel = Kernel::new();
        let left = Left::new(&config, true);
        let memory = left.memory.clone().expect("it has some");
        let rig = Rig {
            pm: Some(Pm::new(&kernel.sim(), times, memory, None)),
            ..Rig::on(&kernel, &config, left)
        };
        kernel.block_on(async move {
            let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
            for sector in 0..40 {
                let written = write(&ftl, sector, 1, false).await;
                written.expect("there is room");
            }
            ftl.flush().await.expect("there is room");
            let begun = rig.sim.now();
            read(&ftl, 0, count).await.expect("it can be read");
            rig.sim.now().0 - begun.0
        })
    };
    let (none, some) = (PmConfig::default(), PmConfig::default().optane());
    for (count, lines) in [(1, 1), (16, 1), (17, 2), (40, 3)] {
        assert_eq!(span(some, count), span(none, count) + 300 * lines);
    }
}
