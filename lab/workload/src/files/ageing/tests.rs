//! Tests of the calls that age a file system.

use super::*;
use std::collections::BTreeMap;

/// A file system of sizes.
#[derive(Default)]
struct Sizes {
    files: BTreeMap<Name, u64>,
    open: Option<Name>,
    written: u64,
    rewritten: u64,
    most: u64,
    log: Vec<Call>,
}

impl Sizes {
    fn act(&mut self, call: Call) {
        self.log.push(call);
        match call {
            Call::Open { path, .. } => {
                self.rewritten += u64::from(self.files.insert(path, 0).is_some());
                self.open = Some(path);
            }
            Call::Write { len, .. } => {
                let path = self.open.expect("a file is open");
                *self.files.entry(path).or_default() += len;
                self.written += len;
                self.most = self.most.max(self.held());
            }
            Call::Close { .. } => self.open = None,
            Call::Unlink { path } => drop(self.files.remove(&path).expect("it exists")),
            Call::Sync {} => {}
            other => panic!("{other:?}"),
        }
    }

    fn held(&self) -> u64 {
        self.files.values().sum()
    }
}

fn played(ageing: Ageing, seed: u64) -> (Sizes, Ager) {
    let (mut sizes, mut ager) = (Sizes::default(), ageing.open(Seed(seed)));
    while let Turn::Call { call, .. } = ager.next(ThreadId(0), Ns::ZERO) {
        sizes.act(call);
        let moved = match call {
            Call::Write { len, .. } => len,
            _ => 0,
        };
        ager.ended(ThreadId(0), Ok(moved));
    }
    (sizes, ager)
}

const SIZE: u64 = 256 * MIB;

const fn twice() -> Ageing {
    Ageing {
        size: SIZE,
        churn: Some(2),
    }
}

#[test]
fn files_hold_the_size_at_the_end_and_never_more() {
    let (sizes, ager) = played(twice(), 1);
    assert_eq!((sizes.held(), sizes.most), (SIZE, SIZE));
    let passes = sizes.written as f64 / SIZE as f64;
    assert!((3.0..3.1).contains(&passes), "{passes}");
    let made = ager.files.len() as u64;
    assert!(
        sizes.rewritten * 50 > made && sizes.rewritten * 2 < made,
        "{} of {made}",
        sizes.rewritten
    );
    assert!(sizes.files.len() > 500, "{}", sizes.files.len());
}

#[test]
fn shorter_life_is_the_beginning_of_a_longer_one() {
    let once = Ageing {
        churn: Some(1),
        ..twice()
    };
    let (short, _) = played(once, 1);
    let (long, _) = played(twice(), 1);
    // All but the last file and the sync.
    let same = short.log.len() - 8;
    assert_eq!(short.log[..same], long.log[..same]);
    let (other, _) = played(once, 2);
    assert_ne!(short.log, other.log);
}

#[test]
fn old_files_survive_a_pass_as_the_lifetimes_say() {
    let mut ager = Ageing {
        size: SIZE,
        churn: None,
    }
    .open(Seed(1));
    while ager.written < 2 * SIZE {
        ager.draw();
    }
    let numbers: Vec<u64> = ager.dying.iter().map(|Reverse((_, n))| *n).collect();
    let before = ager.files.len() as u64;
    while ager.written < 3 * SIZE {
        ager.draw();
    }
    let left = ager.dying.iter().filter(|Reverse((_, n))| *n < before);
    let share = left.count() as f64 / numbers.len() as f64;
    // The share of ages above the mean lifetime, 3,592 hours, in the profile of ages.
    assert!((0.43..0.60).contains(&share), "{share}");
}

#[test]
fn failed_write_ends_the_life_with_a_reason() {
    let mut ager = twice().open(Seed(1));
    while let Turn::Call { call, .. } = ager.next(ThreadId(0), Ns::ZERO) {
        ager.ended(
            ThreadId(0),
            match call {
                Call::Write { .. } => Err(Errno(28)),
                _ => Ok(0),
            },
        );
    }
    let failure = ager.failure().expect("it failed");
    assert!(
        failure.contains("written") && failure.ends_with("ENOSPC"),
        "{failure}"
    );
}
