//! Several workloads of files side by side, as programs on one machine share a drive.
//!
//! Each member keeps everything that it has alone: its tree lies in a directory named after the
//! member, and its threads, processes and open files get numbers of their own. Its calls are those
//! that it makes alone, at other times, unless they depend on how long other members' calls take.
//!
//! Invariants:
//! - A thread, a process, an open file or a path belongs to one member, and two of one member stay
//!   distinct.
//! - Threads are numbered in the order in which members report them, those of earlier members
//!   first, and keep their numbers.

use super::fileset::DIR_MODE;
use super::{
    Call, Entry, EntryKind, Errno, Fd, FileWorkload, Name, Names, Setup, Source, ThreadId, Turn,
};
use crate::describe::{WorkloadError, existing};
use sim::Seed;
use std::path::Path;
use units::Ns;

/// Separator of the members in a text.
pub const BETWEEN: &str = " & ";

/// One member of a text: its name, if it is given, and its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Name that the text gives, such as `db` in `db=ycsb-a:records=1000`.
    pub name: Option<&'a str>,
    /// Text of the workload, with parameters.
    pub text: &'a str,
}

/// Splits `text` into its members: `db=ycsb-a & varmail:threads=4` has two. `None` if the text is
/// one workload without a name; a text that begins with a path to a file counts as one unless
/// [`BETWEEN`] stands in its parameters.
#[must_use]
pub fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    if existing(text).is_some_and(|(_, params)| !params.contains(BETWEEN)) {
        return None;
    }
    let parts: Vec<Part<'_>> = text.split(BETWEEN).map(part).collect();
    let alone = matches!(parts[..], [Part { name: None, .. }]);
    (!alone).then_some(parts)
}

fn part(text: &str) -> Part<'_> {
    let text = text.trim();
    let alone = Part { name: None, text };
    if existing(text).is_some() {
        return alone;
    }
    match text.split_once('=') {
        Some((name, text)) if is_name(name) => Part {
            name: Some(name),
            text,
        },
        _ => alone,
    }
}

/// Whether `text` can be a member's name: it names a directory and stands before the names of calls
/// in reports.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(fits)
}

/// Name and workload of a member.
pub(super) type Described = (String, FileWorkload);

/// Parses the workloads of `parts`, which `text` was split into; names must differ.
pub(super) fn parse(text: &str, parts: &[Part<'_>]) -> Result<Vec<Described>, WorkloadError> {
    let refused = |problem: String| WorkloadError::Files {
        workload: text.to_owned(),
        problem,
    };
    let mut members: Vec<Described> = Vec::new();
    for Part { name, text } in parts {
        if text.is_empty() || self::parts(text).is_some() {
            let problem = format!("expected a workload beside each {BETWEEN:?}, found {text:?}");
            return Err(refused(problem));
        }
        let name = name.map_or_else(|| usual(text), str::to_owned);
        if members.iter().any(|(other, _)| *other == name) {
            return Err(refused(format!(
                "expected a name of its own for each, such as a={text}{BETWEEN}b={text}, found \
                 {name} twice"
            )));
        }
        members.push((name, FileWorkload::parse(text)?));
    }
    Ok(members)
}

/// Default name of a member: that of its preset, or the stem of its file's name.
fn usual(text: &str) -> String {
    let path = existing(text).map(|(path, _)| Path::new(path));
    let stem = path.and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let whole = stem.unwrap_or_else(|| text.split(':').next().unwrap_or_default().to_owned());
    whole.replace(|c: char| !is_name(c.encode_utf8(&mut [0; 4])), "-")
}

/// State of one member.
struct Member {
    source: Box<dyn Source>,
    /// Directory that holds the member's tree.
    folder: Name,
    /// Path among all members for each of the member's names, filled when the name is first used as
    /// a path.
    paths: Vec<Option<Name>>,
    /// Number among all members of each of the member's threads.
    threads: Vec<ThreadId>,
}

/// Source of the calls of all members.
pub(super) struct Beside {
    names: Names,
    setup: Setup,
    called: Vec<String>,
    members: Vec<Member>,
    /// Member of each thread, and the thread's number there.
    threads: Vec<(usize, ThreadId)>,
    /// Member whose `next` was called last.
    asked: usize,
}

impl Beside {
    /// Opens `members`, each with the seed that it would have alone.
    pub(super) fn open(members: &[Described], seed: Seed) -> Result<Self, WorkloadError> {
        let mut beside = Self {
            names: Names::default(),
            setup: Setup::default(),
            called: Vec::new(),
            members: Vec::new(),
            threads: Vec::new(),
            asked: 0,
        };
        for (name, workload) in members {
            beside.add(name, workload.open(seed)?);
        }
        beside.meet();
        Ok(beside)
    }

    /// Adds a member and moves its tree into its directory.
    fn add(&mut self, name: &str, source: Box<dyn Source>) {
        let mut member = Member {
            source,
            folder: self.names.intern(name.as_bytes()),
            paths: Vec::new(),
            threads: Vec::new(),
        };
        self.setup.entries.push(Entry {
            path: member.folder,
            kind: EntryKind::Directory,
            mode: DIR_MODE,
        });
        let entries = member.source.setup().entries.clone();
        let moved = entries.iter().map(|entry| Entry {
            path: member.path(entry.path, &mut self.names),
            kind: match entry.kind {
                EntryKind::Symlink { target } => EntryKind::Symlink {
                    target: member.string(target, &mut self.names),
                },
                EntryKind::Link { to } => EntryKind::Link {
                    to: member.path(to, &mut self.names),
                },
                kind => kind,
            },
            mode: entry.mode,
        });
        self.setup.entries.extend(moved);
        self.called.push(name.to_owned());
        self.members.push(member);
    }

    /// Numbers the threads that members have reported since the last call.
    fn meet(&mut self) {
        for (at, member) in self.members.iter_mut().enumerate() {
            while (member.threads.len() as u32) < member.source.threads() {
                let own = ThreadId(member.threads.len() as u32);
                member.threads.push(ThreadId(self.threads.len() as u32));
                self.threads.push((at, own));
            }
        }
    }

    /// Translates `call` of the member `at`: paths into its directory, descriptors into numbers of
    /// its own.
    fn moved(&mut self, at: usize, call: &Call) -> Call {
        let all = self.members.len();
        let (member, names) = (&mut self.members[at], &mut self.names);
        let name = |key: &'static str, name: Name| {
            Some(match key {
                "path" | "from" | "to" => member.path(name, names),
                _ => member.string(name, names),
            })
        };
        let fd = |fd: Fd| Some(Fd(number(at, all, fd.0)));
        call.map(fd, name).expect("each has another")
    }
}

/// Number among `all` members of the number `own` of the member `at`. Numbers past 2^32 saturate,
/// which is more than any file system or system has.
fn number(at: usize, all: usize, own: u32) -> u32 {
    let number = u64::from(own) * all as u64 + at as u64;
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Member {
    /// Path among all members of the member's path `name`.
    fn path(&mut self, name: Name, names: &mut Names) -> Name {
        let at = name.0 as usize;
        if let Some(Some(known)) = self.paths.get(at) {
            return *known;
        }
        let path = match self.source.names().bytes(name) {
            b"" => self.folder,
            own => names.intern(&[names.bytes(self.folder), b"/", own].concat()),
        };
        if at >= self.paths.len() {
            self.paths.resize(at + 1, None);
        }
        self.paths[at] = Some(path);
        path
    }

    /// Interns a string that is no path, such as the target of a symbolic link, unchanged.
    fn string(&self, name: Name, names: &mut Names) -> Name {
        names.intern(self.source.names().bytes(name))
    }
}

impl Source for Beside {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn process(&self, thread: ThreadId) -> u32 {
        let (at, own) = self.threads[thread.0 as usize];
        number(at, self.members.len(), self.members[at].source.process(own))
    }

    fn members(&self) -> &[String] {
        &self.called
    }

    fn member(&self, thread: ThreadId) -> usize {
        self.threads[thread.0 as usize].0
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        let (at, own) = self.threads[thread.0 as usize];
        self.asked = at;
        let turn = self.members[at].source.next(own, now);
        self.meet();
        match turn {
            Turn::Call {
                think,
                late,
                call,
                expect,
            } => Turn::Call {
                think,
                late,
                call: self.moved(at, &call),
                expect,
            },
            other => other,
        }
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        let (at, own) = self.threads[thread.0 as usize];
        self.members[at].source.ended(own, result);
        self.meet();
    }

    fn wake(&mut self) -> Option<ThreadId> {
        let mut members = self.members.iter_mut();
        members.find_map(|member| {
            let own = member.source.wake()?;
            Some(member.threads[own.0 as usize])
        })
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        self.members[self.asked].source.finished()
    }

    fn notes(&self) -> Vec<String> {
        let members = self.called.iter().zip(&self.members);
        let told = members.flat_map(|(name, member)| {
            let notes = member.source.notes().into_iter();
            notes.map(move |note| format!("{name}: {note}"))
        });
        told.collect()
    }

    fn failure(&self) -> Option<String> {
        let mut members = self.called.iter().zip(&self.members);
        members.find_map(|(name, member)| Some(format!("{name}: {}", member.source.failure()?)))
    }
}
