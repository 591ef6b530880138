//! Runs that are kept in files as they are made, so that what was interrupted goes on.
//!
//! Invariants: a run that is kept is there as a whole or not at all; it is found again
//! only for the same plan and by the same program, or, if that is asked for and counted, by
//! one that was built later; a file that says something else than it should costs another
//! run, and is told of.

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

/// The file with the checksums of programs that have kept runs beside it, a line each.
const PROGRAMS: &str = "programs";

/// Most programs that are looked for.
const MOST_PROGRAMS: usize = 64;

/// Where runs are kept.
pub(crate) struct Kept {
    /// None to keep nothing.
    folder: Option<PathBuf>,
    /// A checksum of this program.
    program: String,
    /// Those of others whose runs are taken as well.
    others: Vec<String>,
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
pub(crate) struct Found {
    outcomes: Vec<Option<Outcome>>,
    /// What the file of each is called, without its ending, whether it is there or not.
    pub(crate) digests: Vec<String>,
    /// How many of them other programs have made.
    pub(crate) by_others: usize,
}

impl Found {
    /// Places of those that are not.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let all = self.outcomes.iter().enumerate();
        let missing = all.filter(|(_, outcome)| outcome.is_none());
        missing.map(|(index, _)| index).collect()
    }
}

/// The programs that a file names, but for `own`: a damaged line names none that has runs.
fn programs(path: &Path, own: &str) -> Result<Vec<String>, Failure> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| Failure::at(path, e))?,
    };
    let others = text.lines().filter(|line| *line != own);
    Ok(others.take(MOST_PROGRAMS).map(str::to_owned).collect())
}

impl Kept {
    /// In the folder `runs` of `folder`, which are made if they are not there; with
    /// `by_others` what other programs have kept there is taken, too.
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

    /// The checksum of this program; empty if nothing is kept.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// What the file of `wanted` is called, without its ending, if `program` made it.
    fn digest(program: &str, wanted: &Wanted) -> String {
        fingerprint([program.as_bytes(), wanted.told.as_bytes()])
    }

    /// What is kept of each of `wanted`.
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

    /// Keeps an outcome, if it can: a full disk should not cost what was made.
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
        let kept = Kept::new(Some(folder.path()), false).unwrap();
        let path = kept.path(&kept.found(&wanted()).digests[1]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for short in ["", &text[..text.len() / 2], "{\"schema\": \"other/1\"}"] {
            fs::write(&path, short).unwrap();
            assert_eq!(completed(folder.path()), (first.clone(), vec![1]));
        }
    }

    /// A record of one plan is never taken for that of another, and one that another program
    /// made only if that is asked for, and is counted.
    #[test]
    fn what_determines_a_run_names_its_file() {
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
