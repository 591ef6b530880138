//! The CXL-SSD as its link sees it.

mod cuts;
mod model;
mod paths;
mod support;
