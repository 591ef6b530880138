//! How full and how old the places of a drive are.

use serde::{Deserialize, Serialize};

/// Lines of a drive, or its zones, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// What they are: `line` or `zone`.
    pub of: String,
    /// How many neighbours share an entry of `each`: 1 but for drives of very many.
    pub per_entry: u64,
    /// The entries.
    pub each: Vec<Place>,
}

/// One of them, or some neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How much of it is valid, in thousandths; of a zone how much is written, since what
    /// of that is still needed the host knows alone.
    pub full: u64,
    /// Programs of the drive since it was closed; 0 of a zone, and of what is not closed.
    pub age: u64,
    /// `free`, `open`, `closed` or `gone`.
    pub state: String,
}
