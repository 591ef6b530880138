//! Answers on their way out.

use super::Answer;
use super::failure::Failure;
use super::progress;
use clap::Args;
use report::Style;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Columns of the narrowest and the widest layout.
const WIDTHS: (usize, usize) = (60, 200);

/// Status where not all that was asked for is there.
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
    /// `body` as a document of `schema`, or what `text` makes of the terminal.
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

    /// The layout that standard output can show.
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

/// Prints `text`. A reader that went away has seen enough.
pub(crate) fn emit(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Failure::new(format!("standard output: {e}")).report()
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The status of an answer that was `printed`, and whether all that was asked for is there.
pub(crate) fn status(printed: ExitCode, is_all: bool) -> ExitCode {
    match printed == ExitCode::SUCCESS && !is_all {
        true => ExitCode::from(PARTLY),
        false => printed,
    }
}

/// Says something by the way, on standard error.
pub(crate) fn note(text: &str) {
    progress::aside(|| {
        // A note that nobody can read is not worth failing for.
        let _ = writeln!(io::stderr(), "{text}");
    });
}
