//! The subcommands of `trace` for traces of file calls.

use super::Answer;
use super::failure::Failure;
use super::file::beside;
use super::output::Shown;
use report::table::{Side, facts, listing};
use report::{Style, human};
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::Path;
use workload::anonymous::Pseudonyms;
use workload::files::Names;
use workload::files::trace::{About, FileSummary, FileTrace, Form, Summarizer, TextWriter, Writer};

/// The document of `trace info`.
#[derive(Serialize)]
struct Facts {
    file: String,
    format: &'static str,
    root: String,
    command: String,
    setup_entries: usize,
    #[serde(flatten)]
    summary: FileSummary,
    notes: Vec<String>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Summarizes `trace`, which the user named `path`.
pub(crate) fn info(mut trace: FileTrace, path: &Path, shown: Shown) -> Answer {
    let mut sum = Summarizer::default();
    for event in &mut trace {
        sum.add(&event?);
    }
    let about = trace.about();
    let found = Facts {
        file: path.display().to_string(),
        format: trace.form().name(),
        root: text(&about.root),
        command: text(&about.command),
        setup_entries: trace.setup().entries.len(),
        summary: sum.finish(trace.threads(), trace.names()),
        notes: about.notes.iter().map(|note| text(note)).collect(),
    };
    shown.answer("flashloom.file-trace-info/1", &found, |style| {
        page(&found, style)
    })
}

fn page(found: &Facts, style: Style) -> String {
    let mut out = facts(overview(found), style);
    if !found.summary.kinds.is_empty() {
        out += &format!("\n{}", kinds(&found.summary, style));
    }
    if !found.summary.files.is_empty() {
        out += &format!("\n{}", files(&found.summary, style));
    }
    for note in &found.notes {
        out += &format!("\nnot recorded: {note}");
    }
    out.trim_end().to_owned() + "\n"
}

fn count(number: u64) -> String {
    human::count(number as f64)
}

fn bytes(number: u64) -> String {
    human::bytes(number as f64)
}

fn time(ns: u64) -> String {
    human::time(ns as f64)
}

fn overview(found: &Facts) -> Vec<(&'static str, String)> {
    let s = &found.summary;
    let who = format!("{} in {} processes", count(s.threads), count(s.processes));
    vec![
        ("file", found.file.clone()),
        ("format", found.format.to_owned()),
        ("command", found.command.clone()),
        ("paths under", found.root.clone()),
        (
            "calls",
            format!("{}, {} failed", count(s.calls), count(s.failed)),
        ),
        ("duration", time(s.duration_ns)),
        ("in calls", time(s.in_calls_ns)),
        ("think time", time(s.think_ns)),
        ("threads", who),
        (
            "paths",
            format!("{}, {} opens", count(s.paths), count(s.opens)),
        ),
        ("pre-existing", count(found.setup_entries as u64)),
        ("read", bytes(s.read_bytes)),
        ("written", bytes(s.write_bytes)),
        ("sync calls", count(s.syncs)),
    ]
}

fn kinds(summary: &FileSummary, style: Style) -> String {
    let row = |kind: &workload::files::trace::KindSummary| {
        vec![
            kind.call.to_owned(),
            count(kind.calls),
            count(kind.failed),
            bytes(kind.bytes),
            time(kind.in_calls_ns),
        ]
    };
    let rows: Vec<_> = summary.kinds.iter().map(row).collect();
    let columns = [
        ("call", Side::Left),
        ("calls", Side::Right),
        ("failed", Side::Right),
        ("moved", Side::Right),
        ("time", Side::Right),
    ];
    listing(&columns, &rows, style)
}

fn files(summary: &FileSummary, style: Style) -> String {
    let row = |file: &workload::files::trace::FileUse| {
        vec![
            file.path.clone(),
            count(file.opens),
            bytes(file.read_bytes),
            bytes(file.write_bytes),
            count(file.syncs),
        ]
    };
    let rows: Vec<_> = summary.files.iter().map(row).collect();
    let columns = [
        ("file", Side::Left),
        ("opens", Side::Right),
        ("read", Side::Right),
        ("written", Side::Right),
        ("synced", Side::Right),
    ];
    listing(&columns, &rows, style)
}

/// The document of `trace head`.
#[derive(Serialize)]
struct Lines {
    format: &'static str,
    calls: Vec<String>,
}

/// Prints the first calls of `trace`.
pub(crate) fn head(mut trace: FileTrace, most: usize, shown: Shown) -> Answer {
    let events: Result<Vec<_>, _> = trace.by_ref().take(most).collect();
    let names = trace.names();
    let lines = Lines {
        format: trace.form().name(),
        calls: events?.iter().map(|event| event.text(names)).collect(),
    };
    shown.answer("flashloom.file-trace-head/1", &lines, |_| {
        lines.calls.iter().map(|line| line.clone() + "\n").collect()
    })
}

/// The document of `trace convert`.
#[derive(Serialize)]
struct Converted {
    from: &'static str,
    to: &'static str,
    file: String,
    calls: u64,
}

/// Converts `trace` to another form.
pub(crate) fn convert(
    trace: FileTrace,
    (to, out): (Form, &Path),
    anonymous: bool,
    shown: Shown,
) -> Answer {
    let from = trace.form().name();
    let mut file = beside(out)?;
    let written = BufWriter::new(&mut file);
    let calls = match to {
        Form::Flt => as_binary(trace, anonymous, written)?,
        Form::Text => as_text(trace, anonymous, written)?,
    };
    file.finish()?;
    let done = Converted {
        from,
        to: to.name(),
        file: out.display().to_string(),
        calls,
    };
    shown.answer("flashloom.file-trace-convert/1", &done, |_| {
        let Converted { from, to, file, .. } = &done;
        format!(
            "{file}: {} calls in {to} (from {from})\n",
            count(done.calls)
        )
    })
}

/// Names of a trace as they are written.
struct Shared(Option<(Pseudonyms, Names)>);

impl Shared {
    fn new(anonymous: bool) -> Self {
        Self(anonymous.then(Default::default))
    }

    fn about(&self, about: &About) -> About {
        match self.0 {
            Some(_) => About::anonymous(),
            None => about.clone(),
        }
    }

    /// The strings of `names`, or their pseudonyms.
    fn names<'a>(&'a mut self, names: &'a Names) -> &'a Names {
        match &mut self.0 {
            Some((pseudonyms, written)) => {
                pseudonyms.follow(names, written);
                written
            }
            None => names,
        }
    }
}

/// Declares a function that copies a trace to this type of writer.
macro_rules! copy {
    ($name:ident, $writer:ident) => {
        fn $name(mut trace: FileTrace, anonymous: bool, out: impl Write) -> Result<u64, Failure> {
            let mut shared = Shared::new(anonymous);
            let about = shared.about(trace.about());
            let names = shared.names(trace.names());
            let mut writer = $writer::new(out, &about, trace.setup(), names)?;
            let (mut threads, mut calls) = (0, 0);
            while let Some(event) = trace.next().transpose()? {
                let names = shared.names(trace.names());
                for thread in &trace.threads()[threads..] {
                    writer.thread(thread, names)?;
                }
                threads = trace.threads().len();
                writer.event(&event, names)?;
                calls += 1;
            }
            writer.finish()?.flush()?;
            Ok(calls)
        }
    };
}

copy!(as_binary, Writer);
copy!(as_text, TextWriter);
