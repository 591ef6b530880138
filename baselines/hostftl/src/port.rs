//! The mapping as a block port.
//!
//! Invariant: a write of a part of a sector reads the rest first, and nothing else changes the
//! sector in between.

use crate::meta::{MOST_RANGES, Trimmed};
use crate::read::PER_SECTOR;
use crate::state::{HostFtl, Inner, USER};
use host::{BlockPort, Computing, RawPort, Who};
use nand::{Payload, UNIT};
use ssd::{Content, IoError, Sink};
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Part of a mapped sector that a request touches, in bytes.
struct Part {
    sector: u32,
    /// First byte within the sector; `len` is the number of bytes.
    from: usize,
    len: usize,
    /// First byte within the request.
    offset: usize,
}

/// Splits an extent at mapped sectors of 4 KiB.
fn parts(extent: Extent) -> impl Iterator<Item = Part> {
    let (start, end) = (extent.start.0, extent.end());
    (start / PER_SECTOR..end.div_ceil(PER_SECTOR)).map(move |sector| {
        let first = (sector * PER_SECTOR).max(start);
        let last = ((sector + 1) * PER_SECTOR).min(end);
        Part {
            sector: sector as u32,
            from: ((first - sector * PER_SECTOR) * SECTOR) as usize,
            len: ((last - first) * SECTOR) as usize,
            offset: ((first - start) * SECTOR) as usize,
        }
    })
}

/// Contents of a whole sector at byte `offset` of the written content.
fn whole(content: Content<'_>, offset: usize) -> Payload {
    match content {
        Content::Nothing => Payload::Zero,
        Content::Fill(pattern) => Payload::Fill(pattern),
        Content::Bytes(bytes) => {
            let bytes = &bytes[offset..offset + UNIT];
            Payload::Bytes(Arc::new(bytes.try_into().expect("a sector")))
        }
        Content::Sectors(payloads) => payloads[offset / UNIT].clone(),
    }
}

/// Copies the content of `part` over the old contents of its sector.
fn over(before: &Payload, content: Content<'_>, part: &Part) -> Payload {
    let mut bytes = before.to_bytes();
    let target = &mut bytes[part.from..part.from + part.len];
    match content {
        Content::Nothing => target.fill(0),
        Content::Fill(pattern) => {
            let _ = Payload::Fill(pattern).copy_to(part.from, target);
        }
        Content::Bytes(source) => {
            target.copy_from_slice(&source[part.offset..part.offset + part.len]);
        }
        Content::Sectors(payloads) => {
            let _ = payloads[part.offset / UNIT].copy_to(part.offset % UNIT, target);
        }
    }
    Payload::Bytes(Arc::new(bytes))
}

/// Most sectors whose deallocations are not yet durable (256 MiB), which bounds their memory. Our
/// choice.
const MOST_GONE: u32 = 1 << 16;

impl<P: RawPort> Inner<P> {
    async fn write_part(
        self: &Rc<Self>,
        part: Part,
        content: Content<'_>,
        who: Who,
    ) -> Result<(), IoError> {
        if part.len == UNIT {
            let payload = whole(content, part.offset);
            return self.write_sector(part.sector, payload, who, None).await;
        }
        let held = self.begin_part(part.sector).await?;
        let before = self.read_sectors(part.sector, 1, who).await?;
        let payload = over(&before[0], content, &part);
        self.write_sector(part.sector, payload, who, Some(&held))
            .await
    }

    /// Deallocates sectors; waits for their holders, and for room among pending deallocations.
    async fn trim_sectors(&self, first: u32, end: u32) -> Result<(), IoError> {
        let mut first = first;
        while first < end {
            self.failed()?;
            let (held, gone) = {
                let state = self.state.borrow();
                (state.pins.first_held(first, end), state.buffer.gone())
            };
            let room = MOST_GONE.saturating_sub(gone);
            let until = held.unwrap_or(end).min(first.saturating_add(room));
            if first < until {
                self.trim_now(first, until);
                first = until;
                continue;
            }
            if room == 0 {
                self.force(&mut self.state.borrow_mut());
            }
            self.progress.wait(&self.sim).await;
        }
        Ok(())
    }

    /// Deallocates the sectors of `first..end` that have contents, in runs.
    fn trim_now(&self, first: u32, end: u32) {
        let state = &mut *self.state.borrow_mut();
        let mut run: Option<Trimmed> = None;
        for sector in first..end {
            let is_there = state.buffer.has(sector) || state.table.get(sector).is_some();
            if !is_there {
                state.trims.extend(run.take());
                continue;
            }
            let run = run.get_or_insert_with(|| Trimmed {
                number: Self::next_number(state),
                first: sector,
                count: 0,
            });
            run.count += 1;
            state.buffer.trim(sector, run.number);
        }
        state.trims.extend(run);
        if state.trims.len() >= MOST_RANGES {
            // A flush may wait for a version that they replace.
            if state.flushing > 0 {
                self.force(state);
            } else {
                self.queue_trims(state);
                self.work[USER].notify(&self.sim);
            }
        }
        // The buffer has room now, or gets it once the record is on flash.
        self.progress.notify(&self.sim);
    }
}

impl<P: RawPort> HostFtl<P> {
    /// Reads whole sectors of 4 KiB, hidden ones included.
    ///
    /// # Errors
    /// If a block cannot be read.
    ///
    /// # Panics
    /// If the range reaches past the hidden sectors.
    pub async fn read_sectors(
        &self,
        first: u32,
        count: u32,
        who: Who,
    ) -> Result<Vec<Payload>, IoError> {
        let fits = count <= self.inner.sectors && first <= self.inner.sectors - count;
        assert!(fits, "there are fewer sectors");
        self.inner.read_sectors(first, count, who).await
    }

    /// Writes whole sectors of 4 KiB, hidden ones included. Durable after a later flush, or on
    /// return with a buffer in persistent memory.
    ///
    /// # Errors
    /// If the drive accepts no more writes.
    ///
    /// # Panics
    /// If a sector lies past the hidden sectors.
    pub async fn write_sectors(&self, all: &[(u32, Payload)], who: Who) -> Result<(), IoError> {
        for (sector, payload) in all {
            assert!(*sector < self.inner.sectors, "there are fewer sectors");
            self.inner
                .write_sector(*sector, payload.clone(), who, None)
                .await?;
        }
        Ok(())
    }
}

impl<P: RawPort> BlockPort for HostFtl<P> {
    fn capacity(&self) -> Bytes {
        self.inner.config.capacity
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.inner.within(extent)?;
        let mut all = parts(extent).peekable();
        let Some(first) = all.peek().map(|part| part.sector) else {
            return Ok(());
        };
        let count = parts(extent).count() as u32;
        let contents = self.inner.read_sectors(first, count, who).await?;
        take(all.zip(&contents), sink);
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
        self.inner.within(extent)?;
        for part in parts(extent) {
            self.inner.write_part(part, content, who).await?;
        }
        // A write to a persistent buffer is durable already.
        let lasts = self.inner.state.borrow().slots.is_some();
        match fua && !lasts {
            true => self.inner.flush().await,
            false => Ok(()),
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.inner.within(extent)?;
        self.inner.failed()?;
        let (first, end) = (
            extent.start.0.div_ceil(PER_SECTOR),
            extent.end() / PER_SECTOR,
        );
        self.inner.trim_sectors(first as u32, end as u32).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.inner.flush().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.inner.port.compute(span)
    }
}

fn take<'a, S: Sink>(parts: impl Iterator<Item = (Part, &'a Payload)>, sink: &mut S) {
    if !sink.is_wanted() {
        return;
    }
    for (part, payload) in parts {
        sink.take(part.offset, part.len, payload, part.from);
    }
}
