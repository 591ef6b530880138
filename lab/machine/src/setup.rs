//! What is run: a design, a reading, a workload, and what is changed of them.

use crate::size::{self, shrink};
use memsys::{Config, Tiering};
use programs::{Workload, WorkloadError};
use serde::{Deserialize, Serialize};
use skybyte::{Design, DeviceConfig, Profile, host};
use ssd::Precondition;
use std::str::FromStr;
use units::{Bytes, Ns};

/// What a computer and its drive are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    /// The computer.
    machine: Config,
    /// The drive, unless there is none.
    device: DeviceConfig,
    /// What the drive has been through.
    precondition: Precondition,
}

impl Knobs {
    /// All of them as a document. The seed is none of them, and may be too large for one.
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

/// A memory system and what runs on it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The design.
    pub design: &'static Design,
    /// The reading of the paper.
    pub profile: Profile,
    /// What runs, with its threads.
    pub workload: Workload,
    /// What sizes of the paper are divided by.
    pub factor: u64,
    /// The seed of everything that is random.
    pub seed: u64,
    /// What was changed, as it was given.
    pub changes: Vec<String>,
    knobs: Knobs,
}

/// A knob and its value: `machine.os.switch=1300ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    key: String,
    value: String,
}

/// A setup that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No such design.
    #[error("expected one of {known}, found {found:?}")]
    Design {
        /// What there is.
        known: String,
        /// What was asked for.
        found: String,
    },
    /// The workload cannot be.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A change that is no `key=value`, or whose key or value does not exist.
    #[error("{change}: {why}")]
    Change {
        /// As it was given.
        change: String,
        /// Why it does not do, and what would.
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

/// Why a design has no knob called `key` beside those that are known.
fn no_knob(design: &str, key: &str, known: &[String]) -> String {
    match known.is_empty() {
        true => format!("{design} has no {key:?} there, as what is before it is one value"),
        false => format!("expected one of {} at {key:?}", known.join(", ")),
    }
}

impl Setup {
    /// The design called `design` with `workload`, whose threads are the paper's unless
    /// it names them.
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

    /// The same with one knob changed.
    ///
    /// # Errors
    /// If there is no such knob or value.
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

    /// Gives the drive so much DRAM, and of it so much to the log, if it has one.
    pub(crate) fn resize_ssd_dram(&mut self, dram: Bytes, log: Bytes) {
        self.knobs.device.dram.bytes = dram;
        self.resize_log(log);
    }

    /// Gives the log so much of the drive's DRAM, if there is one.
    pub(crate) const fn resize_log(&mut self, log: Bytes) {
        if self.knobs.device.has_log() {
            self.knobs.device.log.bytes = log;
        }
    }

    /// Lets the host hold so many bytes of the drive's pages, if it holds any.
    pub(crate) const fn resize_host(&mut self, bytes: Bytes) {
        match &mut self.knobs.machine.tiering {
            Tiering::Hinted(moves) | Tiering::Sampled(moves, _) => moves.limit = bytes,
            Tiering::Cached(cache) => cache.size = bytes,
            Tiering::None => {}
        }
    }

    /// Gives flash the times that flash of the paper's size has.
    pub(crate) fn time_flash(&mut self, read: Ns, program: Ns, erase: Ns) {
        let whole = self.profile.device(self.design);
        let drive = &mut self.knobs.device.drive;
        let timing = drive.timing();
        let mut timing = timing.expect("the presets have a part that is known");
        (timing.read, timing.program) = (read, program);
        timing.erase = whole.erase_in(drive, erase);
        drive.flash.timing = Some(timing);
    }

    /// The least footprint of the workload, if the one that it is given makes the drive's DRAM
    /// too small.
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

    /// The computer.
    #[must_use]
    pub const fn machine(&self) -> &Config {
        &self.knobs.machine
    }

    /// The drive; what it would be, where there is none.
    #[must_use]
    pub const fn device(&self) -> &DeviceConfig {
        &self.knobs.device
    }

    /// What the drive has been through.
    #[must_use]
    pub const fn precondition(&self) -> Precondition {
        self.knobs.precondition
    }
}
