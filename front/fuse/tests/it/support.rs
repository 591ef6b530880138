//! Drives and file systems mounted on temporary directories.

use engine::{Device, DeviceEngine, DriveFile, Engine, Handle, Pace, Signals};
use fuse::{CloseError, DriveFs, End, MountOptions, Mounted, Show, Volume, VolumeFs};
use sim::{Kernel, Seed};
use ssd::{DriveConfig, DriveMedia, Preset};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::SystemTime;
use tempfile::TempDir;
use units::{Bytes, KIB, MIB};
use vfs::mem::MemFs;
use vfs::{CacheConfig, Clock, Compute, Vfs};

/// A drive of 32 MiB with little over-provisioning, so that garbage collection runs.
pub(crate) fn config(protected: bool) -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.flash.keep_contents = true;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 2;
    config.geometry.blocks_per_plane = 20;
    config.controller.write_buffer = Bytes(512 * KIB);
    config.controller.power_loss_protection = protected;
    config.capacity = Bytes(32 * MIB);
    config
}

/// A drive in a temporary directory, mounted on another one.
pub(crate) struct Shown {
    folder: TempDir,
    pace: Pace,
    running: Option<Running>,
}

struct Running {
    engine: DeviceEngine,
    device: Handle<Device>,
    mounted: Mounted,
}

impl Shown {
    pub(crate) fn new(config: &DriveConfig, pace: Pace) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("mount")).expect("a directory");
        let shown = Self {
            folder,
            pace,
            running: None,
        };
        let media = DriveMedia::new(config, Seed(1)).expect("it can be built");
        DriveFile::create(&shown.file(), config, &media).expect("it can be written");
        shown.started()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("d.flash")
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mount().join(name)
    }

    /// Opens the drive's file for reading and writing.
    pub(crate) fn open(&self) -> File {
        let options = File::options().read(true).write(true).clone();
        options.open(self.path("drive")).expect("it can be opened")
    }

    fn started(mut self) -> Self {
        let signals = Signals::hold().expect("signals");
        let powered = Device::start(&self.file(), self.pace, engine::Show::Drive);
        let (engine, device) = powered.expect("the drive has power");
        let size = device.ask(|device: Rc<Device>| async move { device.capacity() });
        let filesystem = DriveFs::new(
            device.clone(),
            "d.flash".to_owned(),
            size.expect("an answer"),
        );
        let mounted = fuse::mount(filesystem, &self.mount(), Show::Drive("test"), signals);
        self.running = Some(Running {
            engine,
            device,
            mounted: mounted.expect("it is mounted"),
        });
        self
    }

    /// Unmounts the drive and mounts it again.
    pub(crate) fn again(mut self) -> Self {
        self.end();
        self.started()
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        assert!(unmount(&self.mount()), "it can be unmounted");
        let end = running.mounted.wait(|| ()).expect("a clean end");
        assert_eq!(end, End::Unused);
        running.device.stop();
        let saved = running.engine.join().expect("the thread has ended");
        saved.expect("the drive is saved");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            unmount(&self.mount());
        } else {
            self.end();
        }
    }
}

/// A file system in memory, mounted on a temporary directory.
pub(crate) struct ShownVolume {
    folder: TempDir,
    running: Option<RunningVolume>,
}

struct RunningVolume {
    engine: Engine<Result<(), CloseError>>,
    volume: Handle<Volume<MemFs>>,
    mounted: Mounted,
}

impl ShownVolume {
    pub(crate) fn new() -> Self {
        Self::with(MountOptions::default())
    }

    pub(crate) fn with(options: MountOptions) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        let signals = Signals::hold().expect("signals");
        let build = move |kernel: &Kernel| {
            let sim = kernel.sim();
            let body = MemFs::new(Bytes(256 * MIB));
            let config = CacheConfig {
                atime: options.noted(),
                diratime: options.diratime,
                ..CacheConfig::default()
            };
            let clock = Clock::starting(fuse::timestamp(SystemTime::now()));
            let vfs = Vfs::mount(&sim, body, config, clock, Compute::free());
            Ok::<_, std::io::Error>(Volume::new(vfs, None))
        };
        let end = |kernel: &Kernel, volume: Rc<Volume<MemFs>>| volume.close(kernel);
        let (engine, volume) = Engine::start(Pace::Free, build, end).expect("it starts");
        let root = volume.ask(|volume: Rc<Volume<MemFs>>| async move { volume.vfs().root() });
        let files = VolumeFs::new(volume.clone(), root.expect("an answer"));
        let show = Show::FileSystem("memory", options);
        let mounted = fuse::mount(files, folder.path(), show, signals).expect("it is mounted");
        Self {
            folder,
            running: Some(RunningVolume {
                engine,
                volume,
                mounted,
            }),
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for ShownVolume {
    fn drop(&mut self) {
        let unmounted = unmount(self.folder.path());
        if std::thread::panicking() {
            return;
        }
        assert!(unmounted, "it can be unmounted");
        let running = self.running.take().expect("it runs");
        running.mounted.wait(|| ()).expect("a clean end");
        running.volume.stop();
        let closed = running.engine.join().expect("the thread has ended");
        closed.expect("it is left clean");
    }
}

pub(crate) fn unmount(mount: &std::path::Path) -> bool {
    // Processes that scan all mounts of the system keep each busy for a moment.
    (0..100).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        try_to_unmount(mount)
    })
}

fn try_to_unmount(mount: &std::path::Path) -> bool {
    let root = nix::unistd::geteuid().is_root();
    let mut command = Command::new(if root { "umount" } else { "fusermount3" });
    if std::thread::panicking() {
        command.arg(if root { "-l" } else { "-z" });
    }
    if !root {
        command.arg("-u");
    }
    let status = command.arg(mount).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
