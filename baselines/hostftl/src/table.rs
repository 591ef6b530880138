//! The table: the flash block of each sector, in volatile or in persistent memory.
//!
//! | in persistent memory | |
//! | --- | --- |
//! | magic | u64, at byte 0; written last |
//! | sectors | u64: that the table was made for |
//! | drive | u64: the shape of the drive whose blocks the entries name; 0 until they do |
//! | entries | from byte 64 on, for each sector u32, of which all bits are inverted |
//!
//! Invariants: an entry is the number of a flash block plus one, or 0 for an unmapped sector. In
//! persistent memory an entry is durable after [`PmTable::settle`]. A table is used only with its
//! first drive and with its first number of sectors. Zeros in persistent memory, as in a lost line,
//! are not a valid entry: they lead to a block that no drive has.

use crate::config::FtlError;
use host::{Pm, Region};
use ssd::RawGeometry;

/// First word of an initialized region: `HOSTFTL1`, little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"HOSTFTL1");
/// Bytes before the entries: one cache line.
const HEAD: u64 = 64;
const SECTORS: u64 = 8;
const DRIVE: u64 = 16;

/// Bytes of persistent memory for a table of `sectors` entries.
#[must_use]
pub const fn table_bytes(sectors: u32) -> u64 {
    entry(sectors)
}

/// Offset of the entry of a sector.
const fn entry(sector: u32) -> u64 {
    HEAD + sector as u64 * 4
}

/// Checksum of the geometry of a drive, with a bit that makes it nonzero.
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

/// A mapping table in persistent memory.
#[derive(Clone)]
pub struct PmTable {
    pm: Pm,
    region: Region,
}

impl PmTable {
    /// The table in `region`; [`Self::make`] initializes it, and a mount checks it.
    #[must_use]
    pub const fn new(pm: Pm, region: Region) -> Self {
        Self { pm, region }
    }

    /// Initializes the region as a table of `sectors` unmapped sectors, without a drive: the
    /// mapping of a drive is moved to it later ([`Home::Moving`](crate::Home::Moving)).
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

    /// Checks that the region is a table of `sectors` entries.
    ///
    /// # Errors
    /// If the region is uninitialized, too small, or of another size.
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

    /// Checks that the entries name blocks of this drive.
    ///
    /// # Errors
    /// If no mapping was moved here completely, or it is of a drive of another shape.
    pub fn check_drive(&self, geometry: &RawGeometry) -> Result<(), FtlError> {
        let refuse = |why: &str| Err(FtlError::Table(why.to_owned()));
        match self.word(DRIVE) {
            0 => refuse("no mapping has moved to it, or none as a whole"),
            of if of != shape(geometry) => refuse("it is of a drive of another shape"),
            _ => Ok(()),
        }
    }

    /// Marks the durable entries as those of this drive.
    pub(crate) async fn take_drive(&self, geometry: &RawGeometry) {
        let now = shape(geometry).to_le_bytes();
        self.pm.persist(self.region.at + DRIVE, &now).await;
    }

    /// Takes the time of loading every entry.
    pub(crate) async fn read_all(&self) {
        let mut bytes = [0; 4096];
        let mut at = 0;
        while at < self.region.bytes {
            let count = 4096.min(self.region.bytes - at) as usize;
            self.pm.load(self.region.at + at, &mut bytes[..count]).await;
            at += count as u64;
        }
    }

    /// Takes the time of loading the entries of `count` sectors.
    pub(crate) async fn pass(&self, first: u32, count: u32) {
        let mut bytes = vec![0; 4 * count as usize];
        self.pm
            .load(self.region.at + entry(first), &mut bytes)
            .await;
    }

    /// Block of a sector, read without cost; `None` if unmapped.
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

    /// The table, if it is in persistent memory.
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
