//! Output of answers and notes.

use super::Answer;
use super::failure::Failure;
use super::progress;
use clap::Args;
use report::Style;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Narrowest and widest layout, in columns.
const WIDTHS: (usize, usize) = (60, 200);

/// Exit status if a part of the result is missing.
const PARTLY: u8 = 1;

/// Options for the form of the answer.
#[derive(Args, Clone, Copy)]
pub(crate) struct Shown {
    /// Print one JSON document to standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of commands that read one drive file.
#[derive(Args)]
pub(crate) struct OfFile {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// JSON document with the name of its schema.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl Shown {
    /// `body` as a document of `schema`, or the `text` for a terminal.
    pub(crate) fn answer<T: Serialize>(
        self,
        schema: &str,
        body: &T,
        text: impl FnOnce(Style) -> String,
    ) -> Answer {
        if !self.json {
            return Ok(text(Self::style()));
        }
        let document = Document { schema, body };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    /// The layout that fits standard output.
    pub(crate) fn style() -> Style {
        if !io::stdout().is_terminal() {
            return Style::default();
        }
        let (_, columns) = console::Term::stdout().size();
        Style {
            color: console::colors_enabled(),
            width: usize::from(columns).clamp(WIDTHS.0, WIDTHS.1),
        }
    }
}

/// Prints `text`. A reader that closed the pipe has seen enough.
pub(crate) fn emit(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Failure::new(format!("standard output: {e}")).report()
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The exit status of an answer that was `printed`; `is_all` says whether the result is complete.
pub(crate) fn status(printed: ExitCode, is_all: bool) -> ExitCode {
    match printed == ExitCode::SUCCESS && !is_all {
        true => ExitCode::from(PARTLY),
        false => printed,
    }
}

/// Prints a note on standard error.
pub(crate) fn note(text: &str) {
    progress::aside(|| {
        // A note that cannot be printed is no reason to fail.
        let _ = writeln!(io::stderr(), "{text}");
    });
}
