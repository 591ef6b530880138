//! `cache`: used stacks in the user's cache, for later runs.
//!
//! Invariants: a run from the cache is the run from the contents made anew. A file is named after a
//! hash of all that determines its contents, and states all of that itself; a file that is damaged,
//! or of another stack, is made again. No failure of the cache costs a result.

use super::Answer;
use super::experiment::fingerprint;
use super::failure::Failure;
use super::output::{Shown, note};
use clap::{Args, Subcommand};
use report::table::{Side, listing};
use report::{Style, human};
use serde::Serialize;
use stack::{KeptError, Plan, Progress, Rest, StackError};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use whole::Unfinished;

/// Ending of the names of files in the cache.
const ENDING: &str = "used";
/// Level of zstd for the files, the fastest: words and stamps of pages shrink to a tenth.
const LEVEL: i32 = 1;

/// List or clear the cache of used stacks
///
/// A run with the precondition used starts from a snapshot of its drive and file system. The first
/// such run makes the snapshot and keeps it in flashloom/used of the cache directory
/// ($XDG_CACHE_HOME, or ~/.cache). Later runs with the same drive, stack, settings, seed and program
/// start from it.
#[derive(Subcommand)]
pub(crate) enum Command {
    List(List),
    Clear(Clear),
}

impl Command {
    pub(crate) fn run(&self) -> Answer {
        match self {
            Self::List(list) => list.run(),
            Self::Clear(clear) => clear.run(),
        }
    }
}

/// List the snapshots in the cache
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    shown: Shown,
}

/// Delete all snapshots in the cache
#[derive(Args)]
pub(crate) struct Clear {
    #[command(flatten)]
    shown: Shown,
}

/// Snapshot of a used stack in the cache.
#[derive(Serialize)]
struct Entry {
    file: String,
    bytes: u64,
    /// Seconds since the file was written.
    age_s: u64,
}

/// JSON document of `cache list` and `cache clear`.
#[derive(Serialize)]
struct Entries {
    folder: Option<String>,
    bytes: u64,
    snapshots: Vec<Entry>,
}

impl List {
    fn run(&self) -> Answer {
        let entries = Entries::of(folder().as_deref())?;
        self.shown
            .answer("flashloom.cache/1", &entries, |style| entries.told(style))
    }
}

impl Clear {
    fn run(&self) -> Answer {
        let folder = folder();
        let entries = Entries::of(folder.as_deref())?;
        for entry in &entries.snapshots {
            let path = Path::new(entries.folder.as_deref().unwrap_or_default()).join(&entry.file);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Failure::at(&path, error));
                }
                _ => {}
            }
        }
        let text = |_| {
            let (count, bytes) = (entries.snapshots.len(), human::bytes(entries.bytes as f64));
            format!("Deleted {count} snapshots, {bytes}.\n")
        };
        self.shown.answer("flashloom.cache/1", &entries, text)
    }
}

impl Entries {
    fn of(folder: Option<&Path>) -> Result<Self, Failure> {
        let mut snapshots = Vec::new();
        let listed = folder.map(fs::read_dir);
        let files = match listed {
            None => None,
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => None,
            Some(files) => {
                Some(files.map_err(|e| Failure::at(folder.unwrap_or(Path::new("")), e))?)
            }
        };
        for file in files.into_iter().flatten() {
            let file = file?;
            let path = file.path();
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            let metadata = file.metadata()?;
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            snapshots.push(Entry {
                file: file.file_name().to_string_lossy().into_owned(),
                bytes: metadata.len(),
                age_s: written.elapsed().map_or(0, |age| age.as_secs()),
            });
        }
        snapshots.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(Self {
            folder: folder.map(|folder| folder.display().to_string()),
            bytes: snapshots.iter().map(|entry| entry.bytes).sum(),
            snapshots,
        })
    }

    fn told(&self, style: Style) -> String {
        let Some(folder) = &self.folder else {
            return "No cache: neither XDG_CACHE_HOME nor HOME is set.\n".to_owned();
        };
        if self.snapshots.is_empty() {
            return format!("No snapshots in {folder}.\n");
        }
        let row = |entry: &Entry| {
            let age = human::time(entry.age_s as f64 * 1e9);
            vec![entry.file.clone(), human::bytes(entry.bytes as f64), age]
        };
        let rows: Vec<_> = self.snapshots.iter().map(row).collect();
        let columns = [
            ("snapshot", Side::Left),
            ("size", Side::Right),
            ("age", Side::Right),
        ];
        let all = human::bytes(self.bytes as f64);
        format!("{}{all} in {folder}\n", listing(&columns, &rows, style))
    }
}

/// The folder of the cache; `None` if the environment names no place for it.
fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let absolute = |path: &PathBuf| path.is_absolute();
    let cache = named("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let home = || named("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(cache.or_else(home)?.join("flashloom/used"))
}

/// Version of this program: a rebuilt one may make other contents.
fn program() -> String {
    let metadata = std::env::current_exe().and_then(fs::metadata);
    let stamp = metadata.map_or((0, 0), |metadata| {
        let written = metadata.modified().ok();
        let since = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        (metadata.len(), since.map_or(0, |since| since.as_nanos()))
    });
    format!("flashloom {} {stamp:?}", env!("CARGO_PKG_VERSION"))
}

/// The used stacks that runs of this process start from.
pub(crate) struct Shelf {
    folder: Option<PathBuf>,
    program: String,
    /// A lock for each file, so that one of several runs makes it.
    turns: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>>,
}

impl Shelf {
    /// The used stacks in the user's cache.
    pub(crate) fn open() -> Self {
        Self {
            folder: folder(),
            program: program(),
            turns: Mutex::default(),
        }
    }

    /// The contents that the run of `plan` starts from.
    pub(crate) fn rest(
        &self,
        plan: &Plan,
        heard: &mut dyn FnMut(Progress),
    ) -> Result<Rest, StackError> {
        let mut make = || {
            stack::rest(plan, &mut |progress| {
                heard(progress);
                ControlFlow::Continue(())
            })
        };
        let made_from = stack::made_from(plan, &self.program);
        let (Some(made_from), Some(folder)) = (made_from, &self.folder) else {
            return make();
        };
        let hash = fingerprint([made_from.as_bytes()]);
        let path = folder.join(format!("{}-{}-{hash}.{ENDING}", plan.stack, plan.past()));
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(path.clone()).or_default())
        };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        match read(plan, &made_from, &path) {
            Ok(rest) => return Ok(rest),
            Err(KeptError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => note(&format!(
                "flashloom: {}: {error}; the snapshot is made again",
                path.display()
            )),
        }
        let rest = make()?;
        if let Err(error) = write(&rest, plan, &made_from, &path) {
            note(&format!(
                "flashloom: the snapshot {} was not kept: {error}",
                path.display()
            ));
        }
        Ok(rest)
    }
}

fn read(plan: &Plan, made_from: &str, path: &Path) -> Result<Rest, KeptError> {
    let unpacked = zstd::Decoder::new(File::open(path)?)?;
    Rest::read(plan, made_from, &mut BufReader::new(unpacked))
}

fn write(rest: &Rest, plan: &Plan, made_from: &str, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let file = Unfinished::new(path)?;
    let packed = zstd::Encoder::new(file.file(), LEVEL)?;
    let mut out = BufWriter::new(packed);
    rest.write(plan, made_from, &mut out)?;
    out.into_inner()?.finish()?;
    file.finish().map(drop)
}
