//! The house rules. Each is a function from values to findings.

pub mod bans;
pub mod citations;
pub mod licences;
pub mod manifests;
pub mod map;
pub mod prose;
pub mod ratchet;
pub mod storeys;
pub mod syntax;
pub mod words;

use crate::{Finding, Tree};

/// A rule: its name in reports, and its function.
pub struct Rule {
    /// Name in reports: short, and plural where possible.
    pub name: &'static str,
    /// Returns one finding for each violation.
    pub find: fn(&Tree) -> Vec<Finding>,
}

/// Every rule, in the order in which they are reported.
pub const ALL: &[Rule] = &[
    Rule {
        name: "files parse",
        find: syntax::find,
    },
    Rule {
        name: "dependencies point down",
        find: storeys::find,
    },
    Rule {
        name: "banned paths",
        find: bans::find,
    },
    Rule {
        name: "lints of the workspace",
        find: manifests::find,
    },
    Rule {
        name: "lengths",
        find: ratchet::find,
    },
    Rule {
        name: "prose",
        find: prose::find,
    },
    Rule {
        name: "map of the crates",
        find: map::find,
    },
    Rule {
        name: "unfinished work and detours",
        find: words::find,
    },
    Rule {
        name: "licences",
        find: licences::find,
    },
    Rule {
        name: "citations",
        find: citations::find,
    },
];

/// Findings of every rule, sorted by place, without duplicates.
#[must_use]
pub fn find_all(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = ALL.iter().flat_map(|rule| (rule.find)(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}
