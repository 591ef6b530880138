//! A drive of a file, under power for the time of a command.

use super::failure::Failure;
use super::file;
use engine::{Access, DriveFile};
use host::{BlockDevice, HostConfig, PmMedia};
use sim::{Kernel, Seed};
use ssd::image::Memory;
use ssd::{Drive, DriveConfig, DriveMedia, IoError, Smart};
use stack::{Attached, hosts};
use std::path::Path;

/// Why a command did not end.
pub(super) const AT_REST: &str =
    "the drive came to rest; its flash has no room to collect garbage in";

/// The file system whose mapping is in memory beside its drive.
const HYFIM: &str = "hyfim";

/// Memory that lasts, as a host wants it, and what is in it.
pub(super) type Beside = (Option<hosts::Persistent>, hosts::Memory);

/// The drive in the file at `path`, under power on a clock of its own.
pub(super) struct Bench {
    pub(super) kernel: Kernel,
    pub(super) drive: Drive,
    pub(super) config: DriveConfig,
    pub(super) smart: Smart,
    /// Memory that the file keeps beside it, as it was.
    pub(super) memory: Option<Memory>,
}

impl Bench {
    /// A drive to look at, whose file others may look at too.
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

    /// The drive as a host has it that `wants` memory which lasts, and finds `memory` there:
    /// an open-channel drive with its mapping.
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

    /// The same as whoever has mapped it last has it.
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

    /// Powers off, and puts the drive into its file, with memory that `port` has.
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

    /// The same drive with another front, as a new firmware gives it: what the old
    /// one had in DRAM is on flash first.
    pub(super) fn with_front(self, path: &Path, config: DriveConfig) -> Result<Self, Failure> {
        if config.front == self.config.front {
            return Ok(self);
        }
        let media = self.shutdown();
        Self::ready(path, config, media, self.memory)
    }

    /// Runs `work` to its end. None if the drive comes to rest before: it has no
    /// room left to collect garbage in.
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

    /// Carries out `command`; `path` is the drive's file.
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

    /// Powers off in good order, or as far as there is room for it.
    pub(super) fn shutdown(&self) -> DriveMedia {
        let drive = self.drive.clone();
        let left = self.finish(async move { drive.shutdown().await });
        left.unwrap_or_else(|| self.drive.at_power_cut())
    }
}
