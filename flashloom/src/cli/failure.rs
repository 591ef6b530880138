//! What went wrong, in one sentence.

use clap::error::ErrorKind;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Status of a usage or input error.
const REFUSED: u8 = 2;

/// A command that cannot be carried out as asked.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Says `sentence`. Several lines are joined to one.
    pub(crate) fn new(sentence: impl Display) -> Self {
        let sentence = sentence.to_string();
        let words: Vec<&str> = sentence.split_whitespace().collect();
        Self(words.join(" "))
    }

    /// Says what is wrong with the file at `path`.
    pub(crate) fn at(path: &Path, reason: impl Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }

    /// What the parser of the command line found: its message and its tips,
    /// then where to read on.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let (told, usage) = text.split_once("Usage:").unwrap_or((&text, ""));
        let mut parts: Vec<&str> = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => vec!["expected a command"],
            _ => told.lines().map(clause).collect(),
        };
        let words = usage.split_whitespace();
        let command: Vec<&str> = words
            .take_while(|w| !w.starts_with(['<', '[', '-']))
            .collect();
        let help = format!("see {} --help", command.join(" "));
        if !command.is_empty() {
            parts.push(&help);
        }
        parts.retain(|part| !part.is_empty() && !part.starts_with("For more information"));
        Self::new(joined(&parts))
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(io::stderr(), "flashloom: {}", self.0);
        ExitCode::from(REFUSED)
    }
}

/// A line of the parser's message without what introduces it.
fn clause(line: &str) -> &str {
    let line = line.trim();
    line.trim_start_matches("error: ")
        .trim_start_matches("tip: ")
}

/// Clauses after one another; a list that a clause announces follows at once.
fn joined(parts: &[&str]) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out += if out.ends_with(':') || part.starts_with('[') {
                " "
            } else {
                "; "
            };
        }
        out += part;
    }
    out
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        assert_eq!(Failure::new("a\n  b\n").0, "a b");
        assert_eq!(
            joined(&["no such thing", "[possible values: a]"]),
            "no such thing [possible values: a]"
        );
        assert_eq!(
            joined(&["missing:", "<FILE>", "see --help"]),
            "missing: <FILE>; see --help"
        );
    }
}
