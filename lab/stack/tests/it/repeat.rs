//! A run is a function of its plan.

use crate::{done, plan};
use ssd::Precondition;
use stack::{Plan, Sampling, sweep};
use units::Ns;

fn plans() -> Vec<Plan> {
    let workloads = [
        "randrw:ops=5000,flush=100",
        "zipfwrite:ops=5000,rate=20000,arrivals=poisson",
    ];
    let stacks = ["raw@block", "raw@streams", "raw@fdp"];
    let pairs = stacks
        .iter()
        .flat_map(|s| workloads.iter().map(move |w| (s, w)));
    pairs
        .map(|(stack, workload)| Plan {
            sample: Some(Sampling::each(Ns::ms(5))),
            ..plan(stack, 64, Precondition::Full, workload)
        })
        .collect()
}

fn swept(threads: usize) -> Vec<String> {
    let runs = sweep(&plans(), threads, &|| 0.0, &|_, _| ());
    let json = |run| serde_json::to_string(&run).expect("a record is JSON");
    runs.into_iter()
        .map(|run| json(run.expect("each can be run")))
        .collect()
}

#[test]
fn the_same_plan_gives_the_same_bytes_on_any_number_of_threads() {
    let one = swept(1);
    assert_eq!(one, swept(2));
    assert_eq!(one, swept(16));
    let stacks = [
        "raw@block",
        "raw@block",
        "raw@streams",
        "raw@streams",
        "raw@fdp",
        "raw@fdp",
    ];
    let named = |(json, stack): (&String, &str)| json.contains(&format!("\"stack\":\"{stack}\""));
    assert!(
        one.iter().zip(stacks).all(named),
        "in the order of the plans"
    );
}

#[test]
fn files_give_the_same_bytes_on_any_number_of_threads() {
    let stacks = ["ext4@block", "ext4@streams", "ext4@fdp"];
    let workload = "varmail:files=100,threads=4,ops=2000";
    let on = |stack: &&str| plan(stack, 128, Precondition::Aged, workload);
    let plans: Vec<Plan> = stacks.iter().map(on).collect();
    let swept = |threads| -> Vec<String> {
        let runs = sweep(&plans, threads, &|| 0.0, &|_, _| ()).into_iter();
        let json = |run| serde_json::to_string(&run).expect("a record is JSON");
        runs.map(|run| json(run.expect("each can be run")))
            .collect()
    };
    let one = swept(1);
    assert_eq!(one, swept(3));
    assert_ne!(one[0], one[2]);
}

#[test]
fn sampling_changes_nothing_but_the_number_of_events() {
    let file = "varmail:files=100,threads=12,ops=4000";
    for (stack, workload) in [("ext4@block", file), ("raw@fdp", "randrw:ops=5000")] {
        let alone = plan(stack, 128, Precondition::Aged, workload);
        let mut watched = alone.clone();
        watched.sample = Some(Sampling::each(Ns::us(100)));
        let (alone, mut watched) = (done(&alone), done(&watched));
        assert!(watched.events > alone.events);
        assert!(!watched.timeline.is_empty());
        watched.events = alone.events;
        watched.timeline.clone_from(&alone.timeline);
        assert_eq!(alone, watched, "{stack}");
    }
}

#[test]
fn another_seed_gives_another_run() {
    let mut other = plans().remove(0);
    let first = done(&other);
    other.seed = 2;
    assert_ne!(first.latency_ns, done(&other).latency_ns);
}

#[test]
fn a_sweep_measures_wall_time_by_its_clock_and_keeps_errors_in_place() {
    let ticks = std::sync::atomic::AtomicU32::new(0);
    let clock = || f64::from(ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let mut plans = plans();
    plans[1].workload = "randrite".to_owned();
    let runs = sweep(&plans[..3], 1, &clock, &|_, _| ());
    assert_eq!(runs[0].as_ref().expect("it can be run").wall_time_s, 1.0);
    let error = runs[1]
        .as_ref()
        .expect_err("it has no such preset")
        .to_string();
    assert!(error.contains("did you mean"), "{error}");
    assert!(runs[2].is_ok());
    assert!(sweep(&[], 4, &clock, &|_, _| ()).is_empty());
}

#[test]
fn a_run_of_a_million_events_replays_from_its_seed() {
    let plan = plan("raw@fdp", 256, Precondition::Aged, "randrw:ops=200000");
    let (first, again) = (done(&plan), done(&plan));
    assert!(first.events > 1_000_000, "{}", first.events);
    assert_eq!(first, again);
}
