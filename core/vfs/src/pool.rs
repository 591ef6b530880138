//! The memory of the page cache: frames, each with one page of one file.
//!
//! Invariants: a frame in use belongs to one inode, whose `pages` lead to it; a
//! frame that is dirty, being loaded or under write-back is never taken away;
//! `used` counts frames in use, `dirty` and `writing` those in these states.

use crate::types::Ino;
use nand::Payload;
use units::Ns;

/// States of a frame.
pub(crate) mod state {
    /// Its contents are on their way from the medium.
    pub(crate) const LOADING: u8 = 1;
    /// Newer than the medium.
    pub(crate) const DIRTY: u8 = 2;
    /// On its way to the medium.
    pub(crate) const WRITING: u8 = 4;
    /// Used more than once since it came, or again since the hand passed.
    pub(crate) const USED: u8 = 8;
    /// Reading it starts the next window of read-ahead.
    pub(crate) const MARK: u8 = 16;
    /// What the medium holds is not known: a write-back failed.
    pub(crate) const UNKNOWN: u8 = 32;
    /// In use.
    pub(crate) const TAKEN: u8 = 64;
    /// Used since it came.
    pub(crate) const SEEN: u8 = 128;
    /// What must stay.
    pub(crate) const BUSY: u8 = LOADING | DIRTY | WRITING;
}

pub(crate) struct Frame {
    pub(crate) data: Payload,
    /// Contents when it was last clean, of a dirty page, where bodies ask.
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

    /// Notes that it is used. What is used once, as a stream is, does not count.
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
    /// Most frames in use.
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

    /// Takes a frame; the caller made room.
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

    /// Gives a frame back.
    pub(crate) fn give_back(&mut self, number: u32) {
        let frame = self.frame_mut(number);
        frame.data = Payload::Zero;
        frame.before = None;
        frame.state = 0;
        self.used -= 1;
        self.free.push(number);
    }

    /// A frame to be taken away: the first one from the hand on that is clean
    /// and was not used since the hand last passed.
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

    /// All frames that may be taken away.
    pub(crate) fn clean(&self) -> Vec<u32> {
        let frames = self.frames.iter().enumerate();
        let clean = frames.filter(|(_, f)| f.is(state::TAKEN) && !f.is(state::BUSY));
        clean.map(|(number, _)| number as u32).collect()
    }

    /// Counts frames in use, dirty and under write-back anew.
    pub(crate) fn count(&self) -> (usize, u64, u64) {
        let of = |state| self.frames.iter().filter(|f| f.is(state)).count();
        let (dirty, writing) = (of(state::DIRTY), of(state::WRITING));
        (of(state::TAKEN), dirty as u64, writing as u64)
    }
}

/// What the cache has done, in bytes or pages since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes that programs have read.
    pub read: u64,
    /// Bytes that programs have written.
    pub written: u64,
    /// Pages read that were in the cache.
    pub hits: u64,
    /// Pages read that were not.
    pub misses: u64,
    /// Pages loaded before anybody asked for them.
    pub read_ahead: u64,
    /// Pages handed to the body to be written back.
    pub written_back: u64,
    /// Clean pages taken away to make room.
    pub evicted: u64,
    /// Times that a writer waited because too much was dirty.
    pub throttled: u64,
    /// Virtual time that writers so waited.
    pub throttled_time: Ns,
    /// Pages in the cache now.
    pub cached: u64,
    /// Dirty ones now.
    pub dirty: u64,
    /// Those under write-back now.
    pub writing: u64,
}
