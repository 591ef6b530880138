//! Commands for a drive that is being served or mounted.

use super::Answer;
use super::failure::Failure;
use super::live::{self, Ask, Back};
use super::output::{OfFile, Shown};
use clap::{ArgGroup, Args};
use report::table::facts;
use report::{Style, human};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use units::{Bytes, Ns};

/// Show the current activity of a served or mounted drive
#[derive(Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    of: OfFile,
}

impl Stats {
    pub(crate) fn run(&self) -> Answer {
        let found = live::ask(&self.of.path, &Ask::Stats)?;
        show(self.of.shown, "flashloom.drive-stats/1", &found)
    }
}

/// Cut the power of a served drive and restore it
///
/// Durable data survive; each block of an unfinished write has its old or its new contents. Clients
/// lose their connections, as if the server had been killed, and may reconnect. A drive that is
/// mounted or exposed as a file loses its power only if its process is killed; the command then
/// prints how to do this.
#[derive(Args)]
pub(crate) struct Cut {
    #[command(flatten)]
    of: OfFile,
}

impl Cut {
    pub(crate) fn run(&self) -> Answer {
        let back: Back = serde_json::from_value(live::ask(&self.of.path, &Ask::Cut)?)?;
        let path = self.of.path.display();
        self.of.shown.answer("flashloom.drive-cut/1", &back, |_| {
            format!("{path} had no power for {}\n", Ns(back.off_ns))
        })
    }
}

/// Inject request failures into a served drive
///
/// Faults overlay the drive's contents without changing them. They apply to all clients and last
/// until --heal, a power cut or the end of the server.
#[derive(Args)]
#[command(group(ArgGroup::new("fault").required(true)))]
pub(crate) struct Fault {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Fail reads of this byte range, given as offset and length, such as 1MiB+4KiB
    #[arg(long, group = "fault", value_name = "OFFSET+LENGTH", value_parser = range)]
    unreadable: Option<(u64, u64)>,
    /// Fail writes of this byte range
    #[arg(long, group = "fault", value_name = "OFFSET+LENGTH", value_parser = range)]
    unwritable: Option<(u64, u64)>,
    /// Fail every N-th read
    #[arg(long, group = "fault", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fail_reads: Option<u64>,
    /// Flip one bit in every N-th read
    #[arg(long, group = "fault", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    flip_reads: Option<u64>,
    /// Remove all faults
    #[arg(long, group = "fault")]
    heal: bool,
    #[command(flatten)]
    shown: Shown,
}

/// The document of `drive fault`.
#[derive(Serialize)]
struct Set<'a> {
    fault: &'a Ask,
}

impl Fault {
    pub(crate) fn run(&self) -> Answer {
        let unreadable = self.unreadable.map(|(from, to)| Ask::Unreadable(from, to));
        let unwritable = self.unwritable.map(|(from, to)| Ask::Unwritable(from, to));
        let fail = self.fail_reads.map(Ask::FailReads);
        let flip = self.flip_reads.map(Ask::FlipReads);
        let fault = unreadable.or(unwritable).or(fail).or(flip);
        let fault = fault.unwrap_or(Ask::Heal);
        live::ask(&self.path, &fault)?;
        let set = Set { fault: &fault };
        self.shown
            .answer("flashloom.drive-fault/1", &set, |_| String::new())
    }
}

/// Parses a range into its first byte, and the one after its last.
fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "expected an offset and a length, as 1MiB+4KiB".to_owned();
    let (from, len) = text.split_once('+').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<Bytes>().map_err(|_| wrong());
    let (from, len) = (number(from)?.0, number(len)?.0);
    let end = from.checked_add(len).filter(|&end| end > from);
    Ok((from, end.ok_or_else(wrong)?))
}

/// The answer of `flashloom why` about the served drive in the file at `path`.
///
/// # Errors
/// If no process serves the drive.
pub(crate) fn why(path: &Path, shown: Shown) -> Result<String, Failure> {
    let found = live::ask(path, &Ask::Why)?;
    show(shown, "flashloom.drive-why/1", &found)
}

fn show(shown: Shown, schema: &str, found: &Value) -> Answer {
    shown.answer(schema, found, |style| text(found, style))
}

/// A line for each number; numbers in a group have the group's name before theirs.
fn text(found: &Value, style: Style) -> String {
    let empty = Map::new();
    let mut lines = Vec::new();
    for (name, value) in found.as_object().unwrap_or(&empty) {
        match value {
            Value::Object(group) => {
                let set = group
                    .iter()
                    .filter(|(_, value)| value.as_f64() != Some(0.0));
                lines.extend(set.map(|(part, value)| (format!("{name} {part}"), value)));
            }
            Value::Null => {}
            _ => lines.push((name.clone(), value)),
        }
    }
    let lines: Vec<(String, String)> = lines
        .iter()
        .map(|(name, value)| line(name, value))
        .collect();
    facts(
        lines.iter().map(|(name, value)| (&name[..], value.clone())),
        style,
    )
}

/// A suffix of field names, and the format of numbers with that unit.
type Unit = (&'static str, fn(f64) -> String);

/// The label and the value of a field; the suffix of its name becomes the unit of the number.
fn line(name: &str, value: &Value) -> (String, String) {
    let number = value.as_f64().unwrap_or_default();
    let units: [Unit; 2] = [("_bytes", human::bytes), ("_ns", human::time)];
    let of = |&(end, write): &Unit| Some((name.strip_suffix(end)?, write(number)));
    let (name, shown) = match value {
        Value::Number(_) => units.iter().find_map(of).unwrap_or_else(|| {
            let whole = number.fract() == 0.0 && !value.is_f64();
            (
                name,
                if whole {
                    human::count(number)
                } else {
                    human::three(number)
                },
            )
        }),
        Value::String(text) => (name, text.clone()),
        other => (name, other.to_string()),
    };
    (name.replace('_', " "), shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_the_units_of_their_names() {
        for (name, value, told) in [
            ("host_read_bytes", json!(4096), ("host read", "4.00 KiB")),
            ("stall_ns", json!(1500), ("stall", "1.50 µs")),
            (
                "life power_cycles",
                json!(12_345),
                ("life power cycles", "12,345"),
            ),
            (
                "shares host",
                json!(0.998_015_873),
                ("shares host", "0.998"),
            ),
            ("life state", json!("good"), ("life state", "good")),
        ] {
            let (name, shown) = line(name, &value);
            assert_eq!((&name[..], &shown[..]), told);
        }
    }

    #[test]
    fn ranges_have_a_start_and_a_length() {
        assert_eq!(range("1MiB+4KiB"), Ok((1 << 20, (1 << 20) + 4096)));
        for text in ["", "5", "5+0", "+", "a+1", "18446744073709551615+1"] {
            assert!(range(text).is_err(), "{text}");
        }
    }
}
