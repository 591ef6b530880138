//! Records of runs, and everything that is made of them: JSON, tables, pages,
//! the database of past runs.
//!
//! Invariant: a table, a page and a JSON document are pure functions of
//! records; nothing here measures, and nothing in a model prints. Only
//! [`store`] and [`mod@file`] touch the disk, and only where they are told to.

pub mod attribution;
pub mod caution;
pub mod claim;
pub mod configuration;
pub mod figure;
pub mod file;
pub mod human;
pub mod json;
pub mod metric;
pub mod norm;
pub mod page;
pub mod papers;
pub mod placement;
pub mod plot;
pub mod ranking;
pub mod record;
pub mod regime;
mod remapped;
pub mod series;
pub mod store;
pub mod table;

pub use json::{parse, to_json};
pub use store::Store;
pub use table::Style;
