//! File systems on open-channel drives: mounted, killed and checked by outside tools.

use crate::mount::{check, check_btrfs, kill_and_look};
use crate::serve::Served;
use crate::{Bench, number};
use std::fs;

/// An open-channel drive with an empty file system of `mkfs`.
fn prepared(kind: &str) -> Option<Served> {
    if !judges::has_fuse() {
        return None;
    }
    let line = format!("mount {kind} d.flash m --background");
    let served = Served::prepared(Bench::new(), "--preset ocssd --size 128MiB", &line);
    served.bench.done(&format!("mkfs {kind} d.flash"));
    Some(served)
}

#[test]
fn a_killed_hyfim_has_every_forced_file_and_btrfs_check_is_content() {
    let Some(served) = prepared("hyfim") else {
        return;
    };
    let info = served
        .bench
        .json("drive info d.flash", "flashloom.drive-info/1");
    assert!(number(&info, "/memory/bytes") > number(&info, "/memory/used_bytes"));
    kill_and_look(&served);
    served.bench.done("fsck hyfim d.flash");
    check_btrfs(&served);
    // Repeated overwrites stay in place.
    served.start();
    let root = served.bench.path("m");
    let mut file = fs::File::create(root.join("overwritten")).expect("made");
    for turn in 0..200_u8 {
        use std::io::{Seek, Write};
        file.rewind().expect("at its start");
        file.write_all(&[turn; 20_000]).expect("written");
        file.sync_data().expect("forced");
    }
    served.signal("-KILL");
    served.ended();
    drop(file);
    served.sweep();
    served.start();
    let found = fs::read(root.join("overwritten")).expect("it is there");
    assert!(found == [199; 20_000]);
    served.unmount();
    served.ended();
    served.bench.done("fsck hyfim d.flash");
    check_btrfs(&served);
}

#[test]
fn a_killed_btrfs_over_a_mapping_in_memory_has_every_forced_file() {
    let Some(served) = prepared("btrfs") else {
        return;
    };
    kill_and_look(&served);
    served.bench.done("fsck btrfs d.flash");
    check_btrfs(&served);
}

#[test]
fn a_killed_ext4_over_a_mapping_in_memory_has_every_forced_file() {
    let Some(served) = prepared("ext4") else {
        return;
    };
    kill_and_look(&served);
    served.bench.done("fsck ext4 d.flash");
    check(&served);
}

#[test]
fn a_killed_f2fs_over_a_mapping_in_memory_has_every_forced_file() {
    let Some(served) = prepared("f2fs") else {
        return;
    };
    kill_and_look(&served);
    served.bench.done("fsck f2fs d.flash");
}

/// A mapping in memory is only accessible to its own file system.
#[test]
fn a_mapping_in_memory_beside_a_drive_is_for_hyfim_alone() {
    let bench = Bench::new();
    fs::create_dir(bench.path("m")).expect("a directory");
    bench.done("drive create b.flash --size 64MiB");
    bench.refuses("mkfs hyfim b.flash", &["b.flash", "open-channel drive"]);
    bench.done("drive create d.flash --preset ocssd --size 128MiB");
    bench.refuses(
        "fsck hyfim d.flash",
        &["d.flash", "no persistent memory for hyfim"],
    );
    bench.refuses(
        "mount hyfim d.flash m",
        &["d.flash", "no persistent memory for hyfim"],
    );
    bench.refuses("mkfs nova d.flash", &["d.flash", "byte-addressable"]);
    bench.done("mkfs hyfim d.flash");
    bench.done("snapshot d.flash first");
    bench.done("fsck hyfim d.flash");
    let said = bench.done("inspect hyfim d.flash directory");
    assert_eq!(said, "2 \"first\": snapshot, tree 256\n");
    let said = bench.done("inspect hyfim d.flash");
    assert!(said.contains("(snapshot): root"), "{said}");
    bench.refuses(
        "inspect hyfim d.flash extents",
        &["root directory", "does not have this structure"],
    );
    for line in [
        "fsck btrfs d.flash",
        "mount ext4 d.flash m",
        "inspect ext4 d.flash",
    ] {
        bench.refuses(line, &["d.flash", "in persistent memory"]);
    }
    let line = "run raw@ocssd --drive d.flash --workload randread:ops=10";
    bench.refuses(line, &["d.flash", "in persistent memory"]);
    // Export and import go through that mapping.
    bench.done("drive export d.flash out.img");
    bench.done("mkfs ext4 d.flash");
    let info = bench.json("drive info d.flash", "flashloom.drive-info/1");
    assert!(info.get("memory").is_none());
    bench.refuses(
        "mount hyfim d.flash m",
        &["d.flash", "no persistent memory for hyfim"],
    );
    bench.done("mkfs hyfim d.flash");
    bench.done("drive import d.flash out.img");
    bench.done("fsck hyfim d.flash");
}
