//! A drive as a range of bytes, answered for on the engine's thread.
//!
//! Invariants: a request of any offset and length works; what covers sectors in
//! part is read, changed and written while nobody else changes them; an answer
//! that promises something is given when the drive's file keeps the promise.
//!
//! Requests go to the drive itself and not through the model of a host: the host
//! is the one that asks, with a processor of its own.

use crate::faults::{Faults, Injected, Read};
use crate::file::{Access, DriveFile, FileError};
use crate::keeper::Keeper;
use crate::pacer::Pace;
use crate::ranges::Ranges;
use crate::surface::{Show, Surface};
use crate::thread::{Engine, Gone, Handle, Service, finish};
use host::{Pm, PmMedia};
use nand::{Payload, UNIT};
use remap::OpenError;
use sim::{Kernel, Seed, Signal, Sim};
use ssd::image::Memory;
use ssd::{Content, Drive, DriveMedia, Health, IoError};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;
use units::{Extent, Origin, Placement, SECTOR};

/// Zeros that are written at a time. They are there once, for all requests: those that write
/// zeros have no data to be counted by.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// What is written so that it cannot be read, so much at a time.
static LOST: [Payload; 256] = [const { Payload::Lost }; 256];

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Not on the drive.
    #[error("{len} bytes from {offset} on reach past the end of the drive, which has {capacity}")]
    PastEnd {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the drive.
        capacity: u64,
    },
    /// The drive said so.
    #[error(transparent)]
    Drive(#[from] IoError),
    /// A write was told to fail.
    #[error("unrecovered write error at sector {0}")]
    Unwritable(u64),
    /// The drive's file cannot be written.
    #[error("the drive file cannot be written: {0}")]
    File(#[from] io::Error),
    /// The drive has no power: whoever asked must not get an answer, but be hung up on.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The drive's configuration lacks something.
    #[error(transparent)]
    Config(#[from] ssd::ConfigError),
}

/// What is at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Something that was written.
    Data,
    /// Nothing: it reads as zeros.
    Hole,
}

/// A drive under power and its file.
pub struct Device {
    sim: Sim,
    drive: Drive,
    surface: Surface,
    keeper: RefCell<Option<Keeper>>,
    /// Answers that wait for a record.
    waiting: Cell<u32>,
    /// There was a record.
    noted: Signal,
    ranges: Rc<Ranges>,
    /// Whether a write is a promise.
    protected: bool,
    /// Memory beside the drive that has no power yet.
    memory: RefCell<Option<Memory>>,
    faults: Faults,
}

/// The thread that a [`Device`] lives on. Its result is that of saving the drive.
pub type DeviceEngine = Engine<Result<(), FileError>>;

impl Device {
    /// A thread with the drive in the file at `path` under power, of which `show` is shown.
    /// Its end powers the drive off.
    ///
    /// # Errors
    /// As [`Device::open`], and if the system gives no thread.
    pub fn start(
        path: &Path,
        pace: Pace,
        show: Show,
    ) -> Result<(DeviceEngine, Handle<Self>), FileError> {
        let file = path.to_owned();
        Engine::start(
            pace,
            move |kernel| Self::open(kernel, &file, show),
            |kernel, device: Rc<Self>| device.close(kernel),
        )
    }

    /// Powers on the drive in the file at `path`, and opens what `show` says of it.
    ///
    /// # Errors
    /// If there is no drive in it, if it is in use, or if a layer cannot be opened on it.
    pub fn open(kernel: &Kernel, path: &Path, show: Show) -> Result<Self, FileError> {
        let file = DriveFile::open(path, Access::Change)?;
        let opened = file.load()?;
        let sim = kernel.sim();
        let drive = Drive::ready(&sim, &opened.config, opened.media.clone(), Seed(1))
            .map_err(ssd::image::ImageError::from)?;
        let keeper = Keeper::new(file, &opened, &drive)?;
        let surface = match Surface::open(kernel, &drive, show) {
            Ok(surface) => surface,
            Err(error) => {
                // A layer that is refused is no power cut.
                let media = shut_down(kernel, &drive, std::future::ready(()));
                keeper.close(drive.config(), &media)?;
                return Err(error);
            }
        };
        let protected = opened.config.controller.power_loss_protection;
        Ok(Self {
            sim,
            protected: surface.is_promised(protected),
            surface,
            drive,
            keeper: RefCell::new(Some(keeper)),
            waiting: Cell::new(0),
            noted: Signal::default(),
            ranges: Rc::default(),
            memory: RefCell::new(opened.memory),
            faults: Faults::default(),
        })
    }

    /// What the file has of memory beside the drive, once, for who powers it on.
    #[must_use]
    pub fn take_memory(&self) -> Option<PmMedia> {
        self.memory.take().map(PmMedia::of)
    }

    /// Keeps that memory in the file as well, from now on: before the drive's kernel runs.
    pub fn keep_memory(&self, pm: &Pm) {
        if let Some(keeper) = &mut *self.keeper.borrow_mut() {
            keeper.keep_memory(pm);
        }
    }

    /// Bytes that are shown.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.surface.capacity()
    }

    /// Whether a layer is shown, which has addresses of its own.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.surface.is_layer()
    }

    /// Bytes that are deallocated as a whole.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.surface.grain()
    }

    /// What is damaged of a layer that was salvaged, of which the rest can be read.
    #[must_use]
    pub fn damage(&self) -> &[OpenError] {
        self.surface.damage()
    }

    /// Its clock.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The drive.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Whether a write is a promise: the drive has power-loss protection, and no layer above
    /// it that gathers writes.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.protected
    }

    /// The counters of the drive over its life until now.
    ///
    /// # Errors
    /// If the flash of the drive has no rated cycles.
    pub fn health(&self) -> Result<Health, Fault> {
        Ok(Health::of(&self.drive, self.drive.smart())?)
    }

    /// Lets `fault` happen to requests for bytes from now on; false if there are too many.
    pub fn inject(&self, fault: Injected) -> bool {
        self.faults.inject(fault)
    }

    /// Takes away all faults that were injected.
    pub fn heal(&self) {
        self.faults.heal();
    }

    /// The power goes: nothing more is promised, and the file stays as it is at this
    /// instant, which is as a cut leaves it. Every request fails from here on, and so does
    /// saving the drive; what remains to be done is to end the thread.
    pub fn cut(&self) {
        drop(self.keeper.borrow_mut().take());
    }

    /// Whether it has power.
    fn is_powered(&self) -> Result<(), Fault> {
        let powered = self.keeper.borrow().is_some();
        powered.then_some(()).ok_or(Fault::Gone(Gone))
    }

    /// Refuses a write of what cannot be written. For who writes through [`Device::drive`].
    ///
    /// # Errors
    /// Past the end, without power, or if it was told to fail.
    pub fn may_write(&self, offset: u64, len: u64) -> Result<(), Fault> {
        self.check(offset, len)?;
        self.is_powered()?;
        let failing = self.faults.write(&(offset..offset + len));
        failing.map_or(Ok(()), |at| Err(Fault::Unwritable(at / SECTOR)))
    }

    /// Refuses a read of what cannot be read, and says whether one bit of the first byte is to
    /// be turned. For who reads through [`Device::drive`].
    ///
    /// # Errors
    /// Past the end, without power, or if it was told to fail.
    pub fn may_read(&self, offset: u64, len: u64) -> Result<bool, Fault> {
        self.check(offset, len)?;
        self.is_powered()?;
        match self.faults.read(&(offset..offset + len)) {
            Read::Fails(sector) => Err(IoError::Media(sector).into()),
            fate => Ok(fate == Read::Flipped),
        }
    }

    /// Refuses what reaches past the end.
    fn check(&self, offset: u64, len: u64) -> Result<(), Fault> {
        let capacity = self.capacity();
        let fits = offset.checked_add(len).is_some_and(|end| end <= capacity);
        fits.then_some(()).ok_or(Fault::PastEnd {
            offset,
            len,
            capacity,
        })
    }

    /// Reads `len` bytes from `offset` on.
    ///
    /// # Errors
    /// Past the end, or if the flash cannot be read.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let is_turned = self.may_read(offset, len as u64)?;
        let mut bytes = self.truth(offset, len).await?;
        if let (true, Some(first)) = (is_turned, bytes.first_mut()) {
            *first ^= 1;
        }
        Ok(bytes)
    }

    async fn truth(&self, offset: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; len];
        let Some(extent) = covering(offset, len as u64) else {
            return Ok(bytes);
        };
        self.surface.warm(offset, len as u64);
        if extent.start.0 * SECTOR == offset && extent.bytes() == len as u64 {
            self.surface.read(extent, &mut bytes).await?;
            return Ok(bytes);
        }
        let mut sectors = vec![0; extent.bytes() as usize];
        self.surface.read(extent, &mut sectors).await?;
        let from = (offset % SECTOR) as usize;
        bytes.copy_from_slice(&sectors[from..from + len]);
        Ok(bytes)
    }

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// Past the end, on a drive that has become read-only, or if the drive's file
    /// cannot keep what this promises.
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.may_write(offset, bytes.len() as u64)?;
        let Some(extent) = covering(offset, bytes.len() as u64) else {
            return Ok(());
        };
        let _held = self.hold(extent).await;
        self.lay(offset, bytes).await?;
        self.promise().await
    }

    /// Makes `len` bytes from `offset` on read as zeros, and deallocates the
    /// mapped pages among them.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn zero(&self, offset: u64, len: u64) -> Result<(), Fault> {
        self.may_write(offset, len)?;
        let page = self.surface.grain();
        let end = offset + len;
        let (first, last) = (offset.next_multiple_of(page), end / page * page);
        let _held = self.hold_bytes(offset, len).await;
        if first >= last {
            self.lay_zeros(offset, len).await?;
            return self.promise().await;
        }
        self.lay_zeros(offset, first - offset).await?;
        self.lay_zeros(last, end - last).await?;
        self.trim(first, last).await?;
        self.promise().await
    }

    /// Makes `len` bytes from `offset` on read as zeros that are written, and stay allocated.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn write_zeros(&self, offset: u64, len: u64) -> Result<(), Fault> {
        let (mut at, end) = (offset, offset.saturating_add(len));
        while at < end {
            let len = (end - at).min(ZEROS.len() as u64);
            self.write(at, &ZEROS[..len as usize]).await?;
            at += len;
        }
        Ok(())
    }

    /// Makes reads of any sector that a range touches fail until that is written, on a drive of
    /// blocks that is shown as it is. It is as durable as a write.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn spoil(&self, offset: u64, len: u64) -> Result<(), Fault> {
        self.may_write(offset, len)?;
        let most = (LOST.len() * UNIT) as u64;
        let (mut at, end) = (offset, offset + len);
        let _held = self.hold_bytes(offset, len).await;
        while at < end {
            let next = end.min((at / most + 1) * most);
            let extent = covering(at, next - at).expect("not empty");
            let (lost, to) = (Content::Sectors(&LOST), Placement(0));
            self.drive.write(extent, lost, to, Origin(0), false).await?;
            at = next;
        }
        self.promise().await
    }

    /// Deallocates the mapped pages that lie wholly in a range, and leaves the rest as it is.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), Fault> {
        self.check(offset, len)?;
        let page = self.grain();
        let (first, end) = (offset.next_multiple_of(page), (offset + len) / page * page);
        if first < end {
            self.zero(first, end - first).await?;
        }
        Ok(())
    }

    /// Deallocates whole pages, as many at a time as a command can name.
    async fn trim(&self, mut from: u64, to: u64) -> Result<(), Fault> {
        while from < to {
            let len = (to - from).min(units::GIB);
            let extent = covering(from, len).expect("not empty");
            self.surface.trim(extent).await?;
            from += len;
        }
        Ok(())
    }

    /// Makes every write that was answered durable.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn flush(&self) -> Result<(), Fault> {
        self.surface.flush().await?;
        self.note().await
    }

    /// The first offset from `from` on at which there is `wanted`; the end of the
    /// drive counts as a hole. None if there is no such thing.
    #[must_use]
    pub fn seek(&self, from: u64, wanted: Medium) -> Option<u64> {
        self.surface.seek(from, self.capacity(), wanted)
    }

    /// The same before `end`, which is given if there is no such thing: what is behind it is
    /// not looked at.
    #[must_use]
    pub fn seek_before(&self, from: u64, end: u64, wanted: Medium) -> u64 {
        let end = end.min(self.capacity());
        self.surface
            .seek(from, end, wanted)
            .map_or(end, |at| at.min(end))
    }

    /// Powers the drive off in good order, or as far as there is room for it, and
    /// puts it into its file. Nothing may be asked of it any more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn close(&self, kernel: &Kernel) -> Result<(), FileError> {
        let media = self.shutdown(kernel);
        let keeper = self.keeper.borrow_mut().take();
        keeper.map_or(Ok(()), |keeper| keeper.close(self.drive.config(), &media))
    }

    fn shutdown(&self, kernel: &Kernel) -> DriveMedia {
        shut_down(kernel, &self.drive, self.surface.closing())
    }

    async fn hold(&self, extent: Extent) -> crate::ranges::Held {
        let start = extent.start.0 * SECTOR;
        let range = start..start + extent.bytes();
        self.ranges.hold(&self.sim, range).await
    }

    /// Holds the sectors that a range touches, so that nobody else changes them until what is
    /// given is dropped. For who writes through [`Device::drive`]: a part of a sector that is
    /// written is read before, and would be put back as it was.
    pub async fn hold_bytes(&self, offset: u64, len: u64) -> impl Sized + use<> {
        let start = offset / SECTOR * SECTOR;
        let range = start..(offset + len).next_multiple_of(SECTOR);
        self.ranges.hold(&self.sim, range).await
    }

    async fn lay_zeros(&self, offset: u64, len: u64) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        Box::pin(self.lay(offset, &vec![0; len as usize])).await
    }

    /// Writes bytes whose sectors are held.
    async fn lay(&self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let Some(extent) = covering(offset, bytes.len() as u64) else {
            return Ok(());
        };
        let whole = extent.bytes() == bytes.len() as u64;
        if whole {
            return self.put(extent, bytes).await;
        }
        let mut sectors = vec![0; extent.bytes() as usize];
        self.surface.read(extent, &mut sectors).await?;
        let from = (offset % SECTOR) as usize;
        sectors[from..from + bytes.len()].copy_from_slice(bytes);
        self.put(extent, &sectors).await
    }

    async fn put(&self, extent: Extent, bytes: &[u8]) -> Result<(), Fault> {
        Ok(self.surface.write(extent, bytes).await?)
    }

    /// Waits until the file holds what a write promises. To be called before a write is
    /// answered, also by who writes through [`Device::drive`].
    ///
    /// # Errors
    /// If the drive's file cannot be written.
    pub async fn promise(&self) -> Result<(), Fault> {
        if self.protected {
            return self.note().await;
        }
        self.with_keeper(Keeper::note_much)
    }

    /// Waits until the file holds what has happened to the drive so far. For who
    /// uses [`Device::drive`] and promises something. One record is for all who
    /// wait.
    ///
    /// # Errors
    /// If the drive's file cannot be written.
    pub async fn note(&self) -> Result<(), Fault> {
        self.waiting.set(self.waiting.get() + 1);
        self.noted.wait(&self.sim).await;
        self.with_keeper(|keeper| keeper.check())
    }

    fn with_keeper(&self, act: impl FnOnce(&mut Keeper) -> io::Result<()>) -> Result<(), Fault> {
        let mut keeper = self.keeper.borrow_mut();
        Ok(act(keeper.as_mut().ok_or(Gone)?)?)
    }
}

impl Service for Device {
    fn settle(&self) {
        // Who waits asks whether it has worked.
        if self.waiting.replace(0) > 0 {
            let _ = self.with_keeper(Keeper::note);
            self.noted.notify(&self.sim);
        } else {
            let _ = self.with_keeper(Keeper::note_much);
        }
    }
}

/// Powers a drive off in good order after `closing`, or as far as there is room for it.
fn shut_down(
    kernel: &Kernel,
    drive: &Drive,
    closing: impl Future<Output = ()> + 'static,
) -> DriveMedia {
    let own = drive.clone();
    let left = finish(kernel, async move {
        closing.await;
        own.shutdown().await
    });
    left.unwrap_or_else(|| drive.at_power_cut())
}

/// The sectors that a range of bytes touches; none if it is empty.
fn covering(offset: u64, len: u64) -> Option<Extent> {
    let first = offset / SECTOR;
    let last = (offset + len).div_ceil(SECTOR);
    let sectors = u32::try_from(last - first).expect("a request has less than 2 TiB");
    (len > 0).then(|| Extent::new(first, sectors))
}
