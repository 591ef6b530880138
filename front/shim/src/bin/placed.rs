//! Runs a program with its files placed, as `flashloom shim` does, or serves as the daemon of
//! zones: the minimum for a program that embeds this library.
//!
//! ```text
//! placed serve ZONES
//! placed RULES ZONES CMD ARGS…
//! ```

use shim::ends::Ends;
use shim::run::{Keeper, Placer, READY, check};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

fn serve(zones: &Path) -> ExitCode {
    match shim::daemon::serve(zones, false, || println!("{READY}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(rules: &Path, zones: &Path, command: &[OsString]) -> Result<ExitCode, String> {
    let error = |it: std::io::Error| it.to_string();
    check(rules)?;
    let zones = zones.canonicalize().map_err(error)?;
    let own = std::env::current_exe().map_err(error)?;
    let of = zones.clone();
    let _keeper = Keeper::new(&zones, move || {
        let mut daemon = Command::new(&own);
        daemon.arg("serve").arg(&of);
        daemon
    })?;
    let (program, arguments) = command.split_first().ok_or("no program is given")?;
    let placer = Placer::new().map_err(error)?;
    let command = placer.command((program, arguments), rules, Some(&zones));
    let status = command.and_then(|command| Ends::begin().run(command));
    let code = status.map_err(error)?.code().unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match &words[..] {
        [word, zones] if word == "serve" => serve(Path::new(zones)),
        [rules, zones, command @ ..] => run(Path::new(rules), Path::new(zones), command)
            .unwrap_or_else(|why| {
                eprintln!("{why}");
                ExitCode::FAILURE
            }),
        _ => {
            eprintln!("placed serve ZONES | placed RULES ZONES CMD ARGS…");
            ExitCode::FAILURE
        }
    }
}
