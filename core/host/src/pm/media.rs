//! Persistent memory without power.
//!
//! Invariant: clones share the pages that neither has changed; a page of zeros takes no
//! room.

use super::{LINE, Store, WORD};
use ssd::image::{Line, Memory};
use std::sync::Arc;
use units::Bytes;

/// Bytes of a page, the least that is shared.
const PAGE: usize = 4096;

/// What persistent memory holds without power.
#[derive(Clone, PartialEq, Eq)]
pub struct PmMedia {
    bytes: u64,
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

impl std::fmt::Debug for PmMedia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.pages.iter().flatten().count();
        write!(f, "{} in {used} pages", Bytes(self.bytes))
    }
}

impl PmMedia {
    /// `bytes` of zeros.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        let pages = bytes.0.div_ceil(PAGE as u64) as usize;
        Self {
            bytes: bytes.0,
            pages: vec![None; pages],
        }
    }

    /// What the file of a drive keeps of it.
    #[must_use]
    pub fn kept(&self) -> Memory {
        let pages = (0..).zip(&self.pages);
        let used = pages.filter_map(|(page, held)| Some((page, Arc::clone(held.as_ref()?))));
        Memory {
            bytes: self.bytes,
            pages: used.collect(),
        }
    }

    /// What the file of a drive has kept.
    #[must_use]
    pub fn of(kept: Memory) -> Self {
        let mut media = Self::new(Bytes(kept.bytes));
        for (page, held) in kept.pages {
            if let Some(place) = media.pages.get_mut(page as usize) {
                *place = Some(held);
            }
        }
        media
    }

    /// A line as a log has it.
    pub(super) fn line(&self, line: u64) -> Line {
        (line as u32, self.held(line))
    }

    /// What a line holds; the last one has zeros where there are no more bytes.
    pub(super) fn held(&self, line: u64) -> [u8; LINE] {
        let mut held = [0; LINE];
        let at = line * LINE as u64;
        let count = (self.bytes - at).min(LINE as u64) as usize;
        self.read(at, &mut held[..count]);
        held
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from `at` on.
    ///
    /// # Panics
    /// Past the end.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        assert!(at + out.len() as u64 <= self.bytes, "there are fewer bytes");
        let mut done = 0;
        while done < out.len() {
            let (page, within) = split(at + done as u64);
            let count = (PAGE - within).min(out.len() - done);
            let out = &mut out[done..done + count];
            match &self.pages[page] {
                Some(held) => out.copy_from_slice(&held[within..within + count]),
                None => out.fill(0),
            }
            done += count;
        }
    }

    /// Changes bytes, as damage does.
    ///
    /// # Panics
    /// Past the end.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(
            at + bytes.len() as u64 <= self.bytes,
            "there are fewer bytes"
        );
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = split(at + done as u64);
            let count = (PAGE - within).min(bytes.len() - done);
            let held = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            let held = Arc::make_mut(held);
            held[within..within + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    /// Makes stores to words of a line, in order.
    pub(super) fn apply(&mut self, line: u64, stores: impl IntoIterator<Item = Store>) {
        for Store { word, held, .. } in stores {
            let at = line * LINE as u64 + u64::from(word) * WORD as u64;
            let end = self.bytes.min(at + WORD as u64);
            self.write(at, &held[..(end - at) as usize]);
        }
    }
}

fn split(at: u64) -> (usize, usize) {
    ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize)
}
