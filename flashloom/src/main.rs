//! The `flashloom` command: parses, calls, prints.
//!
//! Invariants: standard output holds the answer and nothing else; progress, notes and errors go to
//! standard error. Every mistake of a user ends in one sentence and status 2.

mod cli;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Pages of 4 KiB are allocated and freed by the million; the system's allocator would take a sixth
/// of a run for that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
