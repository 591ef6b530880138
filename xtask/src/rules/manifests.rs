//! Every crate inherits the lints of the workspace, which forbid unsafe code.

use crate::tree::Source;
use crate::{Finding, Tree};
use toml::{Table, Value};

/// Manifests without the lints of the workspace.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let manifests = tree
        .sources
        .iter()
        .filter(|s| s.path.ends_with("Cargo.toml"));
    manifests.filter_map(check).collect()
}

fn check(source: &Source) -> Option<Finding> {
    let table: Table = match source.text.parse() {
        Ok(table) => table,
        Err(error) => return Some(unreadable(source, &error)),
    };
    let (found, what, remedy) = match table.get("workspace") {
        Some(workspace) => (
            at(workspace, &["lints", "rust", "unsafe_code"]).and_then(Value::as_str)
                == Some("forbid"),
            "unsafe code is not forbidden",
            "write `unsafe_code = \"forbid\"` under [workspace.lints.rust]",
        ),
        None if source.path == UNSAFE_ALLOWED => (
            at_table(&table, &["lints", "rust", "unsafe_code"]) == Some("deny"),
            "unsafe code is neither forbidden nor denied",
            "write `unsafe_code = \"deny\"` under [lints.rust]; one module lifts it and says why",
        ),
        None if UNSAFE_EXPLAINED.contains(&source.path.as_str()) => (
            at_table(&table, &["lints", "clippy", "undocumented_unsafe_blocks"]) == Some("warn"),
            "unsafe blocks need not say why they are sound",
            "write `undocumented_unsafe_blocks = \"warn\"` under [lints.clippy]",
        ),
        None => (
            table
                .get("lints")
                .and_then(|lints| at(lints, &["workspace"])?.as_bool())
                == Some(true),
            "the lints of the workspace do not hold here",
            "add the section [lints] with `workspace = true`",
        ),
    };
    (!found).then(|| Finding::new(&source.path, source.line_of("lints"), what, remedy))
}

/// The one crate in which a module may lift the ban on unsafe code: the time kernel, where
/// measurements justify it.
const UNSAFE_ALLOWED: &str = "core/sim/Cargo.toml";

/// Crates that consist of unsafe functions: the library between a program and the C library, and the
/// library of C programs. Each unsafe block explains why it is sound.
const UNSAFE_EXPLAINED: [&str; 2] = ["front/shim/Cargo.toml", "front/capi/Cargo.toml"];

fn at_table<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    at(table.get(*first)?, rest)?.as_str()
}

fn unreadable(source: &Source, error: &toml::de::Error) -> Finding {
    let what = format!("not a manifest: {}", error.message());
    Finding::new(&source.path, 1, what, "fix the syntax")
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(text: &str) -> bool {
        check(&Source::new("core/a/Cargo.toml", text)).is_some()
    }

    #[test]
    fn crate_without_workspace_lints_is_found() {
        assert!(finds("[package]\nname = \"a\"\n"));
        assert!(finds("[lints]\nworkspace = false\n"));
        assert!(finds("[lints.rust]\nunsafe_code = \"allow\"\n"));
        assert!(!finds("[lints]\nworkspace = true\n"));
    }

    #[test]
    fn time_kernel_may_deny_instead_of_forbid() {
        let finds = |text: &str| check(&Source::new(UNSAFE_ALLOWED, text)).is_some();
        assert!(!finds("[lints.rust]\nunsafe_code = \"deny\"\n"));
        assert!(finds("[lints.rust]\nunsafe_code = \"warn\"\n"));
        assert!(finds("[package]\nname = \"sim\"\n"));
    }

    #[test]
    fn libraries_of_c_functions_must_explain_unsafe_blocks() {
        for path in UNSAFE_EXPLAINED {
            let finds = |text: &str| check(&Source::new(path, text)).is_some();
            assert!(!finds(
                "[lints.clippy]\nundocumented_unsafe_blocks = \"warn\"\n"
            ));
            assert!(finds("[lints.rust]\nunsafe_code = \"allow\"\n"));
        }
    }

    #[test]
    fn workspace_that_allows_unsafe_code_is_found() {
        assert!(finds("[workspace.lints.rust]\nunsafe_code = \"deny\"\n"));
        assert!(finds("[workspace]\n"));
        assert!(!finds("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
    }
}
