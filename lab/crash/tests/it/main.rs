//! The explorer and its judges.

mod chronicle;
mod explorer;
mod files;
