//! Runs of small memory systems, and plans of the paper.

mod durable;
mod formulas;
mod plans;
mod replays;
mod runs;
mod small;
mod whole;
