//! Blocks in a drive file. [`crate::image`] documents their layout.

use super::earlier::{Earlier, Held};
use super::stream::{Reader, Sections};
use super::{ImageError, STAMP_MAX, put_runs, take_runs};
use nand::{BlockDelta, BlockId, BlockImage, BlockState, Geometry, Media};
use std::io::{self, Read, Write};

/// Marks a program that cannot be read, in place of its stamp.
const UNREADABLE: u32 = u32::MAX;

/// Block states by their number in the file.
const STATES: [BlockState; 4] = [
    BlockState::Erased,
    BlockState::Written,
    BlockState::HalfErased,
    BlockState::Bad,
];

pub(super) fn put<W: Write>(sections: &mut Sections<'_, W>, media: &Media) -> io::Result<()> {
    let geometry = media.geometry();
    let blocks = || {
        let all = 0..geometry.blocks() as u32;
        all.filter(|&index| !media.is_virgin(geometry.block_at(index as usize)))
    };
    sections.put(&(blocks().count() as u32).to_le_bytes())?;
    for index in blocks() {
        if let Some(image) = media.export(geometry.block_at(index as usize)) {
            put_head(sections, index, &image)?;
            if !image.stamps.is_empty() {
                put_runs(sections, &image.payload)?;
            }
        }
    }
    Ok(())
}

/// Writes the changes of blocks, without contents that the file has already.
pub(super) fn put_deltas<W: Write>(
    sections: &mut Sections<'_, W>,
    deltas: &[(BlockId, BlockDelta)],
    held: &Held<'_>,
) -> io::Result<()> {
    sections.put(&(deltas.len() as u32).to_le_bytes())?;
    for (id, delta) in deltas {
        let index = held.geometry.index(*id) as u32;
        sections.put(&delta.from.to_le_bytes())?;
        put_head(sections, index, &delta.image)?;
        if !delta.image.stamps.is_empty() {
            held.put(sections, index, delta.from, &delta.image)?;
        }
    }
    Ok(())
}

/// Writes a block up to its contents. Its lists may cover its last pages only.
fn put_head<W: Write>(
    sections: &mut Sections<'_, W>,
    index: u32,
    image: &BlockImage,
) -> io::Result<()> {
    let state = STATES.iter().position(|&state| state == image.state);
    let state = state.expect("every state has a number") as u8;
    sections.put(&index.to_le_bytes())?;
    sections.put(&[state])?;
    sections.put(&image.written.to_le_bytes())?;
    sections.put(&image.erases.to_le_bytes())?;
    if image.stamps.is_empty() {
        return Ok(());
    }
    sections.put(&image.label.to_le_bytes())?;
    sections.put(&image.base.to_le_bytes())?;
    for stamp in &image.stamps {
        let delta = stamp.map_or(UNREADABLE, |stamp| (stamp - image.base) as u32);
        sections.put(&delta.to_le_bytes())?;
    }
    for word in &image.words {
        sections.put(&word.to_le_bytes())?;
    }
    Ok(())
}

pub(super) fn take(
    reader: &mut Reader<'_, impl Read>,
    geometry: Geometry,
) -> Result<Media, ImageError> {
    let mut media = Media::new(geometry);
    let count = reader.count("the number of used blocks", geometry.blocks())?;
    let mut least = 0;
    for _ in 0..count {
        let index = take_index(reader, &geometry, least)?;
        least = index + 1;
        let image = take_block(reader, &geometry, 0, None)?;
        media
            .import(geometry.block_at(index as usize), &image)
            .map_err(|source| ImageError::Block {
                offset: reader.offset(),
                index,
                source,
            })?;
    }
    Ok(media)
}

/// Reads the changes of blocks from a log record, by ascending index.
pub(super) fn take_deltas(
    reader: &mut Reader<'_, impl Read>,
    geometry: Geometry,
    earlier: &Earlier<'_>,
) -> Result<Vec<(u32, BlockDelta)>, ImageError> {
    let mut deltas = Vec::new();
    let mut least = 0;
    for _ in 0..reader.count("the number of changed blocks", geometry.blocks())? {
        let from = reader.u32()?;
        let index = take_index(reader, &geometry, least)?;
        least = index + 1;
        let image = take_block(reader, &geometry, from, Some(earlier))?;
        deltas.push((index, BlockDelta { from, image }));
    }
    Ok(deltas)
}

fn take_index(
    reader: &mut Reader<'_, impl Read>,
    geometry: &Geometry,
    least: u32,
) -> Result<u32, ImageError> {
    let index = reader.u32()?;
    let fits = index >= least && u64::from(index) < geometry.blocks();
    let expected = format_args!("{least} to {}", geometry.blocks() - 1);
    reader.require("the index of a block", u64::from(index), expected, fits)?;
    Ok(index)
}

/// Reads a block whose lists cover the pages from `from` on.
fn take_block(
    reader: &mut Reader<'_, impl Read>,
    geometry: &Geometry,
    from: u32,
    earlier: Option<&Earlier<'_>>,
) -> Result<BlockImage, ImageError> {
    let number = reader.u8()?;
    let state = STATES.get(usize::from(number)).copied();
    let states = format_args!("0 to 3");
    reader.require(
        "the state of a block",
        u64::from(number),
        states,
        state.is_some(),
    )?;
    let state = state.unwrap_or_default();
    let most = u64::from(geometry.pages_per_block);
    let mut image = BlockImage {
        state,
        written: reader.count("the number of pages written", most)?,
        erases: reader.u32()?,
        label: 0,
        base: 0,
        stamps: Vec::new(),
        words: Vec::new(),
        payload: Vec::new(),
    };
    if image.written > from && BlockImage::holds_pages(state) {
        take_pages(reader, geometry, earlier, (from, &mut image))?;
    }
    Ok(image)
}

fn take_pages(
    reader: &mut Reader<'_, impl Read>,
    geometry: &Geometry,
    earlier: Option<&Earlier<'_>>,
    (from, image): (u32, &mut BlockImage),
) -> Result<(), ImageError> {
    image.label = reader.u64()?;
    image.base = reader.u64()?;
    let (base, expected) = (image.base, format_args!("less than {STAMP_MAX}"));
    reader.require("a stamp", base, expected, base < STAMP_MAX)?;
    let written = image.written - from;
    for _ in 0..written / geometry.pages_per_program {
        let delta = reader.u32()?;
        let stamp = (delta != UNREADABLE).then(|| base + u64::from(delta));
        image.stamps.push(stamp);
    }
    let sectors = written as usize * geometry.sectors_per_page() as usize;
    for _ in 0..sectors * geometry.spare_words as usize {
        image.words.push(reader.u32()?);
    }
    image.payload = take_runs(reader, sectors, earlier)?;
    Ok(())
}
