//! Cleaning: when to clean, and which section; `relocate` moves the blocks.
//!
//! In the foreground, when free sections are so few that what is dirty might not find
//! room, the section with the fewest valid blocks is cleaned, and operations that change
//! something wait for it; in the background, while no operation changes anything, the section
//! with the best ratio of cost and benefit. The choice is a pure function of a view.
//!
//! Invariant: one section is cleaned at a time, and no log goes on in it; so a valid block
//! of the section has the owner that it had when cleaning began.

use crate::format::{BLOCK, SEG_BLOCKS};
use crate::fs::Core;
use crate::persist::{Log, Persist};
use units::Ns;
use vfs::{Cleaning, LogStats, Result};

/// Sections that one round of cleaning in the foreground takes at most before it makes
/// them free by a checkpoint: a choice of ours.
const ROUND: usize = 8;

/// A section that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) section: u32,
    /// Blocks in use, of `blocks`.
    pub(crate) valid: u32,
    pub(crate) blocks: u32,
    /// Time of the last write, as an average of the section's segments.
    pub(crate) time: u64,
}

/// The section with the least in use, if anything is gained.
//= f2fs-paper 2.5
pub(crate) fn greedy(candidates: &[Candidate]) -> Option<u32> {
    let gain = candidates.iter().filter(|c| c.valid < c.blocks);
    gain.min_by_key(|c| (c.valid, c.section)).map(|c| c.section)
}

/// The section whose free space, times its age, is most beside what moving costs: the
/// share in use is read once and written once.
//= f2fs-paper 2.5
pub(crate) fn cost_benefit(candidates: &[Candidate]) -> Option<u32> {
    let oldest = candidates.iter().map(|c| c.time).min()?;
    let newest = candidates.iter().map(|c| c.time).max()?;
    let benefit = |c: &&Candidate| {
        let used = u64::from(c.valid) * 100 / u64::from(c.blocks);
        let age = match newest - oldest {
            0 => 100,
            // Of times that a damaged medium may have, too.
            span => 100 - (u128::from(c.time - oldest) * 100 / u128::from(span)) as u64,
        };
        100 * (100 - used) * age / (100 + used)
    };
    let gain = candidates.iter().filter(|c| c.valid < c.blocks);
    let best = gain.max_by_key(|c| (benefit(c), std::cmp::Reverse(c.section)));
    best.map(|c| c.section)
}

impl<P: Persist> Core<P> {
    /// Sections that may be cleaned: they hold something, and no log is in them.
    fn candidates(&self) -> Vec<Candidate> {
        let segments = self.segments.borrow();
        let candidate = |section: u32| {
            // What cannot be written again is no gain.
            if segments.is_lost(section) {
                return None;
            }
            let (mut valid, mut time) = (0, 0);
            let all = segments.segments_of(section);
            let count = all.end - all.start;
            for segment in all {
                if segments.is_current(segment) {
                    return None;
                }
                valid += u32::from(segments.entry(segment).valid);
                time += segments.entry(segment).time / u64::from(count);
            }
            (valid > 0).then_some(Candidate {
                section,
                valid,
                blocks: count * SEG_BLOCKS,
                time,
            })
        };
        (0..self.geometry.sections())
            .filter_map(candidate)
            .collect()
    }

    /// Free sections that there have to be before something is made dirty: those that
    /// are reserved, and room for what is dirty already.
    fn wanted_sections(&self) -> u32 {
        let per_section = (self.geometry.segs_per_sec * SEG_BLOCKS) as usize;
        let nodes = self.nodes.borrow().dirty.len().div_ceil(per_section);
        let entries = self.dirs.borrow().dirty.len().div_ceil(per_section);
        self.segments.borrow().reserved_sections + (nodes + 2 * entries) as u32
    }

    fn has_room(&self) -> bool {
        self.segments.borrow().free_sections() > self.wanted_sections()
    }

    /// Sees to it that what is dirty, and what is about to be, finds room.
    pub(crate) async fn make_room(&self) -> Result<()> {
        if self.has_room() || self.failed.get() {
            return Ok(());
        }
        let _cleaner = self.cleaner.acquire(1).await;
        self.look_for_lost();
        while !self.has_room() && !self.failed.get() {
            let before = self.segments.borrow().free_sections();
            if self.segments.borrow().waiting_sections() == 0 && !self.clean_round().await? {
                break;
            }
            let _alone = self.alone().await;
            self.ensure_sound()?;
            self.checkpoint(false).await?;
            if self.segments.borrow().free_sections() <= before {
                break;
            }
        }
        Ok(())
    }

    /// Cleans up to as many sections as are wanted; whether anything was moved.
    async fn clean_round(&self) -> Result<bool> {
        let section_blocks = self.geometry.segs_per_sec * SEG_BLOCKS;
        let missing = {
            let free = self.segments.borrow().free_sections();
            (self.wanted_sections() + 1).saturating_sub(free) * section_blocks
        };
        let (mut gained, mut moved) = (0, false);
        for _ in 0..ROUND {
            // What was moved made nodes dirty, and the checkpoint has to find room too.
            let due = self.wanted_sections() - self.segments.borrow().reserved_sections;
            if moved && self.segments.borrow().free_sections() <= due + Log::ALL.len() as u32 {
                break;
            }
            let candidates = self.candidates();
            let Some(section) = greedy(&candidates).filter(|_| gained < missing) else {
                break;
            };
            let valid: u32 = candidates
                .iter()
                .filter(|c| c.section == section)
                .map(|c| c.valid)
                .sum();
            self.clean(section, |stats| &mut stats.foreground).await?;
            gained += section_blocks - valid;
            moved = true;
        }
        Ok(moved)
    }

    /// Whether cleaning in the background is worth it: a good part of what files may
    /// fill is not in use, and little of that part is in free segments.
    //= f2fs-paper 2.5
    fn is_worn(&self) -> bool {
        let counts = self.counts.get();
        let usable = self.usable_blocks();
        let unused = usable.saturating_sub(counts.valid_blocks);
        let segments = self.segments.borrow().usable_segments();
        let free = segments.saturating_sub(counts.overprovision);
        let free = u64::from(free) * u64::from(SEG_BLOCKS);
        unused > usable * 40 / 100 && free < unused * 40 / 100
    }

    /// Starts the background task that cleans one section after each wait while the file system
    /// is idle, until no section is worth it. The wait is the least one while the file system is
    /// idle and worn, else twice that.
    pub(crate) fn arm_cleaning(&self) {
        if self.clean_armed.replace(true) {
            return;
        }
        let (me, sim, least) = (self.me.clone(), self.sim.clone(), self.settings.cleaning);
        self.sim.spawn_detached(async move {
            let mut wait = least;
            loop {
                sim.sleep(wait).await;
                let Some(core) = me.upgrade() else { return };
                let idle = core.is_idle();
                wait = match idle && core.is_worn() {
                    true => least,
                    false => Ns(least.0 * 2),
                };
                // A failure ends all changes; the next force reports it.
                if idle && !matches!(core.clean_quietly().await, Ok(true)) {
                    return core.clean_armed.set(false);
                }
            }
        });
    }

    /// Whether no changing operation has begun for a sixth of the least wait: 5 s of 30 s, as
    /// in Linux.
    fn is_idle(&self) -> bool {
        self.sim.now().0 - self.begun.get().0 >= self.settings.cleaning.0 / 6
    }

    /// Cleans a section in the background; whether there was any to gain from. The next
    /// checkpoint frees it.
    async fn clean_quietly(&self) -> Result<bool> {
        let _cleaner = self.cleaner.acquire(1).await;
        if self.failed.get() || !self.has_room() {
            return Ok(false);
        }
        let Some(section) = cost_benefit(&self.candidates()) else {
            return Ok(false);
        };
        self.clean(section, |stats| &mut stats.background).await?;
        Ok(true)
    }

    /// Relocates a section, and counts that where `tally` says. The caller holds the
    /// cleaner's lock, and sees to it that a checkpoint follows.
    async fn clean(&self, section: u32, tally: fn(&mut LogStats) -> &mut Cleaning) -> Result<()> {
        let begun = self.sim.now();
        self.segments.borrow_mut().cleaning = Some(section);
        let moved = self.relocate(section).await;
        self.segments.borrow_mut().cleaning = None;
        let (blocks, time) = (moved?, self.sim.now().0 - begun.0);
        self.tally(|stats| {
            let cleaning = tally(stats);
            cleaning.calls += 1;
            cleaning.moved_bytes += blocks * BLOCK as u64;
            cleaning.time.0 += time;
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(section: u32, valid: u32, time: u64) -> Candidate {
        Candidate {
            section,
            valid,
            blocks: 512,
            time,
        }
    }

    #[test]
    fn greedy_takes_the_section_with_fewest_valid_blocks_and_no_full_one() {
        let all = [candidate(1, 512, 0), candidate(2, 9, 0), candidate(3, 9, 5)];
        assert_eq!(greedy(&all), Some(2));
        assert_eq!(greedy(&all[..1]), None);
    }

    #[test]
    fn cost_benefit_prefers_an_older_section() {
        let old = candidate(1, 300, 10);
        let young = candidate(2, 200, 1000);
        assert_eq!(cost_benefit(&[old, young]), Some(1));
        assert_eq!(greedy(&[old, young]), Some(2));
        let same = [candidate(1, 300, 10), candidate(2, 200, 10)];
        assert_eq!(cost_benefit(&same), Some(2));
        assert_eq!(cost_benefit(&[]), None);
    }
}
