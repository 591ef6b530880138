//! `serve`: a drive for real clients.

use super::Answer;
use super::bench::Bench;
use super::daemon::Run;
use super::failure::Failure;
use super::file;
use super::output::note;
use clap::{Args, ValueEnum};
use engine::{Device, Handle, Show as Shown, Signals};
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
    /// Remap addresses, so that all writes reach the drive in sequence
    ///
    /// The layer is made on a drive that holds nothing. What is written is durable once a
    /// flush is answered, on a drive with power-loss protection too.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "open"
    )]
    remap: Option<Layer>,
    #[command(flatten)]
    run: Run,
}

/// How a layer that remaps addresses is opened.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// If it is whole
    Open,
    /// As far as it is left, to be read; what is damaged is said
    Salvage,
}

impl Serve {
    pub(crate) fn run(&self) -> Answer {
        self.run.go(|signals| self.serve(signals))
    }

    fn serve(&self, signals: Signals) -> Result<(), Failure> {
        file::wait_for_others(&self.path)?;
        super::chunks::mapped(&self.path, &Bench::open(&self.path)?.config)?;
        let shown = match self.remap {
            None => Shown::Drive,
            Some(Layer::Open) => Shown::Remapped,
            Some(Layer::Salvage) => Shown::Salvaged,
        };
        let powered = Device::start(&self.path, self.run.pace(), shown);
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
        let ask = |device: Rc<Device>| async move {
            let damage = device.damage().iter().map(ToString::to_string);
            (device.capacity(), damage.collect::<Vec<String>>())
        };
        let (size, damage) = device.ask(ask)?;
        let name = self.path.display().to_string();
        damage
            .iter()
            .for_each(|what| note(&format!("{name}: {what}")));
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
