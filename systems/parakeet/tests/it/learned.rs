//! Learned rules are at least as good as hand-written ones, on a recording that was not used for
//! learning.

use crate::synthetic::Tape;
use crate::synthetic::lsm::{Shape, lsm};
use crate::synthetic::postgres::postgres;
use crate::synthetic::wiredtiger::wiredtiger;
use parakeet::judge::{Amplification, Device, amplification, by_rules, errors, peak};
use parakeet::learn::{Learned, Online, OnlineLimits, Options, learn};
use parakeet::rules::{RuleSet, sets};
use parakeet::translate::Fdp;

const HINTED: Shape = Shape {
    hints: true,
    threads: false,
    flushes: 240,
};

fn ready(name: &str) -> RuleSet {
    RuleSet::read(name, sets::text(name).unwrap()).unwrap()
}

fn learned(tape: &Tape) -> Learned {
    let learned = learn(&tape.events(), &Options::default()).unwrap();
    let again = RuleSet::read("learned", &learned.print()).unwrap();
    assert_eq!(again, learned.rules, "what is printed is what was learned");
    learned
}

/// Write amplification on `tape` in thousandths: without rules, by the rules `hand`, and by the
/// learned ones. It is summed over several drives, as chance would decide between similar results
/// on one.
fn compared(learned: &Learned, hand: &str, tape: &Tape) -> [u64; 3] {
    let devices = Device::for_peak(peak(tape.events()).unwrap()).alike();
    let on = |judged: &dyn Fn(&Device) -> Amplification| -> u64 {
        let all: Amplification = devices.iter().map(judged).sum();
        all.per_mille()
    };
    let by = |rules: &RuleSet| on(&|device| by_rules(device, rules, tape.events()).unwrap());
    let without = on(&|device| amplification(device, tape.events(), |_| 0).unwrap());
    [without, by(&ready(hand)), by(&learned.rules)]
}

/// Whether `own` is no worse than `hand`, up to the hundredth by which two recordings of one
/// program differ as well.
fn reaches(own: u64, hand: u64) -> bool {
    own <= hand + 10
}

#[test]
fn learned_rules_reach_hand_written_ones_for_hinted_lsm() {
    let learned = learned(&lsm(1, HINTED));
    let [without, hand, own] = compared(&learned, "rocksdb", &lsm(2, HINTED));
    println!("{}\n{without} {hand} {own}", learned.print());
    assert!(
        reaches(own, hand) && own < without,
        "{without} {hand} {own}"
    );
    let errors = errors(&learned.rules, lsm(2, HINTED).events());
    println!("{errors:?}");
    assert!(errors.median_per_mille < 3_000, "{errors:?}");
}

#[test]
fn learned_rules_reach_hand_written_ones_for_lsm_without_hints() {
    let silent = Shape {
        hints: false,
        ..HINTED
    };
    let learned = learned(&lsm(3, silent));
    let [without, hand, own] = compared(&learned, "rocksdb", &lsm(4, silent));
    println!("{}\n{without} {hand} {own}", learned.print());
    assert!(
        reaches(own, hand) && own < without,
        "{without} {hand} {own}"
    );
}

#[test]
fn learned_rules_reach_hand_written_ones_for_lsm_with_named_threads() {
    let named = Shape {
        hints: false,
        threads: true,
        ..HINTED
    };
    let learned = learned(&lsm(5, named));
    let [without, hand, own] = compared(&learned, "rocksdb-tuned", &lsm(6, named));
    println!("{}\n{without} {hand} {own}", learned.print());
    assert!(
        reaches(own, hand) && own < without,
        "{without} {hand} {own}"
    );
}

#[test]
fn learned_rules_reach_hand_written_ones_for_wiredtiger() {
    let learned = learned(&wiredtiger(1, 600));
    let [without, hand, own] = compared(&learned, "wiredtiger", &wiredtiger(2, 600));
    println!("{}\n{without} {hand} {own}", learned.print());
    assert!(
        reaches(own, hand) && own < without,
        "{without} {hand} {own}"
    );
}

#[test]
fn learned_rules_reach_hand_written_ones_for_postgresql() {
    let learned = learned(&postgres(1, 900));
    let [without, hand, own] = compared(&learned, "postgresql", &postgres(2, 900));
    println!("{}\n{without} {hand} {own}", learned.print());
    // Random overwrites in place leave nothing to gain: greedy reclaim finds short-lived data by
    // itself. So nothing must be lost.
    assert!(
        reaches(own, hand) && own <= without,
        "{without} {hand} {own}"
    );
}

#[test]
fn learning_is_deterministic() {
    let small = Shape {
        flushes: 60,
        ..HINTED
    };
    let tape = lsm(1, small);
    let print = || learn(&tape.events(), &Options::default()).unwrap().print();
    assert_eq!(print(), print());
    let none = learn(&std::iter::empty(), &Options::default()).unwrap();
    assert_eq!((none.files, none.rules.streams.len()), (0, 0));
    assert!(RuleSet::read("none", &none.print()).is_ok());
}

#[test]
fn online_learning_beats_no_placement() {
    let recordings = [
        (lsm(7, HINTED), "hints", 97),
        (wiredtiger(3, 600), "wiredtiger", 100),
        (postgres(3, 900), "postgres", 103),
    ];
    for (tape, name, percent) in recordings {
        let device = Device::for_peak(peak(tape.events()).unwrap());
        let without = amplification(&device, tape.events(), |_| 0).unwrap();
        let mut online = Online::new(OnlineLimits::default());
        let streams = u32::from(OnlineLimits::default().streams);
        let with = amplification(&device, tape.events(), |event| {
            let told = online.tell(event);
            told.map_or(0, |directive| u32::from(directive.stream.0).min(streams))
        });
        online.check();
        let (without, with) = (without.per_mille(), with.unwrap().per_mille());
        println!("{name} {without} {with}");
        assert!(with * 100 <= without * percent, "{name} {with} {without}");
    }
}

#[test]
fn too_few_handles_share_targets_and_cost_amplification() {
    let tape = lsm(8, HINTED);
    let rules = ready("rocksdb");
    let base = Device::for_peak(peak(tape.events()).unwrap());
    let cost = |targets| {
        let device = Device { targets, ..base };
        let fdp = Fdp::new(&rules.streams, targets as u16, 1);
        assert_eq!(
            fdp.lost()
                .iter()
                .any(|loss| loss.to_string().contains("share a target")),
            targets < 5
        );
        by_rules(&device, &rules, tape.events())
            .unwrap()
            .per_mille()
    };
    let all: Vec<u64> = [1, 2, 3, 5].into_iter().map(cost).collect();
    println!("{all:?}");
    assert!(all[3] < all[0], "{all:?}");
}
