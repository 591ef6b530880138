//! Records the memory operations of a kernel while it executes.
//!
//! Invariants: operations are recorded in the order in which the kernel executes them. A dependence
//! names the load from whose value an address is computed, and is dropped if the load is further
//! back than a core could hold. Compute instructions between two accesses are combined into one
//! [`Op::Compute`].
//!
//! A kernel is an `async fn` that owns its [`Mem`]. It runs until it has recorded a batch or has
//! reached a barrier of all threads. Kernels can thus be written as plain algorithms, and no
//! complete trace is held in memory.

use memsys::Op;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Number of operations after which a kernel pauses.
const BATCH: usize = 512;

/// Passes results from a kernel to its caller: the recorded operations, and whether the kernel is
/// now waiting at a barrier.
#[derive(Default)]
pub(crate) struct Outlet {
    pub(crate) ops: Cell<Vec<Op>>,
    pub(crate) meets: Cell<bool>,
}

/// A recorded load or store, on which a later address may depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// One thread's view of its memory.
pub(crate) struct Mem {
    ops: Vec<Op>,
    compute: u32,
    /// Number of loads and stores so far.
    count: u64,
    outlet: Rc<Outlet>,
}

impl Mem {
    pub(crate) fn new(outlet: Rc<Outlet>) -> Self {
        Self {
            ops: Vec::with_capacity(2 * BATCH),
            compute: 0,
            count: 0,
            outlet,
        }
    }

    /// Records `instructions` instructions that access no memory.
    #[inline]
    pub(crate) fn compute(&mut self, instructions: u32) {
        self.compute = self.compute.saturating_add(instructions);
    }

    /// Records a load whose address does not depend on a recent load.
    #[inline]
    pub(crate) fn load(&mut self, at: u64, size: u8) -> Tag {
        self.settle();
        self.ops.push(Op::Load { at, size, after: 0 });
        self.noted()
    }

    /// Records a load whose address depends on the value loaded by `from`.
    #[inline]
    pub(crate) fn load_after(&mut self, at: u64, size: u8, from: Tag) -> Tag {
        self.settle();
        let after = self.back(from);
        self.ops.push(Op::Load { at, size, after });
        self.noted()
    }

    /// Records a store whose address does not depend on a recent load.
    #[inline]
    pub(crate) fn store(&mut self, at: u64, size: u8) -> Tag {
        self.settle();
        self.ops.push(Op::Store { at, size, after: 0 });
        self.noted()
    }

    /// Records a store whose address depends on the value loaded by `from`.
    #[inline]
    pub(crate) fn store_after(&mut self, at: u64, size: u8, from: Tag) -> Tag {
        self.settle();
        let after = self.back(from);
        self.ops.push(Op::Store { at, size, after });
        self.noted()
    }

    /// Loads `bytes` consecutive bytes with vector loads of up to 64 bytes.
    pub(crate) fn load_span(&mut self, at: u64, bytes: u64, from: Option<Tag>) -> Option<Tag> {
        let mut last = from;
        for (at, size) in pieces(at, bytes) {
            let tag = match from {
                Some(from) => self.load_after(at, size, from),
                None => self.load(at, size),
            };
            last = Some(tag);
        }
        last
    }

    /// Stores `bytes` consecutive bytes with vector stores of up to 64 bytes.
    pub(crate) fn store_span(&mut self, at: u64, bytes: u64, from: Option<Tag>) {
        for (at, size) in pieces(at, bytes) {
            match from {
                Some(from) => self.store_after(at, size, from),
                None => self.store(at, size),
            };
        }
    }

    /// Writes back the cache line that contains `at` and keeps it in the cache.
    #[inline]
    pub(crate) fn flush(&mut self, at: u64) {
        self.settle();
        self.ops.push(Op::Flush { at });
    }

    /// Records a fence: earlier flushes complete before later operations.
    #[inline]
    pub(crate) fn fence(&mut self) {
        self.settle();
        self.ops.push(Op::Fence);
    }

    #[inline]
    fn settle(&mut self) {
        if self.compute > 0 {
            self.ops.push(Op::Compute(self.compute));
            self.compute = 0;
        }
    }

    #[inline]
    fn noted(&mut self) -> Tag {
        self.count += 1;
        Tag(self.count)
    }

    /// Distance from the next memory operation back to `from`; 0 if it is too large to be
    /// represented, since the value has then long been available.
    #[inline]
    fn back(&self, from: Tag) -> u16 {
        u16::try_from(self.count + 1 - from.0).unwrap_or(0)
    }

    /// Pauses if a batch has been recorded.
    #[inline]
    pub(crate) async fn breathe(&mut self) {
        if self.ops.len() >= BATCH {
            self.rest().await;
        }
    }

    /// Waits at a barrier for all threads.
    pub(crate) async fn meet(&mut self) {
        self.settle();
        self.ops.push(Op::Meet);
        self.outlet.meets.set(true);
        self.rest().await;
    }

    /// Waits at a barrier for all threads; measurement begins there.
    pub(crate) async fn begin(&mut self) {
        self.settle();
        self.ops.push(Op::Begin);
        self.meet().await;
    }

    async fn rest(&mut self) {
        self.hand_over();
        Rest(false).await;
        self.ops = self.outlet.ops.take();
        self.ops.clear();
    }

    /// Hands over the remaining operations; the thread must end after this.
    pub(crate) fn end(&mut self) {
        self.settle();
        self.hand_over();
    }

    fn hand_over(&mut self) {
        self.outlet.ops.set(std::mem::take(&mut self.ops));
    }
}

/// Splits the `bytes` bytes from `at` at the ends of 64-byte lines.
pub(crate) fn pieces(mut at: u64, bytes: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = at + bytes;
    std::iter::from_fn(move || {
        let next = end.min((at | 63) + 1);
        let piece = (at, (next - at) as u8);
        at = next;
        (piece.1 > 0).then_some(piece)
    })
}

/// A future that is pending once, then ready.
struct Rest(bool);

impl Future for Rest {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Hands out virtual addresses from 1 MiB upwards, in whole pages, so that no two structures share
/// a page and address 0 stays invalid.
pub(crate) struct Space {
    next: u64,
}

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

impl Space {
    pub(crate) const BASE: u64 = 1 << 20;

    pub(crate) const fn new() -> Self {
        Self { next: Self::BASE }
    }

    /// Allocates `bytes` bytes that start at a page boundary.
    pub(crate) const fn take(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.next_multiple_of(PAGE);
        at
    }

    /// One past the last address that was handed out.
    pub(crate) const fn end(&self) -> u64 {
        self.next
    }
}

/// Consecutive elements of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    base: u64,
    size: u64,
}

impl Array {
    pub(crate) const fn new(space: &mut Space, count: u64, size: u64) -> Self {
        Self {
            base: space.take(count * size),
            size,
        }
    }

    /// The address of element `index`.
    #[inline]
    pub(crate) const fn at(self, index: u64) -> u64 {
        self.base + index * self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_at_lines() {
        let cut: Vec<_> = pieces(60, 70).collect();
        assert_eq!(cut, [(60, 4), (64, 64), (128, 2)]);
        assert_eq!(pieces(64, 0).count(), 0);
    }

    #[test]
    fn a_dependence_counts_memory_operations_back() {
        let mut mem = Mem::new(Rc::default());
        let first = mem.load(64, 8);
        mem.compute(3);
        let second = mem.load(128, 8);
        mem.store_after(192, 8, first);
        mem.load_after(256, 8, second);
        let after: Vec<u16> = mem
            .ops
            .iter()
            .filter_map(|op| match op {
                Op::Load { after, .. } | Op::Store { after, .. } => Some(*after),
                _ => None,
            })
            .collect();
        assert_eq!(after, [0, 0, 2, 2]);
        assert_eq!(mem.ops[1], Op::Compute(3));
    }
}
