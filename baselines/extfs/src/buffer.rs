//! A block of metadata in memory.

use host::Purpose;
use std::cell::{Cell, Ref, RefCell, RefMut};

/// Bytes of a block of the file system: 4096, the only size that is built.
pub const BLOCK: usize = 4096;

/// A block of metadata in memory, shared by all who use it. Only a strategy
/// changes it.
pub struct Buffer {
    /// Its number on the medium.
    pub block: u64,
    /// What it is for.
    pub purpose: Cell<Purpose>,
    bytes: RefCell<Box<[u8; BLOCK]>>,
}

impl Buffer {
    /// A buffer that holds `bytes`.
    #[must_use]
    pub const fn new(block: u64, purpose: Purpose, bytes: Box<[u8; BLOCK]>) -> Self {
        Self {
            block,
            purpose: Cell::new(purpose),
            bytes: RefCell::new(bytes),
        }
    }

    /// Its bytes. Not to be held across a wait.
    #[must_use]
    pub fn bytes(&self) -> Ref<'_, [u8; BLOCK]> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// Its bytes, to be changed by a strategy.
    #[must_use]
    pub fn bytes_mut(&self) -> RefMut<'_, [u8; BLOCK]> {
        RefMut::map(self.bytes.borrow_mut(), |bytes| &mut **bytes)
    }
}
