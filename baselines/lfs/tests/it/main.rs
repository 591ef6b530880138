//! F2FS over a disk in memory, judged by f2fs-tools.

mod bench;
mod cuts;
mod files;
mod fuzz;
mod hostile;
mod mkfs;
mod model;
mod relocation;
mod tools;
mod zones;
