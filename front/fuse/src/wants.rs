//! What every mount asks the kernel for.

use fuser::{InitFlags, KernelConfig};

/// Requests that the kernel may have under way: as many as the queue of an NVMe
/// drive takes by default in Linux, rounded down.
const BACKGROUND: u16 = 1023;

/// Bytes of the largest write that the kernel may send at once.
const MAX_WRITE: u32 = 1 << 20;

/// Asks for each of `flags`, for many requests at once and for large writes. A kernel
/// that lacks one of these serves the mount as well, but slower.
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
