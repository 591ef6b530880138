//! `mkfs`, `fsck`, `inspect` and `crash`.

use crate::{Bench, number};
use serde_json::Value;

fn made() -> Bench {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    let made = bench.json("mkfs ext4 d.flash --label mine", "flashloom.mkfs/1");
    assert_eq!(number(&made, "/blocks"), 64 << 8);
    assert!(number(&made, "/journal_blocks") >= 1_024);
    bench
}

#[test]
fn new_ext4_is_sound_and_can_be_inspected() {
    let bench = made();
    let checked = bench.json("fsck ext4 d.flash", "flashloom.fsck/1");
    assert_eq!(checked["sound"], true);
    assert_eq!(checked["findings"].as_array().map(Vec::len), Some(0));
    assert!(bench.done("inspect ext4 d.flash").contains("metadata_csum"));
    assert!(
        bench
            .done("inspect ext4 d.flash directory")
            .contains("lost+found")
    );
    assert!(
        bench
            .done("inspect ext4 d.flash groups")
            .starts_with("group 0:")
    );
    let said = bench.run("inspect ext4 d.flash inode 999999");
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("inode 999999 does not exist"),
        "{}",
        said.err
    );
}

#[test]
fn f2fs_is_made_checked_and_damage_found() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    assert_eq!(bench.run("fsck f2fs d.flash").code, Some(1));
    let made = bench.json("mkfs f2fs d.flash --label mine", "flashloom.mkfs/1");
    assert_eq!(number(&made, "/blocks"), 64 << 8);
    assert_eq!(number(&made, "/journal_blocks"), 0);
    let checked = bench.json("fsck f2fs d.flash", "flashloom.fsck/1");
    assert_eq!(checked["sound"], true);
    let said = bench.run("mkfs f2fs d.flash --journal 8MiB");
    assert!(said.err.contains("no journal of blocks"), "{}", said.err);
    bench.done("drive export d.flash out.img");
    let mut image = bench.read("out.img");
    // The number of links of the root, in the first block of the main area.
    let main = image[1024 + 92..1024 + 96].try_into().expect("four bytes");
    let root = u32::from_le_bytes(main) as usize * 4096;
    image[root + 12] += 1;
    bench.write("bad.img", &image);
    bench.done("drive import d.flash bad.img");
    let said = bench.run("fsck f2fs d.flash");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("inode 3 has 2 links"), "{}", said.out);
}

#[test]
fn the_seed_is_the_identity() {
    let images = ["--seed 1", "--seed 1", "--seed 2"].map(|seed| {
        let bench = Bench::new();
        bench.done("drive create d.flash --size 64MiB");
        bench.done(&format!("mkfs ext4 d.flash {seed}"));
        bench.done("drive export d.flash out.img");
        let superblock = bench.read("out.img")[1024..2048].to_vec();
        superblock[0x68..0x78].to_vec()
    });
    assert_eq!(images[0], images[1]);
    assert_ne!(images[0], images[2]);
}

/// An image of the file system that `mkfs` makes on a new drive with these arguments.
fn image(arguments: &str) -> Vec<u8> {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    bench.done(&format!("mkfs ext4 d.flash {arguments}"));
    bench.done("drive export d.flash out.img");
    bench.read("out.img")
}

#[test]
fn the_same_command_makes_the_same_bytes() {
    let made = |image: &[u8]| {
        let at = 1024 + 0x108;
        u32::from_le_bytes(image[at..at + 4].try_into().expect("four bytes"))
    };
    let first = image("");
    assert!(first == image(""));
    assert_eq!(made(&first), 946_684_800);
    assert_eq!(made(&image("--time 1234567890")), 1_234_567_890);
    assert!(made(&image("--time now")) > 1_700_000_000);
    for wrong in ["-1", "2147483648", "soon"] {
        let bench = Bench::new();
        let said = bench.run(&format!("mkfs ext4 d.flash --time={wrong}"));
        assert_eq!(said.code, Some(2));
        assert!(said.err.contains("seconds since 1970"), "{}", said.err);
    }
}

#[test]
fn damage_is_found_and_named() {
    let bench = made();
    bench.done("drive export d.flash out.img");
    let mut image = bench.read("out.img");
    // The inode of the root directory is the second one of the first table.
    let table = image[4096 + 8..4096 + 12].try_into().expect("four bytes");
    let root = u32::from_le_bytes(table) as usize * 4096 + 256;
    image[root + 4] ^= 0x10;
    bench.write("bad.img", &image);
    bench.done("drive import d.flash bad.img");
    let said = bench.run("fsck ext4 d.flash");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("inode 2"), "{}", said.out);
}

#[test]
fn a_drive_without_a_file_system_is_said_to_have_none() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    assert_eq!(bench.run("fsck ext4 d.flash").code, Some(1));
    let said = bench.run("inspect ext4 d.flash");
    assert_eq!(said.code, Some(2));
    assert!(said.err.starts_with("flashloom: d.flash: "), "{}", said.err);
}

#[test]
fn file_systems_by_bytes_need_such_a_drive_and_are_sound_when_made() {
    let bench = Bench::new();
    bench.done("drive create d.flash --preset byte --size 64MiB");
    for kind in ["bytefs", "pmfs", "nova", "bytefs-dual", "bytefs"] {
        let made = bench.json(&format!("mkfs {kind} d.flash"), "flashloom.mkfs/1");
        assert_eq!(made["filesystem"], kind);
        let has_journal = kind == "pmfs" || kind == "bytefs-dual";
        assert_eq!(number(&made, "/journal_blocks") > 0, has_journal);
        let checked = bench.json(&format!("fsck {kind} d.flash"), "flashloom.fsck/1");
        assert_eq!(checked["sound"], true, "{kind}");
    }
    assert_eq!(bench.run("fsck nova d.flash").code, Some(1));
    bench.done("drive create b.flash --size 64MiB");
    for (line, why) in [
        (
            "mkfs bytefs b.flash",
            "b.flash: bytefs needs a byte-addressable drive",
        ),
        (
            "mkfs pmfs b.flash",
            "b.flash: pmfs needs a byte-addressable drive",
        ),
        (
            "mkfs nova b.flash",
            "b.flash: nova needs a byte-addressable drive",
        ),
        ("mkfs bytefs-dual b.flash", "b.flash: bytefs-dual needs"),
        ("mkfs nova d.flash --journal 8MiB", "no journal of blocks"),
        ("mkfs nova d.flash --label x", "no label"),
        ("mkfs nova d.flash --seed 2", "no seed"),
        ("mkfs nova d.flash --inode-size 256", "size of inodes"),
        (
            "mkfs nova d.flash --bytes-per-inode 4KiB",
            "number of inodes",
        ),
        (
            "mount nova d.flash . --data journal",
            "cannot be mounted with",
        ),
        (
            "mount bytefs d.flash . --data writeback",
            "cannot be mounted",
        ),
        ("mount bytefs d.flash . --data journal", "has no journal"),
        ("inspect nova d.flash", "does not support the format of"),
        ("mount bytefs b.flash .", "needs a byte-addressable drive"),
    ] {
        let said = bench.run(line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.out);
        assert!(said.err.contains(why), "{line}: {}", said.err);
    }
}

#[test]
fn each_file_system_has_the_dram_of_the_drive_in_its_form() {
    let bench = Bench::new();
    bench.done("drive create d.flash --preset byte --size 64MiB");
    let dram = |line: &str| {
        bench.done(line);
        let info = bench.json("drive info d.flash", "flashloom.drive-info/1");
        let front = &info["config"]["front"];
        let bytes = |part: &str| front[part]["bytes"].as_u64().is_some_and(|b| b > 0);
        (bytes("log"), bytes("cache"))
    };
    for kind in ["ext4", "f2fs", "pmfs", "bytefs-dual"] {
        assert_eq!(dram("mkfs bytefs d.flash"), (true, false));
        assert_eq!(
            dram(&format!("mkfs {kind} d.flash")),
            (false, true),
            "{kind}"
        );
    }
}

#[test]
fn a_comparison_by_bytes_tells_lines_from_blocks() {
    let bench = Bench::new();
    let line = "compare varmail:files=20,threads=2,ops=400 --stacks \
                ext4@byte,nova@byte,bytefs@byte --preconditions full --size 256MiB";
    let document = bench.json(line, "flashloom.compare/1");
    let written = |run: usize, what: &str| number(&document["runs"][run]["host"], what);
    for (run, by_bytes) in [(0, false), (1, true), (2, true)] {
        assert_eq!(written(run, "/byte_write_bytes") > 0, by_bytes, "{run}");
    }
    assert_eq!(
        written(1, "/byte_write_bytes"),
        written(1, "/write_bytes"),
        "NOVA writes no block"
    );
    assert_eq!(written(2, "/by_purpose/journal/write/total"), 0);
    assert!(written(0, "/by_purpose/journal/write/total") > 0);
}

#[test]
fn a_comparison_of_files_tells_traffic_by_purpose() {
    let bench = Bench::new();
    let line = "compare varmail:files=20,threads=2,ops=400 --stacks ext4@block,ext4@fdp \
                --preconditions full --size 256MiB";
    let text = bench.done(&format!("{line} --verbose"));
    assert!(text.contains("Host writes by purpose"), "{text}");
    let document = bench.json(line, "flashloom.compare/1");
    crate::compare::agrees(&bench.text("report.html"), &document);
    let purposes = &document["runs"][0]["host"]["by_purpose"];
    let written = |purpose: &str| number(&purposes[purpose], "/write/block");
    assert!(written("journal") > written("data") && written("data") > 0);
    let all = purposes.as_object().expect("a map").keys();
    let all: u64 = all.map(|purpose| written(purpose)).sum();
    assert_eq!(all, number(&document["runs"][0], "/host/write_bytes"));
}

#[test]
fn a_comparison_over_drives_of_bytes_tells_what_their_memory_did() {
    let bench = Bench::new();
    let line = "compare varmail:files=20,threads=2,ops=400 \
                --stacks ext4@block,nova@byte,bytefs@byte --preconditions full --size 64MiB";
    let text = bench.done(&format!("{line} --verbose"));
    assert!(text.contains("Byte interface"), "{text}");
    let document = bench.json(line, "flashloom.compare/1");
    crate::compare::agrees(&bench.text("report.html"), &document);
    let front = |run: usize| &document["runs"][run]["front"];
    assert!(front(0).is_null(), "{}", front(0));
    for run in [1, 2] {
        let bytes = number(&document["runs"][run], "/host/byte_write_bytes");
        assert_eq!(number(front(run), "/stored_lines") * 64, bytes);
        let read = number(&document["runs"][run], "/host/byte_read_bytes");
        let loaded = number(front(run), "/load_hits") + number(front(run), "/load_misses");
        assert_eq!(loaded * 64, read);
    }
    assert_eq!(
        number(front(1), "/commits"),
        0,
        "a cache has no transactions"
    );
    assert!(number(front(2), "/commits") > 0);
}

const CRASH: &str = "crash ext4@block --workload varmail:files=20,threads=2,ops=120 --outside 0";

#[test]
fn ext4_survives_power_cuts_and_each_can_be_repeated() {
    let bench = Bench::new();
    let line = format!("{CRASH} --points 60");
    let found = bench.json(&line, "flashloom.crash/1");
    assert_eq!(number(&found, "/points"), 60);
    assert!(number(&found, "/recoveries_cut") > 0);
    assert_eq!(number(&found, "/lost") + number(&found, "/corrupt"), 0);
    assert_eq!(found["failures"].as_array().map(Vec::len), Some(0));
    assert_eq!(bench.json(&line, "flashloom.crash/1"), found);
    let one = bench.json(&format!("{CRASH} --at 40:3"), "flashloom.crash/1");
    assert_eq!(
        (number(&one, "/points"), number(&one, "/recoveries_cut")),
        (1, 1)
    );
}

#[test]
fn lying_drive_is_detected_and_the_printed_command_repeats_it() {
    let bench = Bench::new();
    let answer = |line: &str| {
        let said = bench.run(&format!("{line} --json"));
        assert_eq!(said.code, Some(1), "{}", said.err);
        serde_json::from_str::<Value>(&said.out).expect("a document")
    };
    let found = answer(&format!("{CRASH} --points 60 --lie"));
    assert!(number(&found, "/lost") > 0);
    let failures = found["failures"].as_array().expect("a list");
    let again = |failure: &Value| {
        let line = failure["repeat"].as_str().expect("a command");
        let line = line.replace('\'', "");
        let one = answer(line.strip_prefix("flashloom ").expect("our name"));
        let at = &failure["point"];
        let known: Vec<_> = failures.iter().filter(|f| f["point"] == *at).collect();
        let met: Vec<_> = one["failures"].as_array().expect("a list").iter().collect();
        assert_eq!(met, known, "{line}");
    };
    let in_recovery = |f: &&Value| f["point"].as_str().is_some_and(|at| at.contains(':'));
    again(failures.iter().find(|f| !in_recovery(f)).expect("one"));
    again(failures.iter().find(in_recovery).expect("one"));
}

#[test]
fn invalid_crash_command_is_rejected() {
    let bench = Bench::new();
    for (line, why) in [
        ("crash raw@block", "varmail is a file workload"),
        ("crash ext4@block --size 64GiB", "at most 4 GiB"),
        ("crash ext4@block --points few", "expected all, or a number"),
        ("crash ext4@block --at 1:x", "EVENT:EVENT-OF-RECOVERY"),
        (
            "crash ext4@block --workload hotcold",
            "hotcold is a block workload",
        ),
    ] {
        let said = bench.run(line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.out);
        assert!(said.err.contains(why), "{line}: {}", said.err);
    }
}

/// Each file system of `mkfs`, with a drive that supports it.
const EVERY: [(&str, &str, &str); 12] = [
    ("ext4", "block", "64MiB"),
    ("f2fs", "block", "64MiB"),
    ("btrfs", "block", "128MiB"),
    ("btrfs-nocow", "block", "128MiB"),
    ("ext4", "byte", "64MiB"),
    ("bytefs", "byte", "64MiB"),
    ("bytefs-dual", "byte", "64MiB"),
    ("pmfs", "byte", "64MiB"),
    ("nova", "byte", "64MiB"),
    ("hyfim", "ocssd", "128MiB"),
    ("ext4", "ocssd", "128MiB"),
    ("persimmon", "zns", "512MiB"),
];

#[test]
fn every_file_system_is_found_by_its_superblock() {
    let bench = Bench::new();
    for (kind, preset, size) in EVERY {
        bench.done(&format!(
            "drive create d.flash --preset {preset} --size {size} --force"
        ));
        bench.done(&format!("mkfs {kind} d.flash"));
        let checked = bench.json("fsck d.flash", "flashloom.fsck/1");
        let found = (&checked["filesystem"], &checked["sound"]);
        assert_eq!(found, (&kind.into(), &true.into()), "{preset}: {checked:#}");
        let said = bench.done("fsck d.flash");
        assert!(said.ends_with(&format!("is clean ({kind})\n")), "{said}");
    }
}

/// Remains of the previous file system on the drive are not taken for the new one.
#[test]
fn file_system_made_over_another_one_is_found_alone() {
    let bench = Bench::new();
    let kinds_of = |preset: &str, kinds: &[&str]| {
        bench.done(&format!(
            "drive create d.flash --preset {preset} --size 128MiB --force"
        ));
        for kind in kinds {
            bench.done(&format!("mkfs {kind} d.flash"));
            let checked = bench.json("fsck d.flash", "flashloom.fsck/1");
            assert_eq!(checked["filesystem"], *kind, "{kinds:?}");
        }
    };
    kinds_of("block", &["btrfs-nocow", "ext4", "f2fs", "ext4"]);
    kinds_of(
        "byte",
        &[
            "pmfs",
            "bytefs",
            "bytefs-dual",
            "ext4",
            "nova",
            "pmfs",
            "bytefs",
        ],
    );
}

#[test]
fn drive_without_a_single_file_system_needs_its_name() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    let none = "d.flash: no known superblock was found";
    bench.refuses("fsck d.flash", &[none]);
    bench.refuses("inspect d.flash", &[none]);
    std::fs::create_dir(bench.path("m")).expect("a directory");
    bench.refuses("mount d.flash m", &[none]);
    bench.refuses("mount d.flash", &["required arguments", "<DIR>"]);
    bench.refuses("mount fat d.flash m", &["invalid value", "fat", "ext4"]);
    bench.refuses("fsck fat d.flash", &["invalid value", "fat", "ext4"]);
    bench.refuses("mkfs d.flash", &["invalid value", "d.flash", "ext4"]);
    bench.done("mkfs ext4 d.flash");
    assert!(bench.done("inspect d.flash").contains("metadata_csum"));
    assert!(
        bench
            .done("inspect d.flash directory")
            .contains("lost+found")
    );
    bench.refuses("inspect d.flash superblok", &["superblok", "superblock"]);
    // A superblock of Btrfs in a free block of the ext4 image.
    bench.done("drive export d.flash out.img");
    let mut image = bench.read("out.img");
    image[65_600..65_608].copy_from_slice(b"_BHRfS_M");
    bench.write("out.img", image);
    bench.done("drive import d.flash out.img");
    bench.refuses(
        "fsck d.flash",
        &["superblocks of btrfs and ext4", "name one"],
    );
}

/// A part of the corpus of short sequences, with the power cut before every event. The first
/// run of the whole reported `mkdir A; creat bar; fsync bar` in a fresh root as `lost: A`.
#[test]
fn corpus_of_short_sequences_loses_nothing_on_any_file_system() {
    for stack in ["ext4@block", "f2fs@block", "btrfs@block", "nova@byte"] {
        let line = format!(
            "crash {stack} --workload ace:seq=2,every=400 --points all --outside 0 --size 64MiB"
        );
        let found = Bench::new().json(&line, "flashloom.crash/1");
        assert_eq!(
            (&found["lost"], &found["corrupt"]),
            (&0.into(), &0.into()),
            "{found:#}"
        );
        let (runs, states) = (found["runs"].as_u64(), found["states"].as_u64());
        assert!(runs > Some(1) && states > Some(1), "{found:#}");
    }
}

#[test]
fn power_cuts_beyond_the_end_are_reported() {
    let bench = Bench::new();
    let line = "crash raw@block --workload randwrite:ops=2 --size 1MiB --outside 0";
    let said = bench.run(&format!("{line} --points 100000 --json"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found: Value = serde_json::from_str(&said.out).expect("a document");
    let (events, points) = (number(&found, "/events"), number(&found, "/points"));
    assert_eq!(points, events + 1, "before each event, and after the last");
    let told = format!("{points} power cuts instead of ");
    assert!(said.err.contains(&told), "{}", said.err);
    let few = bench.run(&format!("{line} --points 2"));
    assert_eq!((few.code, few.err.as_str()), (Some(0), ""));
    for at in ["1000000", "1:1000000"] {
        bench.refuses(
            &format!("{line} --at {at}"),
            &["--at", "expected an event up to"],
        );
    }
}
