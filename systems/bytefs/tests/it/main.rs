//! ByteFS over a disk in memory.

mod bench;
mod calls;
mod costs;
mod cuts;
mod failures;
mod handles;
mod limits;
mod mounts;
