//! The log against a model: the contents of each line, and the transaction that owns it.

use super::index::Index;
use super::{Chunk, LINE, LINES, Log, LogSizes, SkipIndex, StoreError, Write};
use proptest::prelude::*;
use sim::{Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};

/// A reference index, plainly correct.
#[derive(Clone, Debug, Default)]
struct Plain(BTreeMap<u32, Vec<Chunk>>);

impl Index for Plain {
    fn lay(&mut self, page: u32, new: Chunk) {
        let list = self.0.entry(page).or_default();
        let mut slots = [None; LINES as usize];
        for chunk in list.iter().chain([&new]) {
            for at in 0..chunk.lines {
                slots[usize::from(chunk.line + at)] = Some(chunk.slot + u32::from(at));
            }
        }
        list.clear();
        for (line, slot) in slots.into_iter().enumerate() {
            let Some(slot) = slot else { continue };
            let line = line as u8;
            match list.last_mut() {
                Some(last) if last.end() == line && last.slot + u32::from(last.lines) == slot => {
                    last.lines += 1;
                }
                _ => list.push(Chunk {
                    line,
                    lines: 1,
                    slot,
                }),
            }
        }
    }

    fn chunks(&self, page: u32) -> &[Chunk] {
        self.0.get(&page).map_or(&[], Vec::as_slice)
    }

    fn remove(&mut self, page: u32) -> bool {
        self.0.remove(&page).is_some()
    }

    fn next_page(&self, from: u32) -> Option<u32> {
        self.0.range(from..).next().map(|(&page, _)| page)
    }

    fn cut(&mut self, page: u32, mask: u64) -> bool {
        let Some(list) = self.0.remove(&page) else {
            return false;
        };
        for chunk in list {
            for at in 0..chunk.lines {
                let (line, slot) = (chunk.line + at, chunk.slot + u32::from(at));
                if mask >> line & 1 == 0 {
                    let lines = 1;
                    self.lay(page, Chunk { line, lines, slot });
                }
            }
        }
        true
    }

    fn pages(&self) -> u64 {
        self.0.len() as u64
    }

    fn memory(&self) -> u64 {
        0
    }
}

fn chunk() -> impl Strategy<Value = Chunk> {
    (0_u8..64, 1_u8..=64, 0_u32..500).prop_map(|(line, lines, slot)| Chunk {
        line,
        lines: lines.min(64 - line),
        slot,
    })
}

proptest! {
    #[test]
    fn skip_index_matches_an_ordered_map_of_chunk_lists(
        ops in prop::collection::vec((0_u32..20_000, chunk(), 0_u8..4), 1..400),
        spread in prop::sample::select(vec![1_u32, 7, 1_000]),
    ) {
        let (mut skip, mut plain) = (SkipIndex::default(), Plain::default());
        for (page, chunk, op) in ops {
            let page = page / spread;
            if op == 0 {
                prop_assert_eq!(skip.remove(page), plain.remove(page));
            } else if op == 1 {
                let mask = super::mask(chunk.line, chunk.lines);
                prop_assert_eq!(skip.cut(page, mask), plain.cut(page, mask));
            } else {
                skip.lay(page, chunk);
                plain.lay(page, chunk);
            }
            prop_assert_eq!(skip.chunks(page), plain.chunks(page));
            prop_assert_eq!(skip.next_page(page + 1), plain.next_page(page + 1));
            prop_assert_eq!(skip.pages(), plain.pages());
        }
    }
}

const PAGES: u64 = 6;
type Line = [u8; LINE];

/// Contents of a drive with this log.
#[derive(Clone, Default)]
struct Model {
    /// Flash and committed lines.
    kept: BTreeMap<(u32, u8), Line>,
    /// Lines of open transactions, each with its transaction.
    open: BTreeMap<(u32, u8), (u32, Line)>,
    txs: BTreeSet<u32>,
}

impl Model {
    fn line(&self, at: (u32, u8)) -> Line {
        let open = self.open.get(&at).map(|(_, line)| *line);
        open.or_else(|| self.kept.get(&at).copied())
            .unwrap_or([0; LINE])
    }

    fn commit(&mut self, tx: u32) {
        self.txs.remove(&tx);
        let open = std::mem::take(&mut self.open);
        for (at, (by, line)) in open {
            if by == tx {
                self.kept.insert(at, line);
            } else {
                self.open.insert(at, (by, line));
            }
        }
    }
}

/// A log over flash, driven like firmware would, one step at a time.
struct Firmware<I> {
    log: Log<I>,
    flash: BTreeMap<u32, Vec<u8>>,
    model: Model,
    next_tx: u32,
    /// A page that was resolved and is on its way to flash.
    under_way: Option<(u32, Vec<u8>)>,
    /// Events that occurred in this run.
    seen: BTreeSet<&'static str>,
}

impl<I: Index + Clone> Firmware<I> {
    fn new(slots: u64) -> Self {
        let sizes = LogSizes {
            log: slots * 80,
            commits: 4 * 12,
            keep_contents: true,
        };
        Self {
            log: Log::new(sizes),
            flash: BTreeMap::new(),
            model: Model::default(),
            next_tx: 1,
            under_way: None,
            seen: BTreeSet::new(),
        }
    }

    fn page(&self, page: u32) -> Vec<u8> {
        let zeros = || vec![0; LINE * LINES as usize];
        let mut bytes = self.flash.get(&page).cloned().unwrap_or_else(zeros);
        self.log.merge(page, 0, &mut bytes);
        bytes
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(20) {
            0..=9 => self.store(rng),
            10..=11 => self.commit(rng),
            12 => self.block_write(rng),
            13..=17 => self.clean(),
            18 if rng.chance(1, 10) => self.cut(),
            _ => {}
        }
        self.log.check();
        let page = rng.below(PAGES) as u32;
        let bytes = self.page(page);
        for line in 0..LINES as u8 {
            let want = self.model.line((page, line));
            assert_eq!(bytes[usize::from(line) * LINE..][..LINE], want);
            let loaded = self.log.load(page, line);
            assert!(loaded.is_none_or(|loaded| loaded == want));
        }
    }

    fn store(&mut self, rng: &mut Rng) {
        let (page, line) = (rng.below(PAGES) as u32, rng.below(64) as u8);
        let lines = (rng.below(6) as u8 + 1).min(64 - line);
        let tx = match rng.below(3) {
            0 => 0,
            1 => {
                self.next_tx += 1;
                self.next_tx
            }
            _ => self.model.txs.last().copied().unwrap_or(0),
        };
        let bytes: Vec<u8> = (0..usize::from(lines) * LINE)
            .map(|_| rng.below(255) as u8 + 1)
            .collect();
        let owner = (line..line + lines).find_map(|at| {
            let by = self.model.open.get(&(page, at))?.0;
            (by != tx).then_some(by)
        });
        let write = Write {
            page,
            line,
            lines,
            tx,
            tag: 0,
            bytes: &bytes,
        };
        match self.log.store(&write) {
            Ok(()) => {
                assert_eq!(owner, None);
                for at in 0..lines {
                    let place = (page, line + at);
                    let bytes = bytes[usize::from(at) * LINE..][..LINE].try_into().unwrap();
                    if tx == 0 {
                        self.model.kept.insert(place, bytes);
                    } else {
                        self.model.open.insert(place, (tx, bytes));
                        self.model.txs.insert(tx);
                    }
                }
            }
            Err(StoreError::Locked { by, .. }) => {
                assert_eq!(Some(by), owner);
                self.seen.insert("locked");
            }
            Err(StoreError::Full) => {
                self.seen.insert("full");
            }
            Err(StoreError::Oversized { open, slots }) => {
                assert!(2 * open + LINES > slots);
                self.seen.insert("oversized");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn commit(&mut self, rng: &mut Rng) {
        let open = self.model.txs.len() as u64;
        if open > 0 {
            let tx = *self.model.txs.iter().nth(rng.below(open) as usize).unwrap();
            self.commit_one(tx);
        }
    }

    fn commit_one(&mut self, tx: u32) {
        match self.log.commit(tx) {
            Ok(()) => {
                self.model.commit(tx);
                assert!(self.log.commit(tx).is_err(), "once");
            }
            Err(super::CommitError::Full(_)) => {
                self.seen.insert("commits full");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn block_write(&mut self, rng: &mut Rng) {
        let page = rng.below(PAGES) as u32;
        if self.under_way.as_ref().is_some_and(|(at, _)| *at == page) {
            return;
        }
        let value = rng.below(255) as u8 + 1;
        let lines = match rng.below(2) {
            0 => 0..LINES as u8,
            _ => {
                self.seen.insert("part of a block");
                let first = rng.below(8) as u8 * 8;
                first..first + 8
            }
        };
        self.log
            .invalidate(page, super::mask(lines.start, lines.len() as u8));
        let mut bytes = self.flash.get(&page).cloned();
        let bytes = bytes.get_or_insert_with(|| vec![0; LINE * LINES as usize]);
        for line in lines {
            self.model.open.remove(&(page, line));
            self.model.kept.insert((page, line), [value; LINE]);
            bytes[usize::from(line) * LINE..][..LINE].fill(value);
        }
        self.flash.insert(page, bytes.clone());
    }

    /// One step of cleaning: start, move a page, or end.
    fn clean(&mut self) {
        if let Some((page, bytes)) = self.under_way.take() {
            self.flash.insert(page, bytes);
            self.log.cleaned(page);
            return;
        }
        if self.log.frozen.is_none() {
            self.log.freeze();
            return;
        }
        let Some(page) = self.log.next_to_clean(0) else {
            self.log.finish();
            self.seen.insert("cleaned");
            return;
        };
        let old = self.log.fill().0;
        let image = self.log.resolve(page);
        if self.log.fill().0 > old {
            self.seen.insert("migrated");
        }
        let zeros = || vec![0; LINE * LINES as usize];
        let mut bytes = self.flash.get(&page).cloned().unwrap_or_else(zeros);
        for line in (0..64).filter(|line| image.lines >> line & 1 == 1) {
            bytes[line * LINE..][..LINE].copy_from_slice(&image.bytes[line * LINE..][..LINE]);
        }
        self.under_way = Some((page, bytes));
    }

    /// A power cut; the first recovery is interrupted, the second one completes.
    fn cut(&mut self) {
        self.seen.insert("cut");
        self.under_way = None;
        self.model.open.clear();
        self.model.txs.clear();
        self.log = Log::recovered(self.log.kept());
        for _ in 0..3 {
            self.clean();
        }
        self.under_way = None;
        self.log = Log::recovered(self.log.kept());
        while self.log.frozen.is_some() {
            self.clean();
        }
        assert_eq!(self.log.fill().0, 0);
        assert_eq!(self.log.commits().0, 0);
    }
}

#[test]
fn committed_lines_survive_a_cut_and_open_lines_do_not() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let mut rng = Seed(seed).stream("log");
        let mut firmware = Firmware::<SkipIndex>::new(100 + rng.below(200));
        for _ in 0..1_500 {
            firmware.step(&mut rng);
        }
        seen.extend(firmware.seen);
    }
    let all = [
        "cleaned",
        "commits full",
        "cut",
        "full",
        "locked",
        "migrated",
        "oversized",
        "part of a block",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn oversized_transaction_is_rejected() {
    let mut log = Log::<SkipIndex>::new(LogSizes {
        log: 100 * 80,
        commits: 4,
        keep_contents: false,
    });
    let store = |log: &mut Log<SkipIndex>, line| {
        log.store(&Write {
            page: 0,
            line,
            lines: 1,
            tx: 7,
            tag: 0,
            bytes: &[],
        })
    };
    for line in 0..18 {
        store(&mut log, line).unwrap();
    }
    let refused = store(&mut log, 18).unwrap_err();
    assert_eq!(
        refused,
        StoreError::Oversized {
            open: 19,
            slots: 100
        }
    );
    log.commit(7).unwrap();
    assert_eq!(store(&mut log, 18).unwrap_err(), StoreError::Committed(7));
    assert_eq!(log.commit(8).unwrap_err(), super::CommitError::Unknown(8));
}

#[test]
fn moved_lines_count_once_as_open() {
    let mut log = Log::<SkipIndex>::new(LogSizes {
        log: 300 * 80,
        commits: 4,
        keep_contents: false,
    });
    for line in 0..60 {
        log.store(&Write {
            page: 3,
            line,
            lines: 1,
            tx: 7,
            tag: 0,
            bytes: &[],
        })
        .unwrap();
    }
    log.freeze();
    assert_eq!(log.resolve(3).moved, 60);
    assert_eq!((log.open_lines(), log.fill().0), (60, 120));
    log.cleaned(3);
    log.finish();
    assert_eq!((log.open_lines(), log.fill().0), (60, 60));
    log.commit(7).unwrap();
    assert_eq!(log.open_lines(), 0);
}

/// A log in which transaction 1 committed value 1 to line 0 of page 3, whose newer version 9 is in a
/// volatile buffer, and transaction 2 has written value 2 since.
fn hidden() -> Log<SkipIndex> {
    let mut log = Log::<SkipIndex>::new(LogSizes {
        log: 300 * 80,
        commits: 16,
        keep_contents: true,
    });
    let store = |log: &mut Log<SkipIndex>, tx: u32| {
        let bytes = [tx as u8; LINE];
        let (page, line, lines, tag) = (3, 0, 1, 0);
        let write = Write {
            page,
            line,
            lines,
            tx,
            tag,
            bytes: &bytes,
        };
        log.store(&write).unwrap();
    };
    store(&mut log, 1);
    log.commit(1).unwrap();
    log.hide(3, u64::MAX, 9);
    log.check();
    assert_eq!(log.load(3, 0), None);
    store(&mut log, 2);
    log
}

#[test]
fn hidden_line_returns_with_a_power_cut_until_its_page_is_written() {
    let mut log = hidden();
    let after_cut = |log: &Log<SkipIndex>| Log::<SkipIndex>::recovered(log.kept()).load(3, 0);
    assert_eq!(after_cut(&log), Some([1; LINE]));
    log.written(3, 8);
    assert_eq!(after_cut(&log), Some([1; LINE]), "an earlier version");
    log.written(3, 9);
    log.check();
    assert_eq!(after_cut(&log), None);
    assert_eq!(log.load(3, 0), Some([2; LINE]));
}

#[test]
fn cleaning_does_not_use_hidden_lines_and_frees_them_when_written() {
    let mut log = hidden();
    log.freeze();
    assert_eq!(log.committed_lines(3), 0);
    let image = log.resolve(3);
    assert_eq!((image.lines, image.moved), (0, 1));
    log.skip(3);
    assert!(log.hides_frozen());
    log.written(3, 10);
    assert!(!log.hides_frozen());
    log.finish();
    log.check();
    assert_eq!(log.load(3, 0), Some([2; LINE]));
}

#[test]
fn deallocated_lines_return_with_a_power_cut_until_that_is_on_flash() {
    let mut log = hidden();
    log.commit(2).unwrap();
    log.deallocate(0, 10);
    assert_eq!(log.load(3, 0), None);
    let after_cut = |log: &Log<SkipIndex>| Log::<SkipIndex>::recovered(log.kept()).load(3, 0);
    assert_eq!(after_cut(&log), Some([2; LINE]));
    log.deallocated();
    assert_eq!(after_cut(&log), None);
    log.check();
}
