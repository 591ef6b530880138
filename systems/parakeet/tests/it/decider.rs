//! Tests of the decider.

use parakeet::decide::{Decider, Limits};
use parakeet::directive::{Directive, Hint, StreamId};
use parakeet::event::{Call, Event, FileKey, Opening};
use parakeet::flags::Flags;
use parakeet::rules::{RuleSet, sets};
use units::Ns;

struct Told {
    decider: Decider,
    now: u64,
}

impl Told {
    fn by(text: &str, files: usize) -> Self {
        let rules = RuleSet::read("rules", text).unwrap();
        let decider = Decider::new(rules, Limits { files });
        Self { decider, now: 0 }
    }

    fn tell(&mut self, file: u64, call: Call<'_>) -> Option<(u16, u64)> {
        self.now += 1;
        let event = Event {
            at: Ns(self.now),
            thread: 0,
            file: FileKey(file),
            call,
        };
        let answer = self.decider.tell(&event);
        self.decider.check();
        answer.map(
            |Directive {
                 stream: StreamId(stream),
                 group,
             }| (stream, group),
        )
    }

    fn open(&mut self, file: u64, path: &str) -> Option<(u16, u64)> {
        let path = path.as_bytes();
        self.tell(
            file,
            Call::Open(Opening {
                path,
                ..Opening::default()
            }),
        )
    }
}

const RULES: &str = r#"
[[stream]]
name = "log"
group = { by = "batch", files = 2 }
[[stream]]
name = "table"
group = { by = "file" }
[[rule]]
path = "*.log"
stream = "log"
[[rule]]
size = "1MiB.."
stream = "table"
[[rule]]
path = "*.sst"
hint = "long"
stream = "table"
"#;

//= dissertation 6.1
#[test]
fn file_keeps_its_group_until_it_is_emptied_or_removed() {
    let mut told = Told::by(RULES, 100);
    assert_eq!(told.open(1, "/d/1.log"), Some((0, 0)));
    assert_eq!(told.open(2, "/d/2.log"), Some((0, 0)));
    assert_eq!(told.open(3, "/d/3.log"), Some((0, 1)));
    assert_eq!(
        told.tell(1, Call::Write { offset: 0, len: 9 }),
        Some((0, 0))
    );
    told.tell(1, Call::Close);
    assert_eq!(told.open(1, "/d/1.log"), Some((0, 0)), "opened again");
    let path = b"/d/1.log";
    let emptied = Opening {
        path,
        flags: Flags::WRITE.and(Flags::TRUNCATE),
        ..Opening::default()
    };
    assert_eq!(told.tell(1, Call::Open(emptied)), Some((0, 1)), "emptied");
    told.tell(1, Call::Gone);
    assert_eq!(told.decider.directive(FileKey(1)), None);
    assert_eq!(
        told.open(1, "/d/9.log"),
        Some((0, 2)),
        "another file of that number"
    );
}

#[test]
fn rules_are_evaluated_again_at_hint_rename_and_allocation() {
    let mut told = Told::by(RULES, 100);
    assert_eq!(told.open(1, "1.sst"), None);
    assert_eq!(told.tell(1, Call::Hint(Hint::Short)), None);
    assert_eq!(told.tell(1, Call::Hint(Hint::Long)), Some((1, 0)));
    assert_eq!(told.decider.why(FileKey(1)), Some(2));
    assert_eq!(told.tell(1, Call::Rename { to: b"1.log" }), Some((0, 0)));
    assert_eq!(
        told.tell(1, Call::Rename { to: b"2.log" }),
        Some((0, 0)),
        "no new group"
    );
    assert_eq!(told.tell(1, Call::Rename { to: b"1.sst" }), Some((1, 1)));
    assert_eq!(told.open(2, "any"), None);
    assert_eq!(told.tell(2, Call::Allocate { len: 1 << 20 }), Some((1, 2)));
    assert_eq!(told.tell(2, Call::Rename { to: b"other" }), Some((1, 2)));
}

#[test]
fn file_that_leaves_a_group_unwritten_is_uncounted() {
    let mut told = Told::by(RULES, 100);
    assert_eq!(told.open(1, "1.log"), Some((0, 0)));
    told.tell(1, Call::Rename { to: b"x" });
    assert_eq!(told.open(2, "2.log"), Some((0, 0)));
    assert_eq!(told.open(3, "3.log"), Some((0, 0)));
    assert_eq!(told.open(4, "4.log"), Some((0, 1)));
}

#[test]
fn file_that_no_rule_names_leaves_no_trace() {
    let mut told = Told::by(RULES, 100);
    for file in 0..50 {
        assert_eq!(told.open(file, "LOCK"), None);
        assert_eq!(told.tell(file, Call::Write { offset: 0, len: 1 }), None);
        assert_eq!(told.tell(file, Call::Close), None);
    }
    assert_eq!(told.decider.remembered(), 0);
    assert_eq!(told.tell(99, Call::Rename { to: b"LOCK" }), None);
    assert_eq!(told.decider.remembered(), 0);
    assert_eq!(
        told.tell(99, Call::Rename { to: b"7.log" }),
        Some((0, 0)),
        "named by its new name"
    );
    assert_eq!(told.decider.remembered(), 1);
}

#[test]
fn number_of_remembered_files_is_bounded() {
    let mut told = Told::by(RULES, 3);
    for file in 0..10 {
        assert!(told.open(file, "1.log").is_some());
        if file != 1 {
            told.tell(file, Call::Close);
        }
    }
    assert_eq!(told.decider.remembered(), 3);
    let known: Vec<u64> = (0..10)
        .filter(|&file| told.decider.directive(FileKey(file)).is_some())
        .collect();
    assert_eq!(known, [1, 8, 9], "what is open, and what was closed last");
}

//= rocksdb-hints 1
#[test]
fn hint_moves_a_rocksdb_table_to_another_stream() {
    let mut told = Told::by(sets::text("rocksdb").unwrap(), 100);
    assert_eq!(told.open(1, "/srv/db/000009.log"), Some((0, 0)));
    assert_eq!(told.tell(1, Call::Hint(Hint::Short)), Some((0, 0)));
    for (file, hint, stream) in [
        (2, Hint::Medium, 1),
        (3, Hint::Long, 2),
        (4, Hint::Extreme, 3),
    ] {
        assert_eq!(
            told.open(file, "/srv/db/000010.sst"),
            Some((3, 0)),
            "nothing was said yet"
        );
        assert_eq!(told.tell(file, Call::Hint(hint)), Some((stream, 0)));
    }
}
