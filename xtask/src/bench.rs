//! Benchmarks, saved under a name and compared with earlier runs.
//!
//! Criterion stores its measurements under `target/criterion`, in a folder for each benchmark with
//! a folder for each name. Invariant: compared runs were measured in that folder, so on one
//! machine; and only benchmarks that this run has measured are shown.

use crate::program::run as run_program;
use crate::tree::{cargo, metadata};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Criterion's folder name for the last run.
const LAST: &str = "new";

/// Options of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// Name to save the run under.
    save: Option<String>,
    /// Name of the run to compare with.
    against: Option<String>,
    /// Crates to run; all if empty.
    crates: Vec<String>,
    /// Filter: a part of the names of benchmarks.
    part: Option<String>,
}

/// A time in ns: the median, and its interval of 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    median: f64,
    least: f64,
    most: f64,
}

/// Runs the benchmarks that `options` select, and prints the results.
///
/// # Errors
/// Invalid options, a benchmark that fails, or no saved run to compare with.
pub fn run(root: &Path, options: &[&str]) -> Result<(), String> {
    let asked = Asked::parse(options)?;
    let folder = root.join("target/criterion");
    if let Some(name) = &asked.against {
        known(&folder, name)?;
    }
    let benches = benches(root, &asked.crates)?;
    let start = SystemTime::now();
    let save = asked.save.as_deref();
    for (package, names) in benches {
        let mut cargo = cargo();
        cargo.current_dir(root).env("CRITERION_HOME", &folder);
        cargo.args(["bench", "--package", &package]);
        cargo.args(names.iter().flat_map(|name| ["--bench", name]));
        cargo.arg("--");
        cargo.args(save.iter().flat_map(|name| ["--save-baseline", name]));
        cargo.args(&asked.part);
        run_program(&mut cargo)?;
    }
    let mut rows = Vec::new();
    for path in measured(&folder, start)? {
        let id = path
            .strip_prefix(&folder)
            .unwrap_or(&path)
            .display()
            .to_string();
        let before = asked.against.as_ref().map(|name| time(&path.join(name)));
        rows.push((
            id,
            time(&path.join(LAST)).ok_or("what was measured is gone")?,
            before.flatten(),
        ));
    }
    print!("{}", table(&rows, asked.against.as_deref()));
    Ok(())
}

impl Asked {
    fn parse(options: &[&str]) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{option} takes a value"));
            match *option {
                "--save" => asked.save = Some(plain(value()?)?),
                "--against" => asked.against = Some(plain(value()?)?),
                "-p" => asked.crates.push((*value()?).to_owned()),
                other if other.starts_with('-') => {
                    return Err(format!(
                        "{other} is no option: --save NAME, --against NAME and -p CRATE are"
                    ));
                }
                part => asked.part = Some(part.to_owned()),
            }
        }
        Ok(asked)
    }
}

/// Checks the name of a run. Names are folders, and criterion reserves some.
fn plain(name: &str) -> Result<String, String> {
    let good = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let free = ![LAST, "base", "change", "report", ""].contains(&name);
    let why = || {
        format!(
            "`{name}` is no name for a run: letters, digits and hyphens, and not one of criterion's own"
        )
    };
    (good && free).then(|| name.to_owned()).ok_or_else(why)
}

/// Crates that measure with criterion, with their benchmarks; only those in `crates` unless empty.
fn benches(root: &Path, crates: &[String]) -> Result<Vec<(String, Vec<String>)>, String> {
    let metadata = metadata(root).map_err(|e| e.to_string())?;
    let all = kept(&metadata);
    let unknown = crates
        .iter()
        .find(|name| !all.iter().any(|(crate_, _)| crate_ == *name));
    if let Some(name) = unknown {
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!(
            "{name} measures nothing that is kept; these do: {}",
            names.join(", ")
        ));
    }
    let wanted = |(name, _): &(String, _)| crates.is_empty() || crates.contains(name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// Benchmarks in `metadata` whose crate depends on criterion; others save no results.
fn kept(metadata: &Value) -> Vec<(String, Vec<String>)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let of = |package: &Value| {
        let knows = list(&package["dependencies"])
            .iter()
            .any(|need| name(need) == "criterion");
        let targets = list(&package["targets"]).into_iter();
        let benches = targets.filter(|target| list(&target["kind"]).contains(&"bench".into()));
        let names: Vec<_> = benches.map(|target| name(&target)).collect();
        (knows && package["source"].is_null() && !names.is_empty()).then(|| (name(package), names))
    };
    let mut all: Vec<_> = list(&metadata["packages"]).iter().filter_map(of).collect();
    all.sort();
    all
}

/// Folders of benchmarks below `folder` that were measured since `start`, sorted.
fn measured(folder: &Path, start: SystemTime) -> Result<Vec<PathBuf>, String> {
    let fresh = |path: &Path| {
        let changed =
            fs::metadata(path.join(LAST).join("estimates.json")).and_then(|m| m.modified());
        changed.is_ok_and(|time| time >= start)
    };
    let all = folders(folder)?;
    Ok(all.into_iter().filter(|path| fresh(path)).collect())
}

/// Checks that a run of this name was saved.
fn known(folder: &Path, name: &str) -> Result<(), String> {
    let all = folders(folder).unwrap_or_default();
    let there = all.iter().any(|path| time(&path.join(name)).is_some());
    let why = || format!("no run is kept as {name}: `cargo xtask bench --save {name}` makes one");
    there.then_some(()).ok_or_else(why)
}

/// `folder` and all folders below it, sorted.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all = vec![folder.to_path_buf()];
    let mut next = 0;
    while let Some(folder) = all.get(next) {
        let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let below: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        all.extend(below.into_iter().filter(|path| path.is_dir()));
        next += 1;
    }
    all.sort();
    Ok(all)
}

/// The estimate that criterion wrote into `folder`; `None` if there is none.
fn time(folder: &Path) -> Option<Time> {
    let text = fs::read_to_string(folder.join("estimates.json")).ok()?;
    let estimates: Value = serde_json::from_str(&text).ok()?;
    let median = &estimates["median"];
    let interval = &median["confidence_interval"];
    Some(Time {
        median: median["point_estimate"].as_f64()?,
        least: interval["lower_bound"].as_f64()?,
        most: interval["upper_bound"].as_f64()?,
    })
}

/// A table of names and times, and with `against` the times of that run and the ratios.
fn table(rows: &[(String, Time, Option<Time>)], against: Option<&str>) -> String {
    let mut cells =
        vec![["benchmark", against.unwrap_or_default(), "now", "ratio", ""].map(str::to_owned)];
    cells.extend(rows.iter().map(|(id, now, before)| {
        let [was, ratio, says] = match before {
            Some(before) => [
                human(before.median),
                format!("{:.2}", now.median / before.median),
                verdict(*before, *now).to_owned(),
            ],
            None => ["–", "–", ""].map(str::to_owned),
        };
        [id.clone(), was, human(now.median), ratio, says]
    }));
    let columns: &[usize] = if against.is_some() {
        &[0, 1, 2, 3, 4]
    } else {
        &[0, 2]
    };
    let width = |column: usize| {
        cells
            .iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for &column in columns {
            let (cell, width) = (&row[column], width(column));
            let _ = match column {
                0 | 4 => write!(line, "{cell:width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// "slower" or "faster" if the intervals do not overlap, otherwise empty.
fn verdict(before: Time, now: Time) -> &'static str {
    if now.least > before.most {
        "slower"
    } else if now.most < before.least {
        "faster"
    } else {
        ""
    }
}

/// Formats a time with three digits, in the largest unit with a digit before the point.
fn human(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let (size, unit) = units
        .into_iter()
        .find(|(size, _)| ns >= *size)
        .unwrap_or((1.0, "ns"));
    let value = ns / size;
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn time_of(median: f64, away: f64) -> Time {
        Time {
            median,
            least: median - away,
            most: median + away,
        }
    }

    #[test]
    fn options_parse_and_mistakes_are_rejected() {
        let asked =
            Asked::parse(&["--save", "main", "-p", "sim", "-p", "ssd", "reads"]).expect("read");
        assert_eq!(asked.save.as_deref(), Some("main"));
        assert_eq!(asked.crates, ["sim", "ssd"]);
        assert_eq!(asked.part.as_deref(), Some("reads"));
        for wrong in [
            &["--save"][..],
            &["--save", "new"],
            &["--against", "../x"],
            &["--fast"],
        ] {
            assert!(Asked::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn table_marks_differences_beyond_the_spread() {
        let rows = [
            (
                "a/same".to_owned(),
                time_of(1_020.0, 30.0),
                Some(time_of(1_000.0, 30.0)),
            ),
            (
                "a/slow".to_owned(),
                time_of(2e6, 10.0),
                Some(time_of(1e6, 10.0)),
            ),
            (
                "b/fast".to_owned(),
                time_of(12.34, 0.1),
                Some(time_of(24.68, 0.1)),
            ),
            ("b/other".to_owned(), time_of(3e9, 1.0), None),
        ];
        let expected = "\
benchmark     main      now  ratio
a/same     1.00 µs  1.02 µs   1.02
a/slow     1.00 ms  2.00 ms   2.00  slower
b/fast     24.7 ns  12.3 ns   0.50  faster
b/other          –   3.00 s      –
";
        assert_eq!(table(&rows, Some("main")), expected);
        assert!(table(&rows[..1], None).ends_with("\na/same     1.02 µs\n"));
    }

    #[test]
    fn only_criterion_benches_are_selected() {
        let package = |name: &str, need: &str, kind: &str| {
            json!({
                "name": name,
                "source": null,
                "dependencies": [{"name": need}],
                "targets": [{"name": "speed", "kind": [kind]}],
            })
        };
        let packages = [
            package("b", "criterion", "bench"),
            package("c", "sim", "bench"),
            package("a", "criterion", "lib"),
        ];
        let found = kept(&json!({ "packages": packages }));
        assert_eq!(found, [("b".to_owned(), vec!["speed".to_owned()])]);
    }

    #[test]
    fn only_fresh_measurements_are_shown() {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |name: &str, median: f64| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).expect("made");
            let text = json!({"median": {
                "point_estimate": median,
                "confidence_interval": {"lower_bound": median, "upper_bound": median},
            }});
            fs::write(path.join("estimates.json"), text.to_string()).expect("written");
        };
        write("a/b/new", 2.0);
        write("a/b/main", 1.0);
        let found = measured(folder.path(), SystemTime::UNIX_EPOCH).expect("read");
        assert_eq!(found, [folder.path().join("a/b")]);
        assert_eq!(time(&found[0].join("main")), Some(time_of(1.0, 0.0)));
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(measured(folder.path(), later).expect("read").is_empty());
        assert!(known(folder.path(), "main").is_ok() && known(folder.path(), "other").is_err());
    }
}
