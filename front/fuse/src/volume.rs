//! A mounted file system on the engine's thread.
//!
//! Invariants: a number that the kernel holds for an open file stands for one
//! handle until it is released; what is forced is in the drive's file before the
//! kernel is told.

use engine::{Device, FileError, Service, finish};
use sim::Kernel;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::NoSpace;
use vfs::{Body, Errno, Handle, Result, Vfs};

/// A file system under power, and the drive below it if there is one.
pub struct Volume<B: Body> {
    vfs: Vfs<B>,
    device: Option<Rc<Device>>,
    open: RefCell<BTreeMap<u64, Handle>>,
    /// Who is told why there is no space, and of which limit last.
    tell: Box<dyn Fn(&NoSpace)>,
    told: Cell<Option<&'static str>>,
}

/// Why a file system could not be left.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// It could not write everything down.
    #[error("the file system could not be unmounted: {0}")]
    Unmount(Errno),
    /// It waits for something that will not happen.
    #[error("the file system could not be unmounted: the drive came to rest")]
    AtRest,
    /// The drive's file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl<B: Body> Volume<B> {
    /// `vfs`, which lies on the drive of `device`; on none if it is in memory.
    #[must_use]
    pub fn new(vfs: Vfs<B>, device: Option<Device>) -> Self {
        Self {
            vfs,
            device: device.map(Rc::new),
            open: RefCell::default(),
            tell: Box::new(|_| ()),
            told: Cell::new(None),
        }
    }

    /// The same; `tell` is told of the limit that an allocation meets first, and again
    /// whenever it is another one than before.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&NoSpace) + 'static) -> Self {
        let tell = Box::new(tell);
        Self { tell, ..self }
    }

    /// Tells why there was no space, if that is news.
    pub(crate) fn tell_refusal(&self) {
        let refusals = self.vfs.body().refusals();
        let Some(why) = refusals.last() else { return };
        if self.told.replace(Some(why.limit)) != Some(why.limit) {
            (self.tell)(why);
        }
    }

    /// The drive below it, for [`engine::Handle::part`].
    ///
    /// # Panics
    /// If the file system is in memory.
    #[must_use]
    pub fn device(&self) -> Rc<Device> {
        Rc::clone(self.device.as_ref().expect("it lies on a drive"))
    }

    /// The calls of the file system.
    #[must_use]
    pub fn vfs(&self) -> &Vfs<B> {
        &self.vfs
    }

    /// Keeps an open file; gives its number.
    pub(crate) fn keep(&self, handle: Handle) -> u64 {
        let number = handle.number();
        self.open.borrow_mut().insert(number, handle);
        number
    }

    /// The open file of this number.
    pub(crate) fn handle(&self, number: u64) -> Result<Handle> {
        self.open.borrow().get(&number).copied().ok_or(Errno::EBADF)
    }

    /// Closes a file.
    pub(crate) async fn release(&self, number: u64) {
        let handle = self.open.borrow_mut().remove(&number);
        if let Some(handle) = handle {
            self.vfs.release(handle).await;
        }
    }

    /// Makes an open file durable.
    pub(crate) async fn force(&self, number: u64, data_only: bool) -> Result<()> {
        self.vfs.fsync(&self.handle(number)?, data_only).await?;
        match &self.device {
            Some(device) => device.note().await.map_err(|_| Errno::EIO),
            None => Ok(()),
        }
    }

    /// Leaves the file system as a clean unmount does, and powers the drive off.
    /// The drive is powered off and saved in any case.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn close(&self, kernel: &Kernel) -> std::result::Result<(), CloseError> {
        let vfs = self.vfs.clone();
        let left = finish(kernel, async move { vfs.unmount().await });
        if let Some(device) = &self.device {
            device.close(kernel)?;
        }
        left.ok_or(CloseError::AtRest)?.map_err(CloseError::Unmount)
    }
}

impl<B: Body> Service for Volume<B> {
    fn settle(&self) {
        if let Some(device) = &self.device {
            device.settle();
        }
    }
}
