//! Behaviour of the designs with one small workload.

use machine::{Change, Outcome, RunError, Setup, Sweep, Witness, compare, run};
use programs::Workload;
use skybyte::{DESIGNS, Profile};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Ns;

fn ran(design: &str, workload: &str) -> Outcome {
    let workload = Workload::parse(workload).unwrap();
    let setup = Setup::new(design, Profile::Default, workload, 1).unwrap();
    run(&setup, Witness::NOBODY).unwrap()
}

/// 16 MiB, the paper's footprint over 512, more than the drive's DRAM of 1 MiB.
const WORKLOAD: &str = "bfs:footprint=16MiB,section=300000";

#[test]
fn every_design_runs_and_its_mechanisms_act() {
    let mut runs: Vec<Outcome> = DESIGNS.iter().map(|d| ran(d.name, WORKLOAD)).collect();
    compare(&mut runs, "base-cssd");
    let by = |name: &str| runs.iter().find(|run| run.design == name).unwrap();
    let (base, full, dram) = (by("base-cssd"), by("skybyte-full"), by("dram-only"));
    assert_eq!(base.speed_up, Some(1.0));
    assert!(
        full.speed_up > Some(1.0) && dram.speed_up > full.speed_up,
        "{full:?}"
    );
    // The misses of a program hardly depend on the design.
    for run in [base, by("skybyte-c"), full] {
        let misses = run.mpki / dram.mpki;
        assert!((0.75..1.25).contains(&misses), "{}: {misses}", run.design);
    }
    for (run, design) in runs.iter().zip(DESIGNS) {
        // AstriFlash switches threads too, at misses of its page cache.
        let switches = design.switches || design.name == "astriflash-cxl";
        assert_eq!(run.switches.long_delays > 0, switches, "{}", run.design);
        assert_eq!(run.flash.read_pages > 0, design.drive, "{}", run.design);
        assert_eq!(run.log_bytes > 0, design.log, "{}", run.design);
        let time = serde_json::to_value(&run.core_time).unwrap();
        let shares = time.as_object().unwrap().values();
        let whole: f64 = shares.filter_map(serde_json::Value::as_f64).sum();
        assert!((whole - 1.0).abs() < 1e-6, "{}: {whole}", run.design);
        let amat = &run.amat;
        let parts = amat.host_dram.adds_ns + amat.ssd_dram.adds_ns + amat.flash.adds_ns;
        assert!(
            (parts - amat.mean_ns).abs() < 1e-6 * parts,
            "{}",
            run.design
        );
        let flash = &run.flash;
        assert_eq!(flash.reads.values().sum::<u64>(), flash.read_pages);
        assert_eq!(flash.programs.values().sum::<u64>(), flash.program_pages);
    }
    assert!(by("skybyte-p").moves.promotions > 0 && base.moves.promotions == 0);
    assert!(by("astriflash-cxl").moves.page_hits > 0);
    // The cost ratio follows from the paper's prices alone.
    assert!((full.cost.cheaper - 4.28 / 0.27).abs() < 1e-9);
    let share = dram.time_ns as f64 / full.time_ns as f64;
    let effect = full.cost.cost_effectiveness.unwrap();
    assert!((effect - full.cost.cheaper * share).abs() < 1e-6);
}

#[test]
fn run_is_a_function_of_its_setup() {
    let once = ran("skybyte-full", WORKLOAD);
    assert_eq!(once, ran("skybyte-full", WORKLOAD));
}

#[test]
fn preparation_is_not_measured() {
    // A quarter of the operations comes before measuring, so fewer accesses are counted than made.
    let run = ran(
        "base-cssd",
        "synthetic:footprint=16MiB,visits=400,lines=16,writes=0,threads=1",
    );
    let accesses = run.amat.host_dram.count + run.amat.ssd_dram.count + run.amat.flash.count;
    assert!(
        (400 * 16 * 9 / 10..=400 * 16 * 11 / 10).contains(&accesses),
        "{accesses}"
    );
    assert!(run.flash.program_pages == 0, "nothing was written");
}

#[test]
fn all_designs_count_the_same_instructions() {
    for seed in 1..=4 {
        let count = |design: &str| {
            let text = "synthetic:threads=4,footprint=4MiB,visits=200,lines=8";
            let workload = Workload::parse(text).unwrap();
            let setup = Setup::new(design, Profile::Default, workload, seed).unwrap();
            run(&setup, Witness::NOBODY).unwrap().instructions
        };
        let base = count("base-cssd");
        for design in ["skybyte-c", "skybyte-cp", "skybyte-full", "dram-only"] {
            assert_eq!(count(design), base, "{design}, seed {seed}");
        }
    }
}

#[test]
fn latency_is_reported_and_older_records_parse() {
    //= skybyte 2.3
    let (base, dram) = (ran("base-cssd", WORKLOAD), ran("dram-only", WORKLOAD));
    let of = |run: &Outcome| run.latency.clone().unwrap();
    let (far, near) = (of(&base), of(&dram));
    // About as many as the drive's DRAM answers are within 200 ns.
    let without_flash = base.amat.share_without_flash;
    assert!(((without_flash - 0.1)..(without_flash + 0.1)).contains(&far.within_200_ns));
    assert!(near.within_200_ns > far.within_200_ns);
    // Flash is read for 3 µs.
    assert!(far.longest_ns >= 3_000.0 && near.longest_ns < 3_000.0);
    for latency in [far, near] {
        let tail = [latency.p99_ns, latency.p99_99_ns, latency.longest_ns];
        assert!(tail.is_sorted() && tail[0] > 0.0, "{tail:?}");
    }
    let mut record = serde_json::to_value(&base).unwrap();
    record.as_object_mut().unwrap().remove("latency");
    let before: Outcome = serde_json::from_value(record).unwrap();
    let latency = None;
    assert_eq!(before, Outcome { latency, ..base });
}

#[test]
fn outcomes_of_a_sweep_equal_those_of_single_runs() {
    let setup = |design: &str, text: &str, seed| {
        let workload = Workload::parse(text).unwrap();
        Setup::new(design, Profile::Default, workload, seed).unwrap()
    };
    let (bfs, ycsb) = (
        "bfs:footprint=4MiB,section=40000",
        "ycsb:footprint=4MiB,section=40000",
    );
    let setups = [
        setup("base-cssd", bfs, 1),
        setup("skybyte-full", ycsb, 1),
        setup("skybyte-w", bfs, 1),
        setup("base-cssd", bfs, 2),
        setup("skybyte-c", ycsb, 1),
        setup("dram-only", bfs, 1),
        // Too long for a tape.
        setup("dram-only", "ycsb:footprint=1MiB,section=whole,ops=100", 1),
    ];
    let sweep = Sweep::new(setups.to_vec());
    let mut found: Vec<Option<Outcome>> = vec![None; setups.len()];
    for turn in 0.. {
        let Some((index, outcome)) = sweep.run(turn, Witness::NOBODY) else {
            break;
        };
        assert!(found[index].replace(outcome.unwrap()).is_none());
    }
    for (setup, found) in setups.iter().zip(found) {
        assert_eq!(found.as_ref(), Some(&run(setup, Witness::NOBODY).unwrap()));
    }
}

#[test]
fn witness_receives_all_but_the_last_instructions_and_changes_nothing() {
    let workload = Workload::parse("bfs:footprint=4MiB,section=3000000,threads=2").unwrap();
    let setup = Setup::new("dram-only", Profile::Default, workload, 1).unwrap();
    let (heard, words) = (AtomicU64::new(0), AtomicU64::new(0));
    let witness = Witness {
        heard: &|more| {
            assert!(more >= Witness::STEP);
            heard.fetch_add(more, Relaxed);
            words.fetch_add(1, Relaxed);
            ControlFlow::Continue(())
        },
        ..Witness::NOBODY
    };
    let seen = run(&setup, witness).unwrap();
    assert!(seen.instructions >= 2 * Witness::STEP, "too short to tell");
    let heard = heard.into_inner();
    assert!(
        heard + Witness::STEP > seen.instructions,
        "{heard} of {}",
        seen.instructions
    );
    assert!(words.into_inner() > 1);
    assert_eq!(seen, run(&setup, Witness::NOBODY).unwrap());
}

#[test]
fn witness_can_stop_a_run() {
    let workload = Workload::parse("bfs:footprint=4MiB,section=3000000,threads=2").unwrap();
    for design in ["dram-only", "skybyte-full"] {
        let setup = Setup::new(design, Profile::Default, workload.clone(), 1).unwrap();
        let words = AtomicU64::new(0);
        let witness = Witness {
            heard: &|_| {
                words.fetch_add(1, Relaxed);
                ControlFlow::Break(())
            },
            ..Witness::NOBODY
        };
        let why = run(&setup, witness).unwrap_err();
        assert!(matches!(why, RunError::Stopped), "{why}");
        assert_eq!(words.into_inner(), 1, "nothing is executed after that");
    }
}

#[test]
fn too_small_drive_is_refused_with_the_least_footprint() {
    let asked = |design: &str, text: &str, change: &str| {
        let workload = Workload::parse(text).unwrap();
        let mut setup = Setup::new(design, Profile::Default, workload, 1).unwrap();
        if !change.is_empty() {
            setup = setup.with(&change.parse().unwrap()).unwrap();
        }
        run(&setup, Witness::NOBODY)
    };
    let small = |name: &str, mib: u64| format!("{name}:footprint={mib}MiB,section=10000");
    for (name, least) in [("bfs", 2), ("tpcc", 3)] {
        let refused = asked(
            "skybyte-full",
            &small(name, least - 1),
            "precondition=fresh",
        );
        let wanted =
            format!("{name}: expected a footprint of {least} MiB at least on skybyte-full");
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(&wanted), "{refused}");
        asked("skybyte-full", &small(name, least), "precondition=fresh").unwrap();
    }
    // An explicit size of the DRAM or the log is refused by the drive's own check.
    let refused = asked("skybyte-full", &small("bfs", 1), "device.log.bytes=4KiB");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("device: log.bytes"), "{refused}");
    asked("skybyte-full", &small("bfs", 1), "device.dram.bytes=1MiB").unwrap();
    asked("dram-only", &small("bfs", 1), "").unwrap();
}

#[test]
fn changes_work_with_the_largest_seed() {
    let workload = Workload::parse(WORKLOAD).unwrap();
    let setup = Setup::new("skybyte-full", Profile::Default, workload, u64::MAX).unwrap();
    let change = |text: &str| text.parse::<Change>().unwrap();
    let changed = setup
        .clone()
        .with(&change("machine.os.switch=1us"))
        .unwrap();
    assert_eq!(changed.machine().seed, u64::MAX);
    assert_eq!(changed.machine().os.switch, Ns::us(1));
    let unchanged = memsys::OsConfig {
        switch: setup.machine().os.switch,
        ..changed.machine().os
    };
    assert_eq!(setup.machine().os, unchanged);
    let refused = setup.with(&change("machine.seed=5")).unwrap_err();
    assert!(refused.to_string().contains("expected one of"), "{refused}");
}
