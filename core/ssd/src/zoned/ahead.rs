//! Read-ahead in sequential zones, up to the end of what a zone has on flash.
//!
//! Settled data of a zone change only by a reset, which empties their slots.

use super::Zoned;
use super::read::Part;
use super::rules::ZoneStatus;
use crate::ahead::{Coming, Held};
use crate::layout::NONE;
use crate::ledger::ReadCause;
use std::rc::Rc;

impl Zoned {
    /// The stream that a read of settled sectors continues, if the drive reads ahead.
    #[inline]
    pub(super) fn follow(&self, part: Part, cause: ReadCause) -> Option<usize> {
        let ahead = self.core.ahead.as_ref()?;
        if cause != ReadCause::Host {
            return None;
        }
        let first = self.first_page(part.zone) + u64::from(part.at);
        let pages = first..first + u64::from(part.len);
        ahead.borrow_mut().follow(&pages)
    }

    /// Page of read-ahead of the first sector of a sequential zone.
    fn first_page(&self, zone: u32) -> u64 {
        u64::from(zone + self.layout.conventional) * u64::from(self.layout.size)
    }

    /// Reads settled sectors of a stream: from the DRAM, from fetches under way, and from flash.
    pub(super) async fn read_in_order(
        self: &Rc<Self>,
        part: Part,
        stream: usize,
    ) -> Result<(), ZoneStatus> {
        let (absent, coming) = self.split(part, stream);
        let absent = absent.into_iter();
        let rest: Vec<_> = absent
            .flat_map(|part| self.start_rows(part, ReadCause::Host))
            .collect();
        self.read_ahead(stream, part.zone);
        let mut result = Ok(());
        for read in rest {
            result = result.and(read.await);
        }
        for Coming { end, pages, .. } in coming {
            if !end.await {
                let at = (pages.start - self.first_page(part.zone)) as u32;
                let len = (pages.end - pages.start) as u32;
                let again = self.read_rows(Part { at, len, ..part }, ReadCause::Host);
                result = result.and(again.await);
            }
        }
        result
    }

    /// Parts of a read that are not in the DRAM, and those on their way there.
    fn split(&self, part: Part, stream: usize) -> (Vec<Part>, Vec<Coming>) {
        let (mut absent, mut coming) = (Vec::<Part>::new(), Vec::new());
        let Some(ahead) = &self.core.ahead else {
            return (vec![part], coming);
        };
        let (mut ahead, mut served) = (ahead.borrow_mut(), 0);
        let first = self.first_page(part.zone);
        for at in part.at..part.at + part.len {
            let page = first + u64::from(at);
            let held = ahead.find(stream, page, NONE);
            served += u64::from(held != Held::Absent);
            match (held, absent.last_mut()) {
                (Held::Arrived, _) => {}
                (Held::Coming(fetch), _) => {
                    ahead.wait(&self.core.sim, fetch, page, &mut coming);
                }
                (Held::Absent, Some(last)) if last.at + last.len == at => last.len += 1,
                (Held::Absent, _) => absent.push(Part { at, len: 1, ..part }),
            }
        }
        self.core.state.borrow_mut().ledger.ahead_pages += served;
        (absent, coming)
    }

    /// Starts the fetches that a stream lacks in `zone`.
    fn read_ahead(self: &Rc<Self>, stream: usize, zone: u32) {
        let Some(ahead) = &self.core.ahead else {
            return;
        };
        let start = self.first_page(zone);
        let settled = self.table.borrow().zones[zone as usize].on_flash(self.layout.unit);
        loop {
            let wanted = ahead.borrow_mut().wanted(stream);
            let Some(first) = wanted.filter(|&page| page < start + u64::from(settled)) else {
                return;
            };
            let at = (first - start) as u32;
            let (read, end) = self.row_read(zone, at, settled);
            let places = (at..end).map(|_| NONE);
            let fetch = ahead.borrow_mut().begin(stream, first, places);
            self.begin_row(&read, ReadCause::ReadAhead);
            let zoned = Rc::clone(self);
            self.core.sim.spawn_detached(async move {
                let read = zoned.finish_row(read).await;
                if let Some(ahead) = zoned.core.prefetcher() {
                    ahead.end(fetch, read.is_ok());
                }
            });
        }
    }

    /// Makes all pages of `zone` stale, which is about to be erased.
    pub(super) fn forget_ahead(&self, zone: u32) {
        if let Some(ahead) = &self.core.ahead {
            let first = self.first_page(zone);
            let pages = first..first + u64::from(self.layout.size);
            ahead.borrow_mut().forget(|page, _| pages.contains(&page));
        }
    }
}
