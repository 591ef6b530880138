//! Persistent memory beside a drive, in its file and in its log. [`crate::image`] documents its
//! layout.
//!
//! The host that maps an open-channel drive may keep its mapping in such memory, and the drive is
//! of no use without it. So the file contains both, and a record has both as of one instant. The
//! drive does not interpret the memory.
//!
//! Invariant: memory written or read is no larger than a drive of this flash needs, and its pages
//! and lines lie within it.

use super::stream::{Kind, Reader, Sections};
use super::{ImageError, invalid};
use crate::config::DriveConfig;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use units::GIB;

/// Bytes of a page of memory.
pub(super) const PAGE: usize = 4096;
/// Bytes of a line of memory.
pub(super) const LINE: usize = 64;

/// Bytes of flash for each byte of memory, beyond the memory that any drive may have. Map entries
/// of four bytes for 4 KiB take a quarter of that.
const FLASH_PER_BYTE: u64 = 256;

/// Persistent memory beside a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Size of the memory in bytes.
    pub bytes: u64,
    /// Pages of 4 KiB by number; missing pages hold zeros. Bytes of the last page beyond the end
    /// are zeros.
    pub pages: BTreeMap<u32, Arc<[u8; 4096]>>,
}

/// A line of 64 bytes: its number and its contents.
pub type Line = (u32, [u8; 64]);

impl Memory {
    fn put_line(&mut self, (line, held): Line) {
        let (page, within) = place(line);
        let bytes = self
            .pages
            .entry(page)
            .or_insert_with(|| Arc::new([0; PAGE]));
        Arc::make_mut(bytes)[within..within + LINE].copy_from_slice(&held);
    }
}

/// Page of a line, and the line's offset in that page.
const fn place(line: u32) -> (u32, usize) {
    let per_page = (PAGE / LINE) as u32;
    (line / per_page, (line % per_page) as usize * LINE)
}

/// Largest size of the memory beside a drive, in bytes.
fn most(config: &DriveConfig) -> u64 {
    GIB + config.geometry.bytes() / FLASH_PER_BYTE
}

/// Pieces of `each` bytes that cover `bytes`; the last one may be partial.
fn count_of(bytes: u64, each: usize) -> u64 {
    bytes.div_ceil(each as u64)
}

pub(super) fn put<W: Write>(
    sections: &mut Sections<'_, W>,
    config: &DriveConfig,
    memory: &Memory,
) -> io::Result<()> {
    let (bytes, most) = (memory.bytes, most(config));
    if config.raw.is_none() {
        return Err(invalid(
            "a drive that maps addresses itself has no memory beside it",
        ));
    }
    if bytes > most {
        let reason = format!("the memory beside the drive is {bytes}, at most {most} fit");
        return Err(invalid(reason));
    }
    let pages = count_of(bytes, PAGE);
    let past = memory.pages.keys().find(|&&page| u64::from(page) >= pages);
    if let Some(page) = past {
        let reason = format!("the memory beside the drive has {pages} pages, and page {page}");
        return Err(invalid(reason));
    }
    sections.begin(Kind::Memory)?;
    sections.put(&bytes.to_le_bytes())?;
    let used = || {
        memory
            .pages
            .iter()
            .filter(|(_, held)| held[..] != [0; PAGE])
    };
    sections.put(&(used().count() as u32).to_le_bytes())?;
    for (page, held) in used() {
        sections.put(&page.to_le_bytes())?;
        sections.put(&held[..])?;
    }
    Ok(())
}

/// Writes the lines that changed.
pub(super) fn put_lines<W: Write>(
    sections: &mut Sections<'_, W>,
    lines: &BTreeMap<u32, [u8; LINE]>,
) -> io::Result<()> {
    sections.put(&(lines.len() as u32).to_le_bytes())?;
    for (line, held) in lines {
        sections.put(&line.to_le_bytes())?;
        sections.put(held)?;
    }
    Ok(())
}

/// Reads the section of the memory, if there is one.
pub(super) fn take(
    reader: &mut Reader<'_, impl Read>,
    config: &DriveConfig,
) -> Result<Option<Memory>, ImageError> {
    if config.raw.is_none() || !reader.follows(Kind::Memory)? {
        return Ok(None);
    }
    let (bytes, most) = (reader.u64()?, most(config));
    let fits = format_args!("at most {most}");
    reader.require("the memory beside the drive", bytes, fits, bytes <= most)?;
    let all = count_of(bytes, PAGE);
    let mut memory = Memory {
        bytes,
        pages: BTreeMap::new(),
    };
    let mut least = 0;
    for _ in 0..reader.count("the number of pages of memory", all)? {
        let page = take_number(reader, ("a page of memory", least, all))?;
        least = page + 1;
        memory.pages.insert(page, Arc::new(reader.array()?));
    }
    Ok(Some(memory))
}

/// Reads the changed lines of memory from a record.
pub(super) fn take_lines(
    reader: &mut Reader<'_, impl Read>,
    memory: &Memory,
) -> Result<Vec<Line>, ImageError> {
    let all = count_of(memory.bytes, LINE);
    let (mut lines, mut least) = (Vec::new(), 0);
    for _ in 0..reader.count("the number of lines of memory", all)? {
        let line = take_number(reader, ("a line of memory", least, all))?;
        least = line + 1;
        lines.push((line, reader.array()?));
    }
    Ok(lines)
}

pub(super) fn apply(memory: &mut Memory, lines: Vec<Line>) {
    lines.into_iter().for_each(|line| memory.put_line(line));
}

/// Reads a number that must be at least `least` and below `end`.
fn take_number(
    reader: &mut Reader<'_, impl Read>,
    (what, least, end): (&'static str, u32, u64),
) -> Result<u32, ImageError> {
    let found = reader.u32()?;
    let fits = found >= least && u64::from(found) < end;
    let expected = format_args!("{least} or more, and below {end}");
    reader.require(what, found.into(), expected, fits)?;
    Ok(found)
}
