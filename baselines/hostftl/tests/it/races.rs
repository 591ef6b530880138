//! Races of requests and cleaning at one sector.

use crate::support::{Ftl, Left, Rig, SECTORS, ftl_config, read, sectors, tiny, value};
use host::{BlockPort, Who};
use sim::{Kernel, Seed};
use ssd::{Content, IoError};
use std::cell::Cell;
use std::rc::Rc;
use units::{Extent, Ns, Placement};

async fn write(ftl: &Ftl, at: Extent, value: u64, fua: bool) -> Result<(), IoError> {
    let content = Content::Fill(value);
    ftl.write(at, content, Placement(0), Who::default(), fua)
        .await
}

/// Bytes of sector 5 after `other` ran during a write of a part of the sector.
fn with_a_part_of(other: impl AsyncFnOnce(Ftl) + 'static) -> Vec<u8> {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let old = u64::from_ne_bytes([1; 8]);
        write(&ftl, sectors(5, 1), old, true).await.expect("room");
        let writer = ftl.clone();
        let part = u64::from_ne_bytes([7; 8]);
        let part = rig
            .sim
            .spawn(async move { write(&writer, Extent::new(41, 1), part, false).await });
        // By now the partial write reads the rest of the sector.
        rig.sim.sleep(Ns(1_000)).await;
        other(ftl.clone()).await;
        part.await.expect("there is room");
        let mut bytes = vec![0; 4096];
        let sink = &mut bytes.as_mut_slice();
        ftl.read(sectors(5, 1), sink, Who::default())
            .await
            .expect("it is there");
        ftl.check();
        bytes
    })
}

#[test]
fn partial_write_keeps_a_concurrent_overwrite() {
    let bytes = with_a_part_of(async |ftl| {
        let new = u64::from_ne_bytes([2; 8]);
        write(&ftl, sectors(5, 1), new, false).await.expect("room");
    });
    assert!(!bytes.contains(&1), "the older version is back");
}

#[test]
fn partial_write_keeps_a_concurrent_deallocation() {
    let bytes = with_a_part_of(async |ftl| {
        ftl.trim(sectors(5, 1)).await.expect("within");
    });
    assert!(!bytes.contains(&1), "the older version is back");
}

/// A dropped request releases its sector.
#[test]
fn dropped_partial_write_releases_its_sector() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        write(&ftl, sectors(5, 1), 1, true).await.expect("room");
        let part = write(&ftl, Extent::new(41, 1), 7, false);
        assert!(sim::timeout(&rig.sim, Ns(1_000), part).await.is_err());
        write(&ftl, sectors(5, 1), 2, false).await.expect("room");
        let held = read(&ftl, 5, 1).await.expect("it is there");
        assert_eq!(value(&held[0]), Some(2));
    });
}

#[test]
fn deallocation_of_a_pinned_sector_waits_for_the_unpin() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        write(&ftl, sectors(0, 12), 1, true).await.expect("room");
        ftl.pin(&[5, 9]).await.expect("it is at rest");
        let (trimming, ended) = (ftl.clone(), Rc::new(Cell::new(false)));
        let done = ended.clone();
        let trim = rig.sim.spawn(async move {
            trimming.trim(sectors(2, 9)).await.expect("within");
            done.set(true);
        });
        rig.sim.sleep(Ns(100_000)).await;
        ftl.flush().await.expect("there is room");
        let held = read(&ftl, 0, 12).await.expect("they are there");
        let held: Vec<_> = held.iter().map(value).collect();
        assert_eq!(held[5..=9], [Some(1); 5]);
        assert!(!ended.get() && ftl.place(5).is_some());
        ftl.unpin(&[5, 9]);
        trim.await;
        let held = read(&ftl, 0, 12).await.expect("they are there");
        let ones = held.iter().map(|one| u64::from(value(one) == Some(1)));
        assert_eq!(
            ones.collect::<Vec<_>>(),
            [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        );
        ftl.check();
    });
}

/// Reads begin all the time, and each is still in flight when lines are to be reset.
#[test]
fn line_is_not_reset_while_it_is_read() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        // Longer than the cleaning of a line.
        ftl.port().late.set(Ns(20_000_000));
        // A value is the sector number and any turn.
        let tagged = |sector: u32, turn: u64| u64::from(sector) << 32 | turn;
        for sector in 0..SECTORS {
            let value = tagged(sector, 1);
            write(&ftl, sectors(sector, 1), value, false)
                .await
                .expect("room");
        }
        let (over, rounds) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0_u32)));
        let readers: Vec<_> = (0..40)
            .map(|reader| {
                let (ftl, over, rounds) = (ftl.clone(), over.clone(), rounds.clone());
                rig.sim.spawn(async move {
                    let mut first = reader * 17;
                    while !over.get() {
                        first = (first + 61) % (SECTORS - 30);
                        let held = read(&ftl, first, 30).await.expect("it is there");
                        rounds.set(rounds.get() + 1);
                        for (sector, held) in (first..).zip(&held) {
                            let held = value(held).expect("a number");
                            assert_eq!(held >> 32, u64::from(sector));
                        }
                    }
                })
            })
            .collect();
        for turn in 0..6_000_u64 {
            let sector = (turn * turn * 31 % u64::from(SECTORS)) as u32;
            let value = tagged(sector, turn);
            write(&ftl, sectors(sector, 1), value, false)
                .await
                .expect("room");
        }
        over.set(true);
        for reader in readers {
            reader.await;
        }
        let stats = ftl.stats();
        assert!(stats.cleaned > 20 && rounds.get() > 100, "{stats:?}");
    });
}

/// Pinned sectors stay in place, whatever is overwritten around them and however much their line
/// would gain; after the unpin they are moved.
#[test]
fn pinned_sector_is_not_moved_and_its_line_not_reset() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, true));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        for sector in 0..SECTORS {
            let value = u64::from(sector);
            write(&ftl, sectors(sector, 1), value, false)
                .await
                .expect("room");
        }
        ftl.flush().await.expect("there is room");
        ftl.pin(&[5, 9]).await.expect("it is at rest");
        let places = [ftl.place(5), ftl.place(9)];
        let (writing, mut rng) = (ftl.clone(), Seed(6).stream("work"));
        let writer = rig.sim.spawn(async move {
            for turn in 0..4_000_u64 {
                let sector = 10 + rng.below(690) as u32;
                write(&writing, sectors(sector, 1), turn, false)
                    .await
                    .expect("room");
            }
        });
        // Longer than all writes take without pins.
        rig.sim.sleep(Ns(5_000_000_000)).await;
        assert!(ftl.is_cleaning());
        assert_eq!([ftl.place(5), ftl.place(9)], places);
        for sector in [5, 9] {
            let held = read(&ftl, sector, 1).await.expect("it is there");
            assert_eq!(value(&held[0]), Some(u64::from(sector)));
        }
        ftl.unpin(&[5, 9]);
        writer.await;
        assert_ne!([ftl.place(5), ftl.place(9)], places);
        let held = read(&ftl, 5, 5).await.expect("they are there");
        assert_eq!([0, 4].map(|n: usize| value(&held[n])), [Some(5), Some(9)]);
        assert!(ftl.stats().cleaned > 20, "{:?}", ftl.stats());
        ftl.check();
    });
}
