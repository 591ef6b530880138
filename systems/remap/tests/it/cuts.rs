//! Power cuts before random events: during transactions, drops of tables, checkpoints, cleaning,
//! and recovery itself.

use crate::memory::{SIZE, disk, layout, options, read, trim, units, write};
use host::{BlockPort, RamDisk};
use judges::rounds;
use nand::Payload;
use remap::{Options, Remap, Variant};
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::Ns;

/// Concurrent writers, each on its own part of the layer.
const TASKS: u64 = 3;

/// History of one unit; before its first version it reads as zeros.
#[derive(Clone, Default)]
struct Unit {
    /// Patterns in order of their writes; 0 for a discard.
    versions: Vec<u64>,
    /// Versions known to be acknowledged.
    answered: usize,
    /// Versions known to be durable.
    forced: usize,
}

impl Unit {
    /// Whether a cut may leave `pattern`.
    fn allows(&self, pattern: u64) -> bool {
        let floor = self.forced.checked_sub(1);
        let later = &self.versions[floor.unwrap_or(0)..];
        later.contains(&pattern) || (floor.is_none() && pattern == 0)
    }
}

#[derive(Clone, Default)]
struct Past(Rc<RefCell<Vec<Unit>>>);

impl Past {
    fn begin(&self, unit: u64, count: u32, pattern: u64) {
        let mut past = self.0.borrow_mut();
        for unit in &mut past[unit as usize..][..count as usize] {
            unit.versions.push(pattern);
        }
    }

    fn end(&self, unit: u64, count: u32, forced: bool) {
        let mut past = self.0.borrow_mut();
        for unit in &mut past[unit as usize..][..count as usize] {
            unit.answered = unit.versions.len();
            if forced {
                unit.forced = unit.answered;
            }
        }
    }

    fn answered(&self) -> Vec<usize> {
        self.0.borrow().iter().map(|unit| unit.answered).collect()
    }

    fn forced(&self, answered: &[usize]) {
        for (unit, &answered) in self.0.borrow_mut().iter_mut().zip(answered) {
            unit.forced = unit.forced.max(answered);
        }
    }
}

/// A scenario: a filled layer on a RAM disk, and the requests to run on it.
struct Layer {
    options: Options,
    seed: u64,
    requests: u64,
    /// Contents of the disk after the layer was formatted and filled.
    left: Left,
    past: Vec<Unit>,
}

struct Live {
    sim: Sim,
    disk: RamDisk,
    port: Rc<RefCell<Option<Remap<RamDisk>>>>,
    past: Past,
    done: Rc<Cell<u64>>,
    seed: u64,
}

type Left = BTreeMap<u64, Payload>;
type Shown = Result<Vec<u64>, String>;

struct Recovery {
    sim: Sim,
    disk: RamDisk,
    shown: Rc<RefCell<Option<Shown>>>,
    seed: u64,
}

fn cut(sim: &Sim, disk: &RamDisk, seed: u64) -> Left {
    let mut rng = Seed(seed).child(sim.events()).stream("cut");
    disk.after_cut(&mut rng)
}

impl Layer {
    fn new(variant: Variant, seed: u64, requests: u64) -> Self {
        let options = options(variant);
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let (left, past) = kernel.block_on(async move {
            let disk = RamDisk::new(&sim, SIZE);
            remap::format(&disk, &layout()).await.unwrap();
            let port = remap::open(&sim, &disk, options).await.unwrap();
            let mut past = vec![Unit::default(); units(&port) as usize];
            for (unit, past) in (0..).zip(&mut past) {
                write(&port, unit, 1, 1 << 32 | unit, false).await.unwrap();
                past.versions.push(1 << 32 | unit);
                (past.answered, past.forced) = (1, 1);
            }
            port.close().await.unwrap();
            let mut rng = Seed(0).stream("all of it");
            (disk.after_cut(&mut rng), past)
        });
        Self {
            options,
            seed,
            requests,
            left,
            past,
        }
    }
}

/// Runs the random requests of one task.
async fn ask(
    port: Remap<RamDisk>,
    sim: Sim,
    past: Past,
    mut rng: Rng,
    (task, requests): (u64, u64),
) {
    let own = units(&port) / TASKS;
    for number in 1..=requests {
        let count = 1 + rng.below(6) as u32;
        let unit = task * own + rng.below(own - u64::from(count));
        let pattern = (task + 2) << 32 | number;
        match rng.below(10) {
            0..7 => {
                let fua = rng.below(6) == 0;
                past.begin(unit, count, pattern);
                write(&port, unit, count, pattern, fua).await.unwrap();
                past.end(unit, count, fua);
            }
            7 => {
                past.begin(unit, count, 0);
                trim(&port, unit, count).await;
                past.end(unit, count, false);
            }
            8 => {
                let answered = past.answered();
                port.flush().await.unwrap();
                past.forced(&answered);
            }
            // Long enough for background cleaning to begin.
            _ => sim.sleep(Ns(rng.below(600))).await,
        }
    }
}

impl Layer {
    fn start(&self, kernel: &Kernel) -> Live {
        let live = Live {
            sim: kernel.sim(),
            disk: disk(&kernel.sim(), self.left.clone()),
            port: Rc::default(),
            past: Past(Rc::new(RefCell::new(self.past.clone()))),
            done: Rc::default(),
            seed: self.seed,
        };
        let (sim, disk, past) = (kernel.sim(), live.disk.clone(), live.past.clone());
        let (options, requests) = (self.options, self.requests);
        let (done, seed, shown) = (
            Rc::clone(&live.done),
            Seed(self.seed),
            Rc::clone(&live.port),
        );
        kernel.sim().spawn_detached(async move {
            let port = remap::open(&sim, &disk, options).await.unwrap();
            *shown.borrow_mut() = Some(port.clone());
            for task in 0..TASKS {
                let rng = seed.child(task).stream("requests");
                let asks = ask(
                    port.clone(),
                    sim.clone(),
                    past.clone(),
                    rng,
                    (task, requests),
                );
                let done = Rc::clone(&done);
                sim.spawn_detached(async move {
                    asks.await;
                    done.set(done.get() + 1);
                });
            }
        });
        live
    }

    /// Contents of the disk after a cut now; checks the invariants first.
    fn cut(&self, live: &Live) -> Left {
        let port = live.port.borrow();
        if let Some(port) = &*port {
            port.check().unwrap();
        }
        cut(&live.sim, &live.disk, live.seed)
    }

    fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        let recovery = Recovery {
            sim: kernel.sim(),
            disk: disk(&kernel.sim(), left),
            shown: Rc::default(),
            seed: self.seed,
        };
        let (sim, disk, options) = (kernel.sim(), recovery.disk.clone(), self.options);
        let shown = Rc::clone(&recovery.shown);
        kernel.sim().spawn_detached(async move {
            let found = recover(&sim, &disk, options).await;
            *shown.borrow_mut() = Some(found);
        });
        recovery
    }

    /// Recovers from `left` and checks every unit against its history; returns the number of events
    /// of the recovery.
    fn judge(&self, live: &Live, left: Left, cut: &str) -> u64 {
        let kernel = Kernel::new();
        let recovery = self.power_on(&kernel, left);
        while recovery.shown.borrow().is_none() {
            assert!(
                kernel.step(),
                "recovery of {cut} comes to rest before its end"
            );
        }
        let shown = recovery.shown.take().expect("it has come to its end");
        let shown = shown.unwrap_or_else(|error| panic!("recovery of {cut}: {error}"));
        let past = live.past.0.borrow();
        for (unit, (past, &pattern)) in past.iter().zip(&shown).enumerate() {
            let versions = &past.versions;
            assert!(
                past.allows(pattern),
                "{cut}: unit {unit} reads as {pattern:#x}, of {versions:#x?}, {} forced",
                past.forced
            );
        }
        kernel.sim().events()
    }

    /// Cuts the power before each of about `points` events, and within a quarter of the recoveries;
    /// returns the number of states judged.
    fn explore(&self, points: u64, met: &mut BTreeMap<&'static str, u64>) -> u64 {
        let (seed, mut judged) = (self.seed, 0);
        let length = {
            let kernel = Kernel::new();
            let live = self.start(&kernel);
            while live.done.get() < TASKS {
                assert!(kernel.step(), "the requests of seed {seed} come to rest");
            }
            kernel.sim().events()
        };
        let mut rng = Seed(seed).stream("points");
        let kernel = Kernel::new();
        let live = self.start(&kernel);
        while kernel.sim().events() < length && kernel.step() {
            if !rng.chance(points, length) {
                continue;
            }
            let event = kernel.sim().events();
            let cut = format!("seed {seed}, event {event}");
            let left = self.cut(&live);
            for what in meets(&live) {
                *met.entry(what).or_insert(0) += 1;
            }
            let events = self.judge(&live, left.clone(), &cut);
            judged += 1;
            if rng.below(4) > 0 {
                continue;
            }
            let second = rng.below(events);
            let again = Kernel::new();
            let recovery = self.power_on(&again, left);
            while again.sim().events() < second && again.step() {}
            let cut = format!("{cut}, event {second} of recovery");
            let left = self::cut(&recovery.sim, &recovery.disk, recovery.seed);
            self.judge(&live, left, &cut);
            judged += 1;
        }
        judged
    }
}

/// Activities that have happened before a cut at this moment.
fn meets(live: &Live) -> Vec<&'static str> {
    let port = live.port.borrow();
    let Some(port) = &*port else {
        return vec!["recovery"];
    };
    let metrics = port.metrics();
    let met = [
        ("cleaning in the foreground", metrics.foreground_passes > 0),
        ("cleaning in the background", metrics.passes > 0),
        ("checkpoints", metrics.checkpoints > 0),
        ("tables dropped", metrics.tables_dropped > 0),
    ];
    met.into_iter()
        .filter(|(_, met)| *met)
        .map(|(what, _)| what)
        .collect()
}

/// Opens the layer and reads every unit.
async fn recover(sim: &Sim, disk: &RamDisk, options: Options) -> Shown {
    let port = remap::open(sim, disk, options)
        .await
        .map_err(|error| error.to_string())?;
    port.check()?;
    let mut shown = Vec::new();
    for unit in 0..units(&port) {
        shown.push(read(&port, unit).await.map_err(|error| error.to_string())?);
    }
    Ok(shown)
}

/// Number of runs: 2, or the value of `REMAP_RUNS`.
fn runs() -> u64 {
    let said = std::env::var("REMAP_RUNS").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(2)
}

#[test]
fn cut_keeps_durable_units_and_leaves_others_old_or_new() {
    let mut met = BTreeMap::new();
    let (mut judged, cuts) = (0, rounds(600, 1_500));
    for seed in 1..=runs() {
        let variant = Variant::ALL[seed as usize % 2];
        let layer = Layer::new(variant, seed, 60);
        judged += layer.explore(cuts, &mut met);
    }
    println!("{judged} states were judged; {met:?}");
    assert!(
        judged > cuts * 2 / 3 * runs(),
        "{judged} states were judged"
    );
    for what in [
        "cleaning in the foreground",
        "cleaning in the background",
        "checkpoints",
        "tables dropped",
    ] {
        assert!(met.contains_key(what), "no cut met {what}: {met:?}");
    }
}
