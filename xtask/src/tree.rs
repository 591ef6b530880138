//! The workspace as values: every tracked text file, and every crate with its dependencies.
//!
//! Only this module reads the workspace from disk; the rules work on its values.

use crate::code::Code;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Reason why the workspace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read.
    #[error("{path} cannot be read: {error}")]
    Read {
        /// Path of the file or folder.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// `cargo metadata` failed; its message.
    #[error("`cargo metadata` should describe the workspace, but: {0}")]
    Metadata(String),
}

/// One text file of the project.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path relative to the root, with forward slashes.
    pub path: String,
    /// Text of the whole file.
    pub text: String,
    /// Facts about a Rust file, or the line and message of its syntax error. `None` for other
    /// files.
    pub code: Option<Result<Code, (usize, String)>>,
}

impl Source {
    /// A file of the project; Rust files are parsed at once.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let read = || Code::read(text).map_err(|e| (e.span().start().line, e.to_string()));
        let has_code = Path::new(path).extension().is_some_and(|e| e == "rs");
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: has_code.then(read),
        }
    }

    /// Facts about the file, if it is valid Rust.
    #[must_use]
    pub fn rust(&self) -> Option<&Code> {
        self.code.as_ref()?.as_ref().ok()
    }

    /// Whether `line` is test code: under `tests/` or `benches/`, in a file `tests.rs`, or in an
    /// item that only a test build compiles.
    #[must_use]
    pub fn is_test(&self, line: usize) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
            || self.rust().is_some_and(|code| code.is_test(line))
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// Number of the first line that contains `needle`; 1 if none does.
    #[must_use]
    pub fn line_of(&self, needle: &str) -> usize {
        let mut lines = self.lines();
        lines
            .find(|(_, line)| line.contains(needle))
            .map_or(1, |(number, _)| number)
    }
}

/// One crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Package name of the crate.
    pub name: String,
    /// Folder of the crate, relative to the root, such as `core/nand`.
    pub folder: String,
    /// Folders of the workspace crates that it depends on, in any section of its manifest.
    pub needs: Vec<String>,
}

/// A third-party package that the workspace is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Name of the package.
    pub name: String,
    /// Licence as an SPDX expression; `None` if the package names none.
    pub license: Option<String>,
}

/// Values of the whole workspace, the input of the rules.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Text files, sorted by path.
    pub sources: Vec<Source>,
    /// Crates of the workspace, sorted by folder.
    pub crates: Vec<Crate>,
    /// Third-party packages, in the order of the metadata.
    pub externals: Vec<External>,
}

impl Tree {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    /// If a file cannot be read or cargo cannot describe the workspace.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let mut paths = match tracked(root) {
            Some(paths) => paths,
            None => walk(root)?,
        };
        paths.sort();
        let sources = paths.iter().filter_map(|path| source(root, path)).collect();
        let metadata = metadata(root)?;
        Ok(Self {
            sources,
            crates: crates(&metadata, root)?,
            externals: externals(&metadata),
        })
    }

    /// The file at `path`; `None` if it is not in the tree.
    #[must_use]
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

/// The root of this workspace: the parent of this crate's folder.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// The cargo that runs this program, so that a toolchain override is kept.
#[must_use]
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Files that git tracks or would track; `None` outside a repository.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root);
    git.args(["ls-files", "-z", "--cached", "--others"]);
    git.arg("--exclude-standard");
    let output = git.output().ok().filter(|output| output.status.success())?;
    let list = String::from_utf8_lossy(&output.stdout);
    Some(list.split_terminator('\0').map(str::to_owned).collect())
}

/// Every file under `root`, for a copy of the project without its history.
fn walk(root: &Path) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if !path.is_dir() {
                files.push(relative(&path, root));
            } else if !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            }
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = fs::read_dir(folder).and_then(|list| list.map(|e| Ok(e?.path())).collect());
    list.map_err(|error| Error::Read {
        path: folder.display().to_string(),
        error,
    })
}

fn relative(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

/// The text at `path`; `None` for a file that is binary or was just removed.
fn source(root: &Path, path: &str) -> Option<Source> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    Some(Source::new(path, &text))
}

pub(crate) fn metadata(root: &Path) -> Result<Value, Error> {
    let fail = |what: String| Error::Metadata(what);
    let mut command = cargo();
    command.current_dir(root);
    command.args(["metadata", "--format-version", "1"]);
    let output = command.output().map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        return Err(fail(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| fail(e.to_string()))
}

/// The workspace crates in `metadata`.
fn crates(metadata: &Value, root: &Path) -> Result<Vec<Crate>, Error> {
    let packages = metadata["packages"].as_array();
    let packages = packages.ok_or_else(|| Error::Metadata("no list of packages".to_owned()))?;
    let own = packages.iter().filter(|p| p["source"].is_null());
    let mut crates: Vec<_> = own.map(|p| one_crate(p, root)).collect();
    crates.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(crates)
}

/// The third-party packages in `metadata`.
fn externals(metadata: &Value) -> Vec<External> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let external = |package: &Value| External {
        name: package["name"].as_str().unwrap_or_default().to_owned(),
        license: package["license"].as_str().map(str::to_owned),
    };
    packages
        .filter(|p| !p["source"].is_null())
        .map(external)
        .collect()
}

fn one_crate(package: &Value, root: &Path) -> Crate {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(manifest);
    let needs = package["dependencies"].as_array().into_iter().flatten();
    Crate {
        name: package["name"].as_str().unwrap_or_default().to_owned(),
        folder: relative(folder, root),
        needs: needs
            .filter_map(|need| need["path"].as_str())
            .map(|path| relative(Path::new(path), root))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn edges_are_path_dependencies_of_every_kind() {
        let metadata = json!({ "packages": [{
            "name": "ssd",
            "manifest_path": "/r/core/ssd/Cargo.toml",
            "dependencies": [
                { "name": "nand", "path": "/r/core/nand", "kind": null },
                { "name": "sim", "path": "/r/core/sim", "kind": "dev" },
                { "name": "serde", "kind": null },
            ],
        }]});
        let crates = crates(&metadata, Path::new("/r")).expect("well formed");
        assert_eq!(crates[0].folder, "core/ssd");
        assert_eq!(crates[0].needs, ["core/nand", "core/sim"]);
    }

    #[test]
    fn test_code_is_recognised_by_path_or_attribute() {
        assert!(Source::new("core/sim/tests/order.rs", "").is_test(1));
        assert!(Source::new("core/sim/src/tests.rs", "").is_test(1));
        let source = Source::new("core/sim/src/lib.rs", "fn a() {}\n#[test]\nfn b() {}\n");
        assert!(!source.is_test(1));
        assert!(source.is_test(3));
    }

    #[test]
    fn copy_without_history_is_walked() {
        let files = walk(&workspace_root().join("xtask")).expect("it exists");
        assert!(files.contains(&"src/tree.rs".to_owned()));
    }
}
