//! Files of papers: what a figure or a table claims, read beside what measures it.
//!
//! ```toml
//! title = "Throughput of filebench's workloads"
//! source = "Figure 6, 5.2"
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
//! What the paper has is a number, or `"1.2 to 1.5"`, `"above 1"` or `"below 1"`, each but
//! trends within the tolerance, or `"exactly 512"` or `"exactly 1 to 4"`, which have none.
//!
//! Invariant: a file that says something else than it should is refused with its line.

use crate::claim::{self, Claim, Document, Expectation, Measure};
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[serde(bound = "C: DeserializeOwned")]
struct Said<C> {
    title: String,
    source: String,
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
    let reader = Reader {
        source,
        figure: name,
        place: &said.source,
    };
    let mut all = Vec::new();
    for claimed in &said.claim {
        all.extend(rows(&reader, claimed)?);
    }
    for not in said.not_measured {
        all.push(reader.not_measured(not)?);
    }
    Ok(Figure {
        title: said.title,
        source: said.source,
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
        Claim::unmeasured(id, self.figure, place, what, expected)
    }

    fn not_measured<K>(&self, not: NotMeasured) -> Result<Row<K>, DocumentError> {
        let said = not.paper.as_ref().map(|said| self.expectation(said));
        let expected = said.transpose()?.unwrap_or(Expectation::Other);
        Ok(Row {
            claim: self.claim(&not.id, not.source.as_deref(), not.what, expected),
            measure: None,
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
        let claim = self.claim.clone();
        let missing = self.missing.join("; ");
        let unmeasured = |reason: String| Claim {
            reason: Some(reason),
            ..self.claim.clone()
        };
        let Some(measure) = &self.measure else {
            return unmeasured(missing);
        };
        let times = if self.grows { factor as f64 } else { 1.0 };
        let measured = match measure.of(documents, times) {
            Ok(measured) => measured,
            Err(problem) => return unmeasured(problem),
        };
        let known = self.known.as_deref();
        let mut claim = match measure.compares() && !self.grows {
            true => claim.compared(measured, known),
            false => claim.with(measured, known),
        };
        if !missing.is_empty() {
            let rest = claim.reason.iter().map(|reason| format!("; {reason}"));
            let rest: String = rest.collect();
            claim.reason = Some(format!("measured without some: {missing}{rest}"));
        }
        claim
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
}

impl<K: Ord + Clone> Wanted<K> {
    /// All of `files`, or that of `figure`, each as `read` reads it.
    ///
    /// # Errors
    /// If `paper` has no such figure, or a file says something else than it should.
    pub fn read<E: From<DocumentError> + From<NoFigure>>(
        paper: &str,
        files: &[File],
        figure: Option<&str>,
        read: impl Fn(&File) -> Result<Figure<K>, DocumentError>,
    ) -> Result<Self, E> {
        let wanted = |file: &&File| figure.is_none_or(|figure| figure == file.name);
        let wanted: Vec<&File> = files.iter().filter(wanted).collect();
        if wanted.is_empty() {
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            return Err(NoFigure {
                paper: paper.to_owned(),
                known: names.join(", "),
                found: figure.unwrap_or_default().to_owned(),
            }
            .into());
        }
        let mut rows = Vec::new();
        for file in &wanted {
            rows.extend(read(file)?.rows);
        }
        let keys: BTreeSet<&K> = rows.iter().flat_map(Row::keys).collect();
        Ok(Self {
            names: wanted.iter().map(|file| file.name.to_owned()).collect(),
            keys: keys.into_iter().cloned().collect(),
            rows,
        })
    }

    /// The claims, with what `runs`, in the order of the keys and with sizes divided by
    /// `factor`, measured beside them.
    pub fn claims<R: Serialize>(&self, runs: &[Result<R, String>], factor: u64) -> Vec<Claim> {
        let documents = claim::documents(&self.keys, runs);
        let rows = self.rows.iter();
        rows.map(|row| row.claim(&documents, factor)).collect()
    }
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
