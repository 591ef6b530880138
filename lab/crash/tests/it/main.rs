//! The explorer and its judges.

mod explorer;
mod files;
