//! ByteFS over a disk in memory.

mod bench;
mod calls;
mod costs;
mod cuts;
mod failures;
mod handles;
mod journal;
mod limits;
mod mounts;
mod settled;
