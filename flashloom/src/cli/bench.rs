//! A drive of a file, powered for the duration of a command.

use super::failure::Failure;
use super::file;
use engine::{Access, DriveFile};
use host::{BlockDevice, HostConfig, PmMedia};
use sim::{Kernel, Seed};
use ssd::image::Memory;
use ssd::{Drive, DriveConfig, DriveMedia, IoError, Smart};
use stack::{Attached, hosts};
use std::path::Path;

/// The reason why a command did not end.
pub(super) const AT_REST: &str =
    "the drive stalled: garbage collection has no free space on the flash";

/// The file system whose mapping is in persistent memory beside its drive.
const HYFIM: &str = "hyfim";

/// Persistent memory as a host needs it, and its contents.
pub(super) type Beside = (Option<hosts::Persistent>, hosts::Memory);

/// The drive in the file at `path`, powered on a clock of its own.
pub(super) struct Bench {
    pub(super) kernel: Kernel,
    pub(super) drive: Drive,
    pub(super) config: DriveConfig,
    pub(super) smart: Smart,
    /// Contents of the persistent memory in the file; `None` if it has none.
    pub(super) memory: Option<Memory>,
}

impl Bench {
    /// Opens a drive for reading; other readers may open its file too.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::load(path, &file::open(path, Access::Look)?)
    }

    pub(super) fn load(path: &Path, file: &DriveFile) -> Result<Self, Failure> {
        let opened = file::load(path, file)?;
        Self::ready(path, opened.config, opened.media, opened.memory)
    }

    fn ready(
        path: &Path,
        config: DriveConfig,
        media: DriveMedia,
        memory: Option<Memory>,
    ) -> Result<Self, Failure> {
        let (kernel, smart) = (Kernel::new(), media.smart);
        let ready = Drive::ready(&kernel.sim(), &config, media, Seed(1));
        let drive = ready.map_err(|e| Failure::at(path, e))?;
        Ok(Self {
            kernel,
            drive,
            config,
            smart,
            memory,
        })
    }

    /// Attaches the drive to a host with persistent memory as it `wants` with the contents
    /// `memory`: an open-channel drive comes with its mapping.
    pub(super) fn attach(&self, path: &Path, (wants, memory): Beside) -> Result<Attached, Failure> {
        let (sim, host) = (self.kernel.sim(), HostConfig::default());
        let device = BlockDevice::new(&sim, host, self.drive.clone())?;
        let port = Attached::bare(&sim, &device, (wants, memory));
        let opening = port.clone();
        let opened = self.finish(async move { opening.open().await });
        let opened = opened.ok_or_else(|| Failure::at(path, AT_REST))?;
        opened.map_err(|e| Failure::at(path, e))?;
        Ok(port)
    }

    /// Attaches the drive with the mapping that its last host used.
    pub(super) fn attach_as_is(&self, path: &Path) -> Result<Attached, Failure> {
        let wants = self.memory.as_ref().and_then(|_| hosts::memory(HYFIM, &[]));
        let memory = self.memory.clone().map(PmMedia::of);
        self.attach(
            path,
            (
                wants,
                memory.map_or(hosts::Memory::Blank, hosts::Memory::Left),
            ),
        )
    }

    /// Powers off, and saves the drive in its file, with the persistent memory of `port`.
    pub(super) fn save(
        &self,
        path: &Path,
        file: &mut DriveFile,
        port: Option<&Attached>,
    ) -> Result<(), Failure> {
        let media = self.shutdown();
        let memory = match port {
            Some(port) => port.memory().map(|pm| pm.shutdown().kept()),
            None => self.memory.clone(),
        };
        let saved = file.save(&self.config, &media, memory.as_ref());
        saved.map_err(|e| Failure::at(path, e))
    }

    /// The same drive with another front, as with new firmware: the old front first writes its DRAM
    /// out to flash.
    pub(super) fn with_front(self, path: &Path, config: DriveConfig) -> Result<Self, Failure> {
        if config.front == self.config.front {
            return Ok(self);
        }
        let media = self.shutdown();
        Self::ready(path, config, media, self.memory)
    }

    /// Runs `work` to its end. `None` if the drive comes to rest before: it has no room left to
    /// collect garbage.
    pub(super) fn finish<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> Option<T> {
        let mut handle = self.kernel.sim().spawn(work);
        loop {
            if let Some(result) = handle.take() {
                return Some(result);
            }
            if !self.kernel.step() {
                return None;
            }
        }
    }

    /// Executes `command`; `path` is the drive's file, for errors.
    pub(super) fn carry_out<T: 'static>(
        &self,
        path: &Path,
        command: impl Future<Output = Result<T, IoError>> + 'static,
    ) -> Result<T, Failure> {
        let done = self
            .finish(command)
            .ok_or_else(|| Failure::at(path, AT_REST))?;
        done.map_err(|e| Failure::at(path, e))
    }

    /// Powers off cleanly, or as far as there is space for that.
    pub(super) fn shutdown(&self) -> DriveMedia {
        let drive = self.drive.clone();
        let left = self.finish(async move { drive.shutdown().await });
        left.unwrap_or_else(|| self.drive.at_power_cut())
    }
}
