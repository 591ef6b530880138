//! Placement rules: Parakeet's rules, evaluated as programs open files and hint at lifetimes.
//!
//! Invariant: whether a path may belong to a placed file is a function of the path alone, so that a
//! file is found however it is opened.

use super::sieve::Sieve;
use crate::preload::raw;
use crate::sys;
use core::ffi::{CStr, c_int};
use parakeet::decide::{Decider, Limits};
use parakeet::directive::{Directive, Hint};
use parakeet::event::{Call, Event, FileKey, Opening};
use parakeet::flags::Flags;
use parakeet::rules::{Glob, RuleSet, sets};
use parakeet::translate::{HintMap, HintPlan, ZonePools};
use shimmer::Placement;
use std::io;
use std::sync::{Mutex, PoisonError};
use units::Ns;

/// Zones written at the same time if the device has no limit: the number that the dissertation's
/// ZN540 allows to be open.
const OPEN_ZONES: u32 = 14;

/// Number of files whose openings the decider remembers: more than a program has open.
const FILES: usize = 1 << 16;

/// Maximum size of a file of rules in bytes: a thousand times that of a built-in set.
const TEXT_MAX: usize = 1 << 20;

/// The text of the file of rules at a path; `None` if there is no such file.
fn text(path: &CStr) -> Result<Option<String>, String> {
    let errno = |errno| io::Error::from_raw_os_error(errno).to_string();
    // `O_NONBLOCK`: the opening of a pipe must not wait for a writer.
    let fd = match sys::open(path, libc::O_RDONLY | libc::O_NONBLOCK) {
        Err(libc::ENOENT) => return Ok(None),
        opened => opened.map_err(errno)?,
    };
    let read = sys::stat(fd).map_err(errno).and_then(|stat| {
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(errno(libc::EISDIR)),
            _ => return Err("expected a file, found a pipe or a device".to_owned()),
        }
        let bytes = sys::read_all(fd, TEXT_MAX + 1).map_err(errno)?;
        if bytes.len() > TEXT_MAX {
            return Err(format!("it is longer than {TEXT_MAX} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
    });
    sys::close(fd);
    read.map(Some)
}

/// A set of rules, and the state of its decisions for one program.
pub struct Rules {
    rules: RuleSet,
    sieve: Sieve,
    decider: Mutex<Decider>,
    hints: HintPlan,
    program: Vec<u8>,
}

impl Rules {
    /// Loads the built-in rules of the name `path`, or else the rules in the file at that path, for
    /// a program.
    ///
    /// # Errors
    /// A sentence that begins with the path in the form `said`.
    pub fn load(path: &CStr, said: &str, program: &[u8]) -> Result<Self, String> {
        // Built-in rules are found by name, whatever the working directory.
        let ready = sets::text(&path.to_string_lossy()).map(str::to_owned);
        let text = match ready {
            Some(text) => Some(text),
            None => text(path).map_err(|why| format!("{said}: {why}"))?,
        };
        Self::read(said, text.as_deref(), program)
    }

    /// Parses rules: `text`, or the built-in set `name` if that is `None`, for a program.
    ///
    /// # Errors
    /// A sentence with line and column.
    pub fn read(name: &str, text: Option<&str>, program: &[u8]) -> Result<Self, String> {
        let text = text.or_else(|| sets::text(name));
        let text = text.ok_or_else(|| format!("{name}: no such file, nor ready rules"))?;
        let rules = RuleSet::read(name, text).map_err(|error| error.to_string())?;
        Ok(Self {
            sieve: sieve(&rules),
            decider: Mutex::new(Decider::new(rules.clone(), Limits { files: FILES })),
            hints: HintPlan::new(&rules.streams, HintMap::default()),
            rules,
            program: program.to_vec(),
        })
    }

    /// Whether rules may name a file at `path`, as a program passes it. This check is the cost of a
    /// call on any other file.
    #[inline]
    #[must_use]
    pub fn may_name(&self, path: &[u8]) -> bool {
        self.sieve.passes(path)
    }

    /// Whether a rule names a file at `path`, which is absolute.
    #[must_use]
    pub fn names(&self, path: &[u8]) -> bool {
        self.rules.rules.iter().any(|rule| {
            let fits = rule.paths.is_empty() || rule.paths.iter().any(|it| it.matches(path));
            rule.stream.is_some() && fits
        })
    }

    fn tell(&self, file: u64, call: Call<'_>) -> Option<Directive> {
        let event = Event {
            at: Ns(raw::now()),
            thread: raw::id(libc::SYS_gettid),
            file: FileKey(file),
            call,
        };
        let mut decider = self.decider.lock().unwrap_or_else(PoisonError::into_inner);
        decider.tell(&event)
    }

    /// Handles an opening; returns the placement that the rules decide, if any.
    pub fn opened(&self, file: u64, path: &[u8], flags: c_int, mode: u32) -> Option<Directive> {
        let opening = Opening {
            path,
            flags: Flags(flags as u32),
            mode,
            program: &self.program,
            ..Opening::default()
        };
        self.tell(file, Call::Open(opening))
    }

    /// Handles a write hint of the program; returns the file's placement from now on, if any.
    pub fn hinted(&self, file: u64, hint: u64) -> Option<Directive> {
        self.tell(file, Call::Hint(Hint::from_raw(hint)?))
    }

    /// Handles the close of a file.
    pub fn closed(&self, file: u64) {
        self.tell(file, Call::Close);
    }

    /// Handles the removal of a file.
    pub fn gone(&self, file: u64) {
        self.tell(file, Call::Gone);
    }

    /// The kernel's write hint for a directive.
    #[must_use]
    pub fn hint(&self, directive: Directive) -> u64 {
        self.hints.hint(Some(directive)).unwrap_or_default() as u64
    }

    /// The zone pool for a directive, on a device with `open` zones open at most; 0 is no limit.
    #[must_use]
    pub fn placement(&self, directive: Directive, open: u32) -> Placement {
        let open = match open {
            0 => OPEN_ZONES,
            // The log occupies one open zone.
            open => (open - 1).max(1),
        };
        let pool = ZonePools::new(&self.rules.streams, open).pool(directive);
        pool.map_or_else(Placement::default, |pool| Placement {
            stream: pool.pool,
            group: pool.writer,
        })
    }
}

/// The sieve of all paths that rules place.
fn sieve(rules: &RuleSet) -> Sieve {
    let placing = || rules.rules.iter().filter(|rule| rule.stream.is_some());
    if placing().any(|rule| rule.paths.is_empty()) {
        return Sieve::open();
    }
    let paths = placing().flat_map(|rule| &rule.paths);
    Sieve::new(paths.map(Glob::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_are_found_by_name() {
        let rules = Rules::read("rocksdb", None, b"db_bench").unwrap();
        assert!(rules.may_name(b"/db/000004.log") && rules.may_name(b"db/000009.sst"));
        assert!(!rules.may_name(b"/db/CURRENT"));
        assert!(rules.names(b"/db/000009.sst") && !rules.names(b"/db/000009.sst/x"));
        assert!(Rules::read("nothing", None, b"").is_err());
    }

    #[test]
    fn path_filter_ignores_the_flags_of_rules() {
        let text = "name = \"x\"\n[[stream]]\nname = \"a\"\n[[rule]]\npath = \"*.log\"\n\
                    flags = [\"create\"]\nstream = \"a\"\n";
        let rules = Rules::read("x", Some(text), b"").unwrap();
        assert!(rules.may_name(b"a.log"));
        assert_eq!(rules.opened(1, b"a.log", libc::O_RDONLY, 0), None);
        let made = rules.opened(2, b"a.log", libc::O_CREAT | libc::O_WRONLY, 0o644);
        assert!(made.is_some());
    }

    #[test]
    fn later_hint_of_the_program_changes_the_placement() {
        let rules = Rules::read("rocksdb", None, b"").unwrap();
        let flags = libc::O_CREAT | libc::O_WRONLY;
        let deep = rules.opened(1, b"/db/000009.sst", flags, 0o644).unwrap();
        let upper = rules.hinted(1, 3).unwrap();
        assert_ne!(rules.placement(deep, 8), rules.placement(upper, 8));
        assert_eq!((rules.hint(deep), rules.hint(upper)), (5, 3));
    }
}
