//! Recording of programs: their calls, compared with the trace.

mod allocators;
mod edges;
mod every;
mod hostile;
mod mapped;
mod model;
mod pipes;
mod place;
mod programs;
mod safe;
mod share;
mod streams;

use shim::convert::{Options, Outcome, convert};
use shim::run::Spool;
use std::ffi::OsString;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use workload::files::trace::{FileTrace, LoadedFiles};
use workload::files::{Call, Event};

/// A temporary directory for one test, in which programs run.
struct Place {
    folder: TempDir,
}

/// The recording of a program's run: its trace and the conversion's outcome.
struct Recorded {
    trace: LoadedFiles,
    outcome: Outcome,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles the C program `source` to the file `name`.
    fn build(&self, source: &str, name: &str) -> PathBuf {
        self.build_with(source, name, &[])
    }

    /// Compiles a C program and links it with `libraries` from this directory.
    fn build_with(&self, source: &str, name: &str, libraries: &[&str]) -> PathBuf {
        let program = self.path(name);
        std::fs::write(self.path("source.c"), source).unwrap();
        let mut cc = Command::new("cc");
        let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
        cc.args(["-O2", "-D_FORTIFY_SOURCE=2", "-pthread"]);
        cc.args(["-I", headers, "-o"]);
        cc.arg(&program).arg(self.path("source.c"));
        let here = self.folder.path().display();
        cc.args([format!("-L{here}"), format!("-Wl,-rpath,{here}")]);
        let status = cc
            .args(libraries.iter().map(|it| format!("-l{it}")))
            .status();
        assert!(status.expect("cc runs").success());
        std::fs::remove_file(self.path("source.c")).unwrap();
        program
    }

    /// Runs `program` in the folder `within`, and records its calls below that.
    fn record(&self, within: &str, program: &Path, arguments: &[&str]) -> Recorded {
        let folder = self.path(within);
        std::fs::create_dir_all(&folder).unwrap();
        let script = format!("cd '{}' && exec \"$0\" \"$@\"", folder.display());
        let words = [OsString::from("-c"), script.into(), program.into()];
        let more = arguments.iter().map(OsString::from);
        let words: Vec<_> = words.into_iter().chain(more).collect();
        let spool = Spool::new().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(&words);
        spool.watch(&mut command);
        let status = command.status().unwrap();
        assert!(status.success(), "{program:?}: {status}");
        let options = Options {
            under: Some(folder.canonicalize().unwrap()),
            ..Options::default()
        };
        let mut bytes = Vec::new();
        let outcome = convert(&spool.folders(), &options, &mut bytes).unwrap();
        let trace = FileTrace::from_reader("t", Cursor::new(bytes)).unwrap();
        Recorded {
            trace: trace.load().unwrap(),
            outcome,
        }
    }
}

impl Recorded {
    /// Each call as a line, without its time and thread.
    fn lines(&self) -> Vec<String> {
        let line = |event: &Event| {
            let text = event.text(&self.trace.names);
            let call = text.splitn(3, ' ').nth(2).unwrap().to_owned();
            call[..call.rfind(" +").unwrap()].to_owned()
        };
        self.trace.events.iter().map(line).collect()
    }

    /// Checks that every opened file is closed exactly once, and that nothing was missed.
    fn check(&self) {
        let mut open = std::collections::BTreeSet::new();
        for event in &self.trace.events {
            match event.step.call {
                Call::Open { fd, .. } if event.result.is_ok() => assert!(open.insert(fd)),
                Call::Close { fd } => assert!(open.remove(&fd)),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(self.outcome.notes.is_empty(), "{:?}", self.outcome.notes);
    }
}
