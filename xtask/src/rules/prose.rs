//! Comments and pages are written in plain English, and the counts of its violations only fall.
//!
//! `xtask/ratchet.toml` holds the maxima of three counts over Rust, scripts, manifests and
//! Markdown. Each counts a habit that makes a sentence hard to read at first sight: people in place
//! of components, a doc comment that opens without its subject, and a doc comment that says no more
//! than the name below it.

use super::ratchet::{self, FILE};
use crate::tree::Source;
use crate::{Finding, Tree};
use serde::Deserialize;

/// Words for people, used in place of components.
const PEOPLE: [&str; 4] = ["who", "whom", "nobody", "somebody"];

/// First words of a doc comment that hide its subject.
const HEADLESS: [&str; 11] = [
    "What", "Who", "Whoever", "Whom", "Whose", "Where", "Those", "Of", "That", "How", "When",
];

/// Largest number of words of a one-line doc comment that counts as short.
const SHORT: usize = 3;

/// Occurrences of each habit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Words of `PEOPLE` in comments and Markdown.
    pub people: usize,
    /// Doc comments whose first word is in `HEADLESS`.
    pub headless_docs: usize,
    /// Doc comments of one line and at most `SHORT` words.
    pub short_docs: usize,
}

impl Counts {
    fn named(self) -> [(&'static str, usize); 3] {
        [
            ("people", self.people),
            ("headless_docs", self.headless_docs),
            ("short_docs", self.short_docs),
        ]
    }
}

/// Remedy for each of [`Counts::named`].
const REMEDIES: [&str; 3] = [
    "name the component that acts: \"a read that joins a fetch\", not \"who joins a fetch\"",
    "open with the subject: \"Bytes that the host wrote\", not \"What the host wrote\"",
    "say its unit, range or effect, or leave the comment out if the item is private",
];

#[derive(Deserialize)]
struct Document {
    prose: Counts,
}

/// Counts each habit over `sources`.
#[must_use]
pub fn measure(sources: &[Source]) -> Counts {
    let mut counts = Counts::default();
    for source in sources {
        counts.add(source);
    }
    counts
}

impl Counts {
    fn add(&mut self, source: &Source) {
        let Some(mark) = comment_mark(&source.path) else {
            return;
        };
        let prose = source.text.lines().map(str::trim_start);
        let prose = prose.filter(|line| line.starts_with(mark));
        self.people += prose.map(people).sum::<usize>();
        if source.code.is_some() {
            self.add_docs(&source.text);
        }
    }

    fn add_docs(&mut self, text: &str) {
        let mut block = Vec::new();
        for line in text.lines().chain([""]) {
            if let Some(doc) = line.trim_start().strip_prefix("///") {
                block.push(doc);
            } else if let Some(first) = block.first() {
                let mut words = first.split_whitespace();
                self.headless_docs += usize::from(words.next().is_some_and(is_headless));
                let short = block.len() == 1 && first.split_whitespace().count() <= SHORT;
                self.short_docs += usize::from(short);
                block.clear();
            }
        }
    }
}

/// Prefix of the lines of prose in a file of this name; empty for Markdown, where every line is
/// prose. `None` for files of other languages.
fn comment_mark(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    match ending {
        "md" => Some(""),
        "rs" | "c" => Some("//"),
        "sh" | "py" | "toml" => Some("#"),
        _ => None,
    }
}

fn people(line: &str) -> usize {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_person = |word: &&str| {
        PEOPLE
            .iter()
            .any(|person| word.eq_ignore_ascii_case(person))
    };
    words.filter(is_person).count()
}

fn is_headless(word: &str) -> bool {
    HEADLESS.contains(&word.trim_matches(|c: char| !c.is_alphabetic()))
}

/// `text` of the ratchet's file with the maxima of prose lowered to `measured`, never raised.
///
/// # Errors
/// A sentence, if the text has no maxima of prose.
pub fn lowered(text: &str, measured: Counts) -> Result<String, String> {
    let max = parse(text)?;
    let pairs = max.named().into_iter().zip(measured.named());
    let values: Vec<_> = pairs
        .map(|((name, max), (_, measured))| (name, max.min(measured)))
        .collect();
    Ok(ratchet::with_values(text, "[prose]", &values))
}

fn parse(text: &str) -> Result<Counts, String> {
    let document: Result<Document, _> = toml::from_str(text);
    let document = document.map_err(|error| error.message().to_owned())?;
    Ok(document.prose)
}

/// Counts above their maxima, and maxima above their counts.
#[must_use]
pub fn find(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.source(FILE) else {
        return Vec::new();
    };
    let max = match parse(&file.text) {
        Ok(max) => max,
        Err(why) => return vec![Finding::new(FILE, 1, why, "restore the file")],
    };
    let measured = measure(&tree.sources).named().into_iter();
    let rows = measured.zip(max.named()).zip(REMEDIES);
    let findings = rows.filter_map(|(((name, measured), (_, max)), remedy)| {
        let line = file.line_of(&format!("{name} = "));
        if measured > max {
            let what = format!("{name} has risen from {max} to {measured}");
            return Some(Finding::new(FILE, line, what, remedy));
        }
        let what = format!("{name} = {max} is looser than needed, {measured} would do");
        let remedy = "run `cargo xtask ratchet` and commit the file";
        (measured < max).then(|| Finding::new(FILE, line, what, remedy))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(path: &str, text: &str) -> Counts {
        measure(&[Source::new(path, text)])
    }

    #[test]
    fn people_count_only_in_comments_and_markdown() {
        let rust = "// Who asks, and whom.\nfn f() { let who = \"nobody\"; }\n";
        assert_eq!(counts("a.rs", rust).people, 2);
        assert_eq!(counts("a.md", "Nobody\nsomebody's").people, 2);
        assert_eq!(counts("a.sh", "# nobody\nwho\n").people, 1);
        assert_eq!(counts("a.html", "who").people, 0);
        assert_eq!(counts("a.md", "whole who_is whoever").people, 0);
    }

    #[test]
    fn headless_docs_open_without_a_subject() {
        let text = "/// What it is.\nfn f() {}\n/// `What` of it,\n/// How.\nfn g() {}\n\
                    /// The page.\n/// Where it is.\nfn h() {}\n// What.\n";
        assert_eq!(counts("a.rs", text).headless_docs, 2);
    }

    #[test]
    fn short_docs_have_one_line_of_three_words() {
        let text = "/// All of them.\nA\n/// One, two, three, four.\nB\n/// Two\n/// lines.\nC\n";
        assert_eq!(counts("a.rs", text).short_docs, 1);
        assert_eq!(counts("a.md", text).short_docs, 0);
    }

    const TEXT: &str = "[prose]\npeople = 1\nheadless_docs = 1\nshort_docs = 1\n";

    fn messages(code: &str) -> Vec<String> {
        let sources = vec![Source::new(FILE, TEXT), Source::new("a.rs", code)];
        let tree = Tree {
            sources,
            ..Tree::default()
        };
        find(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn risen_and_fallen_counts_are_found() {
        let level = "/// Who is it?\nA\n/// What is it, then?\nB\n";
        let found = messages(level);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("headless_docs has risen from 1 to 2"));
        let found = messages("/// What is it?\nA\n");
        assert!(found[0].contains("people = 1 is looser than needed, 0 would do"));
    }

    #[test]
    fn maxima_are_lowered_and_never_raised() {
        let measured = Counts {
            people: 0,
            headless_docs: 9,
            short_docs: 1,
        };
        let wanted = TEXT.replace("people = 1", "people = 0");
        assert_eq!(lowered(TEXT, measured), Ok(wanted));
    }
}
