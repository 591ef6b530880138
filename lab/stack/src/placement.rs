//! Which placement a workload gets on a drive with several handles.
//!
//! Invariant: what was decided here stands in the workload's text afterwards, so
//! that a record says what was run.
//!
//! A trace rarely names handles. On a drive with more than one, a trace whose
//! text says nothing is placed by access pattern (`placement=auto`), with as
//! many handles as the drive has; the same number is filled in where the text
//! asks for `auto` or `origin` without one.

use std::path::Path;
use workload::{PRESETS, Workload, WorkloadError};

/// The workload that `text` is on a drive with `handles` handles.
pub(crate) fn parse(text: &str, handles: u32) -> Result<Workload, WorkloadError> {
    // First as it stands, so that an error is about what was given.
    let plain = Workload::parse(text)?;
    if handles < 2 {
        return Ok(plain);
    }
    let (name, params) = split(text);
    let given = |name: &str| {
        let values = params.split(',').filter_map(|p| p.split_once('='));
        values.filter(|(n, _)| *n == name).map(|(_, v)| v).last()
    };
    let trace = PRESETS.iter().all(|p| p.name != name) && !name.ends_with(".fio");
    let mut added = Vec::new();
    if given("placement").is_none() && trace {
        added.push("placement=auto".to_owned());
    }
    let counts = !added.is_empty() || matches!(given("placement"), Some("auto" | "origin"));
    if counts && given("handles").is_none() {
        added.push(format!("handles={handles}"));
    }
    if added.is_empty() {
        return Ok(plain);
    }
    let separator = match params {
        "" => text.strip_suffix(':').map_or(":", |_| ""),
        _ => ",",
    };
    Workload::parse(&format!("{text}{separator}{}", added.join(",")))
}

/// The name or path of a workload, and its parameters. A path may hold colons:
/// the longest one that exists wins.
fn split(text: &str) -> (&str, &str) {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    if PRESETS.iter().any(|p| p.name == name) {
        return (name, params);
    }
    if Path::new(text).is_file() {
        return (text, "");
    }
    let colons = text.rmatch_indices(':');
    let mut splits = colons.map(|(at, _)| (&text[..at], &text[at + 1..]));
    splits
        .find(|(path, _)| Path::new(path).is_file())
        .unwrap_or((name, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_keep_their_own_placement() {
        let text = |text, handles| parse(text, handles).unwrap().text;
        assert_eq!(text("logs", 8), "logs");
        assert_eq!(text("zipfwrite:placement=auto", 4), "zipfwrite:placement=auto,handles=4");
        let given = "zipfwrite:placement=auto,handles=2";
        assert_eq!(text(given, 4), given);
        assert_eq!(text("zipfwrite:placement=auto", 1), "zipfwrite:placement=auto");
    }
}
