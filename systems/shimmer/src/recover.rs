//! Recovery: rebuilds the latest acknowledged state from the zones.
//!
//! Of the log's two zones, the one with the higher epoch counts, if its snapshot is whole. Its
//! batches are replayed up to the first incomplete one. A valid block behind an invalid one must
//! have been acknowledged, so this is damage and not the log's end. The device's contents are
//! untrusted: everything is checked, and no allocation has a length read from it.

use crate::Core;
use crate::command::FileId;
use crate::config::{BLOCK, LOG_ZONES, Limits, Options, Placement, ZoneReport};
use crate::file::File;
use crate::log::Log;
use crate::names::Names;
use crate::record::{self, Reader, Record, SIZE};
use crate::zones::Zones;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;

/// Reasons why zones cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The zones have no log. If they have no data either, they may be formatted.
    #[error("the zones hold no log of files{}", if *.blank { ", and no data" } else { "" })]
    Unformatted {
        /// Whether all zones for data are empty.
        blank: bool,
    },
    /// The log is damaged, or does not match these zones.
    #[error("the log in zone {zone} is damaged: {why}")]
    Damaged {
        /// Zone of the damaged log.
        zone: u32,
        /// Nature of the damage.
        why: &'static str,
    },
    /// There are fewer zones than two for the log and three for data.
    #[error("{0} zones are too few: the log takes 2, and data at least 3")]
    TooFewZones(usize),
    /// The device allows too few open or active zones.
    #[error("open zones: {} and active zones: {} are too few: the log takes 1 and 2", .0.open, .0.active)]
    TooFewOpen(Limits),
    /// The extent is no power of two from 4 KiB to 1 GiB, or there are no buffers.
    #[error("an extent is a power of two from 4 KiB to 1 GiB, and there is at least one buffer")]
    Options,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    file: File0,
    path: Box<[u8]>,
    tag: Box<[u8]>,
}

/// State of a file according to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File0 {
    placement: Placement,
    runs: crate::runs::Runs,
    size: u64,
}

/// State of the volume according to one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    epoch: u64,
    volume: u64,
    rows: BTreeMap<FileId, Row>,
    names: Names,
    pools: BTreeMap<u32, Placement>,
    next: u64,
}

type Applied = Result<(), &'static str>;

impl Image {
    fn apply(&mut self, record: Record<'_>) -> Applied {
        match record {
            Record::Create {
                id,
                placement,
                path,
            } => self.create(id, placement, path),
            Record::Put { id, run, size } => {
                let file = self.file(id)?;
                if run.first > file.runs.end() {
                    return Err("a file has a hole");
                }
                file.runs.put(run);
                let whole = size.div_ceil(BLOCK) == file.runs.end();
                file.size = size;
                if whole {
                    Ok(())
                } else {
                    Err("a file is not as long as its blocks")
                }
            }
            Record::Truncate { id, size } => {
                let file = self.file(id)?;
                if size > file.size {
                    return Err("a file is cut to more than it had");
                }
                file.runs.cut(size.div_ceil(BLOCK));
                file.size = size;
                Ok(())
            }
            Record::Rename { id, path } => {
                let row = self
                    .rows
                    .get_mut(&id)
                    .ok_or("a file is named that is not there")?;
                let old = std::mem::replace(&mut row.path, path.into());
                self.names.remove(&old);
                self.name(id, path)
            }
            Record::Unlink { id } => {
                let row = self
                    .rows
                    .remove(&id)
                    .ok_or("a file is named that is not there")?;
                self.names.remove(&row.path);
                Ok(())
            }
            Record::Take { zone, placement } => {
                self.pools.insert(zone, placement);
                Ok(())
            }
            Record::Tag { id, tag } => self.tag(id, tag),
            Record::Next { id } => {
                self.next = self.next.max(id.0);
                Ok(())
            }
        }
    }

    fn tag(&mut self, id: FileId, tag: &[u8]) -> Applied {
        let row = self.rows.get_mut(&id);
        row.ok_or("a file is named that is not there")?.tag = tag.into();
        Ok(())
    }

    fn file(&mut self, id: FileId) -> Result<&mut File0, &'static str> {
        let row = self
            .rows
            .get_mut(&id)
            .ok_or("a file is named that is not there")?;
        Ok(&mut row.file)
    }

    fn create(&mut self, id: FileId, placement: Placement, path: &[u8]) -> Applied {
        let next = id.0.checked_add(1).ok_or("a file has no number")?;
        self.next = self.next.max(next);
        let runs = crate::runs::Runs::default();
        let file = File0 {
            placement,
            runs,
            size: 0,
        };
        let row = Row {
            file,
            path: path.into(),
            tag: Box::default(),
        };
        if self.rows.insert(id, row).is_some() {
            return Err("a file was made twice");
        }
        self.name(id, path)
    }

    fn name(&mut self, id: FileId, path: &[u8]) -> Applied {
        match self.names.set(path.into(), id) {
            None => Ok(()),
            Some(_) => Err("two files have one path"),
        }
    }
}

/// Replays one log; `None` if it has no whole snapshot.
fn replay(bytes: &[u8]) -> Result<Option<Image>, &'static str> {
    let mut image = Image::default();
    let mut batch = Vec::new();
    let mut whole = false;
    let mut blocks = bytes.chunks_exact(SIZE);
    for (number, bytes) in (0..).zip(blocks.by_ref()) {
        let Some(block) = record::decode(bytes) else {
            break;
        };
        if number == 0 {
            (image.epoch, image.volume) = (block.epoch, block.volume);
        }
        let same = (block.epoch, block.volume) == (image.epoch, image.volume);
        if !same || block.number != number || block.snapshot == whole {
            return Err("its blocks do not follow each other");
        }
        batch.extend_from_slice(block.records);
        if block.last {
            for record in Reader::new(&batch) {
                image.apply(record.map_err(|()| "a record is none")?)?;
            }
            batch.clear();
            whole = true;
        }
    }
    if blocks.any(|bytes| record::decode(bytes).is_some()) {
        return Err("a block is lost before its end");
    }
    Ok(whole.then_some(image))
}

/// The log with the higher epoch, and its zone.
fn newest(logs: [&[u8]; LOG_ZONES as usize]) -> Result<Option<(u32, Image)>, OpenError> {
    let mut found: Option<(u32, Image)> = None;
    for (zone, bytes) in (0..).zip(logs) {
        let damaged = |why| OpenError::Damaged { zone, why };
        let Some(image) = replay(bytes).map_err(damaged)? else {
            continue;
        };
        if found
            .as_ref()
            .is_some_and(|(_, other)| other.volume != image.volume)
        {
            return Err(damaged("it is of another volume than that in zone 0"));
        }
        if found
            .as_ref()
            .is_none_or(|(_, other)| other.epoch < image.epoch)
        {
            found = Some((zone, image));
        }
    }
    Ok(found)
}

/// Counts the live blocks of each zone.
///
/// # Errors
/// If a run is in a zone that cannot hold it, or two runs overlap.
fn count(image: &Image, zones: &mut Zones) -> Applied {
    let mut all: Vec<_> = image
        .rows
        .values()
        .flat_map(|row| row.file.runs.iter())
        .collect();
    all.sort_by_key(|run| (run.zone, run.at));
    for run in &all {
        let row = zones
            .find(run.zone)
            .ok_or("a file is in a zone that is not there")?;
        if run.zone < LOG_ZONES {
            return Err("a file is in a zone of the log");
        }
        if run
            .at
            .checked_add(run.blocks)
            .is_none_or(|end| end > row.written)
        {
            return Err("a file is where its zone is not written");
        }
    }
    for pair in all.windows(2) {
        if pair[0].zone == pair[1].zone && pair[0].at + pair[0].blocks > pair[1].at {
            return Err("two files share a block");
        }
    }
    for run in all {
        zones.get_mut(run.zone).live += run.blocks;
    }
    Ok(())
}

/// The first file number after a start that read `epoch`. Each start has a range of numbers of its
/// own. So the number of a file that was not durable is not reused after the first batch of the
/// start: an outside reference to it finds no file, rather than another one.
fn first_number(epoch: u64) -> Option<u64> {
    epoch.checked_add(1)?.checked_mul(1 << 32)
}

/// Checks options and zones; returns the limits for data zones.
fn fit(options: &Options, limits: Limits, reports: &[ZoneReport]) -> Result<Limits, OpenError> {
    let extent = options.extent.0;
    let sound = extent.is_power_of_two() && (BLOCK..=1 << 30).contains(&extent);
    if !sound || options.buffers == 0 {
        return Err(OpenError::Options);
    }
    if reports.len() < LOG_ZONES as usize + 3 {
        return Err(OpenError::TooFewZones(reports.len()));
    }
    limits.for_data().ok_or(OpenError::TooFewOpen(limits))
}

impl Core {
    /// Formats zones, whatever they hold. The volume exists once its first sync has completed.
    /// `volume` should be unique, as it tells the volume from others.
    ///
    /// # Errors
    /// If the options or the zones are unusable.
    pub fn format(
        options: Options,
        limits: Limits,
        reports: &[ZoneReport],
        volume: u64,
    ) -> Result<Self, OpenError> {
        let limits = fit(&options, limits, reports)?;
        let zones = Zones::new(reports, limits);
        let image = Image::default();
        let next = first_number(0).expect("it is small");
        Ok(Self::made(
            options,
            zones,
            Log::new(volume, 1, 0),
            Image { next, ..image },
        ))
    }

    /// Opens a volume. `logs` are the written bytes of the first two zones.
    ///
    /// # Errors
    /// If the options or the zones are unusable, or hold no volume or a damaged one.
    pub fn open(
        options: Options,
        limits: Limits,
        reports: &[ZoneReport],
        logs: [&[u8]; LOG_ZONES as usize],
    ) -> Result<Self, OpenError> {
        let limits = fit(&options, limits, reports)?;
        let mut zones = Zones::new(reports, limits);
        let Some((zone, mut image)) = newest(logs)? else {
            let data = &reports[LOG_ZONES as usize..];
            let blank = data.iter().all(|report| report.written == 0);
            return Err(OpenError::Unformatted { blank });
        };
        let damaged = |why| OpenError::Damaged { zone, why };
        count(&image, &mut zones).map_err(damaged)?;
        let first = first_number(image.epoch).ok_or(damaged("its epoch cannot be"))?;
        image.next = image.next.max(first);
        for (&zone, &placement) in &image.pools {
            if zones.find(zone).is_some_and(|row| row.written > 0) {
                zones.get_mut(zone).placement = Some(placement);
            }
        }
        let log = Log::new(image.volume, zone, image.epoch);
        Ok(Self::made(options, zones, log, image))
    }

    fn made(options: Options, zones: Zones, log: Log, image: Image) -> Self {
        let file = |row: Row| File {
            runs: row.file.runs,
            size: row.file.size,
            stored: row.file.size,
            tag: row.tag,
            ..File::new(row.path, row.file.placement)
        };
        Self {
            options,
            names: image.names,
            files: image
                .rows
                .into_iter()
                .map(|(id, row)| (id, file(row)))
                .collect(),
            next_file: image.next,
            zones,
            log,
            flights: BTreeMap::new(),
            ready: VecDeque::new(),
            next_ticket: 0,
            waiting: VecDeque::new(),
            filled: BTreeSet::new(),
            spare: Vec::new(),
            sealed: 0,
            chunks: 0,
            uses: 0,
            promised: 0,
            room: Cell::new(None),
            moving: None,
            moves: 0,
            moved_blocks: 0,
            look: true,
            starved: false,
            syncs: BTreeMap::new(),
            next_sync: 0,
        }
    }
}
