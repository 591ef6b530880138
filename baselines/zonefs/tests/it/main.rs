//! zonefs over a zoned drive, and over one that fails.

mod api;
mod bench;
mod calls;
mod failing;
mod limits;
mod superblock;
