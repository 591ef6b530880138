//! The program from the user's view: command lines in, output and files out.

mod book;
mod calibrate;
mod compare;
mod designs;
mod drives;
mod ends;
mod filesystems;
mod learn;
mod listeners;
mod live;
mod malformed;
mod manual;
mod mount;
mod ocssd;
mod past;
mod placed;
mod play;
mod policies;
mod powercut;
mod pts;
mod record;
mod refusals;
mod remapped;
mod reproduce;
mod runs;
mod serve;
mod soak;
mod space;
mod tcp;
mod traces;
mod validate;
mod zonefs;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest duration of any command here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time for a process to end: it writes its drive to a shared disk.
const END: Duration = Duration::from_secs(300);

/// The program with HUP, INT and TERM at their defaults: `nohup` and shells in the background start
/// these tests with some of them ignored, which every child inherits.
fn heeding() -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP,INT,TERM");
    env.arg(env!("CARGO_BIN_EXE_flashloom"));
    env
}

/// A process that ends with its test, also if that fails.
struct Guarded(Child);

impl Guarded {
    /// Sends a signal such as `-TERM` to the process.
    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status();
        assert!(status.expect("kill starts").success());
    }

    /// Waits until the process has ended, for at most [`END`].
    fn ended(&mut self) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("it can be waited for") {
                return status;
            }
            assert!(start.elapsed() < END, "it has not ended");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory for one test, in which the program runs.
struct Bench {
    folder: TempDir,
}

/// Output and exit status of one command.
struct Said {
    command: String,
    code: Option<i32>,
    out: String,
    err: String,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("it can be written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("it is text")
    }

    /// All files in the directory by name, with their contents.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.folder.path()).expect("it can be listed");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            let name = entry.expect("it can be listed").file_name();
            name.to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.retain(|name| self.path(name).is_file());
        names.sort();
        let with_contents = |name: String| {
            let contents = self.read(&name);
            (name, contents)
        };
        names.into_iter().map(with_contents).collect()
    }

    /// Runs `flashloom` with the arguments `line`.
    fn run(&self, line: &str) -> Said {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_words(&words)
    }

    /// Runs `flashloom` with `words`, for at most [`PATIENCE`].
    fn run_words(&self, words: &[&str]) -> Said {
        let command = words.join(" ");
        let streams = TempDir::new().expect("a temporary directory");
        let stream = |name: &str| {
            let file = fs::File::create(streams.path().join(name));
            Stdio::from(file.expect("it can be written"))
        };
        let child = heeding()
            .args(words)
            .current_dir(self.folder.path())
            .env_remove("FLASHLOOM_DB")
            .env("XDG_CACHE_HOME", self.folder.path().join(".cache"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(stream("out"))
            .stderr(stream("err"))
            .spawn()
            .expect("the program starts");
        let mut child = Guarded(child);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.0.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "flashloom {command}: it has not ended after {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(2));
        };
        let read = |name: &str| {
            let text = fs::read(streams.path().join(name)).expect("it was written");
            String::from_utf8(text).expect("it is text")
        };
        Said {
            command,
            code: status.code(),
            out: read("out"),
            err: read("err"),
        }
    }

    /// The output of `line`, which must succeed.
    fn done(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, Some(0), "{line}: {}", said.err);
        said.out
    }

    /// The JSON document of schema `schema` that `line` prints.
    fn json(&self, line: &str, schema: &str) -> Value {
        let out = self.done(&format!("{line} --json"));
        let value: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(value["schema"], schema, "{line}");
        value
    }
}

/// The number at `pointer` in `value`.
fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{pointer} is no number"))
}

/// The sum of all numbers in a map.
fn sum(value: &Value) -> u64 {
    let map = value.as_object().expect("it is a map");
    map.values().map(|v| v.as_u64().expect("a number")).sum()
}

/// The values of attribute `name` in `tag`.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|value| value.0)
}

/// The cells of a page's table of metrics: run, path and value.
fn cells(page: &str) -> Vec<(usize, &str, &str)> {
    let tags = page.split("<td").skip(1);
    let tags = tags.filter_map(|rest| rest.split_once('>').map(|tag| tag.0));
    let cell = |tag| {
        let run = attribute(tag, "data-run")?.parse().ok()?;
        let (path, value) = (attribute(tag, "data-path")?, attribute(tag, "data-value")?);
        Some((run, path, value))
    };
    tags.filter_map(cell).collect()
}

/// A CSV trace of `writes` writes of 16 KiB over 32 MiB, each followed by a read of the same place.
fn trace(writes: u64) -> String {
    let mut text = "time_ns,flags,sector,sectors,process\n".to_owned();
    for i in 0..writes {
        let sector = i * 7919 % 2048 * 32;
        let (at, process) = (i * 20_000, if i % 3 == 0 { "db" } else { "log" });
        text += &format!("{at},WS,{sector},32,{process}\n");
        text += &format!("{},R,{sector},8,{process}\n", at + 9_000);
    }
    text
}

fn exists(path: &Path) -> bool {
    path.try_exists().expect("it can be looked for")
}
