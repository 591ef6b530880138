//! Stacks ranked for one workload.

use crate::fixture;
use report::Style;
use report::ranking::{By, Candidate, LeftOut, PRICES, Ranking};
use report::record::{HostMemory, Run};
use report::table;

fn candidates(runs: &[Run]) -> Vec<Candidate> {
    let candidate = |run: &Run| Candidate {
        stack: run.stack.clone(),
        idea: format!("the idea of {}", run.stack),
    };
    runs.iter().map(candidate).collect()
}

fn ranked(runs: &[Run], by: By) -> Ranking {
    Ranking::new("varmail", by, &candidates(runs), runs, Vec::new())
}

fn order(ranking: &Ranking) -> Vec<&str> {
    ranking.ranked.iter().map(|r| &*r.stack).collect()
}

/// One run of each stack, with the measured values set by hand: operations per second, 99.9th
/// percentile, bytes programmed for 1,000 written.
fn runs(numbers: &[(&str, f64, u64, u64)]) -> Vec<Run> {
    let run = |&(stack, speed, tail, programmed): &(&str, f64, u64, u64)| {
        let mut run = fixture::one();
        run.stack = stack.to_owned();
        run.ops_per_s = speed;
        run.latency_ns.all.p99_9 = tail;
        run.nand.by_cause = [("host".to_owned(), programmed)].into();
        run.host.write_bytes = 1_000;
        run.app = None;
        run.host_memory = None;
        run
    };
    numbers.iter().map(run).collect()
}

#[test]
fn each_measure_has_its_own_order() {
    let runs = runs(&[
        ("a", 100.0, 50, 3_000),
        ("b", 200.0, 200, 2_000),
        ("c", 50.0, 10, 1_000),
    ]);
    assert_eq!(order(&ranked(&runs, By::Speed)), ["b", "a", "c"]);
    assert_eq!(order(&ranked(&runs, By::Tail)), ["c", "a", "b"]);
    assert_eq!(order(&ranked(&runs, By::Wear)), ["c", "b", "a"]);
    let all = ranked(&runs, By::All);
    // The cube root of 0.5 × 5 × 3, of 1, and of 2 × 0.25 × 1.5.
    let scores = all.ranked.iter().map(|r| r.score.unwrap().median.powi(3));
    let near = scores
        .zip([7.5, 1.0, 0.75])
        .all(|(x, y)| (x - y).abs() < 1e-9);
    assert!(near && order(&all) == ["c", "a", "b"], "{:?}", order(&all));
}

#[test]
fn dollars_follow_from_flash_and_memory() {
    let mut runs = runs(&[("a", 1.0, 1, 2_000), ("b", 1.0, 1, 1_000)]);
    runs[1].host_memory = Some(HostMemory {
        dram_bytes: 0,
        persistent_bytes: 1 << 30,
    });
    let ranking = ranked(&runs, By::Cost);
    let [flash, dram, persistent] = PRICES.map(|(_, price)| price / 1e9);
    let drive = &runs[0].drive;
    let parts = drive.raw_bytes as f64 * flash + drive.dram_bytes as f64 * dram;
    let more = (1_u64 << 30) as f64 * persistent;
    let per_tb = |dollars: f64| dollars / drive.capacity_bytes as f64 * 1e12;
    let of = |stack: &str| ranking.ranked.iter().find(|r| r.stack == stack).unwrap();
    assert!((of("a").dollars_per_tb / per_tb(parts) - 1.0).abs() < 1e-9);
    assert!((of("b").dollars_per_tb / per_tb(parts + more) - 1.0).abs() < 1e-9);
    // Half the programs make a written byte cheaper, though the memory costs more.
    let written = |stack| of(stack).dollars_per_pb_written.unwrap().median;
    assert!((written("b") / written("a") - (parts + more) / parts / 2.0).abs() < 1e-9);
}

#[test]
fn a_drive_lives_as_long_as_the_first_stack_writes_at_its_pace() {
    let mut runs = runs(&[("a", 1.0, 1, 2_000), ("b", 1.0, 1, 1_000)]);
    // The second stack is done in a tenth of the time, which must not shorten its life.
    runs[1].sim_time_ns = runs[0].sim_time_ns / 10;
    let ranking = ranked(&runs, By::Wear);
    let years = |at: usize| ranking.ranked[at].life_years.unwrap().median;
    let rated = runs[0].drive.raw_bytes as f64 * runs[0].drive.endurance_cycles as f64;
    let seconds = rated / 2.0 / (1_000.0 / (runs[0].sim_time_ns as f64 / 1e9));
    let expected = seconds / (365.25 * 86_400.0);
    assert!((years(1) / expected - 1.0).abs() < 1e-9, "{}", years(1));
    assert!((years(0) / years(1) - 2.0).abs() < 1e-9);
}

#[test]
fn runs_are_compared_per_seed_and_ties_are_reported() {
    let mut all = runs(&[
        ("a", 100.0, 1, 1_000),
        ("b", 110.0, 1, 1_000),
        ("c", 400.0, 1, 1_000),
    ]);
    let mut second = runs(&[
        ("a", 200.0, 1, 1_000),
        ("b", 190.0, 1, 1_000),
        ("c", 900.0, 1, 1_000),
    ]);
    second.iter_mut().for_each(|run| run.seed = 2);
    all.append(&mut second);
    let candidates = candidates(&all[..3]);
    let ranking = Ranking::new("varmail", By::Speed, &candidates, &all, Vec::new());
    assert_eq!(
        (order(&ranking), ranking.seeds.len()),
        (vec!["c", "b", "a"], 2)
    );
    let speeds = |at: usize| ranking.ranked[at].speed.unwrap();
    assert_eq!((speeds(0).least, speeds(0).most), (4.0, 4.5));
    assert_eq!((speeds(1).least, speeds(1).most), (0.95, 1.1));
    assert!(
        ranking.advice.starts_with("Use c: 4.25×"),
        "{}",
        ranking.advice
    );
    assert!(
        ranking.advice.contains("No other stack"),
        "{}",
        ranking.advice
    );
    let without: Vec<Run> = all.into_iter().filter(|run| run.stack != "c").collect();
    let ranking = Ranking::new("varmail", By::Speed, &candidates, &without, Vec::new());
    assert!(
        ranking.advice.contains("Also in this range: a."),
        "{}",
        ranking.advice
    );
}

#[test]
fn ranking_lists_unscored_and_left_out_stacks_with_reasons() {
    let mut runs = runs(&[("a", 1.0, 1, 2_000), ("b", 1.0, 1, 1_000)]);
    runs[1].waf.device = runs[0].waf.device / 2.0;
    let left = LeftOut {
        stack: "c".to_owned(),
        reason: "nothing is made\u{1b} there".to_owned(),
    };
    let ranking = Ranking::new("w", By::Wear, &candidates(&runs), &runs, vec![left]);
    let text = table::ranking(&ranking, Style::default());
    assert!(text.contains("0.50× programs per host write"), "{text}");
    assert!(text.contains("left out: c: nothing is made"), "{text}");
    assert!(!text.contains('\u{1b}'), "a control character came through");
    let again: Ranking = report::parse(&report::to_json(&ranking)).unwrap();
    assert_eq!(again, ranking);
}

#[test]
fn failure_on_every_stack_belongs_to_the_workload() {
    let mut runs = runs(&[
        ("a", 100.0, 50, 3_000),
        ("b", 200.0, 40, 3_000),
        ("c", 900.0, 1, 0),
    ]);
    for (run, names, space) in [(0, 500, 0), (1, 540, 0), (2, 0, 900)] {
        runs[run].ops = 10_000;
        let failed = [("unlink ENOENT", names), ("pwrite ENOSPC", space)];
        let failed = failed.into_iter().filter(|(_, count)| *count > 0);
        let named = failed.map(|(reason, count)| (reason.to_owned(), count));
        runs[run].errors = named.collect();
    }
    let ranking = ranked(&runs, By::All);
    assert_eq!(order(&ranking), ["b", "a", "c"]);
    let scored = ranking.ranked.iter().map(|r| r.score.is_some());
    assert_eq!(scored.collect::<Vec<_>>(), [true, true, false]);
    let told = report::attribution::findings(&runs).join(" ");
    assert!(told.contains("b completes the most"), "{told}");
}

#[test]
fn failed_stack_has_no_place_and_a_reason() {
    let mut runs = runs(&[
        ("a", 9_000.0, 1, 0),
        ("b", 100.0, 50, 3_000),
        ("c", 200.0, 40, 3_000),
        ("d", 0.0, 0, 0),
    ]);
    runs[0].ops = 200;
    runs[0].errors = [("zone full".to_owned(), 300)].into();
    let ranking = ranked(&runs, By::All);
    assert_eq!(
        (order(&ranking), &*ranking.base),
        (vec!["c", "b", "a", "d"], "b")
    );
    let reasons = ranking.ranked[2..].iter().map(|r| (r.score, &*r.why));
    let expected = [
        (None, "300 requests failed: zone full"),
        (None, "not scored: requests took no time"),
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
    let text = table::ranking(&ranking, Style::default());
    let places = |stack: &str| {
        let mut rows = text.lines().map(|line| line.split_whitespace());
        rows.find_map(|mut row| {
            let place = row.next()?;
            (row.next() == Some(stack)).then_some(place)
        })
    };
    assert_eq!(
        ["c", "b", "a", "d"].map(places),
        ["1", "2", "–", "–"].map(Some),
        "{text}"
    );
    // A stack that programmed nothing has no wear to be ranked by.
    let worn = ranked(&runs[1..], By::Wear);
    assert_eq!(
        (worn.ranked[2].score, &*worn.ranked[2].why),
        (None, "not scored: nothing was programmed")
    );
}

#[test]
fn empty_ranking_advises_that_no_stack_could_be_ranked() {
    let ranking = ranked(&[], By::All);
    assert_eq!(ranking.advice, "No stack could be ranked.");
    assert!(table::ranking(&ranking, Style::default()).contains("No stack"));
}
