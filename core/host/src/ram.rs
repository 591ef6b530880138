//! A disk in memory: the smallest and strictest block port.
//!
//! Invariants: `durable` holds all writes that a flush has promised; `volatile` holds
//! the writes since the last flush, and a power cut keeps any subset of them, in any
//! order of different pages. A request takes one turn of 1 ns, in which all ready tasks
//! run, so tests of a file system over this disk are quick and meet every interleaving
//! that the order of tasks allows.

mod bytes;
mod zones;

pub use self::zones::{RamZones, ZoneAtRest, ZonesAtRest};

use self::bytes::Lines;
use crate::cores::Computing;
use crate::ledger::{Ledger, Who};
use crate::port::BlockPort;
use nand::{Payload, UNIT};
use sim::{Rng, Sim};
use ssd::{Content, IoError, Sink};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Number of host sectors per payload.
const SECTORS: u64 = UNIT as u64 / SECTOR;

struct State {
    durable: BTreeMap<u64, Payload>,
    /// Writes since the last flush, oldest first.
    volatile: Vec<(u64, Payload)>,
    newest: BTreeMap<u64, Payload>,
    lines: Lines,
    ledger: Ledger,
}

/// A disk in memory; clones share its contents.
#[derive(Clone)]
pub struct RamDisk {
    sim: Sim,
    capacity: Bytes,
    state: Rc<RefCell<State>>,
}

impl RamDisk {
    /// Creates an empty disk; its size is rounded down to whole payloads of 4,096 bytes.
    #[must_use]
    pub fn new(sim: &Sim, capacity: Bytes) -> Self {
        Self::holding(sim, capacity, BTreeMap::new())
    }

    /// Creates a disk with durable `contents`, by payload number.
    #[must_use]
    pub fn holding(sim: &Sim, capacity: Bytes, contents: BTreeMap<u64, Payload>) -> Self {
        let state = State {
            newest: contents.clone(),
            durable: contents,
            volatile: Vec::new(),
            lines: Lines::default(),
            ledger: Ledger::default(),
        };
        Self {
            sim: sim.clone(),
            capacity: Bytes(capacity.0 / UNIT as u64 * UNIT as u64),
            state: Rc::new(RefCell::new(state)),
        }
    }

    /// Creates a disk with the bytes of `image`; a partial last payload is left out.
    #[must_use]
    pub fn from_image(sim: &Sim, image: &[u8]) -> Self {
        let mut contents = BTreeMap::new();
        for (page, bytes) in image.chunks_exact(UNIT).enumerate() {
            if bytes.iter().any(|&b| b != 0) {
                let bytes: [u8; UNIT] = bytes.try_into().expect("chunks have this length");
                contents.insert(page as u64, Payload::Bytes(Arc::new(bytes)));
            }
        }
        Self::holding(sim, Bytes(image.len() as u64), contents)
    }

    /// All bytes of the disk in their newest version, durable or not.
    #[must_use]
    pub fn to_image(&self) -> Vec<u8> {
        let mut image = vec![0; self.capacity.0 as usize];
        for (&page, payload) in &self.state.borrow().newest {
            let at = page as usize * UNIT;
            let _ = payload.copy_to(0, &mut image[at..at + UNIT]);
        }
        image
    }

    /// Contents after a power cut now: all flushed writes, and a subset of the later
    /// writes chosen by `rng`.
    #[must_use]
    pub fn after_cut(&self, rng: &mut Rng) -> BTreeMap<u64, Payload> {
        let state = self.state.borrow();
        let mut left = state.durable.clone();
        for (page, payload) in &state.volatile {
            if rng.below(2) == 0 {
                left.insert(*page, payload.clone());
            }
        }
        state.lines.keep_some(&mut left, rng);
        left
    }

    /// Size of the disk in bytes.
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.capacity
    }

    /// A copy of the ledger: traffic of all successful requests so far.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.state.borrow().ledger.clone()
    }

    fn check(&self, extent: Extent) -> Result<(), IoError> {
        let sectors = self.capacity.0 / SECTOR;
        if extent.end() <= sectors {
            return Ok(());
        }
        Err(IoError::OutOfRange {
            first: extent.start.0,
            last: extent.end() - 1,
            sectors,
        })
    }

    /// Lets 1 ns pass, in which every other ready task runs.
    async fn turn(&self) {
        self.sim.sleep(Ns(1)).await;
    }
}

/// The parts of `extent` by page: (page, first byte in the page, end in the page, byte
/// offset in the extent).
fn parts(extent: Extent) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let (start, end) = (extent.start.0, extent.end());
    (start / SECTORS..end.div_ceil(SECTORS)).map(move |page| {
        let (first, last) = (page * SECTORS, (page + 1) * SECTORS);
        let (from, to) = (start.max(first), end.min(last));
        let byte = |sectors: u64| (sectors * SECTOR) as usize;
        (
            page,
            byte(from - first),
            byte(to - first),
            byte(from - start),
        )
    })
}

fn lay_over(old: &Payload, from: usize, to: usize, content: Content<'_>, offset: usize) -> Payload {
    let whole = to - from == UNIT;
    let mut bytes = old.to_bytes();
    match content {
        Content::Nothing if whole => return Payload::Zero,
        Content::Fill(pattern) if whole => return Payload::Fill(pattern),
        Content::Sectors(new) => return new[offset / UNIT].clone(),
        Content::Nothing => bytes[from..to].fill(0),
        Content::Fill(pattern) => {
            let _ = Payload::Fill(pattern).copy_to(from, &mut bytes[from..to]);
        }
        Content::Bytes(new) => bytes[from..to].copy_from_slice(&new[offset..offset + to - from]),
    }
    Payload::Bytes(Arc::new(bytes))
}

impl BlockPort for RamDisk {
    fn capacity(&self) -> Bytes {
        self.capacity
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.check(extent)?;
        self.turn().await;
        let mut state = self.state.borrow_mut();
        for (page, from, to, offset) in parts(extent) {
            let payload = state.newest.get(&page).unwrap_or(&Payload::Zero);
            sink.take(offset, to - from, payload, from);
        }
        let bytes = extent.bytes();
        state.ledger.book(who, |t| t.read.block += bytes);
        Ok(())
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        _: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        self.check(extent)?;
        self.turn().await;
        let mut state = self.state.borrow_mut();
        for (page, from, to, offset) in parts(extent) {
            let old = state.newest.get(&page).unwrap_or(&Payload::Zero);
            let new = lay_over(old, from, to, content, offset);
            state.newest.insert(page, new.clone());
            state.lines.invalidate(page);
            if fua {
                state.volatile.retain(|(volatile, _)| *volatile != page);
                state.durable.insert(page, new);
            } else {
                state.volatile.push((page, new));
            }
        }
        state.ledger.book(who, |t| t.write.block += extent.bytes());
        Ok(())
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.check(extent)?;
        self.turn().await;
        let mut state = self.state.borrow_mut();
        for (page, from, to, _) in parts(extent) {
            if to - from == UNIT {
                state.newest.insert(page, Payload::Zero);
                state.lines.invalidate(page);
                state.volatile.push((page, Payload::Zero));
            }
        }
        state.ledger.trimmed += extent.bytes();
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.turn().await;
        let mut state = self.state.borrow_mut();
        let volatile = std::mem::take(&mut state.volatile);
        state.durable.extend(volatile);
        state.ledger.flushes += 1;
        Ok(())
    }

    fn compute(&self, span: Ns) -> Computing {
        Computing::Until(self.sim.now() + span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Kernel, Seed};

    fn write(disk: &RamDisk, page: u64, pattern: u64) -> impl Future<Output = ()> + 'static {
        let disk = disk.clone();
        async move {
            let extent = Extent::new(page * SECTORS, SECTORS as u32);
            let content = Content::Fill(pattern);
            let done = disk.write(extent, content, Placement(0), Who::default(), false);
            done.await.unwrap();
        }
    }

    #[test]
    fn cut_keeps_flushed_writes_and_some_later_ones() {
        let kernel = Kernel::new();
        let disk = RamDisk::new(&kernel.sim(), Bytes(1 << 20));
        kernel.block_on(write(&disk, 1, 1));
        let flushed = disk.clone();
        kernel.block_on(async move { flushed.flush().await.unwrap() });
        for version in 2..12 {
            kernel.block_on(write(&disk, 1, version));
            kernel.block_on(write(&disk, 2, version));
        }
        let mut rng = Seed(1).stream("cuts");
        let cuts: Vec<_> = (0..64).map(|_| disk.after_cut(&mut rng)).collect();
        assert!(cuts.iter().all(|left| left.contains_key(&1)));
        assert!(cuts.iter().any(|left| left[&1] != cuts[0][&1]));
    }

    #[test]
    fn write_of_some_sectors_leaves_the_rest_of_the_page() {
        let kernel = Kernel::new();
        let disk = RamDisk::new(&kernel.sim(), Bytes(1 << 20));
        let task = disk.clone();
        kernel.block_on(async move {
            let (who, bytes) = (Who::default(), [7; 1024]);
            let content = Content::Bytes(&bytes);
            let extent = Extent::new(7, 2);
            let done = task.write(extent, content, Placement(0), who, false);
            done.await.unwrap();
            let mut read = [0; 1024];
            let end = Extent::new(6, 2);
            task.read(end, &mut read.as_mut_slice(), who).await.unwrap();
            assert_eq!((read[0], read[511], read[512]), (0, 0, 7));
        });
    }
}
