//! `mount`: a file system of ours on a drive, for any program.

use super::Answer;
use super::daemon::Run;
use super::failure::Failure;
use super::file;
use super::filesystem::Kind;
use clap::Args;
use engine::{Device, Engine, FileError, Handle, Signals, finish};
use extfs::ExtFs;
use extfs::ext4::{self, Ext4Error, Options};
use extfs::jbd2::Jbd2;
use fuse::{CloseError, MountOptions, Show, Volume, VolumeFs};
use host::{BlockDevice, HostConfig, HostError};
use sim::Kernel;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;
use units::{Bytes, MIB};
use vfs::{CacheConfig, Clock, Compute, Timestamp, Vfs};

/// Memory of the file system's own cache. The kernel has another one above it.
const CACHE: Bytes = Bytes(256 * MIB);

/// Mount a file system on a drive
///
/// It is Flashloom's own implementation that runs, on the emulated drive.
#[derive(Args)]
pub(crate) struct Mount {
    /// The file system
    #[arg(value_enum, value_name = "FILESYSTEM")]
    kind: Kind,
    /// The drive file
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// The directory to mount on, until it is unmounted
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// How to mount it, as `mount` takes it: ro, nosuid, nodev, noexec, noatime,
    /// strictatime, nodiratime and their opposites
    #[arg(short, long, value_name = "LIST", default_value = "rw")]
    options: MountOptions,
    #[command(flatten)]
    run: Run,
}

/// Why a file system could not be mounted.
#[derive(Debug, thiserror::Error)]
enum MountError {
    #[error(transparent)]
    Drive(#[from] FileError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Ext4(#[from] Ext4Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the drive came to rest while the file system was mounted")]
    AtRest,
}

type Ext4 = ExtFs<Jbd2<BlockDevice>>;
type Mounted = (Engine<Result<(), CloseError>>, Handle<Volume<Ext4>>);

impl Mount {
    pub(crate) fn run(&self) -> Answer {
        self.run.go(|signals| self.mount(signals))
    }

    fn mount(&self, signals: Signals) -> Result<(), Failure> {
        file::wait_for_others(&self.path)?;
        let at = |e: &dyn std::fmt::Display| Failure::at(&self.path, e);
        let (engine, volume) = match self.kind {
            Kind::Ext4 => self.start().map_err(|e| at(&e))?,
        };
        let shown = self.show(volume.clone(), signals);
        // Who still uses a file gets errors from here on.
        volume.stop();
        engine.join()?.map_err(|e| at(&e))?;
        shown
    }

    fn start(&self) -> Result<Mounted, MountError> {
        let (path, options) = (self.path.clone(), self.options);
        Engine::start(
            self.run.pace(),
            move |kernel| mount_ext4(kernel, &path, options),
            |kernel, volume: Rc<Volume<Ext4>>| volume.close(kernel),
        )
    }

    fn show(&self, volume: Handle<Volume<Ext4>>, signals: Signals) -> Result<(), Failure> {
        let root = volume.ask(|volume: Rc<Volume<Ext4>>| async move { volume.vfs().root() })?;
        let name = self.path.display().to_string();
        let filesystem = VolumeFs::new(volume, root);
        let mounted = fuse::mount(
            filesystem,
            &self.dir,
            Show::FileSystem(&name, self.options),
            signals,
        )?;
        self.run.tell(&format!(
            "the file system on {name} is {}; it is there until that is unmounted or this is \
             interrupted",
            self.dir.display()
        ));
        self.run.wait(mounted, &self.path)
    }
}

/// Powers on the drive in the file at `path` and mounts what is on it.
fn mount_ext4(
    kernel: &Kernel,
    path: &Path,
    options: MountOptions,
) -> Result<Volume<Ext4>, MountError> {
    let device = Device::open(kernel, path)?;
    let (sim, start) = (kernel.sim(), fuse::timestamp(SystemTime::now()));
    let port = BlockDevice::new(&sim, HostConfig::default(), device.drive().clone())?;
    let work = {
        let sim = sim.clone();
        async move { open_ext4(&sim, &port, start).await }
    };
    let body = finish(kernel, work).ok_or(MountError::AtRest)??;
    let config = CacheConfig {
        memory: CACHE,
        atime: options.noted(),
        diratime: options.diratime,
        ..CacheConfig::default()
    };
    // Calls take the time that they take on the processor that runs this.
    let vfs = Vfs::mount(&sim, body, config, Clock::starting(start), Compute::free());
    Ok(Volume::new(vfs, Some(device)))
}

async fn open_ext4(
    sim: &sim::Sim,
    port: &BlockDevice,
    start: Timestamp,
) -> Result<Ext4, Ext4Error> {
    let options = Options {
        start,
        discard: true,
        ..Options::default()
    };
    let (body, _) = ext4::mount(sim, port, options).await?;
    Ok(body)
}
