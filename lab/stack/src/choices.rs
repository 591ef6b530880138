//! Plans from a user's choices, and the defaults for everything else.
//!
//! Invariant: equal choices give equal plans, from the command line and from any other program.

use crate::drive;
use crate::error::StackError;
use crate::hosts::Behaviour;
use crate::knobs;
use crate::name::StackName;
use crate::past::{self, Past};
use crate::plan::{Ending, Plan, Sampling, Until};
use ssd::{DriveConfig, Policies, Precondition, Preset};
use units::Bytes;
use workload::files::asks_for_files;
use workload::shipped::{self, Asked};

/// Default stacks of a comparison, for requests and for file calls.
const STACKS: [&str; 3] = ["raw@block", "raw@streams", "raw@fdp"];
const FILE_STACKS: [&str; 3] = ["ext4@block", "ext4@streams", "ext4@fdp"];
/// A stack for each interface of flash, and for each system that the project exists for: the
/// drives hold the same flash.
const INTERFACES: [&str; 10] = [
    "ext4@block",
    "ext4@fdp",
    "f2fs@block",
    "f2fs@zns",
    "persimmon@zns",
    "shimmer@zns",
    "btrfs@ocssd",
    "hyfim@ocssd",
    "bytefs@byte",
    "ext4+remap@block",
];
/// Default preconditions of drives in a comparison of file systems.
const FILE_PASTS: [Past; 2] = [
    Past::Drive(Precondition::Full),
    Past::Drive(Precondition::Aged),
];

/// A user's choices for a run, besides its stack and workload.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Preset or TOML file of the drive's flash and firmware; the stack determines the interface.
    /// `None` for the preset of the stack.
    pub drive: Option<String>,
    /// Capacity that the host may use. `None` for the size that the workload was recorded for, with
    /// the files of a past added to it, or else that of the drive.
    pub size: Option<Bytes>,
    /// Assignments `SETTING=VALUE` to settings of the drive, the host and its page cache.
    pub set: Vec<String>,
    /// The seed of the run; `None` for 1.
    pub seed: Option<u64>,
    /// Sampling of the timeline; `None` for no timeline.
    pub sample: Option<Sampling>,
    /// Condition that ends the repetition of a workload.
    pub until: Until,
}

impl Choices {
    /// A plan of `asked` on `stack`, on a drive with the precondition `past`; `None` for the
    /// default of a single run.
    ///
    /// # Errors
    /// If a choice is invalid or does not fit the stack.
    pub fn plan(
        &self,
        stack: &StackName,
        past: Option<Past>,
        asked: &Asked,
    ) -> Result<Plan, StackError> {
        let named = self.drive.as_deref().unwrap_or(&stack.drive);
        // A drive that the user names keeps its own size.
        let recorded = || asked.size().filter(|_| self.drive.is_none());
        let usual = || recorded().map(|size| past.map_or(size, |past| past.beside(size)));
        let mut config = drive::resolve(named, self.size.or_else(usual))?;
        if let Some(preset) = Preset::named(&stack.drive) {
            like(&mut config, &(preset.config)());
        }
        let config = knobs::drive(config, &self.set)?;
        let usual = match (stack.host.as_str(), past::below(&config)) {
            ("raw", usual) | (_, usual @ Precondition::Fresh) => usual,
            _ => Precondition::Full,
        };
        let (precondition, used) = past.unwrap_or(usual.into()).parts(&config);
        let plan = self.plan_on(stack, config, asked)?;
        Ok(Plan {
            precondition,
            used,
            ..plan
        })
    }

    /// A plan of `asked` on `stack` and a fresh `drive`. The drive is taken as given: assignments
    /// to its settings are not applied.
    ///
    /// # Errors
    /// The errors of [`Choices::plan`].
    pub fn plan_on(
        &self,
        stack: &StackName,
        drive: DriveConfig,
        asked: &Asked,
    ) -> Result<Plan, StackError> {
        Ok(Plan {
            label: String::new(),
            stack: stack.clone(),
            drive,
            precondition: Precondition::Fresh,
            used: None,
            workload: asked.text.clone(),
            seed: self.seed.unwrap_or(1),
            sample: self.sample,
            host: knobs::host(&self.set)?,
            page_cache: knobs::page_cache(&self.set)?,
            behaviour: Behaviour::default(),
            ending: Ending::default(),
            until: self.until,
            policies: Policies::default(),
        })
    }
}

/// Gives `config` the interface of `preset`, if it has another one: compared drives differ in their
/// interface only.
fn like(config: &mut DriveConfig, preset: &DriveConfig) {
    if config.interface != preset.interface {
        config.name = format!("{} ({})", config.name, preset.name);
        config.interface = preset.interface;
        config.placement = preset.placement;
    }
}

/// The default workload of `stack`.
#[must_use]
pub fn usual_workload(stack: &StackName) -> &'static str {
    match stack.host.as_str() {
        "raw" => shipped::REQUESTS.name,
        _ => shipped::RECORDING.name,
    }
}

/// The default stacks of a comparison of `asked`.
#[must_use]
pub fn usual_stacks(asked: &Asked) -> Vec<StackName> {
    let usual = match asks_for_files(&asked.text) {
        true => FILE_STACKS,
        false => STACKS,
    };
    let named = |name: &str| name.parse().expect("it is in the table");
    usual.map(named).to_vec()
}

/// The stacks of a comparison of file systems over all interfaces.
#[must_use]
pub fn interfaces() -> Vec<StackName> {
    let named = |name: &str| name.parse().expect("it is in the table");
    INTERFACES.map(named).to_vec()
}

/// The default preconditions of a comparison on these stacks. Drives of requests are aged: only
/// then is amplification that of a drive in use. Zoned drives move no data of their own, so they do
/// not age; an open-channel drive holds only data that its host has written.
#[must_use]
pub fn usual_pasts(stacks: &[StackName]) -> Vec<Past> {
    let drives = || {
        let resolved = |stack: &StackName| drive::resolve(&stack.drive, None).ok();
        stacks.iter().filter_map(resolved)
    };
    if drives().any(|drive| drive.raw.is_some()) {
        return vec![Past::Drive(Precondition::Fresh)];
    }
    let zoned = drives().any(|drive| drive.zones.is_some());
    let of_files = stacks.iter().any(|stack| stack.host != "raw");
    match (zoned, of_files) {
        (true, _) => vec![Past::Drive(Precondition::Full)],
        (false, false) => vec![Past::Drive(Precondition::Aged)],
        (false, true) => FILE_PASTS.to_vec(),
    }
}
