//! The explorer and its judges.

mod bounds;
mod brute;
mod calls;
mod chronicle;
mod contents;
mod explorer;
mod files;
mod media;
mod names;
