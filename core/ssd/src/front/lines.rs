//! Loads, stores and commits of cache lines.

use super::cache::Dirty;
use super::{Front, LogState, lost};
use crate::bytes::{ByteError, lines_of};
use crate::drive::{Core, Drive, IoError};
use crate::ledger::ReadCause;
use crate::read::RowRead;
use crate::wlog::{CommitError, DESCRIPTOR, LINE, LINES, LogSizes, StoreError, Write, mask};
use nand::Payload;
use std::rc::Rc;
use std::sync::Arc;
use units::{Ns, Origin};

/// Consecutive cache lines of one page.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    page: u32,
    line: u8,
    lines: u8,
    /// Offset of the piece's first line in the access, in bytes.
    offset: usize,
}

impl Piece {
    fn mask(self) -> u64 {
        mask(self.line, self.lines)
    }

    pub(super) fn bytes(self) -> std::ops::Range<usize> {
        self.offset..self.offset + usize::from(self.lines) * LINE
    }
}

/// Splits the lines `first` to before `end` by page.
pub(super) fn pieces(first: u64, end: u64) -> impl Iterator<Item = Piece> + Clone {
    let of = u64::from(LINES);
    (first / of..end.div_ceil(of)).map(move |page| {
        let (from, to) = (first.max(page * of), end.min((page + 1) * of));
        Piece {
            page: page as u32,
            line: (from % of) as u8,
            lines: (to - from) as u8,
            offset: (from - first) as usize * LINE,
        }
    })
}

/// Announces the lines that the store in the gate will append to a transaction, until dropped.
struct Arriving<'a>(&'a Front);

impl<'a> Arriving<'a> {
    fn new(front: &'a Front, lines: u32) -> Self {
        front.arriving.set(lines);
        Self(front)
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.0.arriving.set(0);
    }
}

impl Drive {
    /// Whether the drive is byte-addressable too.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.core.front.is_some()
    }

    /// Whether the drive reports a volatile write cache, which hosts then flush. A byte-addressable
    /// drive reports none if a battery protects all its memory. A drive of blocks reports one even
    /// if capacitors protect it, as some real drives do; its flushes then write nothing.
    #[must_use]
    pub fn has_volatile_cache(&self) -> bool {
        let front = self.core.front.as_ref();
        front.is_none_or(|front| !front.config.keeps_pages())
    }

    /// Whether a line is durable once it has arrived. If not, a flush makes it durable.
    #[must_use]
    pub fn keeps_lines(&self) -> bool {
        let front = self.core.front.as_ref();
        front.is_some_and(Front::keeps_lines)
    }

    /// Whether the front's firmware has transactions.
    #[must_use]
    pub fn has_transactions(&self) -> bool {
        let front = self.core.front.as_ref();
        front.is_some_and(|front| front.config.has_transactions())
    }

    /// Largest number of lines that all uncommitted transactions may have together; 0 without
    /// transactions.
    //= bytefs 4.3
    #[must_use]
    pub fn transaction_lines(&self) -> u64 {
        let front = self.core.front.as_ref();
        let front = front.filter(|front| front.config.has_transactions());
        front.map_or(0, |front| LogSizes::open_lines(front.config.log.bytes.0))
    }

    /// State of the drive's log; `None` without one.
    #[must_use]
    pub fn log_state(&self) -> Option<LogState> {
        self.core.front.as_ref()?.log_state()
    }

    /// Reads the lines at byte `at` into `out`.
    //= bytefs 4.4
    ///
    /// # Errors
    /// If the access does not cover whole lines of the drive, if the flash cannot be read, or if
    /// the drive is not byte-addressable.
    pub async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), ByteError> {
        let front = self.core.front()?;
        let (first, end) = lines_of(at, out.len() as u64, self.core.config.capacity.0)?;
        let result = self.core.load(front, first, end, out).await;
        if result.is_err() {
            let mut smart = self.core.smart.get();
            smart.media_errors += 1;
            self.core.smart.set(smart);
        }
        Ok(result?)
    }

    /// Checks that a [`Drive::store`] of `len` bytes would be accepted now, apart from room, with
    /// `waiting` lines of transactions ahead of it.
    ///
    /// # Errors
    /// Those of [`Drive::store`], if it would be rejected.
    pub fn check_store(&self, at: u64, len: u64, tx: u32, waiting: u32) -> Result<(), ByteError> {
        let front = self.core.front()?;
        let (first, end) = lines_of(at, len, self.core.config.capacity.0)?;
        let waiting = waiting + front.arriving.get();
        self.core.check_store(front, (first, end), tx, waiting)
    }

    /// Writes the lines at byte `at` for transaction `tx`, or for none if `tx` is 0. On return the
    /// lines are in memory: durable if [`Drive::keeps_lines`], or else after a flush.
    //= bytefs 4.4
    ///
    /// # Errors
    /// If the access does not cover whole lines of the drive; if a line belongs to another open
    /// transaction, or `tx` has committed or is too large; if the firmware has no transactions; if
    /// the drive must be recovered first; if it is out of spare blocks; if the rest of a page for
    /// the cache cannot be read. With a log no line is stored then, unless the drive ran out of
    /// spare blocks meanwhile; with a cache, the pages before the failed one are stored.
    pub async fn store(
        &self,
        at: u64,
        bytes: &[u8],
        tx: u32,
        origin: Origin,
    ) -> Result<(), ByteError> {
        let answered = self.take_in(at, bytes, tx, origin).await?;
        self.core.sim.sleep_until(answered).await;
        Ok(())
    }

    /// As [`Drive::store`], for a host that posts writes: on return the lines are in memory, and the
    /// next store may be taken in. Returns the time of the response to this store.
    ///
    /// # Errors
    /// As [`Drive::store`].
    pub async fn take_in(
        &self,
        at: u64,
        bytes: &[u8],
        tx: u32,
        origin: Origin,
    ) -> Result<Ns, ByteError> {
        let front = self.core.front()?;
        let (first, end) = lines_of(at, bytes.len() as u64, self.core.config.capacity.0)?;
        let tag = self.core.tag(origin);
        if front.log.is_some() {
            let appended = self.core.append(front, (first, end), tx, tag, bytes);
            appended.await?;
        } else {
            self.core.check_store(front, (first, end), tx, 0)?;
            self.core.put_lines(front, (first, end), tag, bytes).await?;
        }
        let pages = pieces(first, end).count() as u32;
        Ok(self.core.sim.now() + Core::answer(front, pages))
    }

    /// Announces that lines at byte `at` will cross the link at `when` and be stored in their turn.
    /// A write-back cache then starts to fetch the pages that the lines cover in part, so that
    /// fetches for several stores overlap.
    pub fn expect_lines(&self, at: u64, len: u64, when: Ns) {
        let Some(front) = self.core.front.as_ref().filter(|front| front.has_cache()) else {
            return;
        };
        let Ok((first, end)) = lines_of(at, len, self.core.config.capacity.0) else {
            return;
        };
        if !front.writes_back() {
            return;
        }
        let parts = pieces(first, end).filter(|piece| piece.mask() != u64::MAX);
        let missing = parts.map(|piece| piece.page).filter(|&page| {
            let known = front.is_cached(page) || front.is_fetching(page);
            !known && self.core.is_on_flash(page)
        });
        for page in missing {
            let core = Rc::clone(&self.core);
            self.core.sim.spawn_detached(async move {
                core.sim.sleep_until(when).await;
                if let Ok(front) = core.front() {
                    // On failure the store fetches the page again, and reports the error.
                    let _ = core.fetch(front, vec![page]).await;
                }
            });
        }
    }

    /// Commits the lines stored for transaction `tx`.
    //= bytefs 4.3
    ///
    /// # Errors
    /// If no line was stored under that number, or it has committed; if there are no transactions;
    /// if the drive is out of spare blocks.
    pub async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        let front = self.core.front()?;
        self.core.commit(front, tx).await
    }
}

impl Core {
    pub(super) fn front(&self) -> Result<&Front, ByteError> {
        self.front.as_ref().ok_or(ByteError::NoBytes)
    }

    async fn load(
        self: &Rc<Self>,
        front: &Front,
        first: u64,
        end: u64,
        out: &mut [u8],
    ) -> Result<(), IoError> {
        let pages = pieces(first, end).count() as u32;
        self.reach(front, pages, (end - first) * LINE as u64).await;
        let (mut wanted, mut hits, mut misses) = (Vec::new(), 0, 0);
        for piece in pieces(first, end) {
            let logged = piece.mask() & !front.logged(piece.page) == 0;
            let cached = front.touch(piece.page);
            if logged || cached {
                hits += u64::from(piece.lines);
                continue;
            }
            let on_flash = u64::from(self.is_on_flash(piece.page));
            misses += on_flash * u64::from(piece.lines);
            hits += (1 - on_flash) * u64::from(piece.lines);
            wanted.push(piece.page);
        }
        {
            let mut state = self.state.borrow_mut();
            state.ledger.bytes.load_hits += hits;
            state.ledger.bytes.load_misses += misses;
        }
        if front.cache.is_some() {
            Box::pin(self.fetch(front, wanted)).await?;
        } else if !wanted.is_empty() {
            // Only the requested lines leave the drive.
            Box::pin(self.read_past(front, wanted)).await?;
        }
        for piece in pieces(first, end) {
            self.hand_lines_over(front, piece, &mut out[piece.bytes()])?;
        }
        Ok(())
    }

    /// Reads pages past a front without a cache; nothing stays in the DRAM.
    async fn read_past(self: &Rc<Self>, front: &Front, pages: Vec<u32>) -> Result<(), IoError> {
        let rows = self.rows(pages);
        let read = rows.iter().map(RowRead::units).sum();
        self.read_rows(rows, ReadCause::Host).await?;
        self.move_pages(front, read).await;
        Ok(())
    }

    /// Copies the current contents of the lines of `piece` to `out`.
    fn hand_lines_over(&self, front: &Front, piece: Piece, out: &mut [u8]) -> Result<(), IoError> {
        if let Some(log) = &front.log {
            let merged = log.borrow().merge(piece.page, piece.line, out);
            if merged == piece.mask() {
                return Ok(());
            }
        }
        let payload = self.newest_payload(piece.page);
        if payload.copy_to(usize::from(piece.line) * LINE, out) {
            return Ok(());
        }
        Err(lost(piece.page))
    }

    /// Checks everything about a store except room, with `waiting` lines of transactions ahead of
    /// it.
    fn check_store(
        &self,
        front: &Front,
        (first, end): (u64, u64),
        tx: u32,
        waiting: u32,
    ) -> Result<(), ByteError> {
        if tx != 0 && !front.config.has_transactions() {
            return Err(ByteError::NoTransactions);
        }
        if front.unrecovered.get() {
            return Err(ByteError::Unrecovered);
        }
        if self.read_only.get() {
            return Err(IoError::ReadOnly.into());
        }
        let Some(log) = &front.log else {
            return Ok(());
        };
        let writes = pieces(first, end).map(|piece| write(piece, tx, 0, &[]));
        Ok(log.borrow().check_writes(writes, waiting)?)
    }

    /// Appends lines to the log, once there is room.
    async fn append(
        self: &Rc<Self>,
        front: &Front,
        (first, end): (u64, u64),
        tx: u32,
        tag: u16,
        bytes: &[u8],
    ) -> Result<(), ByteError> {
        let gate = front.gate.acquire(1).await;
        let open = if tx == 0 { 0 } else { (end - first) as u32 };
        let arriving = Arriving::new(front, open);
        let descriptors = pieces(first, end).count() as u64 * DESCRIPTOR;
        let lines = (end - first) * LINE as u64;
        self.move_bytes(front, lines + descriptors).await;
        self.check_store(front, (first, end), tx, 0)?;
        let appended = self.append_pieces(front, (first, end), tx, tag, bytes);
        appended.await?;
        drop((arriving, gate));
        if self.must_clean(front) {
            front.work.notify(&self.sim);
        }
        Ok(())
    }

    async fn append_pieces(
        &self,
        front: &Front,
        (first, end): (u64, u64),
        tx: u32,
        tag: u16,
        bytes: &[u8],
    ) -> Result<(), ByteError> {
        for piece in pieces(first, end) {
            let write = write(piece, tx, tag, &bytes[piece.bytes()]);
            self.append_piece(front, write).await?;
            let left = front.arriving.get();
            let left = left.saturating_sub(u32::from(piece.lines));
            front.arriving.set(left);
        }
        Ok(())
    }

    async fn append_piece(&self, front: &Front, write: Write<'_>) -> Result<(), ByteError> {
        let Some(log) = &front.log else {
            return Ok(());
        };
        loop {
            let stored = log.borrow_mut().store(&write);
            match stored {
                Ok(()) => break,
                Err(StoreError::Full) => self.wait_for_space(front, 0).await?,
                Err(error) => return Err(error.into()),
            }
        }
        self.state.borrow_mut().ledger.bytes.stored_lines += u64::from(write.lines);
        Ok(())
    }

    /// Waits until cleaning has freed space, for a store (index 0) or a commit (index 1).
    async fn wait_for_space(&self, front: &Front, who: usize) -> Result<(), IoError> {
        if self.read_only.get() {
            return Err(IoError::ReadOnly);
        }
        let since = self.sim.now();
        front.someone_waits.set(true);
        front.work.notify(&self.sim);
        front.waiting[who].update(|waiting| waiting + 1);
        front.freed.wait(&self.sim).await;
        front.waiting[who].update(|waiting| waiting - 1);
        let mut state = self.state.borrow_mut();
        state.ledger.bytes.stall_ns += self.sim.now().since(since).0;
        Ok(())
    }

    /// Writes lines into pages of the cache.
    async fn put_lines(
        self: &Rc<Self>,
        front: &Front,
        (first, end): (u64, u64),
        tag: u16,
        bytes: &[u8],
    ) -> Result<(), IoError> {
        self.move_bytes(front, (end - first) * LINE as u64).await;
        for piece in pieces(first, end) {
            if piece.mask() != u64::MAX && !front.touch(piece.page) {
                Box::pin(self.fetch(front, vec![piece.page])).await?;
            }
            Box::pin(self.make_room(front, piece.page)).await?;
            let frontier = front.frontier_of(piece.page);
            let payload = if self.config.flash.keep_contents {
                let old = match front.take_contents(piece.page) {
                    Some(old) => old,
                    None => self.newest_payload(piece.page),
                };
                Some(lay_lines(old, piece, &bytes[piece.bytes()]))
            } else {
                None
            };
            let dirty = Dirty {
                payload,
                frontier,
                tag,
            };
            front.put(piece.page, dirty);
            let mut state = self.state.borrow_mut();
            state.ledger.bytes.stored_lines += u64::from(piece.lines);
        }
        Ok(())
    }

    async fn commit(&self, front: &Front, tx: u32) -> Result<(), ByteError> {
        let log = front.log.as_ref();
        let log = log.filter(|_| front.config.has_transactions());
        let log = log.ok_or(ByteError::NoTransactions)?;
        if front.unrecovered.get() {
            return Err(ByteError::Unrecovered);
        }
        self.sim.sleep(self.config.controller.command).await;
        loop {
            if self.read_only.get() {
                return Err(IoError::ReadOnly.into());
            }
            let committed = log.borrow_mut().commit(tx);
            match committed {
                Ok(()) => break,
                Err(CommitError::Full(_)) => self.wait_for_space(front, 1).await?,
                Err(error) => return Err(error.into()),
            }
        }
        self.state.borrow_mut().ledger.bytes.commits += 1;
        if self.must_clean(front) {
            front.work.notify(&self.sim);
        }
        Ok(())
    }
}

pub(super) fn write(piece: Piece, tx: u32, tag: u16, bytes: &[u8]) -> Write<'_> {
    Write {
        page: piece.page,
        line: piece.line,
        lines: piece.lines,
        tx,
        tag,
        bytes,
    }
}

/// `payload` with `bytes` at the lines of `piece`; other lines that were lost stay lost.
fn lay_lines(payload: Payload, piece: Piece, bytes: &[u8]) -> Payload {
    let from = usize::from(piece.line) * LINE;
    if let Payload::Bytes(mut page) = payload {
        Arc::make_mut(&mut page)[from..from + bytes.len()].copy_from_slice(bytes);
        return Payload::Bytes(page);
    }
    let mut page = payload.to_bytes();
    page[from..from + bytes.len()].copy_from_slice(bytes);
    Payload::with_lost(page, payload.lost() & !piece.mask())
}
