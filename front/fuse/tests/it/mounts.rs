//! What a mount does that depends on how it was mounted, and on what the kernel keeps
//! and leaves to us.

use crate::support::{ShownVolume, has_fuse};
use fuse::MountOptions;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Seconds of the last read of a file that was last read in 1970, after a read of
/// contents that the kernel has.
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
fn a_read_is_noted_though_the_kernel_has_the_contents() {
    if !has_fuse() {
        return;
    }
    assert!(read_noted("rw") > 1000);
    assert!(read_noted("strictatime") > 1000);
    assert_eq!(read_noted("noatime"), 1000);
}

#[test]
fn nobody_changes_what_is_mounted_to_be_read() {
    if !has_fuse() {
        return;
    }
    let shown = ShownVolume::with("ro".parse().expect("options"));
    let refused = fs::write(shown.root().join("file"), b"x").expect_err("it is read-only");
    assert_eq!(
        refused.raw_os_error(),
        Some(nix::errno::Errno::EROFS as i32)
    );
}

/// Whether `dd` wrote a block into the file as another user, around the cache.
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
fn a_direct_write_by_another_user_takes_set_id_bits() {
    if !has_fuse() || !nix::unistd::geteuid().is_root() {
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
    if !has_fuse() {
        return;
    }
    let shown = ShownVolume::with(MountOptions::default());
    let path = shown.root().join("file");
    fs::write(&path, [1; 8192]).expect("written");
    let program = format!(
        "import mmap, os, sys\n\
         f = os.open(sys.argv[1], os.O_RDWR | {})\n\
         m = mmap.mmap(f, 8192)\n\
         m[5000:5004] = b'here'\n\
         m.flush()\n",
        OFlag::O_DIRECT.bits()
    );
    let mut python = Command::new("python3");
    let Ok(status) = python.args(["-c", &program]).arg(&path).status() else {
        eprintln!("skipped: there is no python3");
        return;
    };
    assert!(status.success());
    assert_eq!(&fs::read(&path).expect("read")[4999..5005], b"\x01here\x01");
}
