//! A small layer on a RAM disk, with tables of 64 KiB, transactions of a few pairs and a log of a
//! few blocks, so that every activity happens often.

use host::{BlockPort, RamDisk, Who};
use nand::{Payload, UNIT};
use remap::{FormatOptions, Options, Remap, Variant};
use sim::Sim;
use ssd::{Content, IoError};
use std::collections::BTreeMap;
use units::{Bytes, Extent, Ns, Placement};

/// Sectors of 512 bytes in a unit.
pub(crate) const SECTORS: u64 = 8;
/// Capacity of the RAM disk.
pub(crate) const SIZE: Bytes = Bytes(2 << 20);

pub(crate) fn layout() -> FormatOptions {
    FormatOptions {
        partition: Bytes(64 << 10),
        ..FormatOptions::default()
    }
}

/// Options with memory for a few tables at a time, and with deallocation of freed units below.
pub(crate) fn options(variant: Variant) -> Options {
    Options {
        variant,
        memory: Some(Bytes(2_000)),
        commit_pairs: 12,
        commit_interval: Ns::us(2),
        shortest_run: Bytes(4 * UNIT as u64),
        idle: Ns(200),
        trim: Some(Bytes(2 * UNIT as u64)),
        lookup: Ns(1),
        insert: Ns(1),
        ..Options::default()
    }
}

pub(crate) async fn made(sim: &Sim, options: Options) -> Remap<RamDisk> {
    let disk = RamDisk::new(sim, SIZE);
    remap::format(&disk, &layout()).await.unwrap();
    remap::open(sim, &disk, options).await.unwrap()
}

/// A RAM disk with the contents `left`.
pub(crate) fn disk(sim: &Sim, left: BTreeMap<u64, Payload>) -> RamDisk {
    RamDisk::holding(sim, SIZE, left)
}

pub(crate) fn units<P: BlockPort>(port: &P) -> u64 {
    port.capacity().0 / UNIT as u64
}

pub(crate) async fn write<P: BlockPort>(
    port: &P,
    unit: u64,
    count: u32,
    pattern: u64,
    fua: bool,
) -> Result<(), IoError> {
    let extent = Extent::new(unit * SECTORS, count * SECTORS as u32);
    let content = Content::Fill(pattern);
    let write = port.write(extent, content, Placement(0), Who::default(), fua);
    write.await
}

/// Reads a unit and returns its pattern; panics if the unit holds a mixture.
pub(crate) async fn read<P: BlockPort>(port: &P, unit: u64) -> Result<u64, IoError> {
    let mut bytes = [0; UNIT];
    let extent = Extent::new(unit * SECTORS, SECTORS as u32);
    let mut sink = &mut bytes[..];
    port.read(extent, &mut sink, Who::default()).await?;
    let pattern = bytes
        .first_chunk::<8>()
        .map_or(0, |word| u64::from_le_bytes(*word));
    assert!(
        bytes.chunks(8).all(|word| word == pattern.to_le_bytes()),
        "unit {unit} is mixed"
    );
    Ok(pattern)
}

pub(crate) async fn trim<P: BlockPort>(port: &P, unit: u64, count: u32) {
    let extent = Extent::new(unit * SECTORS, count * SECTORS as u32);
    port.trim(extent).await.unwrap();
}
