//! Recordings and traces that are part of the binary, and workloads that may name them.
//!
//! Invariant: the contents of a [`Shipped`] lie in a scratch file for as long as the [`Asked`] that
//! names them lives, and [`Asked::named`] keeps the path of that file out of messages.

use crate::describe::{Preset, TRACE};
use crate::files::CALLS;
use crate::files::beside::{BETWEEN, Part, parts};
use std::io::{self, Write};
use std::path::Path;
use units::{Bytes, MIB};
use whole::Scratch;

/// Recording or trace that is part of the binary. A workload names it like a preset.
#[derive(Debug)]
pub struct Shipped {
    /// Name by which a workload refers to it.
    pub name: &'static str,
    /// Description, in one line.
    pub help: &'static str,
    /// Parameters that it takes.
    pub params: &'static Preset,
    /// Bytes of the drive that it was recorded for; `None` if it fits the drives of all presets.
    pub size: Option<Bytes>,
    contents: &'static [u8],
}

/// Recording of RocksDB's file calls, the default workload of commands for stacks with files.
pub static RECORDING: Shipped = Shipped {
    name: "rocksdb",
    help: "shipped recording of file calls: RocksDB's db_bench, the default of compare",
    params: &CALLS,
    size: Some(Bytes(1_408 * MIB)),
    contents: include_bytes!("../../../flashloom/traces/rocksdb.flt"),
};

/// Recordings of other stores, which are smaller than [`RECORDING`].
static STORES: [Shipped; 4] = [
    store(
        "rocksdb-fifo",
        "shipped recording of file calls: RocksDB's db_bench with FIFO compaction",
        include_bytes!("../../../flashloom/traces/rocksdb-fifo.flt"),
    ),
    store(
        "wiredtiger",
        "shipped recording of file calls: WiredTiger's LSM tree, loaded, written over and read",
        include_bytes!("../../../flashloom/traces/wiredtiger.flt"),
    ),
    store(
        "postgresql",
        "shipped recording of file calls: PostgreSQL under pgbench",
        include_bytes!("../../../flashloom/traces/postgresql.flt"),
    ),
    store(
        "sqlite",
        "shipped recording of file calls: SQLite's shell with a write-ahead log",
        include_bytes!("../../../flashloom/traces/sqlite.flt"),
    ),
];

const fn store(name: &'static str, help: &'static str, contents: &'static [u8]) -> Shipped {
    Shipped {
        name,
        help,
        params: &CALLS,
        size: Some(Bytes(512 * MIB)),
        contents,
    }
}

/// Trace of PostgreSQL's block requests on ext4, the default workload of `run` for stacks without
/// files.
pub static REQUESTS: Shipped = Shipped {
    name: "postgres-ext4",
    help: "shipped trace of block requests: PostgreSQL on ext4",
    params: &TRACE,
    size: None,
    contents: include_bytes!("../../../flashloom/traces/postgres-ext4.csv.zst"),
};

/// Everything that is shipped, in the order of lists.
pub static ALL: [&Shipped; 6] = [
    &RECORDING, &STORES[0], &STORES[1], &STORES[2], &STORES[3], &REQUESTS,
];

/// Workload as the user wrote it, and as [`crate::Workload::parse`] reads it. The scratch files of
/// shipped contents are deleted when this is dropped.
#[derive(Debug)]
pub struct Asked {
    /// Text as the user wrote it.
    pub told: String,
    /// Text for [`crate::Workload::parse`], with paths to scratch files in place of shipped names.
    pub text: String,
    files: Vec<Unpacked>,
    size: Option<Bytes>,
}

/// Shipped contents in a scratch file.
#[derive(Debug)]
struct Unpacked {
    shipped: &'static Shipped,
    file: Scratch,
    /// Whether `unpack` put the shipped name before the path, as the name of a part.
    names: bool,
}

impl Asked {
    /// `workload`, a text of a record or of a message, with shipped names in place of the paths to
    /// their scratch files.
    #[must_use]
    pub fn named(&self, workload: &str) -> String {
        let named = |text: String, one: &Unpacked| {
            let (name, path) = (one.shipped.name, one.file.path().display().to_string());
            let text = match one.names {
                true => text.replace(&format!("{name}={path}"), name),
                false => text,
            };
            text.replace(&path, name)
        };
        // A path may be the beginning of a longer one, so longer paths are replaced first.
        let mut files: Vec<&Unpacked> = self.files.iter().collect();
        files.sort_by_key(|one| std::cmp::Reverse(one.file.path().as_os_str().len()));
        files.into_iter().fold(workload.to_owned(), named)
    }

    /// Unpacks the workload `told`: a preset, a shipped name or a file, with parameters; or several
    /// workloads of files side by side.
    ///
    /// # Errors
    /// If a scratch file cannot be created or written.
    pub fn new(told: &str) -> io::Result<Self> {
        let mut asked = Self {
            told: told.to_owned(),
            text: String::new(),
            files: Vec::new(),
            size: None,
        };
        let Some(parts) = parts(told) else {
            let (text, size) = asked.unpack(told, false)?;
            (asked.text, asked.size) = (text, size.map(Bytes));
            return Ok(asked);
        };
        let (mut texts, mut sizes) = (Vec::new(), Vec::new());
        for Part { name, text } in parts {
            let (text, size) = asked.unpack(text, name.is_none())?;
            texts.push(name.map_or(text.clone(), |name| format!("{name}={text}")));
            sizes.push(size);
        }
        asked.text = texts.join(BETWEEN);
        asked.size = sizes.into_iter().sum::<Option<u64>>().map(Bytes);
        Ok(asked)
    }

    /// Unpacks one workload. Returns its text for the parser, with its shipped name before it if
    /// `names`, and the bytes of the drive that it was recorded for, if it is shipped.
    fn unpack(&mut self, told: &str, names: bool) -> io::Result<(String, Option<u64>)> {
        let (name, params) = told.split_once(':').unwrap_or((told, ""));
        let shipped = ALL.into_iter().find(|shipped| shipped.name == name);
        let Some(shipped) = shipped.filter(|_| !Path::new(told).is_file()) else {
            return Ok((told.to_owned(), None));
        };
        let file =
            unpacked(shipped).map_err(|e| io::Error::other(format!("a temporary file: {e}")))?;
        let colon = if params.is_empty() { "" } else { ":" };
        let called = if names {
            format!("{name}=")
        } else {
            String::new()
        };
        let text = format!("{called}{}{colon}{params}", file.path().display());
        self.files.push(Unpacked {
            shipped,
            file,
            names,
        });
        Ok((text, shipped.size.map(|size| size.0)))
    }

    /// Bytes of the drive that it was recorded for: the sum over its parts. `None` if a part is not
    /// shipped or fits any drive.
    #[must_use]
    pub const fn size(&self) -> Option<Bytes> {
        self.size
    }
}

fn unpacked(shipped: &Shipped) -> io::Result<Scratch> {
    let scratch = Scratch::new()?;
    scratch.file().write_all(shipped.contents)?;
    Ok(scratch)
}

/// `workload` with one more parameter, `name=value`.
#[must_use]
pub fn with(workload: &str, param: &str) -> String {
    let name = workload.split(':').next().unwrap_or_default();
    let bare = name == workload || Path::new(workload).is_file();
    format!("{workload}{}{param}", if bare { ':' } else { ',' })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Name;
    use crate::files::trace::FileTrace;
    use sim::Seed;

    #[test]
    fn parameters_follow_a_colon_and_each_other() {
        assert_eq!(with("rocksdb", "think=no"), "rocksdb:think=no");
        assert_eq!(
            with("a.csv:depth=8", "fit=as-is"),
            "a.csv:depth=8,fit=as-is"
        );
    }

    #[test]
    fn shipped_workload_is_named_as_it_was_given() {
        for told in [
            "sqlite:think=no",
            "sqlite=sqlite",
            "mysqlite=sqlite & sqlite & a=append",
        ] {
            let asked = Asked::new(told).unwrap();
            assert_ne!(asked.text, told);
            assert_eq!(asked.named(&asked.text), told);
        }
    }

    #[test]
    fn the_shipped_trace_can_be_read() {
        let asked = Asked::new("postgres-ext4").unwrap();
        let workload = crate::Workload::parse(&asked.text).unwrap();
        let stream = workload.open(Bytes(4 << 30), Seed(1)).unwrap();
        assert!(stream.filter(Result::is_ok).count() > 200_000);
    }

    #[test]
    fn the_other_recordings_are_whole() {
        for store in &STORES {
            let asked = Asked::new(store.name).unwrap();
            let mut trace = FileTrace::open(&asked.text).unwrap();
            let calls = (&mut trace).filter(Result::is_ok).count();
            assert!(calls > 100_000, "{}: {calls}", store.name);
            assert_eq!(trace.about().notes.len(), 0, "{}", store.name);
        }
    }

    /// The recording names nothing of the machine that recorded it, lost no calls, and holds
    /// RocksDB's write-lifetime hints.
    #[test]
    fn the_shipped_recording_is_whole_and_neutral() {
        let asked = Asked::new("rocksdb").unwrap();
        let mut trace = FileTrace::open(&asked.text).unwrap();
        let mut hints = 0;
        for event in &mut trace {
            hints += u32::from(event.unwrap().step.call.name() == "hint");
        }
        assert!(hints > 100, "{hints}");
        let about = trace.about();
        assert_eq!(
            (about.root.as_slice(), about.notes.len()),
            (b"/srv".as_slice(), 0)
        );
        let names = trace.names();
        let names = (0..names.len() as u32).map(|number| names.bytes(Name(number)));
        for name in names {
            let text = String::from_utf8_lossy(name);
            let known = ["", "/srv", "/usr/bin/db_bench", "db"].contains(&&*text);
            let of_it = ["db/", "db_bench --db=/srv/db "].map(|start| text.starts_with(start));
            assert!(known || of_it.contains(&true), "{text}");
        }
    }
}
