//! Documents of published measurements: one a drive, each a list of experiments with values.
//!
//! Invariants: a document that parses has the known keys alone, positive real values, and sources
//! that it names; an error names the file and the line, and all files are read before the first
//! error is reported.

use input::document::{DocumentError, Source};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Declares the embedded documents by their names.
macro_rules! documents {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../validate/", $name, ".toml")))),*]
    };
}

/// The embedded documents, by the name of their drive.
const FILES: &[(&str, &str)] = documents!(
    "6550-ion",
    "6600-ion",
    "7450-max",
    "7450-pro",
    "970-pro",
    "980-pro",
    "aws-i4i",
    "cm7-r",
    "cmm-h",
    "evo-2tb",
    "fadu-fdp",
    "lc9",
    "nvme-a",
    "nvme-b",
    "optane",
    "p5520",
    "pe8110",
    "pm1725a",
    "pm1725b",
    "pm1733",
    "pm9a3",
    "pm9d3a",
    "samsung-fdp",
    "warp-emulator",
    "wd-960",
    "zn540",
);

/// Published measurements of one drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Name of the drive.
    pub drive: String,
    /// The drive in words.
    pub title: String,
    /// Interface of the drive: block, zoned, fdp or memory.
    pub interface: Interface,
    /// Capacity of the drive in 10^9 bytes.
    #[serde(default)]
    pub capacity_gb: Option<f64>,
    /// Capacity of the cache of a memory-mapped drive in 10^9 bytes.
    #[serde(default)]
    pub cache_gb: Option<f64>,
    /// Whether the drive is itself emulated.
    #[serde(default)]
    pub emulated: bool,
    /// Sources by their keys.
    pub sources: BTreeMap<String, String>,
    /// Experiments, in the order of the file.
    pub experiment: Vec<Experiment>,
}

/// Interface of a measured drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// Blocks at any address.
    Block,
    /// Zones that are written in order.
    Zoned,
    /// Blocks with placement handles.
    Fdp,
    /// Cache lines of memory on the drive.
    Memory,
}

/// One experiment on a drive, with the measured values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Kind of the experiment, such as `random read`.
    pub kind: String,
    /// Key of the source, and the place in it after a colon.
    pub source: String,
    /// Jobs of fio that run at the same time.
    #[serde(default)]
    pub job: OneOrMore,
    /// State of the drive before the experiment.
    #[serde(default)]
    pub state: Option<State>,
    /// Kind of requests at the host: spdk, io_uring, libaio, psync, passthrough, kernel or load.
    #[serde(default)]
    pub host: Option<String>,
    /// Bytes of a logical block.
    #[serde(default)]
    pub format: Option<u32>,
    /// Share of the drive's capacity that is in use.
    #[serde(default)]
    pub fill: Option<f64>,
    /// Capacities written when the value was taken, or the first and the last of a span of them.
    #[serde(default)]
    pub written: Option<toml::Value>,
    /// Part of the experiment that the value covers.
    #[serde(default)]
    pub window: Option<String>,
    /// Regions that a drive without zones is written by, in order, as if it had zones.
    #[serde(default)]
    pub zones: Option<toml::Value>,
    /// Commands to zones in place of jobs.
    #[serde(default)]
    pub zone: Option<ZoneCommand>,
    /// Load beside the commands to zones.
    #[serde(default)]
    pub beside: Option<toml::Value>,
    /// Working set over the cache of a memory-mapped drive.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Size of a reclaim unit.
    #[serde(default)]
    pub unit: Option<String>,
    /// Whether the value was read in a summary of its source.
    #[serde(default)]
    pub second_hand: bool,
    /// Capacity of the measured variant in 10^9 bytes, if the drive has several.
    #[serde(default)]
    pub capacity_gb: Option<f64>,
    /// Whether the namespace has no zones although the drive has.
    #[serde(default)]
    pub without_zones: bool,
    /// Remarks on the experiment.
    #[serde(default)]
    pub note: String,
    /// Measured values, at least one.
    pub values: Vec<Value>,
}

/// State of a drive before an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Erased, or never written before.
    Fresh,
    /// Written once, in order.
    Full,
    /// Overwritten at random until collection is steady.
    Aged,
}

/// Commands to zones, one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneCommand {
    /// The command whose time is measured.
    #[serde(rename = "do")]
    pub action: Action,
    /// Share of the zone that is written before.
    pub written: f64,
    /// The same in logical blocks.
    pub blocks: u64,
    /// Whether the zone is finished before the command.
    #[serde(default)]
    pub finished: bool,
}

/// Command to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Opens an empty zone by command.
    Open,
    /// Closes a zone opened by command.
    Close,
    /// Makes a partly written zone full.
    Finish,
    /// Makes a written zone empty.
    Reset,
    /// Writes the first block of a zone that was opened by command.
    FirstWrite,
    /// Appends the first block to a zone that was opened by command.
    FirstAppend,
}

/// One job, or several that run at the same time.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore {
    /// One job without a name.
    One(Job),
    /// Several jobs, each with a name.
    More(Vec<Job>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl OneOrMore {
    /// The jobs, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Job] {
        match self {
            Self::One(job) => std::slice::from_ref(job),
            Self::More(jobs) => jobs,
        }
    }
}

/// Options of a job by their names in fio, and of `do`, `written` and `share`, which fio has not.
pub type Job = BTreeMap<String, Word>;

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// A switch that is on or off.
    Flag(bool),
    /// A whole number, such as a depth.
    Whole(u64),
    /// A share of all bytes.
    Share(f64),
    /// Text, such as a size.
    Text(String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{}", u8::from(*flag)),
            Self::Whole(number) => number.fmt(f),
            Self::Share(share) => share.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// One measured value with its unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The quantity: iops, bandwidth, waf, dwpd, tbw, mean or a percentile such as p99.9.
    pub what: String,
    /// Unit of the value.
    pub unit: String,
    /// The published value, above 0.
    pub real: f64,
    /// Direction of the requests that the value covers: read or write.
    #[serde(default)]
    pub of: Option<Of>,
    /// Whether the value set a constant of the preset.
    #[serde(default)]
    pub fitted: bool,
}

/// Direction of the requests of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Reads of the host.
    Read,
    /// Writes of the host.
    Write,
}

/// The embedded documents, by drive.
///
/// # Errors
/// The first fault of each malformed document.
pub fn documents() -> Result<Vec<Document>, Vec<DocumentError>> {
    let read = FILES.iter().map(|(name, text)| parse(name, text));
    let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    match bad.is_empty() {
        true => Ok(good.into_iter().flatten().collect()),
        false => Err(bad.into_iter().filter_map(Result::err).collect()),
    }
}

/// The document `text`, named `name` in errors.
fn parse(name: &str, text: &str) -> Result<Document, DocumentError> {
    let source = Source {
        file: format!("{name}.toml"),
        text: text.to_owned(),
    };
    let document: Document = source.parse()?;
    for experiment in &document.experiment {
        let key = experiment.source.split([':', ' ']).next().unwrap_or("");
        let problem = match &experiment.values {
            _ if !document.sources.contains_key(key) => {
                format!("expected one of [sources], found {key:?}")
            }
            values if values.is_empty() => "expected a value at least, found none".to_owned(),
            values => match values
                .iter()
                .find(|v| !(v.real > 0.0 && v.real.is_finite()))
            {
                Some(value) => format!("expected a value above 0, found {}", value.real),
                None => continue,
            },
        };
        let line = format!("source = {:?}", experiment.source);
        let at = text.find(&line).unwrap_or(0);
        return Err(source.error(at, problem));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "drive = \"d\"\ntitle = \"D\"\ninterface = \"block\"\n[sources]\na = \"A\"\n\
                        [[experiment]]\nkind = \"k\"\n";

    fn told(rest: &str) -> String {
        let parsed = parse("d", &format!("{HEAD}{rest}\n"));
        parsed.map_or_else(|e| e.to_string(), |d| d.title)
    }

    #[test]
    fn all_embedded_documents_parse() {
        let documents = documents().unwrap();
        let values = documents.iter().flat_map(|d| &d.experiment);
        let values: usize = values.map(|e| e.values.len()).sum();
        assert!(documents.len() >= 26 && values >= 7_563, "{values}");
    }

    #[test]
    fn fault_error_names_file_line_and_expectation() {
        let value = "values = [{ what = \"iops\", unit = \"IOPS\", real = 1.0 }]";
        assert_eq!(told(&format!("source = \"a: x\"\n{value}")), "D");
        let unknown = told(&format!("source = \"a\"\nstat = \"full\"\n{value}"));
        assert!(
            unknown.starts_with("d.toml:9: ") && unknown.contains("stat"),
            "{unknown}"
        );
        let source = told(&format!("source = \"b\"\n{value}"));
        assert_eq!(source, "d.toml:8: expected one of [sources], found \"b\"");
        let zero = told("source = \"a\"\nvalues = [{ what = \"iops\", unit = \"x\", real = 0 }]");
        assert_eq!(zero, "d.toml:8: expected a value above 0, found 0");
        let none = told("source = \"a\"\nvalues = []");
        assert_eq!(none, "d.toml:8: expected a value at least, found none");
        assert!(told("source = \"a\"\nvalues = [1]").starts_with("d.toml:9: "));
    }
}
