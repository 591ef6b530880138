//! Queries about past runs.

use crate::{Bench, number, sum};

#[test]
fn why_history_and_diff_tell_of_the_runs_that_were_made() {
    let bench = Bench::new();
    let run = |stack: &str, more: &str| {
        let line = format!(
            "run {stack} --workload randwrite:ops=6000 --size 64MiB --precondition aged {more}"
        );
        bench.json(&line, "flashloom.run/1")
    };
    let (first, second) = (run("raw@block", "--label a"), run("raw@fdp", "--label b"));
    let why = bench.json("why 1", "flashloom.why/1");
    assert_eq!(why["by_cause"], first["nand"]["by_cause"]);
    assert!(sum(&why["by_cause"]) > number(&first, "/host/write_bytes"));
    for (cause, origins) in why["by_cause_and_origin"].as_object().expect("a map") {
        assert_eq!(sum(origins), number(&why, &format!("/by_cause/{cause}")));
    }
    let told = bench.done("why latest");
    for cause in second["nand"]["by_cause"]
        .as_object()
        .expect("a map")
        .keys()
    {
        assert!(told.contains(cause.as_str()), "{cause}: {told}");
    }
    let history = bench.json("history", "flashloom.history/1");
    let of = |at: usize, key: &str| history["runs"][at][key].clone();
    assert_eq!((of(0, "run"), of(1, "run")), (2.into(), 1.into()));
    assert_eq!(
        (of(0, "stack"), of(0, "label")),
        ("raw@fdp".into(), "b".into())
    );
    assert_eq!(of(1, "ops_per_s"), first["ops_per_s"]);
    let only = bench.json("history --label a", "flashloom.history/1");
    assert_eq!(only["runs"].as_array().map(Vec::len), Some(1));
    let diff = bench.json("diff 1 latest", "flashloom.diff/1");
    let written = &diff["metrics"]["/nand/program_pages"];
    assert_eq!(
        written["a"].as_f64(),
        first["nand"]["program_pages"].as_f64()
    );
    assert_eq!(
        written["b"].as_f64(),
        second["nand"]["program_pages"].as_f64()
    );
    assert!(bench.done("diff 1 2").contains("A is run 1, B is run 2"));
    assert!(bench.done("history").contains("raw@block"));
    for line in ["why 3", "why one", "diff 1 0", "diff -- -1 1"] {
        assert_eq!(bench.run(line).code, Some(2), "{line}");
    }
}

#[test]
fn a_seed_of_64_bits_is_kept() {
    let bench = Bench::new();
    let line = "run raw@block --workload randread:ops=10 --size 64MiB --seed 18446744073709551615";
    bench.done(line);
    let history = bench.json("history", "flashloom.history/1");
    assert_eq!(history["runs"][0]["seed"], u64::MAX);
}

#[test]
fn runs_of_memory_are_kept_beside_those_of_stacks() {
    let bench = Bench::new();
    bench.done("run raw@block --workload randread:ops=10 --size 64MiB");
    let program = "synthetic:threads=2,footprint=4MiB,section=20000";
    let line = format!("memory skybyte-full,base-cssd --workload {program} --label m");
    let made = bench.json(&line, "flashloom.memory-runs/1");
    let history = bench.json("history", "flashloom.history/1");
    assert_eq!(history["runs"][0]["run"], 1);
    let kept = &history["memory_runs"];
    assert_eq!((&kept[0]["run"], &kept[1]["run"]), (&3.into(), &2.into()));
    assert_eq!(
        (&kept[1]["stack"], &kept[1]["label"]),
        (&"skybyte-full".into(), &"m".into())
    );
    let float = |value: &serde_json::Value| value.as_f64().expect("a number");
    let run = &made["runs"][0];
    let rate = float(&run["instructions"]) * 1e9 / float(&run["time_ns"]);
    assert!((float(&kept[1]["ops_per_s"]) / rate - 1.0).abs() < 1e-9);
    let only = bench.json("history --stack base-cssd", "flashloom.history/1");
    assert_eq!(only["memory_runs"].as_array().map(Vec::len), Some(1));
    let told = bench.done("history");
    assert!(
        told.contains("raw@block") && told.contains("instructions/s"),
        "{told}"
    );
    // A second run of the same design with another seed.
    bench.done(&format!(
        "memory skybyte-full --workload {program} --seed 2"
    ));
    let diff = bench.json("diff 2 latest", "flashloom.diff/1");
    let time = &diff["metrics"]["/time_ns"];
    assert_eq!(time["a"].as_f64(), made["runs"][0]["time_ns"].as_f64());
    assert!(time["b"].as_f64().is_some_and(|b| b > 0.0));
    assert!(bench.done("diff 2 4").contains("/time_ns"));
    assert!(bench.done("diff 2 2").contains("The runs are identical"));
    // `why` needs a run of a stack, and `diff` two runs of one kind.
    let why = bench.run("why");
    assert!(
        why.code == Some(0) && why.out.contains("raw@block"),
        "{}",
        why.err
    );
    let older = "the latest run 4 is a run of a memory design; showing run 1, the latest of a \
        storage stack";
    assert_eq!(why.err, format!("flashloom: {older}\n"));
    bench.refuses(
        "why 2",
        &["run 2 is a run of a memory design; flashloom why needs a run of a storage stack"],
    );
    bench.refuses("diff 1 2", &["expected two runs of storage stacks, or two"]);
}

#[test]
fn why_says_that_there_are_runs_of_memory_alone() {
    let bench = Bench::new();
    bench.done("memory base-cssd --workload synthetic:threads=1,footprint=4MiB,section=2000");
    bench.refuses(
        "why",
        &[
            "expected a run of a storage stack, found none: the latest run 1 is a run of a memory \
            design",
        ],
    );
}

#[test]
fn history_without_a_match_says_so() {
    let bench = Bench::new();
    bench.done("run raw@block --workload randread:ops=10 --size 64MiB --label a");
    let none = |filter: &str| bench.done(&format!("history {filter}"));
    assert_eq!(
        none("--label nolabel"),
        "No run has the label \"nolabel\".\n"
    );
    assert_eq!(
        none("--stack nosuch --label a"),
        "No run has the stack \"nosuch\" and the label \"a\".\n"
    );
    bench.refuses("history -n 0", &["expected a number of at least 1"]);
    bench.write("empty.db", "");
    for line in ["history", "why", "diff 1 2"] {
        let line = format!("{line} --db empty.db");
        bench.refuses(
            &line,
            &["empty.db: expected a history of runs, found nothing"],
        );
    }
}

/// The table of runs is damaged, which shows only when a run is added.
#[test]
fn result_that_cannot_be_stored_is_still_shown() {
    let bench = Bench::new();
    bench.done("run raw@block --workload randread:ops=10 --size 64MiB");
    let mut damaged = bench.read("flashloom.db");
    damaged[4096..].fill(0xa5);
    bench.write("flashloom.db", &damaged);
    bench.write("named.db", &damaged);
    let program = "synthetic:threads=1,footprint=4MiB,section=2000";
    for line in [
        "run raw@fdp --workload randread:ops=9 --size 64MiB --json",
        "compare randread:ops=9 --size 64MiB --stacks raw@fdp,raw@block --json",
        "compare randread:ops=9 --size 64MiB --seeds 1 --all --json",
        &format!("memory base-cssd --workload {program} --json"),
        &format!("compare {program} --stacks base-cssd --json"),
    ] {
        for (more, code) in [("", 0), (" --db named.db", 1)] {
            let said = bench.run(&format!("{line}{more}"));
            assert_eq!(said.code, Some(code), "{line}: {}", said.err);
            let told = "these runs were not added to the history: ";
            assert!(said.err.contains(told), "{line}: {}", said.err);
            serde_json::from_str::<serde_json::Value>(&said.out).expect("it is JSON");
        }
    }
    assert!(crate::exists(&bench.path("report.html")));
}
