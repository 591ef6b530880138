//! The drive file: a drive without power, as bytes.
//!
//! Invariants: [`read`] returns the configuration and the media that [`write()`] was given. A drive
//! powered on from either pair answers every command alike, and writing them again gives the same
//! bytes. A file with a changed byte or without its end is rejected. Reading allocates no more than
//! a section at a time, or than the drive's geometry allows.
//!
//! A log may follow the end of a file: the changes that a drive under power made since. The log may
//! end anywhere, because a process may; bytes after its last whole record count as never written. A
//! byte changed before that is rejected.
//!
//! # Format, version 1
//!
//! Numbers are little endian. The file consists of a header, sections, and records of the log.
//!
//! | header | |
//! | --- | --- |
//! | magic | 8 bytes, `FLASHLM` and a zero |
//! | version | u32 |
//!
//! A section is
//!
//! - kind, u32: 1 configuration, 2 counters, 3 blocks, 4 saved buffer, 5 end; before the end, if
//!   the drive has a front, 8 front, if it has zones, 9 zones, and if memory that lasts is kept
//!   beside an open-channel drive, 10 memory; in the log: 6 change, 7 end of a change
//! - length, u64: bytes of the payload, 1 to 1 MiB
//! - checksum, u32: CRC-32C of kind, length and payload
//! - payload
//!
//! Kinds 1 to 5 are always present, and sections follow each other in this order. Data longer than
//! 1 MiB are cut anywhere into sections of one kind, except for configuration and counters, which
//! are one section each.
//!
//! The payload of each kind:
//!
//! - configuration: [`DriveConfig`] as JSON
//! - counters: [`Smart`](crate::Smart) as JSON
//! - blocks: count u32, then *block*s by ascending index, factory-fresh ones left out
//! - saved buffer: 0 u8, or 1 u8, count u32, *slot*s, count u64, *trim*s
//! - front: count u32, *write*s of the log, oldest first, count u32, numbers u32 of the
//!   transactions that have committed, count u32, *slot*s for the dirty pages of the cache, least
//!   recently used first
//! - zones: *zones*
//! - memory: bytes u64, count u32, then for each page of 4 KiB with contents, by ascending number:
//!   number u32, 4096 bytes
//! - end: number of sections before it u64, CRC-32C of all bytes before it u32
//!
//! Parts of payloads:
//!
//! - *block*: index u32 ([`Geometry::index`](nand::Geometry::index)), state u8 (0 erased, 1
//!   written, 2 half erased, 3 bad), pages written u32, erases u32; if it is written or bad and has
//!   pages: label u64, base stamp u64, *stamp*s, the words u32 of each sector, *run*s
//! - *stamp*: u32, one a program: difference to the base stamp, or 2³²−1 if it cannot be read
//! - *run*: kind u8 (0 zeros, 1 fill, 2 bytes, 3 lost, 4 lost in part; in the log also 5 moved, 6
//!   saved), sectors u32, then for a fill its pattern u64, for bytes 4096 of them a sector, for
//!   sectors lost in part a bit for each lost 64 bytes (u64) and the bytes; for moved ones the
//!   block u32 and the sector in it u32, and for saved ones the mapped page u32 and the sector in
//!   it u32, where the file had the contents before this record: on flash, and in the saved buffer;
//!   runs up to the number of sectors
//! - *slot*: mapped page u32, origin u16, frontier u16, *run*s for the sectors of a mapped page if
//!   the drive keeps contents
//! - *write*: page u32, first line u8, lines u8, origin u16, transaction u32, u64 a bit set for
//!   each line of it that is invalid, then 64 bytes a line if the drive keeps contents
//! - *zones*: count u32, *saved zone*s by ascending zone, count u32, *defect*s by ascending zone
//! - *saved zone*: zone u32, first sector of 4 KiB in the zone u32, sectors u32, 1 u8 if a reset
//!   was under way, 2 if the zone was finished while it was empty (else 0), then *run*s for them if the drive keeps contents
//! - *defect*: zone u32, kind u8 (0 read-only, 1 offline)
//! - *trim*: sequence number u64, first page u32, pages u32
//!
//! A record of the log consists of a *change*, cut into sections if it is long, and of its end,
//! which has the form of the file's end.
//!
//! A change has these parts, in this order:
//!
//! - counters: length u32, JSON
//! - blocks: count u32, then for each by ascending index: first page of the lists u32 (0 if the
//!   record replaces the whole block), *block* with the lists from that page on
//! - saved buffer: 0 u8 if unchanged; or 1 u8 if there is none; or 2 u8, count u32, pages u32 that
//!   left it, count u32, *slot*s added to it, then 0 u8 if its *trim*s are unchanged, or 1 u8, count
//!   u64, all *trim*s
//! - front, if the drive has one: count u32, *step*s of the log, count u32, pages u32 that are no
//!   longer dirty, count u32, *slot*s of dirty ones that changed
//! - zones, if the drive has any: *zones* that changed, without sectors if nothing of them is saved
//!   any more, and all defects
//! - memory, if the file has any: count u32, then for each line of 64 bytes that changed, by
//!   ascending number: number u32, 64 bytes
//!
//! A *step* is one of
//!
//! - append: 0 u8, *write*
//! - invalid: 1 u8, page u32, u64 with a bit for each of its invalid lines, number of leading slots
//!   of the log that are affected u32
//! - commit: 2 u8, transaction u32
//! - free: 3 u8, number of leading slots of the log u32

mod blocks;
mod dump;
mod earlier;
mod front;
mod log;
mod memory;
mod stream;
mod zones;

pub use log::Log;
pub use memory::{Line, Memory};
pub use stream::{MAGIC, Mark, VERSION};

use crate::config::{ConfigError, DriveConfig};
use crate::layout::Layout;
use crate::media::DriveMedia;
use earlier::Earlier;
use log::Replay;
use nand::{BlockImageError, Payload, UNIT};
use std::borrow::Borrow;
use std::io::{self, Read, Write};
use std::sync::Arc;
use stream::{Kind, Reader, SECTION_MAX, Sections};

/// Largest number of erase blocks of a drive in a file: 8 TiB of 256 KiB.
const BLOCKS_MAX: u64 = 1 << 25;

/// Upper bound of stamps and sequence numbers: one a nanosecond for 146 years.
const STAMP_MAX: u64 = 1 << 62;

/// Reason why an input is not a readable drive file.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Reading from the input failed.
    #[error("the drive file cannot be read at byte {offset}: {source}")]
    Io {
        /// Bytes read before the failure.
        offset: u64,
        /// Error of the input.
        source: io::Error,
    },
    /// The input is no drive file.
    #[error("not a drive file: it does not begin with FLASHLM")]
    Foreign,
    /// The file has another version of the format.
    #[error("the drive file has version {0}; version {VERSION} can be read")]
    Version(u32),
    /// The file ends early.
    #[error("the drive file is cut short: it ends at byte {offset}, where {expected} was expected")]
    Truncated {
        /// Length of the file in bytes.
        offset: u64,
        /// Part of the format that is missing.
        expected: &'static str,
    },
    /// A section does not match its checksum.
    #[error("the drive file is damaged: the section at byte {offset} does not match its checksum")]
    Checksum {
        /// Offset of the section.
        offset: u64,
    },
    /// A number is out of its range.
    #[error(
        "the drive file makes no sense at byte {offset}: {what} is {found}, expected {expected}"
    )]
    Value {
        /// Offset of the number, or of the byte after it.
        offset: u64,
        /// Name of the number.
        what: &'static str,
        /// Value of the number.
        found: u64,
        /// Range or kind of value that is accepted.
        expected: String,
    },
    /// A JSON text cannot be parsed.
    #[error("the drive file's {what} cannot be understood: {source}")]
    Text {
        /// Section of the text.
        what: &'static str,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The configuration is impossible.
    #[error("the drive file describes a drive that cannot be built: {0}")]
    Config(#[from] ConfigError),
    /// A block contradicts itself or the geometry.
    #[error("the drive file makes no sense at byte {offset}: block {index}: {source}")]
    Block {
        /// Offset of the end of the block.
        offset: u64,
        /// Index of the block in the drive.
        index: u32,
        /// Contradiction that was found.
        source: BlockImageError,
    },
}

/// Writes a drive to `out`, and returns the end of the file.
///
/// # Errors
/// Those of `out`, and [`io::ErrorKind::InvalidInput`] if `config` cannot be built or `media` do
/// not belong to such a drive.
pub fn write(config: &DriveConfig, media: &DriveMedia, out: &mut impl Write) -> io::Result<Mark> {
    write_with(config, media, None, out)
}

/// As [`write()`], with the memory beside an open-channel drive, if there is any.
///
/// # Errors
/// As [`write()`], and [`io::ErrorKind::InvalidInput`] if the memory is too large for such a drive,
/// or the drive is no open-channel one.
pub fn write_with(
    config: &DriveConfig,
    media: &DriveMedia,
    memory: Option<&Memory>,
    out: &mut impl Write,
) -> io::Result<Mark> {
    let layout = Layout::new(config).map_err(invalid)?;
    if *media.cells.geometry() != config.geometry || config.geometry.blocks() > BLOCKS_MAX {
        let (has, wants) = (media.cells.geometry(), config.geometry);
        return Err(invalid(format!(
            "the media are {has}, the configuration says {wants}, of at most {BLOCKS_MAX} blocks"
        )));
    }
    let mut sections = Sections::new(out)?;
    sections.begin(Kind::Config)?;
    put_text(&mut sections, config)?;
    sections.begin(Kind::Smart)?;
    put_text(&mut sections, &media.smart)?;
    sections.begin(Kind::Blocks)?;
    blocks::put(&mut sections, &media.cells)?;
    sections.begin(Kind::Dump)?;
    dump::put(&mut sections, &layout, config, media.dump.as_ref())?;
    front::put(&mut sections, &layout, config, &media.front)?;
    zones::put(&mut sections, config, &media.zones)?;
    if let Some(memory) = memory {
        memory::put(&mut sections, config, memory)?;
    }
    sections.end()
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn put_text<W: Write>(
    sections: &mut Sections<'_, W>,
    value: &impl serde::Serialize,
) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    if text.len() > SECTION_MAX {
        return Err(invalid("the configuration takes more than 1 MiB"));
    }
    sections.put(&text)
}

/// Reads a drive from `input`; log records are applied.
///
/// # Errors
/// Names the byte at which the input stops being a drive, and the reason.
pub fn read(input: &mut impl Read) -> Result<(DriveConfig, DriveMedia), ImageError> {
    open(input).map(|opened| (opened.config, opened.media))
}

/// A drive read from its file, and the points from which the file can be continued.
#[derive(Debug)]
pub struct Opened {
    /// Configuration of the drive.
    pub config: DriveConfig,
    /// State that the drive keeps without power.
    pub media: DriveMedia,
    /// Persistent memory beside the drive; `None` if the file has none.
    pub memory: Option<Memory>,
    /// End of the file without its log.
    pub base: Mark,
    /// End of the last whole record of the log.
    pub end: Mark,
}

/// Reads a drive that will be powered on with a [`Log`].
///
/// # Errors
/// As [`read`].
pub fn open(input: &mut impl Read) -> Result<Opened, ImageError> {
    let mut reader = Reader::new(input)?;
    let config: DriveConfig = text(&mut reader, "configuration")?;
    let layout = Layout::new(&config)?;
    config.timing()?;
    config.endurance()?;
    let blocks = config.geometry.blocks();
    let most = format_args!("at most {BLOCKS_MAX}");
    reader.require("the number of blocks", blocks, most, blocks <= BLOCKS_MAX)?;
    reader.begin(Kind::Smart)?;
    let smart = text(&mut reader, "counters")?;
    reader.begin(Kind::Blocks)?;
    let cells = blocks::take(&mut reader, config.geometry)?;
    reader.begin(Kind::Dump)?;
    let dump = dump::take(&mut reader, &layout, &config)?;
    let front = front::Replay::take(&mut reader, &layout, &config)?;
    let zones = zones::Replay::take(&mut reader, &config)?;
    let memory = memory::take(&mut reader, &config)?;
    reader.end()?;
    let base = reader.mark();
    let rest = (front, zones, memory);
    let mut replay = Replay::new(&layout, &config, (cells, smart), dump, rest);
    let end = replay.run(&mut reader)?;
    let (media, memory) = replay.end(&reader)?;
    Ok(Opened {
        config,
        media,
        memory,
        base,
        end,
    })
}

fn text<T: serde::de::DeserializeOwned>(
    reader: &mut Reader<'_, impl Read>,
    what: &'static str,
) -> Result<T, ImageError> {
    serde_json::from_slice(reader.text()?).map_err(|source| ImageError::Text { what, source })
}

const ZEROS: u8 = 0;
const FILL: u8 = 1;
const BYTES: u8 = 2;
const LOST: u8 = 3;
const PARTLY: u8 = 4;

/// Whether two sectors belong to one run.
fn alike(a: &impl Borrow<Payload>, b: &impl Borrow<Payload>) -> bool {
    let (a, b) = (a.borrow(), b.borrow());
    match (a, b) {
        (Payload::Bytes(_), Payload::Bytes(_)) | (Payload::Partly(_), Payload::Partly(_)) => true,
        _ => a == b,
    }
}

fn put_runs<W: Write>(
    sections: &mut Sections<'_, W>,
    payload: &[impl Borrow<Payload>],
) -> io::Result<()> {
    for run in payload.chunk_by(alike) {
        let first = run[0].borrow();
        let kind = match first {
            Payload::Zero => ZEROS,
            Payload::Fill(_) => FILL,
            Payload::Bytes(_) => BYTES,
            Payload::Lost => LOST,
            Payload::Partly(_) => PARTLY,
        };
        sections.put(&[kind])?;
        sections.put(&(run.len() as u32).to_le_bytes())?;
        if let Payload::Fill(pattern) = first {
            sections.put(&pattern.to_le_bytes())?;
        }
        for payload in run {
            match payload.borrow() {
                Payload::Bytes(bytes) => sections.put(&bytes[..])?,
                Payload::Partly(partly) => {
                    sections.put(&partly.lost.to_le_bytes())?;
                    sections.put(&partly.bytes)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn take_runs(
    reader: &mut Reader<'_, impl Read>,
    sectors: usize,
    earlier: Option<&Earlier<'_>>,
) -> Result<Vec<Payload>, ImageError> {
    let mut payload = Vec::new();
    while payload.len() < sectors {
        let kind = reader.u8()?;
        let left = (sectors - payload.len()) as u64;
        let count = reader.count("the length of a run", left)? as usize;
        let least = format_args!("at least 1");
        reader.require("the length of a run", count as u64, least, count > 0)?;
        let len = payload.len() + count;
        match kind {
            ZEROS => payload.resize(len, Payload::Zero),
            FILL => payload.resize(len, Payload::Fill(reader.u64()?)),
            LOST => payload.resize(len, Payload::Lost),
            BYTES => {
                for _ in 0..count {
                    let bytes: [u8; UNIT] = reader.array()?;
                    payload.push(Payload::Bytes(Arc::new(bytes)));
                }
            }
            PARTLY => {
                for _ in 0..count {
                    let lost = reader.u64()?;
                    payload.push(Payload::with_lost(reader.array()?, lost));
                }
            }
            _ => match earlier {
                Some(earlier) => {
                    for _ in 0..count {
                        payload.push(earlier.take(reader, kind)?);
                    }
                }
                None => {
                    let kinds = format_args!("0 to 4");
                    reader.require("the kind of a run", u64::from(kind), kinds, false)?;
                }
            },
        }
    }
    Ok(payload)
}
