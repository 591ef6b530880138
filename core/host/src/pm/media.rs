//! The contents of persistent memory without power.
//!
//! Invariant: clones share pages until one of them changes a page; a page that was never
//! written takes no room and reads as zeros.

use super::{LINE, Store, WORD};
use ssd::image::{Line, Memory};
use std::sync::Arc;
use units::Bytes;

/// Bytes of a page, the unit of sharing between clones.
const PAGE: usize = 4096;

/// The durable contents of persistent memory.
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
    /// Creates contents of `bytes` zeros.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        let pages = bytes.0.div_ceil(PAGE as u64) as usize;
        Self {
            bytes: bytes.0,
            pages: vec![None; pages],
        }
    }

    /// The contents in the form that a drive's image file stores.
    #[must_use]
    pub fn kept(&self) -> Memory {
        let pages = (0..).zip(&self.pages);
        let used = pages.filter_map(|(page, held)| Some((page, Arc::clone(held.as_ref()?))));
        Memory {
            bytes: self.bytes,
            pages: used.collect(),
        }
    }

    /// The contents read from a drive's image file; pages past the end are ignored.
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

    /// Number and contents of a line, as an entry of a log.
    pub(super) fn line(&self, line: u64) -> Line {
        (line as u32, self.held(line))
    }

    /// Contents of a line, with zeros past the end of the memory.
    pub(super) fn held(&self, line: u64) -> [u8; LINE] {
        let mut held = [0; LINE];
        let at = line * LINE as u64;
        let count = (self.bytes - at).min(LINE as u64) as usize;
        self.read(at, &mut held[..count]);
        held
    }

    /// Size of the memory in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `out` with the bytes from `at` on.
    ///
    /// # Panics
    /// If the range ends past the memory.
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

    /// Overwrites durable bytes at `at`, for example to damage them.
    ///
    /// # Panics
    /// If the range ends past the memory.
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

    /// Applies stores to words of `line`, in order.
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
