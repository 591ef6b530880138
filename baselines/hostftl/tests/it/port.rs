//! A raw port with unreadable blocks and delayed reads.

use host::{Computing, RawDevice, RawMark, RawPort, Who};
use nand::Payload;
use sim::Sim;
use ssd::{ChunkInfo, ChunkNotice, Meta, Ppa, RawBlock, RawError, RawGeometry, RawStatus};
use ssd::{ChunkState, ReadCause};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::Ns;

#[derive(Clone)]
pub(crate) struct Port {
    sim: Sim,
    pub(crate) raw: RawDevice,
    /// Blocks whose reads fail.
    pub(crate) unreadable: Rc<RefCell<BTreeSet<Ppa>>>,
    /// Delay of reads of the host before they reach the drive.
    pub(crate) late: Rc<Cell<Ns>>,
}

impl Port {
    pub(crate) fn new(sim: &Sim, raw: RawDevice) -> Self {
        Self {
            sim: sim.clone(),
            raw,
            unreadable: Rc::default(),
            late: Rc::new(Cell::new(Ns::ZERO)),
        }
    }

    /// Written blocks of the drive.
    pub(crate) async fn written(&self) -> Vec<Ppa> {
        let geometry = self.geometry();
        let chunks = self.report(0, geometry.all_chunks()).await;
        let chunks = chunks.expect("it can be asked").into_iter();
        let chunks = chunks.filter(|info| info.state != ChunkState::Offline);
        let blocks = chunks.flat_map(|info| {
            let first = info.chunk * geometry.blocks;
            (first..first + info.write_pointer).map(|n| geometry.ppa(geometry.nth(n)))
        });
        blocks.collect()
    }

    /// Number of the chunk of a block within its parallel unit.
    pub(crate) fn chunk(&self, at: Ppa) -> u32 {
        let place = self.geometry().place(at);
        place.expect("there is such a block").chunk
    }
}

impl RawPort for Port {
    fn geometry(&self) -> RawGeometry {
        self.raw.geometry()
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ChunkInfo>, RawError> {
        self.raw.report(first, count).await
    }

    async fn read(
        &self,
        at: &[Ppa],
        cause: ReadCause,
        who: Who,
    ) -> Result<Vec<RawBlock>, RawError> {
        if cause == ReadCause::Host && self.late.get() > Ns::ZERO {
            self.sim.sleep(self.late.get()).await;
        }
        let read = self.raw.read(at, cause, who).await?;
        let unreadable = self.unreadable.borrow();
        let bad = (0..).zip(at).filter(|(_, ppa)| unreadable.contains(ppa));
        let failed = bad.fold(0, |failed, (index, _)| failed | 1_u64 << index);
        match failed {
            0 => Ok(read),
            _ => Err(RawError {
                status: RawStatus::UnrecoveredRead,
                failed,
            }),
        }
    }

    async fn write(
        &self,
        at: &[Ppa],
        payload: &[Payload],
        meta: &[Meta],
        marks: &[RawMark],
    ) -> Result<(), RawError> {
        self.raw.write(at, payload, meta, marks).await
    }

    async fn copy(&self, from: &[Ppa], to: &[Ppa], marks: &[RawMark]) -> Result<(), RawError> {
        self.raw.copy(from, to, marks).await
    }

    async fn reset(&self, at: &[Ppa]) -> Result<(), RawError> {
        self.raw.reset(at).await
    }

    fn notices(&self) -> Vec<ChunkNotice> {
        self.raw.notices()
    }

    fn peek(&self, at: Ppa) -> Option<RawBlock> {
        self.raw.peek(at)
    }

    fn compute(&self, span: Ns) -> Computing {
        self.raw.compute(span)
    }
}
