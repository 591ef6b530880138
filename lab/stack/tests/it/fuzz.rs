//! Mutated plan files and drive files: each is accepted or rejected without a panic, and a drive
//! that can be built can be preconditioned.

use sim::{Rng, Seed};
use ssd::{DriveConfig, Precondition};
use stack::{drive::resolve, plan_file};
use tempfile::TempDir;
use units::MIB;

/// Replacements for a value, a key or anything else.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "7",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e300",
    "nan",
    "true",
    "\"\"",
    "\"0\"",
    "\"16777215TiB\"",
    "\"1000000h\"",
    "\"9000000s\"",
    "\"../..\"",
    "\"fdp\"",
    "\"raw@fdp\"",
    "\"qlc\"",
    "[]",
    "[1, 2]",
    "[[]]",
    "{}",
    "1979-05-27",
    "[overrides]",
    "\"geometry.channels\"",
    "=",
    "]",
    "\n",
    "\0",
    "é",
];

const PLAN: &str = r#"stacks = ["raw@streams", "raw@fdp"]
drives = ["small.toml"]
preconditions = ["fresh", "aged"]
workloads = ["randwrite:ops=10"]
seeds = [1, 2]
size = "256MiB"
sample = "10ms"

[overrides]
"placement.handles" = [1, 2, 4]
"controller.write_buffer" = "2MiB"

[host]
cpu.cores = 4
link.lanes = 4
"#;

/// The small drive that mutants are made of, with every knob.
fn small() -> String {
    let config = resolve("fdp", Some(units::Bytes(64 * MIB)));
    let mut config = config.expect("it can be built");
    config.flash.timing = Some(config.timing().expect("it has a part"));
    let text = toml::to_string(&config).expect("it is numbers and words");
    // A drive file names its preset, and has no name.
    let lines = text.lines().filter(|line| !line.starts_with("name = "));
    let rest: Vec<&str> = lines.collect();
    format!("preset = \"fdp\"\n{}\n", rest.join("\n"))
}

/// `text` with one to four changes.
fn mutant(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=rng.below(4) {
        let at = rng.below(lines.len() as u64) as usize;
        let word = WORDS[rng.below(WORDS.len() as u64) as usize];
        let other = lines[rng.below(lines.len() as u64) as usize].clone();
        let line = &mut lines[at];
        // Most changes keep the syntax, so that they pass the parser.
        match rng.below(8) {
            0..5 => {
                let key = line.split('=').next().unwrap_or_default().to_owned();
                *line = format!("{key}= {word}");
            }
            5 => *line = other,
            6 => line.truncate(line.len() / 2),
            _ => line.push_str(word),
        }
    }
    lines.join("\n")
}

/// Preconditions a drive, if that needs little memory.
fn age(config: &DriveConfig) {
    let little = config.geometry.bytes() <= 512 * MIB && config.geometry.blocks() <= 100_000;
    for past in Precondition::ALL.into_iter().filter(|_| little) {
        if let Err(error) = past.media(config, Seed(1)) {
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn drive_files_are_read_or_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("mutant.toml");
    let path = path.to_str().expect("it is text");
    let (good, mut rng) = (small(), Seed(11).stream("drive files"));
    let mut built = 0;
    for _ in 0..6_000 {
        let text = mutant(&good, &mut rng);
        std::fs::write(path, &text).expect("it can be written");
        match resolve(path, None) {
            Ok(config) => {
                built += 1;
                age(&config);
            }
            Err(error) => assert!(error.to_string().contains("mutant.toml"), "{text}: {error}"),
        }
    }
    assert!(built > 100, "only {built} of them could be built");
}

#[test]
fn plan_files_are_read_or_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    std::fs::write(folder.path().join("small.toml"), small()).expect("it can be written");
    let path = folder.path().join("mutant.toml");
    let path = path.to_str().expect("it is text");
    let mut rng = Seed(12).stream("plan files");
    let mut read = 0;
    for _ in 0..3_000 {
        let text = mutant(PLAN, &mut rng);
        std::fs::write(path, &text).expect("it can be written");
        match plan_file(path) {
            Ok(plans) => read += usize::from(!plans.is_empty()),
            Err(error) => assert!(error.to_string().contains("mutant.toml"), "{text}: {error}"),
        }
    }
    assert!(read > 30, "only {read} of them could be read");
}

#[test]
fn bad_blocks_leave_room_for_a_past_or_are_refused() {
    for preset in ["block", "streams", "fdp"] {
        let small = resolve(preset, Some(units::Bytes(64 * MIB))).expect("it can be built");
        for per_million in [0, 1_000, 50_000, 300_000, 500_000, 900_000, 1_000_000] {
            let mut config = small.clone();
            config.faults.factory_bad_blocks = per_million;
            age(&config);
            let full = Precondition::Full.media(&config, Seed(1));
            assert!(per_million > 1_000 || full.is_ok(), "{per_million}");
            assert!(per_million < 500_000 || full.is_err(), "{per_million}");
            let told = full.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.is_empty() || told.starts_with("too many bad blocks"));
        }
    }
}
