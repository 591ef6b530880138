//! A mounted file system on the engine's thread.
//!
//! Invariants: the kernel's number of an open file denotes one handle until its release. A sync is
//! recorded in the drive's file before the kernel gets its reply.

use engine::{Device, FileError, Service, finish};
use sim::Kernel;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::NoSpace;
use vfs::{Body, Errno, Handle, Result, Vfs};

/// A mounted file system, and the drive below it if there is one.
pub struct Volume<B: Body> {
    vfs: Vfs<B>,
    device: Option<Rc<Device>>,
    open: RefCell<BTreeMap<u64, Handle>>,
    /// Callback that is told why there is no space, and the limit that it was told last.
    tell: Box<dyn Fn(&NoSpace)>,
    told: Cell<Option<&'static str>>,
}

/// Reasons why a file system could not be unmounted cleanly.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The file system failed to write its state.
    #[error("the file system could not be unmounted: {0}")]
    Unmount(Errno),
    /// The unmount waits for an event that cannot happen any more.
    #[error(
        "the file system could not be unmounted: the drive stalled, as garbage collection has \
        no free space"
    )]
    AtRest,
    /// The drive's file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl<B: Body> Volume<B> {
    /// A volume of `vfs`, on the drive of `device`; `None` if the file system is in memory.
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

    /// Sets the callback `tell` for allocations that fail: it is called for the first limit that is
    /// met, and again whenever the limit is another one.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&NoSpace) + 'static) -> Self {
        let tell = Box::new(tell);
        Self { tell, ..self }
    }

    /// Calls the callback if an allocation failed at another limit than the last time.
    pub(crate) fn tell_refusal(&self) {
        let refusals = self.vfs.body().refusals();
        let Some(why) = refusals.last() else { return };
        if self.told.replace(Some(why.limit)) != Some(why.limit) {
            (self.tell)(why);
        }
    }

    /// The drive below the file system, for [`engine::Handle::part`].
    ///
    /// # Panics
    /// If the file system is in memory.
    #[must_use]
    pub fn device(&self) -> Rc<Device> {
        Rc::clone(self.device.as_ref().expect("it lies on a drive"))
    }

    /// The file API of the mounted file system.
    #[must_use]
    pub fn vfs(&self) -> &Vfs<B> {
        &self.vfs
    }

    /// Stores an open file and returns its number.
    pub(crate) fn keep(&self, handle: Handle) -> u64 {
        let number = handle.number();
        self.open.borrow_mut().insert(number, handle);
        number
    }

    /// The open file with a number; `EBADF` if there is none.
    pub(crate) fn handle(&self, number: u64) -> Result<Handle> {
        self.open.borrow().get(&number).copied().ok_or(Errno::EBADF)
    }

    /// Closes the open file with a number.
    pub(crate) async fn release(&self, number: u64) {
        let handle = self.open.borrow_mut().remove(&number);
        if let Some(handle) = handle {
            self.vfs.release(handle).await;
        }
    }

    /// Syncs an open file, and records this in the drive's file.
    pub(crate) async fn force(&self, number: u64, data_only: bool) -> Result<()> {
        self.vfs.fsync(&self.handle(number)?, data_only).await?;
        match &self.device {
            Some(device) => device.note().await.map_err(|_| Errno::EIO),
            None => Ok(()),
        }
    }

    /// Unmounts the file system cleanly and powers the drive off. The drive is powered off and
    /// saved in any case.
    ///
    /// # Errors
    /// The first error that occurred.
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
