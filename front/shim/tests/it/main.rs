//! Programs under the library: what they do, and what the trace says they did.

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

/// A directory of its own for one test, in which programs run.
struct Place {
    folder: TempDir,
}

/// A program's run, recorded.
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

    /// Builds the C program in `source`.
    fn build(&self, source: &str, name: &str) -> PathBuf {
        self.build_with(source, name, &[])
    }

    /// The same, with libraries that are here.
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

    /// Runs `program` in the folder `within`, and records what happens there.
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
    /// The calls as lines, without times and threads.
    fn lines(&self) -> Vec<String> {
        let line = |event: &Event| {
            let text = event.text(&self.trace.names);
            let call = text.splitn(3, ' ').nth(2).unwrap().to_owned();
            call[..call.rfind(" +").unwrap()].to_owned()
        };
        self.trace.events.iter().map(line).collect()
    }

    /// Every open file is closed, once.
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
