//! Figures of papers, at a scale at which a run takes a moment.

use report::claim::{Claim, Reproduction};
use report::record::Run;
use stack::reproduce::{Asked, Paper, Prepared, prepare};
use stack::sweep;

/// A figure such as `fig8` of `ByteFS` or `persimmon/fig3.1`, with sizes divided by `factor`.
fn prepared(figure: &str, factor: u64) -> Prepared {
    let (paper, figure) = figure.split_once('/').unwrap_or(("bytefs", figure));
    let asked = Asked {
        paper: Paper::named(paper).expect("it is in the table"),
        figure: Some(figure.to_owned()),
        scale: "test".to_owned(),
        factor,
        seed: 1,
    };
    prepare(asked).expect("its files are good")
}

/// The same figure, measured by its runs.
fn reproduced(figure: &str, factor: u64) -> Reproduction {
    let prepared = prepared(figure, factor);
    let runs = sweep(&prepared.plans, 2, &|| 0.0, &|_, _| ());
    let runs = runs
        .into_iter()
        .map(|run| Ok(run.expect("each can be run")));
    prepared.claims(runs.collect())
}

fn claims<'a>(reproduction: &'a Reproduction, id: &str, versus: &str) -> Vec<&'a Claim> {
    let claims = reproduction.claims.iter();
    claims
        .filter(|c| c.id == id && c.versus == versus)
        .collect()
}

/// Bytes of all purposes except contents.
fn metadata(run: &Run) -> f64 {
    let purposes = run
        .host
        .by_purpose
        .iter()
        .filter(|(name, _)| *name != "data");
    let bytes = purposes.map(|(_, d)| d.read.byte + d.read.block + d.write.byte + d.write.block);
    bytes.sum::<u64>() as f64
}

/// Measured values are those of the records.
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
            of("ext4") / of("bytefs+strict")
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

/// The power is cut after the last call; recovery scans the log and writes it out.
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

/// Every claim points to an existing field of a record. At scales below `small` the drive is too
/// small for the workloads on F2FS.
#[test]
fn every_claim_points_to_an_existing_field() {
    for figure in ["table2", "fig1"] {
        for claim in reproduced(figure, 64).claims {
            let nothing = |reason: &String| reason.contains("a record has nothing");
            assert!(!claim.reason.as_ref().is_some_and(nothing), "{claim:?}");
        }
    }
}

/// Every variant of ByteFS is compared with the previous one.
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

/// The usable space is that of the zones less reserves, and Persimmon reserves less.
#[test]
//= dissertation 4.6.3
fn space_for_files_is_measured() {
    let found = reproduced("persimmon/table4.3", 64);
    for claim in &found.claims {
        assert!(claim.measured.is_some_and(|x| x > 0.0), "{claim:?}");
        assert!(
            claim.versus.is_empty() || claim.measured > Some(1.0),
            "{claim:?}"
        );
    }
    for run in &found.runs {
        let told = run.file_system.expect("it is one");
        let zones = run.zones.expect("the drive has some");
        assert!(told.usable_bytes < zones.capacity_bytes);
        assert_eq!(zones.conventional > 0, run.stack.starts_with("f2fs"));
        let log = told.log.expect("it is a log");
        assert!(log.memory_bytes > 0 && log.checkpoints > 0);
    }
}

/// The same files are written on ZoneFS and on F2FS, and each claim is arithmetic on both runs.
#[test]
//= dissertation 3.1
fn zonefs_files_are_compared_with_f2fs() {
    let found = reproduced("persimmon/fig3.1", 1024);
    let run = |host: &str, files: u32| {
        let is = |run: &&Run| {
            run.stack.starts_with(host)
                && run.workload.contains(&format!("files={files},"))
                && run.workload.contains("bs=128k")
        };
        found.runs.iter().find(is).expect("it was run")
    };
    for run in &found.runs {
        assert!(run.errors.is_empty(), "{:?}", run.errors);
    }
    let (f2fs, zones) = (run("f2fs", 8), run("zonefs", 8));
    assert_eq!(f2fs.ops, zones.ops);
    let counts = zones.zones.expect("the drive has some");
    // Eight files, and the zone of the superblock, which is finished.
    assert_eq!((counts.used, counts.full), (9, 1));
    assert_eq!(zones.app.as_ref().map(|app| app.write_bytes), Some(8 << 20));
    let claim = found.claims.iter().find(|c| c.what.contains("large-8"));
    let measured = claim.and_then(|c| c.measured).expect("it was run");
    assert!((measured - f2fs.ops_per_s / zones.ops_per_s).abs() < 1e-12);
}

/// The reads of a mount grow with the file system, and unmounting leaves it clean.
#[test]
//= dissertation 4.6.5
fn mounting_again_is_measured() {
    let prepared = prepared("persimmon/table4.4", 200);
    let of = |size: &str| {
        let is =
            |plan: &&stack::Plan| plan.stack.host == "persimmon" && plan.label.starts_with(size);
        let plan = prepared.plans.iter().find(is).expect("it is planned");
        let run = stack::run(plan, &mut |_| ()).expect("it can be run");
        run.remount.expect("it was mounted again")
    };
    let (small, large) = (of("256"), of("512"));
    assert!(small.unmount_ns > 0 && small.unmount_write_bytes > 0);
    assert!(large.mount_ns > small.mount_ns && large.mount_read_bytes > small.mount_read_bytes);
}
