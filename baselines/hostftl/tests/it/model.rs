//! Reads return the last write, during cleaning too.

use crate::support::{Left, Model, Rig, SECTORS, ftl_config, read, sectors, tiny, value, work};
use host::{BlockPort, Who};
use sim::{Kernel, Seed};
use ssd::{Cause, Content, VictimPolicy};
use units::{Bytes, Extent, Placement};

#[test]
fn overwrites_during_cleaning_read_as_the_model() {
    for (kept, victim) in [
        (false, VictimPolicy::Greedy),
        (false, VictimPolicy::CostBenefit),
        (true, VictimPolicy::Greedy),
    ] {
        let config = tiny();
        let kernel = Kernel::new();
        let rig = Rig::on(&kernel, &config, Left::new(&config, kept));
        let (model, again) = (Model::shared(), rig.clone());
        let shown = model.clone();
        let ftl = kernel.block_on(async move {
            let config = hostftl::FtlConfig {
                victim,
                ..ftl_config(&config)
            };
            let ftl = again.mount(config).await.expect("a new drive");
            let workers: Vec<_> = (0..3)
                .map(|index| {
                    let rng = Seed(9).child(index.into()).stream("work");
                    let work = work(ftl.clone(), shown.clone(), rng, (index, 3), 2_000);
                    again.sim.spawn(work)
                })
                .collect();
            for worker in workers {
                worker.await;
                ftl.check();
            }
            ftl.flush().await.expect("there is room");
            let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
            for (sector, payload) in (0..).zip(&held) {
                assert_eq!(value(payload), Some(shown.borrow().newest(sector)));
                assert_eq!(ftl.peek(sector).as_ref(), Some(payload));
            }
            ftl
        });
        ftl.check();
        let stats = ftl.stats();
        assert!(
            stats.cleaned > 20 && stats.moved > 0 && stats.padding > 0,
            "{stats:?}"
        );
        assert!(stats.records > 0, "{stats:?}");
        // Every programmed sector is new data, moved, a record, or padding.
        let ledger = rig.drive.ledger();
        assert_eq!(ledger.by_cause(Cause::Host), stats.data);
        assert!(stats.data < stats.written && stats.written == model.borrow().writes());
        let kept = ledger.by_cause(Cause::Gc) + ledger.by_cause(Cause::Journal);
        assert_eq!(kept, stats.moved + stats.records);
        let padding = ledger.by_cause(Cause::Padding);
        assert_eq!(padding, stats.padding + stats.filled);
        // A line has two chunks of two blocks each.
        let (erases, _) = rig.drive.wear();
        let erases = erases.iter().map(|&erases| u64::from(erases)).sum::<u64>();
        assert_eq!(erases, 4 * stats.cleaned);
    }
}

#[test]
fn partial_writes_merge_with_their_sectors() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let who = Who::default();
        let mut bytes = vec![7; 3 * 512];
        let write = |at, content| {
            let ftl = ftl.clone();
            async move {
                let written = ftl.write(at, content, Placement(0), who, false);
                written.await.expect("there is room");
            }
        };
        write(Extent::new(6, 3), Content::Bytes(&bytes)).await;
        write(Extent::new(15, 2), Content::Fill(u64::MAX)).await;
        ftl.flush().await.expect("there is room");
        let mut all = vec![1; 24 * 512];
        ftl.read(Extent::new(0, 24), &mut all.as_mut_slice(), who)
            .await
            .expect("it is there");
        let at = |sector: usize| all[sector * 512];
        let held: Vec<u8> = (0..24).map(at).collect();
        let mut expected = vec![0; 24];
        expected[6..9].fill(7);
        expected[15..17].fill(255);
        assert_eq!(held, expected);
        bytes.truncate(512);
        ftl.read(Extent::new(8, 1), &mut bytes.as_mut_slice(), who)
            .await
            .expect("as above");
        assert_eq!(bytes, [7; 512]);
        // A trim deallocates whole sectors only.
        ftl.trim(Extent::new(4, 13)).await.expect("within");
        ftl.read(Extent::new(0, 24), &mut all.as_mut_slice(), who)
            .await
            .expect("as above");
        let held: Vec<u8> = (0..24).map(|sector: usize| all[sector * 512]).collect();
        expected[8] = 0;
        expected[15] = 0;
        assert_eq!(held, expected);
    });
}

#[test]
fn forced_sector_pads_a_unit_and_many_fill_theirs() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let who = Who::default();
        for sector in 0..5 {
            let write = ftl.write(
                sectors(sector, 1),
                Content::Fill(1),
                Placement(0),
                who,
                true,
            );
            write.await.expect("there is room");
        }
        assert_eq!((ftl.stats().written, ftl.stats().padding), (5, 15));
        let write = ftl.write(sectors(8, 16), Content::Fill(2), Placement(0), who, true);
        write.await.expect("there is room");
        assert_eq!((ftl.stats().written, ftl.stats().padding), (21, 15));
        // Rewritten in the buffer, a sector reaches flash once.
        let before = rig.drive.ledger().by_cause(Cause::Host);
        for value in 1..9 {
            let write = ftl.write(
                sectors(3, 1),
                Content::Fill(value),
                Placement(0),
                who,
                false,
            );
            write.await.expect("there is room");
        }
        ftl.flush().await.expect("there is room");
        assert_eq!(rig.drive.ledger().by_cause(Cause::Host), before + 1);
        assert_eq!(
            value(&read(&ftl, 3, 1).await.expect("it is there")[0]),
            Some(8)
        );
        assert_eq!(ftl.capacity(), Bytes(u64::from(SECTORS) * 4096));
    });
}

/// While a flush waits for a version, a deallocation of that version comes in a record full of
/// others.
#[test]
fn flush_ends_when_its_version_is_deallocated_in_a_full_record() {
    let config = tiny();
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, &config, Left::new(&config, false));
    kernel.block_on(async move {
        let ftl = rig.mount(ftl_config(&config)).await.expect("a new drive");
        let write = |sector| {
            let ftl = ftl.clone();
            async move {
                let at = sectors(sector, 1);
                let write = ftl.write(at, Content::Fill(1), Placement(0), Who::default(), false);
                write.await.expect("there is room");
            }
        };
        for sector in 0..600 {
            write(sector).await;
        }
        ftl.flush().await.expect("there is room");
        // Sectors 0 to 7 fill two units, so the version of sector 600 still waits in the queue.
        for sector in (0..8).chain([600]) {
            write(sector).await;
        }
        let flushing = ftl.clone();
        let flush = rig.sim.spawn(async move { flushing.flush().await });
        let trimming = ftl.clone();
        let trim = rig.sim.spawn(async move {
            trimming.trim(sectors(600, 1)).await.expect("within");
            for sector in (10..600).step_by(2).take(254) {
                trimming.trim(sectors(sector, 1)).await.expect("within");
            }
        });
        trim.await;
        flush.await.expect("there is room");
        assert_eq!(
            read(&ftl, 600, 1).await.map(|all| value(&all[0])),
            Ok(Some(0))
        );
        ftl.check();
    });
}
