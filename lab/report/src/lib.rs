//! Records of runs, and all that is derived from them: JSON, tables, pages, and the database of
//! past runs.
//!
//! Invariant: a table, a page and a JSON document are pure functions of records; this crate
//! measures nothing, and models print nothing. Only [`store`] and [`mod@file`] touch the disk, at
//! the paths that a caller gives.

pub mod attribution;
pub mod caution;
pub mod claim;
pub mod configuration;
pub mod figure;
pub mod file;
pub mod fio;
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
