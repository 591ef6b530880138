//! The CXL-SSD as its link sees it.

mod curves;
mod cuts;
mod model;
mod moves;
mod paths;
mod support;
