//! Garbage collection of zones: resets and relocation.
//!
//! Invariants: a zone is reset only if no block in it is live, no read of it is in progress, and
//! the log has durably recorded that. A relocated block is mapped to its new place only if its old
//! mapping is unchanged.

use crate::Core;
use crate::choose::{unfinished_victim, victim};
use crate::command::{Command, Failure, FileId};
use crate::flight::Flight;
use crate::runs::Run;
use crate::zones::State;

/// The relocation of a zone's live data.
#[derive(Clone, Debug)]
pub(crate) struct Moving {
    /// Runs that are left to relocate, in reverse order of their place.
    left: Vec<(FileId, Run)>,
    /// Whether a copy is in progress.
    busy: bool,
}

impl Core {
    /// Resets zones that can be reset, and starts relocation if too few can be.
    //= dissertation 5.3.3
    pub(crate) fn reclaim(&mut self) {
        if !std::mem::take(&mut self.look) {
            return;
        }
        let scarce = self.zones.free < self.options.free_zones_min || self.starved;
        let dead = self
            .zones
            .data()
            .filter(|(_, zone)| zone.is_dead() && (scarce || zone.state == State::Full));
        let dead: Vec<_> = dead.map(|(number, zone)| (number, zone.barrier)).collect();
        for &(zone, barrier) in &dead {
            if barrier <= self.log.durable {
                self.manage(zone, State::Empty);
            } else if scarce {
                self.log.want(barrier);
            }
        }
        let needed = self.starved || self.zones.free < self.options.free_zones_min.div_ceil(2);
        if needed && dead.is_empty() && self.options.relocate && self.moving.is_none() {
            self.moving = victim(&self.zones).map(|zone| self.moving_from(zone));
            let stuck = self.moving.is_none() && self.starved && self.flights.is_empty();
            if let Some(zone) = unfinished_victim(&self.zones).filter(|_| stuck) {
                self.manage(zone, State::Full);
            }
        }
        self.step_move();
    }

    fn moving_from(&self, zone: u32) -> Moving {
        let runs = self.files.iter().flat_map(|(&id, file)| {
            let here = file.runs.iter().filter(move |run| run.zone == zone);
            here.map(move |&run| (id, run))
        });
        let mut left: Vec<_> = runs.collect();
        // Runs are popped from the end, so this keeps their order in the zone.
        left.sort_by_key(|(_, run)| std::cmp::Reverse(run.at));
        Moving { left, busy: false }
    }

    fn step_move(&mut self) {
        while let Some(moving) = &mut self.moving {
            if moving.busy {
                return;
            }
            let Some((id, run)) = moving.left.pop() else {
                self.moves += 1;
                return self.stop_moving();
            };
            let Some(run) = self.still_there(id, run).first().copied() else {
                continue;
            };
            let placement = self.files[&id].placement;
            match self.choose_target(placement) {
                Ok(zone) => return self.send_move(id, run, zone),
                Err(true) => self.stop_moving(),
                Err(false) => {
                    let moving = self.moving.as_mut().expect("it is under way");
                    moving.left.push((id, run));
                    self.look = true;
                    return;
                }
            }
        }
    }

    fn stop_moving(&mut self) {
        self.moving = None;
        self.zones.keep_none();
    }

    /// The parts of a run whose mapping is unchanged.
    fn still_there(&self, id: FileId, was: Run) -> Vec<Run> {
        let Some(file) = self.files.get(&id) else {
            return Vec::new();
        };
        let same = |run: &Run| {
            let shift = run.first - was.first;
            run.zone == was.zone && u64::from(run.at) == u64::from(was.at) + shift
        };
        file.runs.parts(was.first, was.end()).filter(same).collect()
    }

    fn send_move(&mut self, file: FileId, run: Run, zone: u32) {
        let most = self
            .options
            .extent_blocks()
            .min(self.zones.get(zone).room().into());
        let blocks = run.blocks.min(most as u32);
        let from = Run { blocks, ..run };
        let moving = self.moving.as_mut().expect("it is under way");
        moving.busy = true;
        if blocks < run.blocks {
            let rest = Run {
                first: run.first + u64::from(blocks),
                at: run.at + blocks,
                blocks: run.blocks - blocks,
                ..run
            };
            moving.left.push((file, rest));
        }
        self.zones.get_mut(run.zone).readers += 1;
        let at = self.zones.take(zone, blocks);
        self.moved_blocks += u64::from(blocks);
        let start = u64::from(at) * crate::BLOCK;
        let command = Command::Copy {
            from: Self::piece(&from),
            zone,
            at: start,
        };
        self.issue(
            Flight::Move {
                file,
                from,
                zone,
                at,
            },
            command,
        );
    }

    /// Handles the end of a copy: maps the blocks to their new place if it succeeded.
    pub(crate) fn move_ends(
        &mut self,
        id: FileId,
        from: Run,
        (zone, at): (u32, u32),
        result: Result<(), Failure>,
    ) {
        self.log.unforced = true;
        self.look = true;
        if let Some(moving) = &mut self.moving {
            moving.busy = false;
        }
        if result.is_err() {
            // The failed zone of the two is unknown; the target is dispensable.
            self.zones.set(zone, State::Failed);
            return self.stop_moving();
        }
        for part in self.still_there(id, from) {
            let at = at + (part.first - from.first) as u32;
            self.map(id, Run { zone, at, ..part });
        }
    }
}
