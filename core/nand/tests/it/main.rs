//! Tests of the rules of physics, times, failures and power cuts of flash, from outside.

mod bench;
mod contents;
mod cut;
mod faults;
mod model;
mod parts;
mod past;
mod registers;
mod reports;
mod rules;
mod suspend;
mod timing;
mod trace;
