//! The commands, each declared once: its parser, its help, its function.

mod accesses;
mod bench;
mod blocks;
mod cache;
mod calibrate;
mod calls;
mod chunks;
mod compare;
mod crash;
mod daemon;
mod designs;
mod designs_page;
mod drive;
mod examples;
mod experiment;
mod failure;
mod fdp;
mod file;
mod filesystem;
mod found;
mod http;
mod inspect;
mod kept;
mod learn;
mod lists;
mod live;
mod manual;
mod memory;
mod metrics;
mod mount;
mod outcomes;
mod output;
mod past;
mod patience;
mod play;
mod powercut;
mod progress;
mod pts;
mod rank;
mod record;
mod recover;
mod reproduce;
mod run;
mod secrets;
mod serve;
mod shim;
mod snapshot;
mod soak;
mod told;
mod trace;
mod tracing;
mod ui;
mod validate;
mod watch;
mod zonefs;
mod zones;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use output::Shown;
use progress::during;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// SSD simulator: run file systems, traces and programs on drives with block, stream, FDP, zoned,
/// open-channel and byte interfaces.
///
/// Start with `flashloom compare`: it replays recorded file calls of RocksDB on ext4 over three
/// kinds of SSD, prints a table and writes report.html.
#[derive(Parser)]
#[command(name = "flashloom", version, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands, in the order of the help.
#[derive(Subcommand)]
enum Command {
    Compare(compare::Compare),
    Run(run::Run),
    Play(play::Play),
    Why(past::Why),
    History(past::History),
    Diff(past::Diff),
    Stacks(lists::Stacks),
    Drives(lists::Drives),
    Workloads(lists::Workloads),
    #[command(subcommand)]
    Drive(drive::Command),
    Record(record::Record),
    Shim(shim::Shim),
    #[command(subcommand)]
    Trace(trace::Command),
    Learn(learn::Learn),
    Serve(serve::Serve),
    Mkfs(filesystem::Mkfs),
    Mount(mount::Mount),
    Fsck(filesystem::Fsck),
    Snapshot(snapshot::Snapshot),
    Inspect(inspect::Inspect),
    #[command(subcommand)]
    Cache(cache::Command),
    Crash(crash::Crash),
    Powercut(powercut::Powercut),
    Soak(soak::Soak),
    Memory(memory::Memory),
    Reproduce(reproduce::Reproduce),
    Validate(validate::Validate),
    Calibrate(calibrate::Calibrate),
    Pts(pts::Pts),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Answer of a command: text for standard output.
type Answer = Result<String, Failure>;

impl Command {
    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Record(record) => record.run(),
            Self::Shim(shim) => shim.run(),
            Self::Fsck(fsck) => fsck.run(),
            Self::Crash(crash) => crash.run(),
            Self::Powercut(powercut) => powercut.run(),
            Self::Play(play) => play.run(),
            Self::Soak(soak) => soak.run(),
            Self::Reproduce(reproduce) => reproduce.run(),
            Self::Validate(validate) => validate.run(),
            Self::Run(run) => run.run(),
            Self::Compare(compare) => compare.run(),
            Self::Memory(memory) => memory.run(),
            _ => self.answer().map(|answer| output::emit(&answer)),
        }
    }

    /// Answer of a command whose status is 0 on success; empty for commands with a status of their
    /// own.
    fn answer(&self) -> Answer {
        match self {
            Self::Record(_)
            | Self::Shim(_)
            | Self::Fsck(_)
            | Self::Crash(_)
            | Self::Powercut(_)
            | Self::Play(_)
            | Self::Soak(_)
            | Self::Reproduce(_)
            | Self::Validate(_)
            | Self::Run(_)
            | Self::Compare(_)
            | Self::Memory(_) => Ok(String::new()),
            Self::Why(why) => why.run(),
            Self::History(history) => history.run(),
            Self::Diff(diff) => diff.run(),
            Self::Stacks(stacks) => stacks.run(),
            Self::Drives(drives) => drives.run(),
            Self::Workloads(workloads) => workloads.run(),
            Self::Drive(command) => command.run(),
            Self::Trace(command) => during("reading the trace", || command.run()),
            Self::Learn(learn) => during("learning", || learn.run()),
            Self::Serve(serve) => serve.run(),
            Self::Mkfs(mkfs) => during("making the file system", || mkfs.run()),
            Self::Mount(mount) => mount.run(),
            Self::Snapshot(snapshot) => snapshot.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Cache(command) => command.run(),
            Self::Completions(completions) => completions.run(),
            Self::Calibrate(calibrate) => calibrate.answer(),
            Self::Pts(pts) => pts.run(),
            Self::Man(man) => man.run(),
        }
    }
}

/// Parses a count of at least 1.
fn some(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a number of at least 1")
}

/// Number of parallel runs: `asked`, or one per core.
fn jobs(asked: Option<NonZeroUsize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

/// Parses the command line, runs the command and prints its answer.
pub(crate) fn main() -> ExitCode {
    if std::env::args_os().len() < 2 {
        return output::emit(&declared().render_help().to_string());
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match read(&words) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => return output::emit(&help(&error)),
        Err(error) => return Failure::usage(&error).report(),
    };
    cli.command.run().unwrap_or_else(|failure| failure.report())
}

/// The commands with the examples of their help.
fn declared() -> clap::Command {
    examples::with_examples(Cli::command(), "")
}

/// The command of a line. A file system that is not named is left to be found on its drive.
fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
    parse(words).or_else(|error| match found::with_found(words, &error) {
        Some(words) => parse(&words).map_err(|again| found::told(error, again)),
        None => Err(error),
    })
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = with_negative_numbers(declared()).try_get_matches_from(words);
    matches.and_then(|matches| Cli::from_arg_matches(&matches))
}

/// Parses `-1` as a value, not as an unknown option, so that the error names the option whose value
/// is out of range.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(with_negative_numbers)
}

/// Help as text, in colour if standard output is a terminal.
fn help(error: &clap::Error) -> String {
    let text = error.render();
    match Shown::style().color {
        true => text.ansi().to_string(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_sound() {
        Cli::command().debug_assert();
    }
}
