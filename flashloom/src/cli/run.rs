//! `run`: one workload on one stack.

use super::experiment::{Choices, Experiment, Source, Watchers, command};
use super::failure::Failure;
use super::output::{self, Shown, note};
use super::tracing::Traced;
use super::watch::Page;
use super::{file, serve};
use clap::{Args, ValueEnum};
use engine::Access;
use report::record::Run as Record;
use report::{page, table};
use stack::{Past, StackName};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use workload::Workload;

/// The precondition in the records of runs on a drive file.
const KEPT: &str = "kept";

/// Help of --drive, which takes a drive file as well here.
const DRIVE: &str = "Drive model: a preset (see `flashloom drives`), a TOML file, or a drive file, \
    whose contents the run starts from. The stack sets the interface, such as blocks or zones \
    [default: the preset that the stack names]";

/// Run one workload on one stack and print speed, latency, write amplification and wear
///
/// With --ui, a page shows the drive and the run live, and stays with the final report until Ctrl-C
/// or another signal. Results are the same with and without --ui.
#[derive(Args)]
#[command(mut_arg("drive", |arg| arg.help(DRIVE)))]
pub(crate) struct Run {
    /// Stack as HOST@DRIVE (see `flashloom stacks`)
    stack: StackName,
    /// Trace, recording, preset with parameters (see `flashloom workloads`) or fio job [default:
    /// rocksdb; postgres-ext4 on raw stacks]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Same as --workload, for a trace file
    #[arg(long, conflicts_with = "workload", value_name = "FILE")]
    trace: Option<String>,
    /// Precondition of the drive: fresh (as manufactured), full (every page written once, in order)
    /// or aged (overwritten until garbage collection is steady); or of file system and drive
    /// together: used, or used:fill=70 (files fill this percentage of the capacity, and are written
    /// over until garbage collection is steady) [default: aged for raw stacks; full for file systems
    /// and zones; fresh for open-channel drives]
    #[arg(long, value_name = "PRECONDITION", value_parser = stack::past)]
    precondition: Option<Past>,
    #[command(flatten)]
    choices: Choices,
    /// Save the drive's final contents to the drive file that --drive names
    #[arg(long, requires = "drive")]
    save: bool,
    /// Write an HTML page about the run to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Serve a live page of the run at this address until interrupted; a port alone listens on
    /// localhost
    #[arg(long, value_name = "ADDR", value_parser = serve::address)]
    ui: Option<SocketAddr>,
    /// Print the results of the jobs of a fio file in another form: fio (one document in the shape
    /// of fio's JSON, without the results of the drive)
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    output_format: Option<Format>,
    #[command(flatten)]
    traced: Traced,
    #[command(flatten)]
    shown: Shown,
}

/// Form of the results of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The shape of fio's JSON.
    Fio,
}

impl Run {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let source = Source::new(self.workload(), &self.choices)?;
        let has_jobs = |workload: Workload| workload.jobs().is_some();
        if self.output_format.is_some() && !Workload::parse(self.workload()).is_ok_and(has_jobs) {
            return Err(self.no_jobs());
        }
        for file in self
            .report
            .as_deref()
            .into_iter()
            .chain(self.traced.paths())
        {
            self.choices.check_page(Some(file), self.workload())?;
        }
        self.choices.check_rules([&self.stack])?;
        let database = self.choices.keeping.database()?;
        let page = |at| Page::open(at, &self.stack, self.workload());
        let mut watchers = Watchers {
            page: self.ui.map(page).transpose()?,
            tracing: self.traced.open()?,
        };
        let (experiment, run) = match self.choices.drive_file() {
            Some(path) => self.on_file(path, source, &mut watchers)?,
            None if self.save => {
                let named = self.choices.drive_name();
                return Err(Failure::new(format!(
                    "--save: expected --drive to name a drive file (see flashloom drive create), \
                     found {named:?}"
                )));
            }
            None => self.on_new(source, &mut watchers)?,
        };
        let plan = &experiment.plans[0];
        let lasting = self.choices.keep(database.as_deref(), [(&run, plan)]);
        let traced = watchers.tracing;
        let traced = traced.map_or(Ok(()), |tracing| tracing.finish(&self.traced));
        let written = self.write_page(&run).and(traced);
        let printed = output::emit(&self.answer(&run)?);
        let is_kept = lasting.tell();
        written?;
        let page = watchers.page;
        page.map_or(Ok(()), |page| page.stay(page::run(&run, &command())))?;
        Ok(output::status(printed, is_kept))
    }

    fn write_page(&self, run: &Record) -> Result<(), Failure> {
        let Some(path) = &self.report else {
            return Ok(());
        };
        report::file::write(path, &page::run(run, &command()))?;
        note(&format!(
            "flashloom: wrote the HTML page {}",
            path.display()
        ));
        Ok(())
    }

    fn workload(&self) -> &str {
        let told = self.trace.as_deref().or(self.workload.as_deref());
        told.unwrap_or_else(|| stack::usual_workload(&self.stack))
    }

    fn answer(&self, run: &Record) -> Result<String, Failure> {
        if self.output_format == Some(Format::Fio) {
            let document = report::fio::document(run);
            let document = document.ok_or_else(|| self.no_jobs())?;
            return Ok(format!("{document:#}\n"));
        }
        if self.shown.json {
            return Ok(report::to_json(run) + "\n");
        }
        let style = Shown::style();
        let mut text = table::run(run, style);
        if !run.timeline.is_empty() {
            text += &format!("\n{}", table::timeline(run, style));
        }
        Ok(text)
    }

    fn no_jobs(&self) -> Failure {
        let workload = self.workload();
        Failure::new(format!(
            "--output-format fio: expected a fio job as the workload, found {workload:?}"
        ))
    }

    fn on_new(
        &self,
        source: Source,
        watchers: &mut Watchers,
    ) -> Result<(Experiment, Record), Failure> {
        let plan = self.choices.plan(&self.stack, self.precondition, &source)?;
        let experiment = Experiment {
            plans: vec![plan],
            sources: vec![source],
        };
        let (run, _) = experiment.run_on(None, watchers)?;
        Ok((experiment, run))
    }

    /// Runs on the drive in a file, which keeps its state.
    fn on_file(
        &self,
        path: &Path,
        source: Source,
        watchers: &mut Watchers,
    ) -> Result<(Experiment, Record), Failure> {
        if self.precondition.is_some() {
            let reason = "a drive file keeps its current contents; omit --precondition";
            return Err(Failure::at(path, reason));
        }
        if let Some(option) = self.choices.shape_given() {
            let reason =
                format!("a drive file keeps the model that it was created with; omit {option}");
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
            let reason = "the drive file holds a hyfim mapping in persistent memory, which \
                flashloom run does not read; `flashloom mkfs` of another file system removes it";
            return Err(Failure::at(path, reason));
        }
        let plan = self.choices.plan_on(&self.stack, opened.config, &source)?;
        let experiment = Experiment {
            plans: vec![plan],
            sources: vec![source],
        };
        let (mut run, left) = experiment.run_on(Some(opened.media), watchers)?;
        KEPT.clone_into(&mut run.precondition);
        if self.save {
            let saved = file.save(&experiment.plans[0].drive, &left, None);
            saved.map_err(|e| Failure::at(path, e))?;
        }
        Ok((experiment, run))
    }
}
