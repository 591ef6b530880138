//! A real browser without a window, by its own protocol over two pipes, for the tests of pages.
//!
//! It is asked one thing at a time; what it says meanwhile of errors is kept.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest that one answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keys that a page is used by.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// To the next thing that can be used.
    Tab,
    /// The arrow to the right.
    Right,
    /// A letter, as it is typed.
    Letter(char),
}

/// A browser with one page, which ends with the value.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    loaded: bool,
    /// Errors and warnings of the page.
    pub complaints: Vec<String>,
    _folder: TempDir,
}

impl Browser {
    /// A browser with an empty page; none, and a word on standard error, where it is not
    /// installed.
    ///
    /// # Panics
    /// Where it is not installed and `CI` is set, and where it does not answer, as all here.
    #[must_use]
    pub fn start() -> Option<Self> {
        let version = Command::new("chromium").arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "CI installs chromium");
            eprintln!("skipped: there is no chromium");
            return None;
        }
        let folder = TempDir::new().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name);
        let pipes = Command::new("mkfifo")
            .args([path("to"), path("from")])
            .status();
        assert!(pipes.expect("mkfifo starts").success());
        let child = Command::new("sh")
            .args(["-c", START, "sh"])
            .args([path("to"), path("from"), path("profile")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let to = File::options().write(true).open(path("to"));
        let from = File::open(path("from"));
        let mut browser = Self {
            child,
            to: to.expect("the shell has opened it"),
            from: messages(from.expect("the shell has opened it")),
            asked: 0,
            session: None,
            loaded: false,
            complaints: Vec::new(),
            _folder: folder,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let page = self.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let whole = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.ask("Target.attachToTarget", &whole);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            self.ask(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// What it answers to `method`.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.to.write_all(&text).expect("it listens");
        loop {
            let message = self.next();
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// The next message; what is an error of the page is noted.
    fn next(&mut self) -> Value {
        let message = self.from.recv_timeout(PATIENCE).expect("it answers");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loaded = true,
            Some("Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled") => {
                self.complaints.push(params.to_string());
            }
            _ => {}
        }
        message
    }

    /// Opens a file as a page of `width` points, and waits until it is there.
    pub fn open(&mut self, file: &Path, width: u32) {
        self.visit(&format!("file://{}", file.display()), width);
    }

    /// The same of an address.
    pub fn visit(&mut self, address: &str, width: u32) {
        let metrics =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics);
        self.loaded = false;
        self.ask("Page.navigate", &json!({ "url": address }));
        while !self.loaded {
            self.next();
        }
    }

    /// Lets the system want light or dark pages.
    pub fn prefers(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [feature] }),
        );
    }

    /// Waits until an expression in the page is true, and says whether it ever was.
    pub fn comes_true(&mut self, expression: &str) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.value(expression) == true {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", &asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Presses a key.
    pub fn press(&mut self, key: Key) {
        let (name, code) = match key {
            Key::Tab => ("Tab".to_owned(), 9),
            Key::Right => ("ArrowRight".to_owned(), 39),
            Key::Letter(letter) => (letter.to_string(), u32::from(letter.to_ascii_uppercase())),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": name, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives the browser its two pipes. Nothing in its profile outlives the test.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic \
    --no-first-run --disable-background-networking --disable-component-update --disable-sync \
    --disable-dev-shm-usage --user-data-dir=\"$3\" --remote-debugging-pipe 3<\"$1\" 4>\"$2\"";

/// The messages that come by a pipe, each ended by a zero.
fn messages(pipe: File) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0) {
            let message = message.ok().and_then(|m| serde_json::from_slice(&m).ok());
            let Some(message) = message else { return };
            if send.send(message).is_err() {
                return;
            }
        }
    });
    receive
}
