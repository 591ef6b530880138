//! `record --block`: records the requests of a block device by the kernel's tracepoint of issued
//! requests.
//!
//! Invariant: the tracepoint is enabled in an instance of its own, so other users of tracing are not
//! disturbed, and the instance goes when the recording ends.

use super::failure::Failure;
use super::file::{beside, check_place};
use super::output::note;
use engine::Signals;
use rustix::fs::{major, minor};
use shim::ends::Ends;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Usual mount points of tracefs.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// First line of the trace, as ftrace writes it.
const HEADING: &[u8] = b"# tracer: nop\n";

/// Buffer of the kernel for each processor, in KiB.
const BUFFER_KIB: &str = "16384";

/// Event of a request that the kernel issues to a disk.
const EVENT: &str = "events/block/block_rq_issue";

/// Time between two looks for new events. The buffer holds some 100,000 events.
const PAUSE: Duration = Duration::from_millis(50);

/// Records the requests to `device` into `out` while the program `command` runs, or, without one,
/// until a signal ends the recording.
pub(super) fn record(device: &Path, out: &Path, command: &[OsString]) -> Result<ExitCode, Failure> {
    check_place(out)?;
    let number = number(device)?;
    let instance = Instance::new(&root()?, number)?;
    let stop = Arc::new(AtomicBool::new(false));
    let waits = match command {
        [] => Waits::Signal(Signals::hold()?),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments);
            Waits::Program(Box::new(command), Path::new(program))
        }
    };
    let mut file = beside(out)?;
    let mut events = instance.events()?;
    let ended = Arc::clone(&stop);
    let (status, count) = thread::scope(|scope| {
        let out = BufWriter::new(&mut file);
        let copy = || copy(&mut events, out, &ended, || instance.end());
        let copying = scope.spawn(copy);
        let status = waits.wait(&stop, &copying);
        stop.store(true, Ordering::Relaxed);
        let count = copying.join().expect("it does not panic");
        (status, count)
    });
    let (status, count) = (status?, count.map_err(|e| Failure::at(out, e))?);
    if count == 0 {
        let reason =
            "no request was issued to this disk while it was recorded, so no trace was written";
        return Err(Failure::at(device, reason));
    }
    file.finish()?;
    note(&format!(
        "flashloom: {}: {count} lines of requests to {}",
        out.display(),
        device.display()
    ));
    Ok(status)
}

/// Event that ends a recording.
enum Waits<'a> {
    Signal(Signals),
    Program(Box<Command>, &'a Path),
}

impl Waits<'_> {
    /// Waits for the end, or for a failure of the copy.
    fn wait<T>(
        self,
        stop: &Arc<AtomicBool>,
        copying: &thread::ScopedJoinHandle<'_, T>,
    ) -> Result<ExitCode, Failure> {
        match self {
            Self::Signal(signals) => {
                let stops = Arc::clone(stop);
                signals.watch(move |_| {
                    stops.store(true, Ordering::Relaxed);
                    true
                })?;
                note("flashloom: recording; ctrl-C ends it");
                while !stop.load(Ordering::Relaxed) && !copying.is_finished() {
                    thread::sleep(PAUSE);
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Program(command, program) => {
                let status = Ends::begin().run(*command);
                status
                    .map(super::record::code)
                    .map_err(|e| Failure::at(program, e))
            }
        }
    }
}

/// Number of the disk at `device` in the events of the kernel.
fn number(device: &Path) -> Result<u64, Failure> {
    let about = fs::metadata(device).map_err(|e| Failure::at(device, e))?;
    if !about.file_type().is_block_device() {
        return Err(Failure::at(device, "expected a block device"));
    }
    let (major, minor) = (major(about.rdev()), minor(about.rdev()));
    if Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists() {
        let reason = "expected a whole disk, whose number requests carry, found a partition";
        return Err(Failure::at(device, reason));
    }
    Ok(u64::from(major) << 20 | u64::from(minor))
}

/// Finds the directory in which tracefs is mounted.
fn root() -> Result<PathBuf, Failure> {
    let roots = ROOTS.map(PathBuf::from);
    let found = roots
        .into_iter()
        .find(|root| root.join("instances").is_dir());
    found.ok_or_else(|| {
        Failure::new(
            "--block: expected tracefs at /sys/kernel/tracing, which root can read (mount -t tracefs \
             nodev /sys/kernel/tracing), found none",
        )
    })
}

/// Instance of the kernel's tracing for one recording.
struct Instance {
    dir: PathBuf,
}

impl Instance {
    /// Begins to trace the requests of the disk `number`, in the tracefs at `root`.
    fn new(root: &Path, number: u64) -> Result<Self, Failure> {
        let dir = root.join(format!("instances/flashloom-{}", std::process::id()));
        match fs::create_dir(&dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(refused(&dir, &e)),
            _ => {}
        }
        let instance = Self { dir };
        instance.set("buffer_size_kb", BUFFER_KIB)?;
        instance.set("trace_clock", "mono")?;
        instance.set(&format!("{EVENT}/filter"), &format!("dev == {number}"))?;
        instance.set(&format!("{EVENT}/enable"), "1")?;
        Ok(instance)
    }

    /// Ends the tracing; the events so far stay.
    fn end(&self) -> io::Result<()> {
        fs::write(self.dir.join(format!("{EVENT}/enable")), "0")
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        fs::write(&path, value).map_err(|e| refused(&path, &e))
    }

    /// The events as text, without waiting for the next one.
    fn events(&self) -> Result<File, Failure> {
        let path = self.dir.join("trace_pipe");
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("it is one bit");
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path);
        opened.map_err(|e| refused(&path, &e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel ends with it what it traces; a leftover would only hold memory.
        let _ = fs::remove_dir(&self.dir);
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::at(
        path,
        format!("{error}: recording requests takes root and a kernel with block tracepoints"),
    )
}

/// Copies events until `stop` is set, then calls `end`, after which no more come, and copies those
/// that are left; returns the number of lines.
fn copy(
    events: &mut impl Read,
    mut out: impl Write,
    stop: &AtomicBool,
    end: impl FnOnce() -> io::Result<()>,
) -> io::Result<u64> {
    out.write_all(HEADING)?;
    let mut buffer = vec![0; 1 << 16];
    let (mut lines, mut end) = (0, Some(end));
    loop {
        if let Some(end) = end.take_if(|_| stop.load(Ordering::Relaxed)) {
            end()?;
        }
        match events.read(&mut buffer) {
            Ok(length) if length > 0 => {
                let text = &buffer[..length];
                lines += text.iter().filter(|byte| **byte == b'\n').count() as u64;
                out.write_all(text)?;
            }
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Err(e);
            }
            _ if end.is_none() => break,
            _ => thread::sleep(PAUSE),
        }
    }
    out.flush()?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_selects_the_disk_and_its_events_are_copied() {
        let root = tempfile::tempdir().unwrap();
        let dir = root
            .path()
            .join(format!("instances/flashloom-{}", std::process::id()));
        let event = dir.join("events/block/block_rq_issue");
        fs::create_dir_all(&event).unwrap();
        let line = "dd-1 [000] ..... 1.5: block_rq_issue: 259,1 W 4096 () 8 + 8 none,0,0 [dd]\n";
        fs::write(dir.join("trace_pipe"), line).unwrap();
        let instance = Instance::new(root.path(), 259 << 20 | 1).unwrap();
        let filter = fs::read_to_string(event.join("filter")).unwrap();
        assert_eq!(filter, "dev == 271581185");
        let mut out = Vec::new();
        let stop = AtomicBool::new(true);
        let end = || instance.end();
        let lines = copy(&mut instance.events().unwrap(), &mut out, &stop, end).unwrap();
        assert_eq!((lines, out), (1, [HEADING, line.as_bytes()].concat()));
        let enabled = fs::read_to_string(event.join("enable")).unwrap();
        assert_eq!(enabled, "0");
    }

    #[test]
    fn recording_of_a_busy_disk_ends_with_its_event() {
        /// Events of a disk that always has one more, until its event is disabled.
        struct Busy<'a>(&'a AtomicBool);
        impl Read for Busy<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer[0] = b'\n';
                Ok(usize::from(self.0.load(Ordering::Relaxed)))
            }
        }
        let is_enabled = AtomicBool::new(true);
        let end = || {
            is_enabled.store(false, Ordering::Relaxed);
            Ok(())
        };
        let stop = AtomicBool::new(true);
        let copied = copy(&mut Busy(&is_enabled), io::sink(), &stop, end);
        assert_eq!(copied.unwrap(), 0);
    }

    #[test]
    fn file_that_is_no_device_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = format!("{:?}", number(file.path()).unwrap_err());
        assert!(refused.contains("expected a block device"), "{refused}");
    }
}
