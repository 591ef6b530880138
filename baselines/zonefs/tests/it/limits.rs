//! Limits on open and active zones, and the report of their holders.

use crate::bench::{DIRECT, MOST, config, mounted, on, seq, text};
use host::{Purpose, Who, ZonedPort};
use ssd::{Content, ZoneAction, ZoneState};
use units::Extent;
use vfs::Errno;
use zonefs::{Options, Superblock, ZoneFs};

const EXPLICIT: Options = Options {
    errors: zonefs::OnError::Repair,
    explicit_open: true,
    read_only: false,
    origin: units::Origin(0),
};

#[test]
fn without_explicit_open_the_write_meets_the_limit() {
    let config = config(|zones| (zones.max_open, zones.max_active) = (2, 3));
    on(&config, async |sim, device| {
        let options = Options {
            explicit_open: false,
            ..EXPLICIT
        };
        let fs = mounted(&sim, &device, &Superblock::default(), options).await;
        for file in 0..3 {
            fs.open(seq(file), true).await.unwrap();
            fs.write(seq(file), 0, &text(0, 1), DIRECT).await.unwrap();
        }
        let refused = fs.write(seq(3), 0, &text(0, 1), DIRECT).await;
        assert_eq!(refused, Err(Errno::EOVERFLOW));
        let told = fs.told();
        assert_eq!((told.nr_wro_seq_files, told.nr_active_seq_files), (3, 3));
        assert_eq!((told.max_wro_seq_files, told.max_active_seq_files), (2, 3));
        let why = told.why_refused.unwrap();
        assert_eq!(why.refused, "seq/3");
        assert_eq!(why.held_by, ["seq/0", "seq/1", "seq/2"]);
        assert!(why.limit.contains("Too Many Active Zones"));
        // A finished zone is neither open nor active.
        fs.truncate(seq(1), MOST).await.unwrap();
        fs.write(seq(3), 0, &text(0, 1), DIRECT).await.unwrap();
        assert_eq!(fs.told().nr_active_seq_files, 3);
    });
}

//= zonefs 6
#[test]
fn with_explicit_open_the_open_meets_the_limit() {
    let config = config(|zones| (zones.max_open, zones.max_active) = (2, 4));
    on(&config, async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), EXPLICIT).await;
        fs.open(seq(0), true).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::ExplicitlyOpen);
        fs.open(seq(0), true).await.unwrap();
        fs.open(seq(1), true).await.unwrap();
        assert_eq!(fs.told().nr_active_seq_files, 2);
        assert_eq!(fs.open(seq(2), true).await, Err(Errno::EBUSY));
        assert_eq!(fs.open(seq(2), false).await, Ok(()));
        assert_eq!(fs.told().why_refused.unwrap().held_by, ["seq/0", "seq/1"]);
        assert_eq!(fs.told().nr_wro_seq_files, 2);
        fs.write(seq(0), 0, &text(0, 1), DIRECT).await.unwrap();
        // The last writer closes the zone.
        fs.release(seq(0), true).await;
        assert_eq!(device.zone(1).unwrap().state, ZoneState::ExplicitlyOpen);
        fs.release(seq(0), true).await;
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Closed);
        fs.open(seq(2), true).await.unwrap();
        // A zone without data is reset on release.
        fs.release(seq(2), true).await;
        assert_eq!(device.zone(3).unwrap().state, ZoneState::Empty);
    });
}

#[test]
fn a_cut_keeps_the_zone_open_and_a_full_one_is_not() {
    let config = config(|zones| (zones.max_open, zones.max_active) = (2, 4));
    on(&config, async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), EXPLICIT).await;
        fs.open(seq(0), true).await.unwrap();
        fs.write(seq(0), 0, &text(0, 1), DIRECT).await.unwrap();
        fs.truncate(seq(0), 0).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::ExplicitlyOpen);
        fs.truncate(seq(0), MOST).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Full);
        fs.release(seq(0), true).await;
        // A full zone needs no open zone.
        fs.open(seq(0), true).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Full);
        fs.release(seq(0), true).await;
        // A zone written to its end needs none either.
        fs.open(seq(1), true).await.unwrap();
        fs.write(seq(1), 0, &text(0, MOST / 4096), DIRECT)
            .await
            .unwrap();
        fs.release(seq(1), true).await;
        assert_eq!(device.zone(2).unwrap().state, ZoneState::Full);
    });
}

#[test]
fn files_that_are_written_in_part_hold_zones_that_an_opening_lacks() {
    let config = config(|zones| (zones.max_open, zones.max_active) = (2, 2));
    on(&config, async |sim, device| {
        let fs = mounted(&sim, &device, &Superblock::default(), EXPLICIT).await;
        for file in [0, 1] {
            fs.open(seq(file), true).await.unwrap();
            fs.write(seq(file), 0, &text(0, 1), DIRECT).await.unwrap();
            fs.release(seq(file), true).await;
        }
        assert_eq!(fs.open(seq(2), true).await, Err(Errno::EOVERFLOW));
        assert_eq!(fs.told().why_refused.unwrap().held_by, ["seq/0", "seq/1"]);
        assert_eq!(fs.told().nr_wro_seq_files, 0);
        fs.truncate(seq(0), 0).await.unwrap();
        fs.open(seq(2), true).await.unwrap();
    });
}

#[test]
fn a_mount_closes_what_others_have_left_open() {
    on(&config(|_| {}), async |sim, device| {
        mounted(&sim, &device, &Superblock::default(), EXPLICIT).await;
        device.manage(1, ZoneAction::Open).await.unwrap();
        let block = Extent::new(device.zone(2).unwrap().start.0, 8);
        let who = Who {
            origin: EXPLICIT.origin,
            purpose: Purpose::Data,
        };
        let content = Content::Bytes(&[1; 4096]);
        device.write(block, content, who, false).await.unwrap();
        let fs = ZoneFs::mount(&sim, &device, EXPLICIT).await.unwrap();
        assert_eq!(device.zone(1).unwrap().state, ZoneState::Empty);
        assert_eq!(device.zone(2).unwrap().state, ZoneState::Closed);
        assert_eq!(fs.told().nr_active_seq_files, 1);
    });
}
