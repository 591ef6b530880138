//! Handles of several tasks that stay open while others work on the same lines, and
//! the power cut under them.
//!
//! Each change writes its number to lines that its task alone has and to lines that
//! all have, with waits between. After a cut the changes of a task that are there are
//! the first so many, each of them whole; of a shared line, the last of the changes
//! that are there. Those that bring contents are out of line, so a task waits before
//! and after them.

use crate::bench::{BLOCKS, Body, Contents, Watch, holding, small, strict};
use bytefs::{Metrics, Options};
use extfs::{DataWrite, Persist, TxId};
use host::{Purpose, Who};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Ns, Placement};
use vfs::DirtyPage;

const TASKS: u64 = 5;
/// Blocks that the body does not know of, and the first of them.
const POOL: u64 = 6;
const FIRST: u64 = BLOCKS - 2 * POOL;
/// First block for file contents.
const DATA: u64 = BLOCKS - POOL;

/// Block of the pool, and line in it.
type Line = (u64, u64);

/// Changes of one task, and the durability that it may expect.
#[derive(Clone, Default)]
struct History {
    /// For each change, in order: the lines that it wrote and their values.
    changes: Vec<Vec<(Line, u64)>>,
    /// Changes that a force has covered.
    floor: usize,
    /// The number of the page of contents that a change has brought along.
    contents: Vec<u64>,
}

#[derive(Clone, Default)]
struct Ledger {
    tasks: [History; TASKS as usize],
    /// Number of writes so far, which are also the written values.
    clock: u64,
}

/// Line of a task's change counter. It alternates between two blocks, so that the order of
/// changes is not enforced by shared lines.
const fn counter(task: u64, change: u64) -> Line {
    (change % 2, task * 8)
}

fn draw(rng: &mut Rng, task: u64) -> Line {
    let own = rng.below(2) == 0;
    let line = if own {
        task * 8 + 1 + rng.below(7)
    } else {
        TASKS * 8 + rng.below(64 - TASKS * 8)
    };
    (rng.below(POOL), line)
}

struct Task {
    body: Rc<Body>,
    sim: Sim,
    task: u64,
    /// Last transaction of the task.
    last: Cell<TxId>,
    ledger: Rc<RefCell<Ledger>>,
}

impl Task {
    fn write(&self, tx: &<crate::bench::Strategy as Persist>::Tx, buffers: &Buffers, line: Line) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.clock += 1;
        let now = ledger.clock;
        let changes = &mut ledger.tasks[self.task as usize].changes;
        let own = changes.len() as u64;
        changes.last_mut().expect("it has begun").push((line, now));
        let value = if line == counter(self.task, own) {
            own
        } else {
            now
        };
        let (buffer, at) = (&buffers[line.0 as usize], line.1 as usize * 64);
        let bytes = value.to_le_bytes();
        self.body.persist().write(tx, buffer, at + 8, &bytes);
    }

    async fn change(&self, rng: &mut Rng, buffers: &Buffers) {
        let strategy = self.body.persist();
        let contents = rng.below(3) == 0;
        if contents {
            strategy.settle(self.last.get()).await.unwrap();
        }
        let mut tx = strategy.begin(2).await.unwrap();
        let begun = |history: &mut History| {
            history.changes.push(Vec::new());
            history.contents.push(0);
        };
        begun(&mut self.ledger.borrow_mut().tasks[self.task as usize]);
        let number = self.ledger.borrow().tasks[self.task as usize].changes.len() as u64;
        self.write(&tx, buffers, counter(self.task, number));
        for _ in 0..rng.below(6) {
            if strategy.extend(&mut tx, 1) {
                self.write(&tx, buffers, draw(rng, self.task));
            }
            if rng.below(2) == 0 {
                self.sim.sleep(Ns(rng.below(12))).await;
            }
        }
        let id = strategy.id(&tx);
        self.last.set(id);
        if contents {
            let number = self.note_contents();
            let page = DirtyPage {
                index: 0,
                now: Payload::Fill(number),
                before: None,
            };
            let write = DataWrite {
                start: DATA + self.task,
                pages: &[page],
                held: 0,
                end: u64::MAX,
                placement: Placement(0),
                who: Who::default(),
            };
            strategy.write_data(Some(tx), &[write]).await.unwrap();
            strategy.settle(id).await.unwrap();
        } else {
            strategy.end(tx).await.unwrap();
        }
        let done = self.ledger.borrow().tasks[self.task as usize].changes.len();
        if rng.below(4) == 0 {
            strategy.force(id).await.unwrap();
            self.ledger.borrow_mut().tasks[self.task as usize].floor = done;
        }
    }

    fn note_contents(&self) -> u64 {
        let mut ledger = self.ledger.borrow_mut();
        let history = &mut ledger.tasks[self.task as usize];
        let number = history.changes.len() as u64;
        *history.contents.last_mut().expect("it has begun") = number;
        number
    }
}

type Buffers = Vec<Rc<extfs::Buffer>>;

async fn work(sim: Sim, disk: host::RamDisk, run: Run, ledger: Rc<RefCell<Ledger>>, watch: Watch) {
    let (body, _) = bytefs::mount(&sim, &disk, run.options).await.unwrap();
    watch.set(&body);
    let mut buffers = Buffers::new();
    for block in FIRST..FIRST + POOL {
        buffers.push(body.persist().read(block, Purpose::Metadata).await.unwrap());
    }
    let (body, buffers) = (Rc::new(body), Rc::new(buffers));
    let tasks = (0..TASKS).map(|task| {
        let task = Task {
            body: Rc::clone(&body),
            sim: sim.clone(),
            task,
            last: Cell::default(),
            ledger: Rc::clone(&ledger),
        };
        let mut rng = Seed(run.seed).stream(&format!("task {}", task.task));
        let buffers = Rc::clone(&buffers);
        sim.spawn(async move {
            for _ in 0..run.changes {
                task.change(&mut rng, &buffers).await;
            }
        })
    });
    sim::join_all(tasks.collect()).await;
}

fn value(left: &Contents, block: u64, at: usize) -> u64 {
    let bytes = left.get(&block).map_or([0; 4_096], Payload::to_bytes);
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn judge(ledger: &Ledger, left: &Contents) {
    let mut expected: BTreeMap<Line, u64> = BTreeMap::new();
    for (task, history) in (0..).zip(&ledger.tasks) {
        let counts = [0, 1].map(|change| {
            let (block, line) = counter(task, change);
            value(left, FIRST + block, line as usize * 64 + 8) as usize
        });
        let there = counts[0].max(counts[1]);
        let before = counts[0].min(counts[1]);
        assert_eq!(
            before,
            there.saturating_sub(1),
            "task {task}: {there} without the one before"
        );
        let begun = history.changes.len();
        assert!(
            (history.floor..=begun).contains(&there),
            "task {task}: {there}"
        );
        for &(line, at) in history.changes[..there].iter().flatten() {
            let last = expected.entry(line).or_default();
            *last = at.max(*last);
        }
        for change in 0..2 {
            expected.remove(&counter(task, change));
        }
        // Contents are there before what leads to them; later ones may be, too.
        let contents = history.contents[..there].iter().max();
        let least = contents.copied().unwrap_or(0);
        let page = left
            .get(&(DATA + task))
            .map_or([0; 4_096], Payload::to_bytes);
        let number = u64::from_le_bytes(page[..8].try_into().unwrap());
        assert!(
            (least..=begun as u64).contains(&number),
            "task {task}: contents"
        );
    }
    for block in 0..POOL {
        for line in (0..64).filter(|line| line % 8 != 0 || *line >= TASKS * 8 || block > 1) {
            let there = value(left, FIRST + block, line as usize * 64 + 8);
            let last = expected.get(&(block, line)).copied().unwrap_or(0);
            assert_eq!(there, last, "block {block}, line {line}");
        }
    }
}

#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    changes: u64,
    options: Options,
}

fn explore(run: Run) -> Metrics {
    println!("seed {}", run.seed);
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), small());
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let (sim, watch) = (kernel.sim(), Watch::default());
    let started = work(sim, disk.clone(), run, Rc::clone(&ledger), watch.clone());
    kernel.sim().spawn_detached(started);
    let mut rng = Seed(run.seed).stream("cuts");
    let mut met = Metrics::default();
    while kernel.step() {
        met = watch.look();
        judge(&ledger.borrow(), &disk.after_cut(&mut rng));
    }
    let ledger = ledger.borrow();
    let all = ledger
        .tasks
        .iter()
        .map(|history| history.changes.len() as u64);
    assert_eq!(
        all.sum::<u64>(),
        TASKS * run.changes,
        "somebody waits for ever"
    );
    met
}

#[test]
//= bytefs 4.3
fn a_change_is_there_whole_or_not_at_all_and_in_order() {
    let (mut joins, mut reopened, mut follows) = (0, 0, 0);
    for seed in 0..12 {
        let met = explore(Run {
            seed,
            changes: 80,
            options: strict(),
        });
        joins += met.joins;
        reopened += met.reopened;
        follows += met.follows;
    }
    assert!(
        joins > 100 && reopened > 50 && follows > 50,
        "{joins} joins, {reopened} of closed ones, {follows} follow"
    );
}

#[test]
fn few_handles_and_little_room_let_nobody_wait_for_ever() {
    for seed in 0..12 {
        let met = explore(Run {
            seed,
            changes: 40,
            options: Options {
                handles: 1 + seed as usize % 3,
                open_lines: 640 + 64 * (seed % 4),
                ..strict()
            },
        });
        assert!(met.waits > 10 && met.commits > 10, "{met:?}");
    }
}

/// Tasks that change one line again and again: while the first change is on its way
/// all others pile up, and become the second transaction.
#[test]
//= bytefs 4.3
fn what_piles_up_while_one_commits_is_one_transaction() {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), small());
    let (sim, port) = (kernel.sim(), disk.clone());
    kernel.block_on(async move {
        let (body, _) = bytefs::mount(&sim, &port, strict()).await.unwrap();
        let body = Rc::new(body);
        let before = body.persist().metrics();
        let tasks = (0..TASKS).map(|task| {
            let body = Rc::clone(&body);
            sim.spawn(async move {
                let strategy = body.persist();
                for line in [task, 63] {
                    let buffer = strategy.read(FIRST, Purpose::Metadata).await.unwrap();
                    let tx = strategy.begin(1).await.unwrap();
                    let byte = task as u8 + 1;
                    strategy.write(&tx, &buffer, 63 * 64, &[byte]);
                    strategy.write(&tx, &buffer, line as usize * 64 + 1, &[byte]);
                    strategy.end(tx).await.unwrap();
                }
            })
        });
        sim::join_all(tasks.collect()).await;
        body.persist().force_all().await.unwrap();
        let met = body.persist().metrics() - before;
        assert!(met.reopened >= TASKS, "{met:?}");
        assert!(met.transactions <= 4, "{met:?}");
    });
    let left = disk.after_cut(&mut Seed(1).stream("cut"));
    let bytes = left[&FIRST].to_bytes();
    assert!((0..TASKS as usize).all(|task| bytes[task * 64 + 1] == task as u8 + 1));
}
