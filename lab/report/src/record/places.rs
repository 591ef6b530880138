//! Fill and age of the lines or zones of a drive.

use serde::{Deserialize, Serialize};

/// All lines or zones of a drive, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Kind of the places: `line` or `zone`.
    pub of: String,
    /// Neighbours that share an entry of `each`: 1 except on drives with very many places.
    pub per_entry: u64,
    /// One entry for each place, or for each group of `per_entry` neighbours.
    pub each: Vec<Place>,
}

/// One place, or a group of neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Share of valid data in thousandths. For a zone the written share, since only the host knows
    /// which of its data is valid.
    pub full: u64,
    /// Page programs of the drive since the place was closed; 0 for a zone, and for a place not
    /// closed.
    pub age: u64,
    /// State of the place: `free`, `open`, `closed` or `gone` (out of service).
    pub state: String,
}
