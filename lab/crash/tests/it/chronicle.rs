//! The chronicle by itself: what a force of a part of a file leaves to chance.

use crash::{Attributes, Chronicle, Fault, Leads, Scribe, Seen, Shown};
use nand::Payload;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer, Source};

pub(crate) const ROOT: Ino = Ino(2);
const FILE: Ino = Ino(12);

/// A file `f`, of which all that is done is written down.
struct History {
    chronicle: Rc<RefCell<Chronicle>>,
    scribe: Scribe,
}

impl History {
    fn new() -> Self {
        let chronicle: Rc<RefCell<Chronicle>> = Rc::default();
        let scribe = Scribe::new(Rc::clone(&chronicle));
        let mut all = chronicle.borrow_mut();
        all.made(FILE, FileKind::Regular, b"");
        let ticket = all.begin_names(&[(ROOT, b"f", Leads::To(FILE))]);
        all.end_names(ticket, &[(ROOT, b"f", Some(FILE))]);
        all.settle();
        drop(all);
        Self { chronicle, scribe }
    }

    fn write(&self, offset: u64, pattern: u64, len: u64) {
        let (ino, source) = (FILE, Source::Fill { pattern, len });
        let act = Act::Write {
            ino,
            offset,
            source,
        };
        let ticket = self.scribe.begins(&act);
        self.scribe.ends(ticket, Some(len));
    }

    fn begin_force(&self, range: Range<u64>) -> u64 {
        let (ino, data_only) = (FILE, true);
        let act = Act::Force {
            ino,
            range,
            data_only,
        };
        self.scribe.begins(&act)
    }

    fn force(&self, range: Range<u64>) {
        let ticket = self.begin_force(range);
        self.scribe.ends(ticket, Some(0));
    }

    fn force_fails(&self) {
        let ticket = self.begin_force(0..u64::MAX);
        self.scribe.ends(ticket, None);
    }

    /// First fault that the judge finds if recovery shows the file with `bytes`.
    fn judge(&self, bytes: &[u8]) -> Option<Fault> {
        let mut shown = Shown::default();
        shown.add(ROOT, b"f", seen(FILE, FileKind::Regular, bytes));
        let found = self.chronicle.borrow().judge(&shown);
        found.first().map(|(fault, _)| *fault)
    }
}

/// A file that holds `bytes`, as recovery shows it.
pub(crate) fn seen(ino: Ino, kind: FileKind, bytes: &[u8]) -> Seen {
    let page = |bytes: &[u8]| {
        let mut page = [0; 4_096];
        page[..bytes.len()].copy_from_slice(bytes);
        Payload::Bytes(page.into())
    };
    Seen {
        ino,
        kind,
        size: bytes.len() as u64,
        pages: bytes.chunks(4_096).map(page).collect(),
        target: Vec::new(),
        attributes: Attributes::default(),
    }
}

#[test]
fn a_file_reaches_to_what_was_forced() {
    let history = History::new();
    history.write(0, 0, 100);
    history.force(0..4_096);
    assert_eq!(history.judge(&[]), Some(Fault::Lost));
    assert_eq!(history.judge(&[0; 99]), Some(Fault::Lost));
    assert_eq!(history.judge(&[0; 100]), None);
    history.write(100, 0, 8_000);
    history.force(0..4_096);
    assert_eq!(history.judge(&[0; 4_095]), Some(Fault::Lost));
    assert_eq!(history.judge(&[0; 4_096]), None);
    assert_eq!(history.judge(&[0; 8_101]), Some(Fault::Corrupt));
}

#[test]
fn a_force_does_not_say_what_a_write_that_failed_has_left() {
    let ones = u64::from_le_bytes([1; 8]);
    let history = History::new();
    history.write(0, 0, 100);
    let (ino, source) = (
        FILE,
        Source::Fill {
            pattern: ones,
            len: 100,
        },
    );
    let act = Act::Write {
        ino,
        offset: 50,
        source,
    };
    let ticket = history.scribe.begins(&act);
    history.scribe.ends(ticket, None);
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&[0; 100]), None);
    assert_eq!(history.judge(&[[0; 50], [1; 50], [1; 50]].concat()), None);
    assert_eq!(history.judge(&[2; 100]), Some(Fault::Corrupt));
    history.write(0, 0, 150);
    assert_eq!(history.judge(&[[0; 50], [1; 50], [1; 50]].concat()), None);
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&[0; 150]), None);
    assert_eq!(
        history.judge(&[[0; 50], [1; 50], [1; 50]].concat()),
        Some(Fault::Corrupt)
    );
}

#[test]
fn to_force_all_does_not_say_what_was_given_up_before() {
    let ones = u64::from_le_bytes([1; 8]);
    for gives_up in [false, true] {
        let history = History::new();
        history.write(0, 0, 8_192);
        history.force(0..u64::MAX);
        history.write(0, ones, 100);
        if gives_up {
            history.scribe.gave_up(FILE, 0..4_096);
        }
        let ticket = history.scribe.begins(&Act::ForceAll);
        history.scribe.ends(ticket, Some(0));
        let old = history.judge(&[0; 8_192]);
        assert_eq!(old, (!gives_up).then_some(Fault::Lost));
        assert_eq!(
            history.judge(&[[1; 100].as_slice(), &[0; 8_092]].concat()),
            None
        );
        assert_eq!(history.judge(&[2; 8_192]), Some(Fault::Corrupt));
    }
}

#[test]
fn a_file_that_failed_to_grow_may_be_as_it_was_until_what_follows_is_forced() {
    let history = History::new();
    history.write(0, 1, 8);
    history.force(0..u64::MAX);
    history.write(8, 2, 8);
    history.force_fails();
    history.force(0..u64::MAX);
    history.write(16, 3, 8);
    let (short, long) = (word(1), [word(1), word(2), word(3)].concat());
    for left in [&short[..], &long[..16], &long] {
        assert_eq!(history.judge(left), None, "{left:?}");
    }
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&long), None);
    assert_eq!(history.judge(&short), Some(Fault::Lost));
}

#[test]
fn who_was_told_of_a_failure_is_promised_nothing_until_it_is_written_again() {
    let history = History::new();
    history.write(0, 1, 8);
    history.force(0..u64::MAX);
    history.write(0, 2, 8);
    history.write(8, 2, 8);
    history.force_fails();
    history.force(0..u64::MAX);
    let (old, new, both) = (word(1), word(2), [word(2), word(2)].concat());
    for left in [&old[..], &new, &both] {
        assert_eq!(history.judge(left), None, "{left:?}");
    }
    assert_eq!(history.judge(&word(3)), Some(Fault::Corrupt));
    assert_eq!(history.judge(&[]), Some(Fault::Lost));
    history.write(0, 4, 16);
    history.force(0..u64::MAX);
    for left in [&old[..], &new, &both] {
        assert!(history.judge(left).is_some(), "{left:?}");
    }
    assert_eq!(history.judge(&[word(4), word(4)].concat()), None);
}

/// A file that grows and whose forces fail once doubled the sizes that the judge kept for each
/// failure, so that 40 of them took all memory.
#[test]
fn failed_forces_of_a_growing_file_keep_few_sizes() {
    let history = History::new();
    for at in 0..200 {
        history.write(at * 8, 1, 8);
        history.force_fails();
    }
    assert_eq!(history.chronicle.borrow().failed(), 200);
    assert_eq!(history.judge(&word(1).repeat(200)), None);
    assert_eq!(history.judge(&[]), None);
}

fn word(pattern: u64) -> Vec<u8> {
    pattern.to_le_bytes().to_vec()
}

#[test]
fn nothing_written_behind_the_end_leaves_the_size() {
    let history = History::new();
    history.write(0, 0, 100);
    history.write(300, 0, 0);
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&[0; 100]), None);
    assert_eq!(history.judge(&[0; 101]), Some(Fault::Corrupt));
}

#[test]
fn what_was_forced_of_a_write_stays() {
    let ones = u64::from_le_bytes([1; 8]);
    let history = History::new();
    history.write(0, 0, 12_288);
    history.force(0..u64::MAX);
    history.write(0, ones, 12_288);
    history.force(4_096..8_192);
    let mut bytes = [0; 12_288];
    assert_eq!(history.judge(&bytes), Some(Fault::Lost));
    bytes[4_096..8_192].fill(1);
    assert_eq!(history.judge(&bytes), None);
    bytes[0..6_000].fill(1);
    assert_eq!(history.judge(&bytes), None);
}

#[test]
fn bytes_that_are_several_patterns_are_judged() {
    let history = History::new();
    let bytes = [[1; 10], [2; 10], [3; 10]].concat();
    let (ino, source) = (FILE, Source::Bytes(&bytes));
    let act = Act::Write {
        ino,
        offset: 0,
        source,
    };
    let ticket = history.scribe.begins(&act);
    history.scribe.ends(ticket, Some(30));
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&bytes), None);
    let other = [[1; 10], [2; 10], [4; 10]].concat();
    assert_eq!(history.judge(&other), Some(Fault::Corrupt));
}

#[test]
fn what_a_file_shares_is_what_the_other_held_then() {
    let history = History::new();
    history.write(0, 1, 8_192);
    history.force(0..u64::MAX);
    let share = Act::Share {
        from: FILE,
        span: 4_096..8_192,
        to: FILE,
        place: 8_192,
    };
    let whole = word(1).repeat(1_536);
    let ticket = history.scribe.begins(&share);
    // Until it has ended the file has it or not.
    assert_eq!(history.judge(&whole[..8_192]), None);
    assert_eq!(history.judge(&whole), None);
    history.scribe.ends(ticket, Some(4_096));
    // What comes to be where it was shared from is no concern of the other place.
    history.write(4_096, 2, 4_096);
    history.force(0..u64::MAX);
    let later = [word(1), word(2), word(1)].map(|word| word.repeat(512));
    assert_eq!(history.judge(&later.concat()), None);
    let wrong = [word(1), word(2), word(2)].map(|word| word.repeat(512));
    assert!(history.judge(&wrong.concat()).is_some());
}

#[test]
fn nothing_is_shared_that_could_not_be() {
    let history = History::new();
    history.write(0, 1, 4_096);
    let share = Act::Share {
        from: FILE,
        span: 0..4_096,
        to: FILE,
        place: 4_096,
    };
    let ticket = history.scribe.begins(&share);
    history.scribe.ends(ticket, Some(0));
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&word(1).repeat(512)), None);
    assert!(history.judge(&word(1).repeat(1_024)).is_some());
}

#[test]
fn a_rename_that_is_under_way_has_happened_or_not() {
    let history = History::new();
    let ones = u64::from_le_bytes([1; 8]);
    history.write(0, ones, 100);
    history.force(0..u64::MAX);
    let mut all = history.chronicle.borrow_mut();
    // Another call makes a name before: a state without it is one from before
    // the rename.
    all.made(Ino(13), FileKind::Directory, b"");
    let made = all.begin_names(&[(ROOT, b"h", Leads::To(Ino(13)))]);
    all.end_names(made, &[(ROOT, b"h", Some(Ino(13)))]);
    all.begin_names(&[(ROOT, b"f", Leads::Nowhere), (ROOT, b"g", Leads::To(FILE))]);
    let h = || seen(Ino(13), FileKind::Directory, &[]);
    let file = || seen(FILE, FileKind::Regular, &[1; 100]);
    let faults = |names: Vec<(&str, Seen)>| {
        let mut shown = Shown::default();
        names
            .into_iter()
            .for_each(|(name, seen)| shown.add(ROOT, name.as_bytes(), seen));
        all.judge(&shown).len()
    };
    assert_eq!(faults(vec![("f", file()), ("h", h())]), 0, "not yet");
    assert_eq!(faults(vec![("g", file()), ("h", h())]), 0, "it has");
    assert_eq!(faults(vec![("f", file())]), 0, "from before h");
    assert_eq!(faults(vec![("h", h())]), 1, "neither name");
    assert_eq!(
        faults(vec![("f", file()), ("g", file()), ("h", h())]),
        1,
        "both"
    );
    assert_eq!(faults(vec![("g", file())]), 1, "moved before it began");
    let other = seen(FILE, FileKind::Regular, &[2; 100]);
    assert_eq!(faults(vec![("g", other), ("h", h())]), 1, "other bytes");
    let number = seen(Ino(14), FileKind::Regular, &[1; 100]);
    assert_eq!(faults(vec![("g", number), ("h", h())]), 1, "another inode");
}

#[test]
fn what_is_being_made_is_new_and_empty() {
    let history = History::new();
    let mut all = history.chronicle.borrow_mut();
    all.begin_names(&[(ROOT, b"new", Leads::New(FileKind::Regular, b""))]);
    all.begin_names(&[(ROOT, b"link", Leads::New(FileKind::Symlink, b"there"))]);
    let faults = |name: &[u8], new: Seen| {
        let mut shown = Shown::default();
        shown.add(ROOT, b"f", seen(FILE, FileKind::Regular, &[]));
        shown.add(ROOT, name, new);
        all.judge(&shown).len()
    };
    let regular = |bytes: &[u8]| seen(Ino(13), FileKind::Regular, bytes);
    let link = |target: &[u8]| Seen {
        target: target.to_vec(),
        ..seen(Ino(14), FileKind::Symlink, &[])
    };
    assert_eq!(faults(b"new", regular(&[])), 0);
    assert_eq!(faults(b"new", regular(&[0])), 1);
    assert_eq!(faults(b"new", seen(FILE, FileKind::Directory, &[])), 1);
    assert_eq!(faults(b"link", link(b"there")), 0);
    assert_eq!(faults(b"link", link(b"elsewhere")), 1);
}

#[test]
fn what_nobody_knew_may_come_back_until_what_replaced_it_is_forced() {
    let history = History::new();
    // More patterns than are written down.
    let bytes: Vec<u8> = (0..600_u32 * 4096).map(|at| (at / 4096) as u8).collect();
    let act = Act::Write {
        ino: FILE,
        offset: 0,
        source: Source::Bytes(&bytes),
    };
    let ticket = history.scribe.begins(&act);
    history.scribe.ends(ticket, Some(bytes.len() as u64));
    history.force(0..u64::MAX);
    history.write(4096, 0, 4096);
    assert_eq!(history.judge(&bytes), None);
    history.force(0..u64::MAX);
    assert_eq!(history.judge(&bytes), Some(Fault::Corrupt));
}

/// Two pages, each of one byte.
fn two_pages(first: u8, second: u8) -> Vec<u8> {
    [[first; 4_096], [second; 4_096]].concat()
}

/// A torn write back takes along every other change of the same page.
#[test]
fn a_page_that_is_being_forced_may_be_anything_as_a_whole() {
    let (old, new) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
    for torn in [false, true] {
        let history = History::new();
        history.chronicle.borrow_mut().set_torn(torn);
        history.write(0, old, 8_192);
        history.force(0..u64::MAX);
        history.write(0, new, 2_048);
        let ticket = history.begin_force(0..u64::MAX);
        let expected = (!torn).then_some(Fault::Lost);
        assert_eq!(history.judge(&two_pages(0, 1)), expected, "torn: {torn}");
        assert_eq!(
            history.judge(&two_pages(0, 0)),
            Some(Fault::Lost),
            "another page"
        );
        history.scribe.ends(ticket, Some(0));
        assert_eq!(
            history.judge(&two_pages(0, 1)),
            Some(Fault::Lost),
            "it has ended"
        );
    }
}

/// Pages of one fsync persist independently on file systems with torn forces, until it ends.
#[test]
fn what_is_being_forced_may_be_anything_where_forces_are_torn() {
    let (old, new) = (u64::from_le_bytes([1; 8]), u64::from_le_bytes([2; 8]));
    for torn in [false, true] {
        let history = History::new();
        history.chronicle.borrow_mut().set_torn(torn);
        history.write(0, old, 8_192);
        history.force(0..u64::MAX);
        history.write(0, new, 4_096);
        assert_eq!(
            history.judge(&two_pages(7, 1)),
            Some(Fault::Corrupt),
            "no force"
        );
        let ticket = history.begin_force(0..u64::MAX);
        let expected = (!torn).then_some(Fault::Corrupt);
        assert_eq!(history.judge(&two_pages(7, 1)), expected, "torn: {torn}");
        assert_eq!(
            history.judge(&two_pages(2, 7)),
            Some(Fault::Corrupt),
            "forced before"
        );
        history.scribe.ends(ticket, Some(0));
        assert_eq!(
            history.judge(&two_pages(7, 1)),
            Some(Fault::Corrupt),
            "it has ended"
        );
        assert_eq!(history.judge(&two_pages(2, 1)), None);
    }
}
