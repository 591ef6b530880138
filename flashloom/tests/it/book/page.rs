//! Pages as mdBook reads them: with includes expanded, then code blocks, links and headings.
//!
//! A fence with ``sh`` is run; one with ``sh not-run`` is not, and the paragraph before it says so.
//! A fence with ``text`` after one that is run shows its output.

use std::fs;
use std::path::{Path, PathBuf};

/// Root folder of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folder of the pages.
pub(super) fn source() -> PathBuf {
    root().join("docs/book/src")
}

/// One page with its includes expanded.
pub(super) struct Page {
    /// Path relative to [`source`].
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced code block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Line of the fence in the expanded page, from 1.
    pub(super) line: usize,
    /// Text after the opening fence.
    pub(super) info: String,
    pub(super) text: String,
    /// The paragraph before the block; empty if another block precedes it.
    pub(super) before: String,
}

impl Page {
    /// Opens the page `name`.
    pub(super) fn open(name: &str) -> Self {
        let path = source().join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let folder = path.parent().expect("a file is in a folder");
        let lines = text.lines().map(|line| included(name, folder, line));
        Self {
            name: name.to_owned(),
            text: lines.collect::<Vec<_>>().join("\n"),
        }
    }

    /// All pages, in the order of the table of contents.
    pub(super) fn all() -> Vec<Self> {
        let contents = Self::open("SUMMARY.md");
        let names = contents.links();
        names.iter().map(|(_, name)| Self::open(name)).collect()
    }

    /// All fenced blocks of the page.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        let mut before = String::new();
        for (i, line) in self.text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(info)) => {
                    open = Some(Block {
                        line: i + 1,
                        info: info.trim().to_owned(),
                        text: String::new(),
                        before: std::mem::take(&mut before),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => block.text += &format!("{line}\n"),
                (None, None) => prose(&mut before, line),
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.name);
        blocks
    }

    /// The lines outside fenced blocks, numbered from 1.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut fenced = false;
        let lines = self.text.lines().enumerate();
        let outside = lines.filter(|(_, line)| {
            let fence = line.starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        });
        outside.map(|(i, line)| (i + 1, line)).collect()
    }

    /// The target of each link, with its line number.
    pub(super) fn links(&self) -> Vec<(usize, String)> {
        let targets = |(i, line): (usize, &str)| {
            let parts: Vec<_> = line.split("](").skip(1).collect();
            let target = |part: &str| Some((i, part.split_once(')')?.0.to_owned()));
            parts.into_iter().filter_map(target).collect::<Vec<_>>()
        };
        self.prose().into_iter().flat_map(targets).collect()
    }

    /// Anchors that mdBook gives to the headings.
    pub(super) fn headings(&self) -> Vec<String> {
        let prose = self.prose();
        let titles = prose.iter().filter(|(_, line)| line.starts_with('#'));
        titles
            .map(|(_, line)| slug(line.trim_start_matches('#').trim()))
            .collect()
    }

    /// Words in backquotes, with their line numbers.
    pub(super) fn words(&self) -> Vec<(usize, &str)> {
        let quoted = |line| str::split(line, '`').skip(1).step_by(2);
        let prose = self.prose().into_iter();
        let words = prose.flat_map(|(i, line)| quoted(line).map(move |word| (i, word)));
        words.collect()
    }
}

/// Appends a line to a paragraph, or starts a new one after an empty line.
fn prose(paragraph: &mut String, line: &str) {
    let (ended, empty) = (paragraph.ends_with('\n'), line.trim().is_empty());
    match (ended, empty) {
        (false, true) if !paragraph.is_empty() => paragraph.push('\n'),
        (_, true) => {}
        (true, false) => *paragraph = line.to_owned(),
        (false, false) => *paragraph += &format!(" {line}"),
    }
}

/// `line` of a page in `folder`, or the file that it includes, or the part of that between `ANCHOR:
/// name` and `ANCHOR_END: name`.
fn included(page: &str, folder: &Path, line: &str) -> String {
    let directive = line.strip_prefix("{{#include ");
    let Some(what) = directive.and_then(|rest| rest.strip_suffix("}}")) else {
        return line.to_owned();
    };
    let (file, anchor) = what.split_once(':').unwrap_or((what, ""));
    let text = fs::read_to_string(folder.join(file));
    let text = text.unwrap_or_else(|e| panic!("{page}: {file}: {e}"));
    let begin = format!("<!-- ANCHOR: {anchor} -->");
    let end = format!("<!-- ANCHOR_END: {anchor} -->");
    let lines = text.lines().filter(|line| !line.contains("<!-- ANCHOR"));
    if anchor.is_empty() {
        return lines.collect::<Vec<_>>().join("\n");
    }
    let part = text
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end));
    let (part, _) = part.unwrap_or_else(|| panic!("{page}: {file} has no anchor {anchor}"));
    part.trim_matches('\n').to_owned()
}

/// A heading as an anchor.
fn slug(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " _-".contains(*c));
    kept.map(|c| match c {
        ' ' => '-',
        c => c.to_ascii_lowercase(),
    })
    .collect()
}
