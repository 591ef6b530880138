//! The engine's thread, and drives whose process ends without a word.

mod keep;
mod layer;
mod thread;
