//! A page that the medium has lost is counted for the medium, and excuses nothing else.

use crash::{Attributes, Chronicle, Fault, Leads, Scribe, Seen, Shown};
use nand::Payload;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer, PAGE, Source};

const ROOT: Ino = Ino(2);
const PAGES: usize = 3;

/// Pattern that fills the file `ino`.
const fn pattern(ino: Ino) -> u64 {
    ino.0 * 0x0101_0101_0101_0101
}

/// A history in which the files `a` and `b`, of three pages each, were written and forced.
fn history() -> Rc<RefCell<Chronicle>> {
    let history = Rc::new(RefCell::new(Chronicle::default()));
    let scribe = Scribe::new(Rc::clone(&history));
    for (name, ino) in [(b"a", Ino(10)), (b"b", Ino(11))] {
        {
            let mut history = history.borrow_mut();
            let leads = Leads::New(FileKind::Regular, b"");
            let ticket = history.begin_names(&[(ROOT, name, leads)]);
            history.made(ino, FileKind::Regular, b"");
            history.end_names(ticket, &[(ROOT, name, Some(ino))]);
        }
        let (pattern, len) = (pattern(ino), PAGES as u64 * PAGE);
        let source = Source::Fill { pattern, len };
        let offset = 0;
        let write = scribe.begins(&Act::Write {
            ino,
            offset,
            source,
        });
        scribe.ends(write, Some(len));
        let force = scribe.begins(&Act::ForceAll);
        scribe.ends(force, Some(0));
    }
    history
}

fn seen(ino: Ino) -> Seen {
    Seen {
        ino,
        kind: FileKind::Regular,
        size: PAGES as u64 * PAGE,
        pages: vec![Payload::Fill(pattern(ino)); PAGES],
        target: Vec::new(),
        attributes: Attributes::default(),
    }
}

/// Kinds of the faults of a tree that has `a` and, if it is some, `b`.
fn faults(a: Seen, b: Option<Seen>) -> Vec<Fault> {
    let mut shown = Shown::default();
    shown.add(ROOT, b"a", a);
    if let Some(b) = b {
        shown.add(ROOT, b"b", b);
    }
    let history = history();
    let judged = history.borrow().judge(&shown);
    judged.into_iter().map(|(fault, _)| fault).collect()
}

#[test]
fn lost_page_counts_for_the_medium() {
    let (mut a, b) = (seen(Ino(10)), seen(Ino(11)));
    assert_eq!(faults(a.clone(), Some(b.clone())), []);
    a.pages[1] = Payload::Lost;
    assert_eq!(faults(a, Some(b)), [Fault::Media]);
}

#[test]
fn lost_page_does_not_excuse_a_wrong_page_of_the_same_file() {
    let (mut a, b) = (seen(Ino(10)), seen(Ino(11)));
    a.pages[0] = Payload::Lost;
    a.pages[2] = Payload::Fill(0x7777_7777_7777_7777);
    assert_eq!(faults(a, Some(b)), [Fault::Corrupt]);
}

#[test]
fn lost_page_does_not_excuse_another_file() {
    let (mut a, mut b) = (seen(Ino(10)), seen(Ino(11)));
    a.pages[0] = Payload::Lost;
    assert_eq!(faults(a.clone(), None), [Fault::Media, Fault::Lost]);
    b.pages[0] = Payload::Zero;
    assert_eq!(faults(a.clone(), Some(b)), [Fault::Media, Fault::Lost]);
    a.size = PAGE;
    let shorter = faults(a, Some(seen(Ino(11))));
    assert_eq!(shorter, [Fault::Lost], "a size is metadata of its own");
}

/// Fails if the moment after an unlink that is not durable is preferred, at which the name should
/// not be there: it has as many faults as the right one.
#[test]
fn lost_page_does_not_make_a_later_moment_explain_the_tree() {
    let history = history();
    {
        let mut history = history.borrow_mut();
        let ticket = history.begin_names(&[(ROOT, b"a", Leads::Nowhere)]);
        history.end_names(ticket, &[(ROOT, b"a", None)]);
    }
    let mut a = seen(Ino(10));
    a.pages[1] = Payload::Lost;
    let mut shown = Shown::default();
    shown.add(ROOT, b"a", a);
    shown.add(ROOT, b"b", seen(Ino(11)));
    let judged = history.borrow().judge(&shown);
    let faults: Vec<Fault> = judged.into_iter().map(|(fault, _)| fault).collect();
    assert_eq!(faults, [Fault::Media]);
}

#[test]
fn lost_target_of_a_link_counts_for_the_medium() {
    let history = Rc::new(RefCell::new(Chronicle::default()));
    {
        let mut history = history.borrow_mut();
        let leads = Leads::New(FileKind::Symlink, b"there");
        let ticket = history.begin_names(&[(ROOT, b"l", leads)]);
        history.made(Ino(12), FileKind::Symlink, b"there");
        history.end_names(ticket, &[(ROOT, b"l", Some(Ino(12)))]);
    }
    let scribe = Scribe::new(Rc::clone(&history));
    let force = scribe.begins(&Act::ForceAll);
    scribe.ends(force, Some(0));
    let judged = |target: &[u8], pages: Vec<Payload>| {
        let mut shown = Shown::default();
        let link = Seen {
            kind: FileKind::Symlink,
            size: 5,
            target: target.to_vec(),
            pages,
            ..seen(Ino(12))
        };
        shown.add(ROOT, b"l", link);
        let judged = history.borrow().judge(&shown);
        judged
            .into_iter()
            .map(|(fault, _)| fault)
            .collect::<Vec<_>>()
    };
    assert_eq!(judged(b"there", Vec::new()), []);
    assert_eq!(judged(b"", vec![Payload::Lost]), [Fault::Media]);
    assert_eq!(judged(b"", Vec::new()), [Fault::Corrupt]);
}
