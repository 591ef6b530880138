//! A run that measures the values of one or more experiments.

use super::drives::drive;
use super::jobs::Text;
use super::measure::{self, Measured};
use super::rows::{Document, Experiment, State, ZoneCommand};
use super::zone;
use crate::error::StackError;
use crate::hosts::Behaviour;
use crate::plan::{Ending, Plan, Until};
use host::{Completion, Cpu, HostConfig};
use ssd::{DriveConfig, Interface, Policies, Precondition};
use vfs::CacheConfig;

/// A run for one or more experiments.
#[derive(Clone, Debug)]
pub struct Task {
    name: String,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Jobs(Box<Plan>),
    Zone(Box<(DriveConfig, HostConfig, ZoneCommand)>),
}

impl Task {
    /// The run of `experiment`.
    ///
    /// # Errors
    /// The reason why the model cannot run it.
    pub fn new(document: &Document, experiment: &Experiment) -> Result<Self, String> {
        let (config, factor) = drive(document, experiment)?;
        let text = Text {
            document,
            experiment,
            config: &config,
            factor,
        };
        let smaller = text.with_fewer_zones();
        let host = host(text.is_polled());
        if let Some(command) = &experiment.zone {
            if experiment.beside.is_some() {
                return Err("zone commands beside requests are no job of fio".to_owned());
            }
            return Ok(Self {
                name: text.name(),
                work: Work::Zone(Box::new((smaller, host, command.clone()))),
            });
        }
        let jobs = text.made()?;
        let past = match (experiment.state, text.is_endurance()) {
            _ if config.zones.is_some() => Precondition::Full,
            (_, true) | (Some(State::Aged), _) => Precondition::Aged,
            (Some(State::Fresh), _) => Precondition::Fresh,
            _ => Precondition::Full,
        };
        let name = text.name();
        Ok(Self {
            work: Work::Jobs(Box::new(plan(smaller, past, jobs, host)?)),
            name,
        })
    }

    /// The run of the jobs `text` on `drive`, which is full before, by requests through the kernel.
    ///
    /// # Errors
    /// The reason why the drive takes no such requests.
    pub fn of_jobs(name: &str, drive: DriveConfig, text: String) -> Result<Self, String> {
        let plan = through_kernel(drive, Precondition::Full, text)?;
        Ok(Self {
            name: name.to_owned(),
            work: Work::Jobs(Box::new(plan)),
        })
    }

    /// Name for a progress display.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything that determines the quantities, as text.
    #[must_use]
    pub fn told(&self) -> String {
        format!("{:?}", self.work)
    }

    /// Runs the task to its end.
    ///
    /// # Errors
    /// The reason why it failed.
    pub fn run(&self) -> Result<Measured, String> {
        let measured = match &self.work {
            Work::Jobs(plan) => measure::jobs(plan),
            Work::Zone(work) => {
                let (config, host, command) = &**work;
                zone::command(config, *host, command)
            }
        };
        measured.map_err(|error: StackError| error.to_string())
    }
}

fn host(is_polled: bool) -> HostConfig {
    let completion = match is_polled {
        true => Completion::Polling,
        false => Completion::Interrupt,
    };
    HostConfig {
        cpu: Cpu {
            completion,
            ..Cpu::default()
        },
        ..HostConfig::default()
    }
}

/// The plan of the jobs `workload` by requests through the kernel.
///
/// # Errors
/// The reason why the drive takes no such requests.
pub(crate) fn through_kernel(
    drive: DriveConfig,
    precondition: Precondition,
    workload: String,
) -> Result<Plan, String> {
    plan(drive, precondition, workload, host(false))
}

fn plan(
    drive: DriveConfig,
    precondition: Precondition,
    workload: String,
    host: HostConfig,
) -> Result<Plan, String> {
    let stack = match drive.interface {
        Interface::Block => "raw@block",
        Interface::Zoned => "raw@zns",
        Interface::Fdp => "raw@fdp",
        _ => return Err("requests do not reach this kind of drive".to_owned()),
    };
    Ok(Plan {
        label: String::new(),
        stack: stack.parse().map_err(|e: StackError| e.to_string())?,
        drive,
        precondition,
        used: None,
        workload,
        seed: 1,
        sample: None,
        host,
        page_cache: CacheConfig::default(),
        behaviour: Behaviour::default(),
        ending: Ending::default(),
        until: Until::End,
        policies: Policies::default(),
    })
}
