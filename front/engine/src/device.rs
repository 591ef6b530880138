//! A drive as a range of bytes, served on the engine's thread.
//!
//! Invariants: a request of any offset and length works; a sector that is covered in part is read,
//! modified and written under a lock on its range; a durable answer (flush, or a write under
//! power-loss protection) is given only after the drive's file holds it.
//!
//! Requests bypass the model of a host: the real client is the host, with a processor of its own.

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

/// Zeros for one step of [`Device::write_zeros`]. Shared by all requests: a request that writes
/// zeros carries no data that could bound its memory.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// Payloads of one step of [`Device::spoil`], which makes sectors unreadable.
static LOST: [Payload; 256] = [const { Payload::Lost }; 256];

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The request reaches past the end of the drive.
    #[error("{len} bytes from {offset} on reach past the end of the drive, which has {capacity}")]
    PastEnd {
        /// First byte of the request.
        offset: u64,
        /// Length of the request in bytes.
        len: u64,
        /// Capacity of the drive (or of the layer above it) in bytes.
        capacity: u64,
    },
    /// The drive model returned an error.
    #[error(transparent)]
    Drive(#[from] IoError),
    /// An injected fault ([`Injected::Unwritable`]) hit the write; carries the first failing
    /// sector.
    #[error("unrecovered write error at sector {0}")]
    Unwritable(u64),
    /// A record cannot be written to the drive's file.
    #[error("the drive file cannot be written: {0}")]
    File(#[from] io::Error),
    /// The drive has no power: a front closes the connection without an answer.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The drive's configuration lacks something.
    #[error(transparent)]
    Config(#[from] ssd::ConfigError),
}

/// Whether a range holds data, as `SEEK_DATA` and `SEEK_HOLE` distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Mapped: the drive holds a written page.
    Data,
    /// Unmapped: reads return zeros.
    Hole,
}

/// A powered drive and its file.
pub struct Device {
    sim: Sim,
    drive: Drive,
    surface: Surface,
    keeper: RefCell<Option<Keeper>>,
    /// Requests that wait for the next record in the file.
    waiting: Cell<u32>,
    /// Notified after each record that requests waited for.
    noted: Signal,
    ranges: Rc<Ranges>,
    /// Whether an acknowledged write must survive a power cut.
    protected: bool,
    /// Persistent memory read from the file, until [`Device::take_memory`] takes it.
    memory: RefCell<Option<Memory>>,
    faults: Faults,
}

/// The thread that a [`Device`] lives on. Its result is that of saving the drive.
pub type DeviceEngine = Engine<Result<(), FileError>>;

impl Device {
    /// Starts a thread that powers the drive in the file at `path`; `show` selects the addresses
    /// that requests see. When the thread ends, the drive powers off.
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

    /// Powers on the drive in the file at `path` and opens the addresses that `show` selects.
    ///
    /// # Errors
    /// If the file holds no drive, if another process uses it, or if the layer cannot be opened.
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
                // The drive shuts down in order: a rejected layer is no power cut.
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

    /// Takes the persistent memory that the file keeps beside the drive, for the host model that
    /// powers it on. None if the file has none or it was taken before.
    #[must_use]
    pub fn take_memory(&self) -> Option<PmMedia> {
        self.memory.take().map(PmMedia::of)
    }

    /// Keeps `pm` in the file from now on. Call this before the drive's kernel runs.
    pub fn keep_memory(&self, pm: &Pm) {
        if let Some(keeper) = &mut *self.keeper.borrow_mut() {
            keeper.keep_memory(pm);
        }
    }

    /// Capacity in bytes of the drive, or of the layer above it.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.surface.capacity()
    }

    /// Whether requests use the addresses of a remapping layer.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.surface.is_layer()
    }

    /// Granularity of deallocation in bytes: a page of the drive, or a unit of the layer.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.surface.grain()
    }

    /// Damage found in a salvaged layer, whose remaining data can be read; empty otherwise.
    #[must_use]
    pub fn damage(&self) -> &[OpenError] {
        self.surface.damage()
    }

    /// Clock and spawner of the simulation that the drive lives in.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The drive model, for fronts that address it directly.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Whether an acknowledged write is durable: the drive has power-loss protection, and no layer
    /// above it buffers writes.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.protected
    }

    /// Health counters of the drive over its life until now.
    ///
    /// # Errors
    /// If the flash of the drive has no rated cycles.
    pub fn health(&self) -> Result<Health, Fault> {
        Ok(Health::of(&self.drive, self.drive.smart())?)
    }

    /// Injects `fault` into later requests; returns false if there are too many ranges.
    pub fn inject(&self, fault: Injected) -> bool {
        self.faults.inject(fault)
    }

    /// Removes all injected faults.
    pub fn heal(&self) {
        self.faults.heal();
    }

    /// Cuts the power: the file stays as it is at this instant, which is a state that a power cut
    /// leaves. Every later request fails, and [`Device::close`] writes nothing; the caller then
    /// ends the thread.
    pub fn cut(&self) {
        drop(self.keeper.borrow_mut().take());
    }

    /// Fails with [`Fault::Gone`] after a power cut.
    fn is_powered(&self) -> Result<(), Fault> {
        let powered = self.keeper.borrow().is_some();
        powered.then_some(()).ok_or(Fault::Gone(Gone))
    }

    /// Checks a write before it starts, for callers that write through [`Device::drive`].
    ///
    /// # Errors
    /// Past the end, without power, or if an injected fault hits the range.
    pub fn may_write(&self, offset: u64, len: u64) -> Result<(), Fault> {
        self.check(offset, len)?;
        self.is_powered()?;
        let failing = self.faults.write(&(offset..offset + len));
        failing.map_or(Ok(()), |at| Err(Fault::Unwritable(at / SECTOR)))
    }

    /// Checks a read before it starts, for callers that read through [`Device::drive`]. Returns
    /// true if an injected fault flips one bit of the first byte.
    ///
    /// # Errors
    /// Past the end, without power, or if an injected fault hits the read.
    pub fn may_read(&self, offset: u64, len: u64) -> Result<bool, Fault> {
        self.check(offset, len)?;
        self.is_powered()?;
        match self.faults.read(&(offset..offset + len)) {
            Read::Fails(sector) => Err(IoError::Media(sector).into()),
            fate => Ok(fate == Read::Flipped),
        }
    }

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

    /// Makes `len` bytes from `offset` on read as zeros, and deallocates the whole pages
    /// ([`Device::grain`]) among them.
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

    /// Writes `len` zeros from `offset` on; the pages stay allocated.
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

    /// Makes each sector that the range touches unreadable until it is written again, as durably as
    /// a write. Works on a block drive without a layer.
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

    /// Deallocates the pages that lie wholly in the range, and leaves the rest as it is.
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

    /// Deallocates whole pages from byte `from` to byte `to`, 1 GiB at a time.
    async fn trim(&self, mut from: u64, to: u64) -> Result<(), Fault> {
        while from < to {
            let len = (to - from).min(units::GIB);
            let extent = covering(from, len).expect("not empty");
            self.surface.trim(extent).await?;
            from += len;
        }
        Ok(())
    }

    /// Makes every acknowledged write durable, in the drive and in its file.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub async fn flush(&self) -> Result<(), Fault> {
        self.surface.flush().await?;
        self.note().await
    }

    /// Returns the first offset from `from` on that is `wanted`; the end of the drive counts as a
    /// hole. None if there is none, or if `from` is past the end.
    #[must_use]
    pub fn seek(&self, from: u64, wanted: Medium) -> Option<u64> {
        self.surface.seek(from, self.capacity(), wanted)
    }

    /// As [`Device::seek`], but searches only before `end` and returns `end` if nothing is found.
    #[must_use]
    pub fn seek_before(&self, from: u64, end: u64, wanted: Medium) -> u64 {
        let end = end.min(self.capacity());
        self.surface
            .seek(from, end, wanted)
            .map_or(end, |at| at.min(end))
    }

    /// Shuts the drive down and writes it to its file. If the shutdown comes to rest for want of
    /// room, the drive is left as a power cut leaves it. No request may follow.
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

    /// Locks the sectors that the range touches until the returned guard is dropped. Needed by
    /// callers that write through [`Device::drive`]: a write of part of a sector reads the sector,
    /// modifies it and writes it back, and would undo a concurrent write.
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

    /// Writes `bytes`; the caller holds the lock on their sectors.
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

    /// Waits until the file holds what the answer to a write guarantees. Call this before a write
    /// is acknowledged, also after writes through [`Device::drive`].
    ///
    /// # Errors
    /// If the drive's file cannot be written.
    pub async fn promise(&self) -> Result<(), Fault> {
        if self.protected {
            return self.note().await;
        }
        self.with_keeper(Keeper::note_much)
    }

    /// Waits until the file holds all changes of the drive so far. For callers that use
    /// [`Device::drive`] and acknowledge something as durable. One record serves all waiting
    /// requests.
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
        // Each waiting request checks for itself whether the record was written.
        if self.waiting.replace(0) > 0 {
            let _ = self.with_keeper(Keeper::note);
            self.noted.notify(&self.sim);
        } else {
            let _ = self.with_keeper(Keeper::note_much);
        }
    }
}

/// Shuts `drive` down after `closing`. If the shutdown comes to rest for want of room, returns the
/// media as a power cut leaves them.
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

/// Sectors that the range of bytes touches; none if the range is empty.
fn covering(offset: u64, len: u64) -> Option<Extent> {
    let first = offset / SECTOR;
    let last = (offset + len).div_ceil(SECTOR);
    let sectors = u32::try_from(last - first).expect("a request has less than 2 TiB");
    (len > 0).then(|| Extent::new(first, sectors))
}
