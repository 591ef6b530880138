//! The live page of a drive: its activity each second, the causes of programs, and the contents of
//! each line or zone. Also its server for a served drive.
//!
//! Invariants: viewers cannot change anything; the page loads only parts of this program; each
//! picture shows one instant.

use super::http::{self, Reply};
use super::live::{Powered, Stats, stats};
use engine::{Device, Fault};
use serde::Serialize;
use ssd::{Drive, LineReport, LineState, ZoneInfo, ZoneKind, ZoneState};
use std::io;
use std::net::TcpListener;

const PAGE: &str = include_str!("ui/page.html");
const SCRIPT: &str = include_str!("ui/live.js");
const STYLE: &str = include_str!("ui/live.css");

/// Line states with their names, in the order of a line's life.
const LINE_STATES: [(LineState, &str); 6] = [
    (LineState::Free, "free"),
    (LineState::Open, "open"),
    (LineState::Closed, "closed"),
    (LineState::Collecting, "collecting"),
    (LineState::Erasing, "erasing"),
    (LineState::Retired, "retired"),
];
/// States of sequential zones with their names; conventional zones have a state of their own after
/// these.
const ZONE_STATES: [(ZoneState, &str); 7] = [
    (ZoneState::Empty, "empty"),
    (ZoneState::ImplicitlyOpen, "open"),
    (ZoneState::ExplicitlyOpen, "opened"),
    (ZoneState::Closed, "closed"),
    (ZoneState::Full, "full"),
    (ZoneState::ReadOnly, "read-only"),
    (ZoneState::Offline, "offline"),
];
const CONVENTIONAL: &str = "conventional";

/// The state of a drive at one instant.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    schema: &'static str,
    stats: Stats,
    /// Kind of the parts: `lines`, which are erased as a whole, or `zones`.
    parts: &'static str,
    /// Names of the states, by number.
    states: Vec<&'static str>,
    /// For each part: state number, valid or written share in thousandths, erases, placement
    /// handle, and age in programs since it was closed; -1 where a value does not apply.
    cells: Vec<[i64; 5]>,
}

/// Serves the page to each connection to `listener`, until the process ends.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn serve(listener: TcpListener, powered: Powered) -> io::Result<()> {
    let taken = move || {
        let taken = powered.ask(|device| picture(device).map_err(|fault| fault.to_string()));
        let mut picture = taken.and_then(|picture| picture)?;
        picture.stats.lateness = powered.lateness()?;
        serde_json::to_string(&picture).map_err(|error| error.to_string())
    };
    http::serve("ui", listener, move |request| reply(request, &taken))
}

pub(super) fn reply(request: &str, picture: &impl Fn() -> Result<String, String>) -> Reply {
    match http::path(request) {
        Some("/") => Reply::found("text/html; charset=utf-8", PAGE),
        Some("/live.js") => Reply::found("text/javascript; charset=utf-8", SCRIPT),
        Some("/live.css") => Reply::found("text/css; charset=utf-8", STYLE),
        Some("/live.json") => match picture() {
            Ok(document) => Reply::found("application/json", document),
            Err(why) => Reply::text("503 Service Unavailable", why + "\n"),
        },
        Some(_) => Reply::text("404 Not Found", "the page is at /\n"),
        None => Reply::text("400 Bad Request", "expected GET /\n"),
    }
}

fn picture(device: &Device) -> Result<Picture, Fault> {
    Ok(Picture::of(device.drive(), stats(device)?))
}

impl Picture {
    /// The picture of `drive`, with the activity `stats`.
    pub(super) fn of(drive: &Drive, stats: Stats) -> Self {
        let zones = drive.zones().map(|zones| {
            let all = (0..zones.limits().zones).filter_map(|zone| zones.info(zone));
            all.map(|zone| of_zone(&zone)).collect()
        });
        let (parts, states, cells) = match zones {
            Some(cells) => {
                let names = ZONE_STATES.iter().map(|(_, name)| *name);
                ("zones", names.chain([CONVENTIONAL]).collect(), cells)
            }
            None => {
                let cells = drive.lines().iter().map(of_line).collect();
                ("lines", LINE_STATES.map(|(_, name)| name).to_vec(), cells)
            }
        };
        Self {
            schema: "flashloom.live/1",
            stats,
            parts,
            states,
            cells,
        }
    }
}

fn of_line(line: &LineReport) -> [i64; 5] {
    let state = LINE_STATES
        .iter()
        .position(|(state, _)| *state == line.state);
    let handle = line.handle.map_or(-1, i64::from);
    let valid = thousandths(u64::from(line.valid), u64::from(line.pages));
    let age = match line.state {
        LineState::Closed | LineState::Collecting => line.age as i64,
        _ => -1,
    };
    [number(state), valid, i64::from(line.erases), handle, age]
}

fn of_zone(zone: &ZoneInfo) -> [i64; 5] {
    let by_state = || {
        ZONE_STATES
            .iter()
            .position(|(state, _)| *state == zone.state)
    };
    let state = match zone.kind {
        ZoneKind::Conventional => Some(ZONE_STATES.len()),
        ZoneKind::Sequential => by_state(),
    };
    [
        number(state),
        thousandths(zone.written(), zone.capacity),
        -1,
        -1,
        -1,
    ]
}

fn number(place: Option<usize>) -> i64 {
    place.map_or(-1, |place| place as i64)
}

fn thousandths(part: u64, of: u64) -> i64 {
    (part * 1_000 / of.max(1)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_the_page_and_its_parts_and_nothing_else() {
        let off = || Err("the drive has no power".to_owned());
        let reply = |path: &str| reply(&format!("GET {path} HTTP/1.1"), &off);
        for path in ["/", "/live.js", "/live.css"] {
            assert_eq!(reply(path).status, "200 OK", "{path}");
        }
        assert_eq!(reply("/live.json").status, "503 Service Unavailable");
        assert_eq!(reply("/etc/passwd").status, "404 Not Found");
        let starts = |rest: &str| {
            ["/live.", "/report\"", "#"]
                .iter()
                .any(|s| rest.starts_with(s))
        };
        for part in ["src=\"", "href=\""] {
            let mut named = PAGE.split(part).skip(1);
            assert!(named.all(&starts));
        }
    }

    #[test]
    fn every_state_has_a_number() {
        for (at, (state, _)) in ZONE_STATES.iter().enumerate() {
            assert_eq!(ZoneState::ALL[at], *state);
        }
        let line = |state| LineReport {
            state,
            valid: 5,
            pages: 10,
            age: 12,
            erases: 7,
            handle: Some(2),
            moved: false,
        };
        for (at, (state, _)) in LINE_STATES.iter().enumerate() {
            let age = if (2..=3).contains(&at) { 12 } else { -1 };
            assert_eq!(of_line(&line(*state)), [at as i64, 500, 7, 2, age]);
        }
    }
}
