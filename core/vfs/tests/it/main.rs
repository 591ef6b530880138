//! Tests of the contracts of the file API through its public interface.

mod bench;
mod concurrent;
mod files;
mod locks;
mod model;
mod mounts;
mod names;
mod reads;
mod writeback;
