//! The database of past runs.
//!
//! Invariants: of the runs appended together either all are stored as a whole, or none. A record of
//! any kind is stored as its JSON document; the columns beside it are copies for look-ups. A file
//! of another program is never written to.

use crate::json::{self, Document, ParseError};
use crate::record::Run;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior,
    params,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Marks an SQLite file as ours: `FLSH` in ASCII.
const APPLICATION: i64 = 0x464c_5348;
/// The layout version that this code reads and writes.
const VERSION: i64 = 1;
/// Longest wait of a writer for another one.
const PATIENCE: Duration = Duration::from_secs(20);

const LAYOUT: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    commit_id TEXT NOT NULL,
    plan_hash TEXT NOT NULL,
    seed INTEGER NOT NULL,
    label TEXT NOT NULL,
    command TEXT NOT NULL,
    started_unix_s INTEGER,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    ops_per_s REAL NOT NULL,
    p99_ns REAL NOT NULL,
    waf_device REAL NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX runs_stack ON runs (stack);
CREATE INDEX runs_workload ON runs (workload);
CREATE INDEX runs_label ON runs (label);
CREATE INDEX runs_plan ON runs (plan_hash);
";

const ENTRY: &str = "id, commit_id, plan_hash, seed, label, command, started_unix_s, \
                     stack, workload, ops_per_s, p99_ns, waf_device, \
                     iif(json_valid(record), record ->> 'precondition', NULL) AS precondition, \
                     iif(json_valid(record), record ->> 'schema', NULL) AS schema";

/// A record that the database can store as a run.
pub trait Kept: Document {
    /// The columns that list this record.
    fn line(&self) -> Line<'_>;
}

/// The columns that list a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The stack or memory design that ran.
    pub stack: &'a str,
    /// Name of the workload.
    pub workload: &'a str,
    /// Requests completed per second, or instructions per second for runs of memory.
    pub ops_per_s: f64,
    /// 99th percentile of latency, ns: of requests, or of accesses to memory.
    pub p99_ns: f64,
    /// Write amplification of the device; 0 if there is none.
    pub waf_device: f64,
}

impl Kept for Run {
    fn line(&self) -> Line<'_> {
        Line {
            stack: &self.stack,
            workload: &self.workload,
            ops_per_s: self.ops_per_s,
            p99_ns: self.latency_ns.all.p99 as f64,
            waf_device: self.waf.device,
        }
    }
}

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is damaged, or no database at all.
    #[error("{path} is damaged or not a history of runs: {reason}", path = .path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The fault that SQLite reports.
        reason: String,
    },
    /// The file is a database of another program.
    #[error("{path} is a database of another program, not a history of runs", path = .0.display())]
    Foreign(PathBuf),
    /// The file is an empty database.
    #[error("{path}: expected a history of runs, found nothing in it", path = .0.display())]
    Empty(PathBuf),
    /// The file was written by a newer version of this program.
    #[error(
        "{path} has layout version {found}; this program knows versions up to {VERSION}, use a newer one",
        path = .path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Layout version of the file.
        found: i64,
    },
    /// No run has that number.
    #[error("{path} has no run {id}", path = .path.display())]
    NoSuchRun {
        /// Path of the file.
        path: PathBuf,
        /// The number that was requested.
        id: i64,
    },
    /// The record of a run cannot be parsed.
    #[error("run {id} of {path}: {reason}", path = .path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Number of the run.
        id: i64,
        /// The fault in the record's document.
        reason: ParseError,
    },
    /// Another process keeps the database locked.
    #[error("{path} stays locked by another process", path = .0.display())]
    Locked(PathBuf),
    /// The file cannot be opened, read or written.
    #[error("{path}: {reason}", path = .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The fault that SQLite reports.
        reason: String,
    },
}

/// Facts about a run beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMeta {
    /// Commit or version of the program, such as `v1.2.3`.
    pub commit: String,
    /// Hash over everything that determines the result.
    pub plan_hash: String,
    /// The seed of the run.
    pub seed: u64,
    /// Name that the user gave the run; may be empty.
    pub label: String,
    /// The command line that started it.
    pub command: String,
    /// Start time in seconds since 1970. The caller passes it in: this crate has no clock.
    pub started_unix_s: Option<i64>,
}

/// A run as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Number of the run in the database.
    pub id: i64,
    /// Facts beside the record.
    pub meta: RunMeta,
    /// Schema of the run's record; empty if the record cannot be read.
    pub schema: String,
    /// The stack or memory design that ran.
    pub stack: String,
    /// Name of the workload.
    pub workload: String,
    /// Precondition of the drive; empty if the record cannot be read.
    pub precondition: String,
    /// The same as [`Line::ops_per_s`].
    pub ops_per_s: f64,
    /// The same as [`Line::p99_ns`].
    pub p99_ns: f64,
    /// The same as [`Line::waf_device`].
    pub waf_device: f64,
}

/// A run with its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<R> {
    /// Number of the run in the database.
    pub id: i64,
    /// Facts beside the record.
    pub meta: RunMeta,
    /// The record as it was appended.
    pub run: R,
}

/// A filter of runs: every field that is set must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The stack as the user wrote it.
    pub stack: Option<String>,
    /// The workload as the user wrote it.
    pub workload: Option<String>,
    /// Name that the user gave the run.
    pub label: Option<String>,
    /// Hash over everything that determines the result.
    pub plan_hash: Option<String>,
}

/// An open database of runs.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database at `path`, or creates it.
    ///
    /// # Errors
    /// If the file is damaged, foreign, newer than this program or not accessible.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = connect(path, OpenFlags::default())?;
        if !is_current(&connection, path)? {
            lay_out(&mut connection, path)?;
        }
        let path = path.to_owned();
        Ok(Self { connection, path })
    }

    /// Opens the database at `path` for queries; changes nothing and creates no file.
    ///
    /// # Errors
    /// If the file is missing or empty, or as [`Store::open`].
    pub fn existing(path: &Path) -> Result<Self, StoreError> {
        // Opened for writing nevertheless: SQLite must be able to roll back a transaction of a
        // process that died.
        let flags = OpenFlags::default().difference(OpenFlags::SQLITE_OPEN_CREATE);
        let connection = connect(path, flags)?;
        let looks = connection.pragma_update(None, "query_only", true);
        looks.map_err(|e| fault(path, &e))?;
        let found = is_current(&connection, path)?;
        let path = path.to_owned();
        match found {
            true => Ok(Self { connection, path }),
            false => Err(StoreError::Empty(path)),
        }
    }

    /// Adds all `runs`, or none if one of them cannot be added. Waits while another process writes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append_all<'a, R: Kept + 'a>(
        &self,
        runs: impl IntoIterator<Item = (&'a R, RunMeta)>,
    ) -> Result<(), StoreError> {
        let fail = |e| self.fault(&e);
        let behaviour = TransactionBehavior::Immediate;
        let all = Transaction::new_unchecked(&self.connection, behaviour).map_err(fail)?;
        for (run, meta) in runs {
            self.append(run, &meta)?;
        }
        all.commit().map_err(fail)
    }

    /// Adds `run` and returns its number. Waits while another process writes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append<R: Kept>(&self, run: &R, meta: &RunMeta) -> Result<i64, StoreError> {
        let insert = "INSERT INTO runs (commit_id, plan_hash, seed, label, command, started_unix_s, \
                      stack, workload, ops_per_s, p99_ns, waf_device, record) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let line = run.line();
        let values = params![
            meta.commit,
            meta.plan_hash,
            // SQLite has no unsigned integers: the same bits, read back below.
            meta.seed.cast_signed(),
            meta.label,
            meta.command,
            meta.started_unix_s,
            line.stack,
            line.workload,
            line.ops_per_s,
            line.p99_ns,
            line.waf_device,
            json::to_json(run),
        ];
        self.connection
            .execute(insert, values)
            .map_err(|e| self.fault(&e))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The run with number `id` and its record.
    ///
    /// # Errors
    /// If no run has the number, or its record cannot be read or is of another kind.
    pub fn get<R: Kept>(&self, id: i64) -> Result<Stored<R>, StoreError> {
        let path = || self.path.clone();
        self.one(&format!("WHERE id = {id}"))?
            .ok_or_else(|| StoreError::NoSuchRun { path: path(), id })
    }

    /// The newest run of this kind; `None` if there is none. A record of unreadable kind counts as
    /// one.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn latest<R: Kept>(&self) -> Result<Option<Stored<R>>, StoreError> {
        let schema = R::SCHEMA;
        self.one(&format!(
            "WHERE coalesce(schema, '{schema}') = '{schema}' ORDER BY id DESC LIMIT 1"
        ))
    }

    /// The list entry of the run with number `id`.
    ///
    /// # Errors
    /// If no run has the number.
    pub fn entry(&self, id: i64) -> Result<Entry, StoreError> {
        let select = format!("SELECT {ENTRY} FROM runs WHERE id = ?1");
        let found = self.connection.query_row(&select, [id], entry).optional();
        let path = || self.path.clone();
        found
            .map_err(|e| self.fault(&e))?
            .ok_or_else(|| StoreError::NoSuchRun { path: path(), id })
    }

    /// At most `limit` runs that match `filter`, the newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self, filter: &Filter, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let select = format!(
            "SELECT {ENTRY} FROM runs WHERE (?1 IS NULL OR stack = ?1) \
             AND (?2 IS NULL OR workload = ?2) AND (?3 IS NULL OR label = ?3) \
             AND (?4 IS NULL OR plan_hash = ?4) ORDER BY id DESC LIMIT ?5"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = params![
            filter.stack,
            filter.workload,
            filter.label,
            filter.plan_hash,
            limit
        ];
        let read = || {
            let mut statement = self.connection.prepare(&select)?;
            statement
                .query_map(values, entry)?
                .collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|e| self.fault(&e))
    }

    fn one<R: Kept>(&self, which: &str) -> Result<Option<Stored<R>>, StoreError> {
        let select = format!("SELECT {ENTRY}, record FROM runs {which}");
        let read = |row: &Row<'_>| Ok((entry(row)?, row.get::<_, String>("record")?));
        let found = self.connection.query_row(&select, [], read).optional();
        let Some((entry, record)) = found.map_err(|e| self.fault(&e))? else {
            return Ok(None);
        };
        let run = json::parse(&record).map_err(|reason| StoreError::Record {
            path: self.path.clone(),
            id: entry.id,
            reason,
        })?;
        Ok(Some(Stored {
            id: entry.id,
            meta: entry.meta,
            run,
        }))
    }

    fn fault(&self, error: &rusqlite::Error) -> StoreError {
        fault(&self.path, error)
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: row.get("id")?,
        meta: RunMeta {
            commit: row.get("commit_id")?,
            plan_hash: row.get("plan_hash")?,
            seed: row.get::<_, i64>("seed")?.cast_unsigned(),
            label: row.get("label")?,
            command: row.get("command")?,
            started_unix_s: row.get("started_unix_s")?,
        },
        schema: row.get::<_, Option<String>>("schema")?.unwrap_or_default(),
        stack: row.get("stack")?,
        workload: row.get("workload")?,
        precondition: row
            .get::<_, Option<String>>("precondition")?
            .unwrap_or_default(),
        ops_per_s: row.get("ops_per_s")?,
        p99_ns: row.get("p99_ns")?,
        waf_device: row.get("waf_device")?,
    })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    };
    open().map_err(|e| fault(path, &e))
}

/// Whether the file has the current layout; an empty file has none, and a foreign one is an error.
fn is_current(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    // One query, so that all three values are of one moment while another process creates the file.
    let marks = "SELECT (SELECT count(*) FROM sqlite_schema), application_id, user_version \
                 FROM pragma_application_id, pragma_user_version";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = connection.query_row(marks, [], read);
    let (tables, application, version) = found.map_err(|e| fault(path, &e))?;
    match (tables, application, version) {
        (0, 0, 0) => Ok(false),
        (_, APPLICATION, VERSION) => Ok(true),
        (_, APPLICATION, found) if found > VERSION => {
            let path = path.to_owned();
            Err(StoreError::Newer { path, found })
        }
        _ => Err(StoreError::Foreign(path.to_owned())),
    }
}

fn lay_out(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fail = |e| fault(path, &e);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(fail)?;
    // Another process may have created the layout while this one waited for the lock.
    if is_current(&transaction, path)? {
        return Ok(());
    }
    let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};");
    transaction
        .execute_batch(&format!("{LAYOUT}{marks}"))
        .map_err(fail)?;
    transaction.commit().map_err(fail)
}

fn fault(path: &Path, error: &rusqlite::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path, reason }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        _ => StoreError::Io { path, reason },
    }
}
