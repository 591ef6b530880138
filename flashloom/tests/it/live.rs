//! `serve --ui` and `run --ui`: the live page of a served drive, or of a run, as an HTTP client and
//! a browser see it.

use crate::listeners::{Client, FLUSH, WRITE};
use crate::serve::Served;
use crate::{Bench, Guarded, PATIENCE, number};
use ::browser::{Browser, Key};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A port without a listener.
fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").port()
}

/// Serves a drive of 16 MiB; returns it with the port of its page.
fn served() -> (Served, u16) {
    let port = free_port();
    let line = format!("serve d.flash --nbd unix:n.sock --ui {port} --background");
    let served = Served::prepared(Bench::new(), "--size 16MiB --preset plain.toml", &line);
    served.start();
    (served, port)
}

fn write_four_mib(served: &Served) {
    let mut client = Client::connect(served);
    for at in 0..64 {
        client.call(WRITE, at << 16, 1 << 16, &[5; 1 << 16]);
    }
    client.call(FLUSH, 0, 0, b"");
}

/// A run with a page; the process ends when this is dropped.
struct Running {
    bench: Bench,
    child: Guarded,
    port: u16,
}

impl Running {
    /// Starts `flashloom run` with the arguments `line`, and waits for its first picture.
    fn start(line: &str) -> Self {
        Self::begin(Command::new(env!("CARGO_BIN_EXE_flashloom")), line)
    }

    /// The same with signals as they are in a terminal, also where these tests ignore some.
    fn start_heeding(line: &str) -> Self {
        Self::begin(crate::heeding(), line)
    }

    /// Starts a run from a shell that ignores `signals`, like `nohup` and background jobs of
    /// scripts.
    fn start_ignoring(signals: &str, line: &str) -> Self {
        let script = format!("trap '' {signals}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_flashloom")]);
        Self::begin(shell, line)
    }

    fn begin(mut program: Command, line: &str) -> Self {
        let (bench, port) = (Bench::new(), free_port());
        let out = File::create(bench.path("out")).expect("it can be written");
        let child = program
            .args(["run", "--ui", &port.to_string()])
            .args(line.split_whitespace())
            .current_dir(bench.folder.path())
            .env_remove("FLASHLOOM_DB")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let child = Guarded(child);
        let running = Self { bench, child, port };
        running.until(|picture| !picture.is_null());
        running
    }

    /// Waits for a picture that `wanted` accepts.
    fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let listens = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            let said = listens.then(|| get(self.port, "/live.json").1);
            let picture = said.and_then(|body| serde_json::from_str(&body).ok());
            match picture {
                Some(picture) if wanted(&picture) => return picture,
                _ => sleep(Duration::from_millis(10)),
            }
        }
        panic!("it was not so after {PATIENCE:?}");
    }

    /// Sends a signal, and returns the exit status.
    fn signal(&mut self, signal: &str) -> Option<i32> {
        self.child.signal(signal);
        self.child.ended().code()
    }
}

/// Head and body of the answer to `GET path` at this port.
fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let asked = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(asked.as_bytes()).expect("asked");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    let (head, body) = said.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_drive_that_is_served_has_a_page_with_all_of_its_flash() {
    let (served, port) = served();
    let picture = || {
        let (head, body) = get(port, "/live.json");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        serde_json::from_str::<Value>(&body).expect("a document")
    };
    let filled = |picture: &Value| -> i64 {
        let cells = picture["cells"].as_array().expect("a list");
        cells.iter().filter_map(|cell| cell[1].as_i64()).sum()
    };
    assert_eq!(filled(&picture()), 0);
    write_four_mib(&served);
    let after = picture();
    assert_eq!(number(&after, "/stats/host_write_bytes"), 4 << 20);
    assert_eq!(number(&after, "/stats/programmed_pages/host"), 1_024);
    let lines = after["cells"].as_array().expect("a list").len() as f64;
    let info = served
        .bench
        .json("drive stats d.flash", "flashloom.drive-stats/1");
    assert_eq!(info["free_lines"], after["stats"]["free_lines"]);
    assert!(filled(&after) > 0 && lines > 4.0, "{lines}");
    let (head, page) = get(port, "/");
    assert!(
        head.contains("script-src 'self'") && page.contains("/live.js"),
        "{head}"
    );
    assert!(get(port, "/../d.flash").0.starts_with("HTTP/1.1 404"));
    served.signal("-TERM");
    served.ended();
}

/// A run with enough events for several pictures; its record is the same without a page.
#[test]
fn a_run_has_a_page_that_stays_and_changes_nothing() {
    let line = "ext4@fdp --workload varmail:files=200,ops=60000 --size 128MiB --json";
    let mut running = Running::start(line);
    let done = running.until(|picture| picture["run"]["done"] == true);
    let moments = done["run"]["moments"].as_array().expect("a list");
    let last = moments.last().expect("a moment");
    assert!(moments.len() > 2, "{moments:?}");
    assert_eq!(number(&moments[0], "/at_ns"), 0);
    let (head, report) = get(running.port, "/report");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("style-src 'unsafe-inline'"));
    assert!(report.contains("ext4@fdp"), "{report}");
    assert_eq!(running.signal("-INT"), Some(0));
    let steady = |text: &str| {
        let mut record: Value = serde_json::from_str(text).expect("a record");
        let fields = record.as_object_mut().expect("an object");
        fields.retain(|name, _| !["wall_time_s", "peak_rss_bytes"].contains(&&**name));
        record
    };
    let (ours, plain) = (
        running.bench.text("out"),
        running.bench.done(&format!("run {line}")),
    );
    assert_eq!(steady(&ours), steady(&plain));
    assert_eq!(number(last, "/ops"), number(&steady(&ours), "/ops"));
    assert_eq!(last["at_ns"], steady(&ours)["sim_time_ns"]);
}

/// A hangup does not end a run that was started to ignore it. An interrupt does, even in the
/// background of a script, where shells ignore it.
#[test]
fn run_ignores_a_hangup_if_started_so() {
    let line = "raw@block --workload zipfwrite:ops=1000000000 --size 64MiB";
    let mut running = Running::start_heeding(line);
    assert_eq!(running.signal("-HUP"), Some(129));
    let mut running = Running::start_ignoring("HUP INT", line);
    running.child.signal("-HUP");
    let ops = |picture: &Value| {
        let moments = picture["run"]["moments"].as_array().expect("a list");
        number(moments.last().expect("a moment"), "/ops")
    };
    let before = ops(&running.until(|picture| !picture.is_null()));
    running.until(|picture| ops(picture) > before);
    assert_eq!(running.signal("-INT"), Some(130));
}

#[test]
fn page_of_a_run_updates_in_a_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut running = Running::start("raw@block --workload zipfwrite:ops=1000000000 --size 64MiB");
    browser.visit(&format!("http://127.0.0.1:{}/", running.port), 360);
    let goes_on = format!("{}.includes(' requests in ')", text("state"));
    assert!(
        browser.comes_true(&goes_on),
        "{}",
        browser.value(&text("state"))
    );
    assert_eq!(
        browser.value("document.getElementById('report').hidden"),
        true
    );
    for part in ["#time polygon", "#latency polyline"] {
        let there = format!("document.querySelector('{part}')?.getAttribute('points').length > 40");
        assert!(browser.comes_true(&there), "{part}");
    }
    let width = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.value(width), 0);
    by_keys(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new());
    assert_eq!(running.signal("-INT"), Some(130));
    let running =
        Running::start("raw@zns --workload seqwrite:ops=500 --precondition fresh --size 64MiB");
    running.until(|picture| picture["run"]["done"] == true);
    browser.visit(&format!("http://127.0.0.1:{}/", running.port), 1280);
    // Errors of the earlier page, whose run has ended.
    browser.complaints.clear();
    let done = format!("{}.endsWith('; done')", text("state"));
    assert!(
        browser.comes_true(&done),
        "{}",
        browser.value(&text("state"))
    );
    browser.value("document.querySelector('#report a').click()");
    let report = "location.pathname === '/report' && document.querySelector('h2') !== null";
    assert!(
        browser.comes_true(report),
        "{}",
        browser.value("location.href")
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// A script for the text of part `id` of the page.
fn text(id: &str) -> String {
    format!("document.getElementById('{id}').textContent")
}

#[test]
fn page_of_a_served_drive_updates_in_a_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (served, port) = served();
    for width in [360, 1280] {
        browser.visit(&format!("http://127.0.0.1:{port}/"), width);
        let there = format!("{}.startsWith('16.0 MiB')", text("state"));
        assert!(
            browser.comes_true(&there),
            "{}",
            browser.value(&text("state"))
        );
        let too_wide =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.value(too_wide), 0, "at {width}");
    }
    write_four_mib(&served);
    let counted = format!("{}.includes('hosts wrote4.0 MiB')", text("life"));
    assert!(
        browser.comes_true(&counted),
        "{}",
        browser.value(&text("life"))
    );
    assert!(browser.comes_true("document.querySelectorAll('#time polygon').length > 0"));
    by_keys(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new());
    served.signal("-TERM");
    served.ended();
    let gone = format!("{} === 'the server no longer responds'", text("state"));
    assert!(
        browser.comes_true(&gone),
        "{}",
        browser.value(&text("state"))
    );
}

/// Uses the map, the pause and the colours without a mouse.
fn by_keys(browser: &mut Browser) {
    browser.value("document.getElementById('map').focus()");
    browser.press(Key::Right);
    browser.press(Key::Right);
    let chosen = browser.value(&text("cell"));
    assert!(
        chosen
            .as_str()
            .is_some_and(|cell| cell.starts_with("line 1: ")),
        "{chosen}"
    );
    let theme = "document.documentElement.dataset.theme";
    let before = browser.value(theme);
    browser.press(Key::Letter('t'));
    assert_ne!(browser.value(theme), before);
    let paused = "document.getElementById('pause').getAttribute('aria-pressed')";
    for expected in ["true", "false"] {
        browser.press(Key::Letter('p'));
        assert_eq!(browser.value(paused), expected);
    }
}
