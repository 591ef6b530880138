//! Items of a trace besides strings and calls.
//!
//! One home of the tags and fields of both forms: the tag of a call is the number of its kind; all
//! other items but the end have tags from 128.

use super::super::field::{Field, FieldSink, FieldSource};
use super::super::{Call, Entry, EntryKind, Mode, Name, NodeKind, Thread, ThreadId};
use units::Ns;

/// Tag of the end of a trace.
pub(super) const END: u8 = 0;
/// Tag of a string; binary form only.
pub(super) const STRING: u8 = 128;
const ROOT: u8 = 129;
const COMMAND: u8 = 130;
const NOTE: u8 = 131;
const THREAD: u8 = 132;
const DIRECTORY: u8 = 133;
const FILE: u8 = 134;
const SYMLINK: u8 = 135;
const LINK: u8 = 136;
const NODE: u8 = 137;

/// Tags and their words in the text form.
const WORDS: &[(u8, &str)] = &[
    (END, "end"),
    (ROOT, "root"),
    (COMMAND, "command"),
    (NOTE, "note"),
    (THREAD, "thread"),
    (DIRECTORY, "setup-directory"),
    (FILE, "setup-file"),
    (SYMLINK, "setup-symlink"),
    (LINK, "setup-link"),
    (NODE, "setup-node"),
];

/// Tag of the item `word` in the text form.
pub(super) fn tag(word: &str) -> Option<u8> {
    WORDS.iter().find(|(_, it)| *it == word).map(|it| it.0)
}

/// Number of the kind of call named `word`.
pub(super) fn kind(word: &str) -> Option<u8> {
    Call::KINDS
        .iter()
        .find(|(_, it)| *it == word)
        .map(|it| it.0)
}

/// Item that is neither a string nor a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Directory that paths are relative to.
    Root(Name),
    /// Command that was recorded.
    Command(Name),
    /// Gap of the trace, as a sentence.
    Note(Name),
    /// Thread of the recording; threads are numbered from 0.
    Thread(Thread),
    /// Entry of the setup.
    Entry(Entry),
    /// End of the trace, with the number of its events.
    End(u64),
}

impl Item {
    /// Tag of the item.
    pub(super) const fn tag(&self) -> u8 {
        match self {
            Self::Root(_) => ROOT,
            Self::Command(_) => COMMAND,
            Self::Note(_) => NOTE,
            Self::Thread(_) => THREAD,
            Self::Entry(entry) => match entry.kind {
                EntryKind::Directory => DIRECTORY,
                EntryKind::File { .. } => FILE,
                EntryKind::Symlink { .. } => SYMLINK,
                EntryKind::Link { .. } => LINK,
                EntryKind::Node(_) => NODE,
            },
            Self::End(_) => END,
        }
    }

    /// Word of the item in the text form.
    pub(super) fn word(&self) -> &'static str {
        let found = WORDS.iter().find(|(tag, _)| *tag == self.tag());
        found.map_or("", |it| it.1)
    }

    /// Hands the fields of the item to `sink`.
    pub(super) fn put(&self, sink: &mut impl FieldSink) {
        match self {
            Self::Root(text) | Self::Command(text) | Self::Note(text) => sink.name("text", *text),
            Self::Thread(thread) => put_thread(thread, sink),
            Self::Entry(entry) => put_entry(entry, sink),
            Self::End(events) => sink.number("events", *events),
        }
    }

    /// Takes the item with `tag` from `source`; `None` if there is no such tag.
    pub(super) fn take<S: FieldSource>(tag: u8, source: &mut S) -> Result<Option<Self>, S::Error> {
        Ok(Some(match tag {
            END => Self::End(source.number("events", u64::MAX)?),
            ROOT => Self::Root(source.name("text")?),
            COMMAND => Self::Command(source.name("text")?),
            NOTE => Self::Note(source.name("text")?),
            THREAD => Self::Thread(take_thread(source)?),
            DIRECTORY..=NODE => Self::Entry(take_entry(tag, source)?),
            _ => return Ok(None),
        }))
    }
}

fn put_thread(thread: &Thread, sink: &mut impl FieldSink) {
    thread.process.put("process", sink);
    thread.pid.put("pid", sink);
    thread.tid.put("tid", sink);
    // The number of the parent plus one; 0 for no parent.
    let parent = thread.parent.map_or(0, |parent| u64::from(parent.0) + 1);
    sink.number("parent", parent);
    sink.number("born", thread.born.0);
    sink.name("program", thread.program);
}

fn take_thread<S: FieldSource>(source: &mut S) -> Result<Thread, S::Error> {
    Ok(Thread {
        process: u32::take("process", source)?,
        pid: u32::take("pid", source)?,
        tid: u32::take("tid", source)?,
        parent: parent(source.number("parent", u64::from(u32::MAX) + 1)?),
        born: Ns(source.number("born", u64::MAX)?),
        program: source.name("program")?,
    })
}

fn parent(number: u64) -> Option<ThreadId> {
    let id = number.checked_sub(1)?;
    u32::try_from(id).ok().map(ThreadId)
}

fn put_entry(entry: &Entry, sink: &mut impl FieldSink) {
    sink.name("path", entry.path);
    entry.mode.put("mode", sink);
    match entry.kind {
        EntryKind::Directory => {}
        EntryKind::File { size } => sink.number("size", size),
        EntryKind::Symlink { target } => sink.name("target", target),
        EntryKind::Link { to } => sink.name("to", to),
        EntryKind::Node(kind) => kind.put("kind", sink),
    }
}

fn take_entry<S: FieldSource>(tag: u8, source: &mut S) -> Result<Entry, S::Error> {
    let path = source.name("path")?;
    let mode = Mode::take("mode", source)?;
    let kind = match tag {
        FILE => EntryKind::File {
            size: source.number("size", u64::MAX)?,
        },
        SYMLINK => EntryKind::Symlink {
            target: source.name("target")?,
        },
        LINK => EntryKind::Link {
            to: source.name("to")?,
        },
        NODE => EntryKind::Node(NodeKind::take("kind", source)?),
        _ => EntryKind::Directory,
    };
    Ok(Entry { path, kind, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_words_map_to_tags_distinct_from_calls() {
        for (number, word) in WORDS {
            assert_eq!(tag(word), Some(*number));
            assert!(Call::KINDS.iter().all(|kind| kind.0 != *number));
        }
        assert!(Call::KINDS.iter().all(|kind| kind.0 < STRING));
        assert_eq!(kind("pwrite"), Some(6));
    }
}
