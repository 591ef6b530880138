//! The random write area of a zone.

use super::{PER, change, extent, fresh, powered, run, tags, tiny_zns, write, zones};
use ssd::{Content, DriveConfig, ZoneAction, ZoneState, ZoneStatus, Zones};
use units::{Bytes, Lba, Origin};

/// Two areas of eight sectors, with a commit granularity of two.
fn config() -> DriveConfig {
    change(&tiny_zns(true), |zones| {
        zones.random_write_area = Bytes(8 * 4096);
        zones.random_write_step = Bytes(2 * 4096);
        zones.random_write_zones = 2;
    })
}

fn wp(zones: &Zones, zone: u32) -> Option<u64> {
    let info = zones.info(zone)?;
    info.write_pointer.map(|wp| (wp.0 - info.start.0) / PER)
}

#[test]
fn window_sectors_are_written_in_any_order_and_committed_in_order() {
    let (kernel, drive) = fresh(&config());
    let all = zones(&drive);
    run(&kernel, async move |_| {
        all.manage(0, ZoneAction::OpenRandom)
            .await
            .expect("it is empty");
        for (at, tag) in [(7, 1), (2, 2), (7, 3), (0, 4)] {
            write(&all, 0, at, vec![tag])
                .await
                .expect("within the area");
        }
        assert_eq!(wp(&all, 0), Some(0), "nothing is committed");
        assert_eq!(
            tags(&all, extent(&all, 0, 0, 9)).await,
            Ok(vec![4, 0, 2, 0, 0, 0, 0, 3, 0])
        );
        // One sector beyond the area: a step of two sectors is committed.
        write(&all, 0, 8, vec![5]).await.expect("as far again");
        assert_eq!(wp(&all, 0), Some(2));
        assert_eq!(
            write(&all, 0, 1, vec![6]).await,
            Err(ZoneStatus::ZoneInvalidWrite)
        );
        assert_eq!(
            write(&all, 0, 18, vec![6]).await,
            Err(ZoneStatus::ZoneInvalidWrite)
        );
        write(&all, 0, 17, vec![6]).await.expect("the last place");
        assert_eq!(wp(&all, 0), Some(10));
        let at = |sector: u64| Lba(sector * PER);
        assert_eq!(
            all.commit(at(13)).await,
            Err(ZoneStatus::InvalidField),
            "half a step"
        );
        assert_eq!(
            all.commit(at(20)).await,
            Err(ZoneStatus::InvalidField),
            "beyond the area"
        );
        all.commit(at(14)).await.expect("two steps");
        assert_eq!(wp(&all, 0), Some(14));
        let content = Content::Fill(1);
        let append = all.append(0, 8, content, Origin(0), false).await;
        assert_eq!(append, Err(ZoneStatus::InvalidZoneOperation));
    });
}

#[test]
fn random_write_areas_are_limited_and_freed() {
    let (kernel, drive) = fresh(&config());
    let all = zones(&drive);
    run(&kernel, async move |_| {
        write(&all, 3, 0, vec![1]).await.expect("it is empty");
        let late = all.manage(3, ZoneAction::OpenRandom).await;
        assert_eq!(late, Err(ZoneStatus::InvalidZoneOperation));
        for zone in [0, 1] {
            all.manage(zone, ZoneAction::OpenRandom)
                .await
                .expect("there are two");
        }
        let third = all.manage(2, ZoneAction::OpenRandom).await;
        assert_eq!(third, Err(ZoneStatus::NoRandomWriteArea));
        all.manage(0, ZoneAction::Finish).await.expect("it is open");
        all.manage(2, ZoneAction::OpenRandom)
            .await
            .expect("one came back");
        all.manage(1, ZoneAction::Reset).await.expect("it is open");
        assert!(!all.info(1).expect("it is there").random_write_area);
    });
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    run(&kernel, async move |_| {
        let none = all.manage(0, ZoneAction::OpenRandom).await;
        assert_eq!(none, Err(ZoneStatus::InvalidField));
    });
}

/// A zone is filled through its area, by writes out of order.
#[test]
fn zone_fills_through_its_random_write_area() {
    let (kernel, drive) = fresh(&config());
    let all = zones(&drive);
    run(&kernel, async move |_| {
        all.manage(0, ZoneAction::OpenRandom)
            .await
            .expect("it is empty");
        let mut at = 0;
        while at + 4 <= 60 {
            write(&all, 0, at + 2, vec![at + 103, at + 104])
                .await
                .expect("in the area");
            write(&all, 0, at, vec![at + 101, at + 102])
                .await
                .expect("in the area");
            at += 4;
        }
        write(&all, 0, 60, vec![161, 162])
            .await
            .expect("the last two");
        all.commit(Lba(62 * PER)).await.expect("all of it");
        assert_eq!(all.info(0).map(|info| info.state), Some(ZoneState::Full));
        let read = tags(&all, extent(&all, 0, 0, 62)).await;
        assert_eq!(read, Ok((101..163).collect()));
    });
}

/// Data in the area survive a cut: they are committed when the power returns.
#[test]
fn random_write_area_survives_a_power_cut() {
    let (kernel, drive) = fresh(&config());
    let (all, held) = (zones(&drive), drive.clone());
    run(&kernel, async move |_| {
        all.manage(0, ZoneAction::OpenRandom)
            .await
            .expect("it is empty");
        write(&all, 0, 4, vec![5]).await.expect("in the area");
        write(&all, 0, 1, vec![2]).await.expect("in the area");
    });
    let (kernel, drive) = powered(&config(), held.at_power_cut());
    let all = zones(&drive);
    run(&kernel, async move |_| {
        assert_eq!(all.info(0).map(|info| info.state), Some(ZoneState::Closed));
        assert_eq!(wp(&all, 0), Some(6), "by whole steps");
        assert_eq!(
            tags(&all, extent(&all, 0, 0, 6)).await,
            Ok(vec![0, 2, 0, 0, 5, 0])
        );
        write(&all, 0, 6, vec![7])
            .await
            .expect("in order from now on");
    });
}
