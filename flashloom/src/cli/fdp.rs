//! `drive fdp`: placement handles of a drive in a file.

use super::Answer;
use super::bench::Bench;
use super::failure::Failure;
use super::output::OfFile;
use clap::Args;
use report::table::facts;
use report::{Style, human};
use serde::Serialize;
use ssd::Drive;
use std::fmt::Write as _;
use units::{Bytes, Placement};

/// Show the placement handles of an FDP drive: reclaim units, room, bytes written
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    of: OfFile,
}

/// JSON document of `drive fdp`. Bytes count over the drive's life.
#[derive(Serialize)]
struct Found {
    file: String,
    reclaim_groups: u16,
    handles_per_group: u16,
    /// Whether garbage collection keeps the data of handles apart.
    persistently_isolated: bool,
    unit_bytes: u64,
    host_written_bytes: u64,
    media_written_bytes: u64,
    media_erased_bytes: u64,
    /// Device WAF; `None` before the first write.
    write_amplification: Option<f64>,
    list: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    placement: u16,
    group: u16,
    handle: u16,
    /// Free bytes in the handle's open reclaim unit.
    room_bytes: u64,
}

impl Show {
    pub(super) fn run(&self) -> Answer {
        let bench = Bench::open(&self.of.path)?;
        let found = found(&self.of.path.display().to_string(), &bench.drive).ok_or_else(|| {
            let interface = bench.config.interface;
            let reason = format!("expected a drive with placement handles, found {interface:?}");
            Failure::at(&self.of.path, reason)
        })?;
        let text = |style: Style| found.text(style);
        self.of.shown.answer("flashloom.drive-fdp/1", &found, text)
    }
}

/// The placement handles of `drive`; `None` unless it is an FDP drive.
fn found(file: &str, drive: &Drive) -> Option<Found> {
    let log = drive.fdp()?;
    let (config, layout) = (&drive.config().placement, drive.layout());
    let (host, media) = (log.host_bytes_written.0, log.media_bytes_written.0);
    let all = (0..u16::MAX).map_while(|number| {
        Some(Entry {
            placement: number,
            group: number / config.handles,
            handle: number % config.handles,
            room_bytes: drive.writable_in_unit(Placement(number))?.0,
        })
    });
    Some(Found {
        file: file.to_owned(),
        reclaim_groups: config.reclaim_groups,
        handles_per_group: config.handles,
        persistently_isolated: config.persistently_isolated,
        unit_bytes: layout.bytes(layout.line_data).0,
        host_written_bytes: host,
        media_written_bytes: media,
        media_erased_bytes: log.media_bytes_erased.0,
        write_amplification: (host > 0).then(|| media as f64 / host as f64),
        list: all.collect(),
    })
}

impl Found {
    fn text(&self, style: Style) -> String {
        let handles = format!(
            "{} in each of {} reclaim groups, {} isolated",
            self.handles_per_group,
            human::count(self.reclaim_groups.into()),
            match self.persistently_isolated {
                true => "persistently",
                false => "initially",
            }
        );
        let size = |bytes: u64| human::bytes(bytes as f64);
        let factor = self.write_amplification;
        let factor = factor.map_or("nothing was written".to_owned(), |it| format!("{it:.2}"));
        let lines = vec![
            ("handles", handles),
            ("reclaim unit", Bytes(self.unit_bytes).to_string()),
            ("host wrote", size(self.host_written_bytes)),
            ("programmed", size(self.media_written_bytes)),
            ("erased", size(self.media_erased_bytes)),
            ("amplification", factor),
        ];
        let mut text = facts(lines, style);
        let _ = writeln!(text);
        for entry in &self.list {
            let (group, handle) = (entry.group, entry.handle);
            let place = format!("group {group}, handle {handle}");
            let _ = writeln!(
                text,
                "placement {:<4}{place:<24}{} of its unit left",
                entry.placement,
                Bytes(entry.room_bytes)
            );
        }
        text
    }
}
