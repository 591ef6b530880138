//! Model of the contents of lines, and the workers that write them.

use sim::{Rng, Seed, Sim};
use ssd::front::Battery;
use ssd::wlog::StoreError;
use ssd::{ByteError, Content, Drive};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{Extent, Ns, Origin, Placement};

pub(super) const WORKERS: usize = 4;
/// Pages of which each worker has one sector in four.
const SHARED: u64 = 6;
/// Pages that each worker has for itself.
const PRIVATE: u64 = 4;
const LINES: u64 = 64;

/// Contents by line: the number that the line repeats; missing lines have 0.
type Lines = BTreeMap<u64, u64>;

/// Operation under way of a worker, as far as a cut may find it partly done.
#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    /// Lines that become durable one by one.
    Lines(Lines),
    /// Lines that become durable page by page.
    Pages(Lines),
    /// All lines of the open transaction become durable together.
    Commit,
}

#[derive(Clone, Debug)]
struct State {
    /// Newest contents outside of the open transaction.
    kept: Lines,
    /// Contents that are durable, and newer ones that a cut may leave instead.
    durable: Lines,
    since: BTreeMap<u64, Vec<u64>>,
    /// Lines of the open transaction that a volatile block write has replaced: with its commit they
    /// may come back.
    replaced: Lines,
    open: Lines,
    tx: u32,
    doing: Doing,
}

/// All workers, with the contents that each may find.
#[derive(Clone)]
pub(super) struct Workers {
    states: Vec<State>,
    /// Whether lines, and blocks, are durable once written.
    keeps: (bool, bool),
    next_tx: u32,
    next_value: u64,
    pub(super) done: usize,
    pub(super) seen: BTreeSet<&'static str>,
}

fn line_of(drive: &Drive, line: u64) -> u64 {
    let page = drive.peek((line / LINES) as u32);
    let payload = page.and_then(|page| page.into_iter().next());
    let mut bytes = [0; 64];
    let at = (line % LINES) as usize * 64;
    assert!(payload.unwrap_or_default().copy_to(at, &mut bytes));
    number(&bytes, line)
}

fn number(bytes: &[u8], line: u64) -> u64 {
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
        .collect();
    assert!(
        words.iter().all(|&w| w == words[0]),
        "line {line} is torn: {words:?}"
    );
    words[0]
}

fn at(lines: &Lines, line: u64) -> u64 {
    lines.get(&line).copied().unwrap_or(0)
}

impl State {
    /// Records contents that were written, durably or not.
    fn put(&mut self, new: &Lines, durable: bool) {
        self.kept.extend(new);
        for (&line, &value) in new {
            if durable {
                self.durable.insert(line, value);
                self.since.remove(&line);
            } else {
                self.since.entry(line).or_default().push(value);
            }
        }
    }

    fn commit(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.put(&open, true);
        self.replaced_may_return();
    }

    fn replaced_may_return(&mut self) {
        for (line, value) in std::mem::take(&mut self.replaced) {
            self.since.entry(line).or_default().push(value);
        }
    }

    fn flushed(&mut self) {
        self.durable = self.kept.clone();
        self.since.clear();
        self.replaced.clear();
    }

    /// Whether a cut may leave `value` in `line`.
    fn may_be(&self, line: u64, value: u64) -> bool {
        let since = self.since.get(&line);
        value == at(&self.durable, line) || since.is_some_and(|since| since.contains(&value))
    }
}

impl Workers {
    pub(super) fn new(battery: Battery, has_log: bool) -> Self {
        let pages = battery == Battery::All;
        let keeps = (pages || has_log && battery == Battery::Log, pages);
        let state = State {
            kept: Lines::new(),
            durable: Lines::new(),
            since: BTreeMap::new(),
            replaced: Lines::new(),
            open: Lines::new(),
            tx: 0,
            doing: Doing::Nothing,
        };
        Self {
            states: vec![state; WORKERS],
            keeps,
            next_tx: 0,
            next_value: 0,
            done: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Checks that all lines except those being written read as written last.
    pub(super) fn check_now(&self, drive: &Drive) {
        for (worker, state) in self.states.iter().enumerate() {
            if !matches!(state.doing, Doing::Nothing | Doing::Commit) {
                continue;
            }
            for line in lines_of(worker) {
                let open = state.open.get(&line).copied();
                let want = open.unwrap_or(at(&state.kept, line));
                assert_eq!(line_of(drive, line), want, "line {line} of {worker}");
            }
        }
    }

    /// Panics unless `drive` is in a state that a cut at this instant may leave. Returns its
    /// contents.
    pub(super) fn after_cut(&self, drive: &Drive, context: &str) -> Left {
        let mut left = Lines::new();
        for (worker, state) in self.states.iter().enumerate() {
            let found: Lines = lines_of(worker).map(|l| (l, line_of(drive, l))).collect();
            let context = format!("{context}: worker {worker}, {state:?}");
            match &state.doing {
                Doing::Nothing => check(&found, state, None, &context),
                Doing::Commit => {
                    let (&first, &value) = state.open.iter().next().expect("it wrote");
                    let mut state = state.clone();
                    if at(&found, first) == value {
                        state.commit();
                    } else {
                        state.replaced_may_return();
                    }
                    check(&found, &state, None, &context);
                }
                Doing::Lines(new) => check(&found, state, Some(new), &context),
                Doing::Pages(new) => {
                    check(&found, state, Some(new), &context);
                    if self.keeps.1 {
                        check_pages(&found, new, &context);
                    }
                }
            }
            left.extend(found);
        }
        Left(left)
    }
}

/// Checks that each line has contents that a cut may leave, or those in `new` if given.
fn check(found: &Lines, state: &State, new: Option<&Lines>, context: &str) {
    for (&line, &value) in found {
        let new = new.and_then(|new| new.get(&line));
        assert!(
            state.may_be(line, value) || new == Some(&value),
            "{context}: line {line} of page {} is {value}",
            line / LINES
        );
    }
}

/// Checks that no page is new in part only. Every write has another number, except zeros.
fn check_pages(found: &Lines, new: &Lines, context: &str) {
    let of = |page| new.iter().filter(move |(line, _)| **line / LINES == page);
    let pages: BTreeSet<u64> = new.keys().map(|line| line / LINES).collect();
    for page in pages {
        let is_new = of(page).filter(|(line, value)| at(found, **line) == **value);
        let (is_new, all) = (is_new.count(), of(page).count());
        let trimmed = of(page).any(|(_, value)| *value == 0);
        assert!(
            trimmed || is_new == 0 || is_new == all,
            "{context}: page {page}"
        );
    }
}

/// Contents of a drive after a cut, which it must keep from then on.
pub(super) struct Left(Lines);

impl Left {
    pub(super) fn check(&self, drive: &Drive, context: &str) {
        for (&line, &value) in &self.0 {
            assert_eq!(line_of(drive, line), value, "{context}: line {line}");
        }
    }
}

/// The lines that a worker writes.
fn lines_of(worker: usize) -> impl Iterator<Item = u64> {
    let mine = move |line: &u64| (line / 8) % WORKERS as u64 == worker as u64;
    let shared = (0..SHARED * LINES).filter(mine);
    let first = (SHARED + worker as u64 * PRIVATE) * LINES;
    shared.chain(first..first + PRIVATE * LINES)
}

pub(super) struct Worker {
    sim: Sim,
    drive: Drive,
    all: Rc<RefCell<Workers>>,
    number: usize,
    rng: Rng,
}

impl Worker {
    pub(super) fn new(
        sim: &Sim,
        drive: &Drive,
        all: &Rc<RefCell<Workers>>,
        number: usize,
        seed: u64,
    ) -> Self {
        Self {
            sim: sim.clone(),
            drive: drive.clone(),
            all: Rc::clone(all),
            number,
            rng: Seed(seed).stream(&format!("worker {number}")),
        }
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.all.borrow_mut().states[self.number])
    }

    fn seen(&self, event: &'static str) {
        self.all.borrow_mut().seen.insert(event);
    }

    fn new_value(&self) -> u64 {
        let mut all = self.all.borrow_mut();
        all.next_value += 1;
        all.next_value
    }

    pub(super) async fn work(mut self, ops: usize) {
        let is_volatile = !self.all.borrow().keeps.1;
        for _ in 0..ops {
            match self.rng.below(20 + 2 * u64::from(is_volatile)) {
                20.. => self.flush().await,
                0..=9 => self.store().await,
                10 | 11 => self.commit().await,
                12..=14 => self.load().await,
                15 => self.read_block().await,
                16 | 17 => self.write_sectors().await,
                18 => self.write_pages().await,
                _ => self.trim().await,
            }
        }
        if self.drive.has_transactions() {
            self.commit().await;
        }
        self.all.borrow_mut().done += 1;
    }

    fn private(&self) -> u64 {
        SHARED + self.number as u64 * PRIVATE
    }

    /// Consecutive lines of this worker, within a shared sector or in its own pages.
    fn some_lines(&mut self) -> std::ops::Range<u64> {
        if self.rng.below(2) == 0 {
            let sector = self.rng.below(SHARED * 2) * WORKERS as u64 + self.number as u64;
            let from = self.rng.below(8);
            let lines = 1 + self.rng.below(8 - from);
            return sector * 8 + from..sector * 8 + from + lines;
        }
        // May cross page boundaries.
        let most = if self.rng.below(6) == 0 { 70 } else { 9 };
        let lines = 1 + self.rng.below(most);
        let first = self.private() * LINES;
        let from = first + self.rng.below(PRIVATE * LINES - lines + 1);
        from..from + lines
    }

    async fn store(&mut self) {
        let lines = self.some_lines();
        let value = self.new_value();
        let bytes = value
            .to_le_bytes()
            .repeat(8 * (lines.end - lines.start) as usize);
        let tx = self.pick_tx();
        let new: Lines = lines.clone().map(|line| (line, value)).collect();
        let locked = self.state(|state| {
            let open = |line: &u64| state.open.contains_key(line);
            tx != state.tx && new.keys().any(open)
        });
        if !locked && tx == 0 {
            self.state(|state| state.doing = Doing::Lines(new.clone()));
        } else if !locked {
            // The lines are visible from now on, but must not survive a cut.
            self.state(|state| state.doing = Doing::Lines(Lines::new()));
        }
        let since = self.sim.now();
        let stored = self
            .drive
            .store(lines.start * 64, &bytes, tx, Origin(0))
            .await;
        let has_log = self.drive.config().front.unwrap().log.bytes.0 > 0;
        if has_log && self.sim.now().since(since) > Ns::us(20) {
            self.seen("store waited");
        }
        self.stored(stored, locked, tx, new).await;
    }

    fn pick_tx(&mut self) -> u32 {
        if !self.drive.has_transactions() || self.rng.below(3) == 0 {
            return 0;
        }
        let tx = self.state(|state| state.tx);
        if tx != 0 {
            return tx;
        }
        let mut all = self.all.borrow_mut();
        all.next_tx += 1;
        all.next_tx
    }

    async fn stored(&mut self, stored: Result<(), ByteError>, locked: bool, tx: u32, new: Lines) {
        match stored {
            Ok(()) => {
                assert!(!locked, "a line of an open transaction was overwritten");
                let (durable, _) = self.all.borrow().keeps;
                self.state(|state| {
                    if tx == 0 {
                        state.put(&new, durable);
                    } else {
                        state.tx = tx;
                        state.replaced.retain(|line, _| !new.contains_key(line));
                        state.open.extend(new);
                    }
                    state.doing = Doing::Nothing;
                });
            }
            Err(ByteError::Store(StoreError::Locked { .. })) => {
                assert!(locked);
                self.seen("locked");
            }
            Err(ByteError::Store(StoreError::Oversized { .. })) => {
                self.seen("oversized");
                self.state(|state| state.doing = Doing::Nothing);
                self.commit().await;
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn commit(&mut self) {
        let (tx, empty) = self.state(|state| (state.tx, state.open.is_empty()));
        if tx == 0 {
            return;
        }
        if !empty {
            self.state(|state| state.doing = Doing::Commit);
        }
        let since = self.sim.now();
        self.drive.commit(tx).await.expect("it has written");
        if self.sim.now().since(since) > Ns::us(20) {
            self.seen("commit waited");
        }
        self.state(|state| {
            state.commit();
            (state.tx, state.doing) = (0, Doing::Nothing);
        });
    }

    async fn flush(&mut self) {
        self.drive.flush().await.unwrap();
        self.state(State::flushed);
    }

    fn want(&self, line: u64) -> u64 {
        self.state(|state| {
            let open = state.open.get(&line).copied();
            open.unwrap_or(at(&state.kept, line))
        })
    }

    async fn load(&mut self) {
        let lines = self.some_lines();
        let mut bytes = vec![0; 64 * (lines.end - lines.start) as usize];
        self.drive.load(lines.start * 64, &mut bytes).await.unwrap();
        for (line, found) in lines.zip(bytes.chunks(64)) {
            assert_eq!(number(found, line), self.want(line), "line {line}");
        }
    }

    async fn read_block(&mut self) {
        let pages = 1 + self.rng.below(PRIVATE);
        let first = self.private() + self.rng.below(PRIVATE - pages + 1);
        let mut bytes = vec![0; 4096 * pages as usize];
        let extent = Extent::new(first * 8, pages as u32 * 8);
        self.drive
            .read(extent, &mut bytes.as_mut_slice())
            .await
            .unwrap();
        for (line, found) in (first * LINES..).zip(bytes.chunks(64)) {
            assert_eq!(number(found, line), self.want(line), "line {line}");
        }
    }

    async fn write_sectors(&mut self) {
        let sector = self.rng.below(SHARED * 2) * WORKERS as u64 + self.number as u64;
        self.write(sector, 1).await;
    }

    async fn write_pages(&mut self) {
        let pages = 1 + self.rng.below(2);
        let first = self.private() + self.rng.below(PRIVATE - pages + 1);
        self.write(first * 8, pages as u32 * 8).await;
    }

    async fn write(&mut self, sector: u64, sectors: u32) {
        let value = self.new_value();
        self.begin_block(sector, sectors, value);
        let (content, extent) = (Content::Fill(value), Extent::new(sector, sectors));
        let placement = Placement(value as u16 % 4);
        let (_, durable) = self.all.borrow().keeps;
        let fua = !durable && value.is_multiple_of(3);
        self.drive
            .write(extent, content, placement, Origin(0), fua)
            .await
            .unwrap();
        self.end_block(durable || fua);
    }

    async fn trim(&mut self) {
        let page = self.private() + self.rng.below(PRIVATE);
        self.begin_block(page * 8, 8, 0);
        self.drive.trim(Extent::new(page * 8, 8)).await.unwrap();
        self.end_block(true);
    }

    fn begin_block(&self, sector: u64, sectors: u32, value: u64) {
        let lines = sector * 8..(sector + u64::from(sectors)) * 8;
        let new = lines.map(|line| (line, value)).collect();
        self.state(|state| state.doing = Doing::Pages(new));
    }

    fn end_block(&self, durable: bool) {
        self.state(|state| {
            if let Doing::Pages(new) = std::mem::replace(&mut state.doing, Doing::Nothing) {
                let replaced = state.open.extract_if(.., |line, _| new.contains_key(line));
                let replaced: Lines = replaced.collect();
                match durable {
                    true => state.replaced.retain(|line, _| !new.contains_key(line)),
                    false => state.replaced.extend(replaced),
                }
                state.put(&new, durable);
            }
        });
    }
}
