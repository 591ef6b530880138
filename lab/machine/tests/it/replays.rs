//! Recorded programs on designs of memory.

use machine::{Outcome, Setup, Witness, run};
use programs::{Workload, characterise};
use sim::Seed;
use skybyte::Profile;
use std::path::Path;

/// A record of ChampSim: an instruction that loads from there, or touches no memory.
fn instruction(load: Option<u64>) -> [u8; 64] {
    let mut record = [0; 64];
    record[32..40].copy_from_slice(&load.unwrap_or(0).to_le_bytes());
    record
}

/// Loads of `pages` pages, line after line, with two instructions after each.
fn phases(pages: u64) -> Vec<u8> {
    let lines = (0..pages * 64).map(|line| 0x10_0000 + line * 64);
    let round = |at| [Some(at), None, None].map(instruction).concat();
    lines.flat_map(round).collect()
}

fn ran(design: &str, workload: &str) -> Outcome {
    let workload = Workload::parse(workload).unwrap();
    let setup = Setup::new(design, Profile::Default, workload, 1).unwrap();
    run(&setup, Witness::NOBODY).unwrap()
}

fn named(path: &Path, params: &str) -> String {
    format!("{}:{params}", path.display())
}

#[test]
fn a_recorded_program_executes_the_same_on_every_design() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    std::fs::write(&path, phases(80)).unwrap();
    let text = named(&path, "warm=0");
    let mut program = Workload::parse(&text).unwrap().program(Seed(1)).unwrap();
    let wanted = characterise(&mut *program).instructions;
    assert_eq!(wanted, 80 * 64 * 3);
    for design in ["dram-only", "skybyte-c"] {
        assert_eq!(ran(design, &text).instructions, wanted, "{design}");
    }
}

#[test]
fn a_run_ends_with_what_its_replay_meets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    std::fs::write(&path, phases(20)).unwrap();
    let workload = Workload::parse(&named(&path, "warm=0")).unwrap();
    // Which reads the file, that is half as long by the time of the run.
    drop(workload.program(Seed(1)).unwrap());
    let setup = Setup::new("dram-only", Profile::Default, workload, 1).unwrap();
    std::fs::write(&path, phases(10)).unwrap();
    let refused = run(&setup, Witness::NOBODY).unwrap_err().to_string();
    assert!(
        refused.contains("found something else: it has changed"),
        "{refused}"
    );
}
