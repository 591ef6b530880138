//! Block requests, the common form that every generator yields and every trace is read into.

use serde::Serialize;
use units::{Extent, Ns, Origin, Placement};

/// Operation of a request.
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
    /// Makes the zone full that contains the start of the extent.
    ZoneFinish,
    /// Makes the zone empty that contains the start of the extent.
    ZoneReset,
    /// Makes all zones empty; the extent is empty.
    ZoneResetAll,
}

impl Op {
    /// Every operation, in the order of declaration.
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

    /// Name of the operation in reports.
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

    /// Whether the operation changes the state of zones and moves no data.
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

    /// Whether the operation needs a zoned drive.
    #[must_use]
    pub const fn needs_zones(self) -> bool {
        matches!(self, Self::Append) || self.manages_zones()
    }
}

/// One block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time of issue, from the first request of its workload; ignored in a closed loop.
    pub at: Ns,
    /// Operation of the request.
    pub op: Op,
    /// Sectors of the operation, in units of 512 bytes.
    pub extent: Extent,
    /// The stream or placement handle that the host names; 0 is the default.
    pub placement: Placement,
    /// Origin (process or file) of the request, an index into the workload's [`Labels`].
    pub origin: Origin,
    /// Force unit access: the request completes only when its data is durable.
    pub fua: bool,
}

/// Purpose of an origin's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Contents of files or of a database.
    Data,
    /// Structures of a file system.
    Metadata,
    /// The journal of a file system.
    Journal,
}

impl Purpose {
    /// Purpose of a request of process `name`; `metadata` is the kernel's mark `M`. The journal
    /// thread of ext4 marks all its writes as metadata, so its name (`jbd2…`) decides.
    #[must_use]
    pub fn of(name: &str, metadata: bool) -> Self {
        match metadata {
            _ if name.starts_with("jbd2") => Self::Journal,
            true => Self::Metadata,
            false => Self::Data,
        }
    }

    /// Name of the purpose in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Metadata => "metadata",
            Self::Journal => "journal",
        }
    }
}

/// Suffix of the name of an origin whose purpose is metadata.
pub(crate) const METADATA: &str = " (metadata)";

/// Names and purposes of origins, in order of first appearance. Entry 0 is the unnamed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
    purposes: Vec<Purpose>,
    /// Indices, sorted by purpose and name.
    sorted: Vec<u16>,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            names: vec!["unnamed".to_owned()],
            purposes: vec![Purpose::Data],
            sorted: vec![0],
        }
    }
}

impl Labels {
    /// Upper bound on the labels; origins past it share the last label, `other`.
    pub const MAX: usize = 256;

    /// The origin called `name` whose purpose is data, added if it is new.
    pub fn intern(&mut self, name: &str) -> Origin {
        self.intern_as(name, Purpose::Data)
    }

    /// The origin called `name` with this purpose, added if it is new. The label of metadata is
    /// `name (metadata)`, so that a process with both data and metadata has two origins.
    pub fn intern_as(&mut self, name: &str, purpose: Purpose) -> Origin {
        let key = (purpose, name);
        let place = self.sorted.partition_point(|at| self.key(*at) < key);
        match self.sorted.get(place) {
            Some(&at) if self.key(at) == key => Origin(at),
            _ => self.add(name, purpose),
        }
    }

    /// Purpose and name of label `at`, the name as it was interned.
    fn key(&self, at: u16) -> (Purpose, &str) {
        let (full, purpose) = (&self.names[usize::from(at)], self.purposes[usize::from(at)]);
        let name = match purpose {
            Purpose::Metadata => full.strip_suffix(METADATA),
            Purpose::Data | Purpose::Journal => None,
        };
        (purpose, name.unwrap_or(full))
    }

    fn add(&mut self, name: &str, purpose: Purpose) -> Origin {
        match self.names.len() + 1 {
            ..Self::MAX => self.push(full_name(name, purpose), purpose),
            Self::MAX => self.push("other".to_owned(), Purpose::Data),
            _ => {}
        }
        Origin(u16::try_from(self.names.len() - 1).expect("bounded by MAX"))
    }

    fn push(&mut self, name: String, purpose: Purpose) {
        let at = u16::try_from(self.names.len()).expect("bounded by MAX");
        self.names.push(name);
        self.purposes.push(purpose);
        // Behind an equal one, so that the first is found.
        let place = self
            .sorted
            .partition_point(|other| self.key(*other) <= self.key(at));
        self.sorted.insert(place, at);
    }

    /// Interns the label number `at` of a table that was written, such that a table read from its
    /// beginning is the same one.
    pub(crate) fn intern_at(&mut self, at: usize, name: &str, purpose: Purpose) -> Origin {
        if at == self.names.len() && at < Self::MAX {
            self.push(full_name(name, purpose), purpose);
        }
        let index = u16::try_from(at).ok().filter(|_| at < self.names.len());
        match index.filter(|index| self.key(*index) == (purpose, name)) {
            Some(index) => Origin(index),
            None => self.intern_as(name, purpose),
        }
    }

    /// The label `origin` as it was interned: its name, without the suffix for metadata.
    pub(crate) fn interned(&self, origin: Origin) -> (Purpose, &str) {
        self.key(origin.0)
    }

    /// Name of `origin`; `unnamed` if it has none.
    #[must_use]
    pub fn name(&self, origin: Origin) -> &str {
        self.names
            .get(usize::from(origin.0))
            .map_or("unnamed", String::as_str)
    }

    /// Names of all origins, by index.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Purpose of the data of `origin`; data if `origin` is unknown.
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
    fn labels_past_the_bound_share_the_last() {
        let mut labels = Labels::default();
        let origins: Vec<Origin> = (0..400).map(|i| labels.intern(&format!("p{i}"))).collect();
        assert_eq!(labels.names().len(), Labels::MAX);
        assert_eq!(labels.name(origins[253]), "p253");
        assert_eq!(labels.name(origins[399]), "other");
        assert_eq!(labels.intern("p7"), origins[7]);
    }
}
