//! Cleaning: moves valid units from the end of the data area into the holes at its start, so that
//! the end becomes a free run to append to.
//!
//! Invariants: a hole is a free unit, so the pair that superseded its contents is durable. The
//! source of a move becomes free only after the transaction with its new place has committed. A
//! move is void if a request wrote the address meanwhile. Cleaning needs no space but the holes.
//= remap 3.4

use crate::port::{Remap, Shared};
use crate::space::Space;
use host::{BlockPort, Purpose};
use nand::UNIT;
use ssd::IoError;
use std::rc::Rc;

/// Units that a step of a pass moves.
const CHUNK: usize = 64;
/// Most units lent for one deallocation, unusable for writes meanwhile: 128 MiB.
const TRIM: u32 = 1 << 15;
/// Length of the run that a foreground pass makes, in multiples of the shortest run.
const FOREGROUND: u32 = 4;

/// A relocation of one unit of the data area into a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// The two pointers of a pass, which approach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointers {
    /// No hole is left before this unit.
    hole: u32,
    /// No unit from here on can move.
    tail: u32,
    /// The pass moves no unit before this one.
    floor: u32,
}

impl Pointers {
    /// Pointers of a pass that empties the last `goal` units of the data area.
    pub(crate) fn new(space: &Space, goal: u32) -> Self {
        let units = space.free.units();
        Self {
            hole: 0,
            tail: units,
            floor: units.saturating_sub(goal),
        }
    }

    /// The next move: the last valid unit without a pending pair, into the first hole outside the
    /// append run. `None` once the pointers meet or the goal is reached.
    pub(crate) fn next(&mut self, space: &Space, is_pending: impl Fn(u32) -> bool) -> Option<Move> {
        let from = loop {
            self.tail = self
                .tail
                .checked_sub(1)
                .filter(|tail| *tail >= self.floor)?;
            match space.holds(self.tail) {
                Some(orig) if !is_pending(orig) => break self.tail,
                _ => {}
            }
        };
        let mut hole = space.free.first_in(self.hole, from)?;
        if space.run().contains(&hole) {
            hole = space.free.first_in(space.run().end, from)?;
        }
        self.hole = hole + 1;
        Some(Move { from, to: hole })
    }
}

impl<P: BlockPort> Shared<P> {
    /// Shortest run to append to, in units: [`crate::Options::shortest_run`], but at most an eighth
    /// of the spare units.
    pub(crate) fn shortest_run(&self) -> u32 {
        let spare = self.layout.data_units - self.layout.logical;
        let wanted = self.options.shortest_run.0 / UNIT as u64;
        (wanted as u32).clamp(1, (spare / 8).max(1))
    }

    /// Foreground cleaning: makes a run to append to while a request waits.
    pub(crate) async fn clean_now(&self) -> Result<(), IoError> {
        let _turn = self.cleaning.acquire(1).await;
        let least = self.shortest_run();
        if self.go_on(least) {
            return Ok(());
        }
        // A commit may free enough superseded units.
        self.commit().await?;
        if self.go_on(least) {
            return Ok(());
        }
        let free = self.state.borrow().space.free.count();
        let goal = (FOREGROUND * least).min(free / 2);
        self.pass(goal, false).await?;
        self.state.borrow_mut().metrics.foreground_passes += 1;
        while !self.go_on(least) && !self.go_on(1) {
            self.writable()?;
            self.commit().await?;
            if self.state.borrow().space.free.count() == 0 {
                // The remaining units are held by reads in flight or by unpublished writes.
                self.room.wait(&self.sim).await;
            }
        }
        Ok(())
    }

    fn go_on(&self, least: u32) -> bool {
        let state = &mut *self.state.borrow_mut();
        let enough = !state.space.run().is_empty() || state.space.go_on(least);
        state.metrics.jumps += u64::from(enough);
        enough
    }

    /// Empties the last `goal` units of the data area; a `patient` pass stops at the next request.
    /// Returns the number of moves.
    async fn pass(&self, goal: u32, patient: bool) -> Result<u64, IoError> {
        self.commit().await?;
        let begun = self.state.borrow().asked;
        let mut pointers = Pointers::new(&self.state.borrow().space, goal);
        let mut moved = 0;
        let goes_on = || !patient || self.state.borrow().asked == begun;
        while goes_on() && !self.closed.get() {
            let moves = self.plan(&mut pointers);
            if moves.is_empty() {
                break;
            }
            match self.move_units(&moves).await {
                Ok(()) => moved += moves.len() as u64,
                Err(IoError::Media(_)) => moved += self.move_singly(&moves).await?,
                Err(error) => return Err(error),
            }
        }
        self.commit().await?;
        self.state.borrow_mut().metrics.moves += moved;
        Ok(moved)
    }

    /// Moves units one by one, after a media error in the batch. Units that cannot be read stay in
    /// place.
    async fn move_singly(&self, moves: &[Move]) -> Result<u64, IoError> {
        let mut moved = 0;
        for step in moves {
            {
                let space = &mut self.state.borrow_mut().space;
                if !space.free.has(step.to) || space.run().contains(&step.to) {
                    continue;
                }
                space.take(step.to);
            }
            match self.move_units(std::slice::from_ref(step)).await {
                Ok(()) => moved += 1,
                Err(error @ IoError::Media(_)) => self.note_background(error),
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    /// Plans up to [`CHUNK`] moves and takes their holes. Sources are paired with holes in
    /// ascending order, so that few commands suffice.
    fn plan(&self, pointers: &mut Pointers) -> Vec<Move> {
        let state = &mut *self.state.borrow_mut();
        let pending = |orig| {
            let pending = state.open.get(orig).or_else(|| state.closing.get(orig));
            pending.is_some()
        };
        let mut moves = Vec::with_capacity(CHUNK);
        while moves.len() < CHUNK {
            let Some(step) = pointers.next(&state.space, pending) else {
                break;
            };
            moves.push(step);
        }
        let mut from: Vec<u32> = moves.iter().map(|step| step.from).collect();
        from.reverse();
        for (step, from) in moves.iter_mut().zip(from) {
            step.from = from;
            state.space.take(step.to);
        }
        moves
    }

    /// Copies units and publishes their new places; the copy counts as a read, so its sources are
    /// not reused meanwhile.
    async fn move_units(&self, moves: &[Move]) -> Result<(), IoError> {
        let reading = self.state.borrow_mut().space.begin();
        let copied = self.copy(moves).await;
        let published = match copied {
            Ok(()) => self.publish_moves(moves).await,
            Err(error) => {
                self.give_back(moves.iter().map(|step| step.to));
                Err(error)
            }
        };
        if self.state.borrow_mut().space.end(reading) {
            self.room.notify(&self.sim);
        }
        published
    }

    async fn copy(&self, moves: &[Move]) -> Result<(), IoError> {
        let at = |unit: u32| self.layout.data + unit;
        let from: Vec<u32> = moves.iter().map(|step| at(step.from)).collect();
        let to: Vec<u32> = moves.iter().map(|step| at(step.to)).collect();
        let payloads = self.read_units(&from, Purpose::Data).await?;
        self.write_units(&to, &payloads, Purpose::Data, false).await
    }

    async fn publish_moves(&self, moves: &[Move]) -> Result<(), IoError> {
        for step in moves {
            while self.state.borrow().open.is_full() {
                self.commit().await?;
            }
            let state = &mut *self.state.borrow_mut();
            let still = state.space.holds(step.from).filter(|&orig| {
                let newer = state.open.get(orig).or_else(|| state.closing.get(orig));
                newer.is_none()
            });
            match still {
                Some(orig) => drop(state.open.put(orig, step.to)),
                None => state.space.give_back(step.to),
            }
        }
        Ok(())
    }

    /// Deallocates free runs of at least [`crate::Options::trim`] on the medium below. No durable
    /// pair leads there: a unit is free only once its successor has committed.
    pub(crate) async fn deallocate(&self) -> Result<(), IoError> {
        let Some(shortest) = self.options.trim else {
            return Ok(());
        };
        let least = u32::try_from(shortest.0 / UNIT as u64).unwrap_or(u32::MAX);
        loop {
            let lent = self.state.borrow_mut().space.lend(least, TRIM);
            let Some(run) = lent else {
                return Ok(());
            };
            let (at, units) = (self.data(run.start, run.len() as u32), run.len() as u64);
            let trimmed = self.port.trim(at).await;
            {
                let state = &mut *self.state.borrow_mut();
                state.space.give_back_lent(run);
                state.metrics.trimmed_units += if trimmed.is_ok() { units } else { 0 };
            }
            self.room.notify(&self.sim);
            trimmed?;
        }
    }

    /// Length that the longest run should have, in units: no more than half of the free units,
    /// which cleaning can make.
    fn wanted_run(&self) -> u32 {
        let state = self.state.borrow();
        let units = u64::from(state.space.free.units());
        let wanted = units * u64::from(self.options.clean_percent) / 100;
        (wanted as u32).min(state.space.free.count() / 2)
    }

    /// Runs one pass if the layer has been idle long enough, or sleeps until it may be. Returns
    /// whether there may be more to do.
    async fn clean_idly(&self) -> Result<bool, IoError> {
        let asked = self.state.borrow().asked;
        let until = asked + self.options.idle;
        if self.sim.now() < until {
            self.sim.sleep_until(until).await;
            return Ok(true);
        }
        let wanted = self.wanted_run();
        if self.state.borrow().space.free.longest().len() as u32 >= wanted {
            return Ok(false);
        }
        let _turn = self.cleaning.acquire(1).await;
        let moved = self.pass(wanted, true).await?;
        self.deallocate().await?;
        let state = &mut *self.state.borrow_mut();
        state.metrics.passes += u64::from(moved > 0);
        let longest = state.space.free.longest();
        if longest.len() > state.space.run().len() && !longest.contains(&state.space.run().start) {
            state.space.append_at(longest.start);
            state.metrics.jumps += 1;
        }
        Ok(moved > 0)
    }
}

impl<P: BlockPort> Remap<P> {
    /// Starts the background cleaner if the append run is shorter than `clean_percent` of the data
    /// area.
    pub(crate) fn wake_cleaner(&self) {
        let shared = &self.shared;
        let left = shared.state.borrow().space.run().len() as u64;
        let wanted = u64::from(shared.layout.data_units) * u64::from(shared.options.clean_percent);
        if !shared.options.background || left * 100 >= wanted || shared.cleaner.replace(true) {
            return;
        }
        let weak = Rc::downgrade(shared);
        shared.sim.spawn_detached(async move {
            while let Some(shared) = weak.upgrade() {
                let more = match shared.closed.get() {
                    true => false,
                    false => shared.clean_idly().await.unwrap_or_else(|error| {
                        shared.note_background(error);
                        false
                    }),
                };
                if !more {
                    shared.cleaner.set(false);
                    break;
                }
            }
        });
    }
}
