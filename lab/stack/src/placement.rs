//! The placement of a workload on a drive with several handles.
//!
//! Invariant: the choice becomes part of the workload's text, so that a record shows what was run.
//!
//! Defaults of parameters are defined in the table of workloads only. Here `auto` and `origin`,
//! given or by default, get as many handles as the drive has.

use crate::plan::Plan;
use report::record::{self, Handle};
use std::path::Path;
use workload::{PRESETS, Placing, Workload, WorkloadError};

/// Parses the workload `text` for a drive with `handles` handles.
pub(crate) fn parse(text: &str, handles: u32) -> Result<Workload, WorkloadError> {
    // The unchanged text is parsed first, so that errors refer to it.
    let plain = Workload::parse(text)?;
    let placing = plain.placing();
    if handles < 2 || matches!(placing, Placing::Own | Placing::None) {
        return Ok(plain);
    }
    let (_, params) = split(text);
    let is_given = |name: &str| {
        let mut values = params.split(',').filter_map(|p| p.split_once('='));
        values.any(|(n, _)| n == name)
    };
    let mut added = Vec::new();
    if !is_given("placement") {
        added.push(format!("placement={}", placing.name()));
    }
    if !is_given("handles") {
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

/// The placement of a run of `plan` for its record, from the `placing` of a block workload and the
/// counters of the `handles`; `None` on a drive with one handle.
pub(crate) fn record(
    plan: &Plan,
    placing: Option<Placing>,
    handles: &[Handle],
) -> Option<record::Placement> {
    let all = u16::try_from(handles.len()).ok().filter(|&all| all > 1)?;
    let (_, by_caller) = plan.policies.names();
    let by_host = || match plan.stack.host.as_str() {
        "f2fs" => "logs",
        "shimmer" => "rules",
        _ => "hints",
    };
    let policy = by_caller.unwrap_or_else(|| placing.map_or_else(by_host, Placing::name));
    let used = handles.iter().filter(|handle| handle.host_bytes > 0);
    Some(record::Placement {
        policy: policy.to_owned(),
        handles: all,
        used: used.count() as u16,
    })
}

/// Splits a workload into name or path, and parameters. A path may contain colons: the longest
/// existing one wins.
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
        assert_eq!(
            text("zipfwrite:placement=auto", 4),
            "zipfwrite:placement=auto,handles=4"
        );
        let given = "zipfwrite:placement=auto,handles=2";
        assert_eq!(text(given, 4), given);
        assert_eq!(
            text("zipfwrite:placement=auto", 1),
            "zipfwrite:placement=auto"
        );
    }
}
