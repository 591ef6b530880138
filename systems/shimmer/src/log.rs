//! The log: makes the core's state durable.
//!
//! Two zones take turns. Records of changes are collected. Once a sync needs them, they become a
//! batch: the data that they refer to are flushed, the batch is appended, and that is flushed, too.
//! **The durable point of a call is the second flush.** When the log has reached its length limit,
//! and after every start, the batch is a snapshot at the start of the other zone.
//!
//! Invariants: a record is collected only after its data were written. A zone of the log is reset
//! only while the other one holds a whole snapshot and all batches since. After a failure that a
//! snapshot cannot repair nothing becomes durable any more.

use crate::Core;
use crate::command::{Command, Data, Failure, FileId};
use crate::config::BLOCK;
use crate::flight::Flight;
use crate::record::{self, Record, Start};
use crate::zones::State;
use std::sync::Arc;

/// Bytes of collected records at which a batch is started without a sync.
const PENDING_MAX: usize = 1 << 20;

/// Stage of the batch in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No batch is in progress.
    Idle,
    /// The data that the batch refers to are being flushed.
    Data(Batch),
    /// The previous zone of the log is being closed.
    Closing(Batch),
    /// The zone that the batch goes to is being reset.
    Emptying(Batch),
    /// The batch is being written.
    Writing(Batch),
    /// The batch is being flushed.
    Forcing,
}

/// Records that become durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    records: Vec<u8>,
    snapshot: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) volume: u64,
    /// Zone with the newest whole snapshot.
    pub(crate) zone: u32,
    pub(crate) epoch: u64,
    /// Number of blocks in this epoch.
    number: u64,
    /// Maximum number of blocks in this epoch; 0 if the next batch must be a snapshot.
    limit: u64,
    pub(crate) pending: Vec<u8>,
    /// Number of the batch that is being collected.
    pub(crate) collecting: u64,
    /// Number of the latest durable batch.
    pub(crate) durable: u64,
    wanted: u64,
    stage: Stage,
    pub(crate) failed: bool,
    /// Whether data were written since the last flush.
    pub(crate) unforced: bool,
}

impl Log {
    /// A log whose last snapshot is in `zone`; the next batch is a snapshot in the other one.
    pub(crate) fn new(volume: u64, zone: u32, epoch: u64) -> Self {
        Self {
            volume,
            zone,
            epoch,
            number: 0,
            limit: 0,
            pending: Vec::new(),
            collecting: 1,
            durable: 0,
            wanted: 0,
            stage: Stage::Idle,
            failed: false,
            unforced: true,
        }
    }

    /// Requests that batches up to `batch` become durable.
    pub(crate) fn want(&mut self, batch: u64) {
        self.wanted = self.wanted.max(batch);
    }

    /// The batch after which all changes so far are durable.
    pub(crate) fn newest(&self) -> u64 {
        if self.pending.is_empty() && self.limit > 0 {
            self.collecting - 1
        } else {
            self.collecting
        }
    }
}

impl Core {
    /// Collects a record; `file` is the file that it changes, if any.
    pub(crate) fn note(&mut self, record: &Record<'_>, file: Option<FileId>) {
        record.encode(&mut self.log.pending);
        let batch = self.log.collecting;
        if let Some(file) = file.and_then(|id| self.files.get_mut(&id)) {
            file.batch = batch;
        }
        if self.log.pending.len() >= PENDING_MAX {
            self.log.want(batch);
        }
    }

    /// Starts a batch, if one is requested and none is in progress.
    pub(crate) fn step_log(&mut self) {
        let log = &mut self.log;
        if log.stage != Stage::Idle || log.wanted < log.collecting || log.failed {
            return;
        }
        let mut records = std::mem::take(&mut log.pending);
        log.collecting += 1;
        let snapshot = log.number + record::blocks(records.len()) as u64 > log.limit;
        if snapshot {
            records.clear();
            self.snapshot(&mut records);
        }
        let batch = Batch { records, snapshot };
        if std::mem::take(&mut self.log.unforced) {
            self.log.stage = Stage::Data(batch);
            self.issue(Flight::Force, Command::Flush);
        } else {
            self.send_batch(batch);
        }
    }

    /// Encodes the whole state as records.
    fn snapshot(&self, out: &mut Vec<u8>) {
        let id = FileId(self.next_file);
        Record::Next { id }.encode(out);
        for (zone, row) in self.zones.data() {
            if let Some(placement) = row.placement {
                Record::Take { zone, placement }.encode(out);
            }
        }
        for (&id, file) in &self.files {
            let Some(path) = &file.path else { continue };
            let placement = file.placement;
            Record::Create {
                id,
                placement,
                path,
            }
            .encode(out);
            if !file.tag.is_empty() {
                let tag = &file.tag;
                Record::Tag { id, tag }.encode(out);
            }
            let mut left = file.stored;
            for &run in file.runs.iter() {
                left -= left.min(u64::from(run.blocks) * BLOCK);
                let size = file.stored - left;
                Record::Put { id, run, size }.encode(out);
            }
        }
    }

    fn send_batch(&mut self, batch: Batch) {
        if !batch.snapshot {
            return self.write_batch(batch);
        }
        let (old, target) = (self.log.zone, self.log.zone ^ 1);
        if self.zones.get(old).state == State::Open {
            self.log.stage = Stage::Closing(batch);
            return self.issue(Flight::Log { zone: old }, Command::Close { zone: old });
        }
        let blocks = record::blocks(batch.records.len()) as u64;
        let row = self.zones.get(target);
        if blocks > u64::from(row.capacity) || row.state == State::Failed {
            return self.log_fails();
        }
        if row.written == 0 {
            return self.begin_epoch(batch);
        }
        self.log.stage = Stage::Emptying(batch);
        self.issue(
            Flight::Log { zone: target },
            Command::Reset { zone: target },
        );
    }

    /// Writes a snapshot to the other zone, which is empty, and starts a new epoch.
    fn begin_epoch(&mut self, batch: Batch) {
        let blocks = record::blocks(batch.records.len()) as u64;
        let log = &mut self.log;
        log.zone ^= 1;
        log.epoch += 1;
        log.number = 0;
        let capacity = u64::from(self.zones.get(log.zone).capacity);
        log.limit = u64::from(self.options.log_blocks_max)
            .max(2 * blocks)
            .min(capacity);
        self.write_batch(batch);
    }

    fn write_batch(&mut self, batch: Batch) {
        let log = &mut self.log;
        let (zone, number) = (log.zone, log.number);
        let start = Start {
            epoch: log.epoch,
            number,
            volume: log.volume,
            snapshot: batch.snapshot,
        };
        let bytes = record::encode(&batch.records, start);
        let blocks = (bytes.len() as u64 / BLOCK) as u32;
        log.number += u64::from(blocks);
        log.stage = Stage::Writing(batch);
        let row = self.zones.get_mut(zone);
        let at = u64::from(row.written) * BLOCK;
        // The log's zones bypass `Zones::set`; their rows only track the write pointer.
        row.written += blocks;
        row.state = State::Open;
        let len = bytes.len();
        let data = Data {
            buffer: Arc::new(bytes),
            from: 0,
            len,
        };
        self.issue(Flight::Log { zone }, Command::Write { zone, at, data });
    }

    /// Handles the end of a flush.
    pub(crate) fn forced(&mut self, result: Result<(), Failure>) {
        let stage = std::mem::replace(&mut self.log.stage, Stage::Idle);
        match (stage, result) {
            (Stage::Data(batch), Ok(())) => self.send_batch(batch),
            (Stage::Forcing, Ok(())) => {
                self.log.durable = self.log.collecting - 1;
                self.look = true;
            }
            _ => self.log_fails(),
        }
    }

    /// Handles the end of a command to a zone of the log.
    pub(crate) fn logged(&mut self, zone: u32, result: Result<(), Failure>) {
        let stage = std::mem::replace(&mut self.log.stage, Stage::Idle);
        let row = self.zones.get_mut(zone);
        if row.written == row.capacity {
            row.state = State::Full;
        }
        match (stage, result) {
            (Stage::Closing(batch), _) => {
                row.state = State::Closed;
                self.send_batch(batch);
            }
            (Stage::Emptying(batch), Ok(())) => {
                (row.written, row.state) = (0, State::Empty);
                self.begin_epoch(batch);
            }
            (Stage::Writing(_), Ok(())) => {
                self.log.stage = Stage::Forcing;
                self.issue(Flight::Force, Command::Flush);
            }
            (Stage::Writing(batch), Err(_)) if !batch.snapshot => {
                // The changes of the failed batch are in memory, too: a snapshot may save them.
                row.state = State::Failed;
                let mut records = Vec::new();
                self.snapshot(&mut records);
                self.log.pending.clear();
                self.log.unforced = false;
                self.log.stage = Stage::Data(Batch {
                    records,
                    snapshot: true,
                });
                self.issue(Flight::Force, Command::Flush);
            }
            _ => self.log_fails(),
        }
    }

    fn log_fails(&mut self) {
        self.log.stage = Stage::Idle;
        self.log.failed = true;
    }
}
