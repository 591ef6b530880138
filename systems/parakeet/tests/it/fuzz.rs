//! Fuzz tests of reading, deciding and learning.

use bolero::TypeGenerator;
use parakeet::decide::{Decider, Limits};
use parakeet::directive::{Hint, StreamId};
use parakeet::event::{Call, Event, FileKey, Opening};
use parakeet::flags::Flags;
use parakeet::judge::{Device, by_rules};
use parakeet::learn::{Online, OnlineLimits, Options, learn};
use parakeet::rules::{Facts, Notes, RuleSet, sets};
use units::Ns;

/// Checks that a text, if it is a rule set, survives printing and reading, and answers with its own
/// streams.
fn survive(text: &str) {
    let Ok(set) = RuleSet::read("any", text) else {
        return;
    };
    let printed = set.print(&Notes::default());
    assert_eq!(
        RuleSet::read("any", &printed).as_ref(),
        Ok(&set),
        "{printed}"
    );
    let facts = Facts {
        path: b"/srv/db/000012.log",
        ..Facts::default()
    };
    if let Some(StreamId(stream)) = set.classify(&facts) {
        assert!(usize::from(stream) < set.streams.len());
    }
}

#[test]
fn random_bytes_as_rules_cause_no_panic() {
    bolero::check!()
        .with_iterations(3_000)
        .for_each(|bytes: &[u8]| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                survive(text);
            }
        });
}

const WORDS: &[&str] = &[
    "[[stream]]\n",
    "[[rule]]\n",
    "name = ",
    "stream = ",
    "path = ",
    "flags = ",
    "life = ",
    "hint = ",
    "expect = ",
    "share = ",
    "size = ",
    "level = ",
    "mode = ",
    "group = ",
    "\"a\"\n",
    "\"none\"\n",
    "\"short\"\n",
    "\"*.log\"\n",
    "[\"a\", \"[\"]\n",
    "\"!direct\"\n",
    "\"..4KiB\"\n",
    "\"3..\"\n",
    "\"0644\"\n",
    "7\n",
    "-1\n",
    "\"1s\"\n",
    "{ by = \"batch\", files = 2 }\n",
    "{ by = \"one\" }\n",
    "0x1f\n",
    "[[",
    "\"",
    "\n",
    "# ä\n",
    "name.x = 1\n",
];

#[test]
fn random_words_as_rules_survive_printing() {
    bolero::check!()
        .with_iterations(5_000)
        .for_each(|words: &[u8]| {
            let word = |at: &u8| WORDS[usize::from(*at) % WORDS.len()];
            survive(&words.iter().map(word).collect::<String>());
        });
}

#[test]
fn damaged_built_in_set_is_read_or_refused_with_a_line() {
    bolero::check!()
        .with_type::<(u8, u16, u8)>()
        .with_iterations(3_000)
        .for_each(|&(set, place, byte)| {
            let (name, text) = sets::ALL[usize::from(set) % sets::ALL.len()];
            let mut bytes = text.as_bytes().to_vec();
            let place = usize::from(place) % bytes.len();
            bytes[place] = byte;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                match RuleSet::read(name, text) {
                    Ok(_) => survive(text),
                    Err(error) => {
                        let lines = text.lines().count();
                        assert!((1..=lines + 1).contains(&error.line), "{error}");
                    }
                }
            }
        });
}

#[derive(Clone, Debug, TypeGenerator)]
enum Step {
    Open { name: u8, flags: u32, size: u64 },
    Allocate(u64),
    Hint(u8),
    Write(u64, u64),
    Small(u8, u8),
    Sync,
    Truncate(u64),
    Rename(u8),
    Close,
    Gone,
}

const NAMES: &[&str] = &[
    "/d/000001.log",
    "/d/000002.sst",
    "LOG",
    "",
    "/",
    "a/b/16384.1",
    "00000001000000000000000A",
    "x.db-wal",
    "\u{e4}",
    "/d/000003.sst",
    "/d/[1]*.log",
];

impl Step {
    fn call(&self) -> Call<'static> {
        let name = |name: u8| NAMES[usize::from(name) % NAMES.len()].as_bytes();
        match *self {
            Self::Open {
                name: path,
                flags,
                size,
            } => Call::Open(Opening {
                path: name(path),
                flags: Flags(flags),
                size,
                ..Opening::default()
            }),
            Self::Allocate(len) => Call::Allocate { len },
            Self::Hint(hint) => Call::Hint(Hint::ALL[usize::from(hint) % 6]),
            Self::Write(offset, len) => Call::Write { offset, len },
            Self::Small(at, len) => Call::Write {
                offset: u64::from(at) << 11,
                len: u64::from(len) << 6,
            },
            Self::Sync => Call::Sync,
            Self::Truncate(len) => Call::Truncate { len },
            Self::Rename(to) => Call::Rename { to: name(to) },
            Self::Close => Call::Close,
            Self::Gone => Call::Gone,
        }
    }
}

fn events(steps: &[(u8, u32, Step)]) -> Vec<Event<'static>> {
    let mut at = 0_u64;
    let event = |(file, pause, step): &(u8, u32, Step)| {
        at += u64::from(*pause);
        Event {
            at: Ns(at),
            thread: u32::from(file % 3),
            file: FileKey(u64::from(file % 16)),
            call: step.call(),
        }
    };
    steps.iter().map(event).collect()
}

#[test]
fn random_events_keep_the_deciders_invariants() {
    let rules: Vec<RuleSet> = sets::ALL
        .iter()
        .map(|(name, text)| RuleSet::read(name, text).unwrap())
        .collect();
    bolero::check!()
        .with_type::<(u8, Vec<(u8, u32, Step)>)>()
        .with_iterations(3_000)
        .for_each(|(set, steps)| {
            let rules = rules[usize::from(*set) % rules.len()].clone();
            let mut decider = Decider::new(rules, Limits { files: 6 });
            let mut newest = vec![None; decider.rules().streams.len()];
            for event in events(steps) {
                let before = decider.directive(event.file);
                let answer = decider.tell(&event);
                decider.check();
                if let Some(directive) = answer.filter(|_| answer != before) {
                    // Group numbers of a stream never decrease.
                    let newest: &mut Option<u64> = &mut newest[usize::from(directive.stream.0)];
                    assert!(newest.is_none_or(|newest| directive.group >= newest));
                    *newest = Some(directive.group);
                }
            }
        });
}

#[test]
fn random_events_keep_the_learners_invariants() {
    let limits = OnlineLimits {
        files: 6,
        kinds: 8,
        ..OnlineLimits::default()
    };
    bolero::check!()
        .with_type::<Vec<(u8, u32, Step)>>()
        .with_iterations(1_000)
        .for_each(|steps| {
            let events = events(steps);
            let mut online = Online::new(limits);
            for event in &events {
                online.tell(event);
                online.check();
            }
            // Recordings beyond the model's limits are refused; all others must be learned from.
            let Ok(learned) = learn(
                &events.iter().copied(),
                &Options {
                    min_files: 1,
                    ..Options::default()
                },
            ) else {
                return;
            };
            assert_eq!(
                RuleSet::read("learned", &learned.print()).unwrap(),
                learned.rules
            );
            let device = Device {
                block: 4096,
                unit: 4,
                spare: 1,
                targets: 3,
            };
            by_rules(&device, &learned.rules, events.iter().copied()).unwrap();
        });
}
