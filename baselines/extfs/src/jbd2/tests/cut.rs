//! The power is cut before every event of a random client, and what recovers is
//! compared with a model: some transaction is the last one, everything up to it
//! is there and nothing after it, and it is no older than what was forced.

use super::probe::Probe;
use super::*;
use sim::{Kernel, Rng, Seed};
use std::cell::Cell;

/// Blocks that all change together, a block that says what the others are, and
/// the others.
const COUNTERS: u64 = 100;
const COUNTED: u64 = 20;
const TABLE: u64 = 150;
const POOL: u64 = 200;
const POOLED: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// Somebody is at it, or it is freed and not durably so.
    Taken,
    Metadata(u64),
    Contents(u64),
}

impl Use {
    fn code(self) -> u64 {
        match self {
            Self::Free | Self::Taken => 0,
            Self::Metadata(version) => version << 2 | 1,
            Self::Contents(version) => version << 2 | 2,
        }
    }
}

/// What a transaction did.
#[derive(Clone, Debug)]
enum Done {
    Counted(u64, Vec<u64>),
    Used(usize, Use),
}

/// What a checker knows.
struct Model {
    done: RefCell<Vec<(TxId, Done)>>,
    forced: Cell<TxId>,
    pool: RefCell<Vec<Use>>,
    version: Cell<u64>,
    rng: RefCell<Rng>,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            done: RefCell::default(),
            forced: Cell::default(),
            pool: RefCell::new(vec![Use::Free; POOLED]),
            version: Cell::new(1),
            rng: RefCell::new(Seed(seed).stream("client")),
        }
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    fn next(&self) -> u64 {
        self.version.set(self.version.get() + 1);
        self.version.get()
    }

    fn note(&self, id: TxId, done: Done) {
        self.done.borrow_mut().push((id, done));
    }

    /// Takes a block of the pool whose use `wanted` likes.
    fn take(&self, wanted: impl Fn(Use) -> bool) -> Option<(usize, Use)> {
        let mut pool = self.pool.borrow_mut();
        let start = self.below(POOLED as u64) as usize;
        let mut places = (0..POOLED).map(|index| (start + index) % POOLED);
        let place = places.find(|&place| wanted(pool[place]))?;
        Some((place, std::mem::replace(&mut pool[place], Use::Taken)))
    }
}

type Journal = Jbd2<Probe>;

/// One of several clients that work at the same time.
async fn client(journal: Journal, model: Rc<Model>, rounds: u64, mode: Mode) {
    for _ in 0..rounds {
        for run in journal.freed() {
            model.pool.borrow_mut()[(run.start - POOL) as usize] = Use::Free;
        }
        let id = match model.below(8) {
            0 | 1 => count(&journal, &model).await,
            2 => new_metadata(&journal, &model).await,
            3 => new_contents(&journal, &model).await,
            4 => old_metadata(&journal, &model).await,
            5 | 6 => release(&journal, &model).await,
            _ if mode == Mode::Journal => old_contents(&journal, &model).await,
            _ => count(&journal, &model).await,
        };
        if model.below(6) == 0 {
            journal.force(id).await.unwrap();
            model.forced.set(model.forced.get().max(id));
        }
    }
}

async fn count(journal: &Journal, model: &Model) -> TxId {
    let blocks: Vec<_> = (0..=model.below(5))
        .map(|_| COUNTERS + model.below(COUNTED))
        .collect();
    let mut buffers = Vec::new();
    for &block in &blocks {
        buffers.push(journal.read(block, Purpose::Inode).await.unwrap());
    }
    let tx = journal.begin(buffers.len()).await.unwrap();
    let version = model.next();
    for buffer in &buffers {
        journal.write(&tx, buffer, 8, &version.to_le_bytes());
    }
    model.note(journal.id(&tx), Done::Counted(version, blocks));
    journal.end(tx).await.unwrap()
}

/// Changes the use of a block in the table.
async fn begin_use(journal: &Journal, place: usize, new: Use, more: usize) -> Handle {
    let table = journal.read(TABLE, Purpose::Bitmap).await.unwrap();
    let tx = journal.begin(1 + more).await.unwrap();
    journal.write(&tx, &table, place * 8, &new.code().to_le_bytes());
    tx
}

async fn new_metadata(journal: &Journal, model: &Model) -> TxId {
    let Some((place, _)) = model.take(|u| u == Use::Free) else {
        return TxId(0);
    };
    let version = model.next();
    let new = Use::Metadata(version);
    let tx = begin_use(journal, place, new, 1).await;
    let buffer = journal.create(&tx, POOL + place as u64, Purpose::Directory);
    journal.write(&tx, &buffer, 0, &version.to_le_bytes());
    finish_use(journal, model, tx, place, new).await
}

async fn finish_use(journal: &Journal, model: &Model, tx: Handle, place: usize, new: Use) -> TxId {
    model.note(journal.id(&tx), Done::Used(place, new));
    if new != Use::Free {
        model.pool.borrow_mut()[place] = new;
    }
    journal.end(tx).await.unwrap()
}

async fn old_metadata(journal: &Journal, model: &Model) -> TxId {
    let Some((place, _)) = model.take(|u| matches!(u, Use::Metadata(_))) else {
        return TxId(0);
    };
    let block = POOL + place as u64;
    let buffer = journal.read(block, Purpose::Directory).await.unwrap();
    let version = model.next();
    let new = Use::Metadata(version);
    let tx = begin_use(journal, place, new, 1).await;
    journal.write(&tx, &buffer, 0, &version.to_le_bytes());
    finish_use(journal, model, tx, place, new).await
}

/// Contents whose first bytes make up a block of the log now and then.
fn contents(version: u64) -> u64 {
    let magic = u64::from(u32::from_le_bytes([0xc0, 0x3b, 0x39, 0x98]));
    if version.is_multiple_of(3) {
        version << 32 | magic
    } else {
        version << 32
    }
}

async fn write_contents(journal: &Journal, tx: Option<Handle>, place: usize, version: u64) -> TxId {
    let pages = [page(contents(version))];
    let write = DataWrite {
        start: POOL + place as u64,
        pages: &pages,
        held: 0,
        end: u64::MAX,
        placement: Placement(0),
        who: Who::default(),
    };
    journal.write_data(tx, &[write]).await.unwrap()
}

async fn new_contents(journal: &Journal, model: &Model) -> TxId {
    let Some((place, _)) = model.take(|u| u == Use::Free) else {
        return TxId(0);
    };
    let version = model.next();
    let new = Use::Contents(version);
    let tx = begin_use(journal, place, new, 0).await;
    model.note(journal.id(&tx), Done::Used(place, new));
    let id = write_contents(journal, Some(tx), place, version).await;
    model.pool.borrow_mut()[place] = new;
    id
}

/// Writes contents again, with the table in the same transaction.
async fn old_contents(journal: &Journal, model: &Model) -> TxId {
    let Some((place, _)) = model.take(|u| matches!(u, Use::Contents(_))) else {
        return TxId(0);
    };
    let version = model.next();
    let new = Use::Contents(version);
    // Journaled contents are as atomic as metadata if they fit.
    let tx = begin_use(journal, place, new, 0).await;
    model.note(journal.id(&tx), Done::Used(place, new));
    let id = write_contents(journal, Some(tx), place, version).await;
    model.pool.borrow_mut()[place] = new;
    id
}

async fn release(journal: &Journal, model: &Model) -> TxId {
    let used = |u| matches!(u, Use::Metadata(_) | Use::Contents(_));
    let Some((place, old)) = model.take(used) else {
        return TxId(0);
    };
    let tx = begin_use(journal, place, Use::Free, 0).await;
    let start = POOL + place as u64;
    if matches!(old, Use::Metadata(_)) {
        journal.forget(&tx, start);
    }
    journal.free(&tx, Run { start, len: 1 });
    finish_use(journal, model, tx, place, Use::Free).await
}

/// What the blocks hold after every transaction up to `last`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Expected {
    counters: Vec<u64>,
    uses: Vec<u64>,
}

impl Expected {
    fn nothing() -> Self {
        Self {
            counters: vec![0; COUNTED as usize],
            uses: vec![0; POOLED],
        }
    }

    fn apply(&mut self, done: &Done) {
        match done {
            Done::Counted(version, blocks) => {
                for block in blocks {
                    self.counters[(block - COUNTERS) as usize] = *version;
                }
            }
            Done::Used(place, new) => self.uses[*place] = new.code(),
        }
    }

    fn of(disk: &BTreeMap<u64, Payload>) -> Self {
        let number = |block, at| {
            let mut bytes = [0; 8];
            let payload = disk.get(&block).unwrap_or(&Payload::Zero);
            assert!(payload.copy_to(at, &mut bytes));
            u64::from_le_bytes(bytes)
        };
        let uses: Vec<_> = (0..POOLED).map(|place| number(TABLE, place * 8)).collect();
        for (place, code) in uses.iter().enumerate() {
            let first = number(POOL + place as u64, 0);
            match code & 3 {
                1 => assert_eq!(first, code >> 2, "metadata at {place}"),
                2 => assert_eq!(first, contents(code >> 2), "contents at {place}"),
                _ => {}
            }
        }
        Self {
            counters: (0..COUNTED).map(|c| number(COUNTERS + c, 8)).collect(),
            uses,
        }
    }
}

/// The transaction that `found` is the state after.
fn last_transaction(model: &Model, found: &Expected) -> Option<TxId> {
    let done = model.done.borrow();
    let mut state = Expected::nothing();
    let (mut last, mut match_at) = (TxId(0), None);
    for (id, done) in done.iter() {
        assert!(*id >= last, "transactions follow each other");
        if *id > last && state == *found {
            match_at = Some(last);
        }
        last = *id;
        state.apply(done);
    }
    if state == *found {
        Some(last)
    } else {
        match_at
    }
}

/// Recovers what a cut has left, cutting the recovery itself now and then.
fn recover(
    mut left: BTreeMap<u64, Payload>,
    config: &JournalConfig,
    rng: &mut Rng,
) -> BTreeMap<u64, Payload> {
    loop {
        let kernel = Kernel::new();
        let size = Bytes(4096 * BLOCK as u64);
        let disk = host::RamDisk::holding(&kernel.sim(), size, left);
        let (sim, port, config) = (kernel.sim(), disk.clone(), config.clone());
        let task = kernel.sim().spawn(async move {
            Jbd2::open(&sim, port, config).await.unwrap();
        });
        let mut task = task;
        let cut = if rng.below(2) == 0 {
            rng.below(12)
        } else {
            1 << 20
        };
        for _ in 0..cut {
            if !kernel.step() {
                break;
            }
        }
        left = disk.after_cut(rng);
        if task.take().is_some() {
            return left;
        }
    }
}

/// Cuts a journal of `log` blocks before every event of three clients.
fn cut_everywhere(seed: u64, log: u32, mode: Mode, rounds: u64) {
    let kernel = Kernel::new();
    let (disk, mut config) = new_disk(&kernel.sim(), log);
    config.mode = mode;
    config.commit_interval = Ns(1000);
    config.flush_interval = Ns(300);
    config.dirty_expire = Ns(900);
    (config.cost_per_commit, config.cost_per_block) = (Ns(0), Ns(0));
    config.cache_blocks = 30;
    let model = Rc::new(Model::new(seed));
    let mut port = Probe::new(&kernel.sim(), disk.clone());
    port.jitter = Some(Rc::new(RefCell::new(Seed(seed).stream("jitter"))));
    let (sim, at_start) = (kernel.sim(), config.clone());
    let shared = model.clone();
    let journal = kernel.block_on(async move {
        let (journal, _) = Jbd2::open(&sim, port, at_start).await.unwrap();
        for _ in 0..3 {
            sim.spawn_detached(client(journal.clone(), shared.clone(), rounds, mode));
        }
        journal
    });
    let mut rng = Seed(seed).stream("cuts");
    while kernel.step() {
        let forced = model.forced.get();
        let left = recover(disk.after_cut(&mut rng), &config, &mut rng);
        let found = Expected::of(&left);
        let last = last_transaction(&model, &found);
        let last = last.unwrap_or_else(|| panic!("no such state: seed {seed} {found:?}"));
        assert!(last >= forced, "{last:?} was recovered, {forced:?} forced");
    }
    let counts = journal.counts();
    assert!(counts.commits >= rounds / 8, "{counts:?}");
}

#[test]
fn a_prefix_survives_a_cut_before_any_event() {
    for seed in 0..16 {
        cut_everywhere(seed, 64, Mode::Ordered, 60);
    }
}

#[test]
fn a_prefix_survives_with_journaled_contents() {
    for seed in 20..36 {
        cut_everywhere(seed, 64, Mode::Journal, 60);
    }
}

#[test]
fn a_prefix_survives_in_a_log_with_room() {
    cut_everywhere(40, 1024, Mode::Ordered, 120);
    cut_everywhere(41, 300, Mode::Journal, 120);
}
