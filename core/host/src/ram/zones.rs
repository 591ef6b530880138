//! Zones in memory: the smallest and strictest zoned port.
//!
//! Invariants: every change of a zone's state is a step of [`ssd::transition`]; the unflushed
//! data of a zone are its last payloads, and a power cut keeps any prefix of them,
//! independently per zone. Resets and finishes are durable once they have ended. Conventional
//! zones are a [`RamDisk`].
//!
//! [`RamZones::fail`] makes a zone fail, as the flash of a drive without protection does. The
//! unflushed data of a read-only zone stay readable until the power goes. If a failed zone had
//! unflushed data, every later flush fails.

use super::{RamDisk, SECTORS, lay_over, parts};
use crate::cores::Computing;
use crate::ledger::Who;
use crate::port::BlockPort;
use crate::zoned::ZonedPort;
use nand::{Payload, UNIT};
use sim::{Rng, Seed, Sim};
use ssd::{
    Content, OpenRoom, Room, Sink, ZoneAction, ZoneEvent, ZoneInfo, ZoneKind, ZoneLimits,
    ZoneState, ZoneStatus, ZoneUse, transition,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Extent, Lba, Ns, Placement, SECTOR};

/// The contents of a sequential zone without power.
#[derive(Clone, Debug, Default)]
pub struct ZoneAtRest {
    /// State of the zone at power-on.
    pub state: ZoneState,
    /// Payloads of 4,096 bytes, up to the write pointer.
    pub payloads: Vec<Payload>,
}

/// The contents of zones in memory without power.
#[derive(Clone, Debug)]
pub struct ZonesAtRest {
    /// Number, sizes and limits of the zones.
    pub limits: ZoneLimits,
    /// Payloads of the conventional zones, by payload number.
    pub conventional: BTreeMap<u64, Payload>,
    /// Sequential zones, in the order of their numbers.
    pub zones: Vec<ZoneAtRest>,
}

impl ZonesAtRest {
    /// Creates empty zones.
    #[must_use]
    pub fn new(limits: ZoneLimits) -> Self {
        let sequential = limits.zones - limits.conventional;
        Self {
            limits,
            conventional: BTreeMap::new(),
            zones: vec![ZoneAtRest::default(); sequential as usize],
        }
    }

    /// The payload of 4,096 bytes that contains `sector`; zeros if it was never written.
    #[must_use]
    pub fn payload(&self, sector: u64) -> &Payload {
        let (zone, at) = (sector / self.limits.size, sector % self.limits.size);
        let conventional = u64::from(self.limits.conventional);
        let found = match zone.checked_sub(conventional) {
            None => self.conventional.get(&(sector / SECTORS)),
            Some(zone) => {
                let zone = self.zones.get(zone as usize);
                zone.and_then(|zone| zone.payloads.get((at / SECTORS) as usize))
            }
        };
        found.unwrap_or(&Payload::Zero)
    }
}

/// A sequential zone under power.
#[derive(Clone, Default)]
struct Zone {
    now: ZoneAtRest,
    /// Number of durable payloads.
    durable: usize,
}

struct State {
    zones: Vec<Zone>,
    /// Whether a failed zone has lost unflushed data, so that flushes fail.
    lost: bool,
}

impl State {
    fn room(&self, limits: &ZoneLimits) -> Room {
        let count = |is: fn(ZoneState) -> bool| {
            let zones = self.zones.iter().filter(|zone| is(zone.now.state));
            zones.count() as u32
        };
        let left = |most: u32, used: u32| most == 0 || used < most;
        let evictable = self.implicit().is_some();
        Room {
            active: left(limits.max_active, count(ZoneState::is_active)),
            open: match left(limits.max_open, count(ZoneState::is_open)) {
                true => OpenRoom::Free,
                false if evictable => OpenRoom::ByEviction,
                false => OpenRoom::None,
            },
        }
    }

    /// The first implicitly open zone, which the controller may close.
    fn implicit(&self) -> Option<usize> {
        let is_it = |zone: &Zone| zone.now.state == ZoneState::ImplicitlyOpen;
        self.zones.iter().position(is_it)
    }

    fn step(
        &mut self,
        zone: usize,
        event: ZoneEvent,
        limits: &ZoneLimits,
    ) -> Result<(), ZoneStatus> {
        let step = transition(self.zones[zone].now.state, event, self.room(limits))?;
        if let Some(evicted) = self.implicit().filter(|_| step.evict) {
            self.zones[evicted].now.state = ZoneState::Closed;
        }
        self.zones[zone].now.state = step.to;
        Ok(())
    }

    fn act(
        &mut self,
        zone: usize,
        action: ZoneAction,
        limits: &ZoneLimits,
    ) -> Result<(), ZoneStatus> {
        let event = match action {
            ZoneAction::Open => ZoneEvent::Open,
            ZoneAction::OpenRandom => return Err(ZoneStatus::InvalidZoneOperation),
            ZoneAction::Close => ZoneEvent::Close,
            ZoneAction::Finish => ZoneEvent::Finish,
            ZoneAction::Reset => ZoneEvent::Reset,
            ZoneAction::Offline => ZoneEvent::SetOffline,
        };
        self.step(zone, event, limits)?;
        let zone = &mut self.zones[zone];
        match zone.now.state {
            ZoneState::Empty | ZoneState::Offline => {
                zone.now.payloads.clear();
                zone.durable = 0;
            }
            ZoneState::Full => zone.durable = zone.now.payloads.len(),
            // Closing an open zone without data makes it empty.
            ZoneState::Closed if zone.now.payloads.is_empty() => zone.now.state = ZoneState::Empty,
            _ => {}
        }
        Ok(())
    }
}

/// Zones in memory; clones share their contents.
#[derive(Clone)]
pub struct RamZones {
    sim: Sim,
    limits: ZoneLimits,
    conventional: RamDisk,
    state: Rc<RefCell<State>>,
}

impl RamZones {
    /// Powers on zones with the contents of `at_rest`, all of it durable.
    ///
    /// # Panics
    /// If sizes are not multiples of payloads of 4,096 bytes, or a zone holds more than its
    /// capacity.
    #[must_use]
    pub fn holding(sim: &Sim, at_rest: ZonesAtRest) -> Self {
        let limits = at_rest.limits;
        let whole = |sectors: u64| sectors.is_multiple_of(SECTORS);
        assert!(whole(limits.size) && whole(limits.capacity) && limits.block == SECTORS);
        let most = (limits.capacity / SECTORS) as usize;
        let zone = |now: ZoneAtRest| {
            assert!(now.payloads.len() <= most, "a zone holds its capacity");
            let durable = now.payloads.len();
            Zone { now, durable }
        };
        let size = Bytes(u64::from(limits.conventional) * limits.size * SECTOR);
        Self {
            sim: sim.clone(),
            conventional: RamDisk::holding(sim, size, at_rest.conventional),
            limits,
            state: Rc::new(RefCell::new(State {
                zones: at_rest.zones.into_iter().map(zone).collect(),
                lost: false,
            })),
        }
    }

    /// Contents after a power cut now, with all data of the sequential zones. Unflushed
    /// writes to conventional zones are kept only in part, as [`RamDisk::after_cut`] does.
    #[must_use]
    pub fn at_rest(&self) -> ZonesAtRest {
        let all = |_: &mut Rng, _, behind| behind;
        self.after_cut(&mut Seed(0).stream("rest"), all)
    }

    /// Contents after a power cut now: the durable payloads of each sequential zone, and as
    /// many of its unflushed ones as `keep` returns for the zone and their number.
    #[must_use]
    pub fn after_cut(
        &self,
        rng: &mut Rng,
        mut keep: impl FnMut(&mut Rng, u32, usize) -> usize,
    ) -> ZonesAtRest {
        let mut zones = Vec::new();
        for (number, zone) in (self.limits.conventional..).zip(&self.state.borrow().zones) {
            let Zone { mut now, durable } = zone.clone();
            let behind = now.payloads.len() - durable;
            let kept = keep(rng, number, behind).min(behind);
            now.payloads.truncate(durable + kept);
            let is_whole = kept == behind;
            now.state = match now.state {
                ZoneState::ReadOnly | ZoneState::Offline => now.state,
                ZoneState::Full if is_whole => now.state,
                _ if now.payloads.is_empty() => ZoneState::Empty,
                _ => ZoneState::Closed,
            };
            zones.push(now);
        }
        ZonesAtRest {
            limits: self.limits,
            conventional: self.conventional.after_cut(rng),
            zones,
        }
    }

    /// Contents after a power cut now, with a random prefix of each zone's unflushed payloads.
    #[must_use]
    pub fn after_any_cut(&self, rng: &mut Rng) -> ZonesAtRest {
        let any = |rng: &mut Rng, _, behind: usize| rng.below(behind as u64 + 1) as usize;
        self.after_cut(rng, any)
    }

    /// Makes the flash of a zone fail: the zone is read-only or offline from now on.
    ///
    /// # Panics
    /// If `state` is neither of the two, or `zone` is no sequential zone.
    pub fn fail(&self, zone: u32, state: ZoneState) {
        let mut all = self.state.borrow_mut();
        let failed = &mut all.zones[(zone - self.limits.conventional) as usize];
        failed.now.state = state;
        let lost = failed.now.payloads.len() > failed.durable;
        match state {
            ZoneState::ReadOnly => {}
            ZoneState::Offline => failed.now.payloads.clear(),
            _ => panic!("{} is no failure", state.name()),
        }
        failed.durable = failed.durable.min(failed.now.payloads.len());
        all.lost |= lost;
    }

    /// Lets 1 ns pass, in which every other ready task runs.
    async fn turn(&self) {
        self.sim.sleep(Ns(1)).await;
    }

    /// Index of the sequential zone of `extent`, and the extent's first payload in the zone;
    /// None in a conventional zone.
    fn place(&self, extent: Extent) -> Result<Option<(usize, usize)>, ZoneStatus> {
        let (zone, at) = (
            extent.start.0 / self.limits.size,
            extent.start.0 % self.limits.size,
        );
        let whole = |sectors: u64| sectors.is_multiple_of(SECTORS);
        if zone >= u64::from(self.limits.zones) {
            return Err(ZoneStatus::LbaOutOfRange);
        }
        if !whole(at) || !whole(u64::from(extent.sectors)) {
            return Err(ZoneStatus::InvalidField);
        }
        let zone = zone.checked_sub(u64::from(self.limits.conventional));
        if zone.is_some() && at + u64::from(extent.sectors) > self.limits.size {
            return Err(ZoneStatus::ZoneBoundary);
        }
        Ok(zone.map(|zone| (zone as usize, (at / SECTORS) as usize)))
    }

    fn sequential(&self, zone: u32) -> Result<usize, ZoneStatus> {
        if zone >= self.limits.zones {
            return Err(ZoneStatus::LbaOutOfRange);
        }
        let index = zone.checked_sub(self.limits.conventional);
        index.map(|at| at as usize).ok_or(ZoneStatus::InvalidField)
    }

    /// Appends `content` at the write pointer of a zone, in one instant.
    fn put(
        &self,
        zone: usize,
        extent: Extent,
        content: Content<'_>,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let mut all = self.state.borrow_mut();
        let count = (u64::from(extent.sectors) / SECTORS) as usize;
        let most = (self.limits.capacity / SECTORS) as usize;
        if all.zones[zone].now.payloads.len() + count > most {
            return Err(ZoneStatus::ZoneBoundary);
        }
        all.step(zone, ZoneEvent::Write, &self.limits)?;
        let entry = &mut all.zones[zone];
        for (_, from, to, offset) in parts(extent) {
            let payload = lay_over(&Payload::Zero, from, to, content, offset);
            entry.now.payloads.push(payload);
        }
        if fua {
            entry.durable = entry.now.payloads.len();
        }
        if entry.now.payloads.len() == most {
            all.step(zone, ZoneEvent::Filled, &self.limits)?;
        }
        Ok(())
    }
}

impl ZonedPort for RamZones {
    fn limits(&self) -> ZoneLimits {
        self.limits
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        if zone >= self.limits.zones {
            return None;
        }
        let start = u64::from(zone) * self.limits.size;
        let mut info = ZoneInfo {
            zone,
            kind: ZoneKind::Conventional,
            state: ZoneState::Empty,
            start: Lba(start),
            size: self.limits.size,
            capacity: self.limits.size,
            write_pointer: None,
            random_write_area: false,
        };
        let Ok(index) = self.sequential(zone) else {
            return Some(info);
        };
        let now = &self.state.borrow().zones[index].now;
        let ends = [ZoneState::Full, ZoneState::ReadOnly, ZoneState::Offline];
        let written = now.payloads.len() as u64 * SECTORS;
        info.kind = ZoneKind::Sequential;
        info.state = now.state;
        info.capacity = self.limits.capacity;
        info.write_pointer = (!ends.contains(&now.state)).then_some(Lba(start + written));
        Some(info)
    }

    fn in_use(&self) -> ZoneUse {
        let mut all = ZoneUse::default();
        let zones = (0..self.limits.zones).filter_map(|zone| self.zone(zone));
        zones.for_each(|zone| all.add(&zone));
        all
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        self.turn().await;
        let zones = first..first.saturating_add(count).min(self.limits.zones);
        Ok(zones.filter_map(|zone| self.zone(zone)).collect())
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        let Some((zone, first)) = self.place(extent)? else {
            let read = self.conventional.read(extent, sink, who).await;
            return read.map_err(|_| ZoneStatus::ZoneBoundary);
        };
        self.turn().await;
        let zone = &self.state.borrow().zones[zone].now;
        if zone.state == ZoneState::Offline {
            return Err(ZoneStatus::ZoneIsOffline);
        }
        for (at, (_, from, to, offset)) in (first..).zip(parts(extent)) {
            let payload = zone.payloads.get(at).unwrap_or(&Payload::Zero);
            sink.take(offset, to - from, payload, from);
        }
        Ok(())
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let Some((zone, at)) = self.place(extent)? else {
            let written = self
                .conventional
                .write(extent, content, Placement(0), who, fua);
            return written.await.map_err(|_| ZoneStatus::ZoneBoundary);
        };
        self.turn().await;
        let now = {
            let now = &self.state.borrow().zones[zone].now;
            (now.state, now.payloads.len())
        };
        let room = Room {
            active: true,
            open: OpenRoom::Free,
        };
        transition(now.0, ZoneEvent::Write, room)?;
        if at != now.1 {
            return Err(ZoneStatus::ZoneInvalidWrite);
        }
        self.put(zone, extent, content, fua)
    }

    async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        _: Who,
        fua: bool,
    ) -> Result<Lba, ZoneStatus> {
        let index = self.sequential(zone)?;
        self.turn().await;
        let written = self.state.borrow().zones[index].now.payloads.len() as u64;
        let at = u64::from(zone) * self.limits.size + written * SECTORS;
        self.put(index, Extent::new(at, sectors), content, fua)?;
        Ok(Lba(at))
    }

    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        let mut at = to.0;
        for source in sources {
            let mut payloads = vec![Payload::Zero; source.bytes() as usize / UNIT];
            let mut sink = payloads.as_mut_slice();
            self.read(*source, &mut sink, Who::default()).await?;
            let extent = Extent::new(at, source.sectors);
            let content = Content::Sectors(&payloads);
            self.write(extent, content, Who::default(), false).await?;
            at += u64::from(source.sectors);
        }
        Ok(())
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        let index = self.sequential(zone)?;
        self.turn().await;
        self.state.borrow_mut().act(index, action, &self.limits)
    }

    async fn commit(&self, _: Lba) -> Result<(), ZoneStatus> {
        Err(ZoneStatus::InvalidZoneOperation)
    }

    async fn flush(&self) -> Result<(), ZoneStatus> {
        let flushed = self.conventional.flush().await;
        flushed.map_err(|_| ZoneStatus::WriteFault)?;
        let mut all = self.state.borrow_mut();
        for zone in &mut all.zones {
            if zone.now.state != ZoneState::ReadOnly {
                zone.durable = zone.now.payloads.len();
            }
        }
        match all.lost {
            true => Err(ZoneStatus::WriteFault),
            false => Ok(()),
        }
    }

    fn compute(&self, span: Ns) -> Computing {
        Computing::Until(self.sim.now() + span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Kernel;

    /// Six zones of eight payloads: two conventional ones, and four with a capacity of seven.
    fn limits() -> ZoneLimits {
        ZoneLimits {
            zones: 6,
            conventional: 2,
            size: 8 * SECTORS,
            capacity: 7 * SECTORS,
            block: SECTORS,
            max_open: 1,
            max_active: 2,
            ..ZoneLimits::NONE
        }
    }

    fn on<W: Future<Output = ()>>(work: impl FnOnce(RamZones) -> W + 'static) {
        let kernel = Kernel::new();
        let zones = RamZones::holding(&kernel.sim(), ZonesAtRest::new(limits()));
        kernel.block_on(async move { work(zones).await });
    }

    async fn write(zones: &RamZones, zone: u64, at: u64, pattern: u64) -> Result<(), ZoneStatus> {
        let extent = Extent::new((zone * 8 + at) * SECTORS, SECTORS as u32);
        let content = Content::Fill(pattern);
        zones.write(extent, content, Who::default(), false).await
    }

    #[test]
    fn cut_keeps_flushed_payloads_and_a_prefix_of_the_rest() {
        on(|zones| async move {
            for at in 0..5 {
                write(&zones, 3, at, at + 1).await.unwrap();
                if at == 1 {
                    zones.flush().await.unwrap();
                }
            }
            write(&zones, 0, 3, 9).await.unwrap();
            let mut rng = Seed(1).stream("cuts");
            let mut lens = std::collections::BTreeSet::new();
            for _ in 0..50 {
                let left = zones.after_any_cut(&mut rng);
                let zone = &left.zones[1];
                let expected = (1..6).map(Payload::Fill);
                assert!(
                    zone.payloads
                        .iter()
                        .zip(expected)
                        .all(|(is, was)| *is == was)
                );
                assert_eq!(zone.state, ZoneState::Closed);
                lens.insert(zone.payloads.len());
                let again = RamZones::holding(&zones.sim, left.clone());
                assert_eq!(
                    again.zone(3).map(|info| info.written()),
                    Some(zone.payloads.len() as u64 * SECTORS)
                );
            }
            assert_eq!(lens.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
            let none = zones.after_cut(&mut rng, |_, _, _| 0);
            assert_eq!(none.payload((3 * 8 + 1) * SECTORS), &Payload::Fill(2));
            assert_eq!(none.payload((3 * 8 + 2) * SECTORS), &Payload::Zero);
        });
    }

    #[test]
    fn writes_follow_the_write_pointer_and_the_zone_limits() {
        on(|zones| async move {
            assert_eq!(
                write(&zones, 2, 1, 1).await,
                Err(ZoneStatus::ZoneInvalidWrite)
            );
            for at in 0..7 {
                write(&zones, 2, at, 1).await.unwrap();
            }
            assert_eq!(write(&zones, 2, 7, 1).await, Err(ZoneStatus::ZoneIsFull));
            write(&zones, 3, 0, 1).await.unwrap();
            write(&zones, 4, 0, 1).await.unwrap();
            let states = [3, 4].map(|zone| zones.zone(zone).unwrap().state);
            assert_eq!(states, [ZoneState::Closed, ZoneState::ImplicitlyOpen]);
            assert_eq!(
                write(&zones, 5, 0, 1).await,
                Err(ZoneStatus::TooManyActiveZones)
            );
            zones.manage(3, ZoneAction::Finish).await.unwrap();
            write(&zones, 5, 0, 1).await.unwrap();
            zones.manage(2, ZoneAction::Reset).await.unwrap();
            let source = Extent::new(5 * 8 * SECTORS, SECTORS as u32);
            zones.manage(4, ZoneAction::Finish).await.unwrap();
            zones.copy(&[source], Lba(2 * 8 * SECTORS)).await.unwrap();
            assert_eq!(zones.in_use().implicitly_open, [2]);
        });
    }

    #[test]
    fn unflushed_data_of_a_failed_zone_are_lost_and_flush_reports_it() {
        on(|zones| async move {
            write(&zones, 2, 0, 1).await.unwrap();
            zones.flush().await.unwrap();
            zones.fail(3, ZoneState::Offline);
            zones.flush().await.unwrap();
            write(&zones, 2, 1, 2).await.unwrap();
            zones.fail(2, ZoneState::ReadOnly);
            assert_eq!(zones.flush().await, Err(ZoneStatus::WriteFault));
            assert_eq!(
                write(&zones, 2, 2, 2).await,
                Err(ZoneStatus::ZoneIsReadOnly)
            );
            assert_eq!(write(&zones, 3, 0, 2).await, Err(ZoneStatus::ZoneIsOffline));
            let left = zones.after_cut(&mut Seed(1).stream("cut"), |_, _, _| 0);
            assert_eq!(left.zones[0].payloads, [Payload::Fill(1)]);
            assert_eq!(left.zones[0].state, ZoneState::ReadOnly);
        });
    }
}
