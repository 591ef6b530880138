//! Traces of memory accesses: recording through Valgrind, and summaries.

use super::Answer;
use super::failure::Failure;
use super::file::beside;
use super::output::{Shown, note};
use programs::trace::{Format, Reader, Writer};
use programs::{Character, Workload, characterise};
use report::human;
use report::table::facts;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use serde::Serialize;
use shim::ends::Ends;
use sim::Seed;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

/// Interval of attempts to wake a reader whose pipe Valgrind never opened.
const PATIENCE: Duration = Duration::from_millis(10);

/// Runs `command` under Valgrind's lackey and streams its accesses to `out`. Signals that `ends`
/// this process go to the program.
pub(super) fn record(ends: &Ends, command: &[OsString], out: &Path) -> Result<ExitStatus, Failure> {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("accesses");
    let own = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &pipe, FileType::Fifo, own, 0).map_err(|e| Failure::at(&pipe, e))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]);
    valgrind.arg(format!("--log-file={}", pipe.display()));
    valgrind.arg("--").args(command);
    let mut file = beside(out)?;
    let (status, count) = thread::scope(|scope| {
        let reader = scope.spawn(|| convert(&pipe, BufWriter::new(&mut file)));
        let status = ends.run(valgrind);
        // If Valgrind never opened the pipe, the reader still waits for a writer.
        while !reader.is_finished() {
            drop(open(
                &pipe,
                OFlags::WRONLY | OFlags::NONBLOCK,
                Mode::empty(),
            ));
            thread::sleep(PATIENCE);
        }
        (status, reader.join().expect("the reader does not panic"))
    });
    let status = status.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Failure::new("recording memory accesses needs valgrind: install the package valgrind")
        }
        _ => Failure::at(Path::new("valgrind"), e),
    })?;
    let count = count?;
    if count == 0 {
        let program = Path::new(&command[0]);
        return Err(Failure::at(
            program,
            "nothing was recorded; see the output of valgrind above",
        ));
    }
    file.finish()?;
    note(&format!(
        "flashloom: {}: {} operations; all threads are recorded as one stream, in the order in \
         which Valgrind ran them, and without address dependencies",
        out.display(),
        human::count(count as f64),
    ));
    Ok(status)
}

/// Converts lackey's text to our format; returns the number of operations.
fn convert(pipe: &Path, out: impl Write) -> Result<u64, Failure> {
    let lackey = Some(Format::Lackey);
    let mut reader = Reader::new("valgrind", File::open(pipe)?, lackey)?;
    let mut writer = Writer::new(out)?;
    let (mut ops, mut count) = (Vec::new(), 0);
    while reader.step(&mut ops)? {
        // The last operation may still grow: consecutive instructions are one operation.
        let whole = ops.len().saturating_sub(1);
        for op in ops.drain(..whole) {
            writer.op(op)?;
            count += 1;
        }
    }
    for op in ops {
        writer.op(op)?;
        count += 1;
    }
    writer.finish()?.flush()?;
    Ok(count)
}

/// Whether the contents of the file at `path` identify it as a trace of memory accesses.
pub(super) fn told(path: &Path) -> bool {
    let name = path.display().to_string();
    let reader = File::open(path)
        .ok()
        .and_then(|file| Reader::new(&name, file, None).ok());
    reader.is_some_and(|reader| !matches!(reader.format(), Format::ChampSim | Format::MacSim))
}

/// The document of `trace info`.
#[derive(Serialize)]
struct Facts {
    file: String,
    threads: u32,
    write_share: f64,
    #[serde(flatten)]
    character: Character,
}

/// Summarizes a trace of memory accesses.
pub(super) fn info(path: &Path, shown: Shown) -> Answer {
    let workload = Workload::parse(&format!("{}:warm=0", path.display()))?;
    let mut program = workload.program(Seed(1))?;
    let character = characterise(&mut *program);
    if let Some(why) = program.failure() {
        return Err(Failure::new(why));
    }
    let found = Facts {
        file: path.display().to_string(),
        threads: program.threads(),
        write_share: character.write_share(),
        character,
    };
    shown.answer("flashloom.trace-info/1", &found, |style| {
        let of = &found.character;
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let rows = vec![
            ("trace", format!("{}, of memory accesses", found.file)),
            ("threads", found.threads.to_string()),
            ("instructions", human::count(of.instructions as f64)),
            ("loads", human::count(of.loads as f64)),
            ("stores", human::count(of.stores as f64)),
            ("stores of accesses", share(found.write_share)),
            ("pages touched", human::bytes(of.touched_bytes as f64)),
            (
                "pages with at most 40 % of their lines touched",
                share(of.share_up_to(4)),
            ),
        ];
        facts(rows, style)
    })
}
