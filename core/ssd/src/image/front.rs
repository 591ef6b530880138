//! Battery-backed state of a front, in a drive file and in its log. [`crate::image`] documents its
//! layout.
//!
//! Invariant: every front written or read fits the drive: the pages, origins and frontiers exist,
//! the log has room for its lines and commits, and the cache for its pages. With a log, the cache
//! has no dirty page.

use super::dump::{self, Excess, Limits, below};
use super::stream::{Kind, Reader, Sections};
use super::{ImageError, invalid};
use crate::config::DriveConfig;
use crate::drive::Drive;
use crate::front::{FrontConfig, FrontMedia};
use crate::layout::Layout;
use crate::map::Touched;
use crate::media::SavedSlot;
use crate::wlog::{self, Change, Changes, Kept, LINE, SavedEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

const APPEND: u8 = 0;
const KILL: u8 = 1;
const COMMIT: u8 = 2;
const FREE: u8 = 3;

pub(super) fn put<W: Write>(
    sections: &mut Sections<'_, W>,
    layout: &Layout,
    config: &DriveConfig,
    media: &FrontMedia,
) -> io::Result<()> {
    let Some(front) = &config.front else {
        if media.is_empty() {
            return Ok(());
        }
        return Err(invalid(
            "the media are of a drive with a front, this has none",
        ));
    };
    check(front, layout, config, media).map_err(|(what, found, limit)| {
        invalid(format!(
            "the media are not of this drive: {what} is {found}, not below {limit}"
        ))
    })?;
    sections.begin(Kind::Front)?;
    let entries = media.log.iter().flat_map(Kept::entries);
    sections.put(&(entries.count() as u32).to_le_bytes())?;
    for entry in media.log.iter().flat_map(Kept::entries) {
        put_entry(sections, &entry)?;
    }
    let committed: Vec<u32> = media.log.iter().flat_map(Kept::committed).collect();
    put_numbers(sections, &committed)?;
    dump::put_slots(sections, &media.pages)
}

fn check(
    front: &FrontConfig,
    layout: &Layout,
    config: &DriveConfig,
    media: &FrontMedia,
) -> Result<(), Excess> {
    let mut log = wlog::Replay::new(front.log_sizes(config.flash.keep_contents));
    if let Some(kept) = &media.log {
        log.take(kept)?;
        kept.entries()
            .try_for_each(|entry| check_entry(layout, &entry))?;
    }
    Limits::new(layout, config).slots(&media.pages, dirty_max(front))
}

/// Largest number of dirty pages in the cache.
fn dirty_max(front: &FrontConfig) -> u32 {
    if front.has_log() {
        0
    } else {
        front.cached_pages()
    }
}

fn check_entry(layout: &Layout, entry: &SavedEntry) -> Result<(), Excess> {
    below(
        "the page of a write in the log",
        entry.page,
        layout.host_pages,
    )?;
    below("the origin of a write in the log", entry.tag, 1_u32 << 8)
}

fn put_entry<W: Write>(sections: &mut Sections<'_, W>, entry: &SavedEntry) -> io::Result<()> {
    sections.put(&entry.page.to_le_bytes())?;
    sections.put(&[entry.line, entry.lines])?;
    sections.put(&entry.tag.to_le_bytes())?;
    sections.put(&entry.tx.to_le_bytes())?;
    sections.put(&entry.dead.to_le_bytes())?;
    sections.put(&entry.bytes)
}

fn put_numbers<W: Write>(sections: &mut Sections<'_, W>, numbers: &[u32]) -> io::Result<()> {
    sections.put(&(numbers.len() as u32).to_le_bytes())?;
    let mut numbers = numbers.iter();
    numbers.try_for_each(|number| sections.put(&number.to_le_bytes()))
}

/// Changes of a front since the last record.
pub(super) struct FrontChange {
    log: Vec<Change>,
    /// Pages that are no longer dirty.
    gone: Vec<u32>,
    put: Vec<SavedSlot>,
}

impl FrontChange {
    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty() && self.gone.is_empty() && self.put.is_empty()
    }

    pub(super) fn put<W: Write>(&self, sections: &mut Sections<'_, W>) -> io::Result<()> {
        sections.put(&(self.log.len() as u32).to_le_bytes())?;
        for change in &self.log {
            put_change(sections, change)?;
        }
        put_numbers(sections, &self.gone)?;
        dump::put_slots(sections, &self.put)
    }
}

fn put_change<W: Write>(sections: &mut Sections<'_, W>, change: &Change) -> io::Result<()> {
    match change {
        Change::Append(entry) => {
            sections.put(&[APPEND])?;
            put_entry(sections, entry)
        }
        Change::Kill { page, mask, slots } => {
            sections.put(&[KILL])?;
            sections.put(&page.to_le_bytes())?;
            sections.put(&mask.to_le_bytes())?;
            sections.put(&slots.to_le_bytes())
        }
        Change::Commit(tx) => {
            sections.put(&[COMMIT])?;
            sections.put(&tx.to_le_bytes())
        }
        Change::Free(slots) => {
            sections.put(&[FREE])?;
            sections.put(&slots.to_le_bytes())
        }
    }
}

/// Watch over the changes of a drive's front.
pub(super) struct Watch {
    watches: (Option<Changes>, Option<Touched>),
}

impl Watch {
    /// A watch over the front of `drive`; `None` if it has none.
    pub(super) fn new(drive: &Drive) -> Option<Self> {
        let watches = drive.core.front.as_ref()?.watch();
        Some(Self { watches })
    }

    /// Takes the changes since the last call.
    pub(super) fn take(&self, drive: &Drive) -> FrontChange {
        let (log, touched) = &self.watches;
        let log = log
            .as_ref()
            .map(|log| std::mem::take(&mut *log.borrow_mut()));
        let mut pages = touched.as_ref().map(|t| t.take()).unwrap_or_default();
        pages.sort_unstable();
        pages.dedup();
        let (mut gone, mut put) = (Vec::new(), Vec::new());
        for page in pages {
            let front = drive.core.front.as_ref();
            match front.and_then(|front| front.saved_page(page)) {
                Some(slot) => put.push(slot),
                None => gone.push(page),
            }
        }
        FrontChange {
            log: log.unwrap_or_default(),
            gone,
            put,
        }
    }

    pub(super) fn end(&self, drive: &Drive) {
        if let Some(front) = &drive.core.front {
            front.unwatch(&self.watches);
        }
    }
}

/// A front to which records of the log are applied.
pub(super) struct Replay<'a> {
    layout: &'a Layout,
    config: &'a DriveConfig,
    dirty_max: u32,
    log: wlog::Replay,
    /// Dirty pages, each with the serial number of its insertion.
    pages: BTreeMap<u32, (u64, SavedSlot)>,
    turn: u64,
}

impl<'a> Replay<'a> {
    /// Reads the front from the file; `None` if the drive has none.
    pub(super) fn take(
        reader: &mut Reader<'_, impl Read>,
        layout: &'a Layout,
        config: &'a DriveConfig,
    ) -> Result<Option<Self>, ImageError> {
        let Some(front) = &config.front else {
            return Ok(None);
        };
        let mut replay = Self {
            layout,
            config,
            dirty_max: dirty_max(front),
            log: wlog::Replay::new(front.log_sizes(config.flash.keep_contents)),
            pages: BTreeMap::new(),
            turn: 0,
        };
        reader.begin(Kind::Front)?;
        for _ in 0..reader.u32()? {
            let entry = replay.take_entry(reader)?;
            replay.log.append(entry).map_err(|e| refused(reader, e))?;
        }
        for _ in 0..reader.u32()? {
            let tx = reader.u32()?;
            replay.log.commit(tx).map_err(|e| refused(reader, e))?;
        }
        let slots = dump::take_slots(reader, layout, config, replay.dirty_max)?;
        slots.into_iter().for_each(|slot| replay.keep(slot));
        Ok(Some(replay))
    }

    fn take_entry(&self, reader: &mut Reader<'_, impl Read>) -> Result<SavedEntry, ImageError> {
        let mut entry = SavedEntry {
            page: reader.u32()?,
            line: reader.u8()?,
            lines: reader.u8()?,
            tag: reader.u16()?,
            tx: reader.u32()?,
            dead: reader.u64()?,
            bytes: Vec::new(),
        };
        check_entry(self.layout, &entry).map_err(|e| refused(reader, e))?;
        if self.config.flash.keep_contents {
            entry.bytes.resize(usize::from(entry.lines) * LINE, 0);
            reader.take(&mut entry.bytes)?;
        }
        Ok(entry)
    }

    fn keep(&mut self, slot: SavedSlot) {
        self.turn += 1;
        self.pages.insert(slot.page, (self.turn, slot));
    }

    /// Reads the change of a front from a record.
    pub(super) fn take_change(
        &self,
        reader: &mut Reader<'_, impl Read>,
    ) -> Result<FrontChange, ImageError> {
        let mut log = Vec::new();
        for _ in 0..reader.u32()? {
            log.push(self.take_step(reader)?);
        }
        let mut gone = BTreeSet::new();
        for _ in 0..reader.u32()? {
            gone.insert(reader.u32()?);
        }
        let put = dump::take_slots(reader, self.layout, self.config, self.dirty_max)?;
        Ok(FrontChange {
            log,
            gone: gone.into_iter().collect(),
            put,
        })
    }

    fn take_step(&self, reader: &mut Reader<'_, impl Read>) -> Result<Change, ImageError> {
        let kind = reader.u8()?;
        let kinds = format_args!("0 to {FREE}");
        reader.require("the kind of a step", kind.into(), kinds, kind <= FREE)?;
        Ok(match kind {
            APPEND => Change::Append(self.take_entry(reader)?),
            KILL => Change::Kill {
                page: reader.u32()?,
                mask: reader.u64()?,
                slots: reader.u32()?,
            },
            COMMIT => Change::Commit(reader.u32()?),
            _ => Change::Free(reader.u32()?),
        })
    }

    /// Applies a change read by [`Replay::take_change`].
    pub(super) fn apply(
        &mut self,
        change: FrontChange,
        reader: &Reader<'_, impl Read>,
    ) -> Result<(), ImageError> {
        for step in change.log {
            self.log.apply(step).map_err(|e| refused(reader, e))?;
        }
        for page in change.gone {
            self.pages.remove(&page);
        }
        change.put.into_iter().for_each(|slot| self.keep(slot));
        Ok(())
    }

    /// The front after the last record.
    pub(super) fn end(self, reader: &Reader<'_, impl Read>) -> Result<FrontMedia, ImageError> {
        let mut pages: Vec<_> = self.pages.into_values().collect();
        pages.sort_unstable_by_key(|(turn, _)| *turn);
        let pages: Vec<_> = pages.into_iter().map(|(_, slot)| slot).collect();
        Limits::new(self.layout, self.config)
            .slots(&pages, self.dirty_max)
            .map_err(|e| refused(reader, e))?;
        let log = self.log.kept();
        Ok(FrontMedia { log, pages })
    }
}

fn refused(reader: &Reader<'_, impl Read>, (what, found, limit): Excess) -> ImageError {
    ImageError::Value {
        offset: reader.offset(),
        what,
        found,
        expected: format!("less than {limit}"),
    }
}
