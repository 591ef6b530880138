//! Words that do not belong in the project.
//!
//! Unfinished work is finished, or left out and listed in the book; dead code is removed; a skipped
//! test proves nothing. Each word is concatenated from halves, so that this file does not contain
//! it.

use crate::tree::Source;
use crate::{Finding, Tree};

/// Notes of unfinished work: whole words that no code file may contain.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Ways around the compiler and the tests: strings that no Rust file may contain.
const DETOURS: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ig", "nore"),
    concat!("dead", "_code"),
];

const FINISH: &str = "finish it, or leave it out and list it in docs/book/src/limits.md";

/// Lines with a word that does not belong.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(in_source).collect()
}

fn in_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        let hits = hits(&source.path, line);
        findings.extend(hits.map(|(word, remedy)| {
            let what = format!("`{word}` does not belong here");
            Finding::new(&source.path, number, what, remedy)
        }));
    }
    findings
}

fn hits<'a>(path: &str, line: &'a str) -> impl Iterator<Item = (&'static str, &'static str)> + 'a {
    let code = [".rs", ".toml", ".sh", ".py", ".c", ".ci/run"];
    let code = code.iter().any(|end| path.ends_with(end));
    let rust = path.ends_with(".rs");
    let notes = UNFINISHED.iter().map(|&word| (word, FINISH));
    let detours = DETOURS.iter().map(|&word| (word, FINISH));
    let notes = notes.filter(move |(word, _)| code && has_word(line, word));
    let detours = detours.filter(move |(word, _)| rust && line.contains(word));
    notes.chain(detours)
}

fn has_word(line: &str, word: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        in_source(&Source::new(path, text)).len()
    }

    #[test]
    fn each_word_is_found_with_its_line() {
        for word in UNFINISHED.iter().chain(DETOURS) {
            let text = format!("fn a() {{}}\n// {word}: b\n");
            let found = in_source(&Source::new("core/sim/src/lib.rs", &text));
            assert_eq!(found.len(), 1, "{word}");
            assert_eq!(found[0].line, 2, "{word}");
        }
    }

    #[test]
    fn notes_match_whole_words_of_code_only() {
        let note = UNFINISHED[2];
        assert_eq!(count("a.rs", &format!("// mktemp {note}{note}")), 0);
        assert_eq!(count("CONTRIBUTING.md", &format!("no {note}")), 0);
    }
}
