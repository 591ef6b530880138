//! `serve`: a drive for real clients, and its state after its process is killed. Tests skip if FUSE
//! or loop devices are missing.

use crate::{Bench, Said, number};
use sim::Seed;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Bytes of a piece in writes.
const PIECE: usize = 4096;
/// Number of pieces for each writer.
const PIECES: u64 = 600;

/// A served drive, with everything to be undone at the end of its test.
pub(crate) struct Served {
    pub(crate) bench: Bench,
    /// The command that serves it, in the directory `m`.
    line: String,
    loops: Vec<String>,
    mounts: Vec<PathBuf>,
}

impl Served {
    fn new(create: &str) -> Self {
        let bench = Bench::new();
        let served = Self::prepared(bench, create, "serve d.flash --file m --background");
        served.start();
        served
    }

    /// A drive, not served yet; [`Self::start`] runs `line`.
    pub(crate) fn prepared(bench: Bench, create: &str, line: &str) -> Self {
        let toml = "preset = \"block\"\n[controller]\npower_loss_protection = false\n";
        bench.write("plain.toml", toml);
        std::fs::create_dir(bench.path("m")).expect("a directory");
        bench.done(&format!("drive create d.flash {create}"));
        Self {
            bench,
            line: line.to_owned(),
            loops: Vec::new(),
            mounts: Vec::new(),
        }
    }

    pub(crate) fn start(&self) {
        self.bench.done(&self.line);
    }

    pub(crate) fn open(&self) -> File {
        let options = File::options().read(true).write(true).clone();
        options
            .open(self.bench.path("m/drive"))
            .expect("it can be opened")
    }

    /// Sends a signal to the process that serves the drive.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.pid().expect("it is served");
        let status = Command::new("kill").args([signal, &pid]).status();
        assert!(status.expect("kill starts").success());
    }

    /// Id of the process that serves the drive: the one that runs in its directory.
    fn pid(&self) -> Option<String> {
        let folder = self.bench.path("").canonicalize().ok()?;
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        // The first thread of a killed process may be gone while others still hold its files.
        let mut here = processes.filter(|entry| {
            let threads = std::fs::read_dir(entry.path().join("task"));
            threads.into_iter().flatten().flatten().any(|thread| {
                std::fs::read_link(thread.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
            })
        });
        Some(here.next()?.file_name().to_string_lossy().into_owned())
    }

    /// Removes a mount whose server has ended.
    pub(crate) fn sweep(&self) {
        let _ = tool("fusermount3", &["-u", "-z", &self.at("m")]);
    }

    /// Waits until the process has ended: up to a minute, because the machine may be busy.
    pub(crate) fn ended(&self) {
        for _ in 0..12_000 {
            if self.pid().is_none() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it has not ended");
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.bench.path(name).display().to_string()
    }

    /// Unmounts the directory. The kernel closes files of ended programs a little later, and
    /// reports them as busy until then.
    #[track_caller]
    pub(crate) fn unmount(&self) {
        let mut said = String::new();
        for _ in 0..200 {
            let done = tool("fusermount3", &["-u", &self.at("m")]).expect("it starts");
            said = String::from_utf8_lossy(&done.stderr).into_owned();
            if done.status.success() {
                return;
            }
            if !said.contains("busy") {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("it cannot be unmounted: {said}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for mount in &self.mounts {
            let _ = tool("umount", &["-l", &mount.display().to_string()]);
        }
        for device in &self.loops {
            let _ = tool("losetup", &["-d", device]);
        }
        self.sweep();
        for round in 0..800 {
            let Some(pid) = self.pid() else { return };
            // A failed test leaves a process that shows no file.
            if round >= 400 {
                let _ = tool("kill", &["-KILL", &pid]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a program of the system for at most a minute.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new("timeout");
    command.args(["60", name]).args(arguments);
    command.stdin(Stdio::null()).output()
}

/// The output of a program, which must succeed.
#[track_caller]
pub(crate) fn must(name: &str, arguments: &[&str]) -> String {
    let output = tool(name, arguments).expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Contents of a piece, which contain its number and version everywhere.
fn piece(number: u64, version: u64) -> Vec<u8> {
    let word = (number << 32 | version).to_le_bytes();
    word.repeat(PIECE / word.len())
}

/// Versions by piece: the last one promised, and the last one sent.
type Versions = BTreeMap<u64, (u64, u64)>;

/// Writes pieces and flushes until the drive is gone. `answered` says whether the completion of a
/// write is a promise.
fn write_until_killed(
    file: &File,
    own: std::ops::Range<u64>,
    answered: bool,
    seed: u64,
) -> Versions {
    let mut rng = Seed(seed).stream("writer");
    let mut versions: Versions = own.clone().map(|number| (number, (0, 0))).collect();
    loop {
        let number = own.start + rng.below(own.end - own.start);
        let entry = versions.get_mut(&number).expect("an own piece");
        entry.1 += 1;
        let version = entry.1;
        let bytes = piece(number, version);
        if file.write_all_at(&bytes, number * PIECE as u64).is_err() {
            return versions;
        }
        if answered {
            entry.0 = version;
        }
        if rng.below(20) == 0 {
            if file.sync_data().is_err() {
                return versions;
            }
            for entry in versions.values_mut() {
                entry.0 = entry.1;
            }
        }
    }
}

/// Asserts that every piece is whole, no older than promised and no newer than sent.
fn verify(file: &File, versions: &Versions) {
    for (&number, &(promised, sent)) in versions {
        let mut bytes = vec![0; PIECE];
        let read = file.read_exact_at(&mut bytes, number * PIECE as u64);
        read.expect("it can be read");
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let version = word & u64::from(u32::MAX);
        let whole = if version == 0 {
            bytes.iter().all(|&byte| byte == 0)
        } else {
            bytes == piece(number, version)
        };
        assert!(whole, "piece {number} is torn: {word:x}");
        let fits = promised <= version && version <= sent;
        assert!(fits, "piece {number}: {version}, not {promised} to {sent}");
    }
}

/// Kills the server of a drive several times; `protected` says whether the completion of a write is
/// a promise.
pub(crate) fn kill_and_verify(served: &Served, protected: bool) {
    for round in 0..4 {
        let file = served.open();
        // Clear the pieces of earlier rounds.
        file.write_all_at(&vec![0; 2 * PIECES as usize * PIECE], 0)
            .expect("written");
        file.sync_all().expect("flushed");
        let all = Mutex::new(Versions::new());
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (file, all) = (&file, &all);
                scope.spawn(move || {
                    let own = writer * PIECES..(writer + 1) * PIECES;
                    let seed = round * 2 + writer;
                    let versions = write_until_killed(file, own, protected, seed);
                    all.lock().expect("no writer has panicked").extend(versions);
                });
            }
            std::thread::sleep(Duration::from_millis(120 + 130 * round));
            served.signal("-KILL");
        });
        drop(file);
        served.ended();
        served.sweep();
        let smart = served
            .bench
            .json("drive smart d.flash", "flashloom.smart/1");
        assert_eq!(number(&smart, "/unsafe_shutdowns"), round + 1);
        served.start();
        verify(
            &served.open(),
            &all.into_inner().expect("no writer has panicked"),
        );
    }
    served.unmount();
    served.ended();
    let info = served
        .bench
        .json("drive info d.flash", "flashloom.drive-info/1");
    assert!(number(&info, "/mapped_bytes") >= 2 * PIECES * PIECE as u64);
}

#[test]
fn a_killed_protected_drive_has_every_answered_write() {
    if judges::has_fuse() {
        kill_and_verify(&Served::new("--size 16MiB"), true);
    }
}

#[test]
fn a_killed_drive_has_every_flushed_write() {
    if judges::has_fuse() {
        kill_and_verify(&Served::new("--size 16MiB --preset plain.toml"), false);
    }
}

#[test]
fn a_drive_that_is_served_belongs_to_its_process() {
    if !judges::has_fuse() {
        return;
    }
    let served = Served::new("--size 16MiB");
    let bench = &served.bench;
    std::fs::create_dir(bench.path("other")).expect("a directory");
    let refused = |line: &str, reason: &str| {
        let Said { code, err, out, .. } = bench.run(line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {err}");
        assert_eq!(err.lines().count(), 1, "{line}: {err}");
        assert!(err.contains(reason), "{line}: {err}");
    };
    bench.write("in.img", [1; 4096]);
    for line in [
        "drive info d.flash",
        "drive import d.flash in.img",
        "drive create d.flash --force --size 16MiB",
        "serve d.flash --file other --background",
    ] {
        refused(line, "d.flash: the drive is in use by another process");
    }
    bench.write("text", "no drive at all");
    refused("serve text --file other", "text: not a drive file");
    refused("serve none --file other", "none: No such file");
    refused("serve d.flash", "--file");
    served.open().write_all_at(b"hello", 4094).expect("written");
    let shown = bench.text("m/smart.json");
    served.unmount();
    // The commands wait for the end of the process themselves.
    bench.json("drive info d.flash", "flashloom.drive-info/1");
    bench.done("drive export d.flash out.img");
    assert_eq!(&bench.read("out.img")[4090..4100], b"\0\0\0\0hello\0");
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("a document");
    let names = |value: &serde_json::Value| {
        let map = value.as_object().expect("a map");
        map.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&smart), names(&shown));
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
    served.ended();
    refused(
        "serve d.flash --file nowhere --background",
        "nowhere: expected a directory",
    );
}

#[test]
fn a_signal_powers_the_drive_off_when_its_users_are_gone() {
    if !judges::has_fuse() {
        return;
    }
    let served = Served::new("--size 16MiB");
    served.open().write_all_at(b"kept", 0).expect("written");
    served.signal("-TERM");
    served.ended();
    let smart = served
        .bench
        .json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
    served.start();
    let file = served.open();
    served.signal("-INT");
    std::thread::sleep(Duration::from_millis(700));
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0)
        .expect("it is still served");
    assert_eq!(&bytes, b"kept");
    file.write_all_at(b"more", 0).expect("it is still served");
    served.signal("-INT");
    served.ended();
    assert!(file.write_all_at(b"late", 0).is_err());
    served.bench.done("drive export d.flash out.img");
    assert_eq!(&served.bench.read("out.img")[..4], b"more");
}

/// The kernel's ext4 on a loop device over the drive.
#[test]
fn a_file_system_of_the_kernel_lives_on_the_drive() {
    if !judges::has_fuse() || !judges::has_loops() || !judges::has("mkfs.ext4") {
        return;
    }
    let mut served = Served::new("--size 64MiB");
    let drive = served.at("m/drive");
    let attach = ["--direct-io=on", "-b", "4096", "--show", "-f", &drive];
    let device = must("losetup", &attach);
    served.loops.push(device.clone());
    must("mkfs.ext4", &["-q", &device]);
    let fs = served.bench.path("fs");
    std::fs::create_dir(&fs).expect("a directory");
    let fs_name = fs.display().to_string();
    must("mount", &[&device, &fs_name]);
    served.mounts.push(fs.clone());
    let mut rng = Seed(3).stream("files");
    let mut files = BTreeMap::new();
    for number in 0..40 {
        let bytes: Vec<u8> = (0..rng.below(400_000))
            .map(|_| rng.next_u64() as u8)
            .collect();
        std::fs::write(fs.join(number.to_string()), &bytes).expect("written");
        files.insert(number, bytes);
    }
    for number in (0..40).step_by(3) {
        std::fs::remove_file(fs.join(number.to_string())).expect("removed");
        files.remove(&number);
    }
    must("fstrim", &[&fs_name]);
    must("umount", &[&fs_name]);
    must("e2fsck", &["-fn", &device]);
    must("mount", &[&device, &fs_name]);
    for (number, bytes) in &files {
        let found = std::fs::read(fs.join(number.to_string())).expect("read");
        assert!(found == *bytes, "file {number}");
    }
    must("umount", &[&fs_name]);
    must("blkdiscard", &[&device]);
    must("losetup", &["-d", &device]);
    // The device closes the file a moment later.
    let unmounted = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let output = tool("fusermount3", &["-u", &served.at("m")]);
        output.is_ok_and(|output| output.status.success())
    });
    assert!(unmounted);
    let info = served
        .bench
        .json("drive info d.flash", "flashloom.drive-info/1");
    assert_eq!(number(&info, "/mapped_bytes"), 0, "all of it was discarded");
}
