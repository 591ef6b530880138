//! `shim`: runs a program with its files placed.

use super::failure::Failure;
use super::output::{emit, note};
use super::record::{Recording, code};
use clap::{Args, Subcommand};
use engine::Signals;
use fuse::{MountOptions, Show, TreeFs};
use shim::ends::Ends;
use shim::run::{Keeper, Placer, READY, check, unseen};
use shim::view::View;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Run a program unmodified, with its files placed in zones or given lifetime hints
///
/// The program runs unmodified: a preloaded library handles its calls on files whose paths match
/// the rules. With --zones, the contents of such a file are written to zones, and a placeholder
/// file of the same name keeps its directory entry and permissions. A write that a zone cannot
/// take, such as an overwrite, moves the file to the ordinary file system. Without --zones,
/// matching files get the kernel's lifetime hints (F_SET_RW_HINT). Files that match no rule are
/// left alone. The exit status is that of the program; 128 plus the signal number if a signal ended
/// it.
///
/// One daemon manages the zones for all programs that use them. It is started on demand, restarted
/// if it dies, and exits with its last client. Data synced by fsync or fdatasync survive if the
/// program, the daemon or the drive is killed; unsynced writes survive only a kill of the program.
/// After the daemon is killed, calls wait up to 5 s for its successor. Calls on a file whose last
/// writes were unsynced then fail with EIO until every process has closed the file, because these
/// writes are lost. fallocate on a placed file succeeds without any effect, even on the length.
///
/// Without the library, a program such as `cp -a` reads a short notice and zeros in place of a
/// placed file's contents; under the library, reading a copy made so fails with EIO. `shim view`
/// shows the contents. Other programs see the current length of a placed file once the file
/// is closed or synced, or its last process has ended. Statically linked programs, Go programs,
/// setuid programs and calls before main bypass the library. Rules choose the place of new files
/// only: a placed file stays placed under other rules.
///
/// SIGTERM and SIGHUP are passed to the program; `shim` exits as the program does.
///
/// A directory of zones is a mounted zonefs: `flashloom mount zonefs` emulates one without root (see
/// the examples), and Linux mounts a zoned drive of its own with mount -t zonefs.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Shim {
    #[command(subcommand)]
    part: Option<Part>,
    /// Placement rules: a file, or a shipped set (rocksdb, wiredtiger, cachelib, kafka, …)
    #[arg(long, required = true, value_name = "RULES")]
    rules: Option<PathBuf>,
    /// Directory of zones: a mounted zonefs. Without it, files get lifetime hints only
    #[arg(long, value_name = "DIR")]
    zones: Option<PathBuf>,
    /// Record the program's file calls to this trace, as `flashloom record` does
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Subcommand)]
enum Part {
    Serve(Serve),
    View(Shown),
}

/// Run the daemon that manages the zones
///
/// Programs under `flashloom shim` use this daemon, or start one if none runs. Stop a daemon that
/// was started by hand only while no program uses it: otherwise unsynced writes are lost.
#[derive(Args)]
struct Serve {
    /// Directory of zones: a mounted zonefs (see `flashloom shim --help`)
    #[arg(value_name = "ZONES")]
    zones: PathBuf,
    /// Exit with the last client
    #[arg(long)]
    while_used: bool,
}

/// Mount the placed files read-only, for programs without the library
///
/// Each placed file appears at its full path below the mount point, with the permissions of the
/// file that represents it.
#[derive(Args)]
struct Shown {
    /// Directory of zones, as --zones of `flashloom shim`
    #[arg(value_name = "ZONES")]
    zones: PathBuf,
    /// Mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// A daemon of zones, as a process of this program.
fn keep(zones: &Path) -> Result<Keeper, Failure> {
    let own = std::env::current_exe()?;
    let of = zones.to_owned();
    let daemon = move || {
        let mut daemon = Command::new(&own);
        daemon
            .args(["shim", "serve", "--while-used", "--"])
            .arg(&of);
        daemon
    };
    Keeper::new(zones, daemon).map_err(|why| Failure::at(zones, why))
}

/// The absolute path of a folder of zones.
fn folder(zones: &Path) -> Result<PathBuf, Failure> {
    if !zones.join("seq").is_dir() {
        return Err(Failure::at(
            zones,
            "expected a mounted zonefs or a directory that emulates one: \
            the folder `seq` is missing",
        ));
    }
    zones.canonicalize().map_err(|e| Failure::at(zones, e))
}

impl Shim {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.part {
            Some(Part::Serve(serve)) => serve.run(),
            Some(Part::View(shown)) => shown.run(),
            None => self.place(),
        }
    }

    fn place(&self) -> Result<ExitCode, Failure> {
        let (program, arguments) = self.command.split_first().expect("it is required");
        let rules = self.rules.as_deref().expect("they are required");
        check(rules).map_err(Failure::new)?;
        let ends = Ends::begin();
        if let Some(why) = unseen(program) {
            note(&format!(
                "flashloom: {}: {why}",
                Path::new(program).display()
            ));
        }
        let zones = self.zones.as_deref().map(folder).transpose()?;
        let record = self.record.as_deref();
        let recording = record.map(|out| Recording::new(out, &self.command));
        let recording = recording.transpose()?;
        let _keeper = zones.as_deref().map(keep).transpose()?;
        let failed = |error| Failure::at(Path::new(program), error);
        let placer = Placer::new()?;
        let command = placer.command((program, arguments), rules, zones.as_deref());
        let command = command.map_err(failed)?;
        let Some(recording) = recording else {
            return Ok(code(ends.run(command).map_err(failed)?));
        };
        let status = recording.run(&ends, command)?;
        recording.keep()?;
        Ok(code(status))
    }
}

impl Serve {
    fn run(&self) -> Result<ExitCode, Failure> {
        let ready = || {
            emit(&format!("{READY}\n"));
        };
        match shim::daemon::serve(&self.zones, !self.while_used, ready) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // The process that started this daemon reads the reason, and reports it.
            Err(why) if self.while_used => {
                emit(&format!("{why}\n"));
                Ok(ExitCode::FAILURE)
            }
            Err(why) => Err(Failure::at(&self.zones, why)),
        }
    }
}

/// Placed files, as the FUSE front reads them.
struct Files(View);

impl fuse::Tree for Files {
    fn list(&self) -> io::Result<Vec<Vec<u8>>> {
        self.0.list()
    }

    fn find(&self, path: &[u8]) -> io::Result<(u64, u64)> {
        self.0.find(path)
    }

    fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.read(number, offset, len)
    }
}

impl Shown {
    fn run(&self) -> Result<ExitCode, Failure> {
        let signals = Signals::hold()?;
        let zones = folder(&self.zones)?;
        let _keeper = keep(&zones)?;
        let name = zones.display().to_string();
        let options = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        let show = Show::FileSystem(&name, options);
        let files = TreeFs::new(Files(View::new(&zones)));
        let mounted = fuse::mount(files, &self.dir, show, signals).map_err(Failure::new)?;
        note(&format!(
            "the placed files are mounted at {}",
            self.dir.display()
        ));
        mounted.wait(|| note("a program still has files open: waiting until it closes them"))?;
        Ok(ExitCode::SUCCESS)
    }
}
