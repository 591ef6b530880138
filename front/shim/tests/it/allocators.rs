//! Unmodified programs under foreign allocators, killed with their files in zones. Acknowledged
//! writes must survive.

use super::Place;
use super::place::{rule, rules, serve, text, written, zones};
use judges::installed;
use shim::run::Placer;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Allocators to preload; `None` is the program's own or the C library's.
const ALLOCATORS: [Option<&str>; 4] = [
    None,
    Some("libjemalloc.so.2"),
    Some("libtcmalloc_minimal.so.4"),
    Some("libmimalloc.so.2"),
];

/// Longest time that a program may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of acknowledged operations before a program is killed.
const ANSWERS: u64 = 200;

/// Path of a library on Debian; a missing one is reported, and fails in CI.
fn library(name: &str) -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let found = Some(Path::new(&folder).join(name)).filter(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI installs {name}");
        println!("skipped: {name} is not installed");
    }
    found
}

/// A program with files in zones, under an allocator.
struct Over<'a> {
    program: PathBuf,
    allocator: Option<PathBuf>,
    placer: &'a Placer,
    rules: &'a Path,
    zones: &'a Path,
    folder: PathBuf,
}

impl Over<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        let what = (self.program.as_os_str(), &words[..]);
        let command = self.placer.command(what, self.rules, Some(self.zones));
        let mut command = command.unwrap();
        if let Some(allocator) = &self.allocator {
            let is_it = |(name, _): &(&OsStr, Option<&OsStr>)| *name == "LD_PRELOAD";
            let (_, own) = command.get_envs().find(is_it).expect("it is preloaded");
            let all = [own.unwrap(), allocator.as_os_str()].join(OsStr::new(":"));
            command.env("LD_PRELOAD", all);
        }
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}

/// Runs `work` with a program under each installed allocator, in fresh zones.
fn over_each(program: &str, rules_text: Option<&str>, work: impl Fn(&Over<'_>)) {
    let Some(program) = installed(program) else {
        return;
    };
    for name in ALLOCATORS {
        let allocator = match name.map(library) {
            None => None,
            Some(None) => continue,
            Some(found) => found,
        };
        let place = Place::new();
        let zones = zones(&place, 32);
        let rules = rules_text.map_or(PathBuf::from("rocksdb"), |text| rules(&place, text));
        let folder = place.path("work");
        std::fs::create_dir(&folder).unwrap();
        let _served = serve(&zones);
        work(&Over {
            program: program.clone(),
            allocator,
            placer: &Placer::new().unwrap(),
            rules: &rules,
            zones: &zones,
            folder,
        });
        assert!(written(&zones) > 0, "{name:?}: it was not placed");
    }
}

/// Waits until `ready` returns a value; fails if the child ends or hangs.
#[track_caller]
fn until<T>(child: &mut Child, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(ready) = ready() {
            return ready;
        }
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the program has ended: {ended:?}");
        assert!(begun.elapsed() < PATIENCE, "the program hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Output of a program that ends on its own; fails on an error or a hang.
#[track_caller]
fn ended(mut command: Command) -> String {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the program hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = child.wait_with_output().unwrap();
    let out = text(&said.stdout);
    assert!(said.status.success(), "{out}{}", text(&said.stderr));
    out
}

/// Number of operations that `db_bench` has reported as done, by its last line of progress.
fn finished(error: &Path) -> u64 {
    let error = std::fs::read(error).unwrap_or_default();
    let error = text(&error);
    let numbers = error.split("finished ").skip(1);
    let numbers = numbers.filter_map(|rest| rest.split(' ').next()?.parse().ok());
    numbers.last().unwrap_or(0)
}

#[test]
fn synced_writes_of_rocksdb_survive_a_kill_with_each_allocator() {
    over_each("db_bench", None, |over| {
        let bench = |words: &[&str]| {
            let fixed = [
                "--db=db",
                "--num=10000000",
                "--value_size=200",
                "--compression_type=none",
            ];
            over.command(&[&fixed[..], words].concat())
        };
        let said = over.folder.join("said");
        let mut fill = bench(&["--benchmarks=fillseq", "--sync=1"]);
        fill.stderr(std::fs::File::create(&said).unwrap());
        let mut child = fill.stdout(Stdio::null()).spawn().unwrap();
        until(&mut child, || (finished(&said) >= ANSWERS).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        let answered = finished(&said);
        let check = ["--use_existing_db=1", "--benchmarks=readseq,verifychecksum"];
        let out = ended(bench(&[&check[..], &["--verify_checksum=true"]].concat()));
        let words: Vec<_> = out.split_whitespace().collect();
        let counted = words
            .windows(2)
            .find(|pair| pair[1].starts_with("operations"));
        let found: u64 = counted.expect("it counts")[0].parse().unwrap();
        assert!(
            found >= answered,
            "{:?}: {answered} answered, {found} there",
            over.allocator
        );
    });
}

/// A connection to a Redis server.
struct Redis(UnixStream);

impl Redis {
    /// Sends a command and returns the line of its reply.
    fn ask(&mut self, words: &str) -> std::io::Result<String> {
        self.0.write_all(format!("{words}\r\n").as_bytes())?;
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        Ok(text(&line).trim_end().to_owned())
    }
}

/// Starts a server that syncs its append-only file before it replies.
fn redis(over: &Over<'_>) -> (Child, Redis) {
    let words = [
        "--port",
        "0",
        "--unixsocket",
        "s",
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--daemonize",
        "no",
        "--logfile",
        "log",
    ];
    let _ = std::fs::remove_file(over.folder.join("s"));
    let mut child = over.command(&words).stdout(Stdio::null()).spawn().unwrap();
    let server = until(&mut child, || {
        let mut server = Redis(UnixStream::connect(over.folder.join("s")).ok()?);
        // The server refuses commands while it loads.
        (server.ask("PING").ok()? == "+PONG").then_some(server)
    });
    (child, server)
}

#[test]
fn acknowledged_writes_of_redis_survive_a_kill_with_each_allocator() {
    over_each("redis-server", Some(&rule("aof")), |over| {
        let mut least = 0;
        for round in 0..3 {
            let (mut child, mut server) = redis(over);
            let there = server.ask("DBSIZE").unwrap();
            let there: u64 = there.trim_start_matches(':').parse().unwrap();
            assert!(
                there >= least,
                "{:?}: {least} answered, {there} there",
                over.allocator
            );
            for key in 0..ANSWERS / 2 {
                let set = format!("SET {round}.{key} {}", "v".repeat(100));
                assert_eq!(server.ask(&set).unwrap(), "+OK");
            }
            least = there + ANSWERS / 2;
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
}
