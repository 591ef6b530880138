//! Buddy allocator of frames of 4,096 bytes, in blocks of powers of two as in Linux.
//!
//! Invariants: two free halves of a block are always merged. The lowest free block of an order
//! is allocated first, so an allocation depends only on those before it.

use std::collections::BTreeSet;

/// Largest order: 2^18 frames, a gibibyte.
const ORDERS: usize = 19;

/// Free frames of a memory, as blocks by order.
#[derive(Clone, Debug)]
pub(crate) struct Buddy {
    free: [BTreeSet<u64>; ORDERS],
    frames: u64,
    left: u64,
}

impl Buddy {
    /// A memory of `frames` frames, all free.
    pub(crate) fn new(frames: u64) -> Self {
        let mut buddy = Self {
            free: Default::default(),
            frames,
            left: 0,
        };
        let mut at = 0;
        while at < frames {
            let aligned = if at == 0 { 63 } else { at.trailing_zeros() };
            let fits = (frames - at).ilog2();
            let order = aligned.min(fits).min(ORDERS as u32 - 1);
            buddy.free[order as usize].insert(at);
            at += 1 << order;
        }
        buddy.left = frames;
        buddy
    }

    /// Number of free frames.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Allocates 2^`order` contiguous frames. Returns the first.
    pub(crate) fn take(&mut self, order: usize) -> Option<u64> {
        let found = (order..ORDERS).find(|&larger| !self.free[larger].is_empty())?;
        let frame = self.free[found].pop_first()?;
        for half in (order..found).rev() {
            self.free[half].insert(frame + (1 << half));
        }
        self.left -= 1 << order;
        Some(frame)
    }

    /// Frees 2^`order` frames from `frame` on.
    pub(crate) fn give(&mut self, frame: u64, order: usize) {
        self.left += 1 << order;
        let (mut frame, mut order) = (frame, order);
        while order + 1 < ORDERS && self.free[order].remove(&(frame ^ 1 << order)) {
            frame &= !(1 << order);
            order += 1;
        }
        debug_assert!(
            frame + (1 << order) <= self.frames,
            "a frame of this memory"
        );
        self.free[order].insert(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn blocks_never_overlap_and_come_together_again() {
        let mut rng = Seed(5).stream("buddy");
        let mut buddy = Buddy::new(5_000);
        let mut held: Vec<(u64, usize)> = Vec::new();
        let mut used = vec![false; 5_000];
        for _ in 0..20_000 {
            if rng.chance(1, 2) {
                let order = rng.below(6) as usize;
                if let Some(frame) = buddy.take(order) {
                    assert_eq!(frame % (1 << order), 0, "a block lies at its own size");
                    for taken in &mut used[frame as usize..][..1 << order] {
                        assert!(!std::mem::replace(taken, true), "frames overlap");
                    }
                    held.push((frame, order));
                }
            } else if !held.is_empty() {
                let (frame, order) = held.swap_remove(rng.below(held.len() as u64) as usize);
                used[frame as usize..][..1 << order].fill(false);
                buddy.give(frame, order);
            }
            let taken = used.iter().filter(|&&taken| taken).count() as u64;
            assert_eq!(buddy.left() + taken, 5_000);
        }
        for (frame, order) in held {
            buddy.give(frame, order);
        }
        assert_eq!(buddy.take(12), Some(0), "4,096 frames lie together again");
    }
}
