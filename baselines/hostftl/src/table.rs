//! The table: where on flash each sector is, in memory or in persistent memory.
//!
//! | in persistent memory | |
//! | --- | --- |
//! | magic | u64, at byte 0; written last |
//! | sectors | u64: that the table was made for |
//! | drive | u64: the shape of the drive whose blocks the entries name; 0 until they do |
//! | entries | from byte 64 on, for each sector u32, of which all bits are inverted |
//!
//! Invariants: an entry is the number of a block on flash plus one, or 0 for a sector that is
//! nowhere. In persistent memory what is put is durable once [`PmTable::settle`] has ended. A
//! table is used with the drive and for as many sectors as it was at first, and with no other.
//! Zeros in persistent memory, as a line that was lost has them, are no entry: they lead to a
//! block that no drive has.

use crate::config::FtlError;
use host::{Pm, Region};
use ssd::RawGeometry;

/// `HOSTFTL1`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"HOSTFTL1");
/// Bytes before the entries: a line.
const HEAD: u64 = 64;
const SECTORS: u64 = 8;
const DRIVE: u64 = 16;

/// Bytes of the table of so many sectors, in persistent memory.
#[must_use]
pub const fn table_bytes(sectors: u32) -> u64 {
    entry(sectors)
}

/// The first byte of the entry of a sector.
const fn entry(sector: u32) -> u64 {
    HEAD + sector as u64 * 4
}

/// The shape of a drive as a number that is not 0: its checksum, and a bit.
pub(crate) fn shape(geometry: &RawGeometry) -> u64 {
    let counts = [
        geometry.groups,
        geometry.units,
        geometry.chunks,
        geometry.blocks,
        geometry.write_min,
    ];
    let sum = |sum, count: u32| crc32c::crc32c_append(sum, &count.to_le_bytes());
    u64::from(counts.into_iter().fold(0, sum)) | 1 << 32
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

    /// Makes the region a table of `sectors`, none of which is anywhere, for the drive whose
    /// mapping is moved to it ([`Home::Moving`](crate::Home::Moving)).
    ///
    /// # Errors
    /// If the region is too small.
    pub async fn make(&self, sectors: u32) -> Result<(), FtlError> {
        let (has, needs) = (self.region.bytes, table_bytes(sectors));
        if has < needs {
            return Err(FtlError::Table(format!(
                "its region has {has} bytes, {sectors} sectors need {needs}"
            )));
        }
        let first = self.region.at;
        self.pm.persist(first, &[0; HEAD as usize]).await;
        let nowhere = [0xff; 4096];
        let mut at = HEAD;
        while at < self.region.bytes {
            let count = 4096.min(self.region.bytes - at) as usize;
            self.pm.store(first + at, &nowhere[..count]).await;
            self.pm.flush(first + at, count).await;
            at += count as u64;
        }
        self.pm.fence().await;
        let words = u64::from(sectors).to_le_bytes();
        self.pm.persist(first + SECTORS, &words).await;
        self.pm.persist(first, &MAGIC.to_le_bytes()).await;
        Ok(())
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.pm.peek(self.region.at + at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Whether this is a table of `sectors`.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn check(&self, sectors: u32) -> Result<(), FtlError> {
        let has = self.region.bytes;
        let refuse = |why: String| Err(FtlError::Table(why));
        if has < HEAD || self.word(0) != MAGIC {
            return refuse("nobody has made it".to_owned());
        }
        let made = self.word(SECTORS);
        if made != u64::from(sectors) {
            return refuse(format!("it was made for {made} sectors, not for {sectors}"));
        }
        let needs = table_bytes(sectors);
        if has < needs {
            return refuse(format!(
                "its region has {has} bytes, {sectors} sectors need {needs}"
            ));
        }
        Ok(())
    }

    /// Whether its entries are of blocks of this drive.
    ///
    /// # Errors
    /// Says whose they are instead.
    pub fn check_drive(&self, geometry: &RawGeometry) -> Result<(), FtlError> {
        let refuse = |why: &str| Err(FtlError::Table(why.to_owned()));
        match self.word(DRIVE) {
            0 => refuse("no mapping has moved to it, or none as a whole"),
            of if of != shape(geometry) => refuse("it is of a drive of another shape"),
            _ => Ok(()),
        }
    }

    /// Its entries, which are durable, are those of this drive from now on.
    pub(crate) async fn take_drive(&self, geometry: &RawGeometry) {
        let now = shape(geometry).to_le_bytes();
        self.pm.persist(self.region.at + DRIVE, &now).await;
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

    /// Takes the time that it takes to load the entries of these sectors.
    pub(crate) async fn pass(&self, first: u32, count: u32) {
        let mut bytes = vec![0; 4 * count as usize];
        self.pm
            .load(self.region.at + entry(first), &mut bytes)
            .await;
    }

    /// The entry of a sector, without cost.
    #[must_use]
    pub fn get(&self, sector: u32) -> Option<u32> {
        let mut bytes = [0; 4];
        self.pm.peek(self.region.at + entry(sector), &mut bytes);
        (!u32::from_le_bytes(bytes)).checked_sub(1)
    }

    /// Sets the entry of a sector at once; durable after [`PmTable::settle`].
    pub fn put(&self, sector: u32, place: Option<u32>) {
        let bytes = (!place.map_or(0, |place| place + 1)).to_le_bytes();
        self.pm.put(self.region.at + entry(sector), &bytes);
    }

    /// Makes the entries of these sectors durable.
    pub async fn settle(&self, sectors: impl Iterator<Item = u32>) {
        for sector in sectors {
            self.pm.flush(self.region.at + entry(sector), 4).await;
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

    /// That in persistent memory.
    pub(crate) fn lasting(&self) -> Option<PmTable> {
        match self {
            Self::Dram(_) => None,
            Self::Pm(table) => Some(table.clone()),
        }
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
