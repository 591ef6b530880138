//! Behaviour that depends on mount options and on the kernel's cache.

use crate::support::{Shown, ShownVolume, config};
use engine::Pace;
use fuse::MountOptions;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Access time (in s) of a file after a cached read; before, it was set to 1000 s.
fn read_noted(options: &str) -> i64 {
    let shown = ShownVolume::with(options.parse().expect("options"));
    let path = shown.root().join("file");
    fs::write(&path, [1; 5000]).expect("written");
    let past = TimeSpec::new(1000, 0);
    let flags = UtimensatFlags::FollowSymlink;
    utimensat(AT_FDCWD, &path, &past, &past, flags).expect("set");
    fs::read(&path).expect("read");
    fs::metadata(&path).expect("attributes").atime()
}

#[test]
fn cached_read_updates_the_access_time() {
    if !judges::has_fuse() {
        return;
    }
    assert!(read_noted("rw") > 1000);
    assert!(read_noted("strictatime") > 1000);
    assert_eq!(read_noted("noatime"), 1000);
}

#[test]
fn write_to_a_read_only_mount_is_refused() {
    if !judges::has_fuse() {
        return;
    }
    let shown = ShownVolume::with("ro".parse().expect("options"));
    let refused = fs::write(shown.root().join("file"), b"x").expect_err("it is read-only");
    assert_eq!(
        refused.raw_os_error(),
        Some(nix::errno::Errno::EROFS as i32)
    );
}

/// Whether `dd`, as another user, can write a block to the file with `O_DIRECT`.
fn writes_directly(path: &Path) -> bool {
    let to = format!("of={}", path.display());
    let words = [
        "if=/dev/zero",
        &to,
        "bs=4096",
        "count=1",
        "conv=notrunc",
        "oflag=direct",
    ];
    let mut dd = Command::new("dd");
    let status = dd
        .args(words)
        .arg("status=none")
        .uid(65_534)
        .gid(65_534)
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn direct_write_by_another_user_clears_set_id_bits() {
    if !judges::has_fuse() || !nix::unistd::geteuid().is_root() {
        return;
    }
    let shown = ShownVolume::with(MountOptions::default());
    fs::set_permissions(shown.root(), Permissions::from_mode(0o755)).expect("set");
    let path = shown.root().join("file");
    fs::write(&path, [1; 5000]).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o6_777)).expect("set");
    let mode = || fs::metadata(&path).expect("attributes").mode() & 0o7_777;
    assert_eq!(mode(), 0o6_777);
    assert!(writes_directly(&path));
    assert_eq!(mode(), 0o777);
}

#[test]
fn a_file_that_is_opened_directly_can_be_mapped() {
    if !judges::has_fuse() {
        return;
    }
    let shown = ShownVolume::with(MountOptions::default());
    let path = shown.root().join("file");
    fs::write(&path, [1; 8192]).expect("written");
    if maps(&path, OFlag::O_DIRECT) {
        let bytes = fs::read(&path).expect("read");
        assert_eq!(&bytes[4999..5005], b"\x01here\x01");
    }
}

#[test]
fn drive_can_be_mapped_and_synced() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(&config(true), Pace::Free);
    if maps(&shown.path("drive"), OFlag::empty()) {
        let mut bytes = [0; 6];
        shown.open().read_exact_at(&mut bytes, 4999).expect("read");
        assert_eq!(&bytes, b"\0here\0");
    }
}

/// Opens a file, maps its first 8 KiB and stores "here" at offset 5000. Returns `false`, after a
/// message, if Python is not installed.
fn maps(path: &Path, flags: OFlag) -> bool {
    let program = "import mmap, os, sys\n\
         f = os.open(sys.argv[1], os.O_RDWR | int(sys.argv[2]))\n\
         m = mmap.mmap(f, 8192)\n\
         m[5000:5004] = b'here'\n\
         m.flush()\n";
    let mut python = Command::new("python3");
    let words = python.args(["-c", program]).arg(path);
    let Ok(status) = words.arg(flags.bits().to_string()).status() else {
        judges::skip("python3 is not installed");
        return false;
    };
    assert!(status.success(), "it can be mapped");
    true
}
