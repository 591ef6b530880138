//! New file systems, compared with those of f2fs-tools and checked by them.

use crate::bench::made;
use crate::tools::{assert_clean, has, run, save};
use lfs::MkfsOptions;

#[test]
fn new_file_system_passes_fsck() {
    if !has("fsck.f2fs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (blocks, segs_per_sec) in [(16_384, 1), (40_000, 1), (100_000, 4), (262_144, 1)] {
        let options = MkfsOptions {
            segs_per_sec,
            label: "a label".to_owned(),
            ..MkfsOptions::new(blocks)
        };
        let path = save(dir.path(), "image", &made(&options));
        assert_clean(&path);
        let said = run("dump.f2fs", &["-d", "1"], &path);
        assert!(said.contains("[a label]"), "{said}");
    }
}

/// Lines of a dump with fields of the superblock and checkpoint that depend on the size.
fn numbers(said: &str) -> Vec<String> {
    let names = [
        "segment_count",
        "section_count",
        "_blkaddr",
        "user_block_count",
        "overprov_segment",
        "rsvd_segment",
        "free_segment",
        "bitmap_bytesize",
        "secs_per_zone",
        "segs_per_sec",
    ];
    let wanted = |line: &&str| names.iter().any(|name| line.contains(name));
    said.lines().filter(wanted).map(str::to_owned).collect()
}

#[test]
fn areas_of_a_new_file_system_equal_those_of_mkfs_f2fs() {
    if !has("mkfs.f2fs") || !has("dump.f2fs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (blocks, segs, secs) in [
        (16_384, 1, 1),
        (51_201, 2, 1),
        (262_144, 1, 1),
        (200_000, 2, 3),
    ] {
        let options = MkfsOptions {
            segs_per_sec: segs,
            secs_per_zone: secs,
            ..MkfsOptions::new(blocks)
        };
        let ours = save(dir.path(), "ours", &made(&options));
        let theirs = save(dir.path(), "theirs", &vec![0; blocks as usize * lfs::BLOCK]);
        let shape = [segs.to_string(), secs.to_string()];
        run(
            "mkfs.f2fs",
            &["-f", "-s", &shape[0], "-z", &shape[1]],
            &theirs,
        );
        let [ours, theirs] = [ours, theirs].map(|path| run("dump.f2fs", &["-d", "1"], &path));
        let expected = numbers(&theirs);
        assert!(expected.len() > 15, "{theirs}");
        assert_eq!(numbers(&ours), expected);
    }
}
