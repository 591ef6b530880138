//! Btrfs over a disk in memory, judged by btrfs-progs.

mod bench;
mod cuts;
mod forces;
mod generations;
mod hostile;
mod inspect;
mod large;
mod mkfs;
mod model;
mod room;
mod seam;
mod shared;
mod tools;
