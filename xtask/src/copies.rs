//! The build stays small: a count of functions in the program that the tests leave.
//!
//! A generic function is compiled once for each set of its types, so the time of a build grows with
//! the functions in the program and not with the lines of its sources. Invariant: a count is
//! compared only if the program was compiled as `.ci/run` does, because optimisation and codegen
//! units decide which functions remain.

use crate::rules::ratchet::FILE;
use crate::tree::Source;
use crate::{Tree, program, tools};
use serde::Deserialize;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of `.ci/run` that change the count.
const SETTINGS: [(&str, &str); 2] = [
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "1"),
];

/// Folders whose code is not in the program.
const APART: [&str; 3] = ["xtask/", "testing/", "python/"];

#[derive(Deserialize)]
struct Document {
    build: Limit,
}

#[derive(Deserialize)]
struct Limit {
    /// Functions in the program for a hundred functions of the sources.
    copies: usize,
}

/// Prints the number of functions in `program`, and compares it with that of the sources at `root`
/// if the program was compiled as in continuous integration.
///
/// # Errors
/// If the program has too many functions for its sources, or cannot be read.
pub fn check(root: &Path, program: &Path) -> Result<(), String> {
    let listed = match program::output(Command::new("nm").arg(program)) {
        Ok(listed) => listed,
        Err(why) if program::strict() => return Err(why),
        Err(why) => {
            println!("functions of the program are not counted: {why}");
            return Ok(());
        }
    };
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    let file = tree.source(FILE);
    let file = file.ok_or_else(|| format!("{FILE} is missing"))?;
    let document: Document = toml::from_str(&file.text).map_err(|e| e.message().to_owned())?;
    let (compiled, written) = (functions(&listed), written(&tree.sources));
    let copies = compiled * 100 / written.max(1);
    println!("-- {compiled} functions in the program for {written} in the sources");
    let is_set = |&(name, value): &(&str, &str)| env::var(name).is_ok_and(|is| is == value);
    match SETTINGS.iter().all(is_set) && tools::warnings_are_errors() {
        true => judge(copies, document.build.copies),
        false => Ok(()),
    }
}

/// Functions in the output of `nm`.
fn functions(listed: &str) -> usize {
    let kinds = listed.lines().map(|line| line.split(' ').nth(1));
    kinds.filter(|kind| matches!(kind, Some("t" | "T"))).count()
}

/// Functions of `sources` that are compiled into the program.
fn written(sources: &[Source]) -> usize {
    let inside = |path: &str| !APART.iter().any(|folder| path.starts_with(folder));
    let of = |source: &Source| {
        let functions = source.rust().map_or(&[][..], |code| &code.functions);
        let ours = functions.iter().filter(|f| !source.is_test(f.line));
        ours.count()
    };
    let inside = sources.iter().filter(|source| inside(&source.path));
    inside.map(of).sum()
}

fn judge(copies: usize, max: usize) -> Result<(), String> {
    if copies <= max {
        return Ok(());
    }
    Err(format!(
        "the program has {copies} functions for a hundred of the sources, and {FILE} allows {max} \
         ([build] copies): generic code is compiled more often than before. `nm -C --size-sort` \
         on target/debug/flashloom shows names that occur many times. Give callers one type (as \
         host::Disk and vfs::AnyBody do), move code that does not depend on the type into a \
         function without one, or pass `&dyn Trait` where a call is rare"
    ))
}

/// The program in the messages of Cargo about a build of the tests.
#[must_use]
pub fn program_in(messages: &str) -> Option<PathBuf> {
    let mut artifacts = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_program = message["target"]["kind"][0] == "bin"
            && message["target"]["name"] == "flashloom"
            && message["profile"]["test"] == false;
        is_program.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    artifacts.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_listing_are_counted_without_data() {
        let listed = "0000000000001130 T main\n0000000000001139 t _ZN1a1bE\n\
                      0000000000004010 D data\n                 U malloc\n";
        assert_eq!(functions(listed), 2);
    }

    #[test]
    fn sources_are_counted_without_tests_and_other_programs() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let paths = [
            "core/ssd/src/a.rs",
            "core/ssd/tests/it/a.rs",
            "xtask/src/a.rs",
        ];
        let sources = paths.map(|path| Source::new(path, text));
        assert_eq!(written(&sources), 1);
    }

    #[test]
    fn too_many_copies_are_refused_with_a_remedy() {
        assert!(judge(800, 800).is_ok());
        let why = judge(801, 800).unwrap_err();
        assert!(why.contains("801") && why.contains("host::Disk"), "{why}");
    }

    #[test]
    fn program_is_found_among_test_programs() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"flashloom","kind":["bin"]},"profile":{"test":true},"executable":"/w/deps/flashloom-1"}
{"reason":"compiler-artifact","target":{"name":"flashloom","kind":["bin"]},"profile":{"test":false},"executable":"/w/flashloom"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(program_in(messages), Some(PathBuf::from("/w/flashloom")));
        assert_eq!(program_in(""), None);
    }
}
