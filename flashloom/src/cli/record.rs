//! `record`: runs a program and records its file calls, or its memory accesses.

use super::accesses;
use super::blocks;
use super::failure::Failure;
use super::file::{beside, check_place};
use super::output::note;
use clap::Args;
use report::human;
use shim::convert::{ConvertError, Options, Outcome, convert};
use shim::ends::Ends;
use shim::run::Spool;
use std::ffi::OsString;
use std::io::BufWriter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// Run a program and record its file calls or memory accesses
///
/// The unmodified program runs with a preloaded library that logs its calls, and those of its
/// children, on regular files and directories: thread, time, duration and result. When the program
/// has ended, the log becomes a trace and a summary goes to standard error. The exit status is that
/// of the program; 128 plus the signal number if a signal ended it; 2 if nothing could be recorded.
/// SIGTERM and SIGHUP are passed to the program, and the trace is written once the program has
/// ended.
///
/// The trace covers the working directory and every directory in which the program changed a file.
/// Calls on other files, and on system directories (/usr, /etc and the like) that the program did
/// not change, are left out; their duration counts as think time. File contents are not recorded.
/// For each file that existed before, the trace holds name, size and kind.
///
/// Not recorded: statically linked programs, setuid programs such as sudo, requests through
/// io_uring and libaio, direct system calls, and calls of children after the program has ended.
/// Loads and stores through mmap are recorded page by page when the range is written back or
/// unmapped.
///
/// With --memory, the program runs under Valgrind's lackey instead, some hundred times slower, and
/// the trace holds each load, store and instruction. All threads are recorded as one stream; child
/// processes are not recorded.
///
/// With --block, the trace holds the requests that the kernel issues to a disk, whichever process
/// they come from, until CMD has ended or, without CMD, until ctrl-C. It takes root and tracefs, and
/// is written as the kernel prints it; `flashloom trace info` reads it. Keep it on another disk. If
/// no request came, no trace is written, and the exit status is 2.
#[derive(Args)]
pub(crate) struct Record {
    /// Path of the trace
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Keep only calls under this directory; paths become relative to it
    #[arg(long, value_name = "DIR")]
    under: Option<PathBuf>,
    /// Record loads and stores under Valgrind
    #[arg(long, conflicts_with_all = ["under", "all"])]
    memory: bool,
    /// Keep all calls, including those on system files
    #[arg(long, conflicts_with = "under")]
    all: bool,
    /// Record the requests to this disk, by the kernel's tracepoints
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["under", "all", "memory"])]
    block: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, required_unless_present = "block", value_name = "CMD")]
    command: Vec<OsString>,
}

impl Record {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        if let Some(device) = &self.block {
            return blocks::record(device, &self.out, &self.command);
        }
        let ends = Ends::begin();
        if self.memory {
            check_place(&self.out)?;
            return accesses::record(&ends, &self.command, &self.out).map(code);
        }
        let real = |path: &Path| path.canonicalize().map_err(|e| Failure::at(path, e));
        let under = self.under.as_deref().map(real).transpose()?;
        let recording = Recording::new(&self.out, &self.command)?;
        let recording = recording.of(under, self.all);
        let (program, arguments) = self.command.split_first().expect("it is required");
        let mut command = Command::new(program);
        command.args(arguments);
        let status = recording.run(&ends, command)?;
        recording.keep()?;
        Ok(code(status))
    }
}

/// A recording in progress, from a program to a trace.
pub(super) struct Recording<'a> {
    out: &'a Path,
    program: &'a Path,
    options: Options,
    spool: Spool,
}

impl<'a> Recording<'a> {
    /// A recording of the command `words`, into the file `out`.
    pub(super) fn new(out: &'a Path, words: &'a [OsString]) -> Result<Self, Failure> {
        check_place(out)?;
        let bytes: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        let options = Options {
            under: None,
            all: false,
            folder: std::env::current_dir()?,
            command: OsString::from_vec(bytes.join(&b' ')).into_vec(),
        };
        Ok(Self {
            out,
            program: Path::new(&words[0]),
            options,
            spool: Spool::new()?,
        })
    }

    fn of(mut self, under: Option<PathBuf>, all: bool) -> Self {
        (self.options.under, self.options.all) = (under, all);
        self
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, ends: &Ends, mut command: Command) -> Result<ExitStatus, Failure> {
        self.spool.watch(&mut command);
        let status = ends.run(command);
        status.map_err(|e| Failure::at(self.program, e))
    }

    /// Writes the trace, and prints its summary.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        let file = beside(self.out)?;
        let outcome = convert(
            &self.spool.folders(),
            &self.options,
            BufWriter::new(file.file()),
        );
        let outcome = outcome.map_err(|error| match error {
            ConvertError::Nothing => Failure::at(self.program, error),
            error => Failure::at(self.out, error),
        })?;
        file.finish()?;
        told(self.out, &outcome);
        Ok(())
    }
}

pub(super) fn code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| signal + 128);
    let code = status.code().or(signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn told(out: &Path, outcome: &Outcome) {
    let sum = &outcome.summary;
    let count = |n: u64| human::count(n as f64);
    note(&format!(
        "flashloom: {}: {} calls of {} threads in {} processes on {} paths under {}; read {}, wrote \
         {}, synced {} times",
        out.display(),
        count(sum.calls),
        count(sum.threads),
        count(sum.processes),
        count(sum.paths),
        outcome.root.display(),
        human::bytes(sum.read_bytes as f64),
        human::bytes(sum.write_bytes as f64),
        count(sum.syncs),
    ));
    for lacks in &outcome.notes {
        note(&format!("flashloom: not recorded: {lacks}"));
    }
}
