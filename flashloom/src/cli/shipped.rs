//! The trace that comes with the program, and workloads as they were asked for.

use super::failure::Failure;
use std::io::Write;
use std::path::Path;
use tempfile::NamedTempFile;

/// Its name, which a workload can be like that of a preset.
pub(crate) const NAME: &str = "postgres-ext4";
/// What it is, in a line.
pub(crate) const HELP: &str = "the trace that comes with the program: PostgreSQL on ext4";

const CONTENTS: &[u8] = include_bytes!("../../traces/postgres-ext4.csv.zst");

/// A workload as it was asked for, and as the library reads it: the shipped
/// trace lies in a file for as long as this lives.
pub(crate) struct Asked {
    /// As it was asked for.
    pub(crate) told: String,
    /// As [`workload::Workload::parse`] reads it.
    pub(crate) text: String,
    file: Option<NamedTempFile>,
}

impl Asked {
    /// `workload` of a record with the shipped trace by its name again.
    pub(crate) fn named(&self, workload: &str) -> String {
        match &self.file {
            Some(file) => workload.replace(&file.path().display().to_string(), NAME),
            None => workload.to_owned(),
        }
    }

    /// The workload `told`: a preset, the shipped trace or a file, with
    /// parameters.
    pub(crate) fn new(told: &str) -> Result<Self, Failure> {
        let (name, params) = told.split_once(':').unwrap_or((told, ""));
        if name != NAME || Path::new(told).is_file() {
            let (told, text) = (told.to_owned(), told.to_owned());
            return Ok(Self {
                told,
                text,
                file: None,
            });
        }
        let file = unpacked().map_err(|e| Failure::new(format!("a temporary file: {e}")))?;
        let colon = if params.is_empty() { "" } else { ":" };
        let text = format!("{}{colon}{params}", file.path().display());
        Ok(Self {
            told: told.to_owned(),
            text,
            file: Some(file),
        })
    }
}

fn unpacked() -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("flashloom-").tempfile()?;
    file.write_all(CONTENTS)?;
    file.flush()?;
    Ok(file)
}

/// `workload` with one more parameter.
pub(crate) fn with(workload: &str, param: &str) -> String {
    let name = workload.split(':').next().unwrap_or_default();
    let bare = name == workload || Path::new(workload).is_file();
    format!("{workload}{}{param}", if bare { ':' } else { ',' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_a_colon_and_each_other() {
        assert_eq!(with(NAME, "depth=8"), "postgres-ext4:depth=8");
        assert_eq!(
            with("a.csv:depth=8", "fit=as-is"),
            "a.csv:depth=8,fit=as-is"
        );
    }

    #[test]
    fn the_shipped_trace_can_be_read() {
        let asked = Asked::new(NAME).unwrap();
        let workload = workload::Workload::parse(&asked.text).unwrap();
        let stream = workload.open(units::Bytes(4 << 30), sim::Seed(1)).unwrap();
        assert!(stream.filter(Result::is_ok).count() > 200_000);
    }
}
