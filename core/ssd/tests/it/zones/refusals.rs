//! Commands rejected by a limit name the limit, and the zones that use it up.

use super::{PER, change, extent, fresh, run, tiny_zns, write, zones};
use ssd::{Content, ZoneAction, ZoneStatus, Zones};
use units::{Bytes, NoSpace, Origin};

/// The last limit met; its holders must account for all of it.
fn last(zones: &Zones) -> NoSpace {
    let why = zones.refusals().last().expect("one was refused").clone();
    let held: u64 = why.held_by.iter().map(|holder| holder.amount).sum();
    assert_eq!(held + why.free, why.total, "{why}");
    assert!(why.asked > why.free - why.reserve, "{why}");
    why
}

fn holders(why: &NoSpace) -> Vec<(&str, u16)> {
    let holders = why.held_by.iter();
    holders.map(|h| (h.who.as_ref(), h.origin.0)).collect()
}

/// Writes a sector at `at` of `zone` with `origin`.
async fn write_for(zones: &Zones, zone: u32, at: u64, origin: u16) -> Result<(), ZoneStatus> {
    let extent = extent(zones, zone, at, 1);
    let content = Content::Fill(1);
    zones.write(extent, content, Origin(origin), false).await
}

#[test]
fn zone_limit_refusals_name_holders_and_origins() {
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    run(&kernel, async move |sim| {
        write_for(&all, 1, 0, 7).await.expect("it is empty");
        for zone in 0..3 {
            let opened = all.manage(zone, ZoneAction::Open).await;
            opened.expect("three may be open");
        }
        let begin = sim.now();
        write_for(&all, 5, 0, 1).await.expect_err("all are held");
        let why = last(&all);
        assert_eq!((why.limit, why.total, why.free), ("open zones", 3, 0));
        let open = [
            ("zone 0, explicitly-open", 0),
            ("zone 1, explicitly-open", 7),
            ("zone 2, explicitly-open", 0),
        ];
        assert_eq!(holders(&why), open);
        all.manage(6, ZoneAction::Open).await.expect_err("as well");
        let met = all.refusals().met().to_vec();
        assert_eq!((met.len(), met[0].times), (1, 2));
        assert!(met[0].first_at >= begin && met[0].first_at <= sim.now());
        all.manage(1, ZoneAction::Close).await.expect("it is open");
        write_for(&all, 5, 0, 9).await.expect("one may be open");
        write_for(&all, 6, 0, 9).await.expect_err("four are active");
        let why = last(&all);
        assert_eq!((why.limit, why.total), ("active zones", 4));
        assert_eq!(holders(&why)[1], ("zone 1, closed", 7));
        assert_eq!(holders(&why)[3], ("zone 5, implicitly-open", 9));
        // A reset clears the origin of a zone.
        for zone in [1, 5] {
            all.manage(zone, ZoneAction::Reset).await.expect("active");
        }
        let opened = all.manage(1, ZoneAction::Open).await;
        opened.expect("there is room");
        write_for(&all, 6, 0, 2).await.expect_err("three are held");
        assert_eq!(holders(&last(&all)), open.map(|(who, _)| (who, 0)));
    });
}

#[test]
fn full_zone_refusal_names_data_and_finish() {
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    run(&kernel, async move |_| {
        let tags = (0..60).collect();
        write(&all, 3, 0, tags).await.expect("it is empty");
        write(&all, 3, 60, vec![0; 3])
            .await
            .expect_err("two have room");
        let why = last(&all);
        assert_eq!(
            (why.asked, why.free, why.total),
            (3 * 4096, 2 * 4096, 62 * 4096)
        );
        assert_eq!(holders(&why), [("data in zone 3", 0)]);
        all.manage(3, ZoneAction::Finish).await.expect("it is open");
        // Meeting another limit in between makes the drive collect the holders of this one again.
        for zone in 4..7 {
            let opened = all.manage(zone, ZoneAction::Open).await;
            opened.expect("three may be open");
        }
        all.manage(7, ZoneAction::Open).await.expect_err("no more");
        write(&all, 3, 60, vec![0]).await.expect_err("it is full");
        let why = last(&all);
        assert_eq!((why.asked, why.free), (4096, 0));
        let finished = [("data in zone 3", 60), ("the finish of zone 3", 2)];
        let found: Vec<(&str, u64)> = why
            .held_by
            .iter()
            .map(|holder| (holder.who.as_ref(), holder.amount / 4096))
            .collect();
        assert_eq!(found, finished);
        let met = all.refusals();
        let times = met.met().iter().map(|met| met.times);
        assert_eq!(times.collect::<Vec<u64>>(), [2, 1]);
    });
}

#[test]
fn random_write_area_refusal_names_its_holder() {
    let config = change(&tiny_zns(true), |zones| {
        zones.random_write_area = Bytes(8 * 4096);
        zones.random_write_step = Bytes(2 * 4096);
        zones.random_write_zones = 1;
    });
    let (kernel, drive) = fresh(&config);
    let all = zones(&drive);
    run(&kernel, async move |_| {
        let opened = all.manage(2, ZoneAction::OpenRandom).await;
        opened.expect("one may have it");
        let refused = all.manage(3, ZoneAction::OpenRandom).await;
        assert_eq!(refused, Err(ZoneStatus::NoRandomWriteArea));
        let why = last(&all);
        assert_eq!(why.limit, "random write areas");
        assert_eq!(holders(&why), [("zone 2, explicitly-open", 0)]);
    });
}

/// A command that an idle drive would reject too has met no limit.
#[test]
fn invalid_command_is_not_noted_as_a_refusal() {
    let (kernel, drive) = fresh(&tiny_zns(true));
    let all = zones(&drive);
    run(&kernel, async move |_| {
        write(&all, 1, 5, vec![1]).await.expect_err("not in order");
        let appended = all.append(99, PER as u32, Content::Fill(1), Origin(0), false);
        appended.await.expect_err("there is no such zone");
        all.manage(1, ZoneAction::Close).await.expect_err("empty");
        assert!(all.refusals().met().is_empty());
    });
}
