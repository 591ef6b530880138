//! Mounts as their users meet them. Where there is no FUSE the tests say so and
//! test nothing.

mod file;
mod mounts;
mod support;
mod volume;
mod zones;
