//! Mistakes of a user: status 2, one sentence, and no file left behind or changed.

use crate::{Bench, Said};

/// Asserts that `said` is an error of one sentence that contains all of `words`.
fn refused(said: &Said, words: &[&str]) {
    let Said {
        command,
        code,
        out,
        err,
    } = said;
    assert_eq!(*code, Some(2), "{command}: {err}");
    assert_eq!(out, "", "{command}");
    assert!(
        err.starts_with("flashloom: ") && err.ends_with('\n') && err.lines().count() == 1,
        "{command}: {err}"
    );
    assert!(
        !err.contains("panicked") && !err.contains(".flashloom-"),
        "{command}: {err}"
    );
    for word in words {
        assert!(err.contains(word), "{command}: expected {word:?} in {err}");
    }
}

impl Bench {
    /// Asserts that `line` is rejected with `words`, and changes no file.
    pub(crate) fn refuses(&self, line: &str, words: &[&str]) {
        self.refuses_words(&line.split_whitespace().collect::<Vec<_>>(), words);
    }

    fn refuses_words(&self, line: &[&str], words: &[&str]) {
        let before = self.files();
        refused(&self.run_words(line), words);
        let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
            files.iter().map(|file| file.0.clone()).collect()
        };
        let after = self.files();
        assert_eq!(names(&after), names(&before), "{line:?}");
        assert!(after == before, "{line:?} changed a file");
    }
}

#[test]
fn a_failed_import_leaves_the_drive_as_it_was() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    bench.write("large.img", vec![1; (64 << 20) + 1]);
    bench.refuses("drive import d.flash large.img", &["large.img", "64 MiB"]);
    bench.refuses("drive import d.flash none.img", &["none.img"]);
    bench.refuses("drive import d.flash .", &[]);
    bench.refuses("drive create .", &[".: expected a file, found a directory"]);
    bench.refuses(
        "drive export d.flash d.flash",
        &["d.flash", "also an input"],
    );
    bench.refuses(
        "drive export d.flash none/out.img",
        &["none/out.img", "directory"],
    );
    bench.refuses("drive export d.flash .", &["directory"]);
    bench.refuses("drive info /dev/null", &["/dev/null", "found a device"]);
    // Not even a user with the permission replaces a special file.
    std::os::unix::net::UnixListener::bind(bench.path("out")).expect("a socket");
    bench.refuses(
        "drive export d.flash out",
        &["out: expected a file, found a device"],
    );
    bench.refuses(
        "learn sqlite -o out",
        &["out: expected a file, found a device"],
    );
    bench.refuses("learn postgres-ext4 -o r.toml", &["postgres-ext4: "]);
    let faulty = "preset = \"block\"\ncapacity = \"64MiB\"\n[faults]\nprogram_failures = 1000000\n";
    bench.write("faulty.toml", faulty);
    bench.done("drive create f.flash --preset faulty.toml");
    bench.write("in.img", vec![1; 32 << 20]);
    bench.refuses("drive import f.flash in.img", &["f.flash: "]);
}

/// Command lines, with a part of the error of each.
const LINES: &[(&str, &str)] = &[
    ("run raw@blok --workload randread", "block, streams, fdp"),
    ("run block --workload randread", "HOST@DRIVE"),
    (
        "run zenfs@fdp --workload varmail:ops=9",
        "zenfs does not run on the drive fdp",
    ),
    (
        "run shimmer@zns --rules none.toml --workload varmail:ops=9",
        "none.toml",
    ),
    (
        "shim --rules none.toml -- true",
        "none.toml: no such file, nor ready rules",
    ),
    ("shim --rules . -- true", ".: Is a directory"),
    (
        "run ext4@block --workload zipfwrite",
        "zipfwrite is a block workload",
    ),
    (
        "run raw@block --workload varmail",
        "varmail is a file workload",
    ),
    (
        "run raw@block --workload randred:ops=9",
        "did you mean randread",
    ),
    (
        "run raw@block --workload randread:opps=9",
        "did you mean ops",
    ),
    ("run raw@block --workload none.csv", "none.csv"),
    (
        "run raw@block --drive fpd --workload randread:ops=9",
        "block, streams, fdp",
    ),
    (
        "run raw@block --drive none.toml --workload randread:ops=9",
        "none.toml",
    ),
    ("drive create d.flash --preset blok", "block, streams, fdp"),
    ("drive create d.flash --size 0", "capacity: 0 given"),
    (
        "drive create d.flash --size 18446744073709551615",
        "256 TiB",
    ),
    (
        "run raw@block --workload randread:ops=9 --size 32TiB",
        "at most 15.94 TiB with mapping.unit at 4 KiB, or a mapping.unit of 16 KiB,",
    ),
    ("drive create d.flash --size 1EiB", "--size"),
    ("drive create none/d.flash --size 64MiB", "none"),
    ("drive create d.flash --size=-5", "--size"),
    (
        "run raw@block --workload randread:ops=9 --size 0",
        "capacity",
    ),
    (
        "run raw@block --workload randread:ops=9 --size=-1",
        "--size",
    ),
    (
        "run raw@block --workload randread:ops=9 --size 18446744073709551615",
        "256 TiB",
    ),
    (
        "run raw@block --workload randread:ops=9 --size 18446744073709551616",
        "--size",
    ),
    (
        "run raw@block --workload randread:ops=9 --seed -1",
        "invalid value '-1' for '--seed",
    ),
    (
        "run raw@block --workload randread:ops=9 --precondition old",
        "fresh, full, aged or used",
    ),
    (
        "run raw@block --workload randread:ops=9 --format xml",
        "csv, msr",
    ),
    (
        "run raw@block --workload randread --trace x.csv",
        "--workload",
    ),
    (
        "run raw@block --workload randread:ops=9 --size 64MiB --save",
        "--drive",
    ),
    (
        "run raw@block --workload randread:ops=9 --drive block --save",
        "drive file",
    ),
    ("compare randread:ops=9 --stacks raw@block,", "HOST@DRIVE"),
    ("compare randread:ops=9 --jobs -1", "-1"),
    ("compare randread:ops=9 --jobs 0", "a number of at least 1"),
    ("soak --cuts 9 --points 0", "--points"),
    ("compare varmial:ops=9", "; did you mean varmail"),
    ("compare .", "\".\", which is a directory"),
    ("compare none/there.csv", "which is not there"),
    ("run ext4@blok --workload varmail", "; did you mean block"),
    ("run ext5@block --workload varmail", "; did you mean ext4"),
    (
        "run ext4@block --workload bfs",
        "bfs is a memory workload: run it with flashloom memory",
    ),
    (
        "crash ext4@block --workload none.flt --points 0",
        "a number of points of at least 1",
    ),
    (
        "crash raw@block --workload randwrite:ops=3 --size 64MiB --at 999999999",
        "--at 999999999: expected an event up to",
    ),
    (
        "run ext4@block --workload varmail:ops=9 --size 64MiB --rules rocksdb",
        "--rules: expected a stack that uses placement rules",
    ),
    (
        "compare varmail:ops=9 --size 64MiB --rules rocksdb --stacks ext4@block,f2fs@block",
        "--rules: expected a stack that uses placement rules",
    ),
    (
        "learn sqlite -o r.toml --against none.toml",
        "the name of a shipped rule set: ",
    ),
    (
        "compare randread:ops=9 --size 64MiB --report none/r.html",
        "none/r.html",
    ),
    (
        "compare randread:ops=9 --size 64MiB --report .",
        "directory",
    ),
    (
        "compare randread:ops=9 --size 64MiB --db none/f.db",
        "none/f.db",
    ),
    ("why", "flashloom.db"),
    ("history", "flashloom.db"),
    ("diff 1 2", "flashloom.db"),
    ("trace info none.csv", "none.csv"),
    ("trace info .", ""),
    ("drives tape", "block"),
    ("workloads randred", "randread"),
    ("drive", "--help"),
    ("tell", "--help"),
    ("compare --stak raw@fdp", "--stacks"),
];

/// Parameters of a workload with further arguments, and a part of the error of each.
const PARAMS: &[(&str, &str)] = &[
    ("ops=0", "ops: expected"),
    ("ops=-1", "ops: expected"),
    ("ops=1e9", "ops: expected"),
    ("ops=18446744073709551616", "ops: expected"),
    ("ops=9,depth=0", "depth: expected"),
    ("ops=9,depth=65536", "depth: expected"),
    ("ops=9,depth=-1", "depth: expected"),
    ("ops=9,bs=0", "bs: expected"),
    ("ops=9,bs=4097", "bs: expected"),
    ("ops=9,bs=1GiB", "bs: expected"),
    ("ops=9,bs=128MiB", "expected room"),
    ("ops=9,span=0", "expected room"),
    ("ops=9,rate=-1", "rate: expected"),
    ("ops=9,think=-1", "think: expected"),
    ("ops=9000,depth=1,think=900000s", "a year of virtual time"),
    ("ops=9,depth=1,think=18446744073s", "a year of virtual time"),
    ("ops=9000 --timeline=0ms", "interval"),
    ("ops=9 --timeline=5", "a time with its unit"),
    ("ops=200000 --timeline=1ns", "samples"),
    ("ops=9 --timeline=-1", "--timeline"),
    (
        "ops=9 --report none/r.html",
        "none/r.html: expected a directory none",
    ),
    ("ops=9 --report .", "directory"),
    ("ops=9 --db .", ".: "),
];

#[test]
fn bad_names_and_numbers_are_refused() {
    let bench = Bench::new();
    let run = "run raw@block --size 64MiB --workload";
    for (line, told) in LINES {
        bench.refuses(line, &[told]);
    }
    bench.refuses_words(
        &["compare", "randread:ops=9", "--stacks", ""],
        &["HOST@DRIVE"],
    );
    for (params, told) in PARAMS {
        bench.refuses(&format!("{run} randread:{params}"), &[told]);
    }
}

/// Settings of `--set` that are refused, and a part of the error of each.
const SETTINGS: &[(&str, &str)] = &[
    ("x", "SETTING=VALUE"),
    ("x=1", "--set x=1: expected a setting"),
    ("=1", "expected a setting"),
    ("geometry=4", "--set geometry=4: "),
    ("geometry.channels=0", "channels is 0"),
    ("geometry.channels=-1", "--set geometry.channels=-1: "),
    ("geometry.pages_per_block=0", "pages_per_block is 0"),
    ("geometry.planes=4294967295", "planes"),
    ("interface=zns", "--set interface=zns: "),
    ("flash.part=tape", "there are z-nand"),
    ("capacity=0", "capacity"),
    ("capacity=18446744073709551615", "capacity"),
    ("controller.write_buffer=0", "controller.write_buffer"),
    (
        "controller.command=18446744073709551615",
        "controller.command",
    ),
    ("controller.dram_per_unit=2s", "controller.dram_per_unit"),
    ("mapping.unit=0", "mapping.unit"),
    ("collection.victim=best", "--set collection.victim=best: "),
    ("collection.reserve_lines=4294967295", "no spare blocks"),
    ("wear.spare_blocks=4294967295", "wear.spare_blocks"),
    ("placement.handles=2", "placement.handles"),
    ("placement.reclaim_groups=0", "placement.reclaim_groups"),
    ("faults.factory_bad_blocks=600000", "too many bad blocks"),
    ("faults.program_failures=1000001", "faults.program_failures"),
    ("faults.read_passes=4294967295", "faults.read_passes"),
    ("host.cpu.cores=0", "host.cpu.cores: 0 given"),
    (
        "host.cores=1",
        "expected a setting that flashloom stacks lists",
    ),
    (
        "page_cache.memory=1KiB",
        "page_cache.memory: 1 KiB given, 256KiB to 1TiB expected",
    ),
    ("page_cache.memory=much", "--set page_cache.memory=much: "),
    (
        "page_cache.dirty_ratio=101",
        "page_cache.dirty_ratio: 101 given",
    ),
    (
        "page_cache.dirty_ratio=5",
        "dirty_background_ratio: 10 given",
    ),
    (
        "page_cache.writeback_interval=0",
        "page_cache.writeback_interval",
    ),
    (
        "page_cache=1",
        "expected a setting that flashloom drives block lists",
    ),
];

#[test]
fn bad_settings_are_refused() {
    let bench = Bench::new();
    for (set, told) in SETTINGS {
        let line = format!("run raw@block --workload randread:ops=9 --size 64MiB --set {set}");
        bench.refuses(&line, &[told]);
    }
}

#[test]
fn an_output_that_was_there_stays_when_a_run_fails() {
    let bench = Bench::new();
    bench.done("compare randread:ops=9 --size 64MiB --stacks raw@block");
    bench.write("bad.csv", "0,R,0,8,p\n1,R,0,x,p\n");
    bench.refuses("compare bad.csv --size 64MiB", &["bad.csv:2: "]);
    bench.refuses(
        "run raw@fdp --trace bad.csv --report report.html --size 64MiB",
        &["bad.csv:2"],
    );
    bench.write(
        "foreign.db",
        "a text that is no database, but long enough to look into",
    );
    let line = "run raw@fdp --workload randread:ops=9 --size 64MiB --db foreign.db";
    bench.refuses(line, &["foreign.db"]);
}

#[test]
fn input_file_is_not_overwritten() {
    let bench = Bench::new();
    bench.write("calls.flt", include_bytes!("../../traces/sqlite.flt"));
    bench.write("blocks.csv", "0,W,0,8,p\n1,R,0,8,p\n");
    let words = &["expected an output file that is not also an input"];
    bench.refuses("learn calls.flt -o calls.flt", words);
    bench.refuses("learn sqlite --on calls.flt -o ./calls.flt", words);
    bench.refuses("trace convert blocks.csv blocks.csv --to fio", words);
    let size = "--size 64MiB --report";
    bench.refuses(
        &format!("run raw@block --trace blocks.csv {size} blocks.csv"),
        words,
    );
    bench.refuses(
        &format!("compare blocks.csv:depth=1 {size} blocks.csv"),
        words,
    );
    bench.done("run raw@block --workload randread:ops=9 --size 64MiB --db past.db");
    let line = format!("run raw@block --workload randread:ops=9 --db past.db {size} past.db");
    bench.refuses(&line, words);
    let lackey = " L 1000,8\n S 2000,8\n L 3000,8\n L 1000,8\n";
    bench.write("a.txt", lackey);
    bench.write("b.txt", lackey);
    bench.refuses(
        "memory base-cssd --workload a.txt+b.txt --report b.txt",
        words,
    );
}

#[test]
fn files_in_the_wrong_place_are_sent_to_the_right_one() {
    let bench = Bench::new();
    bench.write("plan.toml", "workload = \"randread\"\n");
    bench.refuses(
        "run raw@block --workload plan.toml",
        &["plan.toml is a plan: run it with flashloom compare"],
    );
    bench.write("calls.flt", include_bytes!("../../traces/sqlite.flt"));
    bench.refuses(
        "memory base-cssd --workload calls.flt",
        &["calls.flt: expected a trace of memory accesses"],
    );
    let mut cut = bench.read("calls.flt");
    cut.truncate(cut.len() / 2);
    bench.write("cut.flt", cut);
    bench.refuses(
        "trace info cut.flt",
        &["cut.flt: ", "the file ends too early"],
    );
    bench.done("drive create d.flash --size 64MiB");
    bench.done("mkfs ext4 d.flash");
    bench.refuses(
        "inspect ext4 d.flash groups 5",
        &["expected no inode number", "found 5"],
    );
}

#[test]
fn a_drive_file_is_taken_as_it_is_or_not_at_all() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    let run = "run raw@block --workload randread:ops=9 --drive d.flash";
    bench.done(run);
    bench.refuses(&format!("{run} --size 32MiB"), &["d.flash: ", "--size"]);
    bench.refuses(
        &format!("{run} --set collection.victim=fifo"),
        &["d.flash: ", "--set"],
    );
    bench.refuses(
        "compare randread:ops=9 --drive d.flash",
        &["d.flash: ", "flashloom run"],
    );
}

#[test]
fn a_sweep_needs_a_thread() {
    let bench = Bench::new();
    bench.refuses("compare randread:ops=9 --size 64MiB --jobs 0", &["--jobs"]);
}
