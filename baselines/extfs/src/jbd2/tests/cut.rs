//! Power cuts before every event of random clients. The recovered disk is compared with a
//! model: it holds all changes up to some transaction and none after it, and that transaction
//! is no older than the last forced one.

use super::probe::Probe;
use super::*;
use sim::{Kernel, Rng, Seed};
use std::cell::Cell;

/// Counter blocks (20 from 100 on); the table, which records the use of each pool block; and the
/// pool of 24 blocks from 200 on.
const COUNTERS: u64 = 100;
const COUNTED: u64 = 20;
const TABLE: u64 = 150;
const POOL: u64 = 200;
const POOLED: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// A client works on the block, or the block is freed and not durably so.
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

/// Changes of a transaction.
#[derive(Clone, Debug)]
enum Done {
    Counted(u64, Vec<u64>),
    Used(usize, Use),
}

/// Record of the clients' changes, shared by the clients and the checker.
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

    /// Takes a block of the pool with a use that `wanted` accepts, and marks it as taken.
    fn take(&self, wanted: impl Fn(Use) -> bool) -> Option<(usize, Use)> {
        let mut pool = self.pool.borrow_mut();
        let start = self.below(POOLED as u64) as usize;
        let mut places = (0..POOLED).map(|index| (start + index) % POOLED);
        let place = places.find(|&place| wanted(pool[place]))?;
        Some((place, std::mem::replace(&mut pool[place], Use::Taken)))
    }
}

type Journal = Jbd2;

/// A client that makes `rounds` random changes, concurrently with others.
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

/// Opens a handle for `1 + more` blocks and sets the use of a pool block in the table.
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

/// Contents of a version; every third version starts with the magic number of the log.
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

/// Overwrites contents of a pool block, with the table in the same transaction.
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

/// Contents of counters and table, as read from a disk or after some transactions.
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

/// The last transaction of which `found` is the state; `None` if there is none.
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

/// Recovers the contents that a cut has left; half of the recoveries are cut as well and repeated.
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
            Jbd2::open(&sim, &port, config).await.unwrap();
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

/// Cuts the power of a journal of `log` blocks before every event of three clients.
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
        let (journal, _) = Jbd2::open(&sim, &port, at_start).await.unwrap();
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
fn transactions_cut_before_any_event_recover_to_a_prefix() {
    for seed in 0..16 {
        cut_everywhere(seed, 64, Mode::Ordered, 60);
    }
}

#[test]
fn transactions_with_journaled_contents_recover_to_a_prefix() {
    for seed in 20..36 {
        cut_everywhere(seed, 64, Mode::Journal, 60);
    }
}

#[test]
fn transactions_in_a_large_log_recover_to_a_prefix() {
    cut_everywhere(40, 1024, Mode::Ordered, 120);
    cut_everywhere(41, 300, Mode::Journal, 120);
}
