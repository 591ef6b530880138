//! A zonefs mounted on a temporary directory.

use crate::support::unmount;
use engine::{Device, DriveFile, Engine, FileError, Handle, Pace, Signals, finish};
use fuse::{MountOptions, Mounted, Show, Zones, ZonesFs};
use host::{BlockDevice, HostConfig, ZonedDevice};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde_json::Value;
use sim::{Kernel, Seed};
use ssd::{DriveConfig, DriveMedia, Preset};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::rc::Rc;
use tempfile::TempDir;
use units::{Bytes, MIB, Origin};
use zonefs::{Options, Superblock, ZoneFs};

/// Capacity of a sequential file in bytes.
pub(crate) const MOST: u64 = 12 * MIB;
/// Capacity of a conventional file in bytes.
pub(crate) const CNV: u64 = 16 * MIB;
/// Number of conventional zones, including that of the superblock.
pub(crate) const CONVENTIONAL: u32 = 3;
/// Number of sequential zones, each shown as a file.
pub(crate) const SEQUENTIAL: u64 = 7;

/// Flag for writes that bypass the cache.
pub(crate) const DIRECT: i32 = OFlag::O_DIRECT.bits();
/// Flags for writes that bypass the cache and go to the end.
pub(crate) const APPEND: i32 = OFlag::O_DIRECT.bits() | OFlag::O_APPEND.bits();

/// A drive of three conventional and seven sequential zones, with limits of four open and five
/// active ones.
pub(crate) fn config() -> DriveConfig {
    let mut config = (Preset::named("zns").expect("a preset").config)();
    config.flash.keep_contents = true;
    let zones = config.zones.as_mut().expect("it has zones");
    zones.conventional = CONVENTIONAL;
    (zones.max_open, zones.max_active) = (4, 5);
    config.capacity = Bytes(u64::from(CONVENTIONAL) * CNV + SEQUENTIAL * MOST);
    config
}

type Started = (Engine<Result<(), FileError>>, Handle<Zones>);

/// A zonefs on a drive in a temporary directory, mounted beside it.
pub(crate) struct Shown {
    folder: TempDir,
    running: Option<(Started, Mounted)>,
}

impl Shown {
    /// Formats and mounts a zonefs with the default superblock.
    pub(crate) fn new(options: Options) -> Self {
        Self::made(&config(), &Superblock::default(), options)
    }

    pub(crate) fn made(config: &DriveConfig, superblock: &Superblock, options: Options) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("mount")).expect("a directory");
        let media = DriveMedia::new(config, Seed(1)).expect("it can be built");
        let drive = folder.path().join("d.flash");
        DriveFile::create(&drive, config, &media).expect("it can be written");
        let shown = Self {
            folder,
            running: None,
        };
        let superblock = superblock.clone();
        shown.started(Some(superblock), options)
    }

    fn started(mut self, superblock: Option<Superblock>, options: Options) -> Self {
        let signals = Signals::hold().expect("signals");
        let drive = self.folder.path().join("d.flash");
        let build = move |kernel: &Kernel| {
            let device = Device::open(kernel, &drive, engine::Show::Drive)?;
            let sim = kernel.sim();
            let blocks = BlockDevice::new(&sim, HostConfig::default(), device.drive().clone());
            let port = ZonedDevice::new(&blocks.expect("a device")).expect("a zoned drive");
            let work = async move {
                if let Some(superblock) = superblock {
                    let made = zonefs::mkfs(&port, &superblock, Origin(0)).await;
                    made.expect("it is made");
                }
                ZoneFs::mount(&sim, &port, options).await
            };
            let fs = finish(kernel, work)
                .expect("an end")
                .expect("it is mounted");
            Ok::<_, FileError>(Zones::new(fs, device))
        };
        let end = |kernel: &Kernel, zones: Rc<Zones>| zones.close(kernel);
        let started = Engine::start(Pace::Free, build, end).expect("it starts");
        let show = MountOptions {
            read_only: options.read_only,
            ..MountOptions::default()
        };
        let show = Show::FileSystem("zones", show);
        let files = ZonesFs::new(started.1.clone());
        let mounted = fuse::mount(files, &self.root(), show, signals);
        self.running = Some((started, mounted.expect("it is mounted")));
        self
    }

    /// Unmounts the zonefs and mounts it again.
    pub(crate) fn again(mut self, options: Options) -> Self {
        self.end();
        self.started(None, options)
    }

    fn end(&mut self) {
        let Some(((engine, zones), mounted)) = self.running.take() else {
            return;
        };
        assert!(unmount(&self.root()), "it can be unmounted");
        mounted.wait(|| ()).expect("a clean end");
        zones.stop();
        let closed = engine.join().expect("the thread has ended");
        closed.expect("the drive is saved");
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Runs `work` on the zones behind the file system's back.
    pub(crate) fn behind<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(ssd::Zones) -> T + Send + 'static,
    ) -> T {
        let ((_, zones), _) = self.running.as_ref().expect("it runs");
        let answer = zones.ask(|zones: Rc<Zones>| async move {
            let all = zones.drive().zones().expect("a zoned drive").clone();
            work(all).await
        });
        answer.expect("an answer")
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open(&self, name: &str, flags: i32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        options.open(self.path(name))
    }

    pub(crate) fn size(&self, name: &str) -> u64 {
        let found = std::fs::metadata(self.path(name));
        found.expect("it is there").len()
    }

    /// Appends blocks that are filled with `byte`.
    pub(crate) fn append(&self, name: &str, byte: u8, blocks: usize) -> Result<usize, Errno> {
        let file = told(self.open(name, APPEND))?;
        let block = vec![byte; blocks * 4096];
        told(io::Write::write(&mut &file, &block))
    }

    /// Writes one block at offset `at`, bypassing the cache.
    pub(crate) fn write(&self, name: &str, at: u64) -> Result<usize, Errno> {
        let file = told(self.open(name, DIRECT))?;
        told(file.write_at(&[1; 4096], at))
    }

    /// The JSON document about the zones.
    pub(crate) fn table(&self) -> Value {
        let text = std::fs::read(self.path(".zones.json")).expect("it is there");
        serde_json::from_slice(&text).expect("a document")
    }

    /// The number `name` in the JSON document.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.table()[name].as_u64().expect("a number")
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            unmount(&self.root());
        } else {
            self.end();
        }
    }
}

/// Converts an error to the kernel's error number.
pub(crate) fn told<T>(result: io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_raw(error.raw_os_error().expect("it is the kernel's")))
}
