//! What a placed program and the daemon of its zones have in common: the memory for
//! writes, the messages for all else, and how they find each other.

pub(crate) mod memory;
pub(crate) mod message;

use crate::sys;
use core::ffi::c_int;

/// The name at which the daemon of a folder of zones is met: that of no file, so that
/// nothing is left of a daemon that has died. A folder of zones is told by its device and
/// its number.
pub(crate) fn name(folder: c_int) -> Result<Vec<u8>, sys::Errno> {
    let stat = sys::stat(folder)?;
    Ok(format!("flashloom-zones-{}-{}", stat.st_dev, stat.st_ino).into_bytes())
}
