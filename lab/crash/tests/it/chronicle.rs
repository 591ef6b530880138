//! The chronicle by itself: what a force of a part of a file leaves to chance.

use crash::{Chronicle, Fault, Scribe, Seen, Shown};
use nand::Payload;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer, Source};

const ROOT: Ino = Ino(2);
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
        let ticket = all.begin_names(&[(ROOT, b"f")]);
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

    fn force(&self, range: Range<u64>) {
        let (ino, data_only) = (FILE, true);
        let act = Act::Force {
            ino,
            range,
            data_only,
        };
        let ticket = self.scribe.begins(&act);
        self.scribe.ends(ticket, Some(0));
    }

    /// What is wrong if the file is found with these bytes.
    fn judge(&self, bytes: &[u8]) -> Option<Fault> {
        let page = |bytes: &[u8]| {
            let mut page = [0; 4_096];
            page[..bytes.len()].copy_from_slice(bytes);
            Payload::Bytes(page.into())
        };
        let seen = Seen {
            ino: FILE,
            kind: FileKind::Regular,
            size: bytes.len() as u64,
            pages: bytes.chunks(4_096).map(page).collect(),
            target: Vec::new(),
        };
        let mut shown = Shown::default();
        shown.add(ROOT, b"f", seen);
        let found = self.chronicle.borrow().judge(&shown);
        found.first().map(|(fault, _)| *fault)
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
fn a_name_that_is_being_changed_is_not_free_to_be_anything() {
    let history = History::new();
    let ones = u64::from_le_bytes([1; 8]);
    history.write(0, ones, 100);
    history.force(0..u64::MAX);
    let begin = |names: &[(Ino, &[u8])]| history.chronicle.borrow_mut().begin_names(names);
    let moved = begin(&[(ROOT, b"f"), (ROOT, b"g")]);
    assert_eq!(history.judge(&[1; 100]), None);
    assert_eq!(history.judge(&[]), None, "a new file");
    assert_eq!(history.judge(&[2; 100]), Some(Fault::Corrupt));
    let mut all = history.chronicle.borrow_mut();
    assert_eq!(all.judge(&Shown::default()), [], "it may have been moved");
    // Another call makes a name before the move begins: a state without that
    // name is one from before the move.
    all.cancel(moved);
    drop(all);
    let made = begin(&[(ROOT, b"h")]);
    let mut all = history.chronicle.borrow_mut();
    all.made(Ino(13), FileKind::Directory, b"");
    all.end_names(made, &[(ROOT, b"h", Some(Ino(13)))]);
    drop(all);
    begin(&[(ROOT, b"f"), (ROOT, b"g")]);
    let gone = history.chronicle.borrow().judge(&Shown::default());
    assert_eq!(gone.len(), 1, "{gone:?}");
}
