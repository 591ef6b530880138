//! NVMe.
