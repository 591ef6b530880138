//! `drive chunks`: the chunks that an open-channel drive reports to its host.

use super::Answer;
use super::bench::Bench;
use super::failure::Failure;
use super::output::OfFile;
use clap::Args;
use report::{Style, human};
use serde::Serialize;
use ssd::{ChunkInfo, ChunkState, Chunks, DriveConfig, RawGeometry};
use std::fmt::Write as _;
use std::path::Path;
use units::Bytes;

/// Show the chunks of an open-channel drive: geometry, states, write pointers, wear
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    of: OfFile,
}

/// Counts and sizes of a drive's chunks. Blocks have 4 KiB.
#[derive(Serialize)]
pub(super) struct Facts {
    groups: u32,
    units_per_group: u32,
    chunks_per_unit: u32,
    blocks_per_chunk: u32,
    write_min_blocks: u32,
    write_opt_blocks: u32,
    cached_blocks: u32,
    free: u32,
    open: u32,
    closed: u32,
    offline: u32,
    /// Bytes before the write pointers, over all chunks.
    pub(super) written_bytes: u64,
}

/// JSON document of `drive chunks`.
#[derive(Serialize)]
struct Found {
    file: String,
    #[serde(flatten)]
    facts: Facts,
    list: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    chunk: u32,
    group: u32,
    unit: u32,
    state: &'static str,
    /// Address of the chunk's first block.
    start: u64,
    blocks: u32,
    write_pointer: u32,
    /// Wear index; 255 means the rated cycles.
    wear: u8,
}

/// Bytes of one block.
const BLOCK: u64 = 4096;

impl Show {
    pub(super) fn run(&self) -> Answer {
        let bench = Bench::open(&self.of.path)?;
        let Some(chunks) = bench.drive.chunks() else {
            let interface = bench.config.interface;
            let reason = format!(
                "expected an open-channel drive, found one that maps addresses itself \
                    ({interface:?})"
            );
            return Err(Failure::at(&self.of.path, reason));
        };
        let geometry = chunks.geometry();
        let found = Found {
            file: self.of.path.display().to_string(),
            facts: facts(chunks),
            list: all(chunks).map(|chunk| entry(&geometry, chunk)).collect(),
        };
        let text = |_: Style| found.text();
        self.of
            .shown
            .answer("flashloom.drive-chunks/1", &found, text)
    }
}

/// Rejects a drive whose mapping is in its host, for commands that use logical addresses.
pub(super) fn mapped(path: &Path, config: &DriveConfig) -> Result<(), Failure> {
    if config.raw.is_none() {
        return Ok(());
    }
    let reason = "expected a drive that maps addresses itself; for an open-channel drive use \
        `flashloom mount` or `flashloom drive export`";
    Err(Failure::at(path, reason))
}

fn all(chunks: &Chunks) -> impl Iterator<Item = ChunkInfo> {
    (0..chunks.geometry().all_chunks()).filter_map(|chunk| chunks.info(chunk))
}

fn entry(geometry: &RawGeometry, chunk: ChunkInfo) -> Entry {
    let place = geometry.chunk_place(chunk.chunk);
    Entry {
        chunk: chunk.chunk,
        group: place.group,
        unit: place.unit,
        state: chunk.state.name(),
        start: chunk.start.0,
        blocks: chunk.blocks,
        write_pointer: chunk.write_pointer,
        wear: chunk.wear,
    }
}

/// The counts of a drive's chunks.
pub(super) fn facts(chunks: &Chunks) -> Facts {
    let geometry = chunks.geometry();
    let count = |state| all(chunks).filter(|chunk| chunk.state == state).count() as u32;
    let written = all(chunks).map(|chunk| u64::from(chunk.write_pointer) * BLOCK);
    Facts {
        groups: geometry.groups,
        units_per_group: geometry.units,
        chunks_per_unit: geometry.chunks,
        blocks_per_chunk: geometry.blocks,
        write_min_blocks: geometry.write_min,
        write_opt_blocks: geometry.write_opt,
        cached_blocks: geometry.cached,
        free: count(ChunkState::Free),
        open: count(ChunkState::Open),
        closed: count(ChunkState::Closed),
        offline: count(ChunkState::Offline),
        written_bytes: written.sum(),
    }
}

impl Facts {
    /// Rows for a table of facts.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let bytes = |blocks: u32| Bytes(u64::from(blocks) * BLOCK);
        let shape = format!(
            "{} groups of {} units of {} chunks of {}",
            self.groups,
            self.units_per_group,
            human::count(self.chunks_per_unit.into()),
            bytes(self.blocks_per_chunk)
        );
        let writes = format!(
            "multiples of {}, {} at best, readable {} later",
            bytes(self.write_min_blocks),
            bytes(self.write_opt_blocks),
            bytes(self.cached_blocks)
        );
        let states = format!(
            "{} free, {} open, {} closed, {} offline",
            self.free, self.open, self.closed, self.offline
        );
        vec![("chunks", shape), ("writes", writes), ("states", states)]
    }
}

impl Found {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.facts.lines() {
            let _ = writeln!(text, "{name:<14}{value}");
        }
        let alike = |a: &Entry, b: &Entry| {
            (a.unit, a.group, a.state, a.write_pointer, a.wear)
                == (b.unit, b.group, b.state, b.write_pointer, b.wear)
        };
        for alike in self.list.chunk_by(alike) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            let numbers = match alike.len() {
                1 => first.chunk.to_string(),
                _ => format!("{}-{}", first.chunk, last.chunk),
            };
            let written = Bytes(u64::from(first.write_pointer) * BLOCK);
            let _ = writeln!(
                text,
                "{numbers:<14}{:<9}{written} written, wear {}/255",
                first.state, first.wear
            );
        }
        text
    }
}
