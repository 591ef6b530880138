//! The write buffer in persistent memory: slots, each of a sector that need not be on flash.
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
//! The head of a slot is
//!
//! - tag, u64: the sector plus one, or 0 for a free slot, and above that 32 bits CRC-32C of it and
//!   of the slot
//! - number, u64: of the version
//! - checksum, u64: CRC-32C of slot, number and contents
//!
//! Invariants: a slot that is not free is whole: contents, number and sum were durable before
//! its tag was. Of a sector one slot has a version, but for two while a newer one is being
//! stored; then the higher number counts. A version has its slot until it is durable on flash
//! and in the table, until its deallocation is, until a newer version has one, or until another
//! place was exchanged for it; and the slot is free, durably so, before
//! anything that came later of the sector gives up its own. So what a slot has is never older
//! than what the table leads to. Of exchanged sectors the tag alone changes, which is one word.
//!
//! Zeros are no tag, so a line that was lost is damage and no free slot.
//! What is read here is compared with what the region was made for, never taken for a size.

use crate::buffer::Buffer;
use crate::config::{FtlConfig, FtlError};
use crate::meta::MOST_NUMBERS;
use crate::table::shape;
use host::{Pm, Region};
use nand::{Payload, UNIT};
use ssd::RawGeometry;
use std::collections::{BTreeMap, BTreeSet};
use units::Bytes;

/// `HOSTBUF1`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"HOSTBUF1");
/// Bytes of a line, which the head of the region and that of a slot are.
const LINE: u64 = 64;
const WORDS: usize = 5;

/// Slots of a buffer of so many bytes.
const fn count(buffer: Bytes) -> u32 {
    let slots = buffer.0 / UNIT as u64;
    if slots == 0 { 1 } else { slots as u32 }
}

/// Bytes that a write buffer takes in persistent memory.
#[must_use]
pub const fn buffer_bytes(buffer: Bytes) -> u64 {
    LINE + count(buffer) as u64 * (LINE + UNIT as u64)
}

/// A version that recovery finds in a slot.
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
    /// Sectors that are not hidden, and all of them.
    sectors: (u32, u32),
}

impl PmBuffer {
    /// The buffer of such a mapping, in `region`.
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

    /// How many slots it has.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Makes the region a buffer without anything in it, for this drive.
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

    /// The head of the region.
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

    /// Whether this is the buffer of such a mapping of this drive.
    ///
    /// # Errors
    /// Says what it is instead.
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

    /// Where the head of a slot is, and its contents.
    const fn at(&self, slot: u32) -> (u64, u64) {
        let (slot, slots) = (slot as u64, self.slots as u64);
        let head = self.region.at + LINE * (1 + slot);
        let contents = self.region.at + LINE * (1 + slots) + slot * UNIT as u64;
        (head, contents)
    }

    /// Stores a version in a slot that is free: it lasts when this returns.
    //= hyfim 4
    pub(crate) async fn fill(&self, slot: u32, sector: u32, number: u64, payload: &Payload) {
        let (head, contents) = self.at(slot);
        let bytes = payload.to_bytes();
        self.pm.store(contents, &bytes).await;
        self.pm.flush(contents, UNIT).await;
        let words = [number, checksum(slot, number, &bytes).into()].map(u64::to_le_bytes);
        self.pm.store(head + 8, words.as_flattened()).await;
        self.pm.flush(head + 8, 16).await;
        // A tag that is there says that all of this is.
        self.pm.fence().await;
        self.put_tag(slot, Some(sector));
        self.settle(std::iter::once(slot)).await;
    }

    /// Has a slot be of a sector, or free, at once; durable after [`PmBuffer::settle`].
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

    /// Takes the time that it takes to load what so many slots hold.
    pub(crate) async fn pass(&self, slots: u32) {
        let mut bytes = [0; UNIT];
        for slot in 0..slots.min(self.slots) {
            self.pm.load(self.at(slot).1, &mut bytes).await;
        }
    }

    /// Whose version a slot has, if any.
    ///
    /// # Errors
    /// If its tag is none, or of a sector that there is not.
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

    /// What every slot holds that is not free, the newest version of each sector; what an older
    /// one had is free afterwards.
    pub(crate) async fn open(&self, geometry: &RawGeometry) -> Result<Vec<Kept>, FtlError> {
        self.check(geometry).await?;
        let blocks = u64::from(geometry.all_chunks()) * u64::from(geometry.blocks);
        let places = blocks + u64::from(self.slots);
        // Places are numbers plus one, too.
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

    /// What a slot holds; none if it is free.
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

    /// Makes slots free, durably.
    pub(crate) async fn free(&self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        slots.iter().for_each(|&slot| self.put_tag(slot, None));
        self.settle(slots.iter().copied()).await;
    }

    /// Whether each of these slots is of its sector, or of a hidden one: what a record of
    /// exchanges that is to be done again may say.
    ///
    /// # Errors
    /// If the tag of any slot makes no sense.
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

    /// Does exchanges again, before a mount: each of these slots is of its sector, and no other
    /// slot is of one of those or of any that `is_elsewhere`, or is hidden.
    ///
    /// # Errors
    /// If the tag of any slot makes no sense.
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

/// The tag of a slot with a version of this sector, or of a free one.
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

/// A slot on its way to be free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    sector: u32,
    version: (u64, u32),
}

/// The slots of a buffer under power.
pub(crate) struct Slots {
    pub(crate) kept: PmBuffer,
    free: Vec<u32>,
    /// By sector: the number of the version that has a slot, and the slot.
    of: BTreeMap<u32, (u64, u32)>,
    /// Writes that wait for room.
    pub(crate) waiting: u32,
}

impl Slots {
    /// Those that recovery has found in use, and the rest free.
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

    /// Whether any slot has a version.
    pub(crate) fn is_used(&self) -> bool {
        !self.of.is_empty()
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// A slot has the version of this number, and no other slot one of the sector.
    pub(crate) fn hold(&mut self, sector: u32, number: u64, slot: u32) {
        let before = self.of.insert(sector, (number, slot));
        debug_assert!(before.is_none(), "sector {sector} has two slots");
    }

    /// The slot of a sector.
    pub(crate) fn slot(&self, sector: u32) -> Option<u32> {
        self.of.get(&sector).map(|(_, slot)| *slot)
    }

    /// Has the slots of these versions, and of older ones, be free, at once; they are given to
    /// others once that is durable ([`Slots::end`]).
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

    /// These are durably free.
    pub(crate) fn end(&mut self, leaving: &[Leaving]) {
        for Leaving { sector, version } in leaving {
            // Whoever else had it leave may have come first.
            if self.of.get(sector) == Some(version) {
                self.of.remove(sector);
                self.free.push(version.1);
            }
        }
    }

    /// Has the slot of a sector be nobody's, at once; it is free after [`Slots::give`].
    pub(crate) fn forget(&mut self, sector: u32) -> Option<u32> {
        let (_, slot) = self.of.remove(&sector)?;
        self.kept.put_tag(slot, None);
        Some(slot)
    }

    /// Has a slot be of another sector, which has none, at once; gives whose it was.
    pub(crate) fn retag(&mut self, slot: u32, sector: u32) -> Option<u32> {
        let (&from, &version) = self.of.iter().find(|(_, (_, of))| *of == slot)?;
        self.of.remove(&from);
        self.kept.put_tag(slot, Some(sector));
        self.hold(sector, version.0, slot);
        Some(from)
    }

    /// These, which nobody has, are durably free.
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
