//! The memory of the page cache: frames, each with one page of one file.
//!
//! Invariants: a frame in use belongs to one inode, whose `pages` lead to it; a
//! frame that is dirty, being loaded or under write-back is never taken away;
//! `used` counts frames in use, `dirty` and `writing` those in these states.

use crate::types::Ino;
use nand::Payload;
use units::Ns;

/// Bits of the state of a frame.
pub(crate) mod state {
    /// A load from the medium is in progress.
    pub(crate) const LOADING: u8 = 1;
    /// Contents are newer than those on the medium.
    pub(crate) const DIRTY: u8 = 2;
    /// Write-back is in progress.
    pub(crate) const WRITING: u8 = 4;
    /// Used at least twice since the load, or again since the clock hand passed.
    pub(crate) const USED: u8 = 8;
    /// Reading the page triggers the next window of read-ahead.
    pub(crate) const MARK: u8 = 16;
    /// Contents on the medium are not known to match: a write-back failed, or the page was never
    /// loaded.
    pub(crate) const UNKNOWN: u8 = 32;
    /// The frame holds a page.
    pub(crate) const TAKEN: u8 = 64;
    /// Used once since the load.
    pub(crate) const SEEN: u8 = 128;
    /// States in which a frame must not be evicted.
    pub(crate) const BUSY: u8 = LOADING | DIRTY | WRITING;
}

pub(crate) struct Frame {
    pub(crate) data: Payload,
    /// Contents when the page was last clean; only of a dirty page, and only for bodies that want
    /// duplicates.
    pub(crate) before: Option<Payload>,
    pub(crate) owner: Ino,
    pub(crate) index: u64,
    pub(crate) state: u8,
}

impl Frame {
    #[inline]
    pub(crate) fn is(&self, state: u8) -> bool {
        self.state & state != 0
    }

    /// Notes a use. A page used only once, as in a stream, stays a victim.
    #[inline]
    pub(crate) fn touch(&mut self) {
        self.state |= if self.is(state::SEEN) {
            state::USED
        } else {
            state::SEEN
        };
    }
}

#[derive(Default)]
pub(crate) struct Pool {
    frames: Vec<Frame>,
    free: Vec<u32>,
    hand: usize,
    /// Most frames in use at a time.
    pub(crate) limit: usize,
    pub(crate) used: usize,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn frame(&self, number: u32) -> &Frame {
        &self.frames[number as usize]
    }

    #[inline]
    pub(crate) fn frame_mut(&mut self, number: u32) -> &mut Frame {
        &mut self.frames[number as usize]
    }

    /// Takes a free frame for a page; the caller has made room.
    pub(crate) fn take(&mut self, owner: Ino, index: u64, data: Payload, states: u8) -> u32 {
        let frame = Frame {
            data,
            before: None,
            owner,
            index,
            state: states | state::TAKEN,
        };
        self.used += 1;
        if let Some(number) = self.free.pop() {
            self.frames[number as usize] = frame;
            return number;
        }
        self.frames.push(frame);
        (self.frames.len() - 1) as u32
    }

    /// Frees a frame and its contents.
    pub(crate) fn give_back(&mut self, number: u32) {
        let frame = self.frame_mut(number);
        frame.data = Payload::Zero;
        frame.before = None;
        frame.state = 0;
        self.used -= 1;
        self.free.push(number);
    }

    /// Victim of the clock: the first clean frame after the hand that was not used since the hand
    /// last passed.
    pub(crate) fn victim(&mut self) -> Option<u32> {
        for _ in 0..self.frames.len() * 2 {
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[self.hand];
            if !frame.is(state::TAKEN) || frame.is(state::BUSY) {
                continue;
            }
            if !frame.is(state::USED) {
                return Some(self.hand as u32);
            }
            frame.state &= !state::USED;
        }
        None
    }

    /// Numbers of all frames that may be evicted.
    pub(crate) fn clean(&self) -> Vec<u32> {
        let frames = self.frames.iter().enumerate();
        let clean = frames.filter(|(_, f)| f.is(state::TAKEN) && !f.is(state::BUSY));
        clean.map(|(number, _)| number as u32).collect()
    }

    /// Recounts frames in use, dirty, and under write-back.
    pub(crate) fn count(&self) -> (usize, u64, u64) {
        let of = |state| self.frames.iter().filter(|f| f.is(state)).count();
        let (dirty, writing) = (of(state::DIRTY), of(state::WRITING));
        (of(state::TAKEN), dirty as u64, writing as u64)
    }
}

/// Counters of the page cache since the mount, and its present state in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes read by programs.
    pub read: u64,
    /// Bytes written by programs.
    pub written: u64,
    /// Page reads served from the cache.
    pub hits: u64,
    /// Pages loaded on demand.
    pub misses: u64,
    /// Pages loaded by read-ahead.
    pub read_ahead: u64,
    /// Pages passed to the body for write-back.
    pub written_back: u64,
    /// Clean pages evicted to make room.
    pub evicted: u64,
    /// Times that a writer was blocked because too many pages were dirty.
    pub throttled: u64,
    /// Virtual time that writers were blocked.
    pub throttled_time: Ns,
    /// Pages in the cache now.
    pub cached: u64,
    /// Dirty pages at this moment.
    pub dirty: u64,
    /// Pages under write-back at this moment.
    pub writing: u64,
}
