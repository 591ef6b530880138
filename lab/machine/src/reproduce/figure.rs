//! Claims of a figure or a table of the paper.
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
//! reason-of = ["default", "artifact"]  # the profiles it was found for, else all
//! about = "itself"                     # or others, own; else a test of the paper's systems
//! ```
//!
//! A set-up of [`report`] is a profile here. The rest of the file is as [`report::figure`] defines
//! it.

use super::plan::{Key, Plan};
use input::document::DocumentError;
use report::claim::{About, Claim, Combine, Expectation, Form, Measure};
use report::figure::{self, File, Named};
use serde::Deserialize;
use skybyte::{Design, Profile};
use toml::{Spanned, Value};

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
    reason_of: Option<Vec<Profile>>,
    #[serde(default)]
    about: About,
}

/// Claim with the runs that measure it.
type Row = figure::Row<Key>;

/// Reads a figure; its claims may name designs, and workloads, settings and quantities of `plan`.
pub(super) fn read(plan: &Plan, file: &File) -> Result<figure::Figure<Key>, DocumentError> {
    figure::read(file.name, &file.source(), |reader, claimed| {
        Reader { plan, reader }.rows(claimed)
    })
}

struct Reader<'a> {
    plan: &'a Plan,
    reader: &'a figure::Reader<'a>,
}

impl Reader<'_> {
    /// Workloads of a claim, each with its own expectation if the claim gives one.
    fn workloads(&self, claimed: &Claimed) -> Result<Named, DocumentError> {
        let all = || self.plan.workloads.keys();
        let Some(said) = &claimed.workloads else {
            return Ok(all().map(|name| (name.clone(), None)).collect());
        };
        let named = self.reader.named(said)?;
        for (name, _) in &named {
            let known = all().map(String::as_str);
            self.reader.known(said, "workload", name, known)?;
        }
        Ok(named)
    }

    fn known<'k>(
        &self,
        name: &Spanned<String>,
        kind: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Result<(), DocumentError> {
        self.reader.known(name, kind, name.as_ref(), known)
    }

    /// Rows of a claim: one for each expectation and profile.
    fn rows(&self, claimed: &Claimed) -> Result<Vec<Row>, DocumentError> {
        let designs = || skybyte::DESIGNS.iter().map(|design: &Design| design.name);
        self.known(&claimed.design, "design", designs())?;
        if let Some(versus) = &claimed.versus {
            self.known(versus, "design", designs())?;
        }
        let quantities = self.plan.quantities.keys().map(String::as_str);
        self.known(&claimed.quantity, "quantity", quantities)?;
        let settings = claimed.settings.iter().flatten();
        for setting in settings.chain(&claimed.versus_setting) {
            let known = self.plan.settings.keys().map(String::as_str);
            self.known(setting, "setting", known.chain([""]))?;
        }
        let compared = claimed.versus.is_some() || claimed.versus_setting.is_some();
        if compared == (claimed.form == Form::Alone) {
            let problem = "expected form = \"alone\", or something to compare with";
            return Err(self.reader.error(&claimed.id, problem));
        }
        let workloads = self.workloads(claimed)?;
        let profiles = claimed.profiles.as_ref().unwrap_or(&self.plan.profiles);
        let mut rows = Vec::new();
        for &profile in profiles {
            if let Some(paper) = &claimed.paper {
                let expected = self.reader.expectation(paper)?;
                let names: Vec<&str> = workloads.iter().map(|(name, _)| name.as_str()).collect();
                rows.push(self.row(claimed, profile, expected, &names, "")?);
                continue;
            }
            for (name, expected) in &workloads {
                let Some(expected) = *expected else {
                    let problem = "expected what the paper has, in paper or beside each workload";
                    return Err(self.reader.error(&claimed.id, problem));
                };
                rows.push(self.row(claimed, profile, expected, &[name], name)?);
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
    ) -> Result<Row, DocumentError> {
        let comma = if suffix.is_empty() { "" } else { ", " };
        let what = format!("{}{comma}{suffix} [{}]", claimed.what, profile.name());
        let (id, place) = (claimed.id.as_ref(), claimed.source.as_deref());
        let measure = Measure {
            quantity: self.plan.quantities[claimed.quantity.as_ref()].clone(),
            form: claimed.form,
            combine: claimed.combine,
            unit: claimed.unit.unwrap_or(1.0),
            pairs: pairs(claimed, profile, workloads),
        };
        self.reader
            .judgeable(&claimed.id, &measure, (expected, claimed.about))?;
        let found = claimed.reason_of.as_ref();
        let found = found.is_none_or(|profiles| profiles.contains(&profile));
        let versus = claimed.versus.as_ref();
        let workloads: Vec<String> = workloads.iter().map(|&name| name.to_owned()).collect();
        Ok(Row {
            claim: Claim {
                stack: claimed.design.as_ref().clone(),
                versus: versus.map_or(String::new(), |versus| versus.as_ref().clone()),
                combined: measure.combined(),
                set_up: profile.name().to_owned(),
                about: claimed.about,
                trial: measure.told(&workloads),
                ..self.reader.claim(id, place, what, expected)
            },
            measure: Some(measure),
            workloads,
            grows: false,
            known: claimed.reason.clone().filter(|_| found),
            missing: Vec::new(),
        })
    }
}

/// Runs of a claim in this profile, each with the run it is compared with, if any.
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
