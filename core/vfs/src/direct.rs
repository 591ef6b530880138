//! Helpers for bodies that bypass the cache: byte ranges as pages and parts of pages.

use crate::body::DirtyPage;
use crate::errno::{Errno, Result};
use crate::types::PAGE;
use nand::Payload;
use std::ops::Range;
use std::sync::Arc;
use units::SECTOR;

/// Size of a page as an array length.
const BYTES: usize = PAGE as usize;

/// Numbers of the pages that a range of bytes overlaps.
#[must_use]
pub const fn touched(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// Part of page `index`, as offsets in the page, that lies in a range of bytes.
#[must_use]
pub fn within(range: &Range<u64>, index: u64) -> Range<usize> {
    let base = index * PAGE;
    let part = |at: u64| at.saturating_sub(base).min(PAGE) as usize;
    part(range.start)..part(range.end)
}

/// The byte range of `len` bytes at `offset`, if it consists of whole sectors and ends within
/// `most`, the largest size of the file.
///
/// # Errors
/// `EINVAL` if offset or length is not a multiple of a sector, `EFBIG` if the range ends beyond
/// `most`.
pub fn sectors(offset: u64, len: usize, most: u64) -> Result<Range<u64>> {
    let len = len as u64;
    if !offset.is_multiple_of(SECTOR) || !len.is_multiple_of(SECTOR) {
        return Err(Errno::EINVAL);
    }
    let end = offset.checked_add(len).filter(|&end| end <= most);
    Ok(offset..end.ok_or(Errno::EFBIG)?)
}

/// Copies a range of bytes into `out` from the `pages` that it touches.
///
/// # Errors
/// `EIO` if a page was lost.
pub fn gather(range: &Range<u64>, pages: &[Payload], out: &mut [u8]) -> Result<()> {
    let mut done = 0;
    for (index, page) in touched(range).zip(pages) {
        let part = within(range, index);
        let len = part.len();
        if !page.copy_to(part.start, &mut out[done..done + len]) {
            return Err(Errno::EIO);
        }
        done += len;
    }
    Ok(())
}

/// Bytes of page `index` of a file of `size` bytes, with zeros past the end of the file.
///
/// # Errors
/// `EIO` if the page was lost.
pub fn visible(page: &Payload, index: u64, size: u64) -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    if !page.copy_to(0, &mut bytes) {
        return Err(Errno::EIO);
    }
    bytes[within(&(0..size), index).end..].fill(0);
    Ok(bytes)
}

/// Pages to write for `bytes` at `range`, whose lengths agree. `seen` returns the visible bytes of
/// a page that is overwritten in part.
///
/// # Errors
/// Those of `seen`.
pub async fn overlaid(
    range: &Range<u64>,
    bytes: &[u8],
    seen: impl AsyncFn(u64) -> Result<[u8; BYTES]>,
) -> Result<Vec<DirtyPage>> {
    let (mut pages, mut rest) = (Vec::new(), bytes);
    for index in touched(range) {
        let part = within(range, index);
        let mut page = match part.len() {
            BYTES => [0; BYTES],
            _ => seen(index).await?,
        };
        let (new, behind) = rest.split_at(part.len());
        page[part].copy_from_slice(new);
        rest = behind;
        pages.push(page_of(index, page));
    }
    Ok(pages)
}

/// Page `index` with these bytes, for write-back.
#[must_use]
pub fn page_of(index: u64, bytes: [u8; BYTES]) -> DirtyPage {
    DirtyPage {
        index,
        now: Payload::Bytes(Arc::new(bytes)),
        before: None,
    }
}
