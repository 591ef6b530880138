//! The policy that named the placement handles of a run, and the number of handles used.

use serde::{Deserialize, Serialize};

/// The placement of a run on a drive with several handles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The source of the handles: `own` (the workload), `none`, `origin` (one for each process),
    /// `auto` (by access pattern), `hints` (lifetimes of files), `logs` (those of F2FS), `rules`
    /// (of Parakeet), or the name of a caller's policy.
    pub policy: String,
    /// Handles of the drive, over all reclaim groups.
    pub handles: u16,
    /// Handles that the host wrote through.
    pub used: u16,
}

impl Placement {
    /// Whether data could be kept apart: the host wrote through more than one handle.
    #[must_use]
    pub const fn separates(&self) -> bool {
        self.used > 1
    }

    /// The policy and the handles used, for a line of a table.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}, {} of {} handles", self.policy, self.used, self.handles)
    }
}
