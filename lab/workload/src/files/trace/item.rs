//! What a trace is made of besides strings and calls.
//!
//! One home of the tags and fields of both forms: a call has the number of its
//! kind as tag, all others have tags from 129.

use super::super::field::{Field, FieldSink, FieldSource};
use super::super::{Call, Entry, EntryKind, Mode, Name, NodeKind, Thread, ThreadId};
use units::Ns;

/// Ends a trace.
pub(super) const END: u8 = 0;
/// A string, in the binary form.
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

/// Tags and the words that stand for them in texts.
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

/// The tag that `word` stands for.
pub(super) fn tag(word: &str) -> Option<u8> {
    WORDS.iter().find(|(_, it)| *it == word).map(|it| it.0)
}

/// The number of the kind of call that is called `word`.
pub(super) fn kind(word: &str) -> Option<u8> {
    Call::KINDS
        .iter()
        .find(|(_, it)| *it == word)
        .map(|it| it.0)
}

/// One item that is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The directory that paths are relative to.
    Root(Name),
    /// The command that was recorded.
    Command(Name),
    /// What the trace lacks.
    Note(Name),
    /// A thread; they are numbered from 0.
    Thread(Thread),
    /// A part of the setup.
    Entry(Entry),
    /// The end, and how many events there were.
    End(u64),
}

impl Item {
    /// Its tag.
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

    /// The word that stands for it in texts.
    pub(super) fn word(&self) -> &'static str {
        let found = WORDS.iter().find(|(tag, _)| *tag == self.tag());
        found.map_or("", |it| it.1)
    }

    /// Hands its fields to `sink`.
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
    // One more than the number of the parent, so that 0 is none.
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
    fn words_stand_for_tags_and_no_tag_is_a_kind_of_call() {
        for (number, word) in WORDS {
            assert_eq!(tag(word), Some(*number));
            assert!(Call::KINDS.iter().all(|kind| kind.0 != *number));
        }
        assert!(Call::KINDS.iter().all(|kind| kind.0 < STRING));
        assert_eq!(kind("pwrite"), Some(6));
    }
}
