//! `serve`: a drive for real clients.

use super::Answer;
use super::bench::Bench;
use super::daemon::Run;
use super::failure::Failure;
use super::file;
use clap::Args;
use engine::{Device, Handle, Signals};
use fuse::{DRIVE_NAME, DriveFs, Show};
use std::path::PathBuf;
use std::rc::Rc;
use units::Bytes;

/// Put a drive under power and let real clients use it
///
/// --file shows it as the file `drive` in a directory; a loop device over that
/// file (losetup --direct-io=on -b 4096) takes any file system of the kernel.
#[derive(Args)]
pub(crate) struct Serve {
    /// The drive file
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Show the drive as a file in this directory, until that is unmounted
    #[arg(long, value_name = "DIR")]
    file: PathBuf,
    #[command(flatten)]
    run: Run,
}

impl Serve {
    pub(crate) fn run(&self) -> Answer {
        self.run.go(|signals| self.serve(signals))
    }

    fn serve(&self, signals: Signals) -> Result<(), Failure> {
        file::wait_for_others(&self.path)?;
        super::chunks::mapped(&self.path, &Bench::open(&self.path)?.config)?;
        let powered = Device::start(&self.path, self.run.pace());
        let (engine, device) = powered.map_err(|e| Failure::at(&self.path, e))?;
        let shown = self.show(device.clone(), signals);
        // Who still uses the drive gets errors from here on.
        device.stop();
        let closed = engine.join()?;
        closed.map_err(|e| Failure::at(&self.path, e))?;
        shown
    }

    /// Mounts the drive and waits for the end.
    fn show(&self, device: Handle<Device>, signals: Signals) -> Result<(), Failure> {
        let size = device.ask(|device: Rc<Device>| async move { device.capacity() })?;
        let name = self.path.display().to_string();
        let filesystem = DriveFs::new(device, name.clone(), size);
        let mounted = fuse::mount(filesystem, &self.file, Show::Drive(&name), signals)?;
        let at = self.file.join(DRIVE_NAME);
        self.run.tell(&format!(
            "{name} ({}) is {}; it is served until {} is unmounted or this is interrupted",
            Bytes(size),
            at.display(),
            self.file.display()
        ));
        self.run.wait(mounted, &self.path)
    }
}
