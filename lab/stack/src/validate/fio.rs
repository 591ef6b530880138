//! fio's JSON output as jobs with measured values.
//!
//! The options of each job are in the output. Amounts and files are replaced: the model's run is
//! shorter, and all jobs share one drive, as they do with one `filename`.
//!
//! Invariant: no output makes the reader panic or allocate by a number that it contains.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Error of reading fio's output.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{file}{line}: expected {expected}")]
pub struct FioError {
    file: String,
    line: String,
    expected: String,
}

/// Jobs of fio with their measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The jobs, as the text of a job file.
    pub text: String,
    /// Names of the jobs.
    pub jobs: Vec<String>,
    /// Values of each job by direction and quantity, such as `read iops`; latencies in ns.
    pub values: Vec<BTreeMap<String, f64>>,
    /// Seconds that each job ran before and while it was measured; 0 if the output has none.
    pub spans: Vec<(f64, f64)>,
}

/// Times of each job, at the end of its section.
pub(crate) const TAIL: &str = "runtime=1\ntime_based=1\nramp_time=10ms\n";

/// Jobs that are read from one output at most.
const MOST_JOBS: usize = 256;

/// Options that are replaced, or name files of the measured machine.
const REPLACED: [&str; 18] = [
    "name",
    "filename",
    "directory",
    "filesize",
    "fill_device",
    "size",
    "io_size",
    "offset",
    "offset_increment",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "number_ios",
    "loops",
    "startdelay",
    "group_reporting",
    "numjobs",
];

/// Quantities, and the pointers to them in a direction of a job; the first one present counts.
const QUANTITIES: [(&str, &[&str]); 6] = [
    ("iops", &["/iops"]),
    ("bandwidth", &["/bw_bytes"]),
    ("mean", &["/lat_ns/mean"]),
    (
        "p50",
        &[
            "/clat_ns/percentile/50.000000",
            "/lat_ns/percentile/50.000000",
        ],
    ),
    (
        "p99",
        &[
            "/clat_ns/percentile/99.000000",
            "/lat_ns/percentile/99.000000",
        ],
    ),
    (
        "p99.9",
        &[
            "/clat_ns/percentile/99.900000",
            "/lat_ns/percentile/99.900000",
        ],
    ),
];

/// Reads fio's JSON output `text`, called `file` in errors.
///
/// # Errors
/// The line of the first fault in JSON, or the missing part.
pub fn read(file: &str, text: &str) -> Result<Given, FioError> {
    let error = |line: String, expected: &str| FioError {
        file: file.to_owned(),
        line,
        expected: expected.to_owned(),
    };
    let missing = |expected: &str| error(String::new(), expected);
    // fio prints warnings before the document.
    let start = text.find('{').ok_or_else(|| missing("fio's JSON output"))?;
    let before = text[..start].matches('\n').count();
    let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let document = documents.next().transpose().map_err(|e| {
        let line = format!(":{}", before + e.line());
        error(line, &format!("fio's JSON output ({e})"))
    })?;
    let document = document.unwrap_or_default();
    let jobs = document.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or_else(|| missing("a list \"jobs\" of fio's JSON output"))?;
    if jobs.is_empty() || jobs.len() > MOST_JOBS {
        return Err(missing(&format!("1 to {MOST_JOBS} jobs")));
    }
    let global = document.get("global options").and_then(Value::as_object);
    let mut given = Given {
        text: String::new(),
        jobs: Vec::new(),
        values: Vec::new(),
        spans: Vec::new(),
    };
    for (number, job) in jobs.iter().enumerate() {
        let expected = format!("\"job options\" of job {}", number + 1);
        let own = job.get("job options").and_then(Value::as_object);
        let own = own.ok_or_else(|| missing(&expected))?;
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or("job");
        let name: String = name
            .chars()
            .filter(|c| !"[]\n\r".contains(*c))
            .take(80)
            .collect();
        let same = jobs
            .iter()
            .filter(|other| other.get("jobname") == job.get("jobname"));
        section(&name, (global, own), same.count(), &mut given.text);
        given.values.push(values(job));
        given.spans.push(span(job, own, global));
        given.jobs.push(name);
    }
    if given.values.iter().all(BTreeMap::is_empty) {
        return Err(missing("a job with reads or writes"));
    }
    Ok(given)
}

/// Adds the section of a job that has `same` entries of its name.
fn section(
    name: &str,
    (global, own): (Option<&Map<String, Value>>, &Map<String, Value>),
    same: usize,
    text: &mut String,
) {
    let _ = writeln!(text, "[{name}]\nfilename=/dev/drive");
    let option = |name: &str| {
        let value = own.get(name).or_else(|| global?.get(name))?;
        value.as_str().map(one_line)
    };
    let empty = Map::new();
    let inherited = global.unwrap_or(&empty);
    let inherited = inherited
        .iter()
        .filter(|(name, _)| !own.contains_key(*name));
    for (name, value) in inherited.chain(own) {
        let name = one_line(name);
        if REPLACED.contains(&name.as_str()) {
            continue;
        }
        match value.as_str().map(one_line) {
            None => continue,
            Some(value) if value.is_empty() => _ = writeln!(text, "{name}"),
            Some(value) => _ = writeln!(text, "{name}={value}"),
        }
    }
    // With one entry for all clones the entry is of the group.
    if let (Some(clones), 1) = (option("numjobs"), same) {
        let _ = writeln!(text, "numjobs={clones}");
    }
    text.push_str(TAIL);
}

/// Seconds that a job ran before and while it was measured.
fn span(job: &Value, own: &Map<String, Value>, global: Option<&Map<String, Value>>) -> (f64, f64) {
    let named = |name: &str| own.get(name).or_else(|| global?.get(name))?.as_str();
    let before = named("ramp_time").and_then(seconds).unwrap_or(0.0);
    let of = |direction: &str| job.get(direction)?.get("runtime")?.as_f64();
    let ms = ["read", "write"].into_iter().filter_map(of);
    (before, ms.fold(0.0, f64::max) / 1e3)
}

/// Seconds of a time as fio writes it, such as `30`, `200ms` or `5m`.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        _ => return None,
    };
    let number: u32 = digits.parse().ok()?;
    Some(f64::from(number) * scale)
}

fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(1_000).collect()
}

fn values(job: &Value) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for direction in ["read", "write"] {
        let Some(part) = job.get(direction) else {
            continue;
        };
        for (what, pointers) in QUANTITIES {
            let found = pointers
                .iter()
                .find_map(|pointer| part.pointer(pointer)?.as_f64());
            let scale = if what == "bandwidth" { 1e6 } else { 1.0 };
            if let Some(value) = found.filter(|value| value.is_finite() && *value > 0.0) {
                values.insert(format!("{direction} {what}"), value / scale);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"fio: a warning
{ "fio version": "fio-3.36", "global options": {"direct": "1", "bs": "4k", "size": "9T"},
  "jobs": [ { "jobname": "r", "job options": {"rw": "randread", "iodepth": "4", "numjobs": "2"},
    "read": {"iops": 5000.5, "bw_bytes": 20482048,
      "lat_ns": {"mean": 80000.0}, "clat_ns": {"percentile": {"99.000000": 90000}}},
    "write": {"iops": 0.0} } ] }
trailing"#;

    #[test]
    fn output_becomes_jobs_and_values() {
        let given = read("f.json", OUTPUT).unwrap();
        assert_eq!(
            given.text,
            "[r]\nfilename=/dev/drive\nbs=4k\ndirect=1\niodepth=4\nrw=randread\nnumjobs=2\n\
             runtime=1\ntime_based=1\nramp_time=10ms\n"
        );
        let told: Vec<String> = given.values[0]
            .iter()
            .map(|(what, value)| format!("{what} {value}"))
            .collect();
        let expected =
            "read bandwidth 20.482048; read iops 5000.5; read mean 80000; read p99 90000";
        assert_eq!(told.join("; "), expected);
    }

    #[test]
    fn spans_of_jobs_are_read() {
        let output = OUTPUT.replace("\"iops\": 5000.5,", "\"iops\": 5000.5, \"runtime\": 2500,");
        let output = output.replace("\"numjobs\": \"2\"", "\"ramp_time\": \"200ms\"");
        assert_eq!(read("f", &output).unwrap().spans, [(0.2, 2.5)]);
        assert_eq!(read("f", OUTPUT).unwrap().spans, [(0.0, 0.0)]);
        assert_eq!(
            [seconds("5m"), seconds("1h"), seconds("")],
            [Some(300.0), None, None]
        );
    }

    #[test]
    fn malformed_output_error_names_the_expectation() {
        let told = |text: &str| read("f", text).unwrap_err().to_string();
        assert_eq!(told(""), "f: expected fio's JSON output");
        assert!(told("x\n{\n\"jobs\": [").starts_with("f:3: expected fio's JSON"));
        assert_eq!(
            told("{}"),
            "f: expected a list \"jobs\" of fio's JSON output"
        );
        assert_eq!(told("{\"jobs\": []}"), "f: expected 1 to 256 jobs");
        let none = "{\"jobs\": [{}]}";
        assert_eq!(told(none), "f: expected \"job options\" of job 1");
        let empty = "{\"jobs\": [{\"job options\": {}}]}";
        assert_eq!(told(empty), "f: expected a job with reads or writes");
        assert!(read("f", &"[".repeat(100_000)).is_err());
        assert!(read("f", &"{\"a\":".repeat(100_000)).is_err());
        for cut in 0..OUTPUT.len() {
            let _ = OUTPUT.get(..cut).map(|text| read("f", text));
        }
    }
}
