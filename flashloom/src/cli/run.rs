//! `run`: one workload on one stack.

use super::experiment::{Choices, Experiment, Source, command};
use super::failure::Failure;
use super::output::{Shown, note};
use super::{Answer, file};
use clap::Args;
use engine::Access;
use report::record::Run as Record;
use report::{page, table};
use ssd::Precondition;
use stack::StackName;
use std::path::{Path, PathBuf};

/// The past of a drive that came from a file, in records.
const KEPT: &str = "kept";

/// Run one workload on one stack and say what it cost
#[derive(Args)]
pub(crate) struct Run {
    /// HOST@DRIVE, as `flashloom stacks` lists them
    stack: StackName,
    /// A trace, a recording, a preset with parameters (see `flashloom workloads`) or a
    /// fio job [default: rocksdb; on a raw drive postgres-ext4]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// The same as --workload, for a trace
    #[arg(long, conflicts_with = "workload", value_name = "FILE")]
    trace: Option<String>,
    /// What the drive has been through: fresh, full or aged [default: full; fresh where its
    /// host holds the mapping]
    #[arg(long, value_name = "PAST", value_parser = stack::past)]
    precondition: Option<Precondition>,
    #[command(flatten)]
    choices: Choices,
    /// Write what the drive holds afterwards back to its file, if --drive names one
    #[arg(long, requires = "drive")]
    save: bool,
    /// Write a page about the run
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

impl Run {
    pub(crate) fn run(&self) -> Answer {
        let source = Source::new(self.workload(), &self.choices)?;
        if let Some(path) = &self.report {
            file::check_place(path)?;
        }
        let database = self.choices.database()?;
        let (experiment, run) = match self.choices.drive_file() {
            Some(path) => self.on_file(path, source)?,
            None if self.save => {
                let named = self.choices.drive_name();
                return Err(Failure::new(format!(
                    "--save: expected a drive file (see flashloom drive create) after --drive, found {named:?}"
                )));
            }
            None => self.on_new(source)?,
        };
        self.choices
            .keep(database.as_deref(), std::slice::from_ref(&run), &experiment)?;
        if let Some(path) = &self.report {
            report::file::write(path, &page::run(&run, &command()))?;
            note(&format!("flashloom: the page is in {}", path.display()));
        }
        Ok(self.answer(&run))
    }

    fn workload(&self) -> &str {
        let told = self.trace.as_deref().or(self.workload.as_deref());
        told.unwrap_or_else(|| stack::usual_workload(&self.stack))
    }

    fn answer(&self, run: &Record) -> String {
        if self.shown.json {
            return report::to_json(run) + "\n";
        }
        let style = Shown::style();
        let mut text = table::run(run, style);
        if !run.timeline.is_empty() {
            text += &format!("\n{}", table::timeline(run, style));
        }
        text
    }

    fn on_new(&self, source: Source) -> Result<(Experiment, Record), Failure> {
        let plan = self.choices.plan(&self.stack, self.precondition, &source)?;
        let experiment = Experiment {
            plans: vec![plan],
            sources: vec![source],
        };
        let run = experiment.sweep(1)?.remove(0);
        Ok((experiment, run))
    }

    /// On the drive in a file, which keeps what it has been through.
    fn on_file(&self, path: &Path, source: Source) -> Result<(Experiment, Record), Failure> {
        if self.precondition.is_some() {
            let reason = "a drive in a file has its own past; --precondition does not go with one";
            return Err(Failure::at(path, reason));
        }
        if let Some(option) = self.choices.shape_given() {
            let reason =
                format!("a drive in a file is as it was made; {option} does not go with one");
            return Err(Failure::at(path, reason));
        }
        let access = if self.save {
            Access::Change
        } else {
            Access::Look
        };
        let mut file = file::open(path, access)?;
        let opened = file::load(path, &file)?;
        if opened.memory.is_some() {
            let reason = "the mapping of the drive is in the memory beside it, of which a run \
                          knows nothing; `mkfs` of another file system takes it away";
            return Err(Failure::at(path, reason));
        }
        let plan = self.choices.plan_on(&self.stack, opened.config, &source)?;
        let experiment = Experiment {
            plans: vec![plan],
            sources: vec![source],
        };
        let (mut run, left) = experiment.run_on(opened.media)?;
        KEPT.clone_into(&mut run.precondition);
        if self.save {
            let saved = file.save(&experiment.plans[0].drive, &left, None);
            saved.map_err(|e| Failure::at(path, e))?;
        }
        Ok((experiment, run))
    }
}
