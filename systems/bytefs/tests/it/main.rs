//! ByteFS over a disk in memory.

#![recursion_limit = "256"]

mod bench;
mod calls;
mod costs;
mod cuts;
mod deferred;
mod failures;
mod handles;
mod journal;
mod limits;
mod mounts;
mod settled;
