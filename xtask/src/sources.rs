//! Report of the sections of each source, with the places that implement and test them.

use crate::Tree;
use crate::rules::citations::{self, Citation};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The report of `cargo xtask sources`.
#[must_use]
pub fn report(tree: &Tree) -> String {
    let cited = citations::all(tree);
    let mut out = String::new();
    for (key, title) in citations::known(tree) {
        let mine: Vec<_> = cited.iter().filter(|c| c.key == key).collect();
        let _ = writeln!(out, "{key}: {title}");
        if mine.is_empty() {
            let _ = writeln!(out, "    not cited yet");
        }
        for (section, places) in by_section(&mine) {
            let _ = writeln!(out, "    {section}");
            places.write(&mut out);
        }
    }
    out
}

/// Places that cite one section.
#[derive(Default)]
struct Places<'a> {
    built: Vec<&'a Citation>,
    tested: Vec<&'a Citation>,
}

impl Places<'_> {
    fn write(&self, out: &mut String) {
        for (verb, list) in [("built", &self.built), ("tested", &self.tested)] {
            if list.is_empty() {
                let _ = writeln!(out, "        not {verb}");
            }
            for c in list {
                let _ = writeln!(out, "        {verb} in {}:{}", c.path, c.line);
            }
        }
    }
}

fn by_section<'a>(citations: &[&'a Citation]) -> Vec<(&'a str, Places<'a>)> {
    let mut sections: BTreeMap<_, Places<'a>> = BTreeMap::new();
    for citation in citations {
        let key = (numbers(&citation.section), citation.section.as_str());
        let places = sections.entry(key).or_default();
        let list = if citation.test {
            &mut places.tested
        } else {
            &mut places.built
        };
        list.push(citation);
    }
    let sections = sections.into_iter();
    sections.map(|((_, name), places)| (name, places)).collect()
}

/// Numbers of a section, for sorting: 4.10 comes after 4.9; words come last.
fn numbers(section: &str) -> Vec<u32> {
    let parts = section.split('.');
    parts.map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Source;

    #[test]
    fn report_lists_sections_in_order_with_places() {
        let code = "//= a 4.10\nfn f() {}\n#[cfg(test)]\nmod tests {\n//= a 4.9\n}\n";
        let tree = Tree {
            sources: vec![
                Source::new("core/ssd/src/lib.rs", code),
                Source::new(citations::PAGE, "| `a` | A title |\n| `b` | B title |\n"),
            ],
            ..Tree::default()
        };
        let expected = "\
a: A title
    4.9
        not built
        tested in core/ssd/src/lib.rs:5
    4.10
        built in core/ssd/src/lib.rs:1
        not tested
b: B title
    not cited yet
";
        assert_eq!(report(&tree), expected);
    }
}
