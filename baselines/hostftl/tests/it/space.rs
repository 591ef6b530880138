//! Little room: cleaning of nearly full drives, piles of deallocation records, and their counters.

use crate::support::{Ftl, Left, Rig, SECTORS, ftl_config, read, sectors, tiny, value};
use host::{BlockPort, Who};
use hostftl::{FtlConfig, FtlError, FtlStats};
use sim::{Kernel, Seed};
use ssd::{Content, DriveConfig, IoError, VictimPolicy};
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

/// A drive of 100 lines.
fn large() -> DriveConfig {
    let mut config = tiny();
    config.geometry.blocks_per_plane = 100;
    config
}

fn giving(config: &DriveConfig, sectors: u64) -> FtlConfig {
    FtlConfig {
        capacity: Bytes(sectors * 4096),
        ..ftl_config(config)
    }
}

/// Overwrites random sectors of a drive that exports `count`, each flushed if `forced`; returns the
/// counters.
fn overwrite(count: u64, victim: VictimPolicy, forced: bool) -> Result<FtlStats, FtlError> {
    let config = large();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let config = FtlConfig {
            victim,
            ..giving(&config, count)
        };
        let ftl = rig.mount(config).await?;
        let mut newest = vec![0; count as usize];
        let mut rng = Seed(4).stream("work");
        for turn in 1..=3 * count {
            let sector = if turn <= count {
                turn - 1
            } else {
                rng.below(count)
            };
            let written = write(&ftl, sector as u32, turn, forced && turn > count).await;
            assert_eq!(written, Ok(()), "turn {turn}: {:?}", ftl.stats());
            newest[sector as usize] = turn;
        }
        ftl.flush().await.expect("there is room");
        ftl.check();
        let held = read(&ftl, 0, count as u32).await.expect("it can be read");
        for (held, newest) in held.iter().zip(newest) {
            assert_eq!(value(held), Some(newest));
        }
        Ok(ftl.stats())
    })
}

/// 97 lines of 64 blocks may be closed. With 60 valid sectors in each, one sector more could leave
/// no line that gains a unit.
#[test]
fn fullest_drive_takes_writes_and_a_fuller_one_is_refused() {
    for victim in [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
    ] {
        let stats = overwrite(97 * 60, victim, false).expect("as much as it can hold");
        // Moved sectors share units with the next victim; only the last flush pads.
        assert!(stats.cleaned > 1_000 && stats.padding < 8, "{stats:?}");
        overwrite(97 * 60, victim, true).expect("as much as it can hold");
    }
    let refused = overwrite(97 * 60 + 1, VictimPolicy::Greedy, false).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("lines: 101 asked for, 100 of 100 free"),
        "{said}"
    );
}

/// A sector is written, deallocated and flushed again and again, among others that stay
/// deallocated: only the newest record of each sector counts.
#[test]
fn deallocation_records_do_not_pile_up() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    let (running, on) = (rig.clone(), config.clone());
    let ftl = kernel.block_on(async move {
        let ftl = running.mount(ftl_config(&on)).await.expect("a new drive");
        for sector in 0..700 {
            write(&ftl, sector, 1, false).await.expect("there is room");
        }
        for turn in 0..4_000_u32 {
            // Every other sector stays mapped, so each range has one sector.
            let sector = if turn % 2 == 0 { 9 } else { (turn % 700) | 1 };
            write(&ftl, sector, 2, false).await.expect("there is room");
            let trim = ftl.trim(sectors(sector, 1)).await;
            trim.expect("there is room");
            ftl.flush().await.expect("there is room");
            assert_eq!(ftl.refusals().met().len(), 0, "turn {turn}");
        }
        ftl.check();
        ftl
    });
    let stats = ftl.stats();
    // Cleaning merges records.
    assert!(stats.records < 4_000 + 4_000 / 4, "{stats:?}");
    drop(ftl);
    let left = rig.cut(&mut Seed(1).stream("none"));
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, left);
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("it mounts");
        let held = read(&ftl, 0, 700).await.expect("it can be read");
        for (sector, held) in (0..).zip(&held) {
            let expected = u64::from(sector % 2 == 0);
            assert_eq!(value(held), Some(expected), "sector {sector}");
        }
        ftl.check();
    });
}

/// With no background lines, cleaning starts once new data can take no line.
#[test]
fn mapping_without_background_cleans_when_needed() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let config = FtlConfig {
            background: 0,
            reserve: 1,
            ..ftl_config(&config)
        };
        let ftl = rig.mount(config).await.expect("a new drive");
        for turn in 0..6_000_u64 {
            let sector = (turn * 11 % 700) as u32;
            write(&ftl, sector, turn, false).await.expect("room");
        }
        assert!(ftl.stats().cleaned > 20, "{:?}", ftl.stats());
        ftl.check();
    });
}

/// The mapping follows the buffer and cleaning options of a drive file.
#[test]
fn mapping_takes_the_options_of_its_drive() {
    let mut config = tiny();
    assert_eq!(FtlConfig::of(&config), FtlConfig::new(config.capacity));
    config.controller.write_buffer = Bytes(5 * 4096);
    config.collection.victim = VictimPolicy::Fifo;
    (
        config.collection.reserve_lines,
        config.collection.background_lines,
    ) = (7, 9);
    let expected = FtlConfig {
        buffer: Bytes(5 * 4096),
        victim: VictimPolicy::Fifo,
        reserve: 7,
        background: 9,
        ..FtlConfig::new(config.capacity)
    };
    assert_eq!(FtlConfig::of(&config), expected);
}

/// Memory of deallocations is bounded: repeated ones that no flush waits for are written to flash
/// before too many are pending.
#[test]
fn pending_deallocations_are_bounded() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        for sector in 0..SECTORS {
            write(&ftl, sector, 1, false).await.expect("there is room");
        }
        ftl.flush().await.expect("there is room");
        let most = (1 << 16) / SECTORS;
        for _ in 0..most {
            ftl.trim(sectors(0, SECTORS)).await.expect("within");
        }
        assert_eq!(ftl.stats().records, 0, "they wait for company");
        ftl.trim(sectors(0, SECTORS)).await.expect("within");
        assert!(ftl.stats().records > 0, "there were too many");
        ftl.flush().await.expect("there is room");
        ftl.check();
        let held = read(&ftl, 5, 1).await.expect("it can be read");
        assert_eq!(value(&held[0]), Some(0));
    });
}
