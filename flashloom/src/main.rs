//! The `flashloom` command: parses, calls, prints.
//!
//! Invariants: standard output holds the answer and nothing else; progress,
//! notes and complaints go to standard error. Whatever a user can get wrong ends
//! in one sentence and status 2.

mod cli;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Pages of 4 KiB come and go by the million, which is where the allocator of the
/// system spends a sixth of a run.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
