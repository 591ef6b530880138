//! Other people's programs that tests are judged by or run.
//!
//! A test that misses one says so and passes, so that a small machine can still
//! run the rest; in continuous integration (`CI` is set) it fails. On a Debian
//! machine root has them installed first.

use crate::program::{on_path, strict};
use std::process::{Command, Stdio};

/// A program, the Debian package that has it, and what tests need it for.
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "e2fsck",
        package: "e2fsprogs",
        purpose: "judges ext4 images",
    },
    Tool {
        program: "fsck.f2fs",
        package: "f2fs-tools",
        purpose: "judges F2FS images",
    },
    Tool {
        program: "btrfs",
        package: "btrfs-progs",
        purpose: "judges Btrfs images",
    },
    Tool {
        program: "fusermount3",
        package: "fuse3",
        purpose: "unmounts what is served",
    },
    Tool {
        program: "losetup",
        package: "mount",
        purpose: "lets the kernel's file systems run on a served drive",
    },
    Tool {
        program: "fio",
        package: "fio",
        purpose: "writes and verifies",
    },
    Tool {
        program: "nbdcopy",
        package: "libnbd-bin",
        purpose: "is a client of the network block device",
    },
    Tool {
        program: "qemu-io",
        package: "qemu-utils",
        purpose: "is another one",
    },
    Tool {
        program: "sqlite3",
        package: "sqlite3",
        purpose: "is recorded",
    },
    Tool {
        program: "git",
        package: "git",
        purpose: "is recorded",
    },
    Tool {
        program: "db_bench",
        package: "rocksdb-tools",
        purpose: "is recorded",
    },
    Tool {
        program: "pgbench",
        package: "postgresql",
        purpose: "is recorded with its server",
    },
    Tool {
        program: "python3",
        package: "python3-venv",
        purpose: "runs the Python package",
    },
    Tool {
        program: "chromium",
        package: "chromium",
        purpose: "shows the pages of reports",
    },
];

/// Installs what is missing if this is Debian and the user root.
///
/// # Errors
/// In continuous integration, what is still missing.
pub fn provide() -> Result<(), String> {
    let missing = missing();
    if !missing.is_empty() && is_root() && on_path("apt-get") {
        install(&missing);
    }
    let missing = self::missing();
    for tool in &missing {
        let Tool {
            program,
            package,
            purpose,
        } = tool;
        println!("{program} is missing (Debian package {package}); it {purpose}: such tests skip");
    }
    if missing.is_empty() {
        println!("{} programs are there", TOOLS.len());
    }
    let fails = strict() && !missing.is_empty();
    let names: Vec<_> = missing.iter().map(|tool| tool.program).collect();
    let why = || format!("{} missing, and nothing skips here", names.join(", "));
    (!fails).then_some(()).ok_or_else(why)
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !on_path(tool.program)).collect()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout == b"0\n")
}

fn install(missing: &[&Tool]) {
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let mut commands = vec![vec!["update", "-qq"], vec!["install", "-y", "-qq"]];
    commands[1].extend(packages);
    for arguments in commands {
        println!("apt-get {}", arguments.join(" "));
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        // What could not be installed is reported as missing.
        let _ = apt.stdout(Stdio::null()).stdin(Stdio::null()).status();
    }
}
