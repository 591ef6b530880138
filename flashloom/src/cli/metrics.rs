//! Activity of a served drive for observers: as metrics over HTTP, and in the terminal.

use super::http::{self, Reply};
use super::live::{Powered, Stats};
use super::output::note;
use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

/// MIME type of the Prometheus text format.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Interval between two lines in the terminal.
const SECOND: Duration = Duration::from_secs(1);

/// Serves metrics to each connection to `listener`, until the process ends.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn serve(listener: TcpListener, powered: Powered) -> io::Result<()> {
    let reply = move |request: &str| page(request, || powered.stats());
    http::serve("metrics", listener, reply)
}

fn page(request: &str, stats: impl FnOnce() -> Result<Stats, String>) -> Reply {
    match http::path(request) {
        Some("/metrics" | "/") => match stats() {
            Ok(stats) => Reply::found(KIND, text(&stats)),
            Err(why) => Reply::text("503 Service Unavailable", why + "\n"),
        },
        Some(_) => Reply::text("404 Not Found", "the metrics are at /metrics\n"),
        None => Reply::text("400 Bad Request", "expected GET /metrics\n"),
    }
}

/// A metric: its name, its help, and its value.
type Metric = (&'static str, &'static str, fn(&Stats) -> f64);

/// Declares metrics; the comment before each is its help.
macro_rules! metrics {
    ($(#[doc = $help:literal] $name:ident = $number:expr;)+) => {
        &[$((stringify!($name), $help, $number)),+]
    };
}

/// Metrics that only grow; those since power-on start again after a power cut.
const COUNTERS: &[Metric] = metrics! {
    /// Bytes that hosts read over the life of the drive.
    host_read_bytes_total = |stats| stats.life.host_read_bytes as f64;
    /// Bytes that hosts wrote over the life of the drive.
    host_written_bytes_total = |stats| stats.life.host_write_bytes as f64;
    /// Bytes of mapped pages programmed over the life of the drive.
    programmed_bytes_total = |stats| stats.life.programmed_bytes as f64;
    /// Read commands over the life of the drive.
    read_commands_total = |stats| stats.life.read_commands as f64;
    /// Write commands over the life of the drive.
    write_commands_total = |stats| stats.life.write_commands as f64;
    /// Reads that could not be answered.
    media_errors_total = |stats| stats.life.media_errors as f64;
    /// Times the drive was powered on.
    power_cycles_total = |stats| stats.life.power_cycles as f64;
    /// Times the power had gone without a shutdown.
    unsafe_shutdowns_total = |stats| stats.life.unsafe_shutdowns as f64;
    /// Bytes that hosts deallocated since power-on.
    trimmed_bytes_total = |stats| stats.host_trim_bytes as f64;
    /// Flush commands since power-on.
    flushes_total = |stats| stats.flushes as f64;
    /// Lines reclaimed since power-on.
    lines_collected_total = |stats| stats.lines_collected as f64;
};

/// Metrics that go up and down.
const GAUGES: &[Metric] = metrics! {
    /// Bytes that hosts may use.
    capacity_bytes = |stats| stats.capacity_bytes as f64;
    /// Lines that are erased.
    free_lines = |stats| f64::from(stats.free_lines);
    /// Blocks out of service.
    bad_blocks = |stats| stats.life.bad_blocks as f64;
    /// Mean erases of the good blocks.
    mean_erases = |stats| stats.life.mean_erases;
    /// Mean erases over the rated cycles.
    used_ratio = |stats| stats.life.percentage_used / 100.0;
    /// Virtual time since power-on in which writes waited for a free line.
    stall_seconds = |stats| stats.stall_ns as f64 / 1e9;
};

/// Renders all metrics in the Prometheus text format.
fn text(stats: &Stats) -> String {
    let mut out = String::new();
    let counters = COUNTERS.iter().map(|metric| ("counter", metric));
    let gauges = GAUGES.iter().map(|metric| ("gauge", metric));
    for (kind, (name, help, number)) in counters.chain(gauges) {
        let head = head(kind, name, help);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{head}flashloom_{name} {}", number(stats));
    }
    if let Some(value) = stats.write_amplification {
        let (name, help) = (
            "write_amplification",
            "Bytes programmed for each byte written.",
        );
        let _ = writeln!(out, "{}flashloom_{name} {value}", head("gauge", name, help));
    }
    for (name, help, pages) in [
        (
            "programmed_pages_total",
            "Mapped pages programmed since power-on.",
            &stats.programmed_pages,
        ),
        (
            "flash_read_pages_total",
            "Flash pages read since power-on.",
            &stats.read_pages,
        ),
    ] {
        out += &head("counter", name, help);
        for (cause, count) in pages {
            let _ = writeln!(out, "flashloom_{name}{{cause=\"{cause}\"}} {count}");
        }
    }
    if let Some(late) = &stats.lateness {
        let name = "flashloom_lateness_seconds";
        out += &head(
            "summary",
            "lateness_seconds",
            "Delay of completions behind the time of the \
            model.",
        );
        for (quantile, ns) in [("0.5", late.median_ns), ("0.99", late.p99_ns)] {
            let _ = writeln!(out, "{name}{{quantile=\"{quantile}\"}} {}", ns as f64 / 1e9);
        }
        let _ = writeln!(out, "{name}_sum {}", late.sum_ns as f64 / 1e9);
        let _ = writeln!(out, "{name}_count {}", late.answers);
    }
    out
}

fn head(kind: &str, name: &str, help: &str) -> String {
    let help = help.trim();
    format!("# HELP flashloom_{name} {help}\n# TYPE flashloom_{name} {kind}\n")
}

/// Writes a line about the drive's activity to standard error each second, until the process ends.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn watch(powered: Powered) -> io::Result<()> {
    let body = move || {
        let mut before: Option<Stats> = None;
        loop {
            thread::sleep(SECOND);
            // Without power there is nothing to report.
            let now = powered.stats().ok();
            if let (Some(before), Some(now)) = (&before, &now) {
                note(&line(before, now));
            }
            before = now;
        }
    };
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(body)?;
    Ok(())
}

/// The activity within one second, as a line.
fn line(before: &Stats, now: &Stats) -> String {
    // After a power cut the counters since power-on start again.
    let less = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
    let life = |of: fn(&Stats) -> u64| less(of(now), of(before));
    let mib = |bytes: u64| bytes as f64 / units::MIB as f64;
    let moved = |stats: &Stats| stats.programmed_pages.get("gc").copied().unwrap_or(0);
    let (read, written) = (
        life(|stats| stats.life.host_read_bytes),
        life(|stats| stats.life.host_write_bytes),
    );
    let programmed = life(|stats| stats.life.programmed_bytes);
    let mut line = format!(
        "{:>7} reads {:>7.1} MiB/s  {:>7} writes {:>7.1} MiB/s  programmed {:>7.1} MiB/s  \
         moved {:>6} pages  {} lines free",
        life(|stats| stats.life.read_commands),
        mib(read),
        life(|stats| stats.life.write_commands),
        mib(written),
        mib(programmed),
        less(moved(now), moved(before)),
        now.free_lines
    );
    if let Some(late) = &now.lateness {
        let us = |ns: u64| ns as f64 / 1e3;
        let (median, p99) = (us(late.median_ns), us(late.p99_ns));
        let error = late.median_error * 100.0;
        let _ = write!(
            line,
            "  late {median:.1} µs ({error:.1} %), p99 {p99:.0} µs"
        );
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn stats() -> Stats {
        let life = ssd::Health {
            host_read_bytes: 4096,
            host_write_bytes: 8192,
            programmed_bytes: 16384,
            read_commands: 1,
            write_commands: 2,
            power_cycles: 1,
            unsafe_shutdowns: 0,
            media_errors: 0,
            percentage_used: 50.0,
            rated_cycles: 3000,
            mean_erases: 1500.0,
            min_erases: 0,
            max_erases: 3000,
            bad_blocks: 0,
        };
        Stats {
            capacity_bytes: 1 << 20,
            free_lines: 3,
            host_read_bytes: 4096,
            host_write_bytes: 8192,
            host_trim_bytes: 0,
            flushes: 0,
            lines_collected: 0,
            stall_ns: 1_500_000_000,
            programmed_pages: BTreeMap::from([("gc", 1), ("host", 2)]),
            programmed_page_bytes: 4096,
            read_pages: BTreeMap::from([("host", 1)]),
            write_amplification: Some(2.0),
            lateness: None,
            life,
        }
    }

    #[test]
    fn every_metric_has_help_and_a_type_and_a_number() {
        let text = text(&stats());
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.starts_with('#'))
        {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = name.split('{').next().unwrap_or_default();
            let before = &lines[..at];
            let kind = format!("# TYPE {name} ");
            assert!(before.iter().any(|line| line.starts_with(&kind)), "{line}");
        }
        assert!(
            text.contains("\nflashloom_programmed_pages_total{cause=\"gc\"} 1\n"),
            "{text}"
        );
        assert!(text.contains("\nflashloom_stall_seconds 1.5\n"), "{text}");
        let help = "\n# HELP flashloom_bad_blocks Blocks out of service.\n";
        assert!(text.contains(help), "{text}");
    }

    #[test]
    fn request_for_another_path_gets_an_http_error() {
        let status = |request: &str| page(request, || Ok(stats())).status;
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), "200 OK");
        assert_eq!(status("GET /else HTTP/1.1\r\n"), "404 Not Found");
        for request in ["", "POST /metrics HTTP/1.1", "\u{1}"] {
            assert_eq!(status(request), "400 Bad Request");
        }
        let off = page("GET /metrics", || Err("the drive has no power".into()));
        assert_eq!(off.status, "503 Service Unavailable");
    }

    #[test]
    fn watch_line_shows_the_last_second_also_after_a_cut() {
        let (before, mut now) = (stats(), stats());
        now.life.host_write_bytes += 3 << 20;
        now.programmed_pages = BTreeMap::from([("gc", 0)]);
        let line = line(&before, &now);
        assert!(line.contains("3.0 MiB/s  programmed"), "{line}");
        assert!(line.contains("moved      0 pages"), "{line}");
    }
}
