//! Storage of runs in files as they finish, so that an interrupted command can continue.
//!
//! Invariants: a stored run is complete or absent. It is found again only for the same plan and by
//! the same program, or, if requested and counted, by a program built later. A malformed file costs
//! another run, and is reported.

use super::experiment::fingerprint;
use super::failure::Failure;
use super::output::note;
use super::progress::Runs;
use report::claim::Document;
use serde::{Deserialize, Serialize};
use stack::pool;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The outcome of a run: its record, or the reason of its failure.
pub(crate) type Outcome = Result<Document, String>;

/// The schema of a stored file.
const SCHEMA: &str = "flashloom.kept-run/1";

/// A run that a command needs.
pub(crate) struct Wanted {
    /// Name of the run, for the user.
    pub(crate) name: String,
    /// Everything that determines the run, as text.
    pub(crate) told: String,
}

/// File with the checksums of programs that have stored runs beside it, one on each line.
const PROGRAMS: &str = "programs";

/// Largest number of other programs whose runs are considered.
const MOST_PROGRAMS: usize = 64;

/// The store of finished runs.
pub(crate) struct Kept {
    /// The folder of the files; `None` to store nothing.
    folder: Option<PathBuf>,
    /// Checksum of this program.
    program: String,
    /// Checksums of other programs whose runs are accepted.
    others: Vec<String>,
}

/// Contents of a stored file.
#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    name: String,
    outcome: Outcome,
}

impl report::json::Document for File {
    const SCHEMA: &'static str = SCHEMA;
}

/// The stored outcomes of wanted runs, in their order.
pub(crate) struct Found {
    outcomes: Vec<Option<Outcome>>,
    /// File name of each run without its extension, whether it exists or not.
    pub(crate) digests: Vec<String>,
    /// Number of runs that other programs have stored.
    pub(crate) by_others: usize,
}

impl Found {
    /// Indices of runs without a stored outcome.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let all = self.outcomes.iter().enumerate();
        let missing = all.filter(|(_, outcome)| outcome.is_none());
        missing.map(|(index, _)| index).collect()
    }
}

/// The programs listed in a file, except `own`; a damaged line names no existing program.
fn programs(path: &Path, own: &str) -> Result<Vec<String>, Failure> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| Failure::at(path, e))?,
    };
    let others = text.lines().filter(|line| *line != own);
    Ok(others.take(MOST_PROGRAMS).map(str::to_owned).collect())
}

impl Kept {
    /// The store in the folder `runs` of `folder`, created if missing. If `by_others`, runs that
    /// other programs stored are accepted, too.
    pub(crate) fn new(folder: Option<&Path>, by_others: bool) -> Result<Self, Failure> {
        let Some(folder) = folder.map(|folder| folder.join("runs")) else {
            return Ok(Self {
                folder: None,
                program: String::new(),
                others: Vec::new(),
            });
        };
        fs::create_dir_all(&folder).map_err(|e| Failure::at(&folder, e))?;
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.map_err(|e| Failure::new(format!("this program: {e}")))?;
        let program = fingerprint([&*program]);
        let path = folder.join(PROGRAMS);
        let others = programs(&path, &program)?;
        let all = [others.as_slice(), &[program.clone(), String::new()]].concat();
        report::file::write(&path, &all.join("\n"))?;
        Ok(Self {
            folder: Some(folder),
            program,
            others: if by_others { others } else { Vec::new() },
        })
    }

    /// Checksum of this program; empty if nothing is stored.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// File name of the run `wanted`, without its extension, if `program` stored it.
    fn digest(program: &str, wanted: &Wanted) -> String {
        fingerprint([program.as_bytes(), wanted.told.as_bytes()])
    }

    /// The stored outcome of each of `wanted`.
    pub(crate) fn found(&self, wanted: &[Wanted]) -> Found {
        let mut found = Found {
            outcomes: Vec::new(),
            digests: Vec::new(),
            by_others: 0,
        };
        for wanted in wanted {
            let own = Self::digest(&self.program, wanted);
            let others = self
                .others
                .iter()
                .map(|program| Self::digest(program, wanted));
            let mut all = std::iter::once(own.clone()).chain(others);
            let one = all.find_map(|digest| Some((self.find(&digest)?, digest)));
            let (outcome, digest) = one.unzip();
            let digest = digest.unwrap_or_else(|| own.clone());
            found.by_others += usize::from(digest != own);
            found.outcomes.push(outcome);
            found.digests.push(digest);
        }
        found
    }

    /// Outcomes of all `wanted`, in their order: those that were `found`, and new ones of `make`.
    /// It is called with each number below the count of missing runs, on up to `threads` threads,
    /// and returns the index among them that it has run.
    pub(crate) fn complete(
        &self,
        wanted: &[Wanted],
        found: Found,
        threads: usize,
        make: &(dyn Fn(usize) -> (usize, Outcome) + Sync),
    ) -> Vec<Outcome> {
        let missing = found.missing();
        let (mut outcomes, digests) = (found.outcomes, found.digests);
        let bar = Runs::new(missing.len());
        let work = |turn| {
            let (which, outcome) = make(turn);
            let index = missing[which];
            self.keep(&digests[index], &wanted[index], &outcome);
            bar.done(&wanted[index].name);
            (index, outcome)
        };
        for (index, outcome) in pool::each(missing.len(), threads, &work) {
            outcomes[index] = Some(outcome);
        }
        bar.finish();
        let all = outcomes.into_iter();
        all.map(|outcome| outcome.expect("each was kept or made"))
            .collect()
    }

    fn path(&self, digest: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{digest}.json")))
    }

    fn find(&self, digest: &str) -> Option<Outcome> {
        let path = self.path(digest)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => return again(&path, &error.to_string()),
        };
        match report::parse::<File>(&text) {
            Ok(file) => Some(file.outcome),
            Err(error) => again(&path, &error.to_string()),
        }
    }

    /// Stores an outcome, if possible: a full disk must not cost the result.
    fn keep(&self, digest: &str, wanted: &Wanted, outcome: &Outcome) {
        let Some(path) = self.path(digest) else {
            return;
        };
        let file = File {
            schema: SCHEMA.to_owned(),
            name: wanted.name.clone(),
            outcome: outcome.clone(),
        };
        if let Err(error) = report::file::write(&path, &report::to_json(&file)) {
            note(&format!(
                "flashloom: a finished run could not be stored for reuse: {error}"
            ));
        }
    }
}

fn again(path: &Path, why: &str) -> Option<Outcome> {
    let path = path.display();
    note(&format!("flashloom: {path}: {why}; repeating the run"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Mutex;

    fn wanted() -> Vec<Wanted> {
        let wanted = |name: &str| Wanted {
            name: name.to_owned(),
            told: format!("all of {name}"),
        };
        ["a", "b", "fails"].map(wanted).into()
    }

    /// Outcomes of a command, and the runs made for it.
    fn completed(folder: &Path) -> (Vec<Outcome>, Vec<usize>) {
        completed_by(&Kept::new(Some(folder), false).unwrap())
    }

    fn completed_by(kept: &Kept) -> (Vec<Outcome>, Vec<usize>) {
        let (wanted, made) = (wanted(), Mutex::default());
        let found = kept.found(&wanted);
        let missing = found.missing();
        let make = |turn: usize| {
            let index = missing[turn];
            Vec::push(&mut made.lock().unwrap(), index);
            let outcome = match index {
                2 => Err("no space".to_owned()),
                _ => Ok(json!({"ops": index, "share": 0.1 + 0.2})),
            };
            (turn, outcome)
        };
        let outcomes = kept.complete(&wanted, found, 2, &make);
        let mut made = made.into_inner().unwrap();
        made.sort_unstable();
        (outcomes, made)
    }

    #[test]
    fn stored_run_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (first, made) = completed(folder.path());
        assert_eq!(made, [0, 1, 2]);
        assert_eq!(first[2], Err("no space".to_owned()));
        assert_eq!(completed(folder.path()), (first, Vec::new()));
    }

    #[test]
    fn a_file_that_is_cut_short_costs_its_run_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (first, _) = completed(folder.path());
        let kept = Kept::new(Some(folder.path()), false).unwrap();
        let path = kept.path(&kept.found(&wanted()).digests[1]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for short in ["", &text[..text.len() / 2], "{\"schema\": \"other/1\"}"] {
            fs::write(&path, short).unwrap();
            assert_eq!(completed(folder.path()), (first.clone(), vec![1]));
        }
    }

    /// A record of one plan is never used for another one, and that of another program only if
    /// requested, and is counted.
    #[test]
    fn stored_file_name_depends_on_plan_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |by_others| Kept::new(Some(folder.path()), by_others).unwrap();
        let other = Kept {
            program: "another".to_owned(),
            ..kept(false)
        };
        let digests = other.found(&wanted()).digests;
        assert_ne!(digests[0], digests[1]);
        assert_ne!(digests, kept(false).found(&wanted()).digests);
        let (first, _) = completed_by(&other);
        fs::write(folder.path().join("runs/programs"), "damaged\nanother\n").unwrap();
        let found = kept(true).found(&wanted());
        assert_eq!((found.by_others, &found.digests), (3, &digests));
        assert_eq!(completed_by(&kept(true)), (first.clone(), Vec::new()));
        assert_eq!(completed_by(&kept(false)), (first, vec![0, 1, 2]));
        assert_eq!(
            kept(true).found(&wanted()).by_others,
            0,
            "its own come first"
        );
    }
}
