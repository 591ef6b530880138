//! Reading files: contents are verified against their sums before they are returned.

use crate::format::extent::Part;
use crate::format::{SECTOR, SECTOR_BYTES};
use crate::fs::{Core, File, owner_of};
use crate::persist::{Persist, read_run};
use crate::pieces::Found;
use nand::Payload;
use std::sync::Arc;
use vfs::direct::{gather, sectors, touched, visible};
use vfs::{Errno, Result, SeekWhat};

/// Maximum size of a file in bytes: the largest signed offset.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

impl<S: Persist> Core<S> {
    /// Fills `pages` with the pages of a file from index `first` on; holes and unwritten
    /// extents are zeros.
    pub(crate) async fn read_pages(
        &self,
        file: &File,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()> {
        pages.fill(Payload::Zero);
        let start = first * SECTOR_BYTES;
        let end = start.saturating_add(pages.len() as u64 * SECTOR_BYTES);
        let found = self.pieces(&file.private.tree, file.private.number, start..end);
        for piece in found.await? {
            let span = piece.span();
            let (from, to) = (span.start.max(start), span.end.min(end));
            let own =
                ((from - start) / SECTOR_BYTES) as usize..((to - start) / SECTOR_BYTES) as usize;
            match piece {
                Found::Inline(bytes) => {
                    let mut page = [0; SECTOR];
                    page[..bytes.len()].copy_from_slice(&bytes);
                    pages[own.start] = Payload::Bytes(Arc::new(page));
                }
                Found::Part(at, part) if part.written && !part.is_hole() => {
                    let part = part.from(from - at).until(to - from);
                    self.read_part(file, part, &mut pages[own]).await?;
                }
                Found::Part(..) => {}
            }
        }
        Ok(())
    }

    /// Reads a part of an extent and verifies it. A mismatch may stem from a replacement in
    /// progress, of contents that a snapshot has come to share meanwhile: the read waits for the
    /// replacement and is repeated once.
    async fn read_part(&self, file: &File, part: Part, out: &mut [Payload]) -> Result<()> {
        if !file.private.has_sums() {
            // Without sums a half-replaced range would go unnoticed, so the read waits first.
            let at = part.bytenr + part.offset;
            self.staged.wait(at, part.bytes).await;
        }
        if self.read_once(file, part, out).await? {
            return Ok(());
        }
        self.staged
            .wait(part.bytenr + part.offset, part.bytes)
            .await;
        match self.read_once(file, part, out).await? {
            true => Ok(()),
            false => Err(Errno::EIO),
        }
    }

    /// Reads a part of an extent. Returns whether its contents match their sums.
    async fn read_once(&self, file: &File, part: Part, out: &mut [Payload]) -> Result<bool> {
        let at = part.bytenr + part.offset;
        let places = self.places(at, part.bytes)?;
        let place = *places.first().ok_or(Errno::EUCLEAN)?;
        let who = owner_of(file);
        read_run(self.persist.port(), place, out, who).await?;
        if !file.private.has_sums() {
            return Ok(true);
        }
        let sums = self.sums(&self.forest.csums, at, out.len()).await?;
        Ok(out.iter().zip(&sums).all(|(payload, sum)| {
            let found = self.sums.of(payload);
            // A sector without a sum was written while sums were off.
            sum.is_none_or(|sum| found == Some(sum))
        }))
    }

    /// Bytes of page `index` on the medium, with zeros past a file end at `size`.
    pub(crate) async fn visible(&self, file: &File, index: u64, size: u64) -> Result<[u8; SECTOR]> {
        let mut page = [Payload::Zero];
        self.read_pages(file, index, &mut page).await?;
        visible(&page[0], index, size)
    }

    /// Reads `out` at `offset`, both in whole sectors of 512 bytes, and bypasses the page cache.
    pub(crate) async fn read_direct(&self, file: &File, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = sectors(offset, out.len(), SIZE_MAX)?;
        let pages = touched(&range);
        let mut payloads = vec![Payload::Zero; (pages.end - pages.start) as usize];
        self.read_pages(file, pages.start, &mut payloads).await?;
        gather(&range, &payloads, out)
    }

    /// Offset of the first data, or of the first hole, at or after `offset`. The end of the file
    /// counts as a hole; `None` if there is no such offset.
    pub(crate) async fn seek(
        &self,
        file: &File,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>> {
        let size = file.attr.get().size;
        if offset >= size {
            return Ok(None);
        }
        let mut at = offset;
        let found = self.pieces(&file.private.tree, file.private.number, offset..size);
        for piece in found.await? {
            let is_data = match &piece {
                Found::Inline(_) => true,
                Found::Part(_, part) => part.written && !part.is_hole(),
            };
            if !is_data {
                continue;
            }
            let span = piece.span();
            match what {
                SeekWhat::Data => return Ok(Some(span.start.max(offset))),
                SeekWhat::Hole if span.start > at => return Ok(Some(at)),
                SeekWhat::Hole => at = at.max(span.end),
            }
        }
        Ok((what == SeekWhat::Hole).then_some(at.min(size)))
    }
}
