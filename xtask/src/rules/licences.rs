//! What others have written is under licences that let anybody use Flashloom as its own do.

use crate::tree::External;
use crate::{Finding, Tree};
use spdx::{Expression, LicenseReq, ParseMode};

/// Licences that ask for no more than their text beside copies.
const FREE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
const FILE: &str = "Cargo.lock";

/// Packages that give no such licence.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let wrong = tree.externals.iter().filter_map(|package| {
        let why = refusal(package)?;
        let line = tree.source(FILE).map_or(1, |lock| {
            lock.line_of(&format!("name = \"{}\"", package.name))
        });
        let what = format!("`{}` {why}", package.name);
        let remedy = "take another crate, or add the licence to xtask/src/rules/licences.rs with a \
                      reason";
        Some(Finding::new(FILE, line, what, remedy))
    });
    wrong.collect()
}

fn refusal(package: &External) -> Option<String> {
    let Some(text) = &package.license else {
        return Some("names no licence".to_owned());
    };
    let Ok(expression) = Expression::parse_mode(text, ParseMode::LAX) else {
        return Some(format!("has a licence that is none: {text}"));
    };
    let free = |asked: &LicenseReq| {
        let id = asked.license.id();
        id.is_some_and(|id| FREE.contains(&id.name))
    };
    (!expression.evaluate(free)).then(|| format!("is under {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(license: Option<&str>) -> usize {
        let package = External {
            name: "a".to_owned(),
            license: license.map(str::to_owned),
        };
        let tree = Tree {
            externals: vec![package],
            ..Tree::default()
        };
        find(&tree).len()
    }

    #[test]
    fn one_free_choice_is_enough_and_every_part_has_to_be() {
        let free = [
            "MIT",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "MIT OR LGPL-2.1-or-later",
        ];
        for text in free {
            assert_eq!(found(Some(text)), 0, "{text}");
        }
        for text in ["GPL-3.0-only", "MIT AND GPL-2.0-only", "free as in beer"] {
            assert_eq!(found(Some(text)), 1, "{text}");
        }
        assert_eq!(found(None), 1);
    }
}
