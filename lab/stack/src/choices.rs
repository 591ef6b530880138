//! Plans from what a user chooses, and what is usual where nothing is chosen.
//!
//! Invariant: who chooses the same gets the same plan, on the command line and from any
//! other program.

use crate::drive;
use crate::error::StackError;
use crate::hosts::Behaviour;
use crate::knobs;
use crate::name::StackName;
use crate::plan::{Ending, Plan, Sampling, Until};
use ssd::{DriveConfig, Policies, Precondition, Preset};
use units::Bytes;
use workload::files::asks_for_files;
use workload::shipped::{self, Asked};

/// Stacks of a comparison where none are named, of requests and of file calls.
const STACKS: [&str; 3] = ["raw@block", "raw@streams", "raw@fdp"];
const FILE_STACKS: [&str; 3] = ["ext4@block", "ext4@streams", "ext4@fdp"];
/// Pasts of the drives of file systems where none are named.
const FILE_PASTS: [Precondition; 2] = [Precondition::Full, Precondition::Aged];

/// What a user chooses of a run besides its stack and its workload.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Whose flash and firmware: a preset or a drive's TOML file; the stack says with
    /// which interface. None for the preset of the stack.
    pub drive: Option<String>,
    /// Bytes that the host may use; none for as many as the drive has, or as what comes
    /// along was recorded for.
    pub size: Option<Bytes>,
    /// `KNOB=VALUE`, of the drive, of the host and of its page cache.
    pub set: Vec<String>,
    /// The seed; none for 1.
    pub seed: Option<u64>,
    /// The timeline; none for none.
    pub sample: Option<Sampling>,
    /// When the workload has been repeated enough.
    pub until: Until,
}

impl Choices {
    /// `asked` on `stack` with a drive that has been through `past`; none for what is
    /// usual of one run.
    ///
    /// # Errors
    /// What of the choices cannot be had.
    pub fn plan(
        &self,
        stack: &StackName,
        past: Option<Precondition>,
        asked: &Asked,
    ) -> Result<Plan, StackError> {
        let named = self.drive.as_deref().unwrap_or(&stack.drive);
        // A drive that the user names is as large as it says.
        let usual = || asked.size().filter(|_| self.drive.is_none());
        let mut config = drive::resolve(named, self.size.or_else(usual))?;
        if let Some(preset) = Preset::named(&stack.drive) {
            like(&mut config, &(preset.config)());
        }
        let config = knobs::drive(config, &self.set)?;
        // Nobody has used a drive whose mapping its host holds but a run.
        let usual = if config.raw.is_some() {
            Precondition::Fresh
        } else if stack.host == "raw" && config.zones.is_none() {
            Precondition::Aged
        } else {
            Precondition::Full
        };
        let mut plan = self.plan_on(stack, config, asked)?;
        plan.precondition = past.unwrap_or(usual);
        Ok(plan)
    }

    /// `asked` on `stack` with the fresh drive `config` as it stands.
    ///
    /// # Errors
    /// As [`Choices::plan`].
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

/// Gives `config` the interface of `preset`, if it has another one. What differs
/// between drives that are compared is their interface.
fn like(config: &mut DriveConfig, preset: &DriveConfig) {
    if config.interface != preset.interface {
        config.name = format!("{} ({})", config.name, preset.name);
        config.interface = preset.interface;
        config.placement = preset.placement;
    }
}

/// The past of a drive that `text` names.
///
/// # Errors
/// If it is none of them.
pub fn past(text: &str) -> Result<Precondition, StackError> {
    let mut pasts = Precondition::ALL.into_iter();
    pasts
        .find(|past| past.name() == text)
        .ok_or(StackError::Past)
}

/// What is run on `stack` where nothing is named.
#[must_use]
pub fn usual_workload(stack: &StackName) -> &'static str {
    match stack.host.as_str() {
        "raw" => shipped::REQUESTS.name,
        _ => shipped::RECORDING.name,
    }
}

/// The stacks that `asked` is compared on where none are named.
#[must_use]
pub fn usual_stacks(asked: &Asked) -> Vec<StackName> {
    let usual = match asks_for_files(&asked.text) {
        true => FILE_STACKS,
        false => STACKS,
    };
    let named = |name: &str| name.parse().expect("it is in the table");
    usual.map(named).to_vec()
}

/// The pasts that drives of these stacks have in a comparison where none are named. Drives of
/// requests are aged: only there is amplification that of a drive in use. Zones move no data of
/// their own, so time does not age them; chunks hold what their host has written.
#[must_use]
pub fn usual_pasts(stacks: &[StackName]) -> Vec<Precondition> {
    let drives = || {
        let resolved = |stack: &StackName| drive::resolve(&stack.drive, None).ok();
        stacks.iter().filter_map(resolved)
    };
    if drives().any(|drive| drive.raw.is_some()) {
        return vec![Precondition::Fresh];
    }
    let zoned = drives().any(|drive| drive.zones.is_some());
    let of_files = stacks.iter().any(|stack| stack.host != "raw");
    match (zoned, of_files) {
        (true, _) => vec![Precondition::Full],
        (false, false) => vec![Precondition::Aged],
        (false, true) => FILE_PASTS.to_vec(),
    }
}
