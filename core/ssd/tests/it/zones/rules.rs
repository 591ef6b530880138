//! Random commands against a small model of the rules: every status, state and write pointer must
//! match.

use super::{PER, bytes, change, extent, narrow, powered, tags, tiny_zns, zones};
use judges::rounds;
use sim::{Rng, Seed};
use ssd::ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen};
use ssd::{Content, Drive, DriveConfig, ZoneAction, ZoneState, ZoneStatus, Zones};
use units::{Extent, Lba, Origin};

type Answer<T> = Result<T, ZoneStatus>;

/// One zone of the model, in sectors of 4 KiB.
#[derive(Clone, Debug)]
struct Zone {
    state: ZoneState,
    data: Vec<u64>,
    /// Turn in which a write opened the zone.
    opened: u64,
}

/// Model of the zone rules.
struct Model {
    zones: Vec<Zone>,
    capacity: u64,
    max_open: usize,
    max_active: usize,
    turn: u64,
}

impl Model {
    fn new(zones: &Zones) -> Self {
        let limits = zones.limits();
        let empty = Zone {
            state: Empty,
            data: Vec::new(),
            opened: 0,
        };
        Self {
            zones: vec![empty; limits.zones as usize],
            capacity: limits.capacity / PER,
            max_open: limits.max_open as usize,
            max_active: limits.max_active as usize,
            turn: 0,
        }
    }

    fn count(&self, states: &[ZoneState]) -> usize {
        let zones = self.zones.iter();
        zones.filter(|zone| states.contains(&zone.state)).count()
    }

    /// Makes room for one more open zone, and for one more active one if `active`.
    fn make_room(&mut self, active: bool) -> Answer<()> {
        let all = self.count(&[ImplicitlyOpen, ExplicitlyOpen, Closed]);
        if active && self.max_active > 0 && all >= self.max_active {
            return Err(ZoneStatus::TooManyActiveZones);
        }
        if self.max_open == 0 || self.count(&[ImplicitlyOpen, ExplicitlyOpen]) < self.max_open {
            return Ok(());
        }
        let implicit = self
            .zones
            .iter_mut()
            .filter(|zone| zone.state == ImplicitlyOpen);
        let oldest = implicit.min_by_key(|zone| zone.opened);
        oldest.ok_or(ZoneStatus::TooManyOpenZones)?.state = Closed;
        Ok(())
    }

    fn write(&mut self, zone: usize, at: Option<u64>, data: &[u64]) -> Answer<u64> {
        let wp = self.zones[zone].data.len() as u64;
        match self.zones[zone].state {
            Full => return Err(ZoneStatus::ZoneIsFull),
            _ if at.is_some_and(|at| at != wp) => return Err(ZoneStatus::ZoneInvalidWrite),
            _ if wp + data.len() as u64 > self.capacity => return Err(ZoneStatus::ZoneBoundary),
            Empty => self.make_room(true)?,
            Closed => self.make_room(false)?,
            _ => {}
        }
        self.turn += 1;
        let one = &mut self.zones[zone];
        if one.state != ImplicitlyOpen && one.state != ExplicitlyOpen {
            (one.state, one.opened) = (ImplicitlyOpen, self.turn);
        }
        one.data.extend_from_slice(data);
        if one.data.len() as u64 == self.capacity {
            one.state = Full;
        }
        Ok(wp)
    }

    fn manage(&mut self, zone: usize, action: ZoneAction) -> Answer<()> {
        let state = self.zones[zone].state;
        let to = match (action, state) {
            (ZoneAction::Open, Empty | Closed) => {
                self.make_room(state == Empty)?;
                ExplicitlyOpen
            }
            (ZoneAction::Open, ImplicitlyOpen | ExplicitlyOpen) => ExplicitlyOpen,
            (ZoneAction::Close, ImplicitlyOpen | ExplicitlyOpen | Closed) => Closed,
            (ZoneAction::Finish, _) => Full,
            (ZoneAction::Reset, _) => {
                self.zones[zone].data.clear();
                Empty
            }
            (ZoneAction::OpenRandom, _) => return Err(ZoneStatus::InvalidField),
            _ => return Err(ZoneStatus::InvalidTransition),
        };
        self.zones[zone].state = to;
        Ok(())
    }

    /// Applies a power cycle that preserves all data.
    fn power_cycle(&mut self) {
        for zone in &mut self.zones {
            if zone.state != Full {
                zone.state = if zone.data.is_empty() { Empty } else { Closed };
            }
        }
    }

    fn check(&self, zones: &Zones, step: &str) {
        for (number, zone) in (0..).zip(&self.zones) {
            let info = zones.info(number).expect("the drive has the zone");
            assert_eq!(info.state, zone.state, "{step}: state of zone {number}");
            let wp = (zone.state != Full).then_some(zone.data.len() as u64);
            let found = info.write_pointer.map(|wp| (wp.0 - info.start.0) / PER);
            assert_eq!(found, wp, "{step}: write pointer of zone {number}");
        }
    }
}

const ACTIONS: [ZoneAction; 6] = [
    ZoneAction::Open,
    ZoneAction::OpenRandom,
    ZoneAction::Close,
    ZoneAction::Finish,
    ZoneAction::Reset,
    ZoneAction::Offline,
];

/// Performs one random command on drive and model, and compares the results. Returns its
/// description.
async fn act(model: &mut Model, zones: &Zones, rng: &mut Rng, step: u64) -> String {
    let count = model.zones.len() as u64;
    // Few zones most of the time, so that limits are met and zones become full.
    let among = if rng.chance(1, 8) {
        count
    } else {
        6.min(count)
    };
    let zone = rng.below(among);
    let (number, index) = (zone as u32, zone as usize);
    let wp = model.zones[index].data.len() as u64;
    let len = 1 + rng.below(12);
    let data: Vec<u64> = (0..len).map(|at| step << 8 | at | 1 << 40).collect();
    let content = bytes(data.iter().copied());
    let content = Content::Bytes(&content);
    match rng.below(16) {
        0..6 => {
            let off = if rng.chance(1, 6) { rng.below(70) } else { wp };
            let at = off.min(zones.limits().size / PER - len);
            let target = extent(zones, number, at, len);
            let fua = rng.chance(1, 4);
            let is = zones.write(target, content, Origin(0), fua).await;
            let was = model.write(index, Some(at), &data).map(drop);
            assert_eq!(is, was, "{step}: write of {len} at {at} of zone {zone}");
            format!("write {len} at {at} of {zone}")
        }
        6..9 => {
            let is = zones
                .append(number, (len * PER) as u32, content, Origin(0), false)
                .await;
            let was = model.write(index, None, &data);
            let start = |at: u64| extent(zones, number, at, 1).start;
            assert_eq!(is, was.map(start), "{step}: append of {len} to zone {zone}");
            format!("append {len} to {zone}")
        }
        9..13 => {
            let action = ACTIONS[rng.below(6) as usize];
            let is = zones.manage(number, action).await;
            let was = model.manage(index, action);
            assert_eq!(is, was, "{step}: {action:?} of zone {zone}");
            format!("{action:?} of {zone}")
        }
        13 => {
            zones.flush().await.expect("no fault is injected");
            "flush".to_owned()
        }
        14 => {
            let at = rng.below(zones.limits().size / PER);
            read(model, zones, index, at, len).await;
            "read".to_owned()
        }
        _ => {
            let from = rng.below(count) as usize;
            let at = rng.below(model.zones[from].data.len().max(1) as u64);
            copy(model, zones, (from, at, len), index).await;
            format!("copy of {len} of {from} to {zone}")
        }
    }
}

async fn read(model: &Model, zones: &Zones, zone: usize, at: u64, len: u64) {
    let len = len.min(zones.limits().size / PER - at);
    let read = tags(zones, extent(zones, zone as u32, at, len)).await;
    let data = &model.zones[zone].data;
    let want = (at..at + len).map(|at| data.get(at as usize).copied().unwrap_or(0));
    assert_eq!(read, Ok(want.collect()), "read at {at} of zone {zone}");
}

async fn copy(model: &mut Model, zones: &Zones, from: (usize, u64, u64), to: usize) {
    let (from, at, len) = from;
    let have = model.zones[from].data.len() as u64;
    if have == 0 {
        return;
    }
    let len = len.min(have - at);
    let source = extent(zones, from as u32, at, len);
    let wp = model.zones[to].data.len() as u64;
    let target = wp.min(zones.limits().size / PER - len);
    let moved = model.zones[from].data[at as usize..(at + len) as usize].to_vec();
    let start = extent(zones, to as u32, target, len).start;
    let is = zones.copy(&[source], start).await;
    let was = model.write(to, Some(target), &moved).map(drop);
    assert_eq!(is, was, "copy of {len} to zone {to}");
}

fn fuzz(config: &DriveConfig, seed: u64, steps: u64) {
    println!("seed {seed}");
    let media = ssd::DriveMedia::new(config, Seed(seed)).expect("a good configuration");
    let (mut kernel, mut drive) = powered(config, media);
    let mut model = Model::new(&zones(&drive));
    let mut rng = Seed(seed).stream("commands");
    for turn in 0..steps / 100 {
        let (all, mut moved) = (zones(&drive), rng.clone());
        let begun = std::mem::replace(&mut model, Model::new(&all));
        let held: Drive = drive.clone();
        (model, rng) = kernel.block_on(async move {
            let mut model = begun;
            for step in 0..100 {
                let did = act(&mut model, &all, &mut moved, turn * 100 + step).await;
                model.check(&all, &format!("{turn}.{step} {did}"));
                held.check();
            }
            all.flush().await.expect("no fault is injected");
            (model, moved)
        });
        (kernel, drive) = powered(config, drive.at_power_cut());
        model.power_cycle();
        model.check(&zones(&drive), "after the power came back");
    }
}

#[test]
fn random_zone_commands_match_the_model() {
    for seed in 0..rounds(2, 6) {
        fuzz(&tiny_zns(seed % 2 == 0), seed, 4_000);
    }
    for seed in 6..6 + rounds(2, 4) {
        let limits = |zones: &mut ssd::ZoneConfig| (zones.max_open, zones.max_active) = (2, 5);
        fuzz(&change(&narrow(seed % 2 == 0), limits), seed, 4_000);
    }
}

/// Commands that no zone can take are rejected without any effect.
#[test]
fn commands_that_fit_no_zone_are_rejected_without_effect() {
    let (kernel, drive) = powered(
        &tiny_zns(true),
        ssd::DriveMedia::new(&tiny_zns(true), Seed(1)).expect("a good configuration"),
    );
    let all = zones(&drive);
    kernel.block_on(async move {
        let limits = all.limits();
        let end = limits.size * u64::from(limits.zones);
        let write =
            async |extent: Extent| all.write(extent, Content::Fill(1), Origin(0), false).await;
        for (extent, status) in [
            (Extent::new(0, 1), ZoneStatus::InvalidField),
            (Extent::new(4, 8), ZoneStatus::InvalidField),
            (Extent::new(0, 0), ZoneStatus::InvalidField),
            (Extent::new(end, 8), ZoneStatus::LbaOutOfRange),
            (Extent::new(end - 8, 16), ZoneStatus::LbaOutOfRange),
            (Extent::new(u64::MAX - 7, 8), ZoneStatus::LbaOutOfRange),
            (Extent::new(0, 63 * 8), ZoneStatus::ZoneBoundary),
            (Extent::new(8, 8), ZoneStatus::ZoneInvalidWrite),
        ] {
            assert_eq!(write(extent).await, Err(status), "write of {extent:?}");
        }
        for extent in [Extent::new(1, 8), Extent::new(0, 0)] {
            assert_eq!(
                all.read(extent, &mut ()).await,
                Err(ZoneStatus::InvalidField)
            );
        }
        let past = Extent::new(end - 8, 16);
        assert_eq!(
            all.read(past, &mut ()).await,
            Err(ZoneStatus::LbaOutOfRange)
        );
        for action in ACTIONS {
            let status = Err(ZoneStatus::LbaOutOfRange);
            assert_eq!(all.manage(limits.zones, action).await, status);
        }
        let append = all
            .append(limits.zones, 8, Content::Fill(1), Origin(0), false)
            .await;
        assert_eq!(append, Err(ZoneStatus::LbaOutOfRange));
        let append = all.append(0, 12, Content::Fill(1), Origin(0), false).await;
        assert_eq!(append, Err(ZoneStatus::InvalidField));
        assert_eq!(all.copy(&[], Lba(0)).await, Err(ZoneStatus::InvalidField));
        let huge = [Extent::new(0, u32::MAX - 7), Extent::new(0, u32::MAX - 7)];
        assert_eq!(all.copy(&huge, Lba(0)).await, Err(ZoneStatus::InvalidField));
        assert_eq!(all.commit(Lba(0)).await, Err(ZoneStatus::InvalidField));
        assert_eq!(all.commit(Lba(8)).await, Err(ZoneStatus::InvalidField));
        assert_eq!(
            all.report(limits.zones, 1).await,
            Err(ZoneStatus::LbaOutOfRange)
        );
        assert_eq!(all.in_use().empty, limits.zones, "nothing has happened");
    });
}
