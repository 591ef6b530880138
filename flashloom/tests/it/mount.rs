//! `mount`: our file systems under real programs, and their state after their process is killed.

use crate::serve::{Served, must};
use crate::{Bench, Said, number};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// A drive with an empty ext4 made by the tools of ext4. `None`, with a printed reason, if FUSE or
/// the tools are missing.
fn prepared() -> Option<Served> {
    if !judges::has_fuse() {
        return None;
    }
    if !judges::has("mkfs.ext4") {
        return None;
    }
    let line = "mount ext4 d.flash m --background";
    let served = Served::prepared(Bench::new(), "--size 64MiB", line);
    let image = served.at("fs.img");
    let file = File::create(&image).expect("it can be written");
    file.set_len(64 << 20).expect("it can be written");
    must("mkfs.ext4", &["-q", "-b", "4096", &image]);
    served.bench.done("drive import d.flash fs.img");
    Some(served)
}

/// Checks the drive with the tools of ext4.
pub(crate) fn check(served: &Served) {
    served.bench.done("drive export d.flash out.img");
    must("e2fsck", &["-fn", &served.at("out.img")]);
}

fn contents(number: usize) -> Vec<u8> {
    vec![number as u8; 100 + number * 777]
}

/// Writes a file, and returns when it is durable.
fn write_durably(path: &Path, number: usize) {
    let mut file = File::create(path).expect("made");
    file.write_all(&contents(number)).expect("written");
    file.sync_all().expect("forced");
}

#[test]
fn ext4_of_mke2fs_is_mounted_and_stays_sound() {
    let Some(served) = prepared() else { return };
    served.start();
    let root = served.bench.path("m");
    fs::create_dir(root.join("dir")).expect("made");
    for number in 0..60 {
        fs::write(root.join(format!("dir/{number}")), contents(number)).expect("written");
    }
    fs::rename(root.join("dir"), root.join("other")).expect("renamed");
    fs::remove_file(root.join("other/3")).expect("removed");
    std::os::unix::fs::symlink("other/4", root.join("link")).expect("made");
    assert_eq!(fs::read(root.join("link")).expect("read"), contents(4));
    let Said { code, err, .. } = served.bench.run("drive info d.flash");
    assert_eq!(code, Some(2), "{err}");
    served.unmount();
    served.ended();
    check(&served);
    let smart = served
        .bench
        .json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
    served.start();
    assert_eq!(fs::read(root.join("other/59")).expect("read"), contents(59));
    assert!(!root.join("other/3").exists());
    served.unmount();
    served.ended();
}

/// A byte-interface drive with an empty file system of `mkfs`.
fn prepared_by_bytes(kind: &str) -> Option<Served> {
    if !judges::has_fuse() {
        return None;
    }
    let line = format!("mount {kind} d.flash m --background");
    let served = Served::prepared(Bench::new(), "--preset byte --size 64MiB", &line);
    served.bench.done(&format!("mkfs {kind} d.flash"));
    Some(served)
}

#[test]
fn a_killed_mount_has_every_forced_file() {
    let Some(served) = prepared() else { return };
    kill_and_look(&served);
    check(&served);
}

#[test]
fn a_killed_bytefs_has_every_forced_file_and_is_an_ext4() {
    a_killed_one_is_an_ext4("bytefs");
}

#[test]
fn a_killed_bytefs_with_a_journal_has_every_forced_file_and_is_an_ext4() {
    if !judges::has_fuse() {
        return;
    }
    let line = "mount bytefs d.flash m --data journal --background";
    let served = Served::prepared(Bench::new(), "--preset byte --size 64MiB", line);
    served.bench.done("mkfs bytefs d.flash --journal 8MiB");
    kill_and_look(&served);
    check(&served);
    served.bench.done("fsck bytefs d.flash");
}

#[test]
fn a_killed_bytefs_dual_has_every_forced_file_and_is_an_ext4() {
    a_killed_one_is_an_ext4("bytefs-dual");
}

#[test]
fn a_killed_nova_has_every_forced_file() {
    let Some(served) = prepared_by_bytes("nova") else {
        return;
    };
    kill_and_look(&served);
    served.bench.done("fsck nova d.flash");
}

#[test]
fn a_killed_f2fs_has_every_forced_file_and_fsck_f2fs_is_content() {
    if !judges::has_fuse() {
        return;
    }
    let line = "mount f2fs d.flash m --background";
    let served = Served::prepared(Bench::new(), "--size 64MiB", line);
    served.bench.done("mkfs f2fs d.flash");
    kill_and_look(&served);
    served.bench.done("fsck f2fs d.flash");
    served.bench.done("drive export d.flash out.img");
    if !judges::has("fsck.f2fs") {
        return;
    }
    let said = must("fsck.f2fs", &["-f", "--dry-run", &served.at("out.img")]);
    assert!(
        said.contains("other corrupted bugs") && !said.contains("[Fail]"),
        "{said}"
    );
}

#[test]
fn a_killed_btrfs_has_every_forced_file_and_btrfs_check_is_content() {
    for kind in ["btrfs", "btrfs-nocow"] {
        if !judges::has_fuse() {
            return;
        }
        let line = format!("mount {kind} d.flash m --background");
        let served = Served::prepared(Bench::new(), "--size 128MiB", &line);
        served.bench.done(&format!("mkfs {kind} d.flash"));
        kill_and_look(&served);
        served.bench.done(&format!("fsck {kind} d.flash"));
        check_btrfs(&served);
    }
}

/// Checks the drive with the tools of Btrfs, if they are installed.
pub(crate) fn check_btrfs(served: &Served) {
    served.bench.done("drive export d.flash out.img");
    if !judges::has("btrfs") {
        return;
    }
    let image = served.at("out.img");
    must("btrfs", &["check", "--check-data-csum", &image]);
}

#[test]
fn a_killed_pmfs_has_every_forced_file_and_is_an_ext4() {
    a_killed_one_is_an_ext4("pmfs");
}

/// Kills mounts of `kind`, which has the format of ext4, and checks the drive with the tools of
/// ext4.
fn a_killed_one_is_an_ext4(kind: &str) {
    let Some(served) = prepared_by_bytes(kind) else {
        return;
    };
    kill_and_look(&served);
    check(&served);
    served.bench.done(&format!("fsck {kind} d.flash"));
}

/// Writes files durably and kills the mount, several times; then checks all files.
pub(crate) fn kill_and_look(served: &Served) {
    let root = served.bench.path("m");
    for life in 0..3 {
        served.start();
        for number in 0..40 {
            let path = root.join(format!("{life}-{number}"));
            write_durably(&path, number);
            fs::write(root.join("hurried"), contents(number)).expect("written");
        }
        served.signal("-KILL");
        served.ended();
        served.sweep();
    }
    served.start();
    for life in 0..3 {
        for number in 0..40 {
            let found = fs::read(root.join(format!("{life}-{number}")));
            let found = found.expect("it is there");
            assert!(found == contents(number), "{life}-{number}");
        }
    }
    served.unmount();
    served.ended();
}

/// The file system is detected by its superblock, answers queries while it is mounted, and is ended
/// by each signal as by `umount`: all writes are in the drive's file, and no socket remains.
#[test]
fn mounted_drive_is_asked_and_ends_clean_on_every_signal() {
    if !judges::has_fuse() {
        return;
    }
    let served = Served::prepared(Bench::new(), "--size 64MiB", "mount d.flash m --background");
    let bench = &served.bench;
    bench.done("mkfs ext4 d.flash");
    bench.refuses(
        "drive stats d.flash",
        &["the drive is neither served nor mounted"],
    );
    for (round, signal) in ["-TERM", "-HUP", "-INT"].into_iter().enumerate() {
        served.start();
        let path = bench.path(&format!("m/{round}"));
        fs::write(path, vec![7; 1 << 20]).expect("written");
        let file = fs::File::open(bench.path(&format!("m/{round}"))).expect("it is there");
        file.sync_all().expect("forced");
        drop(file);
        let stats = bench.json("drive stats d.flash", "flashloom.drive-stats/1");
        assert!(number(&stats, "/host_write_bytes") > 1 << 20, "{stats:#}");
        let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
        assert!(number(&smart, "/host_write_bytes") > 1 << 20, "{smart:#}");
        bench.refuses("drive cut d.flash", &["mounted", "kill -9 "]);
        bench.refuses(
            "drive fault d.flash --fail-reads 2",
            &["mounted", "flashloom serve"],
        );
        served.signal(signal);
        served.ended();
        assert!(!bench.path("d.flash.live").exists(), "{signal}");
        assert_eq!(
            bench.json("fsck d.flash", "flashloom.fsck/1")["replayed"],
            0
        );
    }
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
    let said = bench.done("inspect d.flash directory");
    for round in 0..3 {
        assert!(said.contains(&format!(" Regular {round}\n")), "{said}");
    }
}

#[test]
fn invalid_mount_is_rejected_in_a_sentence() {
    let bench = Bench::new();
    bench.done("drive create empty.flash --size 16MiB");
    fs::create_dir(bench.path("m")).expect("a directory");
    for (line, reason) in [
        ("mount ext4 empty.flash m", "empty.flash: "),
        ("mount ext4 empty.flash m --background", "empty.flash: "),
        ("mount ext4 none.flash m", "none.flash: No such file"),
        ("mount fat empty.flash m", "ext4"),
    ] {
        let Said { code, err, .. } = bench.run(line);
        assert_eq!(code, Some(2), "{line}: {err}");
        assert_eq!(err.lines().count(), 1, "{line}: {err}");
        assert!(err.contains(reason), "{line}: {err}");
    }
}
