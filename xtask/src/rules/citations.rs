//! A citation links code to the clause of its source.
//!
//! Form: a comment line of its own, `//= KEY SECTION`, beside the code that implements or tests the
//! clause. KEY is a row of the table in `docs/SOURCES.md`; SECTION is a number such as `4.3`, or
//! `table 2`, `fig 5`, `alg 1`, `eq 3`, `app A`.

use crate::tree::Source;
use crate::{Finding, Tree};

/// Path of the page with the table of sources.
pub const PAGE: &str = "docs/SOURCES.md";

const PREFIX: &str = "//=";

/// One citation in a Rust file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Key of the source.
    pub key: String,
    /// Section of the source, as written.
    pub section: String,
    /// Path of the citing file.
    pub path: String,
    /// Number of the citing line, from 1.
    pub line: usize,
    /// Whether the line is test code.
    pub test: bool,
}

/// The known sources: key and title, in the order of the page.
#[must_use]
pub fn known(tree: &Tree) -> Vec<(String, String)> {
    let page = tree.source(PAGE).into_iter();
    let rows = page.flat_map(Source::lines).filter_map(|(_, line)| {
        let (key, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let title = rest.split(" |").next()?;
        Some((key.to_owned(), title.trim().to_owned()))
    });
    rows.collect()
}

/// Every citation, well formed or not, in the order of the files.
#[must_use]
pub fn all(tree: &Tree) -> Vec<Citation> {
    let rust = tree.sources.iter().filter(|source| source.code.is_some());
    rust.flat_map(in_source).collect()
}

fn in_source(source: &Source) -> impl Iterator<Item = Citation> {
    source.lines().filter_map(|(line, text)| {
        let cited = text.trim_start().strip_prefix(PREFIX)?.trim();
        let (key, section) = cited.split_once(' ').unwrap_or((cited, ""));
        Some(Citation {
            key: key.to_owned(),
            section: section.to_owned(),
            path: source.path.clone(),
            line,
            test: source.is_test(line),
        })
    })
}

/// Citations of unknown sources, or without a valid section.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let known = known(tree);
    let wrong = |c: &Citation| {
        if known.iter().all(|(key, _)| *key != c.key) {
            let what = format!("`{}` is no known source", c.key);
            let remedy = "use a key of docs/SOURCES.md, or add the source to its table";
            Some(Finding::new(&c.path, c.line, what, remedy))
        } else if !is_section(&c.section) {
            let what = format!("`{}` is no section", c.section);
            let remedy = "write `//= KEY 4.3`, or `table 2`, `fig 5`, `alg 1`, `eq 3`, `app A`";
            Some(Finding::new(&c.path, c.line, what, remedy))
        } else {
            None
        }
    };
    all(tree).iter().filter_map(wrong).collect()
}

fn is_section(text: &str) -> bool {
    let parts = ["table ", "fig ", "alg ", "eq ", "app "];
    let number = parts.iter().find_map(|part| text.strip_prefix(part));
    let number = number.unwrap_or(text);
    let part = |p: &str| !p.is_empty() && p.chars().all(|c| c.is_ascii_alphanumeric());
    let has_start = number.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
    has_start && number.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| key | source |\n| --- | --- |\n| `bytefs` | A paper, 2025 | x |\n";

    fn tree(code: &str) -> Tree {
        let sources = vec![
            Source::new(PAGE, TABLE),
            Source::new("core/ssd/src/a.rs", code),
        ];
        Tree {
            sources,
            ..Tree::default()
        }
    }

    #[test]
    fn source_table_gives_keys_and_titles() {
        let known = known(&tree(""));
        assert_eq!(known, [("bytefs".to_owned(), "A paper, 2025".to_owned())]);
    }

    #[test]
    fn well_formed_citations_pass() {
        for section in ["4.3", "4", "5.16.1", "table 2", "alg 1", "app A", "A.2"] {
            let code = format!("    //= bytefs {section}\n");
            assert_eq!(find(&tree(&code)), [], "{section}");
        }
    }

    #[test]
    fn unknown_sources_and_bad_sections_are_caught() {
        for cited in [
            "unknown 4.3",
            "bytefs",
            "bytefs 4..3",
            "bytefs the log",
            "bytefs 4.3 log",
        ] {
            let found = find(&tree(&format!("fn a() {{}}\n//= {cited}\n")));
            assert_eq!(found.len(), 1, "{cited}");
            assert_eq!(found[0].line, 2, "{cited}");
        }
    }

    #[test]
    fn citations_in_tests_are_recognised() {
        let code = "//= bytefs 4.3\nfn a() {}\n#[cfg(test)]\nmod tests {\n    //= bytefs 4.3\n}\n";
        let tests: Vec<_> = all(&tree(code)).iter().map(|c| c.test).collect();
        assert_eq!(tests, [false, true]);
    }
}
