//! The one form in which every generator and every trace speaks.

use serde::Serialize;
use units::{Extent, Ns, Origin, Placement};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads the extent.
    Read,
    /// Writes the extent.
    Write,
    /// Deallocates the extent.
    Trim,
    /// Makes every completed write durable; the extent is empty.
    Flush,
    /// Appends as much as the extent is long to the zone in which the extent begins.
    Append,
    /// Makes the extent read as zeroes without sending data; the drive may deallocate it.
    Zeroes,
    /// Opens the zone in which the extent begins.
    ZoneOpen,
    /// Closes the zone in which the extent begins.
    ZoneClose,
    /// Makes the zone full in which the extent begins.
    ZoneFinish,
    /// Makes the zone empty in which the extent begins.
    ZoneReset,
    /// Makes all zones empty; the extent is empty.
    ZoneResetAll,
}

impl Op {
    /// All operations, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Write,
        Self::Trim,
        Self::Flush,
        Self::Append,
        Self::Zeroes,
        Self::ZoneOpen,
        Self::ZoneClose,
        Self::ZoneFinish,
        Self::ZoneReset,
        Self::ZoneResetAll,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Append => "append",
            Self::Zeroes => "write-zeroes",
            Self::ZoneOpen => "zone-open",
            Self::ZoneClose => "zone-close",
            Self::ZoneFinish => "zone-finish",
            Self::ZoneReset => "zone-reset",
            Self::ZoneResetAll => "zone-reset-all",
        }
    }

    /// Whether it changes the state of zones and moves no data.
    #[must_use]
    pub const fn manages_zones(self) -> bool {
        matches!(
            self,
            Self::ZoneOpen
                | Self::ZoneClose
                | Self::ZoneFinish
                | Self::ZoneReset
                | Self::ZoneResetAll
        )
    }

    /// Whether only a drive of zones can do it.
    #[must_use]
    pub const fn needs_zones(self) -> bool {
        matches!(self, Self::Append) || self.manages_zones()
    }
}

/// One block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it is issued, from the first request of its workload. A closed
    /// loop ignores it.
    pub at: Ns,
    /// What it does.
    pub op: Op,
    /// Where, in 512-byte sectors.
    pub extent: Extent,
    /// The stream or placement handle that the host names; 0 is the default.
    pub placement: Placement,
    /// Who asked, as an index into the workload's [`Labels`].
    pub origin: Origin,
    /// Force unit access: complete only when durable.
    pub fua: bool,
}

/// What the data of an origin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Contents of files, or of a database.
    Data,
    /// Structures of a file system.
    Metadata,
    /// The journal of a file system.
    Journal,
}

impl Purpose {
    /// The purpose of a request of the process `name`, which the kernel
    /// marked as metadata (`M`) or not. The journal thread of ext4 marks all
    /// that it writes as metadata, so its name decides.
    #[must_use]
    pub fn of(name: &str, metadata: bool) -> Self {
        match metadata {
            _ if name.starts_with("jbd2") => Self::Journal,
            true => Self::Metadata,
            false => Self::Data,
        }
    }

    /// Its name, as reports print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Metadata => "metadata",
            Self::Journal => "journal",
        }
    }
}

/// What follows the name of an origin that asks for metadata.
pub(crate) const METADATA: &str = " (metadata)";

/// Names of origins and what their data is for, in order of first appearance.
/// Entry 0 is the unnamed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
    purposes: Vec<Purpose>,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            names: vec!["unnamed".to_owned()],
            purposes: vec![Purpose::Data],
        }
    }
}

impl Labels {
    /// Most labels that are told apart; later ones share the last, `other`.
    pub const MAX: usize = 256;

    /// The origin called `name` whose purpose is data, added if it is new.
    pub fn intern(&mut self, name: &str) -> Origin {
        self.intern_as(name, Purpose::Data)
    }

    /// The origin called `name` with this purpose, added if it is new. One
    /// that asks for metadata is called `name (metadata)`, so that a process
    /// with both is told apart.
    pub fn intern_as(&mut self, name: &str, purpose: Purpose) -> Origin {
        let index = self.find(name, purpose);
        let index = index.unwrap_or_else(|| self.add(name, purpose));
        Origin(u16::try_from(index).expect("bounded by MAX"))
    }

    fn find(&self, name: &str, purpose: Purpose) -> Option<usize> {
        let same = |full: &String| match purpose {
            Purpose::Metadata => full.strip_suffix(METADATA) == Some(name),
            _ => full == name,
        };
        (0..self.names.len()).find(|&i| self.purposes[i] == purpose && same(&self.names[i]))
    }

    fn add(&mut self, name: &str, purpose: Purpose) -> usize {
        match self.names.len() + 1 {
            ..Self::MAX => self.push(full_name(name, purpose), purpose),
            Self::MAX => self.push("other".to_owned(), Purpose::Data),
            _ => {}
        }
        self.names.len() - 1
    }

    fn push(&mut self, name: String, purpose: Purpose) {
        self.names.push(name);
        self.purposes.push(purpose);
    }

    /// The name of `origin`.
    #[must_use]
    pub fn name(&self, origin: Origin) -> &str {
        self.names
            .get(usize::from(origin.0))
            .map_or("unnamed", String::as_str)
    }

    /// All names, by index.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What the data of `origin` is for.
    #[must_use]
    pub fn purpose(&self, origin: Origin) -> Purpose {
        self.purposes
            .get(usize::from(origin.0))
            .copied()
            .unwrap_or(Purpose::Data)
    }
}

fn full_name(name: &str, purpose: Purpose) -> String {
    match purpose {
        Purpose::Metadata => format!("{name}{METADATA}"),
        Purpose::Data | Purpose::Journal => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_metadata_of_one_process_are_two_origins() {
        let mut labels = Labels::default();
        let data = labels.intern("postgres");
        let metadata = labels.intern_as("postgres", Purpose::of("postgres", true));
        assert_ne!(data, metadata);
        assert_eq!(labels.name(metadata), "postgres (metadata)");
        assert_eq!(labels.purpose(metadata), Purpose::Metadata);
        assert_eq!(labels.intern_as("postgres", Purpose::Metadata), metadata);
        assert_eq!(Purpose::of("jbd2/sda1-8", true), Purpose::Journal);
    }

    #[test]
    fn labels_past_the_last_are_the_others() {
        let mut labels = Labels::default();
        let origins: Vec<Origin> = (0..400).map(|i| labels.intern(&format!("p{i}"))).collect();
        assert_eq!(labels.names().len(), Labels::MAX);
        assert_eq!(labels.name(origins[253]), "p253");
        assert_eq!(labels.name(origins[399]), "other");
        assert_eq!(labels.intern("p7"), origins[7]);
    }
}
