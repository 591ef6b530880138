//! The contracts of the file API, tested from outside.

mod bench;
mod concurrent;
mod files;
mod locks;
mod model;
mod mounts;
mod names;
mod reads;
mod writeback;
