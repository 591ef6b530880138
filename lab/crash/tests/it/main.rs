//! The explorer and its judges.

mod brute;
mod chronicle;
mod explorer;
mod files;
