//! The table: where on flash each sector is, in memory or in persistent memory.
//!
//! Invariants: an entry is four bytes, the number of a block on flash plus one, or 0 for a
//! sector that is nowhere. In persistent memory what is put is durable once [`PmTable::settle`]
//! has ended.

use crate::config::FtlError;
use host::{Pm, Region};

/// Bytes of the table of so many sectors.
#[must_use]
pub const fn entry_bytes(sectors: u32) -> u64 {
    sectors as u64 * 4
}

/// A table in persistent memory.
#[derive(Clone)]
pub struct PmTable {
    pm: Pm,
    region: Region,
}

impl PmTable {
    /// The table in `region`.
    #[must_use]
    pub const fn new(pm: Pm, region: Region) -> Self {
        Self { pm, region }
    }

    /// Entries that it has room for.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.region.bytes / 4
    }

    /// Makes every entry say that its sector is nowhere.
    pub async fn clear(&self) {
        let zeros = [0; 4096];
        let mut at = 0;
        while at < self.region.bytes {
            let count = 4096.min(self.region.bytes - at) as usize;
            self.pm.store(self.region.at + at, &zeros[..count]).await;
            self.pm.flush(self.region.at + at, count).await;
            at += count as u64;
        }
        self.pm.fence().await;
    }

    /// Loads every entry, for the time that it takes.
    pub(crate) async fn read_all(&self) {
        let mut bytes = [0; 4096];
        let mut at = 0;
        while at < self.region.bytes {
            let count = 4096.min(self.region.bytes - at) as usize;
            self.pm.load(self.region.at + at, &mut bytes[..count]).await;
            at += count as u64;
        }
    }

    /// The entry of a sector, without cost.
    #[must_use]
    pub fn get(&self, sector: u32) -> Option<u32> {
        let mut bytes = [0; 4];
        self.pm
            .peek(self.region.at + entry_bytes(sector), &mut bytes);
        u32::from_le_bytes(bytes).checked_sub(1)
    }

    /// Sets the entry of a sector at once; durable after [`PmTable::settle`].
    pub fn put(&self, sector: u32, place: Option<u32>) {
        let entry = place.map_or(0, |place| place + 1).to_le_bytes();
        self.pm.put(self.region.at + entry_bytes(sector), &entry);
    }

    /// Makes the entries of these sectors durable.
    pub async fn settle(&self, sectors: impl Iterator<Item = u32>) {
        for sector in sectors {
            self.pm.flush(self.region.at + entry_bytes(sector), 4).await;
        }
        self.pm.fence().await;
    }
}

pub(crate) enum Table {
    Dram(Vec<u32>),
    Pm(PmTable),
}

impl Table {
    pub(crate) fn dram(sectors: u32) -> Self {
        Self::Dram(vec![0; sectors as usize])
    }

    /// A table in persistent memory of at least so many sectors.
    pub(crate) fn pm(table: PmTable, sectors: u32) -> Result<Self, FtlError> {
        if table.sectors() < u64::from(sectors) {
            let (has, needs) = (table.sectors(), sectors);
            return Err(FtlError::Table(format!(
                "its region has room for {has} sectors, {needs} are mapped"
            )));
        }
        Ok(Self::Pm(table))
    }

    pub(crate) fn get(&self, sector: u32) -> Option<u32> {
        match self {
            Self::Dram(entries) => entries[sector as usize].checked_sub(1),
            Self::Pm(table) => table.get(sector),
        }
    }

    pub(crate) fn put(&mut self, sector: u32, place: Option<u32>) {
        match self {
            Self::Dram(entries) => entries[sector as usize] = place.map_or(0, |p| p + 1),
            Self::Pm(table) => table.put(sector, place),
        }
    }
}
