//! File contents: written around the log, or through it with `data=journal`.
//!
//! Invariants: file contents in the log are read from memory until they are home, and
//! nothing is written to their blocks around the log.

use super::log::{LARGEST, Piece, extent, write_pieces};
use super::transaction::{Content, Entry, Handle, Transaction};
use super::{Core, Mode};
use crate::buffer::BLOCK;
use crate::persist::{DataWrite, Run};
use host::{BlockPort, Who};
use nand::Payload;
use ssd::IoError;
use std::rc::Rc;
use std::sync::Arc;
use units::{Extent, Placement, SECTOR};
use vfs::{DirtyPage, Errno, Result};

impl Core {
    /// Writes file contents and closes `handle`. Returns the transaction that makes the
    /// write durable.
    pub(super) async fn write_data(
        self: &Rc<Self>,
        handle: Option<Handle>,
        writes: &[DataWrite<'_>],
    ) -> Result<u64> {
        let journaled = self.config.mode == Mode::Journal;
        match handle {
            None if self.is_aborted() => Err(Errno::EIO),
            None if journaled => self.journal_data(writes).await,
            None => {
                self.write_around(writes).await?;
                Ok(self.state.borrow().committed)
            }
            Some(handle) if journaled && self.take_in(&handle, writes) => Ok(self.end(&handle)),
            Some(handle) => self.write_for(&handle, writes).await,
        }
    }

    /// Logs file contents through new handles, each for at most a quarter of the largest
    /// transaction.
    async fn journal_data(self: &Rc<Self>, writes: &[DataWrite<'_>]) -> Result<u64> {
        let most = (self.largest() / 4).max(1);
        let mut last = self.state.borrow().committed;
        for write in writes {
            let starts = (write.start..).step_by(most);
            for (start, pages) in starts.zip(write.pages.chunks(most)) {
                let handle = self.begin(pages.len()).await.map_err(|_| Errno::EIO)?;
                self.log_pages(
                    &handle,
                    &DataWrite {
                        start,
                        pages,
                        ..*write
                    },
                );
                last = self.end(&handle);
            }
        }
        Ok(last)
    }

    fn log_pages(&self, handle: &Handle, write: &DataWrite<'_>) {
        self.state.borrow_mut().data_upto = handle.transaction.id;
        for (block, page) in (write.start..).zip(write.pages) {
            let content = Content::Data(page.now.clone(), write.placement, write.who);
            self.log_data(handle, block, content);
        }
    }

    /// Logs file contents in the transaction of `handle`; false if they do not fit. A
    /// closing transaction accepts them too, since its commit waits for this handle.
    fn take_in(&self, handle: &Handle, writes: &[DataWrite<'_>]) -> bool {
        let pages: usize = writes.iter().map(|write| write.pages.len()).sum();
        let fits = handle.transaction.size() + pages <= self.largest_with_data();
        if fits {
            super::handles::reserve(handle, pages);
            writes
                .iter()
                .for_each(|write| self.log_pages(handle, write));
        }
        fits
    }

    /// Writes file contents around the log, for the transaction of `handle` that maps
    /// them. Its commit waits for these writes, except in mode `Writeback`.
    async fn write_for(self: &Rc<Self>, handle: &Handle, writes: &[DataWrite<'_>]) -> Result<u64> {
        let transaction = Rc::clone(&handle.transaction);
        if self.config.mode == Mode::Writeback {
            let id = self.end(handle);
            self.write_around(writes).await?;
            return Ok(id);
        }
        transaction.in_flight.set(transaction.in_flight.get() + 1);
        let past = self.forget_past(handle, writes);
        let id = self.end(handle);
        self.wait_for_home_writes(&past).await;
        let written = self.write_around(writes).await;
        self.landed(&transaction);
        written.map(|()| id)
    }

    fn landed(&self, transaction: &Transaction) {
        transaction.in_flight.set(transaction.in_flight.get() - 1);
        if transaction.locked.get() && transaction.in_flight.get() == 0 {
            self.settled.notify(&self.sim);
        }
    }

    /// Revokes older contents of these blocks in the log, so that no replay or checkpoint
    /// overwrites the new ones. Returns their entries in memory.
    fn forget_past(&self, handle: &Handle, writes: &[DataWrite<'_>]) -> Vec<Rc<Entry>> {
        if self.config.mode != Mode::Journal {
            return Vec::new();
        }
        let mut past = Vec::new();
        for write in writes {
            let run = Run {
                start: write.start,
                len: write.pages.len() as u64,
            };
            for block in self.logged_data(run) {
                self.forget(handle, block);
                past.extend(self.cache.borrow().entry(block).cloned());
            }
        }
        past
    }

    async fn write_around(&self, writes: &[DataWrite<'_>]) -> Result<()> {
        let mut pieces = Vec::new();
        for write in writes {
            let starts = (write.start..).step_by(LARGEST);
            for (start, pages) in starts.zip(write.pages.chunks(LARGEST)) {
                pieces.push(Piece {
                    start,
                    payloads: pages.iter().map(|page| page.now.clone()).collect(),
                    placement: write.placement,
                    who: write.who,
                });
            }
        }
        let written = write_pieces(&self.port, &pieces).await;
        written.map_err(failed)
    }

    /// Reads pages of file contents from block `start` on; contents in the log win over
    /// those on the medium.
    pub(super) async fn read_data(
        &self,
        start: u64,
        pages: &mut [Payload],
        who: Who,
    ) -> Result<()> {
        let newer = self.newer(start, pages.len());
        if newer.len() < pages.len() {
            let starts = (start..).step_by(LARGEST);
            let chunks = starts.zip(pages.chunks_mut(LARGEST));
            let reads = chunks.map(|(start, mut pages)| async move {
                let extent = extent(start, pages.len());
                self.port.read(extent, &mut pages, who).await
            });
            all(reads.collect()).await?;
        }
        for (block, payload) in newer {
            pages[(block - start) as usize] = payload;
        }
        Ok(())
    }

    /// File contents of `count` blocks from `start` that are in memory, by block.
    fn newer(&self, start: u64, count: usize) -> Vec<(u64, Payload)> {
        if self.config.mode != Mode::Journal {
            return Vec::new();
        }
        let cache = self.cache.borrow();
        let present = cache.range(start, start + count as u64);
        present
            .filter_map(|(block, slot)| match slot {
                super::cache::Slot::Ready(entry) => Some((block, entry.data()?)),
                super::cache::Slot::Loading(_) => None,
            })
            .collect()
    }

    /// Reads bytes for a direct request. `EINVAL` unless it covers whole sectors.
    pub(super) async fn read_direct(
        &self,
        start: u64,
        offset: u64,
        out: &mut [u8],
        who: Who,
    ) -> Result<()> {
        let first = sector(start, offset, out.len())?;
        if self.config.mode == Mode::Journal {
            let (block, skip) = (start + offset / BLOCK as u64, offset as usize % BLOCK);
            let mut pages = vec![Payload::Zero; (skip + out.len()).div_ceil(BLOCK)];
            self.read_data(block, &mut pages, who).await?;
            copy_out(&pages, skip, out);
            return Ok(());
        }
        let most = LARGEST * BLOCK;
        let firsts = (first..).step_by(most / SECTOR as usize);
        let reads = firsts
            .zip(out.chunks_mut(most))
            .map(|(first, mut out)| async move {
                let extent = Extent::new(first, (out.len() as u64 / SECTOR) as u32);
                self.port.read(extent, &mut out, who).await
            });
        all(reads.collect()).await
    }

    /// Writes bytes of a direct request. With `data=journal` they go through the log, as
    /// direct writes do in ext4. `EINVAL` unless the request covers whole sectors.
    pub(super) async fn write_direct(
        self: &Rc<Self>,
        start: u64,
        offset: u64,
        bytes: &[u8],
        (placement, who): (Placement, Who),
    ) -> Result<()> {
        let first = sector(start, offset, bytes.len())?;
        if self.is_aborted() {
            return Err(Errno::EIO);
        }
        if self.config.mode == Mode::Journal {
            let (block, skip) = (start + offset / BLOCK as u64, offset as usize % BLOCK);
            return self
                .write_merged(block, skip, bytes, (placement, who))
                .await;
        }
        let most = LARGEST * BLOCK;
        let firsts = (first..).step_by(most / SECTOR as usize);
        let writes = firsts
            .zip(bytes.chunks(most))
            .map(|(first, bytes)| async move {
                let extent = Extent::new(first, (bytes.len() as u64 / SECTOR) as u32);
                let content = ssd::Content::Bytes(bytes);
                self.port
                    .write(extent, content, placement, who, false)
                    .await
            });
        all(writes.collect()).await
    }

    async fn write_merged(
        self: &Rc<Self>,
        start: u64,
        skip: usize,
        bytes: &[u8],
        (placement, who): (Placement, Who),
    ) -> Result<()> {
        let mut pages = vec![Payload::Zero; (skip + bytes.len()).div_ceil(BLOCK)];
        if !(skip.is_multiple_of(BLOCK) && bytes.len().is_multiple_of(BLOCK)) {
            self.read_data(start, &mut pages, who).await?;
        }
        let pages = lay_over(&pages, skip, bytes);
        let write = DataWrite {
            start,
            pages: &pages,
            held: 0,
            end: u64::MAX,
            placement,
            who,
        };
        self.journal_data(&[write]).await.map(|_| ())
    }
}

async fn all(parts: Vec<impl Future<Output = std::result::Result<(), IoError>>>) -> Result<()> {
    let results = sim::join_all(parts).await;
    let together: std::result::Result<(), _> = results.into_iter().collect();
    together.map_err(failed)
}

/// Maps every error of the medium to `EIO`, as programs see it.
pub(super) fn failed(_: IoError) -> Errno {
    Errno::EIO
}

/// The first sector of a direct request; `EINVAL` unless it covers whole sectors.
fn sector(start: u64, offset: u64, len: usize) -> Result<u64> {
    let aligned = offset.is_multiple_of(SECTOR) && (len as u64).is_multiple_of(SECTOR);
    let blocks = start.checked_mul(BLOCK as u64 / SECTOR);
    let first = blocks.and_then(|blocks| blocks.checked_add(offset / SECTOR));
    first.filter(|_| aligned).ok_or(Errno::EINVAL)
}

fn copy_out(pages: &[Payload], skip: usize, out: &mut [u8]) {
    let mut done = 0;
    while done < out.len() {
        let (page, inside) = ((skip + done) / BLOCK, (skip + done) % BLOCK);
        let count = (BLOCK - inside).min(out.len() - done);
        let _ = pages[page].copy_to(inside, &mut out[done..done + count]);
        done += count;
    }
}

fn lay_over(pages: &[Payload], skip: usize, bytes: &[u8]) -> Vec<DirtyPage> {
    let mut whole: Vec<[u8; BLOCK]> = pages.iter().map(Payload::to_bytes).collect();
    whole.as_flattened_mut()[skip..skip + bytes.len()].copy_from_slice(bytes);
    let pages = whole
        .into_iter()
        .enumerate()
        .map(|(index, bytes)| DirtyPage {
            index: index as u64,
            now: Payload::Bytes(Arc::new(bytes)),
            before: None,
        });
    pages.collect()
}
