//! What there is to know of zones, as a document: limits, who holds what, each zone.

use crate::file::Group;
use crate::fs::ZoneFs;
use host::ZonedPort;
use serde::Serialize;
use units::SECTOR;

/// A file and its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneRow {
    /// Its name, with the directory.
    pub file: String,
    /// Its zone.
    pub zone: u32,
    /// First byte on the drive.
    pub start: u64,
    /// State of the zone.
    pub state: &'static str,
    /// Bytes.
    pub size: u64,
    /// Bytes that it can have.
    pub capacity: u64,
    /// How many have it open to write.
    pub writers: u32,
}

/// Why the last write or truncation was refused that the drive had no more zones for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The file that was refused.
    pub refused: String,
    /// The limit.
    pub limit: String,
    /// Files whose zones count against it; zones that are no files by their numbers.
    pub held_by: Vec<String>,
}

/// The document. The first four are what Linux has in `/sys/fs/zonefs`; a limit of 0 is
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The form of this.
    pub schema: &'static str,
    /// Most files of `seq` that can be open to write with `explicit-open`.
    pub max_wro_seq_files: u32,
    /// Files of `seq` that are open to write.
    pub nr_wro_seq_files: u32,
    /// Most files of `seq` that can be active: open to write, or written in part.
    pub max_active_seq_files: u32,
    /// Active files of `seq`.
    pub nr_active_seq_files: u32,
    /// Whether nothing is written any more.
    pub read_only: bool,
    /// What was refused last.
    pub why_refused: Option<Holder>,
    /// All files.
    pub files: Vec<ZoneRow>,
}

impl<P: ZonedPort> ZoneFs<P> {
    /// The document at this instant.
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
