//! The engine's thread, and drives whose process crashes.

mod cut;
mod keep;
mod layer;
mod source;
mod thread;
