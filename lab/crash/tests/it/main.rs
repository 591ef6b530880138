//! The explorer and its judges.

mod brute;
mod chronicle;
mod contents;
mod explorer;
mod files;
mod names;
