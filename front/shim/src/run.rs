//! Running a program under one of the libraries.

use crate::folder::Folder;
use crate::place::{RULES, Rules, ZONES};
use crate::preload::SPOOL;
use crate::share::message::{Answer, MESSAGE_MAX, Op, Request};
use crate::{library, share, sys};
use parakeet::rules::sets;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Folders for the records of programs, and for the library. They are removed on drop, or by a
/// later run if this process is killed.
pub struct Spool {
    /// Folder in memory, if the system has one: records on a disk would be flushed along with the
    /// program's own data, and slow it down.
    memory: Option<Folder>,
    /// Folder among the temporary files: for the library, and for records that do not fit in
    /// memory.
    disk: Folder,
}

/// File name of the library in its folder.
const LIBRARY: &str = "libflashloom.so";

/// Message of a daemon that finds the zones locked by another process.
pub(crate) const BUSY: &str = "another process has it";

/// Mount point of a file system in memory on Linux.
const MEMORY: &str = "/dev/shm";

impl Spool {
    /// Makes the folders and installs the library.
    ///
    /// # Errors
    /// The system's error, or `Unsupported` if programs cannot be recorded on this system.
    pub fn new() -> io::Result<Self> {
        // Programs change their working directory, so the path is absolute.
        let disk = Folder::new(&std::env::temp_dir().canonicalize()?)?;
        let library = disk.path().join(LIBRARY);
        library::write(library::LIBRARY, &library)?;
        fs::set_permissions(library, Permissions::from_mode(0o755))?;
        let memory = Folder::new(Path::new(MEMORY)).ok();
        Ok(Self { memory, disk })
    }

    /// Paths of the folders, the one on disk last.
    #[must_use]
    pub fn folders(&self) -> Vec<&Path> {
        let folders = self.memory.iter().chain([&self.disk]);
        folders.map(Folder::path).collect()
    }

    fn library(&self) -> PathBuf {
        self.disk.path().join(LIBRARY)
    }

    /// Sets up a program so that its calls, and those of libraries preloaded into it, are recorded.
    /// Run it by `Ends::run`.
    pub fn watch(&self, command: &mut Command) {
        preload(command, self.library());
        let folders: Vec<_> = self.folders().iter().map(|it| it.as_os_str()).collect();
        command.env(SPOOL, folders.join(OsStr::new(":")));
    }
}

/// The rules for a program: the absolute path of a file, since programs change their working
/// directory, or the name of a built-in set.
fn whole(rules: &Path) -> PathBuf {
    let ready = rules
        .to_str()
        .is_some_and(|name| sets::text(name).is_some());
    let whole = rules.canonicalize().ok();
    whole
        .filter(|_| !ready || rules.is_file())
        .unwrap_or_else(|| rules.into())
}

/// Checks that rules, a file or a built-in set, can be loaded.
///
/// # Errors
/// A sentence that describes the first problem.
pub fn check(rules: &Path) -> Result<(), String> {
    let said = rules.to_string_lossy();
    let path = CString::new(whole(rules).into_os_string().into_vec());
    Rules::load(&path.map_err(|it| format!("{said}: {it}"))?, &said, b"").map(drop)
}

/// The library that places files, in a folder of its own that is removed on drop.
pub struct Placer {
    disk: Folder,
}

impl Placer {
    /// Makes the folder and installs the library.
    ///
    /// # Errors
    /// The system's error, or `Unsupported` if files cannot be placed on this system.
    pub fn new() -> io::Result<Self> {
        let disk = Folder::new(&std::env::temp_dir().canonicalize()?)?;
        let placer = Self { disk };
        library::write(library::PLACER, &placer.library())?;
        fs::set_permissions(placer.library(), Permissions::from_mode(0o755))?;
        Ok(placer)
    }

    fn library(&self) -> PathBuf {
        self.disk.path().join(LIBRARY)
    }

    /// A command that runs a program with files placed by `rules` in `zones`, or with hints only if
    /// that is `None`. Rules are a file or the name of a built-in set. Paths are made absolute,
    /// since programs change their working directory.
    ///
    /// # Errors
    /// If the folder of zones does not exist.
    pub fn command(
        &self,
        (program, arguments): (&OsStr, &[OsString]),
        rules: &Path,
        zones: Option<&Path>,
    ) -> io::Result<Command> {
        let mut command = Command::new(program);
        command.args(arguments);
        preload(&mut command, self.library());
        command.env(RULES, whole(rules));
        match zones {
            Some(zones) => command.env(ZONES, zones.canonicalize()?),
            None => command.env_remove(ZONES),
        };
        Ok(command)
    }
}

/// Keeps a daemon of zones running while programs use them: starts one if there is none, and
/// another one when it dies.
pub struct Keeper {
    socket: Arc<AtomicI32>,
    ends: Arc<AtomicBool>,
}

/// Line that a daemon prints once programs can connect.
pub const READY: &str = "ready";

/// Pause between attempts to start a daemon, as the zones themselves may be gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Number of attempts to start a daemon while another process has the zones locked.
const TRIES: u32 = 8;

impl Keeper {
    /// Makes sure that the zones in a folder have a daemon. `daemon` builds the command of one: it
    /// must call [`crate::daemon::serve`] and print a line, [`READY`] or the reason of its failure.
    ///
    /// # Errors
    /// A sentence with the reason why no daemon runs.
    pub fn new(
        zones: &Path,
        daemon: impl Fn() -> Command + Send + 'static,
    ) -> Result<Self, String> {
        let first = attach(zones, &daemon)?;
        let socket = Arc::new(AtomicI32::new(first));
        let ends = Arc::new(AtomicBool::new(false));
        let keeper = Self {
            socket: Arc::clone(&socket),
            ends: Arc::clone(&ends),
        };
        let zones = zones.to_owned();
        std::thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                let current = socket.load(Ordering::Acquire);
                // The daemon never sends anything; this returns when the connection ends.
                let _ = sys::receive(current, &mut [0; 64]);
                if ends.load(Ordering::Acquire) {
                    break;
                }
                match attach(&zones, &daemon) {
                    Ok(next) => {
                        socket.store(next, Ordering::Release);
                        sys::close(current);
                    }
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
            sys::close(socket.load(Ordering::Acquire));
        });
        Ok(keeper)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        sys::shut(self.socket.load(Ordering::Acquire));
    }
}

/// Connects to the daemon of zones, which it then keeps from ending.
fn meet(zones: &Path) -> Result<i32, String> {
    let errno = |errno| io::Error::from_raw_os_error(errno).to_string();
    let path = CString::new(zones.as_os_str().as_bytes()).map_err(|it| it.to_string())?;
    let folder = sys::open(&path, libc::O_RDONLY | libc::O_DIRECTORY).map_err(errno)?;
    let name = share::name(folder);
    sys::close(folder);
    let socket = sys::connect(&name.map_err(errno)?).map_err(errno)?;
    let mut room = vec![0; MESSAGE_MAX];
    let said = Request::new(Op::Keep, 0)
        .send(socket)
        .and_then(|()| sys::receive(socket, &mut room));
    match said {
        Ok((len, _)) if Answer::decode(&room[..len]).is_some() => Ok(socket),
        _ => {
            sys::close(socket);
            Err("the daemon of the zones does not answer".to_owned())
        }
    }
}

/// Like [`meet`], but starts a daemon if there is none. While the zones are locked it tries again:
/// the holder may be a daemon that is ending or starting.
fn attach(zones: &Path, daemon: &dyn Fn() -> Command) -> Result<i32, String> {
    for _ in 0..TRIES {
        if let Ok(socket) = meet(zones) {
            return Ok(socket);
        }
        let said = start(daemon())?;
        if said == READY {
            return meet(zones);
        }
        if said != BUSY {
            return Err(if said.is_empty() {
                "the daemon of the zones ended at once".to_owned()
            } else {
                said
            });
        }
        std::thread::sleep(PAUSE);
    }
    Err(BUSY.to_owned())
}

/// Starts a daemon and returns the first line that it prints.
fn start(mut command: Command) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null()).current_dir("/");
    // A process group of its own keeps the terminal's signals from the daemon.
    command.process_group(0);
    let mut child = command.spawn().map_err(|it| it.to_string())?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut line);
    }
    let line = line.trim();
    if line != READY {
        let _ = child.wait();
    }
    Ok(line.to_owned())
}

/// The reason why a library would see little or nothing of a program, as far as its file tells.
#[must_use]
pub fn unseen(program: &OsStr) -> Option<&'static str> {
    let found = |folder: PathBuf| Some(folder.join(program)).filter(|path| path.is_file());
    let mut path = match Path::new(program).components().count() {
        1 => std::env::split_paths(&std::env::var_os("PATH")?).find_map(found)?,
        _ => PathBuf::from(program),
    };
    for _ in 0..SCRIPTS {
        // A FIFO would block the read.
        let bytes = path.is_file().then(|| fs::read(&path).ok())??;
        match interpreter(&bytes) {
            // The privileges of a script are those of its interpreter.
            Some(next) => path = next,
            None => return told(&bytes).or_else(|| gains(&path)),
        }
    }
    None
}

/// Maximum length of a chain of interpreters, script included: Linux follows five (fs/exec.c).
const SCRIPTS: usize = 6;

/// Number of bytes of its first line that Linux reads (BINPRM_BUF_SIZE).
const LINE: usize = 256;

/// The interpreter in a script's first line; `None` if it is no script.
fn interpreter(script: &[u8]) -> Option<PathBuf> {
    let rest = script[..script.len().min(LINE)].strip_prefix(b"#!")?;
    let line = rest.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t\0".contains(byte));
    let word = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// Whether a program gains privileges on start, by its mode bits or its file capabilities.
fn gains(path: &Path) -> Option<&'static str> {
    let (about, name) = (fs::metadata(path).ok()?, OsStr::as_bytes(path.as_os_str()));
    // SAFETY: the calls have no arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let capable = || {
        let name = CString::new(name).ok()?;
        sys::attribute_behind(&name, c"security.capability", &mut [0; 64]).ok()
    };
    let bits = about.mode() & (libc::S_ISUID | libc::S_ISGID | libc::S_IXGRP);
    let another = bits & libc::S_ISUID != 0 && about.uid() != user;
    // Without group execute permission, the set-group-ID bit meant mandatory locks.
    let with = libc::S_ISGID | libc::S_IXGRP;
    let of_others = bits & with == with && about.gid() != group;
    let gains = another || of_others || (user != 0 && capable().is_some());
    gains.then_some("it gains rights when it starts, so no library is loaded into it")
}

/// The reason found in the bytes of a program's file.
fn told(bytes: &[u8]) -> Option<&'static str> {
    let word = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    // Only 64-bit little-endian programs are examined; others are left to the system.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size, count) = (long(32)?, word(54)?, word(56)?);
    let header = |index: u16| {
        usize::try_from(first)
            .ok()?
            .checked_add(usize::from(index) * usize::from(size))
    };
    // A program header of type 3 (`PT_INTERP`) names the dynamic linker.
    let linked = (0..count)
        .filter_map(header)
        .any(|at| word(at) == Some(3) && word(at + 2) == Some(0));
    if !linked {
        return Some("it is linked statically, so no library is loaded into it");
    }
    let go = b".note.go.buildid";
    let is_go = bytes.windows(go.len()).any(|part| part == go);
    is_go.then_some("it is a Go program, which makes system calls on its own")
}

/// Puts a library in front of all others that are preloaded into a program.
fn preload(command: &mut Command, library: PathBuf) {
    let set = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    let others = match set {
        Some((_, value)) => value.map(OsStr::to_owned),
        None => std::env::var_os("LD_PRELOAD"),
    };
    let mut all = library.into_os_string();
    if let Some(others) = others.filter(|it| !it.is_empty()) {
        all.push(":");
        all.push(others);
    }
    command.env("LD_PRELOAD", all);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of a program with program headers of these types.
    fn program(kinds: &[u32], rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = kinds.len() as u8;
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn static_and_go_programs_are_reported_as_unseen() {
        assert_eq!(told(&program(&[1, 3], b"")), None);
        assert!(told(&program(&[1, 1], b"")).unwrap().contains("statically"));
        assert!(
            told(&program(&[3], b"\0.note.go.buildid\0"))
                .unwrap()
                .contains("Go")
        );
        assert_eq!(unseen("/bin/sh".as_ref()), None);
        for end in 0..120 {
            let _ = told(&program(&[1, 3], b"")[..end]);
        }
    }

    /// Result of [`unseen`] for an executable file with these contents and additional mode bits.
    fn runs(path: &Path, bytes: &[u8], bits: u32) -> Option<&'static str> {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755 | bits)).unwrap();
        unseen(path.as_os_str())
    }

    #[test]
    fn interpreters_and_privileged_programs_are_reported_as_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let said = |why: Option<&str>, word| why.is_some_and(|why| why.contains(word));
        let still = program(&[1], b"");
        assert!(said(runs(&at("still"), &still, 0), "statically"));
        let script = |by: &str| format!("#! {}\t-x\necho", at(by).display()).into_bytes();
        assert!(said(runs(&at("script"), &script("still"), 0), "statically"));
        assert!(said(runs(&at("more"), &script("script"), 0), "statically"));
        assert_eq!(runs(&at("own"), &script("own"), 0), None, "not for ever");
        assert_eq!(runs(&at("none"), b"#!", 0), None);
        assert_eq!(runs(&at("shell"), b"#!/bin/sh\n", 0o4000), None);
        let linked = program(&[3], b"");
        assert_eq!(runs(&at("mine"), &linked, 0o4000), None, "as who it is");
        // SAFETY: the calls have no arguments.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        if user != 0 {
            return;
        }
        let other = at("others");
        fs::write(&other, &linked).unwrap();
        std::os::unix::fs::chown(&other, Some(1), Some(group + 1)).unwrap();
        assert_eq!(runs(&other, &linked, 0), None);
        assert!(said(runs(&other, &linked, 0o4000), "gains rights"));
        assert!(said(runs(&other, &linked, 0o2000), "gains rights"));
    }
}
