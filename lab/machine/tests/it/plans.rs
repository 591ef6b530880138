//! The plans of the paper can be read, and ask for runs that can be made.

use machine::reproduce::{PAPER, list, prepare, scales, title};
use machine::{Change, Setup};
use programs::Workload;
use skybyte::{DESIGNS, Profile};

#[test]
fn every_figure_is_read_and_every_run_can_be_set_up() {
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
        // A run of a design, workload, reading and setting is made once.
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
fn what_is_not_there_is_said() {
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
fn a_change_reaches_its_knob() {
    let change = |text: &str| full().with(&text.parse::<Change>().unwrap());
    let set = change("device.hints.threshold=4us").unwrap();
    assert_eq!(set.device().hints.threshold, units::Ns::us(4));
    assert_eq!(set.changes, ["device.hints.threshold=4us"]);
    // What is not set can be.
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
        // A page for each die.
        assert_eq!(buffer, ((8 << 20) / factor).max(1_024 * 4_096));
        assert_eq!(setup.device().log.bytes.0, (64 << 20) / factor);
        let moves = setup.machine().tiering.moves().unwrap();
        assert_eq!(moves.limit.0, (2 << 30) / factor);
    }
}

#[test]
fn threads_are_the_papers_unless_they_are_given() {
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
