//! Files of the trace of a run: `--requests` and `--events`.

use super::failure::Failure;
use super::file::{self, Out};
use super::output::note;
use clap::Args;
use stack::{Sight, Tracer};
use std::io::{self, BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};

/// Files that the user asked for.
#[derive(Args)]
pub(crate) struct Traced {
    /// Write each command between host and drive as a row of CSV: its times, the parts of its time
    /// (submission, firmware, map, write buffer, wait for the die, die, wait for the channel,
    /// channel, other, completion), and the operation that the die was at when its read arrived.
    /// Loads and stores of a drive of bytes are not commands
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Write the work of each die, channel and collector, and each command, as trace events (JSON)
    /// that Perfetto (ui.perfetto.dev) opens; about 1 KB a command
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

impl Traced {
    /// The files that the user asked for.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.requests, &self.events];
        files.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Opens the files; `None` if none is asked for.
    pub(crate) fn open(&self) -> Result<Option<Tracing>, Failure> {
        if self.requests.is_some() && self.requests == self.events {
            let reason = "expected different files for --requests and --events";
            return Err(Failure::new(reason.to_owned()));
        }
        if self.paths().next().is_none() {
            return Ok(None);
        }
        let open = |path: &Option<PathBuf>| {
            let file = path.as_deref().map(file::beside).transpose()?;
            Ok::<_, Failure>(file.map(BufWriter::new))
        };
        let tracer = Tracer::new(open(&self.requests)?, open(&self.events)?);
        Ok(Some(Tracing {
            tracer,
            failed: Ok(()),
        }))
    }
}

/// Open files of the trace of a run.
pub(crate) struct Tracing {
    tracer: Tracer<BufWriter<Out>>,
    /// The first error of a file; nothing is written after it.
    failed: io::Result<()>,
}

impl Tracing {
    /// Writes the commands and events since the last call.
    pub(crate) fn see(&mut self, sight: &Sight<'_>) {
        if self.failed.is_ok() {
            self.failed = self.tracer.see(sight);
        }
    }

    /// Completes the files of `traced`.
    pub(crate) fn finish(self, traced: &Traced) -> Result<(), Failure> {
        self.failed?;
        let (requests, events) = self.tracer.finish()?;
        for file in [requests, events].into_iter().flatten() {
            let file = file.into_inner().map_err(IntoInnerError::into_error)?;
            file.finish()?;
        }
        for path in traced.paths() {
            note(&format!("flashloom: wrote {}", path.display()));
        }
        Ok(())
    }
}
