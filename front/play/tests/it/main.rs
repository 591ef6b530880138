//! Small workloads, each played in a temporary directory.

mod beneath;
mod calls;
mod script;
mod threads;
