//! The memory of this library, separate from the program's allocator.
//!
//! Programs call hooks from inside their allocators, and some replace the allocator. So the placing
//! library never requests memory from them: it gets its own from the kernel.
//!
//! Invariants:
//! - The lock is held for a few instructions, or over a fork; no thread waits for anything else
//!   while it holds the lock.
//! - Calls of a handler that interrupts this are refused (see `gate`).
//! - A child process finds the heap in the state between two calls.

use super::gate;
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{self, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg_attr(flashloom_place, global_allocator)]
static HEAP: Heap = Heap::new();

/// Size of the smallest block in bytes, as a power of two.
const FIRST: u32 = 4;
/// Size of the largest block in bytes, as a power of two. Larger requests are mapped as pages.
const LAST: u32 = 15;
/// Bytes requested from the kernel at once.
const CHUNK: usize = 256 << 10;
const PAGE: usize = 4096;

/// Free blocks by size class, each linked to the next by its first word, and the unused range
/// (start, end) of the latest chunk.
struct Free {
    blocks: [*mut u8; (LAST - FIRST + 1) as usize],
    rest: (usize, usize),
}

pub(super) struct Heap {
    locked: AtomicBool,
    free: UnsafeCell<Free>,
}

// SAFETY: the free blocks are accessed only under the lock.
unsafe impl Sync for Heap {}

/// Source of an allocation: a block of a size class, or whole pages of this many bytes.
enum Kind {
    Block(usize),
    Pages(usize),
}

fn kind(layout: Layout) -> Kind {
    let size = layout.size().max(layout.align()).max(1 << FIRST);
    if size > 1 << LAST {
        return Kind::Pages(size.next_multiple_of(PAGE));
    }
    Kind::Block((size.next_power_of_two().trailing_zeros() - FIRST) as usize)
}

fn pages(len: usize) -> Option<usize> {
    let how = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    sys::map(0, len, how, (-1, 0)).ok()
}

impl Free {
    /// Takes a block of the size class `at`; null if the kernel has no memory.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn take(&mut self, at: usize) -> *mut u8 {
        let first = self.blocks[at];
        if !first.is_null() {
            // SAFETY: a free block holds the address of the next one.
            self.blocks[at] = unsafe { first.cast::<*mut u8>().read() };
            return first;
        }
        let size = 1 << (at as u32 + FIRST);
        let start = self.rest.0.next_multiple_of(size);
        if start + size <= self.rest.1 {
            self.rest.0 = start + size;
            return ptr::with_exposed_provenance_mut(start);
        }
        let Some(chunk) = pages(CHUNK) else {
            return null_mut();
        };
        self.rest = (chunk + size, chunk + CHUNK);
        ptr::with_exposed_provenance_mut(chunk)
    }
}

/// Guard of the heap's lock.
struct Lock<'a>(&'a AtomicBool);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Heap {
    const fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            free: UnsafeCell::new(Free {
                blocks: [null_mut(); (LAST - FIRST + 1) as usize],
                rest: (0, 0),
            }),
        }
    }

    fn lock(&self) -> Lock<'_> {
        while self.locked.swap(true, Ordering::Acquire) {
            sys::yields();
        }
        Lock(&self.locked)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Free) -> T) -> T {
        gate::undisturbed(|| {
            let _lock = self.lock();
            // SAFETY: the lock is held, and a handler asks for no memory meanwhile.
            work(unsafe { &mut *self.free.get() })
        })
    }
}

// SAFETY: blocks have at least the requested size. They are aligned to their own size, a power of
// two that is at least the requested alignment. Chunks and pages are aligned to pages; larger
// alignments are refused.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match kind(layout) {
            // SAFETY: the lock is held.
            Kind::Block(at) => self.with(|free| unsafe { free.take(at) }),
            Kind::Pages(_) if layout.align() > PAGE => null_mut(),
            Kind::Pages(len) => pages(len).map_or(null_mut(), ptr::with_exposed_provenance_mut),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match kind(layout) {
            Kind::Block(at) => self.with(|free| {
                // SAFETY: the block has no owner any more, and has room for an address.
                unsafe { block.cast::<*mut u8>().write(free.blocks[at]) };
                free.blocks[at] = block;
            }),
            Kind::Pages(len) => sys::unmap(block.addr(), len),
        }
    }
}

/// Runs `work`, a fork, with the heap locked. `work` must not allocate or free.
pub(super) fn still<T>(work: impl FnOnce() -> T) -> T {
    let _lock = HEAP.lock();
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_disjoint_and_reused() {
        let heap = Heap::new();
        let layouts = [
            (1, 1),
            (16, 8),
            (17, 1),
            (100, 64),
            (4096, 4096),
            (40_000, 16),
            (1 << 20, 8),
        ];
        let layouts = layouts.map(|(size, align)| Layout::from_size_align(size, align).unwrap());
        let mut held = Vec::new();
        for round in 0..50_u8 {
            for layout in layouts {
                // SAFETY: the layout is not empty.
                let block = unsafe { heap.alloc(layout) };
                assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(round, layout.size()) };
                held.push((block, layout, round));
            }
        }
        for (block, layout, round) in &held {
            // SAFETY: the block has this size, and was written.
            let bytes = unsafe { core::slice::from_raw_parts(*block, layout.size()) };
            assert!(bytes.iter().all(|byte| byte == round));
            // SAFETY: the block is freed once.
            unsafe { heap.dealloc(*block, *layout) };
        }
        // SAFETY: the layout is not empty.
        let again = unsafe { heap.alloc(layouts[3]) };
        assert!(
            held.iter()
                .any(|(block, layout, _)| *block == again && *layout == layouts[3])
        );
        let large = Layout::from_size_align(1 << 20, 2 * PAGE).unwrap();
        // SAFETY: the layout is not empty.
        assert!(unsafe { heap.alloc(large) }.is_null());
    }
}
