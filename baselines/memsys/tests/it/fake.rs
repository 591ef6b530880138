//! A device that answers by chance: at once, late, with a hint, or not at all.

use memsys::{Far, FarEvent, Line, LineData, PageData, ReadReply, Tag};
use sim::{Rng, Seed, Sim};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::Ns;

/// Probabilities of the device's reactions, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    pub(crate) waits: u64,
    pub(crate) delays: u64,
    pub(crate) refuses: u64,
    pub(crate) hot: u64,
}

impl Odds {
    pub(crate) const WILD: Self = Self {
        waits: 25,
        delays: 15,
        refuses: 20,
        hot: 10,
    };
}

#[derive(Default)]
struct State {
    events: VecDeque<FarEvent>,
    flash: BTreeMap<u64, [u8; 64]>,
    /// Newer than flash, and forgotten when the page is dropped.
    newer: BTreeMap<u64, [u8; 64]>,
    last: Ns,
}

impl State {
    fn line(&self, line: u64) -> LineData {
        let held = self.newer.get(&line).or_else(|| self.flash.get(&line));
        Some(held.copied().unwrap_or([0; 64]))
    }
}

/// A device that reacts at random with the given [`Odds`].
pub(crate) struct Fake {
    sim: Sim,
    rng: Rng,
    odds: Odds,
    state: Rc<RefCell<State>>,
    /// Until when pages are being read.
    busy: BTreeMap<u64, Ns>,
    refusing: bool,
}

impl Fake {
    pub(crate) fn new(sim: &Sim, seed: u64, odds: Odds) -> Self {
        Self {
            sim: sim.clone(),
            rng: Seed(seed).stream("fake"),
            odds,
            state: Rc::default(),
            busy: BTreeMap::new(),
            refusing: false,
        }
    }

    fn arrives(&self, now: Ns) {
        let mut state = self.state.borrow_mut();
        assert!(now >= state.last, "calls come in the order of time");
        assert_eq!(now, self.sim.now(), "the kernel stands at the call");
        state.last = now;
    }

    fn refuses(&mut self) -> bool {
        let refuses = self.refusing || self.rng.chance(self.odds.refuses, 100);
        if refuses && !self.refusing {
            self.refusing = true;
            let span = Ns(200 + self.rng.below(3_000));
            self.later(span, |state, _| state.events.push_back(FarEvent::Room));
        }
        refuses
    }

    fn take(&mut self, Line(line): Line, data: LineData) {
        let flushed = self.rng.chance(1, 2);
        let mut state = self.state.borrow_mut();
        let data = data.expect("contents are kept");
        if flushed {
            state.newer.remove(&line);
            state.flash.insert(line, data);
        } else {
            state.newer.insert(line, data);
        }
    }

    fn later(&self, span: Ns, then: impl FnOnce(&mut State, Ns) + 'static) {
        let (sim, state) = (self.sim.clone(), Rc::clone(&self.state));
        self.sim.spawn_detached(async move {
            sim.sleep(span).await;
            then(&mut state.borrow_mut(), sim.now());
        });
    }
}

impl Far for Fake {
    fn read(&mut self, now: Ns, Line(line): Line, tag: Tag) -> ReadReply {
        self.arrives(now);
        let page = line / 64;
        if self.rng.chance(self.odds.hot, 100) {
            self.state
                .borrow_mut()
                .events
                .push_back(FarEvent::Hot(page, now));
        }
        let draw = self.rng.below(100);
        let busy = self.busy.get(&page).is_some_and(|&until| until > now);
        if draw < self.odds.waits {
            let span = Ns(100 + self.rng.below(5_000));
            self.later(span, move |state, now| {
                let data = state.line(line);
                state.events.push_back(FarEvent::Data(tag, now, data));
            });
            return ReadReply::Waits;
        }
        if busy || draw < self.odds.waits + self.odds.delays {
            let until = now + Ns(1_000 + self.rng.below(4_000));
            self.busy.entry(page).or_insert(until);
            if self.busy[&page] <= now {
                self.busy.remove(&page);
            }
            return ReadReply::Delay(now + Ns(60));
        }
        let after = Ns(50 + self.rng.below(200));
        ReadReply::Data(now + after, self.state.borrow().line(line))
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        self.arrives(now);
        if self.refuses() {
            return None;
        }
        self.take(line, data);
        Some(now + Ns(40))
    }

    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        self.arrives(now);
        if self.refuses() {
            return None;
        }
        for (at, line) in data.into_iter().flatten().enumerate() {
            self.take(Line(page * 64 + at as u64), Some(*line));
        }
        Some(now + Ns(40))
    }

    fn event(&mut self) -> Option<FarEvent> {
        let event = self.state.borrow_mut().events.pop_front();
        if event == Some(FarEvent::Room) {
            self.refusing = false;
        }
        event
    }

    fn dropped(&mut self, now: Ns, page: u64) -> u64 {
        self.arrives(now);
        let mut state = self.state.borrow_mut();
        let mut only_host = 0;
        for line in 0..64 {
            if state.newer.remove(&(page * 64 + line)).is_some() {
                only_host |= 1 << line;
            }
        }
        only_host
    }
}
