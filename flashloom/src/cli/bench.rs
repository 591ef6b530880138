//! A drive of a file, under power for the time of a command.

use super::failure::Failure;
use super::file;
use engine::{Access, DriveFile};
use sim::{Kernel, Seed};
use ssd::{Drive, DriveConfig, DriveMedia, IoError, Smart};
use std::path::Path;

/// The drive in the file at `path`, under power on a clock of its own.
pub(super) struct Bench {
    pub(super) kernel: Kernel,
    pub(super) drive: Drive,
    pub(super) config: DriveConfig,
    pub(super) smart: Smart,
}

impl Bench {
    /// A drive to look at, whose file others may look at too.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::load(path, &file::open(path, Access::Look)?)
    }

    pub(super) fn load(path: &Path, file: &DriveFile) -> Result<Self, Failure> {
        let (config, media) = file::load(path, file)?;
        Self::ready(path, config, media)
    }

    fn ready(path: &Path, config: DriveConfig, media: DriveMedia) -> Result<Self, Failure> {
        let (kernel, smart) = (Kernel::new(), media.smart);
        let ready = Drive::ready(&kernel.sim(), &config, media, Seed(1));
        let drive = ready.map_err(|e| Failure::at(path, e))?;
        Ok(Self {
            kernel,
            drive,
            config,
            smart,
        })
    }

    /// The same drive with another front, as a new firmware gives it: what the old
    /// one had in DRAM is on flash first.
    pub(super) fn with_front(self, path: &Path, config: DriveConfig) -> Result<Self, Failure> {
        if config.front == self.config.front {
            return Ok(self);
        }
        let media = self.shutdown();
        Self::ready(path, config, media)
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
        let done = self.finish(command).ok_or_else(|| {
            let reason = "the drive came to rest; its flash has no room to collect garbage in";
            Failure::at(path, reason)
        })?;
        done.map_err(|e| Failure::at(path, e))
    }

    /// Powers off in good order, or as far as there is room for it.
    pub(super) fn shutdown(&self) -> DriveMedia {
        let drive = self.drive.clone();
        let left = self.finish(async move { drive.shutdown().await });
        left.unwrap_or_else(|| self.drive.at_power_cut())
    }
}
