//! Model of the state of zones after a power cut, and the work that is cut.

use super::{PER, bytes, extent, tags, zones};
use sim::{Kernel, Seed, Sim};
use ssd::{Content, Drive, DriveConfig, ZoneAction, ZoneState, Zones};
use std::cell::RefCell;
use std::rc::Rc;
use units::Origin;

/// History of one zone. Lengths are in sectors of 4 KiB.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Resets of the zone that were sent.
    resets: u64,
    /// End of the data that were sent.
    sent: u64,
    /// End of the data that must survive.
    promised: u64,
    /// State before a reset that was sent and not answered; it may still be present.
    resetting: Option<Box<Past>>,
    /// Whether a finish was sent, and whether it was answered.
    finishing: bool,
    finished: bool,
}

/// The zones, from the view of the workers that write them.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    zones: Vec<Past>,
    protected: bool,
}

/// The tag of a sector: zone, number of resets, and sector.
fn tag(zone: u32, resets: u64, at: u64) -> u64 {
    1 << 63 | u64::from(zone) << 48 | resets << 24 | at
}

impl Model {
    pub(crate) fn new(config: &DriveConfig, zones: u32) -> Self {
        Self {
            zones: vec![Past::default(); zones as usize],
            protected: config.controller.power_loss_protection,
        }
    }

    /// Panics unless every zone of `drive`, just powered on, is in an allowed state.
    pub(crate) fn check(&self, kernel: &Kernel, drive: &Drive, context: &str) {
        let all = zones(drive);
        for (zone, past) in (0..).zip(&self.zones) {
            let info = all.info(zone).expect("the drive has the zone");
            let capacity = info.capacity / PER;
            let whole = extent(&all, zone, 0, info.size / PER);
            let reader = all.clone();
            let read = kernel.block_on(async move { tags(&reader, whole).await });
            let read = read.expect("every zone can be read");
            let data = read.iter().take_while(|&&tag| tag != 0).count() as u64;
            let context = format!("{context}: zone {zone}: {info:?}, {data} sectors, {past:?}");
            assert!(
                read[data as usize..].iter().all(|&tag| tag == 0),
                "{context}: data behind the end: {read:x?}"
            );
            assert!(data <= capacity, "{context}");
            let before = past.resetting.as_deref();
            let fits = |past: &Past| {
                let tagged = (0..).zip(&read[..data as usize]);
                let own = tagged
                    .clone()
                    .all(|(at, &t)| t == tag(zone, past.resets, at));
                own && (past.promised..=past.sent).contains(&data)
                    && past.agrees(&info, data, capacity)
            };
            let was = before.is_some_and(fits);
            assert!(
                was || fits(past),
                "{context}: {:x?}",
                &read[..data as usize]
            );
        }
    }
}

impl Past {
    /// Whether state and write pointer of `info` fit a zone with `data` sectors.
    fn agrees(&self, info: &ssd::ZoneInfo, data: u64, capacity: u64) -> bool {
        let pointer = info.write_pointer.map(|wp| (wp.0 - info.start.0) / PER);
        match info.state {
            ZoneState::Empty => data == 0 && pointer == Some(0) && !self.finished,
            ZoneState::Closed => data > 0 && pointer == Some(data) && !self.finished,
            ZoneState::Full => data == capacity || self.finishing,
            _ => false,
        }
    }
}

/// Parameters of the random work.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) workers: u32,
    pub(crate) ops: u32,
    /// Zones of each worker.
    pub(crate) zones: u32,
}

/// Starts the workers. Each has zones of its own, so it knows their whole history.
pub(crate) fn start(sim: &Sim, drive: &Drive, model: &Rc<RefCell<Model>>, mix: Mix, seed: u64) {
    for worker in 0..mix.workers {
        let one = Worker {
            zones: zones(drive),
            model: Rc::clone(model),
            mine: worker * mix.zones..(worker + 1) * mix.zones,
        };
        let mut rng = Seed(seed).stream(&format!("worker {worker}"));
        sim.spawn_detached(async move {
            for _ in 0..mix.ops {
                let count = u64::from(mix.zones);
                let zone = one.mine.start + rng.below(count) as u32;
                match rng.below(20) {
                    0 => one.reset(zone).await,
                    1 => one.finish(zone).await,
                    2..5 => one.flush().await,
                    n => one.write(zone, 1 + rng.below(9), n % 3 == 0, n > 16).await,
                }
            }
        });
    }
}

struct Worker {
    zones: Zones,
    model: Rc<RefCell<Model>>,
    mine: std::ops::Range<u32>,
}

impl Worker {
    async fn write(&self, zone: u32, len: u64, append: bool, fua: bool) {
        let info = self.zones.info(zone).expect("the drive has the zone");
        let capacity = info.capacity / PER;
        let (at, resets, full) = {
            let model = self.model.borrow();
            let past = &model.zones[zone as usize];
            let full = past.finished || past.sent == capacity;
            (past.sent, past.resets, full)
        };
        if full {
            return self.reset(zone).await;
        }
        let len = len.min(capacity - at);
        self.model.borrow_mut().zones[zone as usize].sent = at + len;
        let content = bytes((at..at + len).map(|at| tag(zone, resets, at)));
        let target = extent(&self.zones, zone, at, len);
        let content = Content::Bytes(&content);
        if append {
            let sectors = (len * PER) as u32;
            let appended = self
                .zones
                .append(zone, sectors, content, Origin(0), fua)
                .await;
            assert_eq!(
                appended,
                Ok(target.start),
                "where the host knew that it ends"
            );
        } else {
            let written = self.zones.write(target, content, Origin(0), fua).await;
            assert_eq!(written, Ok(()), "zone {zone} at {at}");
        }
        let mut model = self.model.borrow_mut();
        if fua || model.protected {
            model.zones[zone as usize].promised = at + len;
        }
    }

    /// Flushes; all data of this worker that were sent before must survive afterwards.
    async fn flush(&self) {
        let own = |model: &Model| -> Vec<u64> {
            let zones = self.mine.clone().map(|zone| &model.zones[zone as usize]);
            zones.map(|past| past.sent).collect()
        };
        let before = own(&self.model.borrow());
        self.zones.flush().await.expect("no fault is injected");
        let mut model = self.model.borrow_mut();
        for (zone, sent) in self.mine.clone().zip(before) {
            model.zones[zone as usize].promised = sent;
        }
    }

    async fn reset(&self, zone: u32) {
        {
            let mut model = self.model.borrow_mut();
            let past = &mut model.zones[zone as usize];
            let resets = past.resets + 1;
            let before = std::mem::take(past);
            past.resets = resets;
            past.resetting = Some(Box::new(before));
        }
        let reset = self.zones.manage(zone, ZoneAction::Reset).await;
        assert_eq!(reset, Ok(()), "reset of zone {zone}");
        self.model.borrow_mut().zones[zone as usize].resetting = None;
    }

    async fn finish(&self, zone: u32) {
        self.model.borrow_mut().zones[zone as usize].finishing = true;
        let finish = self.zones.manage(zone, ZoneAction::Finish).await;
        assert_eq!(finish, Ok(()), "finish of zone {zone}");
        let info = self.zones.info(zone).expect("the drive has the zone");
        let mut model = self.model.borrow_mut();
        let past = &mut model.zones[zone as usize];
        // A zone that writes have filled takes no mark, and its programs may be under way.
        if past.sent == info.capacity / PER {
            return;
        }
        past.finished = true;
        // All accepted writes come before the mark of the finish.
        past.promised = past.sent;
    }
}
