//! File contents in place: loads and stores by bytes, without a page cache.
//!
//! Invariants: stored bytes are durable when the call returns; a store of whole lines
//! loads nothing. A power cut during a store keeps any subset of its lines: contents in
//! place are not atomic.
//!
//! A processor stores single bytes. Here a store to a part of a line loads the line, changes it and
//! stores it; the inode lock of the file keeps other stores away from the line meanwhile.
//= bytefs 5.1

use super::core::Core;
use super::data::PageRun;
use super::durable::Durable;
use super::medium::broken;
use crate::buffer::BLOCK;
use host::{BytePort, Who};
use nand::Payload;
use ssd::wlog::LINE;
use std::sync::Arc;
use vfs::Result;

impl<D: Durable> Core<D> {
    /// Durably stores `bytes` at byte `at` of the volume.
    pub(super) async fn store_in_place(&self, at: u64, bytes: &[u8], who: Who) -> Result<()> {
        self.medium.count(|m| m.byte_requests += 1);
        self.store_bytes(at, bytes, who).await?;
        self.verify_contents().await
    }

    /// Durably stores whole pages by bytes, with one verification.
    pub(super) async fn store_runs(&self, runs: &[PageRun<'_>]) -> Result<()> {
        for &(start, pages, _, who) in runs {
            for (block, page) in (start..).zip(pages) {
                self.medium.count(|m| m.byte_pages += 1);
                let at = block * BLOCK as u64;
                self.store_bytes(at, &page.now.to_bytes(), who).await?;
            }
        }
        self.verify_contents().await
    }

    /// Loads the pages of consecutive blocks from `start` on by bytes.
    pub(super) async fn load_pages(
        &self,
        start: u64,
        pages: &mut [Payload],
        who: Who,
    ) -> Result<()> {
        for (block, page) in (start..).zip(pages) {
            let (_, bytes) = self.load_around(block * BLOCK as u64, BLOCK, who).await?;
            let bytes = bytes.try_into().expect("it is a block");
            *page = Payload::Bytes(Arc::new(bytes));
        }
        Ok(())
    }

    async fn verify_contents(&self) -> Result<()> {
        let verified = self.medium.verify().await;
        if verified.is_err() {
            // The drive does not say which of the stores it refused.
            self.abort();
        }
        verified
    }

    async fn store_bytes(&self, at: u64, bytes: &[u8], who: Who) -> Result<()> {
        let line = LINE as u64;
        let first = at / line * line;
        let end = at + bytes.len() as u64;
        let mut lines = vec![0; (end.next_multiple_of(line) - first) as usize];
        let (head, tail) = ((at - first) as usize, (end % line) as usize);
        if bytes.is_empty() {
            return Ok(());
        }
        if head > 0 {
            let (_, old) = self.load_around(first, LINE, who).await?;
            lines[..LINE].copy_from_slice(&old);
        }
        if tail > 0 && (head == 0 || lines.len() > LINE) {
            let last = lines.len() - LINE;
            let (_, old) = self.load_around(first + last as u64, LINE, who).await?;
            lines[last..].copy_from_slice(&old);
        }
        lines[head..head + bytes.len()].copy_from_slice(bytes);
        let stored = self.medium.port.store(first, &lines, 0, who).await;
        self.medium.count(|m| {
            m.stores += 1;
            m.data_lines += (lines.len() / LINE) as u64;
        });
        stored.map_err(|error| {
            self.abort();
            broken(error)
        })
    }
}
