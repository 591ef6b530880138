//! Records of runs, and everything that is made of them: JSON, tables, pages,
//! the database of past runs.
//!
//! Invariant: a table, a page and a JSON document are pure functions of
//! records; nothing here measures, and nothing in a model prints.

pub mod record;
