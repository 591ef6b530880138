//! Files of papers: the claims of a figure or a table, read beside the runs that measure them.
//!
//! ```toml
//! title = "Throughput of filebench's workloads"
//! source = "Figure 6, 5.2"
//! primary = "text"             # the set-up that headline counts are of
//! regimes = ["mpki"]           # lines of `regime.toml` that open the figure, else none
//!
//! [[claim]]
//! id = "B5"                    # in the list of the paper's claims; the rest is read
//!                              # by the crate that runs it
//! [[not-measured]]
//! id = "B16"
//! what = "…"
//! source = "5.2"               # else that of the figure
//! paper = 2.3                  # else nothing
//! reason = "…"
//! ```
//!
//! A file that is not a figure of the paper, but takes up the claims of one in secondary set-ups, has
//! `beside = "fig14"` in place of `primary`. `claim/expectation.rs` defines the paper's values and
//! how a measured value is judged by them. `regime.toml` has the form of a figure: each of its
//! claims is a line of the regime.
//!
//! Invariants: a malformed file is rejected with the line of the fault; a figure has one primary
//! set-up, which at least one of its claims uses, or none.

use crate::claim::{self, About, Claim, Document, Expectation, Measure};
use crate::regime::Line;
use input::document::{DocumentError, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Spanned, Value};

/// A file of a paper that is compiled into the program.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// Name that a user gives to select it, such as `fig6`.
    pub name: &'static str,
    /// Path in the repository, for error messages.
    pub path: &'static str,
    /// Contents of the file.
    pub text: &'static str,
}

/// The [`File`] called `NAME.toml` beside a system, for a crate two folders below the root.
#[macro_export]
macro_rules! paper_file {
    ($system:literal, $name:literal) => {
        $crate::figure::File {
            name: $name,
            path: concat!("systems/", $system, "/reproduce/", $name, ".toml"),
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../systems/",
                $system,
                "/reproduce/",
                $name,
                ".toml"
            )),
        }
    };
}

impl File {
    /// The file as a source for the parser, with its path for errors.
    #[must_use]
    pub fn source(&self) -> Source {
        Source {
            file: self.path.to_owned(),
            text: self.text.to_owned(),
        }
    }
}

/// A figure that can be reproduced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Name that selects it: `bytefs/fig6`.
    pub name: String,
    /// Title: the quantity that the figure shows.
    pub title: String,
    /// Figure and section in the paper.
    pub source: String,
    /// Number of claims in its file.
    pub claims: usize,
}

/// A claim, and the measure of it over runs with keys of type `K`.
#[derive(Debug)]
pub struct Row<K> {
    /// The claim without a measured value.
    pub claim: Claim,
    /// The way to measure it; `None` if it cannot be measured.
    pub measure: Option<Measure<K>>,
    /// The workloads of the runs that measure it.
    pub workloads: Vec<String>,
    /// Whether the value grows in proportion to sizes: then it is multiplied by the scale's factor.
    pub grows: bool,
    /// The known reason for a miss, if it has been found.
    pub known: Option<String>,
    /// Reasons why the claim, or a part of it, cannot be measured.
    pub missing: Vec<String>,
}

/// A figure read from its file.
pub struct Figure<K> {
    /// Title: the quantity that the figure shows.
    pub title: String,
    /// Figure and section in the paper.
    pub source: String,
    /// Its claims, in the order of the file.
    pub rows: Vec<Row<K>>,
    /// The set-up of headline counts; `None` for a figure beside another one.
    pub primary: Option<String>,
    /// Names of the lines of the regime that open the figure.
    pub regimes: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[serde(bound = "C: DeserializeOwned")]
struct Said<C> {
    title: String,
    source: String,
    primary: Option<Spanned<String>>,
    beside: Option<Spanned<String>>,
    #[serde(default)]
    regimes: Vec<Spanned<String>>,
    #[serde(default = "Vec::new")]
    claim: Vec<C>,
    #[serde(default)]
    not_measured: Vec<NotMeasured>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotMeasured {
    id: String,
    what: String,
    source: Option<String>,
    paper: Option<Spanned<Value>>,
    reason: String,
}

/// Reads the figure called `name`; `rows` turns each of its claims into rows.
///
/// # Errors
/// If the file is malformed, with the line of the fault.
pub fn read<C: DeserializeOwned, K>(
    name: &str,
    source: &Source,
    rows: impl Fn(&Reader<'_>, &C) -> Result<Vec<Row<K>>, DocumentError>,
) -> Result<Figure<K>, DocumentError> {
    let said: Said<C> = source.parse()?;
    let ((Some(set_up), None) | (None, Some(set_up))) = (&said.primary, &said.beside) else {
        return Err(source.error(0, "expected either primary or beside"));
    };
    let reader = Reader {
        source,
        figure: name,
        place: &said.source,
        set_up: set_up.as_ref(),
    };
    let mut all = Vec::new();
    for claimed in &said.claim {
        all.extend(rows(&reader, claimed)?);
    }
    for not in said.not_measured {
        all.push(reader.not_measured(not)?);
    }
    let primary = said.primary.as_ref().map(AsRef::as_ref);
    for row in &mut all {
        row.claim.primary = primary.is_some_and(|set_up| *set_up == row.claim.set_up);
    }
    if primary.is_some() && !all.iter().any(|row| row.claim.primary) {
        return Err(reader.error(set_up, "expected a set-up that a claim is measured in"));
    }
    Ok(Figure {
        title: said.title,
        source: said.source,
        primary: primary.cloned(),
        regimes: said.regimes,
        rows: all,
    })
}

/// Names with the expected value beside each; `None` where they are only listed.
pub type Named = Vec<(String, Option<Expectation>)>;

/// Reads the claims of one figure.
pub struct Reader<'a> {
    source: &'a Source,
    figure: &'a str,
    /// Figure and section in the paper, for claims that name no source.
    place: &'a str,
    /// The set-up for claims that name none.
    set_up: &'a str,
}

impl Reader<'_> {
    /// An error `problem` at the position of `at` in the file.
    pub fn error(&self, at: &Spanned<impl Sized>, problem: impl Into<String>) -> DocumentError {
        self.source.error(at.span().start, problem)
    }

    /// Parses the paper's value at `at`.
    ///
    /// # Errors
    /// If the value is no expectation; the text says what was expected.
    pub fn expectation(&self, at: &Spanned<Value>) -> Result<Expectation, DocumentError> {
        self.expected(at, at.as_ref())
    }

    fn expected(&self, at: &Spanned<Value>, said: &Value) -> Result<Expectation, DocumentError> {
        let text = match said {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Expectation::parse(&text).map_err(|problem| self.error(at, problem))
    }

    /// Parses a list of names, or a table of names with the expected value of each.
    ///
    /// # Errors
    /// If it is neither, or empty.
    pub fn named(&self, value: &Spanned<Value>) -> Result<Named, DocumentError> {
        let wrong = || {
            self.error(
                value,
                "expected a list of names, or a table of what is expected",
            )
        };
        let named: Named = match value.as_ref() {
            Value::Array(names) => {
                let name = |name: &Value| Some((name.as_str()?.to_owned(), None));
                let names: Option<Named> = names.iter().map(name).collect();
                names.ok_or_else(wrong)?
            }
            Value::Table(table) => {
                let expected = |(name, said): (&String, &Value)| {
                    Ok((name.clone(), Some(self.expected(value, said)?)))
                };
                let all = table.iter().map(expected);
                all.collect::<Result<Named, DocumentError>>()?
            }
            _ => return Err(wrong()),
        };
        (!named.is_empty()).then_some(named).ok_or_else(wrong)
    }

    /// Rejects a `name` that is not in `known`; `kind` names the kind of thing for the error.
    ///
    /// # Errors
    /// If `name` is unknown, at `at`.
    pub fn known<'k>(
        &self,
        at: &Spanned<impl Sized>,
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Result<(), DocumentError> {
        let known: Vec<&str> = known.into_iter().collect();
        if known.contains(&name) {
            return Ok(());
        }
        let known = known.join(", ");
        let problem = format!("expected a {kind} of the setup ({known}), found {name:?}");
        Err(self.error(at, problem))
    }

    /// The unmeasured claim `id` of this figure; `source` is the place in the paper, if it differs
    /// from that of the figure.
    #[must_use]
    pub fn claim(
        &self,
        id: &str,
        source: Option<&str>,
        what: String,
        expected: Expectation,
    ) -> Claim {
        let place = source.unwrap_or(self.place);
        Claim {
            set_up: self.set_up.to_owned(),
            ..Claim::unmeasured(id, self.figure, place, what, expected)
        }
    }

    /// Rejects an `expected` value that a ratio of any size would meet, if `measure` is a ratio.
    /// Claims of this project about itself are exempt: no paper bounds them.
    ///
    /// # Errors
    /// If the expectation lacks a bound, at the claim's `id`.
    pub fn judgeable<K: Ord>(
        &self,
        id: &Spanned<String>,
        measure: &Measure<K>,
        (expected, about): (Expectation, About),
    ) -> Result<(), DocumentError> {
        match expected.lacks_as_ratio() {
            Some(lack) if measure.is_ratio() && about != About::Own => Err(self.error(id, lack)),
            _ => Ok(()),
        }
    }

    fn not_measured<K>(&self, not: NotMeasured) -> Result<Row<K>, DocumentError> {
        let said = not.paper.as_ref().map(|said| self.expectation(said));
        let expected = said.transpose()?.unwrap_or(Expectation::Other);
        Ok(Row {
            claim: self.claim(&not.id, not.source.as_deref(), not.what, expected),
            measure: None,
            workloads: Vec::new(),
            grows: false,
            known: None,
            missing: vec![not.reason],
        })
    }
}

impl<K: Ord> Row<K> {
    /// Keys of the runs that the measure needs.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.measure.iter().flat_map(Measure::runs)
    }

    /// The claim with its value in `documents`, which must hold each of its runs; sizes were
    /// divided by `factor`.
    #[must_use]
    pub fn claim(&self, documents: &BTreeMap<&K, Result<Document, String>>, factor: u64) -> Claim {
        self.judged(self.value(documents, factor), &[])
    }

    /// The measured value in `documents`, or the reason why there is none.
    fn value(
        &self,
        documents: &BTreeMap<&K, Result<Document, String>>,
        factor: u64,
    ) -> Result<f64, String> {
        let times = if self.grows { factor as f64 } else { 1.0 };
        let measure = self.measure.as_ref();
        measure.map_or_else(|| Err(self.missing.join("; ")), |m| m.of(documents, times))
    }

    /// The claim with `value`, or with the reason for its absence, in the regime of `lines`.
    fn judged(&self, value: Result<f64, String>, lines: &[Line]) -> Claim {
        let claim = self.claim.clone();
        let measured = match (value, &self.measure) {
            (Ok(measured), Some(_)) => measured,
            (value, measure) => {
                let reason = match measure {
                    Some(_) => value.err(),
                    None => Some(self.missing.join("; ")),
                };
                return Claim { reason, ..claim };
            }
        };
        let as_ratio = self.measure.as_ref().is_some_and(Measure::is_ratio) && !self.grows;
        let differs =
            |line: &&Line| line.differs_for(&claim.figure, &claim.set_up, &self.workloads);
        let differing: Vec<&Line> = lines.iter().filter(differs).collect();
        let mut claim = claim.judged(measured, as_ratio, &differing, self.known.as_deref());
        if !self.missing.is_empty() {
            let missing = self.missing.join("; ");
            let rest = claim.reason.iter().map(|reason| format!("; {reason}"));
            let rest: String = rest.collect();
            claim.reason = Some(format!("measured without some: {missing}{rest}"));
        }
        claim
    }
}

/// A line of the regime, and names of the figures that it opens.
struct Opening<K> {
    row: Row<K>,
    figures: Vec<String>,
}

impl<K> Opening<K> {
    fn line(&self, measured: Option<f64>) -> Line {
        Line {
            figures: self.figures.clone(),
            ..Line::of(&self.row.claim, measured, self.row.workloads.clone())
        }
    }
}

/// The requested figures, and the runs that they need, each once.
pub struct Wanted<K> {
    /// Names of the requested figures.
    pub names: Vec<String>,
    /// Claims of all requested figures.
    pub rows: Vec<Row<K>>,
    /// Keys of the runs, in order and without duplicates.
    pub keys: Vec<K>,
    openings: Vec<Opening<K>>,
}

/// The files of one paper.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Short name of the paper, which selects it.
    pub paper: &'static str,
    /// One file for each figure.
    pub figures: &'static [File],
    /// The file with the lines of the regime, if the paper has one.
    pub regime: Option<&'static File>,
}

impl<K: Ord + Clone> Wanted<K> {
    /// Reads all figures in `files`, or only that called `figure`, with `read`.
    ///
    /// # Errors
    /// If there is no such figure, or a file is malformed.
    pub fn read<E: From<DocumentError> + From<NoFigure>>(
        files: Files,
        figure: Option<&str>,
        read: impl Fn(&File) -> Result<Figure<K>, DocumentError>,
    ) -> Result<Self, E> {
        let wanted = |file: &&File| figure.is_none_or(|figure| figure == file.name);
        let wanted: Vec<&File> = files.figures.iter().filter(wanted).collect();
        if wanted.is_empty() {
            let names: Vec<&str> = files.figures.iter().map(|file| file.name).collect();
            return Err(NoFigure {
                paper: files.paper.to_owned(),
                known: names.join(", "),
                found: figure.unwrap_or_default().to_owned(),
            }
            .into());
        }
        let mut openings = Vec::new();
        if let Some(file) = files.regime {
            let rows = read(file)?.rows.into_iter();
            openings.extend(rows.map(|row| Opening {
                row,
                figures: Vec::new(),
            }));
        }
        let mut rows = Vec::new();
        for file in &wanted {
            let figure = read(file)?;
            open(&mut openings, file, &figure.regimes)?;
            rows.extend(figure.rows);
        }
        openings.retain(|opening| !opening.figures.is_empty());
        let lines = openings.iter().map(|opening| &opening.row);
        let keys: BTreeSet<&K> = rows.iter().chain(lines).flat_map(Row::keys).collect();
        Ok(Self {
            names: wanted.iter().map(|file| file.name.to_owned()).collect(),
            keys: keys.into_iter().cloned().collect(),
            rows,
            openings,
        })
    }

    /// Judges all claims and lines of the regime by `runs`, which are in the order of the keys and
    /// have sizes divided by `factor`.
    pub fn measured<R: Serialize>(&self, runs: &[Result<R, String>], factor: u64) -> Judged {
        let documents = claim::documents(&self.keys, runs);
        let line = |opening: &Opening<K>| opening.line(opening.row.value(&documents, factor).ok());
        let lines: Vec<Line> = self.openings.iter().map(line).collect();
        let rows = self.rows.iter();
        let claims = rows.map(|row| row.judged(row.value(&documents, factor), &lines));
        Judged {
            claims: claims.collect(),
            lines,
        }
    }

    /// Judges all claims and lines again, by the values in an `earlier` report instead of runs.
    #[must_use]
    pub fn judged_again(&self, earlier: &Judged) -> Judged {
        let same = |line: &Line, old: &&Line| {
            (&old.what, &old.stack, &old.set_up) == (&line.what, &line.stack, &line.set_up)
        };
        let line = |opening: &Opening<K>| {
            let line = opening.line(None);
            let old = earlier.lines.iter().find(|old| same(&line, old));
            opening.line(old.and_then(|old| old.measured))
        };
        let lines: Vec<Line> = self.openings.iter().map(line).collect();
        let value = |row: &Row<K>| {
            let old = earlier
                .claims
                .iter()
                .find(|old| is_same_claim(&row.claim, old));
            let old = old.ok_or_else(|| "the earlier report has no such claim".to_owned())?;
            let why = || old.reason.clone().unwrap_or_default();
            old.measured.ok_or_else(why)
        };
        let rows = self.rows.iter();
        let claims = rows.map(|row| row.judged(value(row), &lines)).collect();
        Judged { claims, lines }
    }
}

/// All judged claims of a paper, and its regime.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Lines of the regime with their measured values.
    pub lines: Vec<Line>,
    /// The claims, in the order of the figures.
    pub claims: Vec<Claim>,
}

/// Whether `old`, from an earlier report, is the same claim as `claim`.
fn is_same_claim(claim: &Claim, old: &Claim) -> bool {
    let name = |c: &Claim| [&c.figure, &c.id, &c.what, &c.stack, &c.versus].map(Clone::clone);
    name(claim) == name(old)
}

/// Marks the lines called `names` as opening the figure `file`.
fn open<K>(
    openings: &mut [Opening<K>],
    file: &File,
    names: &[Spanned<String>],
) -> Result<(), DocumentError> {
    for name in names {
        let mut found = false;
        for opening in openings.iter_mut() {
            if opening.row.claim.id == *name.as_ref() {
                opening.figures.push(file.name.to_owned());
                found = true;
            }
        }
        if !found {
            let problem = format!("expected a line of regime.toml, found {:?}", name.as_ref());
            return Err(file.source().error(name.span().start, problem));
        }
    }
    Ok(())
}

/// Error: the paper has no figure of that name.
#[derive(Debug, thiserror::Error)]
#[error("{paper}: expected one of its figures {known}, found {found:?}")]
pub struct NoFigure {
    paper: String,
    known: String,
    found: String,
}

/// Lists the figures in `files` of `paper`, each read with `read`.
///
/// # Errors
/// If a file is malformed.
pub fn list<K>(
    paper: &str,
    files: &[File],
    read: impl Fn(&File) -> Result<Figure<K>, DocumentError>,
) -> Result<Vec<Listed>, DocumentError> {
    let listed = |file: &File| {
        let figure = read(file)?;
        Ok(Listed {
            name: format!("{paper}/{}", file.name),
            title: figure.title,
            source: figure.source,
            claims: figure.rows.len(),
        })
    };
    files.iter().map(listed).collect()
}
