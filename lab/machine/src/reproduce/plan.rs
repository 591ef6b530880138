//! Settings shared by all figures: `setup.toml`.
//!
//! ```toml
//! title = "…"                       # of the paper
//! notes = ["…"]                     # what was chosen here, in sentences
//! profiles = ["default"]            # of claims that name none
//!
//! [scales]                          # what sizes are divided by
//! small = 256
//!
//! [workloads]                       # by the names that claims use
//! bc = "bc"
//!
//! [settings."four cores"]           # what differs from the design, by name
//! threads = 4
//! footprint = "replayed"            # of the workload, else what the scale gives
//! set = ["machine.cores=4"]
//! ssd-dram = "1GiB"                 # at the paper's size; an eighth of it is log
//! log = "16MiB"                     # of designs with a log
//! host = "4GiB"                     # for moved pages
//! flash = { read = "25us", program = "200us", erase = "1500us" }
//!
//! [quantities]
//! time = { of = ["/time_ns"] }
//! ```

use super::PlanError;
use crate::setup::{Change, Setup, SetupError};
use input::document::Source;
use programs::Workload;
use report::claim::Quantity;
use report::figure::File;
use serde::Deserialize;
use skybyte::Profile;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use units::{Bytes, Ns};

/// Contents of `setup.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) title: String,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    pub(super) profiles: Vec<Profile>,
    pub(super) scales: BTreeMap<String, u64>,
    pub(super) workloads: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) settings: BTreeMap<String, Setting>,
    pub(super) quantities: BTreeMap<String, Quantity>,
    #[serde(skip)]
    source: Option<Source>,
}

/// Differences of a setting from its design.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Setting {
    threads: Option<u32>,
    footprint: Option<String>,
    set: Vec<Spanned<String>>,
    ssd_dram: Option<Bytes>,
    log: Option<Bytes>,
    host: Option<Bytes>,
    flash: Option<Flash>,
}

/// Operation times of flash.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flash {
    read: Ns,
    program: Ns,
    erase: Ns,
}

/// Identity of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) design: String,
    pub(super) workload: String,
    /// Name of the setting; empty for none.
    pub(super) setting: String,
    pub(super) profile: &'static str,
}

impl Plan {
    pub(super) fn read(file: &File) -> Result<Self, PlanError> {
        let source = file.source();
        let mut plan: Self = source.parse()?;
        plan.source = Some(source);
        Ok(plan)
    }

    /// Setup of the run `key` at a scale.
    pub(super) fn setup(&self, key: &Key, scale: &str, seed: u64) -> Result<Setup, PlanError> {
        let text = &self.workloads[&key.workload];
        let refuse = |at: Range<usize>, e: &SetupError| {
            let source = self.source.as_ref().expect("a plan was read from its file");
            source.error(at.start, e.to_string())
        };
        let none = Setting::default();
        let setting = self.settings.get(&key.setting).unwrap_or(&none);
        let workload = || {
            let mut workload = Workload::parse(text.as_ref())?.with("scale", scale)?;
            if let Some(threads) = setting.threads {
                workload = workload.with("threads", &threads.to_string())?;
            }
            if let Some(footprint) = &setting.footprint {
                workload = workload.with("footprint", footprint)?;
            }
            Ok::<_, SetupError>(workload)
        };
        let profile = Profile::ALL.into_iter().find(|p| p.name() == key.profile);
        let made = workload().and_then(|workload| {
            Setup::new(&key.design, profile.unwrap_or_default(), workload, seed)
        });
        let mut setup = made.map_err(|e| refuse(text.span(), &e))?;
        setting.resize(&mut setup);
        for change in &setting.set {
            let parsed = change.as_ref().parse::<Change>();
            let changed = parsed.and_then(|parsed| setup.with(&parsed));
            setup = changed.map_err(|e| refuse(change.span(), &e))?;
        }
        if !key.setting.is_empty() {
            setup.changes.insert(0, key.setting.clone());
        }
        Ok(setup)
    }
}

impl Setting {
    fn resize(&self, setup: &mut Setup) {
        let factor = setup.factor;
        let scaled = |bytes: Bytes| Bytes(bytes.0 / factor);
        if let Some(dram) = self.ssd_dram {
            setup.resize_ssd_dram(scaled(dram), scaled(Bytes(dram.0 / 8)));
        }
        if let Some(log) = self.log {
            setup.resize_log(scaled(log));
        }
        if let Some(host) = self.host {
            setup.resize_host(scaled(host));
        }
        if let Some(flash) = self.flash {
            setup.time_flash(flash.read, flash.program, flash.erase);
        }
    }
}
