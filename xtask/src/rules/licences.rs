//! Third-party packages have licences that permit the uses that Flashloom's own licence permits.
//!
//! `deny.toml` lists these licences once, for this rule and for `cargo xtask deny`.

use crate::tree::External;
use crate::{Finding, Tree};
use spdx::{Expression, LicenseReq, ParseMode};
use toml::{Table, Value};

const FILE: &str = "Cargo.lock";
const LIST: &str = "deny.toml";

/// Packages without an allowed licence.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let text = tree.source(LIST).map_or("", |file| &file.text);
    let Some(free) = free(text) else {
        let what = "names no licences".to_owned();
        return vec![Finding::new(
            LIST,
            1,
            what,
            "list them, as `allow` of `[licenses]`",
        )];
    };
    let wrong = tree.externals.iter().filter_map(|package| {
        let why = refusal(package, &free)?;
        let line = tree.source(FILE).map_or(1, |lock| {
            lock.line_of(&format!("name = \"{}\"", package.name))
        });
        let what = format!("`{}` {why}", package.name);
        let remedy = "take another crate, or add the licence to deny.toml with a reason";
        Some(Finding::new(FILE, line, what, remedy))
    });
    wrong.collect()
}

/// Names of the licences that `text` allows, without exceptions: an exception only adds
/// permissions.
fn free(text: &str) -> Option<Vec<String>> {
    let file: Table = text.parse().ok()?;
    let names = file.get("licenses")?.get("allow")?.as_array()?;
    let names = names.iter().filter_map(Value::as_str);
    let plain = |name: &str| name.split(" WITH ").next().unwrap_or(name).to_owned();
    Some(names.map(plain).collect())
}

fn refusal(package: &External, free: &[String]) -> Option<String> {
    let Some(text) = &package.license else {
        return Some("names no licence".to_owned());
    };
    let Ok(expression) = Expression::parse_mode(text, ParseMode::LAX) else {
        return Some(format!("has a licence that is none: {text}"));
    };
    let free = |asked: &LicenseReq| {
        let id = asked.license.id();
        id.is_some_and(|id| free.iter().any(|name| name == id.name))
    };
    (!expression.evaluate(free)).then(|| format!("is under {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Source;

    fn found(license: Option<&str>) -> usize {
        let package = External {
            name: "a".to_owned(),
            license: license.map(str::to_owned),
        };
        let list =
            "[licenses]\nallow = [\"MIT\", \"Apache-2.0 WITH LLVM-exception\", \"Unicode-3.0\"]";
        let tree = Tree {
            sources: vec![Source::new(LIST, list)],
            externals: vec![package],
            ..Tree::default()
        };
        find(&tree).len()
    }

    #[test]
    fn expression_needs_one_allowed_choice_and_all_parts() {
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

    #[test]
    fn missing_list_is_found() {
        assert_eq!(find(&Tree::default()).len(), 1);
    }
}
