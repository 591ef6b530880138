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

/// Run a program with its files placed in zones, or with hints
///
/// The program is not changed: a library in front of the C library answers its calls on
/// files that the rules name. With --zones their bytes go to the zones, and an ordinary
/// file of the same name stands for each, so that folders, names and permissions are as
/// ever. What a zone cannot hold, such as a write to the past, moves a file to the ordinary
/// file system. Without --zones files get the kernel's hints of lifetimes. Files that no
/// rule names are left alone. The exit status is that of the program; 128 and the number of
/// the signal if one ended it.
///
/// A daemon has the zones, for all programs that use them. It is started if there is none,
/// and again if it dies; it ends with the last who uses it. What was forced is there after
/// the program, the daemon or the drive has been killed, and what was written after the
/// program has. When the daemon is killed, calls wait up to 5 s for the next one and go on.
/// One file answers EIO then, until all have closed it: that of which something was written
/// and not yet forced, since its end is lost. Room that is asked for (fallocate) is granted
/// and changes nothing, not the length either.
///
/// Programs without the library find a sentence and zeros in place of a placed file's bytes;
/// so they do in a copy of that (cp -a), which is refused with EIO under the library. They
/// read placed files by `shim view`. A placed file's length is theirs to see once it was
/// closed or forced, or the last program that has it open has ended.
/// Programs that are linked statically, written in Go, or gain rights when they start are not
/// seen, nor what the libraries of a program do before its own code runs. What is placed stays
/// so under other rules, which say only where new files go.
///
/// SIGTERM and SIGHUP go on to the program, and this ends as that does.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Shim {
    #[command(subcommand)]
    part: Option<Part>,
    /// The rules: a file, or ready ones (rocksdb, wiredtiger, cachelib, kafka, …)
    #[arg(long, required = true, value_name = "RULES")]
    rules: Option<PathBuf>,
    /// A mounted zonefs, or a folder that does as one
    #[arg(long, value_name = "DIR")]
    zones: Option<PathBuf>,
    /// Write a trace of its file calls, placed or not, as `flashloom record` does
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Subcommand)]
enum Part {
    Serve(Serve),
    View(Shown),
}

/// Be the daemon of zones
///
/// Programs that run by `flashloom shim` find it, or start one. Who serves by hand can stop
/// it while nobody uses it: what was not forced would be lost to those who do.
#[derive(Args)]
struct Serve {
    /// A mounted zonefs, or a folder that does as one
    #[arg(value_name = "ZONES")]
    zones: PathBuf,
    /// End with the last who uses it
    #[arg(long)]
    while_used: bool,
}

/// Show placed files to programs without the library, to be read
///
/// Each is at its whole path beneath the directory, with the rights of the file that stands
/// for it.
#[derive(Args)]
struct Shown {
    /// The zones
    #[arg(value_name = "ZONES")]
    zones: PathBuf,
    /// The directory to mount on, until it is unmounted
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
        return Err(Failure::at(zones, "it has no folder `seq` of zones"));
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

/// Placed files, in the form that the FUSE front needs.
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
        note(&format!("placed files are shown in {}", self.dir.display()));
        mounted.wait(|| note("someone still reads: waiting"))?;
        Ok(ExitCode::SUCCESS)
    }
}
