//! `shim`: runs a program with its files placed.

use super::failure::Failure;
use super::output::note;
use super::record::code;
use clap::Args;
use shim::run::{Placer, unseen};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
/// What was forced is there after the program has been killed; what was not may be lost,
/// as buffers are in its memory. One process at a time has the zones. Programs without
/// the library see placed files as zeros. Programs that are linked statically, or written
/// in Go, are not seen.
#[derive(Args)]
pub(crate) struct Shim {
    /// The rules: a file, or ready ones (rocksdb, wiredtiger, cachelib, kafka, …)
    #[arg(long, value_name = "RULES")]
    rules: PathBuf,
    /// A mounted zonefs, or a folder that does as one
    #[arg(long, value_name = "DIR")]
    zones: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Shim {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let (program, arguments) = self.command.split_first().expect("it is required");
        if let Some(why) = unseen(program) {
            note(&format!(
                "flashloom: {}: {why}",
                Path::new(program).display()
            ));
        }
        let zones = self.zones.as_deref();
        if let Some(zones) = zones.filter(|zones| !zones.join("seq").is_dir()) {
            return Err(Failure::at(zones, "it has no folder `seq` of zones"));
        }
        let placer = Placer::new()?;
        let status = placer.run((program, arguments), &self.rules, zones);
        Ok(code(
            status.map_err(|e| Failure::at(Path::new(program), e))?,
        ))
    }
}
