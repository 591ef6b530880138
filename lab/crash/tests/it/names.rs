//! The chronicle by itself: names, with calls that overlap and files that are forced alone.

use crate::chronicle::{ROOT, seen};
use crash::{Chronicle, Fault, Leads, Scribe, Shown};
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer};

/// Two files `a` and `b`: calls that name them, `b`'s after `a`'s or beside it, and
/// whether `b` is forced then. What is wrong if only those of `shown` are found.
fn two_names(beside: bool, forced: bool, shown: &[&[u8]]) -> Vec<Fault> {
    names_of_two(false, beside, forced, shown)
}

/// The same, of a file system that has one order for all calls or not.
fn names_of_two(in_order: bool, beside: bool, forced: bool, shown: &[&[u8]]) -> Vec<Fault> {
    let (a, b) = (Ino(21), Ino(22));
    let chronicle: Rc<RefCell<Chronicle>> = Rc::default();
    {
        let mut all = chronicle.borrow_mut();
        all.set_in_order(in_order);
        for ino in [a, b] {
            all.made(ino, FileKind::Regular, b"");
        }
        all.settle();
        let first = all.begin_names(&[(ROOT, b"a", Leads::To(a))]);
        if !beside {
            all.end_names(first, &[(ROOT, b"a", Some(a))]);
        }
        let second = all.begin_names(&[(ROOT, b"b", Leads::To(b))]);
        if beside {
            all.end_names(first, &[(ROOT, b"a", Some(a))]);
        }
        all.end_names(second, &[(ROOT, b"b", Some(b))]);
    }
    if forced {
        let scribe = Scribe::new(Rc::clone(&chronicle));
        let force = Act::Force {
            ino: b,
            range: 0..u64::MAX,
            data_only: false,
        };
        let ticket = scribe.begins(&force);
        scribe.ends(ticket, Some(0));
    }
    let mut found = Shown::default();
    for &name in shown {
        let ino = if name == b"a" { a } else { b };
        found.add(ROOT, name, seen(ino, FileKind::Regular, b""));
    }
    let wrong = chronicle.borrow().judge(&found);
    wrong.into_iter().map(|(fault, _)| fault).collect()
}

#[test]
fn of_calls_that_overlap_either_may_have_been_the_first() {
    let (a, b): (&[u8], &[u8]) = (b"a", b"b");
    for shown in [&[][..], &[a], &[a, b]] {
        assert_eq!(two_names(true, false, shown), []);
        assert_eq!(two_names(false, false, shown), []);
    }
    assert_eq!(two_names(true, false, &[b]), []);
    assert_eq!(two_names(false, false, &[b]), [Fault::Lost], "a came first");
    assert_eq!(two_names(true, true, &[b]), [], "a was not forced");
    assert_eq!(two_names(true, true, &[a, b]), []);
    assert_eq!(two_names(true, true, &[a]), [Fault::Lost]);
    assert_eq!(two_names(true, true, &[]), [Fault::Lost]);
    assert_eq!(
        two_names(false, true, &[b]),
        [Fault::Lost],
        "nor is a, but it came first"
    );
}

#[test]
fn with_one_order_the_call_that_ended_first_was_the_first() {
    let (a, b): (&[u8], &[u8]) = (b"a", b"b");
    for beside in [false, true] {
        for shown in [&[][..], &[a], &[a, b]] {
            assert_eq!(names_of_two(true, beside, false, shown), []);
        }
        for forced in [false, true] {
            assert_eq!(names_of_two(true, beside, forced, &[b]), [Fault::Lost]);
        }
        assert_eq!(names_of_two(true, beside, true, &[a, b]), []);
        assert_eq!(names_of_two(true, beside, true, &[a]), [Fault::Lost]);
    }
}

/// A directory `d` and files, of which `old` was `n` until it was moved to `m`, where files
/// are forced by themselves: `new` was made as `n` and forced. What is wrong with names.
fn forced_alone(moved: bool, names: &[(Ino, &[u8], Ino)]) -> Vec<Fault> {
    let (dir, old, new) = (Ino(31), Ino(32), Ino(33));
    let chronicle: Rc<RefCell<Chronicle>> = Rc::default();
    let scribe = Scribe::new(Rc::clone(&chronicle));
    let kind = |ino| match ino == dir {
        true => FileKind::Directory,
        false => FileKind::Regular,
    };
    let turn = |changes: &[(Ino, &[u8], Option<Ino>)]| {
        let leads = |to: Option<Ino>| to.map_or(Leads::Nowhere, Leads::To);
        let begun: Vec<_> = changes.iter().map(|c| (c.0, c.1, leads(c.2))).collect();
        let mut all = chronicle.borrow_mut();
        let ticket = all.begin_names(&begun);
        all.end_names(ticket, changes);
    };
    {
        let mut all = chronicle.borrow_mut();
        all.set_in_order(true);
        all.set_alone(true);
        all.made(old, kind(old), b"");
    }
    turn(&[(ROOT, b"n", Some(old))]);
    chronicle.borrow_mut().settle();
    for ino in [dir, new] {
        chronicle.borrow_mut().made(ino, kind(ino), b"");
    }
    turn(&[(ROOT, b"d", Some(dir))]);
    let force = |ino| {
        let act = Act::Force {
            ino,
            range: 0..u64::MAX,
            data_only: false,
        };
        let ticket = scribe.begins(&act);
        scribe.ends(ticket, Some(0));
    };
    turn(&[(ROOT, b"n", None), (ROOT, b"m", Some(old))]);
    if moved {
        force(old);
    }
    turn(&[(ROOT, b"n", Some(new))]);
    force(new);
    let mut found = Shown::default();
    for &(dir, name, ino) in names {
        found.add(dir, name, seen(ino, kind(ino), b""));
    }
    let wrong = chronicle.borrow().judge(&found);
    wrong.into_iter().map(|(fault, _)| fault).collect()
}

#[test]
fn a_file_that_is_forced_alone_lies_over_the_names_of_the_checkpoint() {
    let (dir, old, new) = (Ino(31), Ino(32), Ino(33));
    let [d, m, n] = [(b"d", dir), (b"m", old), (b"n", new)].map(|(name, to)| (ROOT, &name[..], to));
    let before = (ROOT, &b"n"[..], old);
    assert_eq!(forced_alone(false, &[n]), [], "the old one is lost");
    assert_eq!(forced_alone(false, &[d, n]), []);
    assert_eq!(forced_alone(false, &[d, m, n]), []);
    assert_eq!(forced_alone(false, &[before]), [Fault::Corrupt]);
    assert_eq!(forced_alone(false, &[d, m]), [Fault::Lost]);
    assert_eq!(forced_alone(false, &[m, n]), [Fault::Lost], "d came before");
    assert_eq!(forced_alone(true, &[n]), [Fault::Lost; 2]);
    assert_eq!(forced_alone(true, &[d, m, n]), []);
}

/// A history in which files are forced by themselves, and changes of its names.
struct Rolling {
    chronicle: Rc<RefCell<Chronicle>>,
    scribe: Scribe,
}

impl Rolling {
    fn new() -> Self {
        let chronicle: Rc<RefCell<Chronicle>> = Rc::default();
        chronicle.borrow_mut().set_in_order(true);
        chronicle.borrow_mut().set_alone(true);
        let scribe = Scribe::new(Rc::clone(&chronicle));
        Self { chronicle, scribe }
    }

    fn name(&self, name: &[u8], to: Ino) {
        let mut all = self.chronicle.borrow_mut();
        let ticket = all.begin_names(&[(ROOT, name, Leads::To(to))]);
        all.end_names(ticket, &[(ROOT, name, Some(to))]);
    }

    fn force(&self, ino: Ino) {
        let act = Act::Force {
            ino,
            range: 0..u64::MAX,
            data_only: false,
        };
        let ticket = self.scribe.begins(&act);
        self.scribe.ends(ticket, Some(0));
    }

    fn judge(&self, names: &[(&[u8], Ino, FileKind)]) -> Vec<Fault> {
        let mut shown = Shown::default();
        for &(name, ino, kind) in names {
            shown.add(ROOT, name, seen(ino, kind, b""));
        }
        let wrong = self.chronicle.borrow().judge(&shown);
        wrong.into_iter().map(|(fault, _)| fault).collect()
    }
}

/// `mkdir A; creat bar; fsync bar` in a root that is older than the history. The root was
/// once taken for a directory that the first change in it had made, so that the force of
/// `bar` forced `A`.
#[test]
fn force_of_new_file_in_old_directory_forces_no_neighbour() {
    let (dir, bar) = (Ino(41), Ino(42));
    let history = Rolling::new();
    let mut all = history.chronicle.borrow_mut();
    all.made(dir, FileKind::Directory, b"");
    all.made(bar, FileKind::Regular, b"");
    drop(all);
    history.name(b"A", dir);
    history.name(b"bar", bar);
    history.force(bar);
    let (a, b) = (
        (&b"A"[..], dir, FileKind::Directory),
        (&b"bar"[..], bar, FileKind::Regular),
    );
    assert_eq!(history.judge(&[b]), []);
    assert_eq!(history.judge(&[a, b]), []);
    assert_eq!(history.judge(&[a]), [Fault::Lost]);
}

/// A file that is older than the history gets another name and is forced. Its first change
/// in the log was once taken for its creation, which promises less than a checkpoint.
#[test]
fn force_of_old_file_with_new_name_forces_earlier_names() {
    let (dir, old) = (Ino(41), Ino(42));
    let history = Rolling::new();
    let mut all = history.chronicle.borrow_mut();
    all.made(old, FileKind::Regular, b"");
    all.settle();
    all.made(dir, FileKind::Directory, b"");
    drop(all);
    history.name(b"A", dir);
    history.name(b"new", old);
    history.force(old);
    let (a, b) = (
        (&b"A"[..], dir, FileKind::Directory),
        (&b"new"[..], old, FileKind::Regular),
    );
    assert_eq!(history.judge(&[a, b]), []);
    assert_eq!(history.judge(&[b]), [Fault::Lost]);
}
