//! References of a log record to contents that the file has already: collection relocates a
//! multiple of the data that the host writes. [`crate::image`] documents the layout.
//!
//! Invariant: a record refers to the state before it, whatever it changes itself.

use super::stream::{Reader, Sections};
use super::{ImageError, put_runs};
use crate::copies::Copied;
use crate::layout::Layout;
use crate::media::SavedSlot;
use crate::recover::word;
use nand::{BlockImage, Geometry, Media, Nand, Payload, Spot, Watch};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

const MOVED: u8 = 5;
const SAVED: u8 = 6;

/// Saved versions that the file has, by page.
pub(super) type Saved = BTreeMap<u32, Vec<Payload>>;

/// Copies whose contents the file has, by ascending target.
pub(super) struct Moves {
    copies: Vec<Copied>,
    sectors_per_page: u32,
}

impl Moves {
    /// Selects the copies that the next record can express by reference: their source was in a
    /// record, their target was not. Removes all others from `copies`. To be called before `watch`
    /// reports anything more.
    pub(super) fn of(
        copies: &mut Vec<Copied>,
        watch: &Watch,
        nand: &Nand,
        layout: &Layout,
    ) -> Self {
        let geometry = nand.geometry();
        let erases = |block: u32| nand.media().erases(geometry.block_at(block as usize));
        copies.retain(|&Copied { to, from }| {
            let comes = erases(to.block) == to.erases && !watch.is_told(nand, to);
            comes && watch.is_told(nand, from)
        });
        let mut sorted = copies.clone();
        sorted.sort_unstable();
        Self {
            copies: sorted,
            sectors_per_page: layout.sectors_per_page,
        }
    }

    /// Source of the contents at `spot`, if a copy put them there.
    pub(super) fn find(&self, spot: Spot) -> Option<Spot> {
        let behind = self.copies.partition_point(|copied| copied.to <= spot);
        let Copied { to, from } = *self.copies.get(behind.checked_sub(1)?)?;
        let sector = spot.sector - to.sector.min(spot.sector);
        let is_part = (to.block, to.erases) == (spot.block, spot.erases);
        (is_part && sector < self.sectors_per_page).then(|| Spot {
            sector: from.sector + sector,
            ..from
        })
    }
}

/// Encoding of a sector's contents in a record.
enum Told<'a> {
    As(&'a Payload),
    Moved(Spot),
    /// Mapped page, and sector in it.
    Saved(u32, u32),
}

/// State of the file before a record, for the writer of the record.
pub(super) struct Held<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) layout: &'a Layout,
    pub(super) moves: &'a Moves,
    pub(super) saved: &'a Saved,
}

impl Held<'_> {
    fn told<'a>(&self, spot: Spot, word: u32, payload: &'a Payload) -> Told<'a> {
        if let Some(from) = self.moves.find(spot) {
            return Told::Moved(from);
        }
        let Payload::Bytes(bytes) = payload else {
            return Told::As(payload);
        };
        let page = word::parse(self.layout, word).map(|(page, _)| page);
        let sector = spot.sector % self.layout.sectors_per_page;
        let slot = page.and_then(|page| Some((page, self.saved.get(&page)?)));
        match slot.and_then(|(page, slot)| Some((page, slot.get(sector as usize)?))) {
            Some((page, Payload::Bytes(saved))) if Arc::ptr_eq(saved, bytes) => {
                Told::Saved(page, sector)
            }
            _ => Told::As(payload),
        }
    }

    /// Writes the contents of a block whose lists cover the pages from `from` on.
    pub(super) fn put<W: Write>(
        &self,
        sections: &mut Sections<'_, W>,
        block: u32,
        from: u32,
        image: &BlockImage,
    ) -> io::Result<()> {
        let first = from * self.geometry.sectors_per_page();
        let words = image.words.iter();
        let words = words.step_by(self.geometry.spare_words as usize);
        let sectors = (first..).zip(words).zip(&image.payload);
        let told = sectors.map(|((sector, &word), payload)| {
            let erases = image.erases;
            let spot = Spot {
                block,
                erases,
                sector,
            };
            self.told(spot, word, payload)
        });
        let told: Vec<Told<'_>> = told.collect();
        told.chunk_by(is_alike)
            .try_for_each(|run| put_run(sections, run))
    }
}

fn is_alike(a: &Told<'_>, b: &Told<'_>) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

fn put_run<W: Write>(sections: &mut Sections<'_, W>, run: &[Told<'_>]) -> io::Result<()> {
    let kind = match run[0] {
        Told::As(_) => return put_as(sections, run),
        Told::Moved(_) => MOVED,
        Told::Saved(..) => SAVED,
    };
    sections.put(&[kind])?;
    sections.put(&(run.len() as u32).to_le_bytes())?;
    for told in run {
        let (a, b) = match told {
            Told::Moved(from) => (from.block, from.sector),
            Told::Saved(page, sector) => (*page, *sector),
            Told::As(_) => unreachable!("a run is of one kind"),
        };
        sections.put(&a.to_le_bytes())?;
        sections.put(&b.to_le_bytes())?;
    }
    Ok(())
}

fn put_as<W: Write>(sections: &mut Sections<'_, W>, run: &[Told<'_>]) -> io::Result<()> {
    let payload = run.iter().filter_map(|told| match told {
        Told::As(payload) => Some(*payload),
        _ => None,
    });
    put_runs(sections, &payload.collect::<Vec<_>>())
}

/// State of the file before a record, for the reader of the record.
pub(super) struct Earlier<'a> {
    pub(super) cells: &'a Media,
    /// Saved slots by page, each with the serial number of its insertion.
    pub(super) slots: &'a BTreeMap<u32, (u64, SavedSlot)>,
}

impl Earlier<'_> {
    /// Reads a sector of a run of `kind`.
    pub(super) fn take(
        &self,
        reader: &mut Reader<'_, impl Read>,
        kind: u8,
    ) -> Result<Payload, ImageError> {
        let kinds = format_args!("0 to {SAVED}");
        let known = matches!(kind, MOVED | SAVED);
        reader.require("the kind of a run", kind.into(), kinds, known)?;
        let (place, sector) = (reader.u32()?, reader.u32()?);
        let found = match kind {
            MOVED => self.moved(place, sector),
            _ => self.saved(place, sector),
        };
        found.ok_or_else(|| ImageError::Value {
            offset: reader.offset(),
            what: "the sector that contents were in before",
            found: sector.into(),
            expected: "one with contents".to_owned(),
        })
    }

    fn moved(&self, block: u32, sector: u32) -> Option<Payload> {
        let geometry = self.cells.geometry();
        if u64::from(block) >= geometry.blocks() || sector >= geometry.sectors_per_block() {
            return None;
        }
        let (id, per_page) = (
            geometry.block_at(block as usize),
            geometry.sectors_per_page(),
        );
        let (page, sector) = (sector / per_page, sector % per_page);
        let readable = self.cells.is_readable(id, page);
        readable.then(|| self.cells.payload(id, page, sector))
    }

    fn saved(&self, page: u32, sector: u32) -> Option<Payload> {
        let (_, slot) = self.slots.get(&page)?;
        slot.payload.get(sector as usize).cloned()
    }
}
