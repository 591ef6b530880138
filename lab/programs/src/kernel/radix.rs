//! Radix sort of integers, as in SPLASH.
//!
//! Structures: two arrays of keys of 4 bytes, and for each thread a count of 4 bytes for each of
//! 1024 digits. In a pass each thread counts the digits of its range; all threads meet; each
//! derives from all counts the places of its keys of each digit; it moves its keys there; all meet,
//! and the arrays swap roles. Keys have 20 bits, so that two passes of 10 bits sort them. The first
//! pass is the warm-up, the second is measured.
//!
//! An array of more than 2²⁸ keys is not held: then only the first pass is made, whose keys are
//! drawn as they are read, and measuring begins once its digits are counted.
//!
//! Instructions besides loads and stores: 5 a key counted (shift, mask, addition, increment, loop),
//! 6 a key moved; 2 for a line of 16 counts that is summed by vectors.

use super::bfs::chunks;
use crate::graph::share;
use crate::mem::{Array, Mem, Space};
use crate::threads::Threads;
use sim::{Seed, mix};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const DIGITS: u64 = 1024;
const DIGIT_BITS: u32 = 10;
/// Largest number of keys that are held.
const HELD: u64 = 1 << 28;

/// State of the radix sort, shared by its threads.
pub struct Radix {
    keys: u64,
    arrays: [Array; 2],
    counts: Array,
    end: u64,
    /// Keys of the two arrays; empty if there are too many to hold.
    held: [Vec<Cell<u32>>; 2],
    /// Digit counts of the threads, one thread after the other.
    count: RefCell<Vec<u32>>,
    seed: u64,
}

impl Radix {
    /// Number of keys whose two arrays fill `footprint` bytes.
    #[must_use]
    pub const fn keys(footprint: u64) -> u64 {
        footprint / 8
    }

    /// A sort of `keys` keys by `threads` threads.
    #[must_use]
    pub fn new(keys: u64, threads: u32, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let hash = seed.stream("keys").next_u64();
        let held = if keys <= HELD { keys } else { 0 };
        let drawn = (0..held).map(|i| Cell::new(draw(hash, i)));
        let digits = u64::from(threads) * DIGITS;
        Rc::new(Self {
            keys,
            arrays: [(); 2].map(|()| Array::new(&mut space, keys, 4)),
            counts: Array::new(&mut space, digits, 4),
            end: space.end(),
            held: [drawn.collect(), vec![Cell::new(0); held as usize]],
            count: RefCell::new(vec![0; digits as usize]),
            seed: hash,
        })
    }

    /// Program of the threads that the sort was made for.
    #[must_use]
    pub fn program(self: &Rc<Self>) -> Threads {
        let threads = (self.count.borrow().len() as u64 / DIGITS) as u32;
        Threads::new(threads, self.end, |thread, mem| {
            let worker = Worker {
                radix: Rc::clone(self),
                thread,
                threads,
                mem,
            };
            worker.run()
        })
    }

    /// Sorted keys, once the program has ended; empty if they are not held.
    #[must_use]
    pub fn sorted(&self) -> Vec<u32> {
        self.held[0].iter().map(Cell::get).collect()
    }

    fn key(&self, array: usize, at: u64) -> u32 {
        match self.held[array].get(at as usize) {
            Some(key) => key.get(),
            None => draw(self.seed, at),
        }
    }
}

fn draw(seed: u64, at: u64) -> u32 {
    (mix(seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> (64 - 2 * DIGIT_BITS)) as u32
}

const fn digit(key: u32, pass: u32) -> u64 {
    (key >> (pass * DIGIT_BITS)) as u64 & (DIGITS - 1)
}

struct Worker {
    radix: Rc<Radix>,
    thread: u32,
    threads: u32,
    mem: Mem,
}

impl Worker {
    async fn run(mut self) {
        let held = self.radix.keys <= HELD;
        let passes = if held { 2 } else { 1 };
        for pass in 0..passes {
            if pass == 1 {
                self.mem.begin().await;
            }
            self.count(pass).await;
            if held {
                self.mem.meet().await;
            } else {
                self.mem.begin().await;
            }
            let mut ranks = self.ranks().await;
            self.mem.meet().await;
            self.shift(pass, &mut ranks).await;
            self.mem.meet().await;
        }
        self.mem.end();
    }

    fn own_count(&self, digit: u64) -> u64 {
        u64::from(self.thread) * DIGITS + digit
    }

    async fn count(&mut self, pass: u32) {
        let radix = Rc::clone(&self.radix);
        let own = self.own_count(0);
        self.mem.store_span(radix.counts.at(own), DIGITS * 4, None);
        let mut counts = vec![0_u32; DIGITS as usize];
        for at in share(radix.keys, self.thread, self.threads) {
            let key = self.mem.load(radix.arrays[pass as usize].at(at), 4);
            let digit = digit(radix.key(pass as usize, at), pass);
            let place = radix.counts.at(own + digit);
            self.mem.compute(5);
            self.mem.load_after(place, 4, key);
            self.mem.store_after(place, 4, key);
            counts[digit as usize] += 1;
            self.mem.breathe().await;
        }
        let own = own as usize..own as usize + DIGITS as usize;
        radix.count.borrow_mut()[own].copy_from_slice(&counts);
    }

    /// Place of this thread's first key of each digit, in the target array.
    async fn ranks(&mut self) -> Vec<u64> {
        let radix = Rc::clone(&self.radix);
        for line in chunks(0..u64::from(self.threads) * DIGITS, 16) {
            self.mem.load(radix.counts.at(line.start), 64);
            self.mem.compute(2);
            self.mem.breathe().await;
        }
        let count = radix.count.borrow();
        let of = |thread: u32, digit: u64| count[(u64::from(thread) * DIGITS + digit) as usize];
        let mut ranks = Vec::with_capacity(DIGITS as usize);
        let mut before = 0;
        for digit in 0..DIGITS {
            let earlier: u64 = (0..self.thread).map(|t| u64::from(of(t, digit))).sum();
            ranks.push(before + earlier);
            before += (0..self.threads)
                .map(|t| u64::from(of(t, digit)))
                .sum::<u64>();
        }
        ranks
    }

    async fn shift(&mut self, pass: u32, ranks: &mut [u64]) {
        let radix = Rc::clone(&self.radix);
        let own = self.own_count(0);
        // The ranks are stored over this thread's counts.
        self.mem.store_span(radix.counts.at(own), DIGITS * 4, None);
        let (from, to) = (pass as usize, 1 - pass as usize);
        for at in share(radix.keys, self.thread, self.threads) {
            let key = radix.key(from, at);
            let digit = digit(key, pass);
            let loaded = self.mem.load(radix.arrays[from].at(at), 4);
            let place = radix.counts.at(own + digit);
            let rank = self.mem.load_after(place, 4, loaded);
            self.mem.compute(6);
            self.mem.store_after(place, 4, loaded);
            let target = ranks[digit as usize];
            self.mem.store_after(radix.arrays[to].at(target), 4, rank);
            if let Some(slot) = radix.held[to].get(target as usize) {
                slot.set(key);
            }
            ranks[digit as usize] += 1;
            self.mem.breathe().await;
        }
    }
}
