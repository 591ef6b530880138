//! Plays small workloads in a directory of its own.

mod beneath;
mod calls;
mod script;
mod threads;
