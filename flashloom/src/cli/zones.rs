//! `drive zones`, and the contents of zoned drives.
//!
//! Invariant: an imported zone is written sequentially from its start, up to the last piece that is
//! not zeros; the rest stays unwritten, and reads as zeros.

use super::Answer;
use super::bench::Bench;
use super::drive::{extent, pieces};
use super::failure::Failure;
use super::output::OfFile;
use clap::Args;
use report::{Style, human};
use serde::Serialize;
use ssd::{Content, IoError, ZoneAction, ZoneInfo, ZoneKind, ZoneStatus, Zones};
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;
use units::{Bytes, Origin, SECTOR};

/// Show the zones of a drive: states, write pointers, limits
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    of: OfFile,
}

/// Counts and sizes of a drive's zones.
#[derive(Serialize)]
pub(super) struct Facts {
    zones: u32,
    conventional: u32,
    size_bytes: u64,
    capacity_bytes: u64,
    max_open: u32,
    max_active: u32,
    empty: u32,
    open: u32,
    closed: u32,
    full: u32,
    read_only: u32,
    offline: u32,
    /// Numbers of the zones that use an active-zone resource.
    active_zones: Vec<u32>,
    /// Bytes before the write pointers, over all zones.
    pub(super) written_bytes: u64,
}

/// JSON document of `drive zones`.
#[derive(Serialize)]
struct Found {
    file: String,
    #[serde(flatten)]
    facts: Facts,
    list: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    zone: u32,
    kind: ZoneKind,
    state: &'static str,
    start_byte: u64,
    capacity_bytes: u64,
    /// Write pointer in bytes; `None` if the zone has no valid one.
    write_pointer_byte: Option<u64>,
    written_bytes: u64,
    random_write_area: bool,
    /// Highest erase count of the zone's blocks; `None` if no blocks are attached.
    erases: Option<u32>,
}

impl Show {
    pub(super) fn run(&self) -> Answer {
        let bench = Bench::open(&self.of.path)?;
        let Some(zones) = bench.drive.zones() else {
            let interface = bench.config.interface;
            let reason = format!("expected a zoned drive, found one without zones ({interface:?})");
            return Err(Failure::at(&self.of.path, reason));
        };
        let list = all(zones).map(|zone| entry(zones, &zone)).collect();
        let found = Found {
            file: self.of.path.display().to_string(),
            facts: facts(zones),
            list,
        };
        let text = |_: Style| found.text();
        self.of
            .shown
            .answer("flashloom.drive-zones/1", &found, text)
    }
}

fn all(zones: &Zones) -> impl Iterator<Item = ZoneInfo> {
    (0..zones.limits().zones).filter_map(|zone| zones.info(zone))
}

fn entry(zones: &Zones, zone: &ZoneInfo) -> Entry {
    Entry {
        zone: zone.zone,
        kind: zone.kind,
        state: match zone.kind {
            ZoneKind::Conventional => "conventional",
            ZoneKind::Sequential => zone.state.name(),
        },
        start_byte: zone.start.0 * SECTOR,
        capacity_bytes: zone.capacity * SECTOR,
        write_pointer_byte: zone.write_pointer.map(|wp| wp.0 * SECTOR),
        written_bytes: zone.written() * SECTOR,
        random_write_area: zone.random_write_area,
        erases: zones.wear(zone.zone),
    }
}

/// The counts and limits of `zones`.
pub(super) fn facts(zones: &Zones) -> Facts {
    let (limits, used) = (zones.limits(), zones.in_use());
    Facts {
        zones: limits.zones,
        conventional: limits.conventional,
        size_bytes: limits.size * SECTOR,
        capacity_bytes: limits.capacity * SECTOR,
        max_open: limits.max_open,
        max_active: limits.max_active,
        empty: used.empty,
        open: (used.implicitly_open.len() + used.explicitly_open.len()) as u32,
        closed: used.closed.len() as u32,
        full: used.full,
        read_only: used.read_only.len() as u32,
        offline: used.offline.len() as u32,
        active_zones: used.holders(ZoneStatus::TooManyActiveZones),
        written_bytes: all(zones).map(|zone| zone.written() * SECTOR).sum(),
    }
}

impl Facts {
    /// Rows for a table of facts.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let limit = |n: u32| match n {
            0 => "any number of".to_owned(),
            n => format!("at most {n}"),
        };
        let sizes = format!(
            "{}, {} apart, {} of each can be written",
            human::count(self.zones.into()),
            Bytes(self.size_bytes),
            Bytes(self.capacity_bytes)
        );
        let states = format!(
            "{} empty, {} open, {} closed, {} full, {} read-only, {} offline",
            self.empty, self.open, self.closed, self.full, self.read_only, self.offline
        );
        let limits = format!(
            "{} open, {} active",
            limit(self.max_open),
            limit(self.max_active)
        );
        let mut lines = vec![
            ("zones", sizes),
            ("conventional", self.conventional.to_string()),
            ("limits", limits),
            ("states", states),
        ];
        if !self.active_zones.is_empty() {
            let one_by_one = |a: &u32, b: &u32| a + 1 == *b;
            let runs = self.active_zones.chunk_by(one_by_one);
            let runs: Vec<String> = runs
                .map(|run| numbers(run[0], run[run.len() - 1]))
                .collect();
            lines.push(("active", runs.join(", ")));
        }
        lines
    }
}

/// A range of zone numbers.
fn numbers(first: u32, last: u32) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}

impl Entry {
    /// Whether the entries differ in nothing that a line shows but the number.
    fn is_like(&self, other: &Self) -> bool {
        let told = |entry: &Self| (entry.state, entry.written_bytes, entry.erases);
        told(self) == told(other) && self.capacity_bytes == other.capacity_bytes
    }
}

impl Found {
    /// A line for each run of consecutive zones that are alike.
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.facts.lines() {
            let _ = writeln!(text, "{name:<14}{value}");
        }
        let _ = writeln!(text);
        for alike in self.list.chunk_by(Entry::is_like) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            let numbers = numbers(first.zone, last.zone);
            let written = match first.kind {
                ZoneKind::Conventional => String::new(),
                ZoneKind::Sequential => format!("{} written", Bytes(first.written_bytes)),
            };
            let erases = first
                .erases
                .map_or(String::new(), |n| format!(", {n} erases"));
            let _ = writeln!(text, "{numbers:<14}{:<18}{written}{erases}", first.state);
        }
        text
    }
}

/// Resets all zones, then writes each from its start to its last data.
pub(super) fn import(
    bench: &Bench,
    zones: &Zones,
    mut input: impl Read,
    path: &Path,
    name: &Path,
) -> Result<u64, Failure> {
    let clean = zones.clone();
    bench.carry_out(path, async move {
        Ok(clean.manage_all(ZoneAction::Reset).await?)
    })?;
    let mut data = 0;
    for zone in all(zones) {
        let mut bytes = Vec::new();
        let whole = input
            .by_ref()
            .take(zone.size * SECTOR)
            .read_to_end(&mut bytes);
        whole.map_err(|e| Failure::at(name, e))?;
        let end = pieces(&bytes)
            .last()
            .map_or(0, |(at, piece)| at as usize + piece.len());
        data += pieces(&bytes)
            .map(|(_, piece)| piece.len() as u64)
            .sum::<u64>();
        if end as u64 > zone.capacity * SECTOR {
            let reason = format!(
                "expected zeros behind the first {} of each {}, which zone {} has no room for",
                Bytes(zone.capacity * SECTOR),
                Bytes(zone.size * SECTOR),
                zone.zone
            );
            return Err(Failure::at(name, reason));
        }
        bytes.resize(end.next_multiple_of(4096), 0);
        for (index, chunk) in bytes.chunks(1 << 20).enumerate() {
            let at = zone.start.0 * SECTOR + (index << 20) as u64;
            write(bench, zones, path, at, chunk.to_vec())?;
        }
    }
    Ok(data)
}

fn write(
    bench: &Bench,
    zones: &Zones,
    path: &Path,
    at: u64,
    bytes: Vec<u8>,
) -> Result<(), Failure> {
    let (zones, extent) = (zones.clone(), extent(at, bytes.len() as u64));
    bench.carry_out(path, async move {
        let content = Content::Bytes(&bytes);
        let written = zones.write(extent, content, Origin(0), false).await;
        written.map_err(IoError::Zone)
    })
}
