//! Recorded programs on designs of memory.

use machine::{Outcome, Setup, Witness, run};
use programs::{Workload, characterise};
use sim::Seed;
use skybyte::{DESIGNS, Profile};
use std::path::Path;
use units::{Bytes, MIB};

/// ChampSim record of an instruction that loads from an address, or accesses no memory.
fn instruction(load: Option<u64>) -> [u8; 64] {
    let mut record = [0; 64];
    record[32..40].copy_from_slice(&load.unwrap_or(0).to_le_bytes());
    record
}

/// Loads of `pages` pages, line by line, with two instructions after each load.
fn phases(pages: u64) -> Vec<u8> {
    let lines = (0..pages * 64).map(|line| 0x10_0000 + line * 64);
    let round = |at| [Some(at), None, None].map(instruction).concat();
    lines.flat_map(round).collect()
}

fn setup(design: &str, profile: Profile, workload: &str) -> Setup {
    let workload = Workload::parse(workload).unwrap();
    Setup::new(design, profile, workload, 1).unwrap()
}

fn ran(design: &str, profile: Profile, workload: &str) -> Outcome {
    run(&setup(design, profile, workload), Witness::NOBODY).unwrap()
}

fn named(path: &Path, params: &str) -> String {
    format!("{}:{params}", path.display())
}

#[test]
fn recorded_program_executes_equal_instructions_on_every_design() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    std::fs::write(&path, phases(80)).unwrap();
    let text = named(&path, "warm=0");
    let mut program = Workload::parse(&text).unwrap().program(Seed(1)).unwrap();
    let wanted = characterise(&mut *program).instructions;
    assert_eq!(wanted, 80 * 64 * 3);
    for (design, profile) in DESIGNS
        .iter()
        .flat_map(|d| Profile::ALL.map(|p| (d.name, p)))
    {
        let found = ran(design, profile, &text).instructions;
        assert_eq!(found, wanted, "{design} {}", profile.name());
    }
}

/// One thread loads; the other computes and finishes its preparation long before. Without a barrier
/// it would run on meanwhile, by an amount that depends on the design.
#[test]
fn recorded_threads_that_are_uneven_measure_the_same_on_every_design() {
    let folder = tempfile::tempdir().unwrap();
    let computes = |load: u64| {
        let rest = std::iter::repeat_n(instruction(None), 40);
        [instruction(Some(load * 64))].into_iter().chain(rest)
    };
    let paths = ["loads", "computes"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], phases(40)).unwrap();
    std::fs::write(
        &paths[1],
        (1..400).flat_map(computes).collect::<Vec<_>>().concat(),
    )
    .unwrap();
    let text = format!(
        "{}+{}:warm=50,format=champsim",
        paths[0].display(),
        paths[1].display()
    );
    let mut program = Workload::parse(&text).unwrap().program(Seed(1)).unwrap();
    let wanted = characterise(&mut *program).instructions;
    for (design, profile) in DESIGNS
        .iter()
        .flat_map(|d| Profile::ALL.map(|p| (d.name, p)))
    {
        let found = ran(design, profile, &text).instructions;
        assert_eq!(found, wanted, "{design} {}", profile.name());
    }
}

/// Divisor and drive DRAM for a trace that touches `pages` pages.
fn divided(pages: u64, params: &str) -> (u64, Bytes) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    let loads = (0..pages).map(|page| instruction(Some((1 << 40) + page * 4096)));
    std::fs::write(&path, loads.collect::<Vec<_>>().concat()).unwrap();
    let setup = setup("skybyte-full", Profile::Default, &named(&path, params));
    (setup.factor, setup.device().dram.bytes)
}

#[test]
fn computer_of_a_recorded_program_scales_with_its_memory() {
    // The drive's DRAM is a sixteenth of the memory, as for the 8 GiB of the paper's smallest
    // workload.
    assert_eq!(divided(16_384, "warm=0"), (128, Bytes(4 * MIB)));
    assert_eq!(divided(32_768, "warm=0,scale=auto"), (64, Bytes(8 * MIB)));
    // The computer is no smaller than for 4 MiB.
    assert_eq!(divided(1_024, "warm=0"), divided(1, "warm=0"));
    assert_eq!(divided(1, "warm=0"), (2_048, Bytes(MIB / 4)));
    for (scale, factor) in [("small", 256), ("medium", 16), ("paper", 1)] {
        let found = divided(100, &format!("scale={scale}"));
        assert_eq!(found, (factor, Bytes(512 * MIB / factor)));
    }
}

#[test]
fn recorded_program_overflows_a_small_drive_dram() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    std::fs::write(&path, phases(200).repeat(2)).unwrap();
    let reads = |text: &str| ran("base-cssd", Profile::Default, text).flash.read_pages;
    let (all, fits) = (named(&path, "warm=0"), named(&path, "warm=0,scale=small"));
    // 64 of its 200 pages fit the small DRAM, and all fit the large one.
    let (small, large) = (reads(&all), reads(&fits));
    assert!(small > 350 && large < 220, "{small} {large}");
}

#[test]
fn run_fails_with_the_error_of_its_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("champsim");
    std::fs::write(&path, phases(20)).unwrap();
    // The first reading of the file; it is half as long at the time of the run.
    let setup = setup("dram-only", Profile::Default, &named(&path, "warm=0"));
    std::fs::write(&path, phases(10)).unwrap();
    let refused = run(&setup, Witness::NOBODY).unwrap_err().to_string();
    assert!(
        refused.contains("found something else: it has changed"),
        "{refused}"
    );
}
