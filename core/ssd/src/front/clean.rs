//! Log cleaning, recovery after a power cut, and the write-out at shutdown.

use super::Front;
use super::lines::{pieces, write};
use crate::bytes::{ByteError, lines_of};
use crate::drive::{Core, Drive, IoError};
use crate::ledger::{Cause, ReadCause};
use crate::map::Where;
use crate::state::Incoming;
use crate::wlog::{LINE, PageImage};
use nand::Payload;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Ns, Origin};

/// Result of a recovery after a power cut (RECOVER).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Pages written from the log to flash.
    pub pages: u64,
    /// Writes in the log that counted as committed.
    pub kept: u64,
    /// Writes of transactions that had not committed.
    pub dropped: u64,
    /// Virtual time that RECOVER took.
    pub time: Ns,
}

/// State of the flash read for a page that cleaning writes in part.
#[derive(Clone, Copy)]
struct Rest {
    /// Flash position that was read.
    place: u32,
    is_readable: bool,
}

impl Drive {
    /// RECOVER: writes the lines that had committed before the power cut to flash, and drops the
    /// others. If the cut left entries in the log, stores are rejected until then; reads behave as
    /// if recovery had already happened.
    //= bytefs 4.7
    ///
    /// # Errors
    /// If the drive was recovered before since power-on, or is out of spare blocks.
    pub async fn recover(&self) -> Result<RecoveryReport, ByteError> {
        let front = self.core.front()?;
        if front.recovered.replace(true) {
            return Err(ByteError::Recovered);
        }
        let report = self.core.recover(front).await;
        front.recovered.set(report.is_ok());
        Ok(report?)
    }
}

impl Drive {
    /// Adds lines to the log that arrived while the power went. They belong to the state that the
    /// cut left, so this takes no time and must precede RECOVER.
    ///
    /// # Errors
    /// As [`Drive::store`], and if the log has no room for them.
    ///
    /// # Panics
    /// If the drive has no log, or RECOVER was called.
    pub fn take_arrived(&self, at: u64, bytes: &[u8], origin: Origin) -> Result<(), ByteError> {
        let core = &self.core;
        let front = core.front()?;
        assert!(!front.recovered.get(), "the cut comes before recovery");
        if core.read_only.get() {
            return Err(IoError::ReadOnly.into());
        }
        let (first, end) = lines_of(at, bytes.len() as u64, core.config.capacity.0)?;
        let log = front.log.as_ref().expect("the drive has a log");
        for piece in pieces(first, end) {
            let write = write(piece, 0, core.tag(origin), &bytes[piece.bytes()]);
            log.borrow_mut().store_arrived(&write)?;
        }
        Ok(())
    }
}

impl Core {
    async fn recover(self: &Rc<Self>, front: &Front) -> Result<RecoveryReport, IoError> {
        let start = self.sim.now();
        self.sim.sleep(self.config.controller.command).await;
        let mut report = RecoveryReport::default();
        if let Some(log) = front.log.as_ref().filter(|_| front.unrecovered.get()) {
            let survey = log.borrow().survey();
            (report.kept, report.dropped) = (survey.kept, survey.dropped);
            self.sim
                .sleep(Ns(front.config.log.lookup.0 * survey.entries))
                .await;
            self.reach(front, 0, survey.descriptors()).await;
            let before = self.state.borrow().ledger.bytes.cleaned_pages;
            self.clean(front).await?;
            self.write_out().await;
            report.pages = self.state.borrow().ledger.bytes.cleaned_pages - before;
            front.unrecovered.set(false);
        }
        report.time = self.sim.now().since(start);
        Ok(report)
    }

    /// Whether the log should be cleaned now.
    pub(super) fn must_clean(&self, front: &Front) -> bool {
        let Some(log) = &front.log else {
            return false;
        };
        if front.unrecovered.get() || self.read_only.get() {
            return false;
        }
        let percent = u64::from(front.config.log.clean_percent);
        let full =
            |(used, all): (u32, u32)| used > 0 && u64::from(used) * 100 >= u64::from(all) * percent;
        let log = log.borrow();
        // Cleaning only moves open lines; it frees space only if there are others.
        let can_free = log.fill().0 > log.open_lines();
        front.someone_waits.get() || (can_free && full(log.fill())) || full(log.commits())
    }

    /// Task that cleans the log whenever needed; ends when the drive turns read-only.
    pub(crate) async fn clean_in_background(self: Rc<Self>) {
        let Some(front) = &self.front else { return };
        loop {
            while !self.must_clean(front) {
                front.work.wait(&self.sim).await;
            }
            if self.clean(front).await.is_err() {
                return;
            }
        }
    }

    /// Cleans all entries that are in the log now.
    //= bytefs 4.3
    pub(super) async fn clean(self: &Rc<Self>, front: &Front) -> Result<(), IoError> {
        let Some(log) = &front.log else {
            return Ok(());
        };
        let _only = front.cleaning.acquire(1).await;
        if !log.borrow().is_frozen() {
            log.borrow_mut().freeze();
        }
        let next = Rc::new(Cell::new(0));
        let pages = log.borrow().pages_to_clean();
        let workers: Vec<_> = (0..pages.min(u64::from(front.config.log.pages_in_work)))
            .map(|_| {
                let (core, next) = (Rc::clone(self), Rc::clone(&next));
                self.sim.spawn(async move { core.clean_pages(&next).await })
            })
            .collect();
        let mut result = Ok(());
        for worker in workers {
            let cleaned = worker.await;
            result = result.and(cleaned);
        }
        if result.is_ok() && front.hides_lines() {
            result = self.bring_to_flash(front).await;
        }
        if result.is_ok() {
            log.borrow_mut().finish();
            self.state.borrow_mut().ledger.bytes.cleanings += 1;
        }
        front.someone_waits.set(false);
        front.freed.notify(&self.sim);
        result
    }

    /// Waits until the pages that supersede lines of the log are on flash: their slots may be freed
    /// then.
    async fn bring_to_flash(&self, front: &Front) -> Result<(), IoError> {
        loop {
            self.write_out().await;
            if self.read_only.get() {
                return Err(IoError::ReadOnly);
            }
            // Blocks that arrived meanwhile may have superseded lines as well.
            if !front
                .log
                .as_ref()
                .is_some_and(|log| log.borrow().hides_frozen())
            {
                return Ok(());
            }
        }
    }

    /// Cleans page after page, as one of several workers that share `next`.
    async fn clean_pages(self: &Rc<Self>, next: &Cell<u32>) -> Result<(), IoError> {
        let Some(front) = &self.front else {
            return Ok(());
        };
        while let Some(page) = front.next_to_clean(next.get()) {
            next.set(page + 1);
            self.clean_page(front, page).await?;
        }
        Ok(())
    }

    /// Moves the committed lines of a page into the write buffer, merged with the page's contents
    /// behind the log.
    //= bytefs 4.3
    async fn clean_page(self: &Rc<Self>, front: &Front, page: u32) -> Result<(), IoError> {
        let Some(log) = &front.log else {
            return Ok(());
        };
        let lines = log.borrow().lines_to_clean(page);
        self.copy_lines(front, 1, u64::from(lines)).await;
        let mut read = None;
        self.read_rest_of(front, page, &mut read).await;
        self.buffer.take(1).await;
        // Meanwhile lines may have committed, or a block write may have replaced them.
        self.read_rest_of(front, page, &mut read).await;
        if self.read_only.get() {
            self.buffer.put(1);
            return Err(IoError::ReadOnly);
        }
        // From here on all steps happen at one instant.
        let is_readable =
            self.place_of_rest(front, page).is_none() || read.is_some_and(|r| r.is_readable);
        let image = log.borrow_mut().resolve(page);
        {
            let mut state = self.state.borrow_mut();
            state.ledger.bytes.migrated_lines += u64::from(image.moved);
            state.ledger.bytes.cleaned_pages += u64::from(image.lines != 0);
        }
        let hides = front.hides_lines();
        if image.lines == 0 {
            self.buffer.put(1);
            if hides {
                log.borrow_mut().skip(page);
                return Ok(());
            }
        } else {
            let incoming = Incoming {
                page,
                frontier: self.with_room(0),
                cause: Cause::LogCleaning,
                tag: image.tag,
            };
            let keeps = self.config.flash.keep_contents;
            let payload = keeps.then(|| self.laid_over(page, &image, is_readable));
            let version = self.put_page(incoming, payload);
            if hides {
                log.borrow_mut().cleaned_by(page, version);
                return Ok(());
            }
        }
        log.borrow_mut().cleaned(page);
        Ok(())
    }

    /// Flash position of the rest of `page`; `None` if cleaning would write the page as a whole or
    /// not at all, or the page is not on flash.
    fn place_of_rest(&self, front: &Front, page: u32) -> Option<u32> {
        let committed = front.log.as_ref()?.borrow().committed_lines(page);
        match self.state.borrow().map.get(page) {
            Where::Flash(place) if committed != 0 && committed != u64::MAX => Some(place),
            _ => None,
        }
    }

    /// Reads the rest of a page, if there is one at a position not read before.
    async fn read_rest_of(&self, front: &Front, page: u32, read: &mut Option<Rest>) {
        while let Some(place) = self.place_of_rest(front, page)
            && read.is_none_or(|rest| rest.place != place)
        {
            let result = self.read_old(front, page, place).await;
            let is_readable = result.is_ok();
            *read = Some(Rest { place, is_readable });
        }
    }

    /// Takes the time of reading a page that cleaning writes in part. A cached page saves the read
    /// only while no line is uncommitted, because the cache contains such lines too.
    async fn read_old(&self, front: &Front, page: u32, place: u32) -> Result<(), IoError> {
        let nothing_open = || {
            front
                .log
                .as_ref()
                .is_some_and(|l| l.borrow().open_lines() == 0)
        };
        if !(front.is_cached(page) && nothing_open()) {
            self.read_page_of(page, place, ReadCause::LogCleaning)
                .await?;
        }
        self.move_pages(front, 1).await;
        Ok(())
    }

    /// The contents of `page` behind the log, overlaid by the lines of `image`.
    fn laid_over(&self, page: u32, image: &PageImage, is_readable: bool) -> Payload {
        if !image.is_partial() {
            return Payload::Bytes(Arc::new(*image.bytes));
        }
        let old = self.contents(page).and_then(|old| old.into_iter().next());
        let old = old.unwrap_or_default();
        let lost = if is_readable { old.lost() } else { u64::MAX };
        let mut bytes = old.to_bytes();
        for line in (0..64).filter(|line| image.lines >> line & 1 == 1) {
            let at = line * LINE..(line + 1) * LINE;
            bytes[at.clone()].copy_from_slice(&image.bytes[at]);
        }
        Payload::with_lost(bytes, lost & !image.lines)
    }

    /// Moves everything to the write buffer that a flush has to make durable: dirty pages of a
    /// volatile cache, which stay in it as clean ones, and the lines of a volatile log.
    pub(crate) async fn flush_volatile(self: &Rc<Self>) -> Result<(), IoError> {
        let Some(front) = self
            .front
            .as_ref()
            .filter(|front| !front.config.keeps_pages())
        else {
            return Ok(());
        };
        let log = front.log.as_ref().filter(|_| !front.config.keeps_log());
        if log.is_some_and(|log| log.borrow().fill().0 > 0) {
            self.clean(front).await?;
        }
        let cache = front.cache.as_ref();
        let dirty = cache.map(|cache| cache.borrow().dirty_by_slot());
        self.put_clean(front, dirty.unwrap_or_default()).await
    }

    /// Moves the contents of dirty pages to the write buffer; the pages stay in the cache.
    pub(crate) async fn put_clean(
        self: &Rc<Self>,
        front: &Front,
        pages: Vec<u32>,
    ) -> Result<(), IoError> {
        for page in pages {
            self.buffer.take(1).await;
            if self.read_only.get() {
                self.buffer.put(1);
                return Err(IoError::ReadOnly);
            }
            self.write_back(front, page, true);
        }
        Ok(())
    }

    /// Moves everything that the front holds to the write buffer, and drops uncommitted lines. On a
    /// read-only drive the rest stays in the front.
    pub(crate) async fn flush_front(self: &Rc<Self>) {
        let Some(front) = &self.front else { return };
        if self.clean(front).await.is_ok()
            && let Some(log) = &front.log
        {
            log.borrow_mut().clear();
        }
        let cache = front.cache.as_ref();
        let dirty = cache.map(|cache| cache.borrow().dirty_pages());
        for page in dirty.unwrap_or_default() {
            self.buffer.take(1).await;
            if self.read_only.get() {
                self.buffer.put(1);
                return;
            }
            self.write_back(front, page, false);
        }
    }
}

impl Front {
    fn next_to_clean(&self, from: u32) -> Option<u32> {
        self.log.as_ref()?.borrow().next_to_clean(from)
    }
}
