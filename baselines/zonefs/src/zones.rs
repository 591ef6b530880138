//! Report on the zones of a mount: limits, holders of zones, and every file.

use crate::file::Group;
use crate::fs::ZoneFs;
use host::ZonedPort;
use serde::Serialize;
use units::SECTOR;

/// State of a file and its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneRow {
    /// Path of the file, such as `seq/0`.
    pub file: String,
    /// Number of the file's first zone.
    pub zone: u32,
    /// Offset on the drive in bytes.
    pub start: u64,
    /// State of the zone as the drive has it; empty if unknown.
    pub state: &'static str,
    /// Size of the file in bytes.
    pub size: u64,
    /// Largest size of the file in bytes.
    pub capacity: u64,
    /// Opens for writing in progress.
    pub writers: u32,
}

/// The last rejection of a call for lack of open or active zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Path of the file whose call was rejected.
    pub refused: String,
    /// The exceeded limit, as a sentence.
    pub limit: String,
    /// Paths of the files that hold the zones; a zone that is no file is named by its number.
    pub held_by: Vec<String>,
}

/// The report. The first four numbers correspond to `/sys/fs/zonefs` of Linux; a limit of 0 means
/// no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Name and version of the document format.
    pub schema: &'static str,
    /// Most files of `seq` that can be open for writing with `explicit-open`.
    pub max_wro_seq_files: u32,
    /// Files of `seq` that are open for writing.
    pub nr_wro_seq_files: u32,
    /// Most files of `seq` that can be active: open for writing, or written in part.
    pub max_active_seq_files: u32,
    /// Files of `seq` that are active.
    pub nr_active_seq_files: u32,
    /// Whether the file system is read-only.
    pub read_only: bool,
    /// The last rejection; `None` if there was none.
    pub why_refused: Option<Holder>,
    /// All files, by directory and number.
    pub files: Vec<ZoneRow>,
}

impl ZoneFs {
    /// The report at this instant.
    #[must_use]
    pub fn told(&self) -> Told {
        let limits = self.port.limits();
        let active = self.group(Group::Sequential).iter();
        Told {
            schema: "flashloom.zones/1",
            max_wro_seq_files: limits.max_open,
            nr_wro_seq_files: self.open_to_write(),
            max_active_seq_files: limits.max_active,
            nr_active_seq_files: active.filter(|file| file.is_active()).count() as u32,
            read_only: self.is_read_only(),
            why_refused: self.why_refused(),
            files: Group::ALL
                .into_iter()
                .flat_map(|group| self.rows(group))
                .collect(),
        }
    }

    fn rows(&self, group: Group) -> impl Iterator<Item = ZoneRow> {
        let files = self.group(group).iter().enumerate();
        files.map(move |(number, file)| ZoneRow {
            file: format!("{}/{number}", group.name()),
            zone: file.zone,
            start: file.start * SECTOR,
            state: self
                .port
                .zone(file.zone)
                .map_or("", |zone| zone.state.name()),
            size: file.size.get(),
            capacity: file.most,
            writers: file.writers.get(),
        })
    }

    fn why_refused(&self) -> Option<Holder> {
        let refused = self.refused.borrow();
        let refused = refused.as_ref()?;
        let name = |zone: &u32| {
            let rows = Group::ALL.into_iter().flat_map(|group| self.rows(group));
            let found = rows.into_iter().find(|row| row.zone == *zone);
            found.map_or_else(|| format!("zone {zone}"), |row| row.file)
        };
        Some(Holder {
            refused: refused.file.clone(),
            limit: refused.status.to_string(),
            held_by: refused.holders.iter().map(name).collect(),
        })
    }
}
