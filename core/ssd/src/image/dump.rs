//! The saved buffer in a drive file. [`crate::image`] documents its layout.
//!
//! Invariant: every saved buffer written or read fits the drive: the pages, origins and frontiers
//! exist, the buffer is large enough, and no page appears twice.

use super::stream::{Reader, Sections};
use super::{ImageError, STAMP_MAX, invalid, put_runs, take_runs};
use crate::config::DriveConfig;
use crate::journal::Trimmed;
use crate::layout::Layout;
use crate::media::{Dump, SavedSlot};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

/// Limits of a saved buffer, for a given drive.
pub(super) struct Limits<'a> {
    layout: &'a Layout,
    /// Sector payloads of each saved slot: the sectors of a page, or 0 if contents are not kept.
    sectors: usize,
}

/// A number out of range in a saved buffer: its name, its value, and the exclusive limit.
pub(super) type Excess = (&'static str, u64, u64);

impl<'a> Limits<'a> {
    pub(super) fn new(layout: &'a Layout, config: &DriveConfig) -> Self {
        let kept = config.flash.keep_contents;
        let sectors = if kept {
            layout.sectors_per_page as usize
        } else {
            0
        };
        Self { layout, sectors }
    }

    fn slot(&self, slot: &SavedSlot) -> Result<(), Excess> {
        let layout = self.layout;
        below("the page of a saved write", slot.page, layout.host_pages)?;
        below("the origin of a saved write", slot.tag, 1_u32 << 8)?;
        let frontiers = layout.groups * layout.handles;
        below("the frontier of a saved write", slot.frontier, frontiers)
    }

    fn trim(&self, trim: &Trimmed) -> Result<(), Excess> {
        let host = u64::from(self.layout.host_pages);
        below("a sequence number", trim.sequence, STAMP_MAX)?;
        let end = u64::from(trim.first) + u64::from(trim.pages);
        below("the end of a deallocation", end, host + 1)
    }

    /// Checks that a drive with these limits can have saved `dump`.
    fn check(&self, dump: &Dump) -> Result<(), Excess> {
        self.slots(&dump.slots, self.layout.buffer_pages)?;
        dump.trims.iter().try_for_each(|trim| self.trim(trim))
    }

    /// Checks that a drive with these limits can have saved `slots` in a place for `most`.
    pub(super) fn slots(&self, slots: &[SavedSlot], most: u32) -> Result<(), Excess> {
        below(
            "the number of saved writes",
            slots.len() as u64,
            u64::from(most) + 1,
        )?;
        let mut pages = BTreeSet::new();
        for slot in slots {
            self.slot(slot)?;
            let sectors = slot.payload.len().abs_diff(self.sectors) as u64;
            below("sectors of a saved write too many or few", sectors, 1_u64)?;
            let again = u64::from(!pages.insert(slot.page));
            below("copies of a saved write", again, 1_u64)?;
        }
        Ok(())
    }
}

pub(super) fn below(
    what: &'static str,
    found: impl Into<u64>,
    limit: impl Into<u64>,
) -> Result<(), Excess> {
    let (found, limit) = (found.into(), limit.into());
    if found < limit {
        return Ok(());
    }
    Err((what, found, limit))
}

pub(super) fn put<W: Write>(
    sections: &mut Sections<'_, W>,
    layout: &Layout,
    config: &DriveConfig,
    dump: Option<&Dump>,
) -> io::Result<()> {
    let Some(dump) = dump else {
        return sections.put(&[0]);
    };
    Limits::new(layout, config)
        .check(dump)
        .map_err(|(what, found, limit)| {
            invalid(format!(
                "the media are not of this drive: {what} is {found}, not below {limit}"
            ))
        })?;
    sections.put(&[1])?;
    put_slots(sections, &dump.slots)?;
    put_trims(sections, &dump.trims)
}

pub(super) fn put_slots<W: Write>(
    sections: &mut Sections<'_, W>,
    slots: &[SavedSlot],
) -> io::Result<()> {
    sections.put(&(slots.len() as u32).to_le_bytes())?;
    for slot in slots {
        sections.put(&slot.page.to_le_bytes())?;
        sections.put(&slot.tag.to_le_bytes())?;
        sections.put(&slot.frontier.to_le_bytes())?;
        put_runs(sections, &slot.payload)?;
    }
    Ok(())
}

pub(super) fn put_trims<W: Write>(
    sections: &mut Sections<'_, W>,
    trims: &[Trimmed],
) -> io::Result<()> {
    sections.put(&(trims.len() as u64).to_le_bytes())?;
    for trim in trims {
        sections.put(&trim.sequence.to_le_bytes())?;
        sections.put(&trim.first.to_le_bytes())?;
        sections.put(&trim.pages.to_le_bytes())?;
    }
    Ok(())
}

pub(super) fn take(
    reader: &mut Reader<'_, impl Read>,
    layout: &Layout,
    config: &DriveConfig,
) -> Result<Option<Dump>, ImageError> {
    let present = reader.u8()?;
    let marks = format_args!("0 or 1");
    reader.require(
        "the mark of a saved buffer",
        u64::from(present),
        marks,
        present < 2,
    )?;
    if present == 0 {
        return Ok(None);
    }
    let dump = Dump {
        slots: take_slots(reader, layout, config, layout.buffer_pages)?,
        trims: take_trims(reader)?,
    };
    check(reader, layout, config, &dump)?;
    Ok(Some(dump))
}

/// Rejects a saved buffer just read that does not fit the drive.
pub(super) fn check(
    reader: &Reader<'_, impl Read>,
    layout: &Layout,
    config: &DriveConfig,
    dump: &Dump,
) -> Result<(), ImageError> {
    let limits = Limits::new(layout, config);
    limits
        .check(dump)
        .map_err(|(what, found, limit)| ImageError::Value {
            offset: reader.offset(),
            what,
            found,
            expected: format!("less than {limit}"),
        })
}

pub(super) fn take_slots(
    reader: &mut Reader<'_, impl Read>,
    layout: &Layout,
    config: &DriveConfig,
    most: u32,
) -> Result<Vec<SavedSlot>, ImageError> {
    let sectors = Limits::new(layout, config).sectors;
    let mut slots = Vec::new();
    for _ in 0..reader.count("the number of saved writes", most.into())? {
        slots.push(SavedSlot {
            page: reader.u32()?,
            tag: reader.u16()?,
            frontier: reader.u16()?,
            payload: take_runs(reader, sectors, None)?,
        });
    }
    Ok(slots)
}

pub(super) fn take_trims(reader: &mut Reader<'_, impl Read>) -> Result<Vec<Trimmed>, ImageError> {
    let mut trims = Vec::new();
    for _ in 0..reader.u64()? {
        trims.push(Trimmed {
            sequence: reader.u64()?,
            first: reader.u32()?,
            pages: reader.u32()?,
        });
    }
    Ok(trims)
}
