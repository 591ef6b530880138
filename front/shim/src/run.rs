//! Running a program under a library.

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

/// Folders into which programs write what they do, and the library. They are
/// removed when this goes, or by a later run if this process is killed.
pub struct Spool {
    /// In memory, if the system has such a place: notes on a disk would be
    /// flushed along with what the program flushes, and slow it down.
    memory: Option<Folder>,
    /// Among the temporary files: the library, and what memory has no room for.
    disk: Folder,
}

/// The library's file.
const LIBRARY: &str = "libflashloom.so";

/// Why a daemon has not got zones that another process has.
pub(crate) const BUSY: &str = "another process has it";

/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

impl Spool {
    /// Makes the folders.
    ///
    /// # Errors
    /// If the system refuses, or programs cannot be recorded on it.
    pub fn new() -> io::Result<Self> {
        // Programs change their working directory, so the path is absolute.
        let disk = Folder::new(&std::env::temp_dir().canonicalize()?)?;
        let library = disk.path().join(LIBRARY);
        library::write(library::LIBRARY, &library)?;
        fs::set_permissions(library, Permissions::from_mode(0o755))?;
        let memory = Folder::new(Path::new(MEMORY)).ok();
        Ok(Self { memory, disk })
    }

    /// Where they are, that with the most room last.
    #[must_use]
    pub fn folders(&self) -> Vec<&Path> {
        let folders = self.memory.iter().chain([&self.disk]);
        folders.map(Folder::path).collect()
    }

    fn library(&self) -> PathBuf {
        self.disk.path().join(LIBRARY)
    }

    /// Has a program note what it asks of the system and of libraries that are preloaded into
    /// it, and be run to its end by `Ends::run`.
    pub fn watch(&self, command: &mut Command) {
        preload(command, self.library());
        let folders: Vec<_> = self.folders().iter().map(|it| it.as_os_str()).collect();
        command.env(SPOOL, folders.join(OsStr::new(":")));
    }
}

/// Where rules are: a file by its whole path, for programs change their working directory,
/// or the name of ready ones.
fn whole(rules: &Path) -> PathBuf {
    let ready = rules
        .to_str()
        .is_some_and(|name| sets::text(name).is_some());
    let whole = rules.canonicalize().ok();
    whole
        .filter(|_| !ready || rules.is_file())
        .unwrap_or_else(|| rules.into())
}

/// Whether a program can be run by rules: a file, or the name of ready ones.
///
/// # Errors
/// A sentence that says what is wrong with them.
pub fn check(rules: &Path) -> Result<(), String> {
    let said = rules.to_string_lossy();
    let path = CString::new(whole(rules).into_os_string().into_vec());
    Rules::load(&path.map_err(|it| format!("{said}: {it}"))?, &said, b"").map(drop)
}

/// The library that places files, in a folder of its own that is removed when this goes.
pub struct Placer {
    disk: Folder,
}

impl Placer {
    /// Makes the folder.
    ///
    /// # Errors
    /// If the system refuses, or programs cannot be run so on it.
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

    /// A program that is to run with files placed by `rules` in `zones`, or with hints
    /// where there are no zones. Rules are a file, or the name of ready ones.
    ///
    /// # Errors
    /// If the folder of zones is not there: programs change their working directory, so
    /// paths are made whole.
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

/// Keeps the daemon of zones there while programs use them: it starts one if there is
/// none, and another one when that dies.
pub struct Keeper {
    socket: Arc<AtomicI32>,
    ends: Arc<AtomicBool>,
}

/// What a daemon says on its output once programs can come.
pub const READY: &str = "ready";

/// Pauses between attempts to start a daemon again: it may be the zones that are gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Times that a daemon is started while another process has the zones: for some seconds.
const TRIES: u32 = 8;

impl Keeper {
    /// Sees to it that there is a daemon of the zones in a folder: `daemon` makes the
    /// command that is one ([`crate::daemon::serve`], with a line [`READY`], or why not).
    ///
    /// # Errors
    /// A sentence that says why there is none.
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
                // Nothing ever comes but the end.
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

/// A connection to the daemon of zones, if there is one.
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

/// The same, with a daemon that is started if there is none. One that has the zones still
/// may be about to end, or another one about to come.
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

/// Starts a daemon; gives the line that it says.
fn start(mut command: Command) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null()).current_dir("/");
    // What a terminal sends to end a program is not meant for it.
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

/// Why a library would see nothing of a program, or not all, if that can be told from its
/// file.
#[must_use]
pub fn unseen(program: &OsStr) -> Option<&'static str> {
    let found = |folder: PathBuf| Some(folder.join(program)).filter(|path| path.is_file());
    let mut path = match Path::new(program).components().count() {
        1 => std::env::split_paths(&std::env::var_os("PATH")?).find_map(found)?,
        _ => PathBuf::from(program),
    };
    for _ in 0..SCRIPTS {
        // It may be a pipe, which nobody runs.
        let bytes = path.is_file().then(|| fs::read(&path).ok())??;
        match interpreter(&bytes) {
            // The rights of a script are those of what runs it.
            Some(next) => path = next,
            None => return told(&bytes).or_else(|| gains(&path)),
        }
    }
    None
}

/// Scripts that are the interpreters of scripts, in a row: Linux runs five (fs/exec.c).
const SCRIPTS: usize = 6;

/// The most of its first line that Linux reads (BINPRM_BUF_SIZE).
const LINE: usize = 256;

/// The program that runs a script.
fn interpreter(script: &[u8]) -> Option<PathBuf> {
    let rest = script[..script.len().min(LINE)].strip_prefix(b"#!")?;
    let line = rest.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t\0".contains(byte));
    let word = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// Whether a program gains rights when it starts, by its bits or by what its file has beside.
fn gains(path: &Path) -> Option<&'static str> {
    let (about, name) = (fs::metadata(path).ok()?, OsStr::as_bytes(path.as_os_str()));
    // SAFETY: the calls take nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let capable = || {
        let name = CString::new(name).ok()?;
        sys::attribute_behind(&name, c"security.capability", &mut [0; 64]).ok()
    };
    let bits = about.mode() & (libc::S_ISUID | libc::S_ISGID | libc::S_IXGRP);
    let another = bits & libc::S_ISUID != 0 && about.uid() != user;
    // Without the right of the group to run it, the bit is about locks.
    let with = libc::S_ISGID | libc::S_IXGRP;
    let of_others = bits & with == with && about.gid() != group;
    let gains = another || of_others || (user != 0 && capable().is_some());
    gains.then_some("it gains rights when it starts, so no library is loaded into it")
}

/// What the bytes of a program's file say.
fn told(bytes: &[u8]) -> Option<&'static str> {
    let word = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    // A program of 64 bits, little endian; anything else is for the system to judge.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size, count) = (long(32)?, word(54)?, word(56)?);
    let header = |index: u16| {
        usize::try_from(first)
            .ok()?
            .checked_add(usize::from(index) * usize::from(size))
    };
    // A header of type 3 names the dynamic linker.
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

/// Puts a library before all others that are preloaded into a program.
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

    /// The file of a program with headers of these types.
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
    fn programs_that_no_library_sees_are_told() {
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

    /// A file that can be run, with these bits more.
    fn runs(path: &Path, bytes: &[u8], bits: u32) -> Option<&'static str> {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755 | bits)).unwrap();
        unseen(path.as_os_str())
    }

    #[test]
    fn what_runs_a_script_is_told_and_what_gains_rights() {
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
        // SAFETY: they take nothing.
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
