//! Cleaning: what is in use in a section is moved, so that the section becomes free.
//!
//! In the foreground, when free sections are so few that what is dirty might not find
//! room, the section with the least in use is cleaned, and whoever is about to change
//! something waits for it; in the background, while nobody changes anything, the one with
//! the best ratio of cost and benefit. Which one is a pure function of a view.
//!
//! Other calls go on meanwhile. Each block is moved within an operation of its own, that
//! of a file under the turn of the file; only the checkpoint that frees sections is alone.
//!
//! Invariants: one section is cleaned at a time, and no log goes on in it; so a block in
//! it that is in use has the owner that it had when cleaning began. One whose owner does
//! not lead to it is about to be led to, or damage, and is not moved.

use crate::format::{BLOCK, SEG_BLOCKS, node, path};
use crate::fs::Core;
use crate::nodes::NodeBuf;
use crate::persist::{Log, MainArea, Persist};
use host::Purpose;
use nand::Payload;
use std::rc::Rc;
use units::Ns;
use vfs::{Cleaning, DirtyPage, Errno, FileKind, Result};

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
    /// When it was last written, on the average of its segments.
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

/// Counts a section that was cleaned.
const fn note(cleaning: &mut Cleaning, blocks: u64) {
    cleaning.calls += 1;
    cleaning.moved_bytes += blocks * BLOCK as u64;
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
            let moved_blocks = self.clean(section).await?;
            self.tally(|stats| note(&mut stats.foreground, moved_blocks));
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

    /// Has sections cleaned while nobody changes anything, one after each wait, until
    /// there is none to gain from. Waits become longer while there is little to gain.
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
                // A failure ends all changes; whoever forces is told.
                if idle && !matches!(core.clean_quietly().await, Ok(true)) {
                    return core.clean_armed.set(false);
                }
            }
        });
    }

    /// Whether nobody has begun to change anything for a sixth of the least wait: 5 s of
    /// 30 s, as in Linux.
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
        let moved = self.clean(section).await?;
        self.tally(|stats| note(&mut stats.background, moved));
        Ok(true)
    }

    /// Moves all that is in use in a section, and says how many blocks that were. The
    /// caller is the cleaner, and sees to it that there is a checkpoint afterwards.
    async fn clean(&self, section: u32) -> Result<u64> {
        self.segments.borrow_mut().cleaning = Some(section);
        let done = self.empty(section).await;
        self.segments.borrow_mut().cleaning = None;
        done
    }

    async fn empty(&self, section: u32) -> Result<u64> {
        let mut moved = 0;
        let segments = self.segments.borrow().segments_of(section);
        for segment in segments {
            let entry = *self.segments.borrow().entry(segment);
            if entry.valid == 0 {
                continue;
            }
            let owners = {
                let _operation = self.look().await;
                self.owners_of(segment).await?
            };
            let mut nodes = Vec::new();
            for at in 0..SEG_BLOCKS {
                let addr = self.geometry.addr_of(segment, at);
                let _operation = self.look().await;
                self.ensure_sound()?;
                if !self.segments.borrow().is_valid(addr) {
                    continue;
                }
                let owner = owners[at as usize];
                if entry.log >= Log::HotNode as u8 {
                    nodes.extend(self.take_node(owner.nid, addr).await?);
                } else {
                    let is_moved = self.move_page(owner.nid, usize::from(owner.at), addr);
                    moved += u64::from(is_moved.await?);
                }
            }
            moved += nodes.len() as u64;
            self.write_moved(nodes).await?;
        }
        Ok(moved)
    }

    /// What there is of `found`, unless the block at `addr` was freed meanwhile.
    fn unless_freed<T>(&self, addr: u32, found: Result<T>) -> Result<Option<T>> {
        match self.segments.borrow().is_valid(addr) {
            true => found.map(Some),
            false => Ok(None),
        }
    }

    /// The node at `addr`, made dirty so that it goes elsewhere.
    async fn take_node(&self, nid: u32, addr: u32) -> Result<Option<Rc<NodeBuf>>> {
        let entry = self.nat_entry(nid).await?;
        if entry.addr != addr {
            return Ok(None);
        }
        let found = self.node(nid).await;
        let found = self.unless_freed(addr, found)?;
        if let Some(buf) = &found {
            self.soil(buf);
        }
        Ok(found)
    }

    /// Writes nodes that were taken and that nobody has written or freed since.
    async fn write_moved(&self, nodes: Vec<Rc<NodeBuf>>) -> Result<()> {
        let _operation = self.look().await;
        let _chain = self.chain.acquire(1).await;
        let mut inodes = Vec::new();
        for buf in &nodes {
            inodes.push(self.node(buf.ino).await);
        }
        // From here on there is no wait before all have their places.
        let known = |nid: u32| self.nodes.borrow().get(nid).is_some();
        let left = nodes.into_iter().zip(&inodes);
        let left = left.filter(|(buf, inode)| inode.is_ok() && buf.dirty.get() && known(buf.nid));
        let left: Vec<Rc<NodeBuf>> = left.map(|(buf, _)| buf).collect();
        self.ensure_sound()?;
        self.write_nodes(&left, None).await
    }

    /// Moves the page at `addr`, if it still is the one that node `nid` leads to.
    async fn move_page(&self, nid: u32, at: usize, addr: u32) -> Result<bool> {
        let found = self.node(nid).await;
        let Some(buf) = self.unless_freed(addr, found)? else {
            return Ok(false);
        };
        let found = self.node(buf.ino).await;
        let Some(inode) = self.unless_freed(addr, found)? else {
            return Ok(false);
        };
        let turn = inode.turn(&self.sim).clone();
        let _turn = turn.acquire(1).await;
        let (kind, addrs) = {
            let bytes = inode.bytes();
            (
                FileKind::of_mode(node::MODE.get(&bytes[..])),
                node::addrs(&bytes),
            )
        };
        let leads = || self.segments.borrow().is_valid(addr) && buf.addr(at) == addr;
        if !leads() {
            return Ok(false);
        }
        if kind == Some(FileKind::Directory) {
            let first = path::first_page(node::offset_of(&buf.bytes()), addrs);
            let index = first.ok_or(Errno::EUCLEAN)? + at as u64;
            let block = self.dir_block_of(&inode, index).await?;
            let Some(block) = block.filter(|_| leads()) else {
                return Ok(false);
            };
            self.soil_block(inode.ino, index, &block);
            return Ok(true);
        }
        let mut page = [Payload::Zero];
        let who = self.who(Purpose::Data);
        self.persist.main().read(addr, &mut page, who).await?;
        let [now] = page;
        let page = DirtyPage {
            index: 0,
            now,
            before: None,
        };
        let places = [(Rc::clone(&buf), at, &page)];
        let addrs = self.write_new(&places, Log::ColdData, who).await?;
        // To remove a file takes no turn.
        if !leads() {
            self.segments.borrow_mut().free_block(addrs[0]);
            return Ok(false);
        }
        self.segments.borrow_mut().free_block(addr);
        buf.edit(|bytes| node::set_addr(bytes, at, addrs[0]));
        self.soil(&buf);
        Ok(true)
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
    fn greedy_takes_the_least_and_leaves_what_is_full() {
        let all = [candidate(1, 512, 0), candidate(2, 9, 0), candidate(3, 9, 5)];
        assert_eq!(greedy(&all), Some(2));
        assert_eq!(greedy(&all[..1]), None);
    }

    #[test]
    fn age_counts_in_the_background() {
        let old = candidate(1, 300, 10);
        let young = candidate(2, 200, 1000);
        assert_eq!(cost_benefit(&[old, young]), Some(1));
        assert_eq!(greedy(&[old, young]), Some(2));
        let same = [candidate(1, 300, 10), candidate(2, 200, 10)];
        assert_eq!(cost_benefit(&same), Some(2));
        assert_eq!(cost_benefit(&[]), None);
    }
}
