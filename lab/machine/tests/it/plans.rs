//! The plans of the paper are valid, and their runs can be set up.

use machine::reproduce::{PAPER, list, prepare, scales, title};
use machine::{Change, Setup};
use programs::Workload;
use report::claim::{Claim, Reproduction, Verdict};
use report::figure::Judged;
use report::regime::Line;
use skybyte::{DESIGNS, Profile};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_figure_is_valid_and_every_run_can_be_set_up() {
    assert!(title().unwrap().starts_with("SkyByte"));
    let figures = list().unwrap();
    assert!(
        figures
            .iter()
            .all(|f| f.claims > 0 && f.name.starts_with(PAPER))
    );
    for scale in scales().unwrap().keys() {
        let prepared = prepare(None, scale, 1).unwrap();
        for setup in &prepared.setups {
            setup.machine().check().unwrap();
            setup.device().clone().checked().unwrap();
        }
        // Each run of a design, workload, profile and setting is made once.
        let told = |s: &Setup| {
            (
                s.design.name,
                s.workload.name(),
                s.profile.name(),
                s.changes.clone(),
            )
        };
        let mut all: Vec<_> = prepared.setups.iter().map(told).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}

#[test]
fn unknown_figure_or_scale_is_refused() {
    let refused = prepare(Some("fig7"), "small", 1).err().unwrap().to_string();
    assert!(
        refused.contains("expected one of its figures fig2, fig3"),
        "{refused}"
    );
    let refused = prepare(None, "huge", 1).err().unwrap().to_string();
    assert!(
        refused.contains("medium, paper, small, found \"huge\""),
        "{refused}"
    );
}

fn full() -> Setup {
    let workload = Workload::parse("bfs").unwrap();
    Setup::new("skybyte-full", Profile::Default, workload, 1).unwrap()
}

#[test]
fn change_sets_its_knob() {
    let change = |text: &str| full().with(&text.parse::<Change>().unwrap());
    let set = change("device.hints.threshold=4us").unwrap();
    assert_eq!(set.device().hints.threshold, units::Ns::us(4));
    assert_eq!(set.changes, ["device.hints.threshold=4us"]);
    // A knob without a value can be set.
    let fixed = change("device.dram.fixed=46ns").unwrap();
    assert_eq!(fixed.device().dram.fixed, Some(units::Ns(46)));
    assert_eq!(change("machine.cores=4").unwrap().machine().cores, 4);
    for (text, wanted) in [
        ("machine.crores=4", "one of away, cores"),
        (
            "machine.cores.many=4",
            "no \"many\" there, as what is before it is one value",
        ),
        ("machine.os.policy=fifo", "round-robin"),
        ("machine.cores=many", "integer"),
        ("device.hints.threshold=-1", "\"-1\" is not a time such as"),
        ("device.dram.bytes=abc", "\"abc\" is not a size such as"),
        ("precondition=aegd", "`aged`"),
    ] {
        let refused = change(text).unwrap_err().to_string();
        assert!(
            refused.starts_with(text.split('=').next().unwrap()),
            "{refused}"
        );
        assert!(
            refused.contains(wanted) || refused.contains("u64"),
            "{refused}"
        );
        assert!(refused.matches("expected").count() <= 1, "{refused}");
    }
    assert!("threshold".parse::<Change>().is_err());
}

#[test]
fn sizes_shrink_together() {
    for (scale, factor) in [("small", 256), ("medium", 16), ("paper", 1)] {
        let workload = Workload::parse(&format!("bfs:scale={scale}")).unwrap();
        let setup = Setup::new("skybyte-full", Profile::Default, workload, 1).unwrap();
        assert_eq!(setup.factor, factor);
        assert_eq!(setup.device().dram.bytes.0, (512 << 20) / factor);
        let buffer = setup.device().drive.controller.write_buffer.0;
        // The buffer holds at least a page for each die.
        assert_eq!(buffer, ((8 << 20) / factor).max(1_024 * 4_096));
        assert_eq!(setup.device().log.bytes.0, (64 << 20) / factor);
        let moves = setup.machine().tiering.moves().unwrap();
        assert_eq!(moves.limit.0, (2 << 30) / factor);
    }
}

#[test]
fn threads_default_to_the_papers() {
    for design in DESIGNS {
        let made = |text: &str| {
            let workload = Workload::parse(text).unwrap();
            let setup = Setup::new(design.name, Profile::Default, workload, 1);
            setup.unwrap().workload.threads()
        };
        let switches = design.switches || design.name == "astriflash-cxl";
        assert_eq!(
            made("bfs"),
            Some(if switches { 24 } else { 8 }),
            "{}",
            design.name
        );
        assert_eq!(made("bfs:threads=3"), Some(3));
    }
}

/// All claims with `measured` as their value, and the lines of the regime at `times` the paper's
/// values.
fn judged(measured: f64, times: f64) -> Reproduction<()> {
    let prepared = prepare(None, "small", 1).unwrap();
    let empty: Reproduction<()> = prepared.again(&Judged::default());
    let line = |line: Line| Line {
        measured: Some(times * line.paper),
        ..line
    };
    let claim = |claim: Claim| Claim {
        measured: Some(measured),
        ..claim
    };
    prepared.again(&Judged {
        lines: empty.regimes.into_iter().map(line).collect(),
        claims: empty.claims.into_iter().map(claim).collect(),
    })
}

/// Fails if a headline count mixes readings, or counts a claim twice.
#[test]
fn figure_has_one_primary_reading_and_each_claim_stands_once() {
    let (mut set_ups, mut seen) = (BTreeMap::new(), BTreeSet::new());
    for claim in judged(1.0, 1.0).claims {
        let name = [
            &claim.figure,
            &claim.id,
            &claim.what,
            &claim.stack,
            &claim.versus,
        ];
        assert!(
            seen.insert(name.map(Clone::clone)),
            "{claim:?} stands twice"
        );
        let primary = set_ups.entry(claim.figure).or_insert_with(BTreeSet::new);
        if claim.primary {
            primary.insert(claim.set_up);
        }
    }
    for (figure, primary) in set_ups {
        let beside = ["ablation", "replayed"].contains(&&*figure);
        let wanted: &[&str] = if beside { &[] } else { &["paper"] };
        assert_eq!(primary.iter().collect::<Vec<_>>(), wanted, "{figure}");
    }
}

/// Fails if the numbers of the regime are shown but decide nothing.
#[test]
fn claim_is_of_another_regime_where_a_line_of_its_workload_differs_by_more_than_two() {
    let verdicts = |times: f64| {
        let claims = judged(4.57, times).claims;
        let of = |claim: &&Claim| claim.figure == "fig14" && claim.id == "S1" && claim.primary;
        claims.into_iter().find(|claim| of(&claim)).unwrap()
    };
    assert_eq!(verdicts(2.0).verdict, Verdict::Held);
    let other = verdicts(2.1);
    assert_eq!(
        (other.verdict, other.holds),
        (Verdict::OtherRegime, Some(false))
    );
    assert!(
        other
            .regime
            .iter()
            .any(|line| line.contains("misses of the last cache"))
    );
    assert_eq!(verdicts(0.4).verdict, Verdict::OtherRegime);
}

/// Fails if a reason names no field of the records that could confirm it.
#[test]
fn reason_names_a_field_of_the_records_that_show_it() {
    const FIELDS: [&str; 17] = [
        "time_ns",
        "footprint_bytes",
        "ssd_dram_bytes",
        "log_bytes",
        "instructions",
        "mpki",
        "write_share",
        "memory_bound",
        "core_time",
        "amat",
        "latency",
        "flash",
        "device",
        "switches",
        "moves",
        "lines",
        "cost",
    ];
    for claim in judged(1e9, 1.0).claims {
        let Some(reason) = claim.reason.filter(|_| claim.verdict == Verdict::Missed) else {
            continue;
        };
        let words = reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let mut first = words.filter_map(|word| word.split('.').next());
        let names_one = first.any(|word| FIELDS.contains(&word));
        let open = reason == report::claim::NOT_FOUND;
        assert!(open || names_one, "{}: {reason}", claim.figure);
    }
}
