//! Setup of a run: a design, a reading of the paper, a workload, and their changes.

use crate::size::{self, shrink};
use memsys::{Config, Tiering};
use programs::{Workload, WorkloadError};
use serde::{Deserialize, Serialize};
use skybyte::{Design, DeviceConfig, Profile, host};
use ssd::Precondition;
use std::str::FromStr;
use units::{Bytes, Ns};

/// Configuration of a computer and its drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    /// Computer: cores, caches, memory and operating system.
    machine: Config,
    /// Drive; unused by designs without one.
    device: DeviceConfig,
    /// State of the drive before the run.
    precondition: Precondition,
}

impl Knobs {
    /// All knobs as a document, except the seed, which may be too large for TOML.
    fn document(&self) -> Result<toml::Value, toml::ser::Error> {
        let mut seedless = self.clone();
        seedless.machine.seed = 0;
        let mut document = toml::Value::try_from(seedless)?;
        let machine = document.get_mut("machine");
        if let Some(machine) = machine.and_then(toml::Value::as_table_mut) {
            machine.remove("seed");
        }
        Ok(document)
    }
}

/// Memory system and the workload that runs on it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Design of the memory system.
    pub design: &'static Design,
    /// Reading of the paper.
    pub profile: Profile,
    /// Workload, with its number of threads.
    pub workload: Workload,
    /// Divisor of the paper's sizes.
    pub factor: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Changes, as they were given.
    pub changes: Vec<String>,
    knobs: Knobs,
}

/// New value of a knob: `machine.os.switch=1300ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    key: String,
    value: String,
}

/// Reason for which a setup is refused.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no design of this name.
    #[error("expected one of {known}, found {found:?}")]
    Design {
        /// Names of all designs.
        known: String,
        /// Name as it was given.
        found: String,
    },
    /// The workload is refused.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A change is no `key=value`, or there is no such knob or value.
    #[error("{change}: {why}")]
    Change {
        /// Change as it was given.
        change: String,
        /// Reason, with the expectation.
        why: String,
    },
}

impl FromStr for Change {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(Self {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            }),
            _ => Err(SetupError::Change {
                change: text.to_owned(),
                why: "expected key=value, such as device.hints.threshold=4us".to_owned(),
            }),
        }
    }
}

/// Reason that a design has no knob `key`; `known` are the knobs at that place.
fn no_knob(design: &str, key: &str, known: &[String]) -> String {
    match known.is_empty() {
        true => format!("{design} has no {key:?} there, as what is before it is one value"),
        false => format!("expected one of {} at {key:?}", known.join(", ")),
    }
}

impl Setup {
    /// A setup of the design called `design` with `workload`; the number of threads is the paper's
    /// unless `workload` gives it.
    ///
    /// # Errors
    /// If there is no such design, or a trace cannot be read.
    pub fn new(
        design: &str,
        profile: Profile,
        workload: Workload,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let Some(design) = Design::named(design) else {
            let names: Vec<&str> = skybyte::DESIGNS.iter().map(|design| design.name).collect();
            return Err(SetupError::Design {
                known: names.join(", "),
                found: design.to_owned(),
            });
        };
        let mut workload = workload;
        if workload.has("threads") && !workload.gives("threads") {
            workload = workload.with("threads", &host::threads(design).to_string())?;
        }
        let footprint = workload.memory()?;
        let factor = size::divisor(&workload, footprint);
        let mut setup = Self {
            design,
            profile,
            workload,
            factor,
            seed,
            changes: Vec::new(),
            knobs: Knobs {
                machine: host::computer(profile, design),
                device: profile.device(design).scaled(factor),
                precondition: Precondition::Full,
            },
        };
        let machine = &mut setup.knobs.machine;
        machine.seed = seed;
        machine.pinned.extend(setup.workload.pinned());
        machine.far = setup.knobs.device.drive.capacity;
        host::shrink(machine, factor);
        shrink(machine, factor, footprint);
        Ok(setup)
    }

    /// The setup with one knob changed.
    ///
    /// # Errors
    /// If there is no such knob, or the value is invalid.
    pub fn with(mut self, change: &Change) -> Result<Self, SetupError> {
        let told = format!("{}={}", change.key, change.value);
        let refuse = |why: String| SetupError::Change {
            change: told.clone(),
            why,
        };
        let unreadable = |e: &dyn std::fmt::Display| refuse(e.to_string());
        let mut tree = self.knobs.document().map_err(|e| unreadable(&e))?;
        let mut place = &mut tree;
        for key in change.key.split('.') {
            let known = match place {
                toml::Value::Table(table) => table.keys().cloned().collect::<Vec<_>>(),
                _ => Vec::new(),
            };
            let table = place.as_table_mut();
            place = match table.and_then(|table| table.get_mut(key)) {
                Some(found) => found,
                None => return Err(refuse(no_knob(self.design.name, key, &known))),
            };
        }
        let value = &change.value;
        let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
        *place = match parsed {
            Ok(mut table) => table.remove("value").unwrap_or(toml::Value::Boolean(false)),
            Err(_) => toml::Value::String(value.clone()),
        };
        self.knobs = tree
            .try_into()
            .map_err(|e: toml::de::Error| refuse(e.message().replace('\n', " ")))?;
        self.knobs.machine.seed = self.seed;
        self.changes.push(told);
        Ok(self)
    }

    /// Sets the bytes of the drive's DRAM, and of the log in it if the drive has one.
    pub(crate) fn resize_ssd_dram(&mut self, dram: Bytes, log: Bytes) {
        self.knobs.device.dram.bytes = dram;
        self.resize_log(log);
    }

    /// Sets the bytes of the log, if the drive has one.
    pub(crate) const fn resize_log(&mut self, log: Bytes) {
        if self.knobs.device.has_log() {
            self.knobs.device.log.bytes = log;
        }
    }

    /// Sets the bytes of the host's memory for pages of the drive, if the design uses any.
    pub(crate) const fn resize_host(&mut self, bytes: Bytes) {
        match &mut self.knobs.machine.tiering {
            Tiering::Hinted(moves) | Tiering::Sampled(moves, _) => moves.limit = bytes,
            Tiering::Cached(cache) => cache.size = bytes,
            Tiering::None => {}
        }
    }

    /// Sets the operation times of flash, given for flash of the paper's size.
    pub(crate) fn time_flash(&mut self, read: Ns, program: Ns, erase: Ns) {
        let whole = self.profile.device(self.design);
        let drive = &mut self.knobs.device.drive;
        let timing = drive.timing();
        let mut timing = timing.expect("the presets have a part that is known");
        (timing.read, timing.program) = (read, program);
        timing.erase = whole.erase_in(drive, erase);
        drive.flash.timing = Some(timing);
    }

    /// Smallest footprint that is accepted, if the given footprint makes the drive's DRAM too
    /// small; `None` if the drive is large enough or its DRAM was set explicitly.
    pub(crate) fn least_footprint(&self) -> Option<Bytes> {
        let whole = self.profile.device(self.design);
        let (shrunk, device) = (whole.scaled(self.factor), self.device());
        let is_left =
            (shrunk.dram.bytes, shrunk.log.bytes) == (device.dram.bytes, device.log.bytes);
        let fits = |factor: u64| whole.scaled(factor).checked().is_ok();
        if !is_left || !self.workload.gives("footprint") || fits(self.factor) {
            return None;
        }
        let mut fewer = std::iter::successors(Some(self.factor), |factor| Some(factor / 2));
        let factor = fewer.find(|&factor| factor <= 1 || fits(factor))?;
        Some(size::least(size::paper(&self.workload), factor))
    }

    /// Configuration of the computer.
    #[must_use]
    pub const fn machine(&self) -> &Config {
        &self.knobs.machine
    }

    /// Configuration of the drive; unused by designs without one.
    #[must_use]
    pub const fn device(&self) -> &DeviceConfig {
        &self.knobs.device
    }

    /// State of the drive before the run.
    #[must_use]
    pub const fn precondition(&self) -> Precondition {
        self.knobs.precondition
    }
}
