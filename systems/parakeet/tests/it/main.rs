//! Rules, decisions, learning and their quality, from outside.

mod decider;
mod fuzz;
mod learned;
mod rules;
mod synthetic;
