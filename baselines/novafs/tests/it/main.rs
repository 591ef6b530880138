//! Tests of the file system over a disk in memory.

mod bench;
mod cleaning;
mod cuts;
mod failing;
mod files;
mod hostile;
mod model;
mod tasks;
