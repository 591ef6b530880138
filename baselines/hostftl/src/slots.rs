//! The write buffer in persistent memory: slots, each with a sector that need not be on flash.
//!
//! | region | |
//! | --- | --- |
//! | magic | u64, at byte 0; written last |
//! | slots | u64 |
//! | sectors | u64: of the mapping |
//! | drive | u64: the shape of the drive that is mapped |
//! | checksum | u64: CRC-32C of the three words before it |
//! | heads | from byte 64 on, a line for each slot |
//! | contents | behind the heads, 4 KiB for each slot |
//!
//! Layout of the head of a slot:
//!
//! - tag, u64: the sector plus one, or 0 for a free slot; the upper 32 bits are a CRC-32C of slot
//!   and lower half
//! - number, u64: of the version
//! - checksum, u64: CRC-32C of slot, number and contents
//!
//! Invariants: a slot that is not free is whole: contents, number and checksum are durable before
//! its tag. A sector has one slot, or two while a newer version is being stored; then the higher
//! number wins. A version keeps its slot until it is durable on flash and in the table, its
//! deallocation is, a newer version has a slot, or another place was exchanged for it. The slot is
//! durably free before any later version of the sector gives up its own. So a slot is never older
//! than the table's version. An exchange of sectors changes only the tag, which is one word.
//!
//! Zeros are not a valid tag, so a lost line is damage and not a free slot. Numbers read here are
//! compared with the expected values, and never used as sizes.

use crate::buffer::Buffer;
use crate::config::{FtlConfig, FtlError};
use crate::meta::MOST_NUMBERS;
use crate::table::shape;
use host::{Pm, Region};
use nand::{Payload, UNIT};
use ssd::RawGeometry;
use std::collections::{BTreeMap, BTreeSet};
use units::Bytes;

/// First word of an initialized region: `HOSTBUF1`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"HOSTBUF1");
/// Bytes of a cache line, the size of the head of the region and of a slot head.
const LINE: u64 = 64;
const WORDS: usize = 5;

/// Slots of a buffer of `buffer` bytes, at least one.
const fn count(buffer: Bytes) -> u32 {
    let slots = buffer.0 / UNIT as u64;
    if slots == 0 { 1 } else { slots as u32 }
}

/// Bytes of persistent memory for a write buffer of `buffer` bytes.
#[must_use]
pub const fn buffer_bytes(buffer: Bytes) -> u64 {
    LINE + count(buffer) as u64 * (LINE + UNIT as u64)
}

/// A version that recovery found in a slot.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) slot: u32,
    pub(crate) sector: u32,
    pub(crate) number: u64,
    pub(crate) payload: Payload,
}

/// A write buffer in persistent memory.
#[derive(Clone)]
pub struct PmBuffer {
    pm: Pm,
    region: Region,
    slots: u32,
    /// Number of exported sectors, and of all sectors including hidden ones.
    sectors: (u32, u32),
}

impl PmBuffer {
    /// The buffer in `region` of a mapping with `config`; [`Self::make`] initializes it, and a
    /// mount checks it.
    #[must_use]
    pub fn new(pm: Pm, region: Region, config: &FtlConfig) -> Self {
        let shown = u32::try_from(config.capacity.0 / UNIT as u64).unwrap_or(u32::MAX);
        Self {
            pm,
            region,
            slots: count(config.buffer),
            sectors: (shown, shown.saturating_add(config.hidden)),
        }
    }

    /// Number of slots, each for one sector.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Initializes the region as an empty buffer for this drive.
    ///
    /// # Errors
    /// If the region is too small.
    pub async fn make(&self, geometry: &RawGeometry) -> Result<(), FtlError> {
        self.check_room()?;
        let first = self.region.at;
        self.pm.persist(first, &[0; LINE as usize]).await;
        for slot in 0..self.slots {
            self.put_tag(slot, None);
        }
        self.settle(0..self.slots).await;
        let words = self.words(geometry).map(u64::to_le_bytes);
        self.pm.persist(first + 8, words[1..].as_flattened()).await;
        self.pm.persist(first, &words[0]).await;
        Ok(())
    }

    /// Words of the head of the region.
    fn words(&self, geometry: &RawGeometry) -> [u64; WORDS] {
        let (slots, sectors) = (u64::from(self.slots), u64::from(self.sectors.1));
        let fields = [slots, sectors, shape(geometry)];
        let sum = crc32c::crc32c(fields.map(u64::to_le_bytes).as_flattened());
        [MAGIC, fields[0], fields[1], fields[2], sum.into()]
    }

    fn check_room(&self) -> Result<(), FtlError> {
        let needs = LINE + u64::from(self.slots) * (LINE + UNIT as u64);
        let has = self.region.bytes;
        if has >= needs {
            return Ok(());
        }
        let slots = self.slots;
        refuse(format!(
            "its region has {has} bytes, {slots} slots need {needs}"
        ))
    }

    /// Checks that the region is a buffer of this mapping and this drive.
    ///
    /// # Errors
    /// If the region is uninitialized, too small, damaged, or of another mapping.
    pub async fn check(&self, geometry: &RawGeometry) -> Result<(), FtlError> {
        self.check_room()?;
        let mut bytes = [0; WORDS * 8];
        self.pm.load(self.region.at, &mut bytes).await;
        let (found, wanted) = (bytes, self.words(geometry).map(u64::to_le_bytes));
        if found == wanted.as_flattened() {
            return Ok(());
        }
        refuse(match found[..8] == wanted[0] {
            false => "nobody has made it".to_owned(),
            true => "it is of another mapping, or its head is damaged".to_owned(),
        })
    }

    /// Addresses of the head and of the contents of a slot.
    const fn at(&self, slot: u32) -> (u64, u64) {
        let (slot, slots) = (slot as u64, self.slots as u64);
        let head = self.region.at + LINE * (1 + slot);
        let contents = self.region.at + LINE * (1 + slots) + slot * UNIT as u64;
        (head, contents)
    }

    /// Stores a version in a free slot; durable on return.
    //= hyfim 4
    pub(crate) async fn fill(&self, slot: u32, sector: u32, number: u64, payload: &Payload) {
        let (head, contents) = self.at(slot);
        let bytes = payload.to_bytes();
        self.pm.store(contents, &bytes).await;
        self.pm.flush(contents, UNIT).await;
        let words = [number, checksum(slot, number, &bytes).into()].map(u64::to_le_bytes);
        self.pm.store(head + 8, words.as_flattened()).await;
        self.pm.flush(head + 8, 16).await;
        // A valid tag implies that all of this is durable.
        self.pm.fence().await;
        self.put_tag(slot, Some(sector));
        self.settle(std::iter::once(slot)).await;
    }

    /// Sets the owner of a slot (`None`: free) at once; durable after [`PmBuffer::settle`].
    pub(crate) fn put_tag(&self, slot: u32, sector: Option<u32>) {
        self.pm
            .put(self.at(slot).0, &tag(slot, sector).to_le_bytes());
    }

    /// Makes the tags of these slots durable.
    pub(crate) async fn settle(&self, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            self.pm.flush(self.at(slot).0, 8).await;
        }
        self.pm.fence().await;
    }

    /// Takes the time of loading the contents of `slots` slots.
    pub(crate) async fn pass(&self, slots: u32) {
        let mut bytes = [0; UNIT];
        for slot in 0..slots.min(self.slots) {
            self.pm.load(self.at(slot).1, &mut bytes).await;
        }
    }

    /// Sector whose version is in a slot; `None` if the slot is free.
    ///
    /// # Errors
    /// If the tag is damaged, or names a sector that does not exist.
    fn sector(&self, slot: u32) -> Result<Option<u32>, FtlError> {
        let mut bytes = [0; 8];
        self.pm.peek(self.at(slot).0, &mut bytes);
        let word = u64::from_le_bytes(bytes);
        let sector = (word as u32).checked_sub(1);
        if word != tag(slot, sector) {
            return refuse(format!("slot {slot} has a tag that makes no sense"));
        }
        if sector.is_some_and(|sector| sector >= self.sectors.1) {
            return refuse(format!("slot {slot} is of a sector that there is not"));
        }
        Ok(sector)
    }

    /// The newest version of each sector in a slot; frees the slots of older versions.
    pub(crate) async fn open(&self, geometry: &RawGeometry) -> Result<Vec<Kept>, FtlError> {
        self.check(geometry).await?;
        let blocks = u64::from(geometry.all_chunks()) * u64::from(geometry.blocks);
        let places = blocks + u64::from(self.slots);
        // Places are stored as numbers plus one, too.
        if places >= u64::from(u32::MAX) {
            return refuse(format!(
                "with the blocks of the drive it has {places} places"
            ));
        }
        if self.slots < geometry.write_min {
            let (slots, least) = (self.slots, geometry.write_min);
            return refuse(format!("it has {slots} slots, and the least write {least}"));
        }
        let mut newest: BTreeMap<u32, Kept> = BTreeMap::new();
        let mut older = Vec::new();
        for slot in 0..self.slots {
            let Some(kept) = self.read(slot).await? else {
                continue;
            };
            let (sector, number) = (kept.sector, kept.number);
            let other = match newest.get(&sector).map(|other| other.number) {
                Some(known) if known == number => {
                    return refuse(format!("two slots have one version of sector {sector}"));
                }
                Some(known) if known > number => Some(kept),
                _ => newest.insert(sector, kept),
            };
            older.extend(other.map(|other| other.slot));
        }
        self.free(&older).await;
        Ok(newest.into_values().collect())
    }

    /// Contents of a slot; `None` if it is free.
    async fn read(&self, slot: u32) -> Result<Option<Kept>, FtlError> {
        let (head, contents) = self.at(slot);
        let mut words = [0; 24];
        self.pm.load(head, &mut words).await;
        let Some(sector) = self.sector(slot)? else {
            return Ok(None);
        };
        let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight"));
        let (number, sum) = (word(8), word(16));
        let mut bytes = [0; UNIT];
        self.pm.load(contents, &mut bytes).await;
        if number >= MOST_NUMBERS || sum != u64::from(checksum(slot, number, &bytes)) {
            return refuse(format!(
                "what slot {slot} holds of sector {sector} is damaged"
            ));
        }
        Ok(Some(Kept {
            slot,
            sector,
            number,
            payload: Payload::of(&bytes),
        }))
    }

    /// Frees slots durably; does nothing, not even a fence, if there are none.
    pub(crate) async fn free(&self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        slots.iter().for_each(|&slot| self.put_tag(slot, None));
        self.settle(slots.iter().copied()).await;
    }

    /// Whether each slot of `exchanged` belongs to its sector or to a hidden one, as it must before
    /// the exchanges are redone.
    ///
    /// # Errors
    /// If the tag of any slot is damaged.
    pub fn fits(&self, exchanged: &BTreeMap<u32, u32>) -> Result<bool, FtlError> {
        let mut fits = true;
        for slot in 0..self.slots {
            let of = self.sector(slot)?;
            if let Some(&sector) = exchanged.get(&slot) {
                fits &= of.is_some_and(|of| of == sector || of >= self.sectors.0);
            }
        }
        Ok(fits && exchanged.keys().all(|&slot| slot < self.slots))
    }

    /// Redoes exchanges before a mount: each slot of `exchanged` gets its sector; other slots of
    /// those sectors, of sectors for which `is_elsewhere` holds, and of hidden sectors become free.
    ///
    /// # Errors
    /// If the tag of any slot is damaged.
    //= hyfim 3.4
    pub async fn redo(
        &self,
        exchanged: &BTreeMap<u32, u32>,
        is_elsewhere: impl Fn(u32) -> bool,
    ) -> Result<(), FtlError> {
        let mut changed = Vec::new();
        let here: BTreeSet<u32> = exchanged.values().copied().collect();
        for slot in 0..self.slots {
            let of = self.sector(slot)?;
            let elsewhere =
                |of: &u32| here.contains(of) || *of >= self.sectors.0 || is_elsewhere(*of);
            let now = match exchanged.get(&slot) {
                Some(&sector) => Some(sector),
                None => of.filter(|of| !elsewhere(of)),
            };
            if now != of {
                self.put_tag(slot, now);
                changed.push(slot);
            }
        }
        self.settle(changed.into_iter()).await;
        Ok(())
    }
}

fn refuse<T>(why: String) -> Result<T, FtlError> {
    Err(FtlError::Buffer(why))
}

/// Tag of a slot that belongs to `sector`, or is free.
fn tag(slot: u32, sector: Option<u32>) -> u64 {
    let number = sector.map_or(0, |sector| sector + 1);
    let sum = crc32c::crc32c([slot.to_le_bytes(), number.to_le_bytes()].as_flattened());
    u64::from(number) | u64::from(sum) << 32
}

fn checksum(slot: u32, number: u64, contents: &[u8; UNIT]) -> u32 {
    let sum = crc32c::crc32c(&slot.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
    crc32c::crc32c_append(sum, contents)
}

/// A slot whose release is not durable yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    sector: u32,
    version: (u64, u32),
}

/// Slots of a mounted buffer.
pub(crate) struct Slots {
    pub(crate) kept: PmBuffer,
    free: Vec<u32>,
    /// By sector: the number of the version in a slot, and the slot.
    of: BTreeMap<u32, (u64, u32)>,
    /// Writes that wait for a slot or for room in the buffer.
    pub(crate) waiting: u32,
}

impl Slots {
    /// Marks the slots in `found` as used, and all others as free.
    pub(crate) fn new(kept: PmBuffer, found: &[Kept]) -> Self {
        let of = found.iter().map(|k| (k.sector, (k.number, k.slot)));
        let of: BTreeMap<u32, (u64, u32)> = of.collect();
        let mut is_free = vec![true; kept.slots as usize];
        for (_, slot) in of.values() {
            is_free[*slot as usize] = false;
        }
        let free = (0..kept.slots).rev();
        Self {
            free: free.filter(|&slot| is_free[slot as usize]).collect(),
            kept,
            of,
            waiting: 0,
        }
    }

    /// Whether at least one slot has a version.
    pub(crate) fn is_used(&self) -> bool {
        !self.of.is_empty()
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Records that `slot` has version `number` of `sector`, which has no other slot.
    pub(crate) fn hold(&mut self, sector: u32, number: u64, slot: u32) {
        let before = self.of.insert(sector, (number, slot));
        debug_assert!(before.is_none(), "sector {sector} has two slots");
    }

    /// Slot of the version of a sector.
    pub(crate) fn slot(&self, sector: u32) -> Option<u32> {
        self.of.get(&sector).map(|(_, slot)| *slot)
    }

    /// Clears the tags of the slots of these versions and of older ones; [`Slots::end`] frees the
    /// slots once that is durable.
    pub(crate) fn leave(&self, versions: impl Iterator<Item = (u32, u64)>) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        for (sector, number) in versions {
            let known = self.of.get(&sector).copied();
            if let Some(version) = known.filter(|(known, _)| *known <= number) {
                self.kept.put_tag(version.1, None);
                leaving.push(Leaving { sector, version });
            }
        }
        leaving
    }

    /// Frees slots whose cleared tags are durable.
    pub(crate) fn end(&mut self, leaving: &[Leaving]) {
        for Leaving { sector, version } in leaving {
            // Another task may have freed the slot first.
            if self.of.get(sector) == Some(version) {
                self.of.remove(sector);
                self.free.push(version.1);
            }
        }
    }

    /// Clears the tag of the slot of a sector; [`Slots::give`] frees the slot.
    pub(crate) fn forget(&mut self, sector: u32) -> Option<u32> {
        let (_, slot) = self.of.remove(&sector)?;
        self.kept.put_tag(slot, None);
        Some(slot)
    }

    /// Gives a slot to another sector, which has none, at once; returns the previous sector.
    pub(crate) fn retag(&mut self, slot: u32, sector: u32) -> Option<u32> {
        let (&from, &version) = self.of.iter().find(|(_, (_, of))| *of == slot)?;
        self.of.remove(&from);
        self.kept.put_tag(slot, Some(sector));
        self.hold(sector, version.0, slot);
        Some(from)
    }

    /// Frees slots without owner whose cleared tags are durable.
    pub(crate) fn give(&mut self, slots: Vec<u32>) {
        self.free.extend(slots);
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self, buffer: &Buffer) {
        let mut seen = vec![false; self.kept.slots as usize];
        let taken = self.of.values().map(|(_, slot)| *slot);
        for slot in taken.chain(self.free.iter().copied()) {
            let twice = std::mem::replace(&mut seen[slot as usize], true);
            assert!(!twice, "slot {slot} is there twice");
        }
        for (sector, number) in buffer.waiting() {
            let held = self.of.get(&sector).map(|(number, _)| *number);
            assert_eq!(held, Some(number), "sector {sector} has no slot");
        }
    }
}

impl Leaving {
    pub(crate) const fn slot(&self) -> u32 {
        self.version.1
    }
}
