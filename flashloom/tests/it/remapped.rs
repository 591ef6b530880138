//! `serve --remap`: a drive with remapped addresses, for the kernel and other clients. Tests print
//! a note and test less if FUSE, loop devices or fio are missing.

use crate::serve::{Served, kill_and_verify};
use crate::{Bench, Said, number};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Output};

const UNIT: u64 = 4096;
const REMAPPED: &str = "serve d.flash --file m --remap --background";

fn remapped(create: &str) -> Served {
    let served = Served::prepared(Bench::new(), create, REMAPPED);
    served.start();
    served
}

#[track_caller]
fn refused(bench: &Bench, line: &str, reason: &str) {
    let Said { code, err, .. } = bench.run(line);
    assert_eq!(code, Some(2), "{line}: {err}");
    assert!(err.contains(reason), "{line}: {err}");
}

#[test]
fn a_killed_drive_has_every_flushed_write_above_a_layer_too() {
    if !judges::has_fuse() {
        return;
    }
    for create in ["--size 16MiB", "--size 16MiB --preset plain.toml"] {
        kill_and_verify(&remapped(create), false);
    }
}

#[test]
fn a_layer_is_made_on_a_drive_that_holds_nothing_and_on_no_other() {
    if !judges::has_fuse() {
        return;
    }
    let served = Served::prepared(
        Bench::new(),
        "--size 16MiB",
        "serve d.flash --file m --background",
    );
    served.start();
    served.open().write_all_at(b"data", 0).expect("written");
    served.unmount();
    served.ended();
    refused(&served.bench, REMAPPED, "no remapping layer is here");
    served.start();
    let mut bytes = [0; 4];
    served.open().read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"data");
}

/// The first word of each unit; `None` if it cannot be read.
fn readable(served: &Served, units: u64) -> Vec<Option<u64>> {
    let file = std::fs::File::open(served.bench.path("m/drive")).expect("it can be opened");
    let read = |unit| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, unit * UNIT).ok()?;
        Some(u64::from_le_bytes(word))
    };
    (0..units).map(read).collect()
}

#[test]
fn damaged_layer_is_served_read_only() {
    if !judges::has_fuse() {
        return;
    }
    let served = remapped("--size 64MiB");
    let units = 3000;
    for unit in 0..units {
        let bytes = (unit + 1_u64).to_le_bytes().repeat(512);
        let written = served.open().write_all_at(&bytes, unit * UNIT);
        written.expect("written");
    }
    served.unmount();
    served.ended();
    // A write past the layer damages page 1 of its tables.
    let plain = "serve d.flash --file m --background";
    served.bench.done(plain);
    let mut superblock = [0; UNIT as usize];
    served
        .open()
        .read_exact_at(&mut superblock, 0)
        .expect("read");
    let field = |at: usize| {
        let bytes = superblock[at..at + 4].try_into().expect("four bytes");
        u64::from(u32::from_le_bytes(bytes))
    };
    let (tables, pages) = (field(60), field(64));
    for unit in [tables + 1, tables + pages + 1] {
        let zeros = [0; UNIT as usize];
        served
            .open()
            .write_all_at(&zeros, unit * UNIT)
            .expect("written");
    }
    served.unmount();
    served.ended();
    refused(&served.bench, REMAPPED, "page 1 of the tables is damaged");
    served
        .bench
        .done("serve d.flash --file m --remap=salvage --background");
    // One page of the tables covers 1018 units.
    for (unit, found) in (0..).zip(readable(&served, units)) {
        let expected = Some(unit + 1).filter(|_| !(1018..2036).contains(&unit));
        assert_eq!(found, expected, "unit {unit}");
    }
    let refused = served
        .open()
        .write_all_at(b"new", 0)
        .expect_err("it is read only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    served.unmount();
    served.ended();
    let smart = served
        .bench
        .json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
}

/// Runs the script that uses file systems of the kernel on a remapped drive, briefly; `None` if a
/// tool is missing.
fn script(flashloom: &str) -> Option<Output> {
    if !judges::has_loops() {
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/kernel-on-remap.sh");
    let mut command = Command::new("bash");
    command.args([script, "ext4", "device"]);
    let sizes = [("SIZE", "256MiB"), ("IO", "4M"), ("KILLS", "1")];
    command.envs(sizes).env("FLASHLOOM", flashloom);
    let output = command.output().expect("bash starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for reason in ["is not installed", "need root", "there is no /dev"] {
        if said.contains(reason) {
            judges::skip(&said);
            return None;
        }
    }
    Some(output)
}

#[test]
fn file_systems_of_the_kernel_live_on_a_remapped_drive() {
    let Some(output) = script(env!("CARGO_BIN_EXE_flashloom")) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{error}");
    assert_eq!(said.matches(": right, also after").count(), 2, "{said}");
}

/// A faulty server: the drive is reset to its first contents at each start.
#[test]
fn a_drive_that_forgets_is_noticed() {
    let bench = Bench::new();
    let forgetful = format!(
        "#!/usr/bin/env bash\nif [ \"$1\" = serve ]; then\n  [ ! -e \"$2.first\" ] || cp \"$2.first\" \
         \"$2\"\n  [ -e \"$2.first\" ] || cp \"$2\" \"$2.first\"\nfi\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_flashloom")
    );
    bench.write("forgetful", forgetful);
    let path = bench.path("forgetful");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("it can be run");
    let Some(output) = script(&path.display().to_string()) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("kernel-on-remap: ext4: "), "{error}");
}
