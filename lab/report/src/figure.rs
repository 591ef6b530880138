//! Files of papers: what a figure or a table claims, read beside what measures it.
//!
//! ```toml
//! title = "Throughput of filebench's workloads"
//! source = "Figure 6, 5.2"
//! primary = "text"             # the set-up that headline counts are of
//! regimes = ["mpki"]           # lines of `regime.toml` that open the figure, else none
//!
//! [[claim]]
//! id = "B5"                    # in the list of the paper's claims; the rest is told
//!                              # by who runs it
//! [[not-measured]]
//! id = "B16"
//! what = "…"
//! source = "5.2"               # else that of the figure
//! paper = 2.3                  # else nothing
//! reason = "…"
//! ```
//!
//! A file that is not a figure of the paper, but takes up the claims of one in other set-ups, has
//! `beside = "fig14"` in place of `primary`. What the paper has, and how a measured value is
//! judged by it, is in `claim/expectation.rs`. `regime.toml` has the form of a figure: each of its
//! claims is a line of the regime.
//!
//! Invariants: a file that says something else than it should is refused with its line; a figure
//! has one primary set-up, which at least one of its claims is of, or none.

use crate::claim::{self, About, Claim, Document, Expectation, Measure};
use crate::regime::Line;
use input::document::{DocumentError, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Spanned, Value};

/// A file that comes with the program.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// As it is asked for.
    pub name: &'static str,
    /// Where it is in the repository.
    pub path: &'static str,
    /// What it says.
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
    /// It, to be read.
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
    /// As it is asked for: `bytefs/fig6`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it is in the paper.
    pub source: String,
    /// How many claims it has.
    pub claims: usize,
}

/// A claim, and what it takes to measure it with runs that are called by `K`.
#[derive(Debug)]
pub struct Row<K> {
    /// It, not measured.
    pub claim: Claim,
    /// How it is measured, if it can be.
    pub measure: Option<Measure<K>>,
    /// The workloads that it is measured under.
    pub workloads: Vec<String>,
    /// Whether it grows in proportion to sizes.
    pub grows: bool,
    /// Why it is missed.
    pub known: Option<String>,
    /// Why it, or a part of it, cannot be measured.
    pub missing: Vec<String>,
}

/// A figure that has been read.
pub struct Figure<K> {
    /// What it shows.
    pub title: String,
    /// Where it is in the paper.
    pub source: String,
    /// Its claims.
    pub rows: Vec<Row<K>>,
    /// The set-up that headline counts are of; none of a figure beside another one.
    pub primary: Option<String>,
    /// Names of the lines that open it.
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

/// The figure called `name`, of whose claims `rows` makes rows.
///
/// # Errors
/// If the file says something else than it should.
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

/// Names with what is expected beside each; none where they are only listed.
pub type Named = Vec<(String, Option<Expectation>)>;

/// What reads the claims of one figure.
pub struct Reader<'a> {
    source: &'a Source,
    figure: &'a str,
    /// Where the figure is in the paper.
    place: &'a str,
    /// The set-up of claims that name none.
    set_up: &'a str,
}

impl Reader<'_> {
    /// The error that `problem` with what stands at `at` is.
    pub fn error(&self, at: &Spanned<impl Sized>, problem: impl Into<String>) -> DocumentError {
        self.source.error(at.span().start, problem)
    }

    /// What the paper has.
    ///
    /// # Errors
    /// Says what was expected.
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

    /// A list of names, or a table of what is expected beside each.
    ///
    /// # Errors
    /// If it is neither, or there is nothing in it.
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

    /// Refuses a `name` that is not `known` as one of this kind.
    ///
    /// # Errors
    /// Then.
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

    /// Claim `id` of this figure; `source` is where the paper says it, if not where the
    /// figure is.
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

    /// Refuses what is `expected` of a `measure` whose value is a ratio if it could be of any
    /// size. What this project says of itself has no bound in a paper.
    ///
    /// # Errors
    /// Then, at the claim's `id`.
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
    /// The runs that it takes.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.measure.iter().flat_map(Measure::runs)
    }

    /// It, with what `documents` say, which hold each of its runs, with sizes divided by
    /// `factor`.
    #[must_use]
    pub fn claim(&self, documents: &BTreeMap<&K, Result<Document, String>>, factor: u64) -> Claim {
        self.judged(self.value(documents, factor), &[])
    }

    /// Its value in `documents`.
    fn value(
        &self,
        documents: &BTreeMap<&K, Result<Document, String>>,
        factor: u64,
    ) -> Result<f64, String> {
        let times = if self.grows { factor as f64 } else { 1.0 };
        let measure = self.measure.as_ref();
        measure.map_or_else(|| Err(self.missing.join("; ")), |m| m.of(documents, times))
    }

    /// It, with a `value` or why there is none, in the regime of `lines`.
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

/// A line of the regime that has been read, and the figures that it opens.
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

/// Figures that were asked for, and the runs that they need, each once.
pub struct Wanted<K> {
    /// Their names.
    pub names: Vec<String>,
    /// Their claims.
    pub rows: Vec<Row<K>>,
    /// The runs, in order.
    pub keys: Vec<K>,
    openings: Vec<Opening<K>>,
}

/// The files of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// As it is asked for.
    pub paper: &'static str,
    /// Its figures.
    pub figures: &'static [File],
    /// Lines of the regime.
    pub regime: Option<&'static File>,
}

impl<K: Ord + Clone> Wanted<K> {
    /// All figures in `files`, or that called `figure`, each as `read` reads it.
    ///
    /// # Errors
    /// If there is no such figure, or a file says something else than it should.
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

    /// Lines of the regime and claims, with what `runs`, in the order of the keys and with sizes
    /// divided by `factor`, measured beside them.
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

    /// The same, with the values that an `earlier` report has in place of those of runs.
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
            let old = earlier.claims.iter().find(|old| is_that(&row.claim, old));
            let old = old.ok_or_else(|| "the earlier report has no such claim".to_owned())?;
            let why = || old.reason.clone().unwrap_or_default();
            old.measured.ok_or_else(why)
        };
        let rows = self.rows.iter();
        let claims = rows.map(|row| row.judged(value(row), &lines)).collect();
        Judged { claims, lines }
    }
}

/// What became of all claims of a paper.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Lines of the regime.
    pub lines: Vec<Line>,
    /// The claims, figure by figure.
    pub claims: Vec<Claim>,
}

/// Whether `old` is the claim of an earlier report that `claim` is.
fn is_that(claim: &Claim, old: &Claim) -> bool {
    let name = |c: &Claim| [&c.figure, &c.id, &c.what, &c.stack, &c.versus].map(Clone::clone);
    name(claim) == name(old)
}

/// Opens `file` with the lines called `names`.
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

/// A figure that a paper does not have.
#[derive(Debug, thiserror::Error)]
#[error("{paper}: expected one of its figures {known}, found {found:?}")]
pub struct NoFigure {
    paper: String,
    known: String,
    found: String,
}

/// The figures in `files` of `paper`, each as `read` reads it.
///
/// # Errors
/// If a file says something else than it should.
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
