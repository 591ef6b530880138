//! `mount`: a simulated file system on a drive, for any program.

use super::Answer;
use super::daemon::Run;
use super::failure::Failure;
use super::file;
use super::filesystem::Kind;
use super::found::Named;
use super::live::{Live, Powered, Use};
use super::output::note;
use super::zonefs;
use clap::{Args, ValueEnum};
use engine::{Access, Device, Engine, FileError, Handle, Signals, finish};
use fuse::{CloseError, MountOptions, Mounted, Show, Volume, VolumeFs};
use host::{BlockDevice, HostConfig, HostError, PmMedia};
use sim::Kernel;
use stack::Attached;
use stack::hosts::{self, AnyHost, Behaviour, Host};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::time::SystemTime;
use units::{Bytes, MIB};
use vfs::{AnyBody, CacheConfig, Clock, Compute, Vfs};

/// Memory of the file system's own cache; the kernel has another one above it.
const CACHE: Bytes = Bytes(256 * MIB);

/// Mount a file system of an emulated drive through FUSE
///
/// The file system is Flashloom's own implementation, running on the emulated drive.
///
/// SIGINT, SIGTERM or SIGHUP unmounts it, writes the drive to its file and exits with status 0.
/// `flashloom drive stats` and `smart` work while it is mounted.
#[derive(Args)]
#[command(override_usage = "flashloom mount [OPTIONS] [FILESYSTEM] <DRIVE> <DIR>")]
pub(crate) struct Mount {
    /// File system; if omitted, it is detected by its superblock
    #[arg(value_enum, value_name = "FILESYSTEM")]
    kind: Named,
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    pub(super) path: PathBuf,
    /// Mount point
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Mount options: ro, nosuid, nodev, noexec, noatime, strictatime, nodiratime and their
    /// opposites; for zonefs also explicit-open and errors=remount-ro, zone-ro, zone-offline or
    /// repair. With ro, f2fs and persimmon write nothing to the drive, not even during recovery
    #[arg(short, long, value_name = "LIST", default_value = "rw")]
    pub(super) options: Words,
    /// Durability of file contents relative to metadata
    #[arg(long, value_enum, default_value = "ordered")]
    data: Data,
    #[command(flatten)]
    pub(super) run: Run,
}

/// The parsed list of mount options.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// Options of all file systems.
    pub(super) all: MountOptions,
    /// Options that only zonefs takes.
    zones: ::zonefs::Options,
    /// First option that only zonefs takes, for the error message.
    alone: Option<String>,
}

impl FromStr for Words {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let mut words = Self::default();
        let mut all = Vec::new();
        for word in list.split(',') {
            match word.split_once('=') {
                Some(("errors", then)) => words.zones.errors = then.parse()?,
                None if word == "explicit-open" => words.zones.explicit_open = true,
                _ => {
                    all.push(word);
                    continue;
                }
            }
            words.alone.get_or_insert_with(|| word.to_owned());
        }
        words.all = all.join(",").parse()?;
        words.zones.read_only = words.all.read_only;
        Ok(words)
    }
}

/// Data modes of ext4 and ByteFS.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Data {
    /// Write contents before the metadata that refer to them
    Ordered,
    /// Do not order contents and metadata (ext4 only)
    Writeback,
    /// Journal contents with their metadata (ext4 and bytefs only)
    Journal,
}

/// Errors of mounting.
#[derive(Debug, thiserror::Error)]
pub(super) enum MountError {
    #[error(transparent)]
    Drive(#[from] FileError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{0}")]
    Mount(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "the drive stalled while the file system was mounted: garbage collection has no free \
        space on the flash"
    )]
    AtRest,
}

impl Mount {
    pub(crate) fn run(&self) -> Answer {
        self.run.go(|signals| self.mount(signals))
    }

    fn mount(&self, signals: Signals) -> Result<(), Failure> {
        file::wait_for_others(&self.path)?;
        let kind = self.kind.at(&self.path)?;
        let switches = self.switches(kind)?;
        if matches!(kind, Kind::ZoneFs) {
            return zonefs::mount(self, self.options.zones, signals);
        }
        if let Some(word) = &self.options.alone {
            let kind = kind.name();
            return Err(Failure::new(format!("{kind} has no option {word}")));
        }
        let behaviour = Behaviour {
            read_only: self.options.all.read_only,
            ..Behaviour::default()
        };
        let host = hosts::named(kind.name(), &switches, &behaviour);
        let host = host.ok_or_else(|| Failure::new("there is no such file system"))?;
        self.mount_host((kind, host), signals)
    }

    fn mount_host(&self, (kind, host): (Kind, AnyHost), signals: Signals) -> Result<(), Failure> {
        let at = |e: &dyn std::fmt::Display| Failure::at(&self.path, e);
        let (path, options) = (self.path.clone(), self.options.all);
        // A file system that does not fit is rejected before the drive is powered.
        let found = file::load(&path, &file::open(&path, Access::Look)?)?;
        kind.misfit(&found.config).map_err(|e| at(&e))?;
        kind.beside(found.memory.map(PmMedia::of))
            .map_err(|e| at(&e))?;
        let started: Result<_, MountError> = Engine::start(
            self.run.pace()?,
            move |kernel| mount_on(kernel, (kind, host), &path, options),
            |kernel, volume: Rc<Volume<AnyBody>>| volume.close(kernel),
        );
        let (engine, volume): (Engine<Result<(), CloseError>>, _) = started.map_err(|e| at(&e))?;
        let live = self.live(volume.part(Volume::device));
        let shown = self.show(volume.clone(), signals);
        drop(live);
        // Programs that still use a file get errors from here on.
        volume.stop();
        engine.join()?.map_err(|e| at(&e))?;
        shown
    }

    /// Answers questions about the drive until the result is dropped.
    pub(super) fn live(&self, drive: Handle<Device>) -> Option<Live> {
        let powered = Powered::default();
        powered.set(Some(drive));
        Live::start(&self.path, &powered, Use::Mounted)
    }

    /// The switches of the host for this mount.
    fn switches(&self, kind: Kind) -> Result<Vec<String>, Failure> {
        let mut switches = vec!["discard".to_owned()];
        let data = match self.data {
            Data::Ordered => return Ok(switches),
            Data::Writeback => "writeback",
            Data::Journal => "journal",
        };
        let kind = kind.name();
        if !hosts::switches(kind).iter().any(|(name, _)| *name == data) {
            return Err(Failure::new(format!(
                "{kind} cannot be mounted with --data {data}"
            )));
        }
        switches.push(data.to_owned());
        Ok(switches)
    }

    fn show(&self, volume: Handle<Volume<AnyBody>>, signals: Signals) -> Result<(), Failure> {
        let root = volume.ask(|volume: Rc<Volume<AnyBody>>| async move { volume.vfs().root() })?;
        let name = self.path.display().to_string();
        let filesystem = VolumeFs::new(volume, root);
        let mounted = fuse::mount(
            filesystem,
            &self.dir,
            Show::FileSystem(&name, self.options.all),
            signals,
        )?;
        self.wait(mounted)
    }

    /// Waits until the file system is unmounted.
    pub(super) fn wait(&self, mounted: Mounted) -> Result<(), Failure> {
        let name = self.path.display();
        self.run.tell(&format!(
            "the file system on {name} is {}; it stays mounted until it is unmounted or this \
             command is interrupted",
            self.dir.display()
        ));
        self.run.wait(mounted, &self.path)
    }
}

/// Powers on the drive in the file at `path` and mounts its file system.
fn mount_on(
    kernel: &Kernel,
    (kind, host): (Kind, AnyHost),
    path: &Path,
    options: MountOptions,
) -> Result<Volume<AnyBody>, MountError> {
    let device = Device::open(kernel, path, engine::Show::Drive)?;
    let (sim, start) = (kernel.sim(), fuse::timestamp(SystemTime::now()));
    let queues = BlockDevice::new(&sim, HostConfig::default(), device.drive().clone())?;
    let beside = kind.beside(device.take_memory());
    let beside = beside.map_err(|e| MountError::Mount(e.to_owned()))?;
    let port = Attached::bare(&sim, &queues, beside);
    if let Some(pm) = port.memory() {
        device.keep_memory(pm);
    }
    let work = {
        let sim = sim.clone();
        async move {
            port.open().await.map_err(|e| e.to_string())?;
            if let Some(told) = port.recovered().told() {
                note(&format!("recovery {told}"));
            }
            host.mount(&sim, &port, start).await
        }
    };
    let mounted = finish(kernel, work).ok_or(MountError::AtRest)?;
    let body = mounted.map_err(MountError::Mount)?;
    let config = CacheConfig {
        memory: CACHE,
        atime: options.noted(),
        diratime: options.diratime,
        ..CacheConfig::default()
    };
    // Calls take their real time on this processor.
    let vfs = Vfs::mount(&sim, body, config, Clock::starting(start), Compute::free());
    let volume = Volume::new(vfs, Some(device));
    Ok(volume.telling(|why| note(&format!("no space: {why}"))))
}
