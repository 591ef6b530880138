//! Protocol between a placed program and the daemon of its zones: shared memory for writes,
//! messages for all else, and the socket's name.

pub(crate) mod memory;
pub(crate) mod message;

use crate::sys;
use core::ffi::c_int;

/// Name of the daemon's socket, in the abstract namespace, so that a dead daemon leaves no file. It
/// identifies the folder of zones by device and inode.
pub(crate) fn name(folder: c_int) -> Result<Vec<u8>, sys::Errno> {
    let stat = sys::stat(folder)?;
    Ok(format!("flashloom-zones-{}-{}", stat.st_dev, stat.st_ino).into_bytes())
}
