//! External judges: btrfs-progs and the kernel. Tests skip if the judge is missing.

use std::path::Path;
use std::process::Command;

pub(crate) use judges::{has, save};

/// Runs a command. Returns whether it succeeded, and its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = judges::run(Command::new(program).args(arguments));
    (output.status.success(), judges::text(&output))
}

/// Asserts that `btrfs check` finds no error in an image, sums of contents included.
pub(crate) fn assert_clean(image: &Path) {
    let path = image.to_str().unwrap();
    let arguments = ["check", "--readonly", "--check-data-csum", path];
    let (content, said) = run("btrfs", &arguments);
    let complains = said.lines().any(|line| {
        let line = line.to_lowercase();
        line.contains("error") && !line.contains("no error") || line.contains("mismatch")
    });
    assert!(
        content && !complains && said.contains("no error found"),
        "{said}"
    );
}

/// Whether this kernel can mount Btrfs images; reports a skip if it cannot.
pub(crate) fn can_mount() -> bool {
    let kernel = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let knows = kernel.contains("btrfs");
    if !knows {
        judges::skip("the kernel has no Btrfs");
    }
    knows && judges::has_loops() && has("losetup")
}

/// Mounts an image with the kernel, runs a shell script in it and unmounts it. Returns the
/// output of the script.
pub(crate) fn in_kernel(dir: &Path, image: &Path, options: &str, script: &str) -> String {
    let point = dir.join("mounted");
    std::fs::create_dir_all(&point).unwrap();
    let (image, point) = (image.to_str().unwrap(), point.to_str().unwrap());
    let options = format!("loop,{options}");
    let (mounted, said) = run("mount", &["-t", "btrfs", "-o", &options, image, point]);
    assert!(mounted, "{said}");
    let (content, said) = run("sh", &["-c", &format!("cd {point} && ({script})")]);
    let (unmounted, why) = run("umount", &[point]);
    assert!(content, "{said}");
    assert!(unmounted, "{why}");
    said
}
