//! A driver that does random things to a device and knows what must be there.

use memsys::{Far, FarEvent, Line, LineData, ReadReply, Tag};
use sim::{Kernel, Rng, Seed, Sim};
use skybyte::{CxlSsd, Design, DeviceConfig, DeviceMedia, Profile};
use ssd::Precondition;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::Ns;

/// The smallest device of the design of this name.
pub(crate) fn small(design: &str, profile: Profile) -> DeviceConfig {
    profile.tiny_device(Design::named(design).expect("it is in the table"))
}

/// Record of accesses and answers, by which the device is judged.
pub(crate) struct World {
    /// Every version that a line has had, newest last; zeros before the first.
    versions: BTreeMap<u64, Vec<[u8; 64]>>,
    /// Pages that the host holds, with the lines that it has to write back.
    pub(crate) held: BTreeMap<u64, u64>,
    /// Reads that wait: line, and how many versions it had.
    waiting: BTreeMap<Tag, (u64, usize)>,
    /// Everything that the device has said, in order.
    pub(crate) said: Vec<String>,
}

const ZEROS: [u8; 64] = [0; 64];

impl World {
    fn new() -> Self {
        Self {
            versions: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    pub(crate) fn newest(&self, line: u64) -> [u8; 64] {
        let versions = self.versions.get(&line);
        versions.and_then(|v| v.last()).copied().unwrap_or(ZEROS)
    }

    /// Lines that were written and that the host does not hold.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> {
        let lines = self.versions.keys().copied();
        lines.filter(|line| !self.held.contains_key(&(line / 64)))
    }

    /// Asserts that `data` is valid for a read that began when the line had `before` versions:
    /// the newest version at that time or a later one.
    fn judge(&self, line: u64, before: usize, data: LineData) {
        let data = data.expect("contents are kept");
        let versions = self.versions.get(&line).map_or(&[][..], |v| v);
        let at_first = before == 0 && data == ZEROS;
        let since = &versions[before.saturating_sub(1)..];
        assert!(
            at_first || since.contains(&data),
            "line {line}: {:?} is none of the {} versions since",
            &data[..9],
            since.len()
        );
    }
}

/// A device with its driver.
pub(crate) struct Driver {
    pub(crate) sim: Sim,
    pub(crate) device: CxlSsd,
    pub(crate) world: Rc<RefCell<World>>,
    rng: Rng,
    tag: u16,
    pages: u64,
}

impl Driver {
    pub(crate) fn new(sim: &Sim, config: &DeviceConfig, seed: u64, pages: u64) -> Self {
        let media = DeviceMedia::new(config, Precondition::Fresh, Seed(seed)).unwrap();
        let device = CxlSsd::ready(sim, config, media, Seed(seed)).unwrap();
        Self {
            sim: sim.clone(),
            device,
            world: Rc::new(RefCell::new(World::new())),
            rng: Seed(seed).stream("driver"),
            tag: 0,
            pages,
        }
    }

    /// Handles the device's events; returns whether it has room for writes again.
    fn listen(&mut self) -> bool {
        let mut room = false;
        while let Some(event) = self.device.event() {
            let mut world = self.world.borrow_mut();
            world.said.push(format!("{:?} {event:?}", self.sim.now()));
            match event {
                FarEvent::Data(tag, at, data) => {
                    assert!(at >= Ns::ZERO);
                    let (line, before) = world.waiting.remove(&tag).expect("it waited");
                    world.judge(line, before, data);
                }
                FarEvent::Room => room = true,
                FarEvent::Hot(page, _) => assert!(page < self.pages),
            }
        }
        room
    }

    pub(crate) fn read(&mut self, line: u64) {
        let now = self.sim.now();
        self.tag = self.tag.wrapping_add(1);
        let tag = Tag(self.tag);
        let reply = match self.rng.chance(1, 8) {
            true => self.device.copy_read(now, Line(line), tag),
            false => self.device.read(now, Line(line), tag),
        };
        let mut world = self.world.borrow_mut();
        world.said.push(format!("{now:?} {line} {reply:?}"));
        let before = world.versions.get(&line).map_or(0, Vec::len);
        match reply {
            ReadReply::Data(at, data) => {
                assert!(at > now, "nothing takes no time");
                assert_eq!(data, Some(world.newest(line)), "line {line}");
            }
            ReadReply::Waits => {
                world.waiting.insert(tag, (line, before));
            }
            ReadReply::Delay(at) => assert!(at > now),
        }
    }

    pub(crate) async fn write(&mut self, line: u64) {
        let mut data = [0; 64];
        data[..8].copy_from_slice(&line.to_le_bytes());
        data[8..16].copy_from_slice(&self.rng.next_u64().to_le_bytes());
        self.write_data(line, data).await;
    }

    async fn write_data(&mut self, line: u64, data: [u8; 64]) {
        loop {
            let now = self.sim.now();
            if let Some(at) = self.device.write(now, Line(line), Some(data)) {
                assert!(at >= now);
                let mut world = self.world.borrow_mut();
                world.said.push(format!("{now:?} {line} written {at:?}"));
                world.versions.entry(line).or_default().push(data);
                return;
            }
            for waits in 0.. {
                assert!(waits < 1_000_000, "room never comes");
                if self.listen() {
                    break;
                }
                self.sim.sleep(Ns(500)).await;
            }
        }
    }

    /// The host takes a page, or gives one back that it has had.
    async fn migrate(&mut self) {
        let taken = self.world.borrow().held.len();
        if taken < 3 && self.rng.chance(2, 3) {
            // Often one that was in use just now.
            let page = self.rng.below(self.pages / 8 + 1);
            if !self.world.borrow().held.contains_key(&page) {
                let lines = self.device.drop_page(page);
                self.world.borrow_mut().held.insert(page, lines);
            }
            return;
        }
        let held = self.world.borrow_mut().held.pop_first();
        let Some((page, lines)) = held else { return };
        // Still held until all of it is back.
        self.world.borrow_mut().held.insert(page, lines);
        for at in (0..64).filter(|at| lines >> at & 1 == 1) {
            let line = page * 64 + at;
            let data = self.world.borrow().newest(line);
            self.write_data(line, data).await;
        }
        self.world.borrow_mut().held.remove(&page);
    }

    /// A line, more often one of few pages.
    fn draw(&mut self) -> Option<u64> {
        let most = if self.rng.chance(1, 3) {
            self.pages
        } else {
            self.pages / 8 + 1
        };
        let page = self.rng.below(most);
        let at = self.rng.below(64) & self.rng.below(64);
        let held = self.world.borrow().held.contains_key(&page);
        (!held).then_some(page * 64 + at)
    }

    /// Does `steps` random things.
    pub(crate) async fn work(mut self, steps: u32) -> Self {
        for _ in 0..steps {
            self.listen();
            match (self.draw(), self.rng.below(100)) {
                (_, 0..3) => self.migrate().await,
                (Some(line), 3..50) => self.read(line),
                (Some(line), _) => self.write(line).await,
                _ => {}
            }
            if self.rng.chance(1, 3) {
                let most = if self.rng.chance(1, 20) {
                    200_000
                } else {
                    2_000
                };
                let gap = Ns(self.rng.below(most));
                self.sim.sleep(gap).await;
            }
        }
        self
    }

    /// Waits until nothing is under way, and judges all that was written.
    pub(crate) async fn settle(mut self) -> Self {
        for _ in 0..200 {
            self.sim.sleep(Ns::us(100)).await;
            self.listen();
        }
        assert!(
            self.world.borrow().waiting.is_empty(),
            "every read was answered"
        );
        self.device.check();
        let written: Vec<u64> = self.world.borrow().written().collect();
        for line in written {
            let data = read_back(&self.sim, &mut self.device, line).await;
            assert_eq!(data, Some(self.world.borrow().newest(line)), "line {line}");
        }
        self
    }
}

/// Reads a line of an otherwise idle device; repeats the read while the device answers with delay
/// hints.
pub(crate) async fn read_back(sim: &Sim, device: &mut CxlSsd, line: u64) -> LineData {
    loop {
        match device.read(sim.now(), Line(line), Tag(7)) {
            ReadReply::Data(_, data) => return data,
            ReadReply::Delay(_) => sim.sleep(Ns::us(2)).await,
            ReadReply::Waits => loop {
                match device.event() {
                    Some(FarEvent::Data(Tag(7), _, data)) => return data,
                    Some(_) => {}
                    None => sim.sleep(Ns(500)).await,
                }
            },
        }
    }
}

/// Runs `steps` random steps on a device of `config`.
pub(crate) fn run(
    config: &DeviceConfig,
    seed: u64,
    pages: u64,
    steps: u32,
) -> (CxlSsd, Vec<String>) {
    let kernel = Kernel::new();
    let driver = Driver::new(&kernel.sim(), config, seed, pages);
    let driver = kernel.block_on(async move { driver.work(steps).await.settle().await });
    let said = std::mem::take(&mut driver.world.borrow_mut().said);
    (driver.device, said)
}
