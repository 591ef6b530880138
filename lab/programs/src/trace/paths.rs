//! Finds the trace files of a path: the file itself, the files listed in a MacSim list, or the
//! files in a folder.
//!
//! Invariant: only regular files are opened. Traces are read more than once, which is impossible
//! with a pipe, and opening a pipe without a writer blocks forever.

use super::TraceError;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Number of bytes read from the beginning of a file to check for a list; lists are short.
const HEAD: u64 = 1 << 16;

/// Files of the threads of the trace at `path`: those listed in a MacSim list, which may be in a
/// folder; the files of a folder, sorted by name; or the file itself.
pub(crate) fn threads_of(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let name = path.display().to_string();
    let kind = fs::metadata(path).map_err(TraceError::unreadable(&name, "the file"))?;
    let files = match kind.is_dir() {
        true => in_folder(path)?,
        false => list_at(path)?.unwrap_or_else(|| vec![path.to_owned()]),
    };
    for file in &files {
        check(file)?;
    }
    match files.is_empty() {
        true => Err(unfit(path, "the traces of some threads", "none")),
        false => Ok(files),
    }
}

fn in_folder(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let name = path.display().to_string();
    let unreadable = || TraceError::unreadable(&name, "the folder");
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable())? {
        let file = entry.map_err(unreadable())?.path();
        if !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    let mut lists = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        lists.extend(list_at(file)?);
    }
    match lists.len() {
        0 => Ok(files),
        1 => Ok(lists.remove(0)),
        several => {
            let found = format!("{several}: name the one that is meant");
            Err(unfit(path, "one list of threads", &found))
        }
    }
}

/// The files listed in the file at `path`, or `None` if it is not a list.
fn list_at(path: &Path) -> Result<Option<Vec<PathBuf>>, TraceError> {
    check(path)?;
    let name = path.display().to_string();
    let mut head = Vec::new();
    let file = fs::File::open(path).map_err(TraceError::unreadable(&name, "the file"))?;
    let read = file.take(HEAD).read_to_end(&mut head);
    read.map_err(TraceError::unreadable(&name, "the beginning"))?;
    Ok(std::str::from_utf8(&head)
        .ok()
        .and_then(|text| listed(path, text)))
}

/// Returns an error if `path` is not a regular file.
fn check(path: &Path) -> Result<(), TraceError> {
    let name = path.display().to_string();
    let kind = fs::metadata(path).map_err(TraceError::unreadable(&name, "the file"))?;
    match kind.is_file() {
        true => Ok(()),
        false => Err(unfit(
            path,
            "a regular file, as a trace is read more than once",
            "a pipe, a device or a folder",
        )),
    }
}

fn unfit(path: &Path, expected: &str, found: &str) -> TraceError {
    TraceError::Unfit {
        name: path.display().to_string(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

/// The thread files listed in MacSim's `trace.txt`, or `None` if `text` is not such a list. The
/// list contains a version, the number of threads, and for each thread its number and start.
#[must_use]
pub fn listed(path: &Path, text: &str) -> Option<Vec<PathBuf>> {
    let mut words = text.split_whitespace();
    if words.next()? != "x86" {
        return None;
    }
    let mut words = words.peekable();
    // The version may follow the name of the instruction set.
    words.next_if(|word| word.contains('.'));
    let count: usize = words.next()?.parse().ok()?;
    let stem = path.file_stem()?.to_str()?;
    let mut files = Vec::new();
    for _ in 0..count {
        let thread: u32 = words.next()?.parse().ok()?;
        words.next()?;
        files.push(path.with_file_name(format!("{stem}_{thread}.raw")));
    }
    Some(files)
}
