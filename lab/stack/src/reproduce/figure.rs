//! What is claimed in a figure or a table of a paper.
//!
//! ```toml
//! title = "Throughput of filebench's workloads"
//! source = "Figure 6, 5.2"
//!
//! [[claim]]
//! id = "B5"                             # in the list of the paper's claims
//! what = "throughput, mean of the small workloads"
//! source = "5.2"                        # else that of the figure
//! quantity = "throughput"               # of the setup
//! form = "gain"                         # or saving, excess, alone
//! combine = "mean"                      # or max, min, share-below-one
//! stack = "bytefs"
//! versus = { ext4 = 2.5, f2fs = 1.48 }  # what the paper has beside each
//! workloads = ["create", "delete"]      # combined to one value
//! settings = ["80 µs"]                  # else the base
//! versus-setting = "60 µs"              # else the same
//! versus-workload = "mkdir"             # else the same
//! unit = 1e9                            # what the value is divided by, else 1
//! grows = true                          # in proportion to sizes: times the scale
//! reasons = { ext4 = "…" }              # why it is missed, and how that was found
//!
//! [[not-measured]]
//! id = "B16"
//! what = "…"
//! paper = 2.3
//! reason = "…"
//! ```
//!
//! What the paper has is a number, or `"1.2 to 1.5"`, `"above 1"` or `"below 1"`, each but
//! trends within the tolerance, or `"exactly 512"` or `"exactly 1 to 4"`, which have none. It
//! stands beside each host in `versus`, or beside each workload in `workloads = {…}`,
//! or alone in `paper = …`; then `versus` may be a list, whose values are combined. A
//! reason has the name of what its number stands beside, or `all`.

use super::setup::{BASE, Setup};
use crate::error::StackError;
use crate::toml_file::Source;
use report::claim::{Claim, Combine, Document, Expectation, Form, Measure};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// The name of the reason of a claim that has only one.
const ALONE: &str = "all";

/// What a figure says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    title: String,
    source: String,
    #[serde(default)]
    claim: Vec<Claimed>,
    #[serde(default)]
    not_measured: Vec<NotMeasured>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Claimed {
    id: Spanned<String>,
    what: String,
    source: Option<String>,
    quantity: Spanned<String>,
    #[serde(default)]
    form: Form,
    #[serde(default)]
    combine: Combine,
    stack: String,
    versus: Option<Spanned<Value>>,
    paper: Option<Spanned<Value>>,
    workloads: Spanned<Value>,
    #[serde(default)]
    settings: Vec<Spanned<String>>,
    versus_setting: Option<Spanned<String>>,
    versus_workload: Option<Spanned<String>>,
    unit: Option<Spanned<f64>>,
    #[serde(default)]
    grows: bool,
    #[serde(default)]
    reasons: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NotMeasured {
    id: String,
    what: String,
    source: Option<String>,
    paper: Option<Spanned<Value>>,
    reason: String,
}

/// Which run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) host: String,
    pub(super) workload: String,
    /// Empty for the base.
    pub(super) setting: String,
}

/// A claim, and what it takes to measure it.
#[derive(Debug)]
pub(super) struct Row {
    /// It, not measured.
    claim: Claim,
    measure: Option<Measure<Key>>,
    /// Whether it grows in proportion to sizes.
    grows: bool,
    /// Why it is missed.
    known: Option<String>,
    /// Why hosts that it is about cannot be run.
    missing: Vec<String>,
}

/// A figure that has been read.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) rows: Vec<Row>,
}

/// Reads the figure called `name`, whose claims are about what `setup` has.
pub(super) fn read(setup: &Setup, name: &str, source: &Source) -> Result<Figure, StackError> {
    let file: File = toml::from_str(&source.text).map_err(|e| source.syntax(&e))?;
    let reader = Reader {
        setup,
        source,
        figure: name,
        place: &file.source,
    };
    let mut rows = Vec::new();
    for claimed in &file.claim {
        rows.extend(reader.rows(claimed)?);
    }
    for not in &file.not_measured {
        rows.push(reader.not_measured(not)?);
    }
    Ok(Figure {
        title: file.title,
        source: file.source,
        rows,
    })
}

struct Reader<'a> {
    setup: &'a Setup,
    source: &'a Source,
    figure: &'a str,
    /// Where the figure is in the paper.
    place: &'a str,
}

/// Names with what is expected beside each; none where they are only listed.
type Named = Vec<(String, Option<Expectation>)>;

impl Reader<'_> {
    fn error(&self, at: &Spanned<impl Sized>, problem: impl Into<String>) -> StackError {
        self.source.error(at.span().start, problem)
    }

    fn expectation(&self, at: &Spanned<Value>, value: &Value) -> Result<Expectation, StackError> {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Expectation::parse(&text).map_err(|problem| self.error(at, problem))
    }

    /// A list of names, or a table of what is expected beside each.
    fn named(&self, value: &Spanned<Value>) -> Result<Named, StackError> {
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
                    Ok((name.clone(), Some(self.expectation(value, said)?)))
                };
                table
                    .iter()
                    .map(expected)
                    .collect::<Result<Named, StackError>>()?
            }
            _ => return Err(wrong()),
        };
        (!named.is_empty()).then_some(named).ok_or_else(wrong)
    }

    fn known(
        &self,
        at: &Spanned<impl Sized>,
        kind: &str,
        name: &str,
        known: &[&str],
    ) -> Result<(), StackError> {
        if known.contains(&name) {
            return Ok(());
        }
        let known = known.join(", ");
        let problem = format!("expected a {kind} of the setup ({known}), found {name:?}");
        Err(self.error(at, problem))
    }

    /// A row for each expectation.
    fn rows(&self, claimed: &Claimed) -> Result<Vec<Row>, StackError> {
        let workloads = self.named(&claimed.workloads)?;
        let known: Vec<&str> = self.setup.workloads().collect();
        for (name, _) in &workloads {
            self.known(&claimed.workloads, "workload", name, &known)?;
        }
        if let Some(name) = &claimed.versus_workload {
            self.known(name, "workload", name.as_ref(), &known)?;
        }
        let versus = claimed.versus.as_ref().map(|v| self.named(v)).transpose()?;
        let versus = versus.unwrap_or_default();
        let paper = claimed.paper.as_ref();
        let paper = paper.map(|said| self.expectation(said, said.as_ref()));
        let paper = paper.transpose()?;
        let all: Vec<String> = workloads.iter().map(|(name, _)| name.clone()).collect();
        let hosts: Vec<String> = versus.iter().map(|(name, _)| name.clone()).collect();
        let said = |named: &Named| named.first().is_some_and(|(_, said)| said.is_some());
        match (said(&versus), said(&workloads), paper) {
            (true, false, None) => {
                let each = versus
                    .iter()
                    .filter_map(|(host, said)| Some((host, (*said)?)));
                each.map(|(host, said)| {
                    self.row(claimed, (said, host), &all, std::slice::from_ref(host))
                })
                .collect()
            }
            (false, true, None) => {
                let each = workloads
                    .iter()
                    .filter_map(|(name, said)| Some((name, (*said)?)));
                let mut rows = Vec::new();
                for (name, said) in each {
                    let mut row =
                        self.row(claimed, (said, name), std::slice::from_ref(name), &hosts)?;
                    row.claim.what = format!("{}, {name}", row.claim.what);
                    rows.push(row);
                }
                Ok(rows)
            }
            (false, false, Some(said)) => {
                Ok(vec![self.row(claimed, (said, ALONE), &all, &hosts)?])
            }
            _ => {
                let problem = "expected what the paper has in one of versus, workloads and paper";
                Err(self.error(&claimed.id, problem))
            }
        }
    }

    fn row(
        &self,
        claimed: &Claimed,
        (expected, case): (Expectation, &str),
        workloads: &[String],
        hosts: &[String],
    ) -> Result<Row, StackError> {
        let quantities = self.setup.quantities();
        let names: Vec<&str> = quantities.keys().map(String::as_str).collect();
        let quantity = &claimed.quantity;
        self.known(quantity, "quantity", quantity.as_ref(), &names)?;
        if let Some(unit) = claimed.unit.as_ref().filter(|unit| *unit.as_ref() <= 0.0) {
            return Err(self.error(unit, "expected a unit above 0"));
        }
        let compared = !hosts.is_empty()
            || claimed.versus_setting.is_some()
            || claimed.versus_workload.is_some();
        if compared == (claimed.form == Form::Alone) {
            let problem = "expected form = \"alone\", or something to compare with";
            return Err(self.error(&claimed.id, problem));
        }
        let setting = claimed.settings.first();
        let setting = setting.map_or(BASE, |setting| setting.as_ref().as_str());
        let refusal = |host: &String| Some(self.setup.stack(host, setting).err()?.to_string());
        let named = std::iter::once(&claimed.stack).chain(hosts);
        let missing: Vec<String> = named.filter_map(refusal).collect();
        let others = hosts.iter().filter(|host| refusal(host).is_none());
        let others: Vec<&String> = others.collect();
        let none_left = others.is_empty() && !hosts.is_empty();
        let pairs = match none_left || refusal(&claimed.stack).is_some() {
            true => Vec::new(),
            false => self.pairs(claimed, workloads, &others)?,
        };
        let place = claimed.source.as_deref().unwrap_or(self.place);
        let measure = (!pairs.is_empty()).then(|| Measure {
            quantity: quantities[quantity.as_ref()].clone(),
            form: claimed.form,
            combine: claimed.combine,
            unit: claimed.unit.as_ref().map_or(1.0, |unit| *unit.as_ref()),
            pairs,
        });
        Ok(Row {
            claim: Claim {
                stack: claimed.stack.clone(),
                versus: self.versus(claimed, hosts),
                combined: measure.as_ref().map(Measure::combined).unwrap_or_default(),
                ..Claim::unmeasured(
                    claimed.id.as_ref(),
                    self.figure,
                    place,
                    claimed.what.clone(),
                    expected,
                )
            },
            measure,
            grows: claimed.grows,
            known: claimed.reasons.get(case).cloned(),
            missing,
        })
    }

    fn versus(&self, claimed: &Claimed, hosts: &[String]) -> String {
        match &claimed.versus_setting {
            Some(setting) if hosts.is_empty() => setting.as_ref().clone(),
            _ => hosts.join(", "),
        }
    }

    /// Each workload under each setting, on the stack and on each of `others`.
    fn pairs(
        &self,
        claimed: &Claimed,
        workloads: &[String],
        others: &[&String],
    ) -> Result<Vec<(Key, Option<Key>)>, StackError> {
        let known: Vec<&str> = self.setup.settings().collect();
        for setting in claimed.settings.iter().chain(&claimed.versus_setting) {
            self.known(setting, "setting", setting.as_ref(), &known)?;
        }
        let settings = claimed.settings.iter().map(|s| s.as_ref().as_str());
        let settings: Vec<&str> = match claimed.settings.is_empty() {
            true => vec![BASE],
            false => settings.collect(),
        };
        let key = |host: &str, workload: &str, setting: &str| Key {
            host: host.to_owned(),
            workload: workload.to_owned(),
            setting: setting.to_owned(),
        };
        let mut pairs = Vec::new();
        for workload in workloads {
            let beside = claimed.versus_workload.as_ref();
            let beside = beside.map_or(workload.as_str(), |other| other.as_ref());
            for setting in &settings {
                let run = key(&claimed.stack, workload, setting);
                let other = claimed.versus_setting.as_ref();
                let other = other.map_or(*setting, |other| other.as_ref());
                if claimed.form == Form::Alone {
                    pairs.push((run, None));
                } else if others.is_empty() {
                    pairs.push((run, Some(key(&claimed.stack, beside, other))));
                } else {
                    let other = |host: &&String| Some(key(host, beside, other));
                    pairs.extend(others.iter().map(|host| (run.clone(), other(host))));
                }
            }
        }
        Ok(pairs)
    }

    fn not_measured(&self, not: &NotMeasured) -> Result<Row, StackError> {
        let said = not.paper.as_ref();
        let said = said.map(|said| self.expectation(said, said.as_ref()));
        let expected = said.transpose()?.unwrap_or(Expectation::Other);
        let place = not.source.as_deref().unwrap_or(self.place);
        Ok(Row {
            claim: Claim::unmeasured(&not.id, self.figure, place, not.what.clone(), expected),
            measure: None,
            grows: false,
            known: None,
            missing: vec![not.reason.clone()],
        })
    }
}

impl Row {
    /// The number of its claim.
    #[cfg(test)]
    pub(super) fn id(&self) -> &str {
        &self.claim.id
    }

    /// The runs that it takes.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.measure.iter().flat_map(Measure::runs)
    }

    /// It, with what `documents` say, which hold each of its runs, with sizes divided by
    /// `factor`.
    pub(super) fn claim(
        &self,
        documents: &BTreeMap<&Key, Result<Document, String>>,
        factor: u64,
    ) -> Claim {
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
        let mut claim = claim.with(measured, self.known.as_deref());
        if !missing.is_empty() {
            let rest = claim.reason.iter().map(|reason| format!("; {reason}"));
            let rest: String = rest.collect();
            claim.reason = Some(format!("measured without some: {missing}{rest}"));
        }
        claim
    }
}
