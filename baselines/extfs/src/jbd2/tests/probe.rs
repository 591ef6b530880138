//! A port that records its commands, delays them, and fails on demand.

use super::*;
use sim::Rng;
use ssd::Sink;
use std::cell::Cell;

/// A command that the port has passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Read(u64),
    /// First block, number of blocks, whether forced.
    Write(u64, u64, bool),
    Flush,
}

#[derive(Clone)]
pub(super) struct Probe {
    pub(super) disk: host::RamDisk,
    pub(super) sim: Sim,
    pub(super) passed: Rc<RefCell<Vec<Passed>>>,
    pub(super) latency: Rc<Cell<Ns>>,
    pub(super) failing: Rc<Cell<bool>>,
    /// A block for which a command takes 10 ms more.
    pub(super) slow: Rc<Cell<Option<u64>>>,
    /// Commands take longer by chance, and so overtake each other.
    pub(super) jitter: Option<Rc<RefCell<Rng>>>,
}

impl Probe {
    pub(super) fn new(sim: &Sim, disk: host::RamDisk) -> Self {
        Self {
            disk,
            sim: sim.clone(),
            passed: Rc::default(),
            latency: Rc::default(),
            failing: Rc::default(),
            slow: Rc::default(),
            jitter: None,
        }
    }

    pub(super) fn take(&self) -> Vec<Passed> {
        self.passed.take()
    }

    async fn pass(&self, extent: Extent) -> std::result::Result<(), IoError> {
        let jitter = self
            .jitter
            .as_ref()
            .map_or(0, |rng| delay(&mut rng.borrow_mut()));
        let slow = self.slow.get() == Some(extent.start.0 / 8);
        let more = if slow { Ns::ms(10).0 } else { 0 };
        self.sim
            .sleep(Ns(self.latency.get().0 + jitter + more))
            .await;
        if self.failing.get() {
            return Err(IoError::Media(extent.start.0));
        }
        Ok(())
    }
}

impl BlockPort for Probe {
    fn capacity(&self) -> Bytes {
        self.disk.size()
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(
        &self,
        extent: Extent,
        sink: &mut impl Sink,
        who: Who,
    ) -> std::result::Result<(), IoError> {
        self.pass(extent).await?;
        self.passed
            .borrow_mut()
            .push(Passed::Read(extent.start.0 / 8));
        self.disk.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> std::result::Result<(), IoError> {
        self.pass(extent).await?;
        self.disk
            .write(extent, content, placement, who, fua)
            .await?;
        let blocks = u64::from(extent.sectors) / 8;
        let passed = Passed::Write(extent.start.0 / 8, blocks, fua);
        self.passed.borrow_mut().push(passed);
        Ok(())
    }

    async fn trim(&self, extent: Extent) -> std::result::Result<(), IoError> {
        self.disk.trim(extent).await
    }

    async fn flush(&self) -> std::result::Result<(), IoError> {
        self.pass(Extent::default()).await?;
        self.passed.borrow_mut().push(Passed::Flush);
        self.disk.flush().await
    }

    fn compute(&self, span: Ns) -> host::Computing {
        host::Computing::Until(self.sim.now() + span)
    }
}

/// A little, and now and then a lot.
fn delay(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.below(500),
        _ => rng.below(16),
    }
}
