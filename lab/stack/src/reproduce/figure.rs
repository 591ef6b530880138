//! The claims of a figure or a table of a paper.
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
//! versus = { ext4 = 2.5, f2fs = 1.48 }  # the paper's value beside each
//! workloads = ["create", "delete"]      # combined to one value
//! settings = ["80 µs"]                  # else the base
//! versus-setting = "60 µs"              # else the same
//! versus-workload = "mkdir"             # else the same
//! unit = 1e9                            # divisor of the value, else 1
//! grows = true                          # in proportion to sizes: times the scale
//! reasons = { ext4 = "…" }              # why it is missed, and how that was found
//! set-up = "sync at the end"            # else the primary one of the figure
//! about = "others"                      # or itself, own; else a test of the paper's systems
//! ```
//!
//! The rest of the file is as in [`report::figure`]. The paper's values stand beside each host in
//! `versus`, or beside each workload in `workloads = {…}`, or alone in `paper = …`; then `versus`
//! may be a list, whose values are combined. A reason has the name that its value stands beside, or
//! `all`.

use super::setup::{BASE, Setup};
use input::document::{DocumentError, Source};
use report::claim::{About, Claim, Combine, Expectation, Form, Measure};
use report::figure::{self, Named};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// Name of the reason of a claim with a single value.
const ALONE: &str = "all";

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
    set_up: Option<String>,
    #[serde(default)]
    about: About,
}

/// Identifies a run of a paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) host: String,
    pub(super) workload: String,
    /// Name of the setting; empty for the base.
    pub(super) setting: String,
}

/// A claim, and the way to measure it.
pub(super) type Row = figure::Row<Key>;
/// A figure read from its file.
pub(super) type Figure = figure::Figure<Key>;

/// Reads the figure called `name`; its claims refer to hosts, workloads and quantities of `setup`.
pub(super) fn read(setup: &Setup, name: &str, source: &Source) -> Result<Figure, DocumentError> {
    figure::read(name, source, |reader, claimed| {
        Reader { setup, reader }.rows(claimed)
    })
}

struct Reader<'a> {
    setup: &'a Setup,
    reader: &'a figure::Reader<'a>,
}

impl Reader<'_> {
    /// One row for each expectation.
    fn rows(&self, claimed: &Claimed) -> Result<Vec<Row>, DocumentError> {
        let workloads = self.reader.named(&claimed.workloads)?;
        for (name, _) in &workloads {
            self.reader
                .known(&claimed.workloads, "workload", name, self.setup.workloads())?;
        }
        if let Some(name) = &claimed.versus_workload {
            self.reader
                .known(name, "workload", name.as_ref(), self.setup.workloads())?;
        }
        let versus = claimed
            .versus
            .as_ref()
            .map(|v| self.reader.named(v))
            .transpose()?;
        let versus = versus.unwrap_or_default();
        let paper = claimed.paper.as_ref();
        let paper = paper.map(|said| self.reader.expectation(said));
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
                Err(self.reader.error(&claimed.id, problem))
            }
        }
    }

    fn row(
        &self,
        claimed: &Claimed,
        (expected, case): (Expectation, &str),
        workloads: &[String],
        hosts: &[String],
    ) -> Result<Row, DocumentError> {
        let quantities = self.setup.quantities();
        let names = quantities.keys().map(String::as_str);
        let quantity = &claimed.quantity;
        self.reader
            .known(quantity, "quantity", quantity.as_ref(), names)?;
        if let Some(unit) = claimed.unit.as_ref().filter(|unit| *unit.as_ref() <= 0.0) {
            return Err(self.reader.error(unit, "expected a unit above 0"));
        }
        let compared = !hosts.is_empty()
            || claimed.versus_setting.is_some()
            || claimed.versus_workload.is_some();
        if compared == (claimed.form == Form::Alone) {
            let problem = "expected form = \"alone\", or something to compare with";
            return Err(self.reader.error(&claimed.id, problem));
        }
        let (measure, missing) = self.measure(claimed, workloads, hosts)?;
        if let Some(measure) = &measure {
            self.reader
                .judgeable(&claimed.id, measure, (expected, claimed.about))?;
        }
        let trial = measure.as_ref().map(|measure| measure.told(workloads));
        let (id, place) = (claimed.id.as_ref(), claimed.source.as_deref());
        let claim = self.reader.claim(id, place, claimed.what.clone(), expected);
        Ok(Row {
            claim: Claim {
                stack: claimed.stack.clone(),
                versus: self.versus(claimed, hosts),
                combined: measure.as_ref().map(Measure::combined).unwrap_or_default(),
                set_up: claimed.set_up.clone().unwrap_or(claim.set_up),
                about: claimed.about,
                trial: trial.unwrap_or_default(),
                ..claim
            },
            measure,
            workloads: workloads.to_vec(),
            grows: claimed.grows,
            known: claimed.reasons.get(case).cloned(),
            missing,
        })
    }

    /// The measure of a claim if there is one, and the reasons why it, or a part of it, cannot be
    /// measured.
    fn measure(
        &self,
        claimed: &Claimed,
        workloads: &[String],
        hosts: &[String],
    ) -> Result<(Option<Measure<Key>>, Vec<String>), DocumentError> {
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
        let measure = (!pairs.is_empty()).then(|| Measure {
            quantity: self.setup.quantities()[claimed.quantity.as_ref()].clone(),
            form: claimed.form,
            combine: claimed.combine,
            unit: claimed.unit.as_ref().map_or(1.0, |unit| *unit.as_ref()),
            pairs,
        });
        Ok((measure, missing))
    }

    fn versus(&self, claimed: &Claimed, hosts: &[String]) -> String {
        match &claimed.versus_setting {
            Some(setting) if hosts.is_empty() => setting.as_ref().clone(),
            _ => hosts.join(", "),
        }
    }

    /// The runs of each workload under each setting: that of the stack with that of each of
    /// `others`.
    fn pairs(
        &self,
        claimed: &Claimed,
        workloads: &[String],
        others: &[&String],
    ) -> Result<Vec<(Key, Option<Key>)>, DocumentError> {
        for setting in claimed.settings.iter().chain(&claimed.versus_setting) {
            self.reader
                .known(setting, "setting", setting.as_ref(), self.setup.settings())?;
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
}
