//! A namespace in memory that is slow, lies, or is worn out.

use crate::host::identity;
use crate::plain::Plain;
use engine::{Engine, Handle, Pace, Service};
use nvme::{Backend, Failure, Manner, Namespace, Shape, Span, Subsystem};
use sim::{Kernel, Permit, Sim};
use ssd::Health;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::Ns;

pub(crate) struct Memory {
    plain: Plain,
    /// Duration of a write and the clock for it; `None` writes at once.
    slow: Option<(Sim, Ns)>,
    pub(crate) writing: Arc<AtomicUsize>,
    /// Every n-th read flips a bit; `None` for never. `reads` counts the reads.
    lies: Option<usize>,
    pub(crate) reads: Cell<usize>,
    /// Whether writes fail because the drive is read-only.
    pub(crate) worn: Cell<bool>,
    /// Bytes that commands wanted to keep.
    pub(crate) kept: Cell<u64>,
    /// Time that [`Backend::now`] returns.
    pub(crate) clock: Cell<Ns>,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            plain: Plain::new(bytes),
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

    /// Does `work`, which changes something, as slowly as it is slow.
    async fn slowly<T>(&self, work: impl Future<Output = T>) -> T {
        self.writing.fetch_add(1, Ordering::SeqCst);
        if let Some((sim, time)) = &self.slow {
            sim.sleep(*time).await;
        }
        let done = work.await;
        self.writing.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Makes each write take `time`.
    pub(crate) fn slow(self, sim: Sim, time: Ns) -> Self {
        Self {
            slow: Some((sim, time)),
            ..self
        }
    }
}

/// A subsystem of such namespaces on its thread, until it is dropped.
pub(crate) struct Alive {
    engine: Option<Engine<()>>,
    pub(crate) handle: Handle<Subsystem<Memory>>,
}

impl Alive {
    pub(crate) fn start(
        pace: Pace,
        drives: impl FnOnce(&Kernel) -> Vec<Memory> + Send + 'static,
    ) -> Self {
        let build = |kernel: &Kernel| {
            let backends = drives(kernel).into_iter().map(Namespace::new);
            Ok::<_, io::Error>(Subsystem::new(identity(), backends.collect()))
        };
        let (engine, handle) = Engine::start(pace, build, |_, _| ()).expect("a thread");
        Self {
            engine: Some(engine),
            handle,
        }
    }

    /// Number of connected queues.
    pub(crate) fn links(&self) -> usize {
        let links = |subsystem: Rc<Subsystem<Memory>>| async move { subsystem.links() };
        self.handle.ask(links).expect("it runs")
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(engine) = self.engine.take() {
            engine.join().expect("it ends");
        }
    }
}

impl Service for Memory {
    fn settle(&self) {}
}

impl Backend for Memory {
    fn shape(&self) -> &Shape {
        self.plain.shape()
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.plain.read(at, into).await?;
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

    async fn write(&self, at: u64, data: &[u8], how: Manner) -> Result<(), Failure> {
        if self.worn.get() {
            return Err(Failure::ReadOnly);
        }
        self.slowly(self.plain.write(at, data, how)).await
    }

    async fn zero(&self, span: Span, how: Manner) -> Result<(), Failure> {
        self.slowly(self.plain.zero(span, how)).await
    }

    async fn deallocate(&self, span: Span) -> Result<(), Failure> {
        self.plain.deallocate(span).await
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.plain.flush().await
    }

    async fn room(&self, bytes: u64) -> Option<Permit> {
        self.kept.set(self.kept.get() + bytes);
        None
    }

    fn health(&self) -> Option<Health> {
        self.plain.health()
    }

    fn is_read_only(&self) -> bool {
        self.worn.get()
    }

    fn now(&self) -> Ns {
        self.clock.get()
    }
}
