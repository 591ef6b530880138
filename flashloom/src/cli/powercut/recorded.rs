//! The run of the program on a mount, whose calls are recorded.

use crate::cli::failure::Failure;
use crate::cli::output::note;
use ::crash::{Recorder, Recording, Tape};
use engine::{Engine, Handle, Pace};
use fuse::{CloseError, MountOptions, Show, Volume, VolumeFs};
use powercut::{Output, Reins};
use stack::StackError;
use stack::crash::Fresh;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;
use tempfile::TempDir;
use vfs::AnyBody;

/// The mount of a program.
type Recorded = Volume<Recorder<AnyBody>>;

/// Errors of the start of the mount.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs the program `words` on a mount of `fresh`, and returns its calls.
pub(super) fn record(
    fresh: &Fresh,
    reins: &Reins,
    words: &[OsString],
    home: &Path,
) -> Result<Recording, Failure> {
    let program = Path::new(&words[0]);
    let (output, writer) = Output::new()?;
    let (fresh, heard) = (fresh.clone(), Arc::clone(&output));
    let start = fuse::timestamp(SystemTime::now());
    let started: Result<_, StartError> = Engine::start(
        Pace::Free,
        move |kernel| {
            let tape = Tape::new(move || heard.take());
            let vfs = fresh.record(kernel, tape, start)?;
            let volume = Volume::new(vfs, None);
            Ok(volume.telling(|why| note(&format!("no space: {why}"))))
        },
        |kernel, volume: Rc<Recorded>| volume.close(kernel),
    );
    let (engine, volume): (Engine<Result<(), CloseError>>, Handle<Recorded>) = started?;
    let dir = TempDir::with_prefix("flashloom-powercut-")?;
    let root = volume.ask(|volume: Rc<Recorded>| async move { volume.vfs().root() })?;
    let filesystem = VolumeFs::new(volume.clone(), root);
    let show = Show::FileSystem("powercut", MountOptions::default());
    let mounted = fuse::mount_alone(filesystem, dir.path(), show)?;
    let ran = powercut::run(reins, words, (dir.path(), home), writer);
    // The end of the mount writes back what the kernel caches.
    let ended = mounted.end();
    let taken = volume
        .ask(move |volume: Rc<Recorded>| async move { volume.vfs().body().tape().take(root) });
    volume.stop();
    let closed = engine.join()?;
    let status = ran.map_err(|error| Failure::at(program, error))?;
    check_status(program, status)?;
    ended?;
    closed?;
    Ok(taken?)
}

/// Rejects a program that fails without a power cut.
fn check_status(program: &Path, status: ExitStatus) -> Result<(), Failure> {
    let end = match (status.code(), status.signal()) {
        (Some(0), _) => return Ok(()),
        (Some(code), _) => format!("it ended with {code}"),
        (None, signal) => format!("signal {} ended it", signal.unwrap_or_default()),
    };
    let reason = format!("expected exit status 0 in a run without a power cut; {end}");
    Err(Failure::at(program, reason))
}
