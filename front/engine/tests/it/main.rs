//! The engine's thread, and drives whose process ends without a word.

mod cut;
mod keep;
mod layer;
mod source;
mod thread;
