//! The byte port of the disk in memory.
//!
//! Invariants: `posted` lines are not durable, and a cut keeps any subset of them; `open`
//! lines belong to uncommitted transactions, and a cut drops them. A line that becomes
//! durable is also laid over the volatile block writes of its page, so that none of them
//! undoes it.

use super::{RamDisk, State};
use crate::bytes::BytePort;
use crate::ledger::Who;
use nand::{Payload, UNIT};
use sim::Rng;
use ssd::ByteError;
use ssd::wlog::{CommitError, LINE, LINES, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Line = [u8; LINE];

#[derive(Clone, Copy)]
struct Posted {
    line: u64,
    bytes: Line,
    tx: u32,
}

/// Lines that are not durable yet.
#[derive(Default)]
pub(super) struct Lines {
    /// Lines stored since the last verification, oldest first.
    posted: Vec<Posted>,
    /// Verified lines of uncommitted transactions, by line number.
    open: BTreeMap<u64, (u32, Line)>,
    /// Transactions with stores and without a commit.
    running: BTreeSet<u32>,
    committed: BTreeSet<u32>,
    recovered: bool,
}

/// Page number of a line, and the line's byte offset in the page.
const fn place(line: u64) -> (u64, usize) {
    let lines = LINES as u64;
    (line / lines, (line % lines) as usize * LINE)
}

fn lay(payload: &Payload, at: usize, line: &Line) -> Payload {
    let mut bytes = payload.to_bytes();
    bytes[at..at + LINE].copy_from_slice(line);
    Payload::Bytes(Arc::new(bytes))
}

fn put(pages: &mut BTreeMap<u64, Payload>, line: u64, bytes: &Line) {
    let (page, at) = place(line);
    let old = pages.get(&page).unwrap_or(&Payload::Zero);
    let new = lay(old, at, bytes);
    pages.insert(page, new);
}

impl Lines {
    /// Drops the posted and open lines of a page that was written as a block.
    pub(super) fn invalidate(&mut self, page: u64) {
        self.posted.retain(|p| place(p.line).0 != page);
        let first = page * u64::from(LINES);
        for line in first..first + u64::from(LINES) {
            self.open.remove(&line);
        }
    }

    /// Lays over `pages` those posted lines that `rng` keeps.
    pub(super) fn keep_some(&self, pages: &mut BTreeMap<u64, Payload>, rng: &mut Rng) {
        for posted in &self.posted {
            if self.counts(posted.tx) && rng.below(2) == 0 {
                put(pages, posted.line, &posted.bytes);
            }
        }
    }

    fn counts(&self, tx: u32) -> bool {
        tx == 0 || self.committed.contains(&tx)
    }

    /// Another uncommitted transaction with a store to `line`, if any.
    fn owner(&self, line: u64, tx: u32) -> Option<u32> {
        let open = self.open.get(&line).map(|(by, _)| *by);
        let posted = self.posted.iter().filter(|p| p.line == line).map(|p| p.tx);
        let mut others = open.into_iter().chain(posted);
        others.find(|&by| by != tx && !self.counts(by))
    }

    fn check(&self, (first, end): (u64, u64), tx: u32) -> Result<(), StoreError> {
        if self.committed.contains(&tx) {
            return Err(StoreError::Committed(tx));
        }
        for line in first..end {
            if let Some(by) = self.owner(line, tx) {
                let (page, at) = place(line);
                return Err(StoreError::Locked {
                    page: page as u32,
                    line: (at / LINE) as u8,
                    by,
                });
            }
        }
        Ok(())
    }
}

impl State {
    fn make_durable(&mut self, line: u64, bytes: &Line) {
        put(&mut self.durable, line, bytes);
        let (page, at) = place(line);
        for (_, later) in self.volatile.iter_mut().filter(|(of, _)| *of == page) {
            *later = lay(later, at, bytes);
        }
    }

    fn verify(&mut self) {
        for Posted { line, bytes, tx } in std::mem::take(&mut self.lines.posted) {
            if self.lines.counts(tx) {
                self.make_durable(line, &bytes);
            } else {
                self.lines.open.insert(line, (tx, bytes));
            }
        }
    }

    fn commit(&mut self, tx: u32) -> Result<(), CommitError> {
        if self.lines.committed.contains(&tx) {
            return Err(CommitError::Committed(tx));
        }
        if !self.lines.running.remove(&tx) {
            return Err(CommitError::Unknown(tx));
        }
        self.lines.committed.insert(tx);
        let open = std::mem::take(&mut self.lines.open);
        for (line, (by, bytes)) in open {
            if by == tx {
                self.make_durable(line, &bytes);
            } else {
                self.lines.open.insert(line, (by, bytes));
            }
        }
        Ok(())
    }
}

impl BytePort for RamDisk {
    fn has_transactions(&self) -> bool {
        true
    }

    /// Unlimited: this disk has no log to fill.
    fn transaction_lines(&self) -> u64 {
        u64::MAX
    }

    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError> {
        let len = out.len() as u64;
        let (first, end) = ssd::lines_of(at, len, self.capacity.0)?;
        self.turn().await;
        let mut state = self.state.borrow_mut();
        for (line, out) in (first..end).zip(out.chunks_exact_mut(LINE)) {
            let (page, at) = place(line);
            let payload = state.newest.get(&page).unwrap_or(&Payload::Zero);
            let _ = payload.copy_to(at, out);
        }
        state.ledger.book(who, |t| t.read.byte += len);
        Ok(())
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        let len = bytes.len() as u64;
        let (first, end) = ssd::lines_of(at, len, self.capacity.0)?;
        self.turn().await;
        let mut state = self.state.borrow_mut();
        state.lines.check((first, end), tx)?;
        if tx != 0 {
            state.lines.running.insert(tx);
        }
        for (line, bytes) in (first..end).zip(bytes.chunks_exact(LINE)) {
            let bytes = bytes.try_into().expect("chunks have this length");
            put(&mut state.newest, line, &bytes);
            state.lines.posted.push(Posted { line, bytes, tx });
        }
        state.ledger.book(who, |t| t.write.byte += len);
        Ok(())
    }

    async fn verify(&self) -> Result<(), ByteError> {
        self.turn().await;
        self.state.borrow_mut().verify();
        Ok(())
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        self.turn().await;
        Ok(self.state.borrow_mut().commit(tx)?)
    }

    async fn recover(&self) -> Result<(), ByteError> {
        self.turn().await;
        let mut state = self.state.borrow_mut();
        if std::mem::replace(&mut state.lines.recovered, true) {
            return Err(ByteError::Recovered);
        }
        Ok(())
    }
}

const _: () = assert!(LINE * LINES as usize == UNIT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::BlockPort;
    use sim::{Kernel, Seed};
    use ssd::{Content, IoError};
    use units::{Bytes, Extent, Placement};

    fn on_disk<F: Future<Output = ()> + 'static>(test: impl FnOnce(RamDisk) -> F) -> RamDisk {
        let kernel = Kernel::new();
        let disk = RamDisk::new(&kernel.sim(), Bytes(1 << 20));
        kernel.block_on(test(disk.clone()));
        disk
    }

    fn byte(pages: &BTreeMap<u64, Payload>, at: usize) -> u8 {
        let page = pages.get(&((at / UNIT) as u64)).unwrap_or(&Payload::Zero);
        page.to_bytes()[at % UNIT]
    }

    fn cuts(disk: &RamDisk, at: usize) -> BTreeSet<u8> {
        let mut rng = Seed(1).stream("cuts");
        let cut = |_| byte(&disk.after_cut(&mut rng), at);
        (0..32).map(cut).collect()
    }

    async fn store(disk: &RamDisk, at: u64, value: u8, tx: u32) -> Result<(), ByteError> {
        disk.store(at, &[value; LINE], tx, Who::default()).await
    }

    #[test]
    fn posted_line_may_be_lost_until_it_is_verified() {
        let disk = on_disk(|disk| async move {
            store(&disk, 0, 1, 0).await.unwrap();
            disk.verify().await.unwrap();
            store(&disk, 0, 2, 0).await.unwrap();
            store(&disk, 64, 2, 0).await.unwrap();
        });
        assert_eq!(cuts(&disk, 0), [1, 2].into());
        assert_eq!(cuts(&disk, 64), [0, 2].into());
    }

    #[test]
    fn transaction_is_durable_once_it_has_committed() {
        let disk = on_disk(|disk| async move {
            store(&disk, 0, 1, 7).await.unwrap();
            store(&disk, 64, 2, 8).await.unwrap();
            disk.verify().await.unwrap();
            disk.commit(7).await.unwrap();
            let again = disk.commit(7).await.unwrap_err();
            assert_eq!(again, CommitError::Committed(7).into());
            let late = store(&disk, 128, 1, 7).await.unwrap_err();
            assert_eq!(late, StoreError::Committed(7).into());
            let locked = store(&disk, 64, 1, 0).await.unwrap_err();
            let (page, line, by) = (0, 1, 8);
            assert_eq!(locked, StoreError::Locked { page, line, by }.into());
            let unknown = disk.commit(9).await.unwrap_err();
            assert_eq!(unknown, CommitError::Unknown(9).into());
        });
        assert_eq!(cuts(&disk, 0), [1].into());
        assert_eq!(cuts(&disk, 64), [0].into());
    }

    #[test]
    fn lines_and_blocks_are_the_same_bytes() {
        let disk = on_disk(|disk| async move {
            let (page, who) = (Extent::new(0, 8), Who::default());
            store(&disk, 0, 9, 0).await.unwrap();
            let fill = Content::Fill(0);
            disk.write(page, fill, Placement(0), who, false)
                .await
                .unwrap();
            store(&disk, 64, 5, 0).await.unwrap();
            disk.verify().await.unwrap();
            let mut line = [0; 2 * LINE];
            disk.load(0, &mut line, who).await.unwrap();
            assert_ne!(line[0], 9);
            assert_eq!(line[64], 5);
            let mut read = [0; UNIT];
            let mut sink = read.as_mut_slice();
            disk.read(page, &mut sink, who).await.unwrap();
            assert_eq!(read[..2 * LINE], line);
        });
        assert_eq!(
            cuts(&disk, 64),
            [5].into(),
            "whether the block lasts or not"
        );
    }

    #[test]
    fn unaligned_store_or_store_past_the_end_is_refused() {
        on_disk(|disk| async move {
            let unaligned = store(&disk, 8, 1, 0).await.unwrap_err();
            assert_eq!(unaligned, ByteError::Unaligned { at: 8, len: 64 });
            let past = store(&disk, 1 << 20, 1, 0).await.unwrap_err();
            assert!(matches!(past, ByteError::Io(IoError::OutOfRange { .. })));
            disk.recover().await.unwrap();
            assert_eq!(disk.recover().await, Err(ByteError::Recovered));
        });
    }
}
