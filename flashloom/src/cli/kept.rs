//! Runs that are kept in files as they are made, so that what was interrupted goes on.
//!
//! Invariants: a run that is kept is there as a whole or not at all; it is found again
//! only by the same program and for the same plan; a file that says something else than
//! it should costs another run, and is told of.

use super::experiment::fingerprint;
use super::failure::Failure;
use super::output::note;
use super::progress::Runs;
use report::claim::Document;
use serde::{Deserialize, Serialize};
use stack::pool;
use std::fs;
use std::path::{Path, PathBuf};

/// What came out of a run: its record, or why it failed.
pub(crate) type Outcome = Result<Document, String>;

/// The schema of a file.
const SCHEMA: &str = "flashloom.kept-run/1";

/// A run that is wanted.
pub(crate) struct Wanted {
    /// For the user.
    pub(crate) name: String,
    /// All that determines it, as text.
    pub(crate) told: String,
}

/// Where runs are kept.
pub(crate) struct Kept {
    /// None to keep nothing.
    folder: Option<PathBuf>,
    /// A checksum of this program.
    program: String,
}

/// What is in a file.
#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    name: String,
    outcome: Outcome,
}

impl report::json::Document for File {
    const SCHEMA: &'static str = SCHEMA;
}

/// What is kept of runs that are wanted, in their order.
pub(crate) struct Found(Vec<Option<Outcome>>);

impl Found {
    /// Places of those that are not.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let all = self.0.iter().enumerate();
        let missing = all.filter(|(_, outcome)| outcome.is_none());
        missing.map(|(index, _)| index).collect()
    }
}

impl Kept {
    /// In the folder `runs` of `folder`, which are made if they are not there.
    pub(crate) fn new(folder: Option<&Path>) -> Result<Self, Failure> {
        let Some(folder) = folder.map(|folder| folder.join("runs")) else {
            return Ok(Self {
                folder: None,
                program: String::new(),
            });
        };
        fs::create_dir_all(&folder).map_err(|e| Failure::at(&folder, e))?;
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.map_err(|e| Failure::new(format!("this program: {e}")))?;
        Ok(Self {
            folder: Some(folder),
            program: fingerprint([&*program]),
        })
    }

    /// What the file of `wanted` is called, without its ending.
    pub(crate) fn digest(&self, wanted: &Wanted) -> String {
        fingerprint([self.program.as_bytes(), wanted.told.as_bytes()])
    }

    /// What is kept of each of `wanted`.
    pub(crate) fn found(&self, wanted: &[Wanted]) -> Found {
        Found(wanted.iter().map(|wanted| self.find(wanted)).collect())
    }

    /// Outcomes of all `wanted`, in their order: those that were `found`, and those that
    /// `make` makes. It is called with each number below the count of what is missing,
    /// on up to `threads` threads, and gives back which of that it has made.
    pub(crate) fn complete(
        &self,
        wanted: &[Wanted],
        found: Found,
        threads: usize,
        make: &(dyn Fn(usize) -> (usize, Outcome) + Sync),
    ) -> Vec<Outcome> {
        let missing = found.missing();
        let bar = Runs::new(missing.len());
        let work = |turn| {
            let (which, outcome) = make(turn);
            let index = missing[which];
            self.keep(&wanted[index], &outcome);
            bar.done(&wanted[index].name);
            (index, outcome)
        };
        let mut outcomes = found.0;
        for (index, outcome) in pool::each(missing.len(), threads, &work) {
            outcomes[index] = Some(outcome);
        }
        bar.finish();
        let all = outcomes.into_iter();
        all.map(|outcome| outcome.expect("each was kept or made"))
            .collect()
    }

    fn path(&self, wanted: &Wanted) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{}.json", self.digest(wanted))))
    }

    fn find(&self, wanted: &Wanted) -> Option<Outcome> {
        let path = self.path(wanted)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => return again(&path, &error.to_string()),
        };
        match report::parse::<File>(&text) {
            Ok(file) => Some(file.outcome),
            Err(error) => again(&path, &error.to_string()),
        }
    }

    /// Keeps an outcome, if it can: a full disk should not cost what was made.
    fn keep(&self, wanted: &Wanted, outcome: &Outcome) {
        let Some(path) = self.path(wanted) else {
            return;
        };
        let file = File {
            schema: SCHEMA.to_owned(),
            name: wanted.name.clone(),
            outcome: outcome.clone(),
        };
        if let Err(error) = report::file::write(&path, &report::to_json(&file)) {
            note(&format!("flashloom: a run is not kept: {error}"));
        }
    }
}

fn again(path: &Path, why: &str) -> Option<Outcome> {
    let path = path.display();
    note(&format!("flashloom: {path}: {why}; it is run again"));
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

    /// Outcomes, and which runs were made for them.
    fn completed(folder: &Path) -> (Vec<Outcome>, Vec<usize>) {
        let kept = Kept::new(Some(folder)).unwrap();
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
    fn what_was_made_is_not_made_again() {
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
        let kept = Kept::new(Some(folder.path())).unwrap();
        let path = kept.path(&wanted()[1]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for short in ["", &text[..text.len() / 2], "{\"schema\": \"other/1\"}"] {
            fs::write(&path, short).unwrap();
            assert_eq!(completed(folder.path()), (first.clone(), vec![1]));
        }
    }

    /// A record of one plan, or of another program, is never taken for that of another.
    #[test]
    fn what_determines_a_run_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(Some(folder.path())).unwrap();
        let other = Kept {
            folder: kept.folder.clone(),
            program: "another".to_owned(),
        };
        let [a, b, _] = &wanted()[..] else {
            panic!("three are wanted")
        };
        assert_ne!(kept.digest(a), kept.digest(b));
        assert_ne!(kept.digest(a), other.digest(a));
    }
}
