//! The set-up that all figures of a paper share: `setup.toml`.
//!
//! ```toml
//! title = "…"                 # of the paper
//! drive = "bytefs-emulator"   # a preset
//! capacity = "{32GiB}"        # sizes in braces are divided by the scale
//! notes = ["…"]               # choices made here, in sentences
//!
//! [scales]                    # by name
//! small = 64
//!
//! [base.drive]                # knobs, as in a drive file, and so on
//! "controller.write_buffer" = "{16MiB}"
//! [base.host]
//! [base.page_cache]
//! [base.file_system]          # its waits, as `Behaviour` has them
//!
//! [settings."64 MiB".drive]   # differences from the base, by name
//! "front.log.bytes" = "{64MiB}"
//!
//! [settings."cut"]
//! ending = "power-cut"        # or remount, else unmount
//! capacity = "{2GiB}"         # of the drive, else that of all
//! preset = "fdp"              # the drive itself, else that of all
//!
//! [workloads]                 # by the names that claims use
//! varmail = "varmail:files={1000000}"
//!
//! [quantities]                # sums, less sums, over sums of what JSON pointers lead to
//! throughput = { of = ["/ops_per_s"] }
//! ```

use super::figure::Key;
use super::scale::scaled;
use crate::drive;
use crate::error::StackError;
use crate::hosts::Behaviour;
use crate::name::StackName;
use crate::plan::{Ending, Plan};
use host::HostConfig;
use input::document::{DocumentError, Source, overlaid};
use report::claim::Quantity;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ssd::{DriveConfig, Precondition};
use std::collections::BTreeMap;
use toml::{Spanned, Table, Value};
use units::Bytes;
use vfs::CacheConfig;

/// The setting of claims that name none.
pub(super) const BASE: &str = "";

/// Knobs by their paths, such as `flash.timing.read`.
type Knobs = BTreeMap<String, Spanned<Value>>;

/// A parsed setup file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    drive: Spanned<String>,
    capacity: Spanned<String>,
    #[serde(default)]
    notes: Vec<String>,
    scales: BTreeMap<String, Spanned<u64>>,
    #[serde(default)]
    base: Setting,
    #[serde(default)]
    settings: BTreeMap<String, Setting>,
    workloads: BTreeMap<String, Spanned<String>>,
    quantities: BTreeMap<String, Quantity>,
}

/// Knobs that differ from the defaults, and the ending of runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Setting {
    drive: Knobs,
    host: Knobs,
    page_cache: Knobs,
    file_system: Knobs,
    ending: Ending,
    precondition: Option<Spanned<String>>,
    capacity: Option<Spanned<String>>,
    /// A drive other than that of the paper; `None` for that.
    preset: Option<Spanned<String>>,
}

/// The setup of a paper.
#[derive(Debug)]
pub(super) struct Setup {
    source: Source,
    file: File,
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    pub(super) scales: BTreeMap<String, u64>,
}

impl Setup {
    pub(super) fn read(source: Source) -> Result<Self, DocumentError> {
        let mut file: File = source.parse()?;
        if let Some(factor) = file.scales.values().find(|f| *f.as_ref() == 0) {
            let problem = "expected a scale of at least 1";
            return Err(source.error(factor.span().start, problem));
        }
        let scales = file.scales.iter();
        let scales = scales.map(|(name, factor)| (name.clone(), *factor.as_ref()));
        Ok(Self {
            title: std::mem::take(&mut file.title),
            notes: std::mem::take(&mut file.notes),
            scales: scales.collect(),
            file,
            source,
        })
    }

    pub(super) fn workloads(&self) -> impl Iterator<Item = &str> {
        self.file.workloads.keys().map(String::as_str)
    }

    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.file.settings.keys().map(String::as_str)
    }

    pub(super) const fn quantities(&self) -> &BTreeMap<String, Quantity> {
        &self.file.quantities
    }

    /// The stack of `host` on the drive of `setting`.
    ///
    /// # Errors
    /// If it cannot be run, with the reason of the table of stacks.
    pub(super) fn stack(&self, host: &str, setting: &str) -> Result<StackName, StackError> {
        let setting = self.file.settings.get(setting);
        let own = setting.and_then(|setting| setting.preset.as_ref());
        let drive = own.unwrap_or(&self.file.drive);
        format!("{host}@{}", drive.as_ref()).parse()
    }

    /// The plan of the run `key`, whose names must all be in this setup.
    pub(super) fn plan(&self, key: &Key, factor: u64, seed: u64) -> Result<Plan, StackError> {
        let none = Setting::default();
        let setting = self.file.settings.get(&key.setting).unwrap_or(&none);
        let workload = &self.file.workloads[&key.workload];
        let layers = [&self.file.base, setting];
        let empty = (Table::new(), HostConfig::default());
        let host = self.overlay(empty, layers.map(|s| &s.host), factor)?;
        let empty = (Table::new(), CacheConfig::default());
        let usual = (Table::new(), Behaviour::default());
        let behaviour = self.overlay(usual, layers.map(|s| &s.file_system), factor)?;
        Ok(Plan {
            label: key.setting.clone(),
            stack: self.stack(&key.host, &key.setting)?,
            drive: self.drive(setting, factor)?,
            precondition: self.precondition(setting)?,
            used: None,
            workload: self.scaled(workload, factor)?,
            seed,
            sample: None,
            behaviour,
            host: host.checked()?,
            ending: setting.ending,
            until: crate::plan::Until::default(),
            policies: ssd::Policies::default(),
            page_cache: self
                .overlay(empty, layers.map(|s| &s.page_cache), factor)?
                .checked()?,
        })
    }

    /// The precondition of the drive: fresh, if the setting has none.
    fn precondition(&self, setting: &Setting) -> Result<Precondition, DocumentError> {
        let Some(said) = &setting.precondition else {
            return Ok(Precondition::Fresh);
        };
        let mut all = Precondition::ALL.iter();
        let named = all.find(|past| past.name() == said.as_ref());
        named.copied().ok_or_else(|| {
            let problem = format!("expected fresh, full or aged, found {:?}", said.as_ref());
            self.source.error(said.span().start, problem)
        })
    }

    /// The drive of a setting: first its differences from the preset, then its size, as the size
    /// determines the number of zones.
    fn drive(&self, setting: &Setting, factor: u64) -> Result<DriveConfig, StackError> {
        let (usual, of_all) = (&self.file.drive, &self.file.capacity);
        let name = setting.preset.as_ref().unwrap_or(usual);
        let capacity = setting.capacity.as_ref().unwrap_or(of_all);
        let at = |at: usize| move |e: &dyn std::fmt::Display| self.source.error(at, e.to_string());
        let size: Result<Bytes, _> = self.scaled(capacity, factor)?.parse();
        let size = size.map_err(|e| at(capacity.span().start)(&e))?;
        let base = drive::resolve(name.as_ref(), None);
        let base = base.map_err(|e| at(name.span().start)(&e))?;
        // Knobs of the paper's drive do not apply to another one.
        let none = Knobs::new();
        let base_knobs = match setting.preset {
            Some(_) => &none,
            None => &self.file.base.drive,
        };
        let layers = [base_knobs, &setting.drive];
        let table = drive::as_table(&base);
        let config = self.overlay((table, base), layers, factor)?;
        drive::checked(name.as_ref(), config.resized(size))
    }

    /// Lays the knobs of `layers` over a configuration, given with its table.
    fn overlay<T: DeserializeOwned>(
        &self,
        (mut table, mut made): (Table, T),
        layers: [&Knobs; 2],
        factor: u64,
    ) -> Result<T, DocumentError> {
        for (path, value) in layers.into_iter().flatten() {
            let at = value.span().start;
            let refused = |problem: String| self.source.error(at, problem);
            let value = match value.as_ref() {
                Value::String(text) => number_or_text(scaled(text, factor).map_err(refused)?),
                other => other.clone(),
            };
            let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
            made = overlaid(&mut table, &steps, value).map_err(refused)?;
        }
        Ok(made)
    }

    fn scaled(&self, text: &Spanned<String>, factor: u64) -> Result<String, DocumentError> {
        let scaled = scaled(text.as_ref(), factor);
        scaled.map_err(|problem| self.source.error(text.span().start, problem))
    }
}

/// A scaled number becomes a number in TOML, and other text a string.
fn number_or_text(text: String) -> Value {
    text.parse().map_or(Value::String(text), Value::Integer)
}
