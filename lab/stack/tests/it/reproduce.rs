//! Figures of papers, measured at a scale at which a run takes a moment.

use report::claim::{Claim, Reproduction};
use report::record::Run;
use stack::reproduce::{Asked, Paper, Prepared, prepare};
use stack::sweep;

/// The figure of `ByteFS`, with sizes divided by `factor`.
fn prepared(figure: &str, factor: u64) -> Prepared {
    let asked = Asked {
        paper: Paper::named("bytefs").expect("it is in the table"),
        figure: Some(figure.to_owned()),
        scale: "test".to_owned(),
        factor,
        seed: 1,
    };
    prepare(asked).expect("its files are good")
}

/// The same, measured.
fn reproduced(figure: &str, factor: u64) -> Reproduction {
    let prepared = prepared(figure, factor);
    let runs = sweep(&prepared.plans, 2, &|| 0.0, &|_, _| ());
    let runs = runs.into_iter().map(|run| run.expect("each can be run"));
    prepared.claims(runs.collect())
}

fn claims<'a>(reproduction: &'a Reproduction, id: &str, versus: &str) -> Vec<&'a Claim> {
    let claims = reproduction.claims.iter();
    claims
        .filter(|c| c.id == id && c.versus == versus)
        .collect()
}

/// Bytes of all purposes but contents.
fn metadata(run: &Run) -> f64 {
    let purposes = run
        .host
        .by_purpose
        .iter()
        .filter(|(name, _)| *name != "data");
    let bytes = purposes.map(|(_, d)| d.read.byte + d.read.block + d.write.byte + d.write.block);
    bytes.sum::<u64>() as f64
}

/// What is said to be measured is what the records say.
#[test]
fn claims_are_arithmetic_on_the_records_of_the_runs() {
    let found = reproduced("fig8", 256);
    let saved: Vec<f64> = ["create", "delete", "mkdir", "rmdir"]
        .iter()
        .map(|workload| {
            let of = |host: &str| {
                let is = |run: &&Run| {
                    run.stack == format!("{host}@bytefs-emulator")
                        && run.workload.starts_with(workload)
                };
                metadata(found.runs.iter().find(is).expect("it was run"))
            };
            of("ext4") / of("bytefs")
        })
        .collect();
    let of_ext4 = claims(&found, "B19", "ext4");
    let most = saved.iter().copied().fold(0.0, f64::max);
    assert_eq!(of_ext4[0].measured, Some(most));
    let mean = saved.iter().sum::<f64>() / 4.0;
    assert!((of_ext4[1].measured.expect("it was run") - mean).abs() < 1e-12);
    for claim in claims(&found, "B19", "f2fs") {
        assert!(claim.measured.is_some_and(|saved| saved > 0.0), "{claim:?}");
    }
}

/// The power is cut after the last call, and the log is scanned and written out.
#[test]
fn recovery_is_measured_after_a_power_cut() {
    let found = reproduced("recovery", 256);
    let claim = claims(&found, "B4", "")[0];
    let ycsb = found.runs.iter().filter(|r| r.workload.starts_with("ycsb"));
    let times: Vec<f64> = ycsb
        .map(|run| {
            let recovery = run.recovery.expect("the power was cut");
            assert!(recovery.time_ns > recovery.power_on_ns);
            (recovery.time_ns - recovery.power_on_ns) as f64
        })
        .collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let measured = claim.measured.expect("it was run");
    assert!((measured / (mean * 256.0 / 1e9) - 1.0).abs() < 1e-9);
}

/// No claim points at something that a record does not have. F2FS has no room for the
/// workloads on a drive that is smaller than that of the scale `small`.
#[test]
fn every_pointer_leads_somewhere() {
    for figure in ["table2", "fig1"] {
        for claim in reproduced(figure, 64).claims {
            let nothing = |reason: &String| reason.contains("a record has nothing");
            assert!(!claim.reason.as_ref().is_some_and(nothing), "{claim:?}");
        }
    }
}

/// Every part of ByteFS is set against the one before it.
#[test]
//= bytefs 5.4
fn the_variants_of_bytefs_are_all_measured() {
    let found = reproduced("fig12", 256);
    for versus in ["ext4", "bytefs-dual", "bytefs-log"] {
        for claim in claims(&found, "B25", versus) {
            assert!(claim.measured.is_some(), "{claim:?}");
        }
    }
}

#[test]
fn figures_run_pmfs_beside_the_others() {
    for figure in ["fig6", "fig9", "fig10", "fig11"] {
        let plans = prepared(figure, 64).plans;
        let mut hosts = plans.iter().map(|plan| &plan.stack.host);
        assert!(hosts.any(|host| host == "pmfs"), "{figure}");
    }
}
