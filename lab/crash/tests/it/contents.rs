//! The judge of contents against brute force: every content of a file of three words.

use crash::{Attributes, Chronicle, Scribe, Seen, Shown};
use nand::Payload;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer, Source};

const ROOT: Ino = Ino(2);
const FILE: Ino = Ino(10);

/// Counts of the corpus: histories, and states that were compared.
#[derive(Debug, Default)]
struct Compared {
    histories: u64,
    states: u64,
}

/// The file with the words `words`, as recovery shows it.
fn seen(words: &[u64]) -> Seen {
    let mut page = [0; 4_096];
    for (at, word) in words.iter().enumerate() {
        page[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    Seen {
        ino: FILE,
        kind: FileKind::Regular,
        size: words.len() as u64 * 8,
        pages: vec![Payload::Bytes(page.into()); usize::from(!words.is_empty())],
        target: Vec::new(),
        attributes: Attributes::default(),
    }
}

/// The contents of one file in words of 8 bytes: values that each word may have, and sizes.
#[derive(Clone)]
struct Bytes {
    now: [u64; WORDS],
    size: usize,
    values: [BTreeSet<u64>; WORDS],
    sizes: BTreeSet<usize>,
}

/// Words that the file may have.
const WORDS: usize = 3;

/// A change of the file or a force of it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, usize, u64),
    Truncate(usize),
    Force { data_only: bool },
    All,
}

const STEPS: [Step; 10] = [
    Step::Write(0, 1, 1),
    Step::Write(0, 3, 2),
    Step::Write(1, 2, 3),
    Step::Write(2, 3, 1),
    Step::Truncate(0),
    Step::Truncate(1),
    Step::Truncate(3),
    Step::Force { data_only: false },
    Step::Force { data_only: true },
    Step::All,
];

impl Bytes {
    fn new() -> Self {
        Self {
            now: [0; WORDS],
            size: 0,
            values: [(); WORDS].map(|()| BTreeSet::from([0])),
            sizes: BTreeSet::from([0]),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(from, to, value) => {
                self.now[from..to].fill(value);
                self.size = self.size.max(to);
            }
            Step::Truncate(size) => {
                self.now[size..].fill(0);
                self.size = size;
            }
            Step::Force { .. } | Step::All => {
                self.values = self.now.map(|value| BTreeSet::from([value]));
                self.sizes = BTreeSet::from([self.size]);
            }
        }
        for (values, now) in self.values.iter_mut().zip(self.now) {
            values.insert(now);
        }
        self.sizes.insert(self.size);
    }

    /// Whether recovery may show `words`: a size between the smallest and the largest, and
    /// in each word a value that the word had.
    fn allows(&self, words: &[u64]) -> bool {
        let least = self.sizes.iter().next().copied().unwrap_or(0);
        let most = self.sizes.iter().next_back().copied().unwrap_or(0);
        (least..=most).contains(&words.len())
            && words
                .iter()
                .zip(&self.values)
                .all(|(word, values)| values.contains(word))
    }
}

/// Every content of up to three words of the values 0 to 3.
fn contents() -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for len in 0..WORDS {
        let longest: Vec<_> = all
            .iter()
            .filter(|words: &&Vec<_>| words.len() == len)
            .collect();
        let longer: Vec<Vec<u64>> = longest
            .into_iter()
            .flat_map(|words| (0..4).map(move |value| [&words[..], &[value]].concat()))
            .collect();
        all.extend(longer);
    }
    all
}

fn play(chronicle: &Rc<RefCell<Chronicle>>, ino: Ino, step: Step) {
    let act = match step {
        Step::Write(from, to, pattern) => Act::Write {
            ino,
            offset: from as u64 * 8,
            source: Source::Fill {
                pattern,
                len: (to - from) as u64 * 8,
            },
        },
        Step::Truncate(size) => Act::Resize {
            ino,
            size: size as u64 * 8,
        },
        Step::Force { data_only } => Act::Force {
            ino,
            range: 0..u64::MAX,
            data_only,
        },
        Step::All => Act::ForceAll,
    };
    let done = match step {
        Step::Write(from, to, _) => (to - from) as u64 * 8,
        _ => 0,
    };
    let scribe = Scribe::new(Rc::clone(chronicle));
    let ticket = scribe.begins(&act);
    scribe.ends(ticket, Some(done));
}

fn compare_contents(chronicle: &Chronicle, model: &Bytes, steps: &[Step]) -> u64 {
    let all = contents();
    for words in &all {
        let mut shown = Shown::default();
        shown.add(ROOT, b"foo", seen(words));
        let judge = chronicle.judge(&shown).is_empty();
        assert_eq!(judge, model.allows(words), "{steps:?} leaves {words:?}");
    }
    all.len() as u64
}

fn walk_contents(chronicle: &Chronicle, model: &Bytes, steps: &[Step], counts: &mut Compared) {
    counts.histories += 1;
    counts.states += compare_contents(chronicle, model, steps);
    if steps.len() == 4 {
        return;
    }
    for step in STEPS {
        let next = Rc::new(RefCell::new(chronicle.clone()));
        play(&next, FILE, step);
        let mut model = model.clone();
        model.step(step);
        let steps = [steps, &[step]].concat();
        walk_contents(&next.borrow(), &model, &steps, counts);
    }
}

#[test]
fn judge_of_contents_agrees_with_brute_force() {
    let mut chronicle = Chronicle::default();
    let mut shown = Shown::default();
    shown.add(ROOT, b"foo", seen(&[]));
    chronicle.adopt(&shown);
    let mut counts = Compared::default();
    walk_contents(&chronicle, &Bytes::new(), &[], &mut counts);
    assert_eq!(counts.histories, 11_111);
    println!("{counts:?}");
}
