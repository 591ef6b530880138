//! Descriptors for reading zones directly, as files of a folder.

use super::table;
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{PoisonError, RwLock};

pub(super) struct Readers {
    folder: Vec<u8>,
    open: RwLock<BTreeMap<u32, c_int>>,
}

impl Readers {
    pub(super) fn new(folder: &CStr) -> Self {
        Self {
            folder: folder.to_bytes().to_vec(),
            open: RwLock::default(),
        }
    }

    /// Readers for a child, which inherits the descriptors.
    pub(super) fn heir(&self) -> Self {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        Self {
            folder: self.folder.clone(),
            open: RwLock::new(open.clone()),
        }
    }

    /// A descriptor for reading `zone`, opened at first use.
    pub(super) fn get(&self, zone: u32) -> Result<c_int, Errno> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = open.get(&zone) {
            return Ok(*fd);
        }
        drop(open);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = open.get(&zone) {
            return Ok(*fd);
        }
        let name = [&self.folder[..], b"/seq/", zone.to_string().as_bytes()].concat();
        let name = CString::new(name).map_err(|_| libc::EINVAL)?;
        let fd = sys::moved_up(sys::open(&name, libc::O_RDONLY)?);
        table::own(fd);
        open.insert(zone, fd);
        Ok(fd)
    }
}
