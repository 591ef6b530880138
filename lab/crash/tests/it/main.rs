//! The explorer and its judges.

mod bounds;
mod brute;
mod chronicle;
mod contents;
mod explorer;
mod files;
mod media;
mod names;
