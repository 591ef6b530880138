//! Mounts from their users' point of view. Without FUSE the tests report that and are skipped.

mod file;
mod mounts;
mod support;
mod volume;
mod zones;
