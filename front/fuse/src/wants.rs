//! Capabilities that every mount requests from the kernel.

use fuser::{InitFlags, KernelConfig};

/// Maximum number of background requests of the kernel: the default queue size of an NVMe drive in
/// Linux, rounded down.
const BACKGROUND: u16 = 1023;

/// Size of the largest write request in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// Requests each of `flags`, many requests at once and large writes. A kernel without one of these
/// serves the mount as well, but slower.
pub(crate) fn ask_for(config: &mut KernelConfig, flags: &[InitFlags]) {
    for flag in flags {
        let _ = config.add_capabilities(*flag);
    }
    let _ = config.set_max_background(BACKGROUND);
    let _ = config.set_congestion_threshold(BACKGROUND);
    if let Err(most) = config.set_max_write(MAX_WRITE) {
        let _ = config.set_max_write(most);
    }
}
