//! The log of a drive file: the changes that a drive under power made since. [`crate::image`]
//! documents its layout.
//!
//! Invariants: the file with all its records is a state that a power cut at the instant of the last
//! record may leave. A record counts as a whole or not at all. Records apply only to the file and
//! the records that they follow.

use super::earlier::{Earlier, Held, Moves, Saved};
use super::memory::{self, LINE, Line, Memory};
use super::stream::{Kind, Mark, Reader, Sections};
use super::{ImageError, blocks, dump, front, zones};
use crate::config::DriveConfig;
use crate::copies::Copies;
use crate::drive::Drive;
use crate::journal::Trimmed;
use crate::layout::Layout;
use crate::ledger::Smart;
use crate::map::Touched;
use crate::media::{DriveMedia, Dump, SavedSlot};
use nand::{Media, Watch};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::rc::Rc;

/// Upper bound of the counters as JSON, in bytes: twice their length with every number at its
/// longest.
const SMART_MAX: u64 = 4096;

/// Writer of a drive's changes as records at the end of its file.
pub struct Log {
    drive: Drive,
    watch: Rc<Watch>,
    mark: Mark,
    memory: Vec<u8>,
    /// Pages whose version in the buffer may differ from the one in the file.
    touched: Option<Touched>,
    /// Copies that collection has issued.
    copies: Copies,
    /// Saved versions that the file has.
    saved: Saved,
    trims: Vec<Trimmed>,
    /// Whether the file has a saved buffer that this drive, unprotected, cannot have.
    stale: bool,
    front: Option<front::Watch>,
    zones: Option<zones::Watch>,
    /// Changed lines of the memory beside the drive; `None` if the file has no such memory.
    lines: Option<BTreeMap<u32, [u8; LINE]>>,
}

impl Log {
    /// A log of the changes of `drive` over `media`, which the file contains up to `mark`. Must be
    /// created before the drive's kernel runs, or with the media of [`Drive::settled`].
    #[must_use]
    pub fn new(drive: &Drive, media: &DriveMedia, mark: Mark) -> Self {
        let protected = drive.config().controller.power_loss_protection;
        let touched = protected.then(|| drive.core.state.borrow_mut().map.watch());
        let dump = media.dump.as_ref();
        let watch = drive.core.nand.watch(&media.cells);
        let copies = drive.core.state.borrow_mut().listeners.listen(&watch);
        Self {
            drive: drive.clone(),
            watch,
            copies,
            mark,
            memory: Vec::new(),
            touched,
            // Contents read from the file share no memory with the drive's, so the log cannot refer
            // to them.
            saved: dump.map_or_else(Saved::new, |dump| {
                let slots = dump.slots.iter();
                slots.map(|slot| (slot.page, Vec::new())).collect()
            }),
            trims: dump.map_or_else(Vec::new, |dump| dump.trims.clone()),
            stale: dump.is_some() && !protected,
            front: front::Watch::new(drive),
            zones: zones::Watch::new(drive, &media.zones),
            lines: None,
        }
    }

    /// Extends the log to a file that has memory beside the drive.
    #[must_use]
    pub fn with_memory(mut self) -> Self {
        self.lines = Some(BTreeMap::new());
        self
    }

    /// Adds changed lines of the memory beside the drive to the next record. The caller ensures
    /// that they belong to the instant of that record.
    ///
    /// # Panics
    /// If the file has no such memory.
    pub fn remember(&mut self, lines: impl IntoIterator<Item = Line>) {
        let kept = self.lines.as_mut().expect("the file has memory");
        kept.extend(lines);
    }

    /// End of the file.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Sets the end of the file, for a log created before its file was written.
    pub fn set_mark(&mut self, mark: Mark) {
        self.mark = mark;
    }

    /// Appends the record of this instant to `out`. Without changes of cells, buffer, front, zones
    /// or memory it writes a record only if `always`.
    ///
    /// # Errors
    /// Those of `out`. The log is unusable afterwards.
    pub fn append(&mut self, out: &mut impl Write, always: bool) -> io::Result<()> {
        self.put(out, always, 1)
    }

    /// Appends the last record, of a drive that has shut down: a file that ends with it had no
    /// power cut.
    ///
    /// # Errors
    /// Those of `out`. The log is unusable afterwards.
    pub fn append_last(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.put(out, true, 0)
    }

    /// Appends a record. If it stays the last one, it counts as followed by `cuts` power cuts.
    fn put(&mut self, out: &mut impl Write, always: bool, cuts: u64) -> io::Result<()> {
        let dump = self.dump_change();
        let front = self.front.as_ref().map(|watch| watch.take(&self.drive));
        let drive = &self.drive;
        let zones = self.zones.as_mut().and_then(|watch| watch.take(drive));
        let (nand, layout) = (&self.drive.core.nand, self.drive.layout());
        let moves = Moves::of(&mut self.copies.borrow_mut(), &self.watch, nand, layout);
        let deltas = self.watch.take(nand, |spot| moves.find(spot).is_some());
        let same_front = front.as_ref().is_none_or(front::FrontChange::is_empty);
        let same_memory = self.lines.as_ref().is_none_or(BTreeMap::is_empty);
        let same = deltas.is_empty() && dump.is_none() && zones.is_none();
        if same && same_front && same_memory && !always {
            return Ok(());
        }
        let mut smart = self.drive.smart();
        smart.unsafe_shutdowns += cuts;
        let mut sections = Sections::resume(out, self.mark, std::mem::take(&mut self.memory));
        sections.begin(Kind::Change)?;
        let smart = serde_json::to_vec(&smart)?;
        sections.put(&(smart.len() as u32).to_le_bytes())?;
        sections.put(&smart)?;
        let held = Held {
            geometry: nand.geometry(),
            layout,
            moves: &moves,
            saved: &self.saved,
        };
        blocks::put_deltas(&mut sections, &deltas, &held)?;
        match &dump {
            None => sections.put(&[UNCHANGED])?,
            Some(change) => change.put(&mut sections)?,
        }
        if let Some(change) = dump {
            change.note(&mut self.saved);
        }
        if let Some(front) = &front {
            front.put(&mut sections)?;
        }
        if let Some(watch) = &self.zones {
            watch.put(zones, &mut sections)?;
        }
        if let Some(lines) = &mut self.lines {
            memory::put_lines(&mut sections, lines)?;
            lines.clear();
        }
        (self.mark, self.memory) = sections.commit()?;
        Ok(())
    }

    /// Changes of the buffer that capacitors would save; `None` if there are none.
    fn dump_change(&mut self) -> Option<DumpChange> {
        let Some(touched) = &self.touched else {
            return std::mem::take(&mut self.stale).then_some(DumpChange::Gone);
        };
        let core = &self.drive.core;
        let mut pages = touched.take();
        pages.sort_unstable();
        pages.dedup();
        let (mut gone, mut put) = (Vec::new(), Vec::new());
        for page in pages {
            if let Some(slot) = core.saved_page(page) {
                put.push(slot);
            } else if self.saved.contains_key(&page) {
                gone.push(page);
            }
        }
        let records = &core.journal.borrow().records;
        let trims = (self.trims != *records).then(|| {
            self.trims.clone_from(records);
            records.clone()
        });
        let same = gone.is_empty() && put.is_empty() && trims.is_none();
        (!same).then_some(DumpChange::Buffer { gone, put, trims })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(touched) = &self.touched {
            self.drive.core.state.borrow_mut().map.unwatch(touched);
        }
        if let Some(front) = &self.front {
            front.end(&self.drive);
        }
        let state = &self.drive.core.state;
        state.borrow_mut().listeners.dismiss(&self.copies);
    }
}

/// The saved buffer is unchanged.
const UNCHANGED: u8 = 0;
/// The drive has no saved buffer any more.
const GONE: u8 = 1;
/// Slots left or entered the saved buffer.
const CHANGED: u8 = 2;

/// Change of a saved buffer.
enum DumpChange {
    Gone,
    Buffer {
        /// Pages whose version is on flash now, or that are unmapped.
        gone: Vec<u32>,
        put: Vec<SavedSlot>,
        trims: Option<Vec<Trimmed>>,
    },
}

impl DumpChange {
    /// Updates the saved versions that the file has.
    fn note(self, saved: &mut Saved) {
        let Self::Buffer { gone, put, .. } = self else {
            return saved.clear();
        };
        for page in gone {
            saved.remove(&page);
        }
        saved.extend(put.into_iter().map(|slot| (slot.page, slot.payload)));
    }

    fn put<W: Write>(&self, sections: &mut Sections<'_, W>) -> io::Result<()> {
        let Self::Buffer { gone, put, trims } = self else {
            return sections.put(&[GONE]);
        };
        sections.put(&[CHANGED])?;
        sections.put(&(gone.len() as u32).to_le_bytes())?;
        for page in gone {
            sections.put(&page.to_le_bytes())?;
        }
        dump::put_slots(sections, put)?;
        sections.put(&[u8::from(trims.is_some())])?;
        match trims {
            Some(trims) => dump::put_trims(sections, trims),
            None => Ok(()),
        }
    }
}

/// A drive to which records of the log are applied.
pub(super) struct Replay<'a> {
    layout: &'a Layout,
    config: &'a DriveConfig,
    cells: Media,
    smart: Smart,
    /// Saved slots by page, each with the serial number of its insertion.
    slots: BTreeMap<u32, (u64, SavedSlot)>,
    turn: u64,
    trims: Vec<Trimmed>,
    saved: bool,
    front: Option<front::Replay<'a>>,
    zones: Option<zones::Replay>,
    memory: Option<Memory>,
}

/// Parts of a file besides cells, counters and buffer.
type Rest<'a> = (
    Option<front::Replay<'a>>,
    Option<zones::Replay>,
    Option<Memory>,
);

impl<'a> Replay<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        config: &'a DriveConfig,
        (cells, smart): (Media, Smart),
        dump: Option<Dump>,
        (front, zones, memory): Rest<'a>,
    ) -> Self {
        let mut replay = Self {
            layout,
            config,
            cells,
            smart,
            slots: BTreeMap::new(),
            turn: 0,
            trims: Vec::new(),
            saved: dump.is_some(),
            front,
            zones,
            memory,
        };
        let dump = dump.unwrap_or_default();
        dump.slots.into_iter().for_each(|slot| replay.keep(slot));
        replay.trims = dump.trims;
        replay
    }

    fn keep(&mut self, slot: SavedSlot) {
        self.turn += 1;
        self.slots.insert(slot.page, (self.turn, slot));
    }

    /// Applies the records that follow. Returns the end of the last whole one.
    pub(super) fn run(&mut self, reader: &mut Reader<'_, impl Read>) -> Result<Mark, ImageError> {
        let mut mark = reader.mark();
        while reader.has_record()? {
            match self.record(reader) {
                Ok(()) => mark = reader.mark(),
                Err(ImageError::Truncated { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(mark)
    }

    /// Reads one record to its end before any part of it takes effect.
    fn record(&mut self, reader: &mut Reader<'_, impl Read>) -> Result<(), ImageError> {
        reader.begin(Kind::Change)?;
        let len = reader.count("the length of the counters", SMART_MAX)?;
        let mut text = vec![0; len as usize];
        reader.take(&mut text)?;
        let parsed = serde_json::from_slice(&text);
        let what = "counters";
        let smart = parsed.map_err(|source| ImageError::Text { what, source })?;
        let earlier = Earlier {
            cells: &self.cells,
            slots: &self.slots,
        };
        let deltas = blocks::take_deltas(reader, self.config.geometry, &earlier)?;
        let change = self.take_change(reader)?;
        let front = self.front.as_ref().map(|front| front.take_change(reader));
        let front = front.transpose()?;
        let zones = self.zones.as_ref().map(|zones| zones.take_change(reader));
        let zones = zones.transpose()?;
        let memory = self.memory.as_ref();
        let lines = memory.map(|memory| memory::take_lines(reader, memory));
        let lines = lines.transpose()?;
        reader.commit()?;
        self.smart = smart;
        for (index, delta) in deltas {
            let id = self.config.geometry.block_at(index as usize);
            let offset = reader.offset();
            let wrong = |source| ImageError::Block {
                offset,
                index,
                source,
            };
            self.cells.amend(id, &delta).map_err(wrong)?;
        }
        if let (Some(replay), Some(change)) = (&mut self.front, front) {
            replay.apply(change, reader)?;
        }
        if let (Some(replay), Some(change)) = (&mut self.zones, zones) {
            replay.apply(change);
        }
        if let (Some(memory), Some(lines)) = (&mut self.memory, lines) {
            memory::apply(memory, lines);
        }
        self.apply(change, reader)
    }

    fn take_change(
        &self,
        reader: &mut Reader<'_, impl Read>,
    ) -> Result<Option<DumpChange>, ImageError> {
        let kind = reader.u8()?;
        let kinds = format_args!("0 to 2");
        reader.require(
            "the change of a buffer",
            kind.into(),
            kinds,
            kind <= CHANGED,
        )?;
        if kind != CHANGED {
            return Ok((kind == GONE).then_some(DumpChange::Gone));
        }
        let most = u64::from(self.layout.buffer_pages);
        let count = reader.count("the number of pages that left the buffer", most)?;
        let gone = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        let put = dump::take_slots(reader, self.layout, self.config, self.layout.buffer_pages)?;
        let trims = match reader.u8()? {
            0 => None,
            _ => Some(dump::take_trims(reader)?),
        };
        Ok(Some(DumpChange::Buffer { gone, put, trims }))
    }

    fn apply(
        &mut self,
        change: Option<DumpChange>,
        reader: &Reader<'_, impl Read>,
    ) -> Result<(), ImageError> {
        match change {
            None => return Ok(()),
            Some(DumpChange::Gone) => {
                self.slots.clear();
                self.trims.clear();
                self.saved = false;
            }
            Some(DumpChange::Buffer { gone, put, trims }) => {
                self.saved = true;
                for page in gone {
                    self.slots.remove(&page);
                }
                put.into_iter().for_each(|slot| self.keep(slot));
                self.trims = trims.unwrap_or(std::mem::take(&mut self.trims));
            }
        }
        let (most, found) = (self.layout.buffer_pages, self.slots.len() as u64);
        let expected = format_args!("at most {most}");
        reader.require(
            "the number of saved writes",
            found,
            expected,
            found <= u64::from(most),
        )
    }

    /// The drive after the last record, and the memory beside it.
    pub(super) fn end(
        self,
        reader: &Reader<'_, impl Read>,
    ) -> Result<(DriveMedia, Option<Memory>), ImageError> {
        let mut slots: Vec<_> = self.slots.into_values().collect();
        slots.sort_unstable_by_key(|(turn, _)| *turn);
        let dump = Dump {
            slots: slots.into_iter().map(|(_, slot)| slot).collect(),
            trims: self.trims,
        };
        dump::check(reader, self.layout, self.config, &dump)?;
        let front = self.front.map(|front| front.end(reader)).transpose()?;
        let config = self.config;
        let zones = self
            .zones
            .map(|zones| zones.end(reader, config))
            .transpose()?;
        let media = DriveMedia {
            cells: self.cells,
            dump: self.saved.then_some(dump),
            front: front.unwrap_or_default(),
            zones: zones.unwrap_or_default(),
            smart: self.smart,
        };
        Ok((media, self.memory))
    }
}
