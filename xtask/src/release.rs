//! Reproducible releases: a second build gives the same bytes.
//!
//! Invariant: the compared files were built from the commit, twice, in folders of different names
//! and lengths, with the crates in `Cargo.lock`; they contain no path of the machine.

use crate::program::{output, run};
use crate::{deny, tree};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Folders of the two builds, below `target/reproducible`.
const FOLDERS: [&str; 2] = ["a", "another/of-a-longer-name"];

/// Checks that the version is ready, and that two builds of `package` give the same bytes.
///
/// # Errors
/// The missing parts, or the files that differ.
pub fn run_for(root: &Path, package: &str) -> Result<(), String> {
    let version = env!("CARGO_PKG_VERSION");
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).map_err(|e| e.to_string())?;
    let changes = changes_of(&changes, version);
    let changes = changes.ok_or_else(|| format!("CHANGELOG.md says nothing of {version}"))?;
    println!(
        "== {version}: {} lines in CHANGELOG.md",
        changes.lines().count()
    );
    println!("== crates of others");
    deny::check(root)?;
    deny::check_faults(root)?;
    let unsaved = output(git(root).args(["status", "--porcelain"]))?;
    if !unsaved.is_empty() {
        println!("what is not committed is not in what is built:\n{unsaved}");
    }
    let mut built = Vec::new();
    for name in FOLDERS {
        let folder = root.join("target/reproducible").join(name);
        println!("== {package} in {}", folder.display());
        built.push(sums(&build(root, &folder, package)?)?);
    }
    println!("{}", compared(&built[0], &built[1])?);
    Ok(())
}

/// The section of `version` in the changelog `text`; `None` if it is missing or empty.
fn changes_of<'a>(text: &'a str, version: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\n## [{version}]"))?;
    let (_, rest) = rest.split_once('\n')?;
    let section = rest.split("\n## ").next()?.trim();
    (!section.is_empty()).then_some(section)
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder);
    git
}

/// Builds `package` from the commit in a clone at `folder`, and returns the folder of the results.
fn build(root: &Path, folder: &Path, package: &str) -> Result<PathBuf, String> {
    // An earlier build would be reused.
    let _ = fs::remove_dir_all(folder);
    run(git(root).args(["clone", "--quiet"]).arg(root).arg(folder))?;
    let target = folder.join("target");
    let time = output(git(folder).args(["log", "-1", "--format=%ct"]))?;
    let maps = maps(folder)?;
    let each = |flag: &str| {
        maps.iter()
            .map(|map| format!("{flag}={map}"))
            .collect::<Vec<_>>()
    };
    run(tree::cargo()
        .current_dir(folder)
        .args(["build", "--release", "--locked", "--quiet", "-p", package])
        .arg("--target-dir")
        .arg(&target)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            each("--remap-path-prefix").join("\u{1f}"),
        )
        .env("CFLAGS", each("-ffile-prefix-map").join(" "))
        .env("SOURCE_DATE_EPOCH", time.trim()))?;
    Ok(target.join("release"))
}

/// Replacements of machine-dependent paths in the compiled files, as `path=name`.
fn maps(folder: &Path) -> Result<[String; 2], String> {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let cargo = cargo.ok_or("neither CARGO_HOME nor HOME is set")?;
    let folder = folder.canonicalize().map_err(|e| e.to_string())?;
    Ok([(folder, "/flashloom"), (cargo, "/cargo")]
        .map(|(path, name)| format!("{}={name}", path.display())))
}

/// Checksums of the files in `folder` that can be run or linked, by file name.
fn sums(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut sums = BTreeMap::new();
    let entries = fs::read_dir(folder).map_err(|e| e.to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !path.is_file() || name.starts_with('.') || name.ends_with(".d") {
            continue;
        }
        let bytes = fs::read(&path).map_err(|e| format!("{name}: {e}"))?;
        let sum = Sha256::digest(bytes);
        sums.insert(name, sum.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    Ok(sums)
}

/// The checksums in the format of `sha256sum`; an error if the two builds differ.
fn compared(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Result<String, String> {
    let names: BTreeSet<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    let differs = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name));
    let differs: Vec<_> = differs.collect();
    if a.is_empty() || !differs.is_empty() {
        let (count, names) = (differs.len(), differs.join(", "));
        return Err(format!("built twice, {count} files differ: {names}"));
    }
    let lines = a.iter().map(|(name, sum)| format!("{sum}  {name}\n"));
    Ok(format!(
        "{}== equal in both folders",
        lines.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_ready_with_a_changelog_section() {
        let text = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - today\n\n- new\n\n## [0.1.0]\n";
        assert_eq!(changes_of(text, "0.2.0"), Some("- new"));
        assert_eq!(changes_of(text, "0.1.0"), None);
        assert_eq!(changes_of(text, "0.3.0"), None);
    }

    #[test]
    fn differing_files_are_named() {
        let of = |sums: &[(&str, &str)]| {
            let owned = sums.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        let a = of(&[("program", "1"), ("library", "2")]);
        assert!(compared(&a, &a).expect("equal").contains("1  program"));
        let b = of(&[("program", "1"), ("library", "3")]);
        assert!(compared(&a, &b).expect_err("differ").ends_with(": library"));
        let less = of(&[("program", "1")]);
        assert!(compared(&a, &less).is_err());
        assert!(compared(&of(&[]), &of(&[])).is_err());
    }

    #[test]
    fn sums_match_the_sha256_standard() {
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["program", ".hidden", "program.d"] {
            fs::write(folder.path().join(name), "abc").expect("written");
        }
        let sums = sums(folder.path()).expect("read");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums.len(), 1);
        assert_eq!(sums["program"], abc);
    }
}
