//! Plans of papers are complete, their arithmetic is right, and a fault in one gives an error of
//! one sentence.

use super::figure::{Figure, Key};
use super::setup::Setup;
use super::{Asked, PAPERS, Paper, Prepared, figure, prepare};
use crate::plan::{Ending, Plan};
use input::document::Source;
use report::claim::Claim;
use serde_json::json;
use ssd::Precondition;
use std::collections::{BTreeMap, BTreeSet};
use workload::files::FileWorkload;

fn asked(figure: Option<&str>, factor: u64) -> Asked {
    Asked {
        paper: Paper::named("bytefs").unwrap(),
        figure: figure.map(str::to_owned),
        scale: "test".to_owned(),
        factor,
        seed: 1,
    }
}

/// All figures of `paper`, which must have each claim of `wanted`.
fn with_claims(paper: &str, wanted: impl Iterator<Item = String>) -> Prepared {
    let prepared = prepare(Asked {
        paper: Paper::named(paper).unwrap(),
        ..asked(None, 64)
    });
    let prepared = prepared.unwrap();
    let ids: BTreeSet<&str> = prepared
        .wanted
        .rows
        .iter()
        .map(|row| &*row.claim.id)
        .collect();
    for id in wanted {
        assert!(ids.contains(id.as_str()), "{id} is missing");
    }
    prepared
}

/// The claims of `ByteFS` have numbers 1 to 37; those about its parts share A.5.
#[test]
fn every_claim_of_bytefs_is_there() {
    let wanted = (1..=37).map(|n| format!("B{n}"));
    with_claims("bytefs", wanted.chain(["A.5".to_owned()]));
}

/// The claims of the dissertation's chapters on Persimmon have numbers 1 to 12.
#[test]
fn every_claim_of_persimmon_is_there_and_has_a_run_or_a_reason() {
    let rows = with_claims("persimmon", (1..=12).map(|n| format!("P{n}")))
        .wanted
        .rows;
    for row in rows.iter().filter(|row| row.keys().next().is_none()) {
        let claim = row.claim(&BTreeMap::new(), 64);
        assert!(
            claim.reason.is_some_and(|reason| reason.len() > 20),
            "{}",
            claim.what
        );
    }
}

/// The claims of the paper on remapping have numbers 1 to 12.
#[test]
fn every_claim_of_remapping_is_there_and_effects_come_one_at_a_time() {
    with_claims("remapping", (1..=12).map(|n| format!("R{n}")));
    // Under each effect a drive differs by one thing from that without any.
    let effects = prepare(Asked {
        paper: Paper::named("remapping").unwrap(),
        ..asked(Some("effects"), 512)
    });
    let effects = effects.unwrap();
    let drive = |name: &str| {
        let is = |plan: &&Plan| plan.label == format!("{name}, ext4");
        let plan = effects.plans.iter().find(is).unwrap();
        (plan.drive.clone(), plan.precondition)
    };
    let (none, past) = drive("none");
    assert_eq!(past, Precondition::Fresh);
    assert_eq!((none.mapping.cache.0, none.mapping.unit.0), (0, 4096));
    assert_eq!(none.geometry.pages_per_program, 1);
    let (mut aged, past) = drive("collection");
    assert_eq!(past, Precondition::Aged);
    assert!(aged.capacity.0 * 4 < none.capacity.0);
    aged.capacity = none.capacity;
    aged.geometry = none.geometry;
    assert_eq!(aged, none);
    let (mut paged, _) = drive("paged map");
    assert!(paged.mapping.cache.0 > 0);
    paged.mapping.cache = none.mapping.cache;
    assert_eq!(paged, none);
    let (mut large, _) = drive("large units");
    large.mapping.unit = none.mapping.unit;
    assert_eq!(large, none);
}

/// The claims of the paper on HyFiM have numbers 1 to 10; each has a run.
#[test]
fn every_claim_of_hyfim_is_there_and_is_measured() {
    let rows = with_claims("hyfim", (1..=10).map(|n| format!("Y{n}")))
        .wanted
        .rows;
    assert!(rows.iter().all(|row| row.keys().next().is_some()));
}

/// F2FS has as many sequential zones as Persimmon, and conventional ones besides.
#[test]
fn both_file_systems_on_zones_have_equally_many_sequential_zones() {
    let plans = prepare(Asked {
        paper: Paper::named("persimmon").unwrap(),
        ..asked(Some("table4.2"), 64)
    });
    let plans = plans.unwrap().plans;
    let zones = |host: &str| {
        let plan = plans.iter().find(|plan| plan.stack.host == host).unwrap();
        let drive = crate::hosts::drive_for(&plan.stack, &plan.drive).unwrap();
        ssd::ZoneLayout::new(&drive).unwrap().unwrap().sequential()
    };
    let (f2fs, persimmon) = (zones("f2fs"), zones("persimmon"));
    assert!(f2fs.abs_diff(persimmon) <= 1, "{f2fs} {persimmon}");
}

#[test]
fn plans_can_be_built_at_every_scale() {
    for paper in PAPERS {
        for (scale, factor) in paper.scales().unwrap() {
            let prepared = prepare(Asked {
                paper,
                factor,
                ..asked(None, 1)
            });
            let prepared = prepared.unwrap();
            assert!(prepared.plans.len() > 10, "{scale}");
            for plan in &prepared.plans {
                crate::run::check(plan).unwrap();
                // The command line ships recordings, under their names.
                let asked = workload::shipped::Asked::new(&plan.workload).unwrap();
                FileWorkload::parse(&asked.text).unwrap();
            }
        }
    }
}

/// All claims of all papers, unmeasured, each with the known reason for a miss.
fn all_rows() -> impl Iterator<Item = (&'static str, super::figure::Row)> {
    PAPERS.iter().flat_map(|paper| {
        let prepared = prepare(Asked {
            paper,
            ..asked(None, 64)
        });
        let rows = prepared.unwrap().wanted.rows;
        rows.into_iter().map(|row| (paper.name, row))
    })
}

/// Fails if a headline count adds up set-ups, or counts a claim twice.
#[test]
fn figure_has_one_primary_set_up_and_each_claim_stands_in_it_once() {
    let (mut set_ups, mut seen) = (BTreeMap::new(), BTreeSet::new());
    for (paper, row) in all_rows() {
        let claim = row.claim;
        let figure = (paper, claim.figure.clone());
        let name = [&claim.id, &claim.what, &claim.stack, &claim.versus].map(Clone::clone);
        assert!(
            seen.insert((figure.clone(), name)),
            "{paper}/{}: {} stands twice",
            claim.figure,
            claim.what
        );
        let primary = set_ups.entry(figure).or_insert_with(BTreeSet::new);
        if claim.primary {
            primary.insert(claim.set_up);
        }
    }
    for ((paper, figure), primary) in set_ups {
        let wanted = usize::from((paper, figure.as_str()) != ("remapping", "effects"));
        assert_eq!(primary.len(), wanted, "{paper}/{figure}: {primary:?}");
    }
}

/// Fails for a reason that refers to no field of a record.
#[test]
fn reason_names_a_field_of_the_records_that_show_it() {
    let plan = crate::Plan {
        workload: "randwrite:ops=10".to_owned(),
        ..prepare(asked(Some("fig8"), 64)).unwrap().plans.remove(0)
    };
    let run = crate::run(&plan, &mut |_| ()).unwrap();
    let record = serde_json::to_value(&run).unwrap();
    let fields: BTreeSet<&str> = record.as_object().unwrap().keys().map(|k| &**k).collect();
    let names_one = |reason: &str| {
        let words = reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let first = |word: &str| word.split('.').next().unwrap_or_default().to_owned();
        words.map(first).any(|word| fields.contains(&*word))
    };
    for (paper, row) in all_rows() {
        let Some(reason) = row.known else { continue };
        assert!(names_one(&reason), "{paper}/{}: {reason}", row.claim.figure);
    }
}

#[test]
fn figures_share_runs() {
    let all = prepare(asked(None, 64)).unwrap();
    let one = |name: &str| prepare(asked(Some(name), 64)).unwrap().plans.len();
    let paper = Paper::named("bytefs").unwrap();
    let sum: usize = paper.figures.iter().map(|file| one(file.name)).sum();
    assert!(
        3 * all.plans.len() < 2 * sum,
        "{} of {sum}",
        all.plans.len()
    );
    let distinct: BTreeSet<&Key> = all.wanted.keys.iter().collect();
    assert_eq!(distinct.len(), all.plans.len());
}

/// Capacity and DRAM of the drive shrink together; times and threads stay.
#[test]
fn a_scale_divides_sizes_alone() {
    let of = |factor: u64| prepare(asked(Some("fig6"), factor)).unwrap().plans;
    for (large, small) in of(1).iter().zip(of(64)) {
        let front = |plan: &crate::Plan| plan.drive.front.unwrap();
        let sizes = |plan: &crate::Plan| {
            let front = front(plan);
            let drive = [plan.drive.capacity, plan.drive.controller.write_buffer];
            let [capacity, buffer] = drive;
            [
                capacity,
                buffer,
                front.log.bytes,
                front.log.commits,
                plan.page_cache.memory,
            ]
        };
        for (large, small) in sizes(large).iter().zip(sizes(&small)) {
            assert_eq!(large.0, small.0 * 64);
        }
        assert_eq!(large.drive.flash.timing, small.drive.flash.timing);
        assert_eq!(large.host, small.host);
        assert_eq!(large.page_cache.expire, small.page_cache.expire);
    }
}

#[test]
fn a_figure_that_is_not_there_is_refused() {
    let refused = prepare(asked(Some("fig99"), 64)).err().unwrap().to_string();
    assert!(
        refused.contains("fig6") && refused.contains("fig99"),
        "{refused}"
    );
}

const SETUP: &str = r#"
title = "A paper"
drive = "bytefs-emulator"
capacity = "{1GiB}"
[scales]
small = 4
[base.drive]
"front.log.bytes" = "{16MiB}"
[settings.slow.drive]
"flash.timing.program" = "200us"
[workloads]
a = "create:files={100}"
b = "create:files={200}"
[quantities]
speed = { of = ["/speed"] }
"#;

fn setup(text: &str) -> Result<Setup, String> {
    let source = Source {
        file: "setup.toml".to_owned(),
        text: text.to_owned(),
    };
    Setup::read(source).map_err(|e| e.to_string())
}

fn read(text: &str) -> Result<Figure, String> {
    let source = Source {
        file: "fig.toml".to_owned(),
        text: format!(
            "title = \"T\"\nsource = \"S\"\nprimary = \"text\"\n[[claim]]\nid = \"X\"\n{text}"
        ),
    };
    figure::read(&setup(SETUP)?, "fig", &source).map_err(|e| e.to_string())
}

/// The claims of `text`, measured by runs with these `speeds`.
fn measured(text: &str, speeds: &[(&str, &str, &str, f64)]) -> Vec<Claim> {
    let figure = read(text).unwrap();
    let keys: Vec<Key> = speeds
        .iter()
        .map(|(host, workload, setting, _)| Key {
            host: (*host).to_owned(),
            workload: (*workload).to_owned(),
            setting: (*setting).to_owned(),
        })
        .collect();
    let speeds = speeds.iter().map(|run| json!({"speed": run.3}));
    let documents = keys.iter().zip(speeds.map(Ok)).collect();
    let rows = figure.rows.iter();
    rows.map(|row| row.claim(&documents, 4)).collect()
}

#[test]
fn hosts_are_compared_on_each_workload_and_the_gains_combined() {
    let runs = [
        ("bytefs", "a", "", 8.0),
        ("bytefs", "b", "", 9.0),
        ("ext4", "a", "", 4.0),
        ("ext4", "b", "", 1.0),
    ];
    let with = |more: &str| {
        let text = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\n";
        let text = format!("{text}workloads = [\"a\", \"b\"]\n{more}");
        measured(&text, &runs)[0].clone()
    };
    // The gains are 2 and 9.
    let mean = with("versus = { ext4 = 5 }");
    assert_eq!(
        (mean.measured, mean.ratio, mean.holds),
        (Some(5.5), Some(1.1), Some(true))
    );
    assert_eq!(mean.reason, None);
    let max = with("versus = { ext4 = 5 }\ncombine = \"max\"\nreasons = { ext4 = \"it is\" }");
    assert_eq!((max.measured, max.holds), (Some(9.0), Some(false)));
    assert_eq!(max.reason.as_deref(), Some("it is"));
    let min = with("versus = { ext4 = \"above 2, at most 9\" }\ncombine = \"min\"");
    assert_eq!((min.measured, min.holds), (Some(2.0), Some(false)));
    assert_eq!(min.reason.as_deref(), Some("not found yet"));
    let saving = with("versus = { ext4 = \"similar to 1\" }\nform = \"saving\"\ncombine = \"max\"");
    assert_eq!(saving.measured, Some(0.5));
    let alone = with("paper = 20\nform = \"alone\"\ngrows = true\nunit = 2.0");
    assert_eq!(
        alone.measured,
        Some(17.0),
        "8.5 times the scale of 4 over 2"
    );
}

#[test]
fn setting_has_its_own_size_and_intervals_in_braces_are_divided() {
    let text = SETUP.replace(
        "[settings.slow.drive]",
        "[base.file_system]\ncleaning_interval = \"{8000}\"\n[settings.slow]\n\
         capacity = \"{2GiB}\"\nending = \"remount\"\n[settings.slow.drive]",
    );
    let setup = setup(&text).unwrap();
    let plan = |setting: &str| {
        let key = Key {
            host: "bytefs".to_owned(),
            workload: "a".to_owned(),
            setting: setting.to_owned(),
        };
        setup.plan(&key, 4, 1).unwrap()
    };
    let (base, slow) = (plan(""), plan("slow"));
    assert_eq!(slow.drive.capacity.0, 2 * base.drive.capacity.0);
    assert_eq!(slow.drive.capacity.0, 512 << 20);
    assert_eq!(
        (base.ending, slow.ending),
        (Ending::Unmount, Ending::Remount)
    );
    assert_eq!(slow.behaviour.cleaning_interval, Some(units::Ns(2_000)));
    assert_eq!(slow.behaviour.commit_interval, None);
}

#[test]
fn settings_are_compared_with_each_other() {
    let text = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\nworkloads = [\"a\"]\n\
                versus-setting = \"slow\"\npaper = \"above 1, at most 2\"";
    let runs = [("bytefs", "a", "", 3.0), ("bytefs", "a", "slow", 2.0)];
    let claims = measured(text, &runs);
    assert_eq!(
        (claims[0].measured, claims[0].versus.as_str()),
        (Some(1.5), "slow")
    );
}

/// A larger drive needs a workload that fills it with more.
#[test]
fn runs_of_two_workloads_are_compared() {
    let text = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\nworkloads = [\"a\"]\n\
                versus-setting = \"slow\"\nversus-workload = \"b\"\nform = \"excess\"\npaper = 1";
    let runs = [("bytefs", "a", "", 3.0), ("bytefs", "b", "slow", 2.0)];
    assert_eq!(measured(text, &runs)[0].measured, Some(1.0));
    let refused = read(&text.replace("\"b\"", "\"c\"")).err().unwrap();
    assert!(refused.starts_with("fig.toml:11: "), "{refused}");
}

/// A table of workloads makes a claim of each; hosts in a list are combined, and one that cannot be
/// run is named.
#[test]
fn host_that_cannot_run_is_listed_with_the_reason_of_the_stack_table() {
    let text = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\n\
                workloads = { a = 2, b = 2 }\nversus = [\"ext4\", \"hyfim\"]";
    let runs = [
        ("bytefs", "a", "", 6.0),
        ("bytefs", "b", "", 6.0),
        ("ext4", "a", "", 3.0),
        ("ext4", "b", "", 3.0),
    ];
    let claims = measured(text, &runs);
    assert_eq!(
        (claims[0].what.as_str(), claims[1].what.as_str()),
        ("w, a", "w, b")
    );
    let reason = claims[0].reason.clone().unwrap();
    assert!(
        reason.contains("measured without some")
            && reason.contains("hyfim does not run on the drive byte")
    );
    assert_eq!(claims[0].measured, Some(2.0));
    let alone = "what = \"w\"\nquantity = \"speed\"\nstack = \"hyfim\"\n\
                 workloads = [\"a\"]\nversus = { ext4 = 2 }";
    let claim = measured(alone, &[]).remove(0);
    assert_eq!(
        (claim.measured, claim.holds, claim.paper),
        (None, None, Some(2.0))
    );
    assert!(claim.reason.unwrap().contains("hyfim does not run"));
}

#[test]
fn a_figure_that_is_wrong_is_refused_with_its_line() {
    let good = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\n\
                workloads = [\"a\"]\nversus = { ext4 = 2 }";
    assert!(read(good).is_ok());
    let cases = [
        (
            "quantity = \"speed\"",
            "quantity = \"sped\"",
            "fig.toml:7: ",
            "\"sped\"",
        ),
        ("[\"a\"]", "[\"c\"]", "fig.toml:9: ", "\"c\""),
        ("[\"a\"]", "[]", "fig.toml:9: ", "a list of names"),
        (
            "{ ext4 = 2 }",
            "{ ext4 = \"two\" }",
            "fig.toml:10: ",
            "above A",
        ),
        (
            "versus = { ext4 = 2 }",
            "",
            "fig.toml:5: ",
            "in one of versus, workloads and paper",
        ),
        (
            "versus = { ext4 = 2 }",
            "paper = 2",
            "fig.toml:5: ",
            "something to compare with",
        ),
        ("stack =", "stacks =", "fig.toml:8: ", "stacks"),
        (
            "{ ext4 = 2 }",
            "{ ext4 = 2 }\nsettings = [\"fast\"]",
            "fig.toml:11: ",
            "\"fast\"",
        ),
        (
            "{ ext4 = 2 }",
            "{ ext4 = 2 }\nunit = 0.0",
            "fig.toml:11: ",
            "a unit above 0",
        ),
        ("{ ext4 = 2 }", "{ ext4 = 2", "fig.toml:10: ", ""),
    ];
    for (from, to, place, part) in cases {
        let said = read(&good.replace(from, to)).err().unwrap();
        assert!(
            said.starts_with(place) && said.contains(part),
            "{to}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Fails if a ratio is accepted that nothing could miss, or a set-up without claims.
#[test]
fn figure_without_a_second_bound_or_a_primary_claim_is_refused_with_its_line() {
    let good = "what = \"w\"\nquantity = \"speed\"\nstack = \"bytefs\"\n\
                workloads = [\"a\"]\nversus = { ext4 = 2 }";
    let cases = [
        (
            "{ ext4 = 2 }",
            "{ ext4 = \"above 1\" }",
            "fig.toml:5: ",
            "at most B",
        ),
        (
            "{ ext4 = 2 }",
            "{ ext4 = 1 }",
            "fig.toml:5: ",
            "similar to 1",
        ),
        (
            "{ ext4 = 2 }",
            "{ ext4 = 2 }\nset-up = \"other\"",
            "fig.toml:3: ",
            "a set-up that a claim is measured in",
        ),
    ];
    for (from, to, place, part) in cases {
        let said = read(&good.replace(from, to)).err().unwrap();
        assert!(
            said.starts_with(place) && said.contains(part),
            "{to}: {said}"
        );
    }
}

#[test]
fn a_setup_that_is_wrong_is_refused_with_its_line() {
    let key = Key {
        host: "bytefs".to_owned(),
        workload: "a".to_owned(),
        setting: "slow".to_owned(),
    };
    let plan = |text: &str| {
        let plan = setup(text)?.plan(&key, 4, 1);
        plan.map_err(|e| e.to_string())
    };
    assert!(plan(SETUP).is_ok());
    let cases = [
        ("small = 4", "small = 0", "setup.toml:6: ", "at least 1"),
        ("{1GiB}", "{1GiB", "setup.toml:4: ", "}"),
        ("bytefs-emulator\"", "tape\"", "", "tape"),
        ("{16MiB}", "{many}", "setup.toml:8: ", "many"),
        (
            "front.log.bytes",
            "front.log.size",
            "setup.toml:8: ",
            "size",
        ),
        ("200us", "fast", "setup.toml:10: ", "flash.timing.program"),
        ("{100}", "{x}", "setup.toml:12: ", "x"),
        ("title =", "titel =", "setup.toml:2: ", "titel"),
        (
            "[settings.slow.drive]",
            "[settings.slow]\ncapacity = \"{x}\"\n[settings.slow.drive]",
            "setup.toml:10: ",
            "x",
        ),
        (
            "[base.drive]",
            "[base.file_system]\nnap = 3\n[base.drive]",
            "setup.toml:8: ",
            "nap",
        ),
    ];
    for (from, to, place, part) in cases {
        let said = plan(&SETUP.replacen(from, to, 1)).err().unwrap();
        assert!(
            said.starts_with(place) && said.contains(part),
            "{to}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
