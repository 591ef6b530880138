//! Small items in buckets of a file, by the hash of their key (`BigHash` of Navy).
//!
//! Invariants: the entries of a bucket fit it, the oldest first, and are of items whose hash is the
//! bucket's, each once; a bucket has either readers or one writer; a bucket without entries takes
//! no memory.

//= cachelib 2
use std::collections::BTreeMap;

/// Bytes of a bucket (`bucketSize`).
pub(super) const BUCKET: u64 = 4_096;
/// Bytes of a bucket's header: checksum, generation, capacity, entries, end.
const HEADER: u64 = 24;
/// Bytes of an entry besides key and value: its length, two lengths, the hash.
const ENTRY: u64 = 20;
/// Upper bound on the bytes of a small item, so that one item fits a bucket.
pub(super) const ITEM_MAX: u64 = BUCKET - HEADER - ENTRY;
/// Hashes of a bucket's Bloom filter, and bits for each hash: 8 bytes in all (`bucketBfSize`).
const HASHES: u64 = 4;
const BITS: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    key: u32,
    version: u32,
    bytes: u64,
}

/// Lock state of a bucket; free buckets have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Readers(u32),
    Writer,
}

/// State of all buckets.
#[derive(Clone, Debug)]
pub(super) struct Small {
    count: u64,
    /// Entries of the buckets that have any.
    buckets: BTreeMap<u32, Vec<Entry>>,
    held: BTreeMap<u32, Held>,
}

impl Small {
    pub(super) const fn new(count: u64) -> Self {
        Self {
            count,
            buckets: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    pub(super) const fn bucket_of(&self, key: u32) -> u32 {
        (hash(key, 0) % self.count) as u32
    }

    fn of(&self, key: u32) -> &[Entry] {
        let bucket = self.buckets.get(&self.bucket_of(key));
        bucket.map_or(&[], Vec::as_slice)
    }

    /// Whether the Bloom filter of the item's bucket contains it. The filter is computed from the
    /// bucket's present entries, as Navy rebuilds it whenever an entry leaves.
    pub(super) fn could_exist(&self, key: u32) -> bool {
        let filter = self.of(key).iter().fold(0, |all, one| all | bits(one.key));
        filter & bits(key) == bits(key)
    }

    /// Version of an item in its bucket, if it is there.
    pub(super) fn find(&self, key: u32) -> Option<u32> {
        let entry = self.of(key).iter().find(|entry| entry.key == key)?;
        Some(entry.version)
    }

    /// Puts an item of `bytes` at the end of its bucket, replacing its older entry. Returns the
    /// keys of the entries evicted to make room, the oldest first.
    pub(super) fn insert(&mut self, key: u32, version: u32, bytes: u64) -> Vec<u32> {
        self.remove(key);
        let bucket = self.buckets.entry(self.bucket_of(key)).or_default();
        let bytes = bytes + ENTRY;
        let mut evicted = Vec::new();
        while used(bucket) + bytes > BUCKET - HEADER {
            evicted.push(bucket.remove(0).key);
        }
        bucket.push(Entry {
            key,
            version,
            bytes,
        });
        evicted
    }

    pub(super) fn remove(&mut self, key: u32) {
        let at = self.bucket_of(key);
        if let Some(bucket) = self.buckets.get_mut(&at) {
            bucket.retain(|entry| entry.key != key);
            if bucket.is_empty() {
                self.buckets.remove(&at);
            }
        }
    }

    /// Adds a reader to `bucket`; returns `false` if it has a writer.
    pub(super) fn try_read(&mut self, bucket: u32) -> bool {
        match self.held.entry(bucket).or_insert(Held::Readers(0)) {
            Held::Readers(readers) => *readers += 1,
            Held::Writer => return false,
        }
        true
    }

    pub(super) fn end_read(&mut self, bucket: u32) {
        if let Some(Held::Readers(readers)) = self.held.get_mut(&bucket) {
            *readers -= 1;
            if *readers == 0 {
                self.held.remove(&bucket);
            }
        }
    }

    /// Whether `bucket` has neither readers nor a writer.
    pub(super) fn is_free(&self, bucket: u32) -> bool {
        !self.held.contains_key(&bucket)
    }

    /// Locks a free bucket for writing.
    pub(super) fn begin_write(&mut self, bucket: u32) {
        let before = self.held.insert(bucket, Held::Writer);
        debug_assert_eq!(before, None, "nobody has the bucket");
    }

    pub(super) fn end_write(&mut self, bucket: u32) {
        self.held.remove(&bucket);
    }
}

fn used(bucket: &[Entry]) -> u64 {
    bucket.iter().map(|entry| entry.bytes).sum()
}

/// Bits of an item in the Bloom filter of its bucket, one for each hash.
fn bits(key: u32) -> u64 {
    (0..HASHES).fold(0, |all, one| {
        all | 1 << (one * BITS + hash(key, one + 1) % BITS)
    })
}

/// Hash number `which` of an item; its bits show no pattern of the key.
const fn hash(key: u32, which: u64) -> u64 {
    let x = (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sim::mix(x.wrapping_add(which.wrapping_mul(0xd1b5_4a32_d192_ed03)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_never_overfills_and_loses_its_oldest() {
        let mut small = Small::new(1);
        let mut there: Vec<(u32, u64)> = Vec::new();
        for key in 0..200 {
            let bytes = 100 + u64::from(key % 7) * 200;
            let evicted = small.insert(key, key, bytes);
            let oldest: Vec<u32> = there.drain(..evicted.len()).map(|one| one.0).collect();
            assert_eq!(evicted, oldest);
            there.push((key, bytes));
            let full: u64 = there.iter().map(|one| one.1 + ENTRY).sum();
            assert!(full <= BUCKET - HEADER, "{full}");
            let next = oldest.last().map(|key| small.could_exist(*key));
            assert!(next.is_none() || small.find(oldest[0]).is_none());
        }
        assert!(there.iter().all(|&(key, _)| small.find(key) == Some(key)));
    }

    #[test]
    fn an_item_is_in_its_bucket_once() {
        let mut small = Small::new(4);
        assert!(!small.could_exist(3));
        assert_eq!(small.insert(3, 1, 2_000), [0; 0]);
        assert_eq!(small.insert(3, 2, 3_000), [0; 0]);
        assert_eq!((small.find(3), small.could_exist(3)), (Some(2), true));
        small.remove(3);
        assert_eq!((small.find(3), small.could_exist(3)), (None, false));
        assert_eq!(small.insert(3, 3, ITEM_MAX), [0; 0]);
    }

    #[test]
    fn buckets_without_entries_take_no_memory() {
        let mut small = Small::new(1 << 28);
        for key in 0..100 {
            assert!(!small.could_exist(key) && small.find(key).is_none());
            small.remove(key);
        }
        assert!(small.buckets.is_empty());
        (0..100).for_each(|key| drop(small.insert(key, 0, 300)));
        assert!((90..=100).contains(&small.buckets.len()));
        (0..100).for_each(|key| small.remove(key));
        assert!(small.buckets.is_empty());
    }

    #[test]
    fn bucket_writer_excludes_readers() {
        let mut small = Small::new(2);
        assert!(small.try_read(1) && small.try_read(1) && !small.is_free(1));
        small.end_read(1);
        assert!(!small.is_free(1) && small.is_free(0));
        small.end_read(1);
        small.begin_write(1);
        assert!(!small.try_read(1));
        small.end_write(1);
        assert!(small.try_read(1));
    }

    #[test]
    fn filters_reject_most_missing_items() {
        let mut small = Small::new(1_000);
        for key in 0..4_000 {
            small.insert(key, 0, 300);
        }
        let through = (4_000..104_000).filter(|key| small.could_exist(*key));
        // Four items set 3.6 of 16 bits of each hash: 0.23 to the fourth, and buckets differ.
        let through = through.count();
        assert!((300..1_500).contains(&through), "{through}");
    }
}
