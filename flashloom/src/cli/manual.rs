//! Shell completions and manual pages, generated from the declarations of the commands.

use super::failure::Failure;
use super::{Answer, Cli};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// Print shell completions
///
/// For bash: flashloom completions bash > ~/.local/share/bash-completion/completions/flashloom
#[derive(Args)]
pub(crate) struct Completions {
    /// Shell to print completions for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Answer {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "flashloom", &mut script);
        let text = String::from_utf8(script);
        text.map_err(|error| Failure::new(error.to_string()))
    }
}

/// Write the manual pages, one per command
///
/// For one user: flashloom man ~/.local/share/man/man1, then man flashloom-compare
#[derive(Args)]
pub(crate) struct Man {
    /// Output directory; created if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(&self) -> Answer {
        let at = |error: std::io::Error| Failure::at(&self.dir, &error);
        if self.dir.exists() && !self.dir.is_dir() {
            return Err(Failure::at(&self.dir, "expected a directory, found a file"));
        }
        fs::create_dir_all(&self.dir).map_err(at)?;
        clap_mangen::generate_to(super::declared(), &self.dir).map_err(at)?;
        let dir = self.dir.display();
        Ok(format!(
            "wrote the manual pages to {dir}, flashloom.1 first\n"
        ))
    }
}
