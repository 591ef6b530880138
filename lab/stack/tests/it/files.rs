//! Drive files and plan files.

use ssd::Precondition;
use stack::{Plan, Sampling, drive::resolve, plan_file};
use std::path::PathBuf;
use tempfile::TempDir;
use units::{Bytes, MIB, Ns};

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it can be written");
    path
}

fn drive(text: &str) -> Result<ssd::DriveConfig, String> {
    let folder = TempDir::new().expect("a temporary folder");
    let path = file(&folder, "mine.toml", text);
    let resolved = resolve(path.to_str().expect("it is text"), None);
    resolved.map_err(|e| e.to_string())
}

fn plans(text: &str) -> Result<Vec<Plan>, String> {
    let folder = TempDir::new().expect("a temporary folder");
    file(
        &folder,
        "small.toml",
        "preset = \"block\"\ncapacity = \"64MiB\"\n",
    );
    let path = file(&folder, "plan.toml", text);
    plan_file(path.to_str().expect("it is text")).map_err(|e| e.to_string())
}

#[test]
fn a_drive_file_changes_what_it_names() {
    let config = drive("preset = \"fdp\"\n[placement]\nhandles = 4\n[flash]\npart = \"qlc\"\n");
    let config = config.expect("it is a good file");
    assert_eq!(
        (config.name.as_str(), config.placement.handles),
        ("mine", 4)
    );
    assert_eq!(config.timing().unwrap().read, Ns(121_700));
    assert_eq!(config.capacity, Bytes(4096 * MIB));
}

#[test]
fn one_time_of_the_flash_may_change() {
    let config = drive("preset = \"block\"\nflash.timing.read = \"40us\"\n").unwrap();
    let timing = config.timing().unwrap();
    assert_eq!((timing.read, timing.program), (Ns::us(40), Ns::us(561)));
}

#[test]
fn a_capacity_alone_takes_flash_along() {
    let raw = |text| drive(text).unwrap().geometry.bytes();
    let small = raw("preset = \"block\"\ncapacity = \"1GiB\"\n");
    let large = raw("preset = \"block\"\n");
    assert!(small < large / 3);
    let shaped = "preset = \"block\"\ncapacity = \"1GiB\"\n[geometry]\nblocks_per_plane = 402\n";
    assert_eq!(raw(shaped), large);
}

#[test]
fn bad_drive_files_name_file_line_and_expectation() {
    let says = |text: &str| drive(text).expect_err("it is refused");
    let cases = [
        (
            "",
            "mine.toml:1: preset: expected one of block, streams, fdp",
        ),
        ("preset = \"tape\"", "mine.toml:1: preset: expected one of"),
        (
            "preset = \"block\"\n\n[geometry]\nchanels = 4\n",
            "mine.toml:4: geometry.chanels: unknown field `chanels`, expected one of `channels`",
        ),
        (
            "preset = \"block\"\ncapacity = \"many\"\n",
            "mine.toml:2: capacity: ",
        ),
        (
            "preset = \"block\"\n[placement]\nhandles = -1\n",
            "mine.toml:3: placement.handles: ",
        ),
        (
            "preset = \"block\"\ngeometry = 4\n",
            "mine.toml:2: geometry: ",
        ),
        ("preset = \"block\"\n[geometry\n", "mine.toml:2: "),
        ("preset = \"block\"\npreset = \"fdp\"\n", "mine.toml:2: "),
    ];
    for (text, expected) in cases {
        let error = says(text);
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let impossible = [
        ("[geometry]\nchannels = 0", "channels is 0"),
        ("[geometry]\nblocks_per_plane = 40", "no spare blocks"),
        ("[wear]\nspare_blocks = 5000", "wear.spare_blocks"),
        ("[flash.timing]\nbus_bytes_per_s = 0", "bus_bytes_per_s"),
        ("capacity = 5000", "capacity: 5000 given"),
        (
            "capacity = \"64MiB\"\n[geometry]\npage_bytes = 0",
            "page_bytes is 0",
        ),
    ];
    for (rest, expected) in impossible {
        let error = says(&format!("preset = \"block\"\n{rest}\n"));
        assert!(
            error.contains("mine.toml: ") && error.contains(expected),
            "{rest}: {error}"
        );
    }
    let error = resolve("no-such.toml", None).unwrap_err().to_string();
    assert!(
        error.contains("block, streams, fdp") && error.contains("no-such.toml"),
        "{error}"
    );
}

#[test]
fn sizes_that_no_drive_has_are_refused() {
    for size in [0, 1, 4096, 5000, u64::MAX, u64::MAX / 4096 * 4096] {
        let refused = resolve("fdp", Some(Bytes(size)));
        assert!(refused.is_err() || size == 4096, "{size}");
    }
}

#[test]
fn a_plan_file_expands_in_the_order_of_nested_loops() {
    let text = r#"
        stacks = ["raw@streams", "raw@fdp"]
        preconditions = ["fresh", "aged"]
        workloads = ["randwrite:ops=10"]
        seeds = [1, 2]
        size = "256MiB"
        sample = "10ms"
        overrides."placement.handles" = [1, 2, 4]
        host.cpu.cores = 4
    "#;
    let plans = plans(text).expect("it is a good plan");
    assert_eq!(plans.len(), 2 * 3 * 2 * 2);
    let facts = |i: usize| {
        let plan: &Plan = &plans[i];
        let (past, handles) = (plan.precondition, plan.drive.placement.handles);
        (plan.stack.to_string(), handles, past, plan.seed)
    };
    assert_eq!(
        facts(0),
        ("raw@streams".to_owned(), 1, Precondition::Fresh, 1)
    );
    assert_eq!(
        facts(1),
        ("raw@streams".to_owned(), 1, Precondition::Fresh, 2)
    );
    assert_eq!(
        facts(2),
        ("raw@streams".to_owned(), 1, Precondition::Aged, 1)
    );
    assert_eq!(
        facts(4),
        ("raw@streams".to_owned(), 2, Precondition::Fresh, 1)
    );
    assert_eq!(facts(23), ("raw@fdp".to_owned(), 4, Precondition::Aged, 2));
    assert!(
        plans
            .iter()
            .all(|p| p.host.cpu.cores == 4 && p.sample == Some(Sampling::each(Ns::ms(10))))
    );
}

#[test]
fn a_plan_may_name_drive_files_beside_it() {
    let text = "stacks = [\"raw@block\"]\nworkloads = [\"randread\"]\ndrives = [\"small.toml\", \"block\"]\n";
    let capacities: Vec<u64> = plans(text)
        .unwrap()
        .iter()
        .map(|p| p.drive.capacity.0)
        .collect();
    assert_eq!(capacities, [64 * MIB, 4096 * MIB]);
}

#[test]
fn bad_plan_files_name_file_line_and_expectation() {
    let good = "stacks = [\"raw@block\"]\nworkloads = [\"randread\"]\n";
    let cases = [
        (
            "workloads = [\"randread\"]".to_owned(),
            "plan.toml:1: expected a list of stacks",
        ),
        (
            format!("{good}sedes = [1]"),
            "plan.toml:3: expected one of stacks",
        ),
        (format!("{good}seeds = [\"one\"]"), "plan.toml:3: seeds: "),
        (
            format!("{good}seeds = []"),
            "plan.toml:3: seeds: expected a list that is not empty",
        ),
        (
            format!("{good}drives = [\"tape\"]"),
            "plan.toml:3: expected a drive preset",
        ),
        (
            format!("{good}preconditions = [\"old\"]"),
            "plan.toml:3: preconditions: ",
        ),
        (
            format!("{good}[overrides]\n\"placement.hands\" = 1"),
            "plan.toml:4: placement.hands: unknown field",
        ),
        (
            format!("{good}[overrides]\n\"geometry.channels\" = [4, 0]"),
            "channels is 0",
        ),
        (
            format!("{good}[host]\ncpu.cores = 0"),
            "plan.toml:4: host.cpu.cores: 0 given",
        ),
        (
            format!("{good}[host]\ncores = 4"),
            "plan.toml:4: host.cores: unknown field",
        ),
        (
            format!("{good}[page_cache]\nmemory = \"4KiB\""),
            "plan.toml:4: page_cache.memory: 4 KiB given",
        ),
        (
            format!("{good}[page_cache]\nsize = 4"),
            "plan.toml:4: page_cache.size: unknown field",
        ),
    ];
    for (text, expected) in cases {
        let error = plans(&text).expect_err("it is refused");
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}
