//! Regions: the partition table at the start of persistent memory.
//!
//! All regions are created together, once, and never move.
//!
//! | superblock | |
//! | --- | --- |
//! | magic | u64, at byte 0; written last. A different word during the creation of regions |
//! | bytes of the memory | u64 |
//! | regions | u32, up to 16 |
//! | checksum | u32: CRC-32C of the fields around it, this one as 0 |
//! | each region | kind u64, first byte u64, bytes u64; zeros where there are fewer than 16 |
//! | magic | u64, once more, in another line |
//!
//! Invariants: regions begin at pages of 4 KiB behind the superblock's page and do not
//! overlap; a superblock is valid as a whole or not at all. The superblock of new memory is
//! all zeros. A first word of 0 before other contents, as a lost line leaves it, is therefore
//! damage and not new memory, and so is an unknown first word.

use super::Pm;
use units::NoSpace;

/// `PMREGION`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"PMREGION");
/// `PMMAKING`: the first word until the creation of regions is complete.
const MAKING: u64 = u64::from_le_bytes(*b"PMMAKING");
/// Alignment of regions in bytes.
const PAGE: u64 = 4096;
/// Maximum number of regions.
const MOST: usize = 16;
/// Bytes of the superblock: head, regions, and the magic again.
const HEAD: usize = 24;
const ENTRY: usize = 24;
const AGAIN: usize = HEAD + MOST * ENTRY;
const SUPERBLOCK: usize = AGAIN + 8;

/// A part of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Use of the region: a number chosen by its user.
    pub kind: u64,
    /// Address of the first byte, a multiple of 4 KiB.
    pub at: u64,
    /// Length in bytes, as requested.
    pub bytes: u64,
}

/// The errors of creating and opening regions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PmError {
    /// The requested regions do not fit.
    #[error("persistent memory is full: {0}")]
    Full(NoSpace),
    /// No regions were created, or their creation did not complete: the memory is unused.
    #[error("persistent memory has no regions: it was not made ready")]
    Blank,
    /// The superblock is damaged; holds the first contradiction found.
    #[error("persistent memory is damaged: {0}")]
    Damaged(&'static str),
}

/// The regions of persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    list: Vec<Region>,
}

impl Regions {
    /// Creates regions of the `wanted` kinds and sizes in bytes, each on pages of its own.
    /// Earlier regions are gone; the new ones hold arbitrary bytes until `make` initializes
    /// them. The superblock becomes valid after `make`, atomically. Returns the result of
    /// `make`.
    ///
    /// # Errors
    /// If the regions do not fit; the errors of `make`.
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

    /// Writes the superblock: first everything behind the magic, then the magic.
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

    /// Reads and checks the regions of `pm`.
    ///
    /// # Errors
    /// If no regions were created, or the superblock is damaged.
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

    /// The first region of kind `kind`.
    ///
    /// # Errors
    /// If no region has that kind.
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
