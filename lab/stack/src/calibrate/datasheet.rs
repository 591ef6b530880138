//! Lines of a datasheet as jobs with measured values.
//!
//! A line is `KIND SIZE: NUMBER UNIT`, such as `random read 4k: 1000 kIOPS`, `sequential write 128k:
//! 4200 MB/s` or `read latency 4k: 80 us`. Makers rate throughput with many requests in flight and
//! latency with one; the depths are assumed.

use std::collections::BTreeMap;

/// Clones and depth of a job for throughput.
const RATED: (u32, u32) = (4, 64);
/// Quantities of latencies and rates, their units, and their factors to ns, IOPS and MB/s.
const UNITS: [(&str, &str, f64); 9] = [
    ("kiops", "iops", 1e3),
    ("iops", "iops", 1.0),
    ("miops", "iops", 1e6),
    ("gb/s", "bandwidth", 1e3),
    ("mb/s", "bandwidth", 1.0),
    ("mib/s", "bandwidth", 1.048_576),
    ("ns", "mean", 1.0),
    ("us", "mean", 1e3),
    ("µs", "mean", 1e3),
];

/// A job of a datasheet: its options, and its value by name.
pub(super) struct Line {
    pub(super) options: String,
    pub(super) values: BTreeMap<String, f64>,
}

/// The job of `line`.
///
/// # Errors
/// The expected text.
pub(super) fn read(line: &str) -> Result<Line, String> {
    let expected = || "a line such as \"random read 4k: 1000 kIOPS\"".to_owned();
    let (kind, value) = line.split_once(':').ok_or_else(expected)?;
    let kind = kind.trim().to_lowercase();
    let (kind, size) = kind.rsplit_once(' ').ok_or_else(expected)?;
    let digits = size.trim_end_matches(['k', 'm']);
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("a block size such as 4k before the colon".to_owned());
    }
    let (rw, is_latency) = match kind.trim() {
        "random read" => ("randread", false),
        "random write" => ("randwrite", false),
        "sequential read" => ("read", false),
        "sequential write" => ("write", false),
        "read latency" => ("randread", true),
        "write latency" => ("randwrite", true),
        _ => {
            let kinds = "random read, random write, sequential read, sequential write, read latency \
                         or write latency";
            return Err(format!("{kinds} before the block size"));
        }
    };
    let mut words = value.split_whitespace();
    let (number, unit) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let number: f64 = number.replace(',', "").parse().map_err(|_| expected())?;
    let unit = unit.to_lowercase();
    let (_, what, factor) = UNITS
        .iter()
        .find(|(name, ..)| *name == unit)
        .ok_or("a unit: IOPS, kIOPS, MB/s, GB/s, us or ns")?;
    let number = number * factor;
    if !(number > 0.0 && number.is_finite()) {
        return Err("a number above 0".to_owned());
    }
    if is_latency != (*what == "mean") {
        return Err("a time for a latency, and a rate for anything else".to_owned());
    }
    let direction = if rw.ends_with("read") {
        "read"
    } else {
        "write"
    };
    let (clones, depth) = if is_latency { (1, 1) } else { RATED };
    Ok(Line {
        options: format!(
            "rw={rw}\nbs={size}\nioengine=libaio\ndirect=1\niodepth={depth}\nnumjobs={clones}\n\
             group_reporting=1\nnorandommap=1\n"
        ),
        values: [(format!("{direction} {what}"), number)].into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_jobs_with_values() {
        let line = read("Random read 4k: 1,000 kIOPS").unwrap();
        assert!(line.options.starts_with("rw=randread\nbs=4k\n"));
        assert_eq!(line.values["read iops"], 1e6);
        let line = read("write latency 4k: 15 us").unwrap();
        assert!(line.options.contains("iodepth=1\n"));
        assert_eq!(line.values["write mean"], 15_000.0);
    }

    #[test]
    fn other_lines_are_refused_with_the_expectation() {
        let told = |line| read(line).err().unwrap();
        assert!(told("nothing").contains("random read 4k"));
        assert!(told("random read: 5 IOPS").contains("block size"));
        assert!(told("erase 4k: 5 IOPS").contains("random write"));
        assert!(told("random read 4k: 5 cows").contains("a unit"));
        assert!(told("random read 4k: -5 IOPS").contains("above 0"));
        assert!(told("random read 4k: 5 us").contains("a rate"));
    }
}
