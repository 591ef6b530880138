//! A namespace in memory.

use engine::Service;
use nvme::{Backend, Failure, Manner, Placements, Shape, Span};
use sim::{Permit, Sim};
use ssd::Health;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::Ns;

pub(crate) struct Memory {
    shape: Shape,
    bytes: RefCell<Vec<u8>>,
    /// How long a write takes, and how many are under way.
    slow: Option<(Sim, Ns)>,
    pub(crate) writing: Arc<AtomicUsize>,
    /// In every how many reads a bit is changed, and how many there were.
    lies: Option<usize>,
    reads: Cell<usize>,
    /// Nothing is written.
    pub(crate) worn: Cell<bool>,
    /// Bytes that commands wanted to keep.
    pub(crate) kept: Cell<u64>,
    /// What its clock shows.
    pub(crate) clock: Cell<Ns>,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        let shape = Shape {
            bytes,
            capacity: bytes,
            id: *b"sixteen bytes id",
            volatile_cache: true,
            granule: 4096,
            spare_blocks: 0,
            zones: None,
            placements: Placements::None,
            bytes_too: false,
        };
        Self::of(shape)
    }

    pub(crate) fn of(shape: Shape) -> Self {
        Self {
            bytes: RefCell::new(vec![0; shape.bytes as usize]),
            shape,
            slow: None,
            writing: Arc::default(),
            lies: None,
            reads: Cell::new(0),
            worn: Cell::new(false),
            kept: Cell::new(0),
            clock: Cell::new(Ns::ZERO),
        }
    }

    /// One that changes a bit in one of so many reads.
    pub(crate) fn lying(self, every: usize) -> Self {
        Self {
            lies: Some(every),
            ..self
        }
    }

    /// One whose writes take so long.
    pub(crate) fn slow(self, sim: Sim, time: Ns) -> Self {
        Self {
            slow: Some((sim, time)),
            ..self
        }
    }
}

impl Service for Memory {
    fn settle(&self) {}
}

impl Backend for Memory {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        let at = at as usize;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        self.reads.set(self.reads.get() + 1);
        if self
            .lies
            .is_some_and(|every| self.reads.get().is_multiple_of(every))
        {
            let middle = into.len() / 2;
            into[middle] ^= 1;
        }
        Ok(())
    }

    async fn write(&self, at: u64, data: &[u8], _: Manner) -> Result<(), Failure> {
        if self.worn.get() {
            return Err(Failure::ReadOnly);
        }
        self.writing.fetch_add(1, Ordering::SeqCst);
        if let Some((sim, time)) = &self.slow {
            sim.sleep(*time).await;
        }
        let at = at as usize;
        self.bytes.borrow_mut()[at..at + data.len()].copy_from_slice(data);
        self.writing.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    async fn zero(&self, span: Span, _: Manner) -> Result<(), Failure> {
        self.bytes.borrow_mut()[span.at as usize..span.end() as usize].fill(0);
        Ok(())
    }

    async fn deallocate(&self, span: Span) -> Result<(), Failure> {
        self.zero(span, Manner::default()).await
    }

    async fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn room(&self, bytes: u64) -> Option<Permit> {
        self.kept.set(self.kept.get() + bytes);
        None
    }

    fn health(&self) -> Option<Health> {
        None
    }

    fn is_read_only(&self) -> bool {
        self.worn.get()
    }

    fn now(&self) -> Ns {
        self.clock.get()
    }
}
