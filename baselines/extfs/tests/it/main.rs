//! The body against the tools and the kernel that own its format.

mod audit;
mod direct;
mod driver;
mod fill;
mod hostile;
mod journal;
mod kernel;
mod mkfs;
mod model;
mod refusals;
mod reserved;
mod seal;
mod sealed;
mod tasks;
mod tools;
mod undo;
mod undo_claim;
mod vfs;
