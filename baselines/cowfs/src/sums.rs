//! Checksums of contents: four bytes per sector, in items keyed by address.
//!
//! Invariants: items of sums do not overlap; each fits into a leaf.
//= btrfs-format 3.4

use crate::forest::{Forest, Tree, Try, sound};
use crate::format::extent::summed;
use crate::format::{Key, SECTOR_BYTES, id, kind, node, sum};
use crate::fs::Core;
use crate::persist::Persist;
use nand::{Payload, UNIT};
use std::ops::Range;
use vfs::{Errno, Result};

/// Maximum number of sums in an item: as in Linux, one less than a leaf has room for beside
/// another item.
const SUMS_MOST: usize = (node::LEAF - 2 * node::ITEM) / 4 - 1;

/// Tables for the sums of pattern sectors. The sum of a sector that repeats a number is the
/// sum of zeros XORed with a constant for each set bit of the number.
pub(crate) struct PatternSums {
    zeros: u32,
    bits: [[u32; 256]; 8],
}

impl PatternSums {
    pub(crate) fn new() -> Self {
        let of = |pattern: u64| sum(&Payload::Fill(pattern).to_bytes());
        let zeros = of(0);
        let mut bits = [[0; 256]; 8];
        for (byte, table) in bits.iter_mut().enumerate() {
            for bit in 0..8 {
                let single = of(1 << (8 * byte + bit)) ^ zeros;
                for value in (0..256_usize).filter(|value| value >> bit & 1 == 1) {
                    table[value] ^= single;
                }
            }
        }
        Self { zeros, bits }
    }

    /// The sum of a sector; `None` if any of its bytes are lost.
    pub(crate) fn of(&self, payload: &Payload) -> Option<u32> {
        match payload {
            Payload::Zero => Some(self.zeros),
            Payload::Fill(pattern) => {
                let bytes = pattern.to_le_bytes().into_iter().zip(&self.bits);
                let parts = bytes.map(|(byte, table)| table[usize::from(byte)]);
                Some(parts.fold(self.zeros, |sum, part| sum ^ part))
            }
            Payload::Bytes(bytes) => Some(sum(&bytes[..])),
            Payload::Lost | Payload::Partly(_) => None,
        }
    }
}

const _: () = assert!(UNIT as u64 == SECTOR_BYTES);

const fn key(at: u64) -> Key {
    Key::new(id::CSUMS, kind::EXTENT_CSUM, at)
}

const fn is_sums(key: Key) -> bool {
    key.kind == kind::EXTENT_CSUM && key.object == id::CSUMS
}

fn bytes_of(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

/// Decodes the little-endian sums of an item.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect()
}

/// The part of `span` that a `len`-byte item at `start` covers, and the bytes of the item
/// that hold its sums. Both are empty if the item covers nothing of `span`.
fn common(span: &Range<u64>, start: u64, len: usize) -> (Range<u64>, Range<usize>) {
    let end = start + len as u64 / 4 * SECTOR_BYTES;
    let (from, to) = (span.start.max(start), span.end.min(end));
    if from >= to {
        return (0..0, 0..0);
    }
    let byte = |at: u64| ((at - start) / SECTOR_BYTES * 4) as usize;
    (from..to, byte(from)..byte(to))
}

impl Forest {
    /// Stores a prefix of `sums`, for sectors from `at` on, in one item: overwrites existing
    /// sums, extends the item that ends at `at`, or inserts a new one. Returns the count stored.
    fn put_some(&self, tree: &Tree, at: u64, sums: &[u32]) -> Try<usize> {
        let before = self.last_until(tree, key(at), |key, data| {
            is_sums(key).then(|| (key, data.to_vec()))
        })?;
        if let Some((found, mut data)) = before.flatten() {
            let end = found.offset + summed(&data);
            if at < end {
                let skip = ((at - found.offset) / SECTOR_BYTES * 4) as usize;
                let count = sums.len().min((data.len() - skip) / 4);
                data[skip..skip + count * 4].copy_from_slice(&bytes_of(&sums[..count]));
                self.set(tree, found, &data)?;
                return Ok(count);
            }
            let room = SUMS_MOST.saturating_sub(data.len() / 4);
            if at == end && room > 0 {
                let count = self.gap(tree, at, sums.len())?.min(room);
                data.extend(bytes_of(&sums[..count]));
                self.set(tree, found, &data)?;
                return Ok(count);
            }
        }
        let count = self.gap(tree, at, sums.len())?.min(SUMS_MOST);
        self.insert(tree, key(at), &bytes_of(&sums[..count]))?;
        Ok(count)
    }

    /// Number of sectors from `at` on, up to `most`, without a sum. The caller ensures that
    /// the first has none.
    fn gap(&self, tree: &Tree, at: u64, most: usize) -> Try<usize> {
        let from = sound(key(at).next())?;
        let next = self.first_from(tree, from, |key, _| key)?;
        let next = next.filter(|key| is_sums(*key));
        let free = next.map_or(u64::MAX, |key| (key.offset - at) / SECTOR_BYTES);
        Ok(most.min(usize::try_from(free).unwrap_or(usize::MAX)).max(1))
    }

    /// Removes the sums of `span` from the last item that covers part of it. Returns false if
    /// no item does.
    fn remove_some(&self, tree: &Tree, span: &Range<u64>) -> Try<bool> {
        let last = key(span.end - 1);
        let found = self.last_until(tree, last, |key, data| (key, data.to_vec()))?;
        let Some((found, data)) = found.filter(|(key, _)| is_sums(*key)) else {
            return Ok(false);
        };
        let (sectors, bytes) = common(span, found.offset, data.len());
        if sectors.is_empty() {
            return Ok(false);
        }
        let (before, behind) = (&data[..bytes.start], &data[bytes.end..]);
        match (before.is_empty(), behind.is_empty()) {
            (true, true) => self.remove(tree, found)?,
            (true, false) => self.move_item(tree, found, key(sectors.end), behind)?,
            (false, true) => self.set(tree, found, before)?,
            (false, false) => {
                self.fetch_for_update(tree, found)?;
                self.insert(tree, key(sectors.end), behind)?;
                self.set(tree, found, before)?;
            }
        }
        Ok(true)
    }

    /// The sums of `span` in the first item that covers part of it, with the address of the
    /// first sector they belong to. `None` if no item does.
    fn read_some(&self, tree: &Tree, span: &Range<u64>) -> Try<Option<(u64, Vec<u32>)>> {
        let before = self.last_until(tree, key(span.start), |key, data| {
            (key.offset, summed(data), is_sums(key))
        })?;
        let before = before.filter(|(at, len, sums)| *sums && at + len > span.start);
        let from = before.map_or(span.start, |(at, ..)| at);
        let Some((leaf, slot)) = self.leaf_from(tree, key(from))? else {
            return Ok(None);
        };
        let bytes = leaf.bytes();
        let (found, data) = (node::key(&bytes, slot), node::data(&bytes, slot));
        if !is_sums(found) {
            return Ok(None);
        }
        let (sectors, place) = common(span, found.offset, data.len());
        let some = !sectors.is_empty();
        Ok(some.then(|| (sectors.start, words(&data[place]))))
    }
}

impl<S: Persist> Core<S> {
    /// Stores `sums` for the sectors from `at` on.
    pub(crate) async fn put_sums(&self, tree: &Tree, mut at: u64, sums: &[u32]) -> Result<()> {
        let mut left = sums;
        while !left.is_empty() {
            let count = self.with(|| self.forest.put_some(tree, at, left)).await?;
            at += count as u64 * SECTOR_BYTES;
            left = &left[count..];
        }
        Ok(())
    }

    /// Removes the sums of the `len` bytes at `at`.
    ///
    /// # Errors
    ///
    /// `EUCLEAN` if the range passes the end of the address space.
    pub(crate) async fn remove_sums(&self, tree: &Tree, at: u64, len: u64) -> Result<()> {
        let span = at..at.checked_add(len).ok_or(Errno::EUCLEAN)?;
        while self.with(|| self.forest.remove_some(tree, &span)).await? {}
        Ok(())
    }

    /// The sums of `sectors` sectors from `at` on; `None` for a sector without one.
    pub(crate) async fn sums(
        &self,
        tree: &Tree,
        at: u64,
        sectors: usize,
    ) -> Result<Vec<Option<u32>>> {
        let end = at + sectors as u64 * SECTOR_BYTES;
        let (mut all, mut from) = (vec![None; sectors], at);
        while from < end {
            let span = from..end;
            let Some((first, sums)) = self.with(|| self.forest.read_some(tree, &span)).await?
            else {
                break;
            };
            let skip = ((first - at) / SECTOR_BYTES) as usize;
            for (place, sum) in all[skip..].iter_mut().zip(&sums) {
                *place = Some(*sum);
            }
            from = first + sums.len() as u64 * SECTOR_BYTES;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_payload_has_the_sum_of_its_bytes() {
        let sums = PatternSums::new();
        for pattern in [0, 1, 0x0102_0304_0506_0708, u64::MAX, 0xdead_beef << 20] {
            let payload = Payload::Fill(pattern);
            assert_eq!(sums.of(&payload), Some(sum(&payload.to_bytes())));
        }
        assert_eq!(sums.of(&Payload::Zero), sums.of(&Payload::Fill(0)));
        assert_eq!(sums.of(&Payload::Lost), None);
    }
}
