//! Workloads of files, run on a small model of a file system.

mod ace;
mod anything;
mod beside;
mod cachebench;
mod flows;
mod model;
mod scripts;
mod stores;
mod tpcc;
mod ycsb;
