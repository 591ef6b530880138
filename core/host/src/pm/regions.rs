//! Who has which part of persistent memory: regions in a table at its start.
//!
//! Regions are made once, all together, and stay where they are.
//!
//! | superblock | |
//! | --- | --- |
//! | magic | u64, at byte 0; written last. Another word while regions are being made |
//! | bytes of the memory | u64 |
//! | regions | u32, up to 16 |
//! | checksum | u32: CRC-32C of the fields around it, this one as 0 |
//! | each region | kind u64, first byte u64, bytes u64; zeros where there are fewer than 16 |
//! | magic | u64, once more, in another line |
//!
//! Invariants: regions are whole pages of 4 KiB behind that of the superblock, and no two of
//! them overlap; a superblock is there as a whole or not at all. Of memory that nobody has
//! made ready all of it is 0. So a first word of 0 before anything else, as a line that was
//! lost leaves it, is damage and not new memory, as is a word that is none of ours.

use super::Pm;
use units::NoSpace;

/// `PMREGION`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"PMREGION");
/// `PMMAKING`: what the first word is until regions are there as a whole.
const MAKING: u64 = u64::from_le_bytes(*b"PMMAKING");
/// Bytes that regions are multiples of.
const PAGE: u64 = 4096;
/// Most regions.
const MOST: usize = 16;
/// Bytes of the superblock: head, regions, and the magic again.
const HEAD: usize = 24;
const ENTRY: usize = 24;
const AGAIN: usize = HEAD + MOST * ENTRY;
const SUPERBLOCK: usize = AGAIN + 8;

/// A part of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it is for: a number that its user has chosen.
    pub kind: u64,
    /// Its first byte.
    pub at: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Why there are no regions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PmError {
    /// They do not fit.
    #[error("persistent memory is full: {0}")]
    Full(NoSpace),
    /// Nobody has made any, or not to the end: what there is, is nobody's.
    #[error("persistent memory has no regions: it was not made ready")]
    Blank,
    /// They make no sense.
    #[error("persistent memory is damaged: {0}")]
    Damaged(&'static str),
}

/// The regions of persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    list: Vec<Region>,
}

impl Regions {
    /// Makes regions of these kinds and sizes, which are rounded up to pages. What was
    /// there before is gone; the regions hold whatever there was until `make` has made
    /// something of them. They are there as a whole after that, or not at all. Gives what
    /// `make` has made.
    ///
    /// # Errors
    /// If there is too little memory for them; those of `make`.
    pub async fn create<T, E: From<PmError>>(
        pm: &Pm,
        wanted: &[(u64, u64)],
        make: impl AsyncFnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let list = place(pm.bytes(), wanted)?;
        let regions = Self { list };
        pm.persist(0, &MAKING.to_le_bytes()).await;
        let made = make(&regions).await?;
        regions.write(pm).await;
        Ok(made)
    }

    /// Writes the superblock, of which there is none.
    async fn write(&self, pm: &Pm) {
        let list = &self.list;
        let mut bytes = [0; SUPERBLOCK];
        bytes[8..16].copy_from_slice(&pm.bytes().to_le_bytes());
        bytes[16..20].copy_from_slice(&(list.len() as u32).to_le_bytes());
        for (entry, region) in bytes[HEAD..AGAIN].chunks_exact_mut(ENTRY).zip(list) {
            for (field, number) in [region.kind, region.at, region.bytes].iter().enumerate() {
                entry[field * 8..(field + 1) * 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        bytes[AGAIN..].copy_from_slice(&MAGIC.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[8..]).to_le_bytes();
        bytes[20..24].copy_from_slice(&sum);
        pm.persist(8, &bytes[8..]).await;
        pm.persist(0, &MAGIC.to_le_bytes()).await;
    }

    /// The regions that were made.
    ///
    /// # Errors
    /// If none were, or what is there makes no sense.
    pub async fn open(pm: &Pm) -> Result<Self, PmError> {
        if pm.bytes() < SUPERBLOCK as u64 {
            return Err(PmError::Blank);
        }
        let mut bytes = [0; SUPERBLOCK];
        pm.load(0, &mut bytes).await;
        match number(&bytes, 0) {
            MAGIC => {}
            MAKING => return Err(PmError::Blank),
            0 if bytes == [0; SUPERBLOCK] => return Err(PmError::Blank),
            _ => return Err(PmError::Damaged("its first word is none of ours")),
        }
        let sum = u32::from_le_bytes(bytes[20..24].try_into().expect("four bytes"));
        bytes[20..24].fill(0);
        if crc32c::crc32c(&bytes[8..]) != sum {
            return Err(PmError::Damaged("the sum of its superblock is wrong"));
        }
        if number(&bytes, 8) != pm.bytes() {
            return Err(PmError::Damaged(
                "its superblock is of memory of another size",
            ));
        }
        let count = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")) as usize;
        let entries = bytes[HEAD..AGAIN].chunks_exact(ENTRY).take(count);
        let region = |entry: &[u8]| Region {
            kind: number(entry, 0),
            at: number(entry, 8),
            bytes: number(entry, 16),
        };
        let list: Vec<Region> = entries.map(region).collect();
        check(&list, count, pm.bytes())?;
        Ok(Self { list })
    }

    /// The region of this kind, the first if there are several.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, kind: u64) -> Result<Region, PmError> {
        let found = self.list.iter().find(|region| region.kind == kind);
        found
            .copied()
            .ok_or(PmError::Damaged("a region is missing"))
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn place(bytes: u64, wanted: &[(u64, u64)]) -> Result<Vec<Region>, PmError> {
    let total = (bytes / PAGE).saturating_sub(1);
    if wanted.len() > MOST {
        let (asked, most) = (wanted.len() as u64, MOST as u64);
        return Err(PmError::Full(NoSpace::new("regions", asked, most, most)));
    }
    let mut list: Vec<Region> = Vec::new();
    let mut used = 0;
    for &(kind, size) in wanted {
        let pages = size.div_ceil(PAGE);
        if pages > total - used {
            let full = NoSpace::new("pages of persistent memory", pages, total - used, total);
            return Err(PmError::Full(full.rest("other regions")));
        }
        list.push(Region {
            kind,
            at: (1 + used) * PAGE,
            bytes: size,
        });
        used += pages;
    }
    Ok(list)
}

fn check(list: &[Region], count: usize, bytes: u64) -> Result<(), PmError> {
    if count > MOST {
        return Err(PmError::Damaged("it has too many regions"));
    }
    let mut end = PAGE;
    for region in list {
        let last = region.at.checked_add(region.bytes);
        let fits = region.at >= end && region.at.is_multiple_of(PAGE);
        let last = last.filter(|&last| fits && last <= bytes);
        let last = last.ok_or(PmError::Damaged(
            "a region lies outside or over another one",
        ))?;
        end = last.next_multiple_of(PAGE);
    }
    Ok(())
}
