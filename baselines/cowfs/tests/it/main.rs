//! Btrfs over a disk in memory, judged by btrfs-progs.

mod bench;
mod cuts;
mod forces;
mod mkfs;
mod model;
mod tools;
