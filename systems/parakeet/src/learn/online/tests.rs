//! Tests of online learning while files come and go.

use super::seen::ENOUGH;
use super::*;

struct Run {
    online: Online,
    now: u64,
    next: u64,
}

impl Run {
    fn new(limits: OnlineLimits) -> Self {
        Self {
            online: Online::new(limits),
            now: 0,
            next: 0,
        }
    }

    fn tell(&mut self, file: u64, call: Call<'_>) {
        let event = Event {
            at: Ns(self.now),
            thread: 1,
            file: FileKey(file),
            call,
        };
        self.online.tell(&event);
        self.online.check();
    }

    /// Creates a file with the extension `end`, and writes it once.
    fn make(&mut self, end: &str) -> u64 {
        self.next += 1;
        let path = format!("d/{}.{end}", self.next);
        let path = path.as_bytes();
        self.tell(
            self.next,
            Call::Open(Opening {
                path,
                ..Opening::default()
            }),
        );
        self.tell(self.next, Call::Write { offset: 0, len: 1 });
        self.next
    }

    fn expected(&self, file: u64) -> Option<u8> {
        self.online.expected(FileKey(file))
    }
}

#[test]
fn a_kind_that_changes_is_learned_again() {
    let mut run = Run::new(OnlineLimits::default());
    for power in [12, 30, 5] {
        for _ in 0..3 * FADE {
            let file = run.make("x");
            run.now += 1 << power;
            run.tell(file, Call::Gone);
        }
        let file = run.make("x");
        assert_eq!(run.expected(file), Some(power));
        run.tell(file, Call::Gone);
    }
}

#[test]
fn files_that_never_die_are_expected_to_live_long() {
    let mut run = Run::new(OnlineLimits::default());
    let first = run.make("keep");
    assert_eq!(run.expected(first), None);
    for _ in 0..100 {
        run.make("keep");
        let short = run.make("tmp");
        run.now += 1 << 22;
        run.tell(short, Call::Gone);
    }
    run.now += 1 << 40;
    // Each event processes a few of the overdue files.
    for _ in 0..40 {
        run.tell(0, Call::Sync);
    }
    let (keep, short) = (run.make("keep"), run.make("tmp"));
    assert!(
        run.expected(keep).unwrap() >= 40,
        "{:?}",
        run.expected(keep)
    );
    assert_eq!(run.expected(short), Some(22));
    let stream = |file| run.online.files[&FileKey(file)].directive.stream;
    assert!(stream(keep) >= stream(short));
}

#[test]
fn data_that_are_replaced_live_shorter_than_their_file() {
    let mut run = Run::new(OnlineLimits::default());
    let files: Vec<u64> = (0..ENOUGH).map(|_| run.make("db")).collect();
    for _ in 0..400 {
        run.now += 1 << 16;
        for &file in &files {
            run.tell(file, Call::Write { offset: 0, len: 1 });
        }
    }
    let new = run.make("db");
    assert!(
        (16..=17).contains(&run.expected(new).unwrap()),
        "{:?}",
        run.expected(new)
    );
}

#[test]
fn memory_is_bounded() {
    let limits = OnlineLimits {
        files: 10,
        kinds: 12,
        ..OnlineLimits::default()
    };
    let mut run = Run::new(limits);
    for at in 0..499 {
        let end = ["a", "b", "c", "d", "e", "f", "g"][at % 7];
        let file = run.make(end);
        run.now += 1;
        if at % 3 > 0 {
            run.tell(file, Call::Gone);
        }
    }
    assert_eq!(run.online.remembered(), (10, 12));
}
