//! The `flashloom` command: parses, calls, prints.
//!
//! Invariants: standard output holds the answer and nothing else; progress,
//! notes and complaints go to standard error. Whatever a user can get wrong ends
//! in one sentence and status 2.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
