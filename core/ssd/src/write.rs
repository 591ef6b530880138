//! The write path up to the buffer, and flushes.
//!
//! A host write is acknowledged once its pages are in the buffer; [`crate::issue`] moves them from
//! there to flash.

use crate::buffer::SlotState;
use crate::drive::{Content, Core, IoError};
use crate::layout::NONE;
use crate::map::Where;
use crate::state::{Incoming, State};
use crate::wlog::{self, LINE};
use nand::{Payload, UNIT};
use std::rc::Rc;
use units::{Extent, Origin, SECTOR};

/// Bytes of a mapped page that a command covers.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    page: u32,
    /// First byte in the page, and one past the last.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Offset of the first byte in the command's content.
    offset: usize,
}

impl Core {
    /// The tag of `origin`, limited to the bits that a spare word has for it: larger origins share
    /// the last tag.
    pub(crate) fn tag(&self, origin: Origin) -> u16 {
        let bits = (u32::BITS - self.layout.page_bits).min(8);
        origin.0.min(((1_u32 << bits) - 1) as u16)
    }

    pub(crate) fn part(&self, extent: Extent, page: u32) -> Part {
        let page_bytes = self.layout.page_bytes();
        let (start, end) = (extent.start.0 * SECTOR, extent.end() * SECTOR);
        let first = u64::from(page) * page_bytes;
        let (from, to) = (start.max(first), end.min(first + page_bytes));
        Part {
            page,
            from: (from - first) as usize,
            to: (to - first) as usize,
            offset: (from - start) as usize,
        }
    }

    /// Puts one page into the buffer. `has_room` tells whether room was made for a new slot.
    pub(crate) fn buffer_page(
        &self,
        incoming: Incoming,
        (part, content): (Part, Content<'_>),
        has_room: bool,
    ) -> Result<(), IoError> {
        if self.read_only.get() {
            return Err(IoError::ReadOnly);
        }
        // The old contents, before the slot replaces them.
        let whole = part.to - part.from == self.layout.page_bytes() as usize;
        let old = (self.config.flash.keep_contents && !whole)
            .then(|| self.contents(part.page))
            .flatten();
        let mut state = self.state.borrow_mut();
        let (slot, new) = state.insert(incoming);
        lay_over_page(state.slots.payload_mut(slot), old, part, content);
        let full = state.frontiers[incoming.frontier].waiting() >= self.layout.unit as usize;
        let version = state.slots.get(slot).serial;
        drop(state);
        if let Some(front) = &self.front {
            let lines = (part.to - part.from) / LINE;
            let lines = wlog::mask((part.from / LINE) as u8, lines as u8);
            front.superseded(part.page, lines, version);
        }
        if has_room && !new {
            self.buffer.put(1);
        }
        if full {
            self.work[incoming.frontier].notify(&self.sim);
        }
        Ok(())
    }

    /// The newest contents of a mapped page; `None` if it is unmapped, empty if not kept.
    pub(crate) fn contents(&self, page: u32) -> Option<Vec<Payload>> {
        let state = self.state.borrow();
        match state.map.get(page) {
            Where::Nowhere => None,
            Where::Buffer(slot) => Some(self.slot_contents(&state, slot)),
            Where::Flash(place) => Some(self.flash_contents(&state, place)),
        }
    }

    /// Contents of a slot; empty if they are not kept.
    pub(crate) fn slot_contents(&self, state: &State, index: u32) -> Vec<Payload> {
        let slot = state.slots.get(index);
        match slot.state {
            SlotState::Issued if slot.place != NONE && self.config.flash.keep_contents => {
                self.flash_contents(state, slot.place)
            }
            _ => state.slots.payload(index).to_vec(),
        }
    }

    fn flash_contents(&self, state: &State, place: u32) -> Vec<Payload> {
        let sectors = 0..self.layout.sectors_per_page;
        let contents = sectors.map(|sector| self.flash_sector(state, place, sector));
        contents.collect()
    }

    /// Contents of one sector of a page on flash.
    pub(crate) fn flash_sector(&self, state: &State, place: u32, sector: u32) -> Payload {
        let at = state.flash_page(&self.layout, place);
        let media = self.nand.media();
        media.payload(at.block, at.page, at.sector + sector)
    }

    /// Makes every acknowledged write durable, if it is not.
    pub(crate) async fn flush(self: &Rc<Self>) -> Result<(), IoError> {
        self.flush_volatile().await?;
        self.flush_buffer().await
    }

    /// Makes everything in the write buffer durable, if it is not.
    pub(crate) async fn flush_buffer(&self) -> Result<(), IoError> {
        if !self.config.controller.power_loss_protection {
            self.write_out().await;
        }
        if self.read_only.get() {
            return Err(IoError::ReadOnly);
        }
        Ok(())
    }

    /// Writes out everything that waits in the buffer and in the journal.
    pub(crate) async fn write_out(&self) {
        self.flush_journal().await;
        let waiting = {
            let mut state = self.state.borrow_mut();
            let queues = state.frontiers.iter_mut();
            for queue in queues {
                queue.forced = queue.pending.len();
            }
            state.frontiers.len()
        };
        for frontier in 0..waiting {
            self.work[frontier].notify(&self.sim);
        }
        let forced = |core: &Self| core.state.borrow().frontiers.iter().any(|q| q.forced > 0);
        while forced(self) && !self.read_only.get() {
            self.progress.wait(&self.sim).await;
        }
        let until = self.state.borrow().in_flight.next();
        self.settle(until).await;
    }

    /// Waits until every program before sequence number `until` has completed.
    pub(crate) async fn settle(&self, until: u64) {
        while self.state.borrow().in_flight.settled < until && !self.read_only.get() {
            self.progress.wait(&self.sim).await;
        }
    }
}

/// Sets `page`, sector by sector, to `old` (or zeros) overlaid by `content` in its part.
pub(crate) fn lay_over_page(
    page: &mut [Payload],
    old: Option<Vec<Payload>>,
    part: Part,
    content: Content<'_>,
) {
    let mut old = old.unwrap_or_default().into_iter();
    for (index, payload) in page.iter_mut().enumerate() {
        *payload = old.next().unwrap_or_default();
        let first = index * UNIT;
        let (from, to) = (part.from.max(first), part.to.min(first + UNIT));
        if from < to {
            let offset = part.offset + (from - part.from);
            lay_over(payload, from - first, to - first, content, offset);
        }
    }
}

/// Overlays bytes `from` to `to` of a sector with `content`; other bytes that were lost stay lost.
fn lay_over(payload: &mut Payload, from: usize, to: usize, content: Content<'_>, offset: usize) {
    let whole = to - from == UNIT;
    match content {
        Content::Nothing if whole => *payload = Payload::Zero,
        Content::Fill(pattern) if whole => *payload = Payload::Fill(pattern),
        Content::Sectors(new) if whole => *payload = sector_at(new, offset).clone(),
        Content::Bytes(new) if whole => *payload = Payload::of(&new[offset..offset + UNIT]),
        _ => {
            let written = wlog::mask((from / LINE) as u8, ((to - from) / LINE) as u8);
            let mut lost = payload.lost() & !written;
            let mut bytes = payload.to_bytes();
            match content {
                Content::Nothing => bytes[from..to].fill(0),
                Content::Fill(pattern) => {
                    let _ = Payload::Fill(pattern).copy_to(from, &mut bytes[from..to]);
                }
                Content::Bytes(new) => {
                    bytes[from..to].copy_from_slice(&new[offset..offset + (to - from)]);
                }
                Content::Sectors(new) => {
                    let new = sector_at(new, offset);
                    lost |= new.lost() & written;
                    bytes[from..to].copy_from_slice(&new.to_bytes()[from..to]);
                }
            }
            *payload = Payload::with_lost(bytes, lost);
        }
    }
}

/// The payload of the sector that contains byte `offset` of an extent. The first payload may begin
/// before the extent.
fn sector_at(payloads: &[Payload], offset: usize) -> &Payload {
    &payloads[offset.div_ceil(UNIT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overlays pages of two sectors each with the payloads `new`, from byte `start` to `end`.
    fn laid(new: &[Payload], start: usize, end: usize) -> Vec<Payload> {
        let page_bytes = 2 * UNIT;
        let pages = (start / page_bytes..end.div_ceil(page_bytes)).map(|page| {
            let first = page * page_bytes;
            let (from, to) = (start.max(first), end.min(first + page_bytes));
            let part = Part {
                page: page as u32,
                from: from - first,
                to: to - first,
                offset: from - start,
            };
            let mut laid = vec![Payload::Zero; 2];
            let old = vec![Payload::Fill(0), Payload::with_lost([1; UNIT], 1 << 63)];
            lay_over_page(&mut laid, Some(old), part, Content::Sectors(new));
            laid
        });
        pages.flatten().collect()
    }

    #[test]
    fn partial_payloads_overlay_pages_and_keep_lost_lines() {
        let new = [
            Payload::Lost,
            Payload::Fill(u64::from_le_bytes([7; 8])),
            Payload::with_lost([9; UNIT], 1),
        ];
        let laid = laid(&new, UNIT - 512, 2 * UNIT + 512);
        assert_eq!(laid[0].lost(), 0xff << 56, "the end of the first");
        assert_eq!(laid[1], new[1]);
        assert_eq!(laid[2].lost(), 1);
        assert_eq!(laid[2].to_bytes()[64..512], [9; 448]);
        assert_eq!(laid[2].to_bytes()[512..], [0; UNIT - 512]);
        assert_eq!(laid[3].lost(), 1 << 63, "it was before");
    }

    #[test]
    fn part_of_one_payload_overlays_a_page() {
        let laid = laid(&[Payload::Lost], 512, 1024);
        assert_eq!(laid[0].lost(), 0xff << 8);
    }
}
