//! Errors of the command line, one sentence each.

use clap::error::ErrorKind;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Exit status of a usage or input error.
const REFUSED: u8 = 2;

/// A command that cannot be executed, with the reason.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure with the text `sentence`; several lines are joined to one.
    pub(crate) fn new(sentence: impl Display) -> Self {
        let sentence = sentence.to_string();
        let words: Vec<&str> = sentence.split_whitespace().collect();
        Self(words.join(" "))
    }

    /// A failure of the file at `path`.
    pub(crate) fn at(path: &Path, reason: impl Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }

    /// A failure of the command line's parser: its message and tips, then a reference to the help.
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

    /// Prints the failure on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        // Standard error may be closed; then there is no place left to report.
        let _ = writeln!(io::stderr(), "flashloom: {}", self.0);
        ExitCode::from(REFUSED)
    }
}

/// A line of the parser's message without its prefix.
fn clause(line: &str) -> &str {
    let line = line.trim();
    line.trim_start_matches("error: ")
        .trim_start_matches("tip: ")
}

/// Joins clauses by semicolons; a list follows its introducing clause after a space.
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
