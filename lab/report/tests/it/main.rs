//! Tests of the promises to a user: documents that come back, tables and pages that agree with
//! them, a database that refuses files it cannot read.

mod browser;
mod cautions;
mod documents;
mod fixture;
mod pages;
mod placement;
mod ranking;
mod stores;
mod tables;
