//! What is claimed in a figure or a table of the paper.
//!
//! ```toml
//! title = "Execution time"
//! source = "Figure 14, VI-B"
//!
//! [[claim]]
//! id = "S6"                            # in the list of the paper's claims
//! what = "speed-up, geometric mean"
//! source = "VI-B"                      # else that of the figure
//! quantity = "time"                    # of the setup
//! form = "saving"                      # or gain, excess, alone
//! combine = "geometric"                # or mean, max, min
//! design = "skybyte-p"
//! versus = "base-cssd"
//! paper = 1.84                         # or beside each workload: { bc = 6.55 }
//! workloads = ["bc", "tpcc"]           # else all of the setup
//! settings = ["four cores"]            # else none
//! versus-setting = "other"             # else the same
//! profiles = ["artifact"]              # else those of the setup
//! unit = 1000                          # what the value is divided by, else 1
//! reason = "…"                         # why it is missed, where that was found out
//!
//! [[not-measured]]
//! id = "S29"
//! what = "…"
//! reason = "…"
//! ```

use super::plan::{Key, Plan};
use super::source::{PlanError, Source};
use report::claim::{Claim, Combine, Document, Expectation, Form, Measure};
use serde::Deserialize;
use skybyte::{Design, Profile};
use std::collections::BTreeMap;
use toml::{Spanned, Value};

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
    design: Spanned<String>,
    versus: Option<Spanned<String>>,
    paper: Option<Spanned<Value>>,
    workloads: Option<Spanned<Value>>,
    settings: Option<Vec<Spanned<String>>>,
    versus_setting: Option<Spanned<String>>,
    profiles: Option<Vec<Profile>>,
    unit: Option<f64>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotMeasured {
    id: String,
    what: String,
    reason: String,
}

/// A claim, and what it takes to measure it.
#[derive(Debug)]
pub(super) struct Row {
    claim: Claim,
    measure: Option<Measure<Key>>,
    known: Option<String>,
}

/// A figure that has been read.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) rows: Vec<Row>,
}

/// Reads a figure whose claims are about what `plan` has.
pub(super) fn read(plan: &Plan, source: &Source) -> Result<Figure, PlanError> {
    let file: File = toml::from_str(source.text).map_err(|e| source.syntax(&e))?;
    let reader = Reader {
        plan,
        source,
        place: &file.source,
    };
    let mut rows = Vec::new();
    for claimed in &file.claim {
        rows.extend(reader.rows(claimed)?);
    }
    rows.extend(file.not_measured.iter().map(|not| Row {
        claim: Claim::unmeasured(
            &not.id,
            source.name,
            &file.source,
            not.what.clone(),
            Expectation::Other,
        ),
        measure: None,
        known: Some(not.reason.clone()),
    }));
    Ok(Figure {
        title: file.title,
        source: file.source,
        rows,
    })
}

struct Reader<'a> {
    plan: &'a Plan,
    source: &'a Source,
    place: &'a str,
}

impl Reader<'_> {
    fn known<'n>(
        &self,
        at: &Spanned<String>,
        kind: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> Result<(), PlanError> {
        let known: Vec<&str> = known.collect();
        if known.contains(&at.as_ref().as_str()) {
            return Ok(());
        }
        let (known, found) = (known.join(", "), at.as_ref());
        let problem = format!("expected one of the {kind} {known}, found {found:?}");
        Err(self.source.error(at.span(), problem))
    }

    fn expectation(&self, at: &Spanned<Value>, value: &Value) -> Result<Expectation, PlanError> {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Expectation::parse(&text).map_err(|problem| self.source.error(at.span(), problem))
    }

    /// Workloads, each with what is expected beside it, or with nothing.
    fn workloads(
        &self,
        claimed: &Claimed,
    ) -> Result<Vec<(String, Option<Expectation>)>, PlanError> {
        let Some(said) = &claimed.workloads else {
            let all = self.plan.workloads.keys();
            return Ok(all.map(|name| (name.clone(), None)).collect());
        };
        let mut found = Vec::new();
        match said.as_ref() {
            Value::Array(names) => {
                found.extend(
                    names
                        .iter()
                        .filter_map(Value::as_str)
                        .map(|n| (n.to_owned(), None)),
                );
            }
            Value::Table(table) => {
                for (name, value) in table {
                    found.push((name.clone(), Some(self.expectation(said, value)?)));
                }
            }
            _ => {}
        }
        let known = |name: &String| self.plan.workloads.contains_key(name);
        if found.is_empty() || !found.iter().all(|(name, _)| known(name)) {
            let known: Vec<&str> = self.plan.workloads.keys().map(String::as_str).collect();
            let problem = format!("expected some of the workloads {}", known.join(", "));
            return Err(self.source.error(said.span(), problem));
        }
        Ok(found)
    }

    /// A row for each expectation and profile.
    fn rows(&self, claimed: &Claimed) -> Result<Vec<Row>, PlanError> {
        let designs = || skybyte::DESIGNS.iter().map(|design: &Design| design.name);
        self.known(&claimed.design, "designs", designs())?;
        if let Some(versus) = &claimed.versus {
            self.known(versus, "designs", designs())?;
        }
        let quantities = self.plan.quantities.keys().map(String::as_str);
        self.known(&claimed.quantity, "quantities", quantities)?;
        let settings = claimed.settings.iter().flatten();
        for setting in settings.chain(&claimed.versus_setting) {
            let known = self.plan.settings.keys().map(String::as_str);
            self.known(setting, "settings", known.chain([""]))?;
        }
        let compared = claimed.versus.is_some() || claimed.versus_setting.is_some();
        if compared == (claimed.form == Form::Alone) {
            let problem = "expected form = \"alone\", or something to compare with";
            return Err(self.source.error(claimed.id.span(), problem));
        }
        let workloads = self.workloads(claimed)?;
        let profiles = claimed.profiles.as_ref().unwrap_or(&self.plan.profiles);
        let mut rows = Vec::new();
        for &profile in profiles {
            if let Some(paper) = &claimed.paper {
                let expected = self.expectation(paper, paper.as_ref())?;
                let names: Vec<&str> = workloads.iter().map(|(name, _)| name.as_str()).collect();
                rows.push(self.row(claimed, profile, expected, &names, ""));
                continue;
            }
            for (name, expected) in &workloads {
                let Some(expected) = *expected else {
                    let problem = "expected what the paper has, in paper or beside each workload";
                    return Err(self.source.error(claimed.id.span(), problem));
                };
                rows.push(self.row(claimed, profile, expected, &[name], name));
            }
        }
        Ok(rows)
    }

    fn row(
        &self,
        claimed: &Claimed,
        profile: Profile,
        expected: Expectation,
        workloads: &[&str],
        suffix: &str,
    ) -> Row {
        let pairs = pairs(claimed, profile, workloads);
        let place = claimed.source.as_deref().unwrap_or(self.place);
        let comma = if suffix.is_empty() { "" } else { ", " };
        let what = format!("{}{comma}{suffix} [{}]", claimed.what, profile.name());
        let (id, figure) = (claimed.id.as_ref(), self.source.name);
        let mut claim = Claim::unmeasured(id, figure, place, what, expected);
        claim.stack.clone_from(claimed.design.as_ref());
        if let Some(versus) = &claimed.versus {
            claim.versus.clone_from(versus.as_ref());
        }
        let measure = Measure {
            quantity: self.plan.quantities[claimed.quantity.as_ref()].clone(),
            form: claimed.form,
            combine: claimed.combine,
            unit: claimed.unit.unwrap_or(1.0),
            pairs,
        };
        claim.combined = measure.combined();
        Row {
            claim,
            measure: Some(measure),
            known: claimed.reason.clone(),
        }
    }
}

/// The runs of a claim in this profile, each with what it is set beside.
fn pairs(claimed: &Claimed, profile: Profile, workloads: &[&str]) -> Vec<(Key, Option<Key>)> {
    let key = |design: &str, workload: &str, setting: &str| Key {
        design: design.to_owned(),
        workload: workload.to_owned(),
        setting: setting.to_owned(),
        profile: profile.name(),
    };
    let settings: Vec<&str> = match &claimed.settings {
        None => vec![""],
        Some(settings) => settings.iter().map(|s| s.as_ref().as_str()).collect(),
    };
    let design = claimed.design.as_ref();
    let versus = claimed.versus.as_ref();
    let versus = versus.map_or(design, |versus| versus.as_ref());
    let pair = |workload: &str, setting: &str| {
        let other = claimed.versus_setting.as_ref();
        let other = other.map_or(setting, |other| other.as_ref());
        let beside = (claimed.form != Form::Alone).then(|| key(versus, workload, other));
        (key(design, workload, setting), beside)
    };
    let all = workloads.iter().flat_map(|workload| {
        let settings = settings.iter();
        settings.map(|setting| pair(workload, setting))
    });
    all.collect()
}

impl Row {
    /// The runs that it takes.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.measure.iter().flat_map(Measure::runs)
    }

    /// It, with what `documents` say, which hold each of its runs.
    pub(super) fn claim(&self, documents: &BTreeMap<&Key, Result<Document, String>>) -> Claim {
        let claim = self.claim.clone();
        let unmeasured = |reason: Option<String>| Claim {
            reason,
            ..self.claim.clone()
        };
        let Some(measure) = &self.measure else {
            return unmeasured(self.known.clone());
        };
        match measure.of(documents, 1.0) {
            Ok(measured) => claim.with(measured, self.known.as_deref()),
            Err(problem) => unmeasured(Some(problem)),
        }
    }
}
