//! Jobs of the flusher and of the compaction thread.

use super::{Effect, Lsm, open};
use crate::files::ycsb::Lifetimes;
use crate::files::ycsb::job::{Job, Todo};
use crate::files::ycsb::tables::{FOOTER, Shape, Table};
use crate::files::{Call, Hint, OpenFlags, Turn};

/// Bytes of one write of a table (`writable_file_max_buffer_size`).
const WRITE: u64 = 1 << 20;
/// Bytes of one read of a compaction (`compaction_readahead_size`).
const READ: u64 = 2 << 20;
/// Bytes of the manifest for a table that is added or removed.
const EDIT: u64 = 100;

impl Lsm {
    pub(super) fn helper_turn(&mut self, which: usize) -> Turn {
        let thread = self.helper(which);
        loop {
            if self.clients.are_gone() {
                return self.clients.parking.done(thread);
            }
            match self.jobs[which].next() {
                Some(Todo::Call(call)) => return Turn::now(call),
                Some(Todo::Effect(effect)) => self.apply(effect),
                None => match self.job(which) {
                    Some(job) => self.jobs[which] = job,
                    None => return self.clients.parking.park(thread),
                },
            }
        }
    }

    fn job(&mut self, which: usize) -> Option<Job<Effect>> {
        match which {
            _ if !self.ready => None,
            0 => self.flush(),
            _ => self.delete().or_else(|| self.merge()),
        }
    }

    /// Job that writes the full memtable as a table of level 0.
    fn flush(&mut self) -> Option<Job<Effect>> {
        if self.flushing {
            return None;
        }
        let (keys, log) = self.full.as_ref()?;
        let (keys, log) = (keys.iter().copied().collect(), *log);
        self.flushing = true;
        let number = self.make(keys);
        let mut job = Job::default();
        self.write_table(&mut job, number, 0);
        self.edit(&mut job, 1);
        job.effect(Effect::Flushed(number));
        job.call(Call::Close { fd: log.fd });
        job.effect(Effect::Free(log.fd));
        job.call(Call::Unlink { path: log.path });
        Some(job)
    }

    /// Adds the steps that write a table, make it durable and open it for reading.
    fn write_table(&self, job: &mut Job<Effect>, number: u32, level: usize) {
        let table = &self.tables.all[&number];
        let fd = table.fd;
        job.call(open(
            fd,
            table.path,
            OpenFlags::WRITE.and(OpenFlags::CREATE),
        ));
        let base = self.tables.base_level();
        // With FIFO compaction RocksDB gives its tables no hint.
        if self.tables.keep.is_none() {
            self.hint(job, fd, life(self.lifetimes, level, base));
        }
        job.chunks(0, table.bytes, WRITE, |_, len| Call::Write { fd, len });
        job.call(Call::Fsync { fd });
        job.call(Call::Close { fd });
        open_table(job, table, self.tables.shape);
    }

    /// Adds the steps that record the addition or removal of `tables` in the manifest.
    fn edit(&self, job: &mut Job<Effect>, tables: usize) {
        let fd = self.manifest;
        let len = tables as u64 * EDIT;
        job.call(Call::Write { fd, len });
        job.call(Call::Fsync { fd });
    }

    /// Job that merges tables into the next level. Tables that overlap neither that level nor each
    /// other are moved without being read (`Compaction::IsTrivialMove`). With FIFO compaction the
    /// oldest tables are dropped.
    fn merge(&mut self) -> Option<Job<Effect>> {
        let compaction = self.tables.compaction()?;
        let mut job = Job::default();
        if self.tables.keep.is_some() {
            self.edit(&mut job, compaction.inputs.len());
            job.effect(Effect::Compacted(compaction, Vec::new()));
            return Some(job);
        }
        if compaction.below.is_empty() && self.tables.are_apart(&compaction.inputs) {
            let outputs = compaction.inputs.clone();
            self.edit(&mut job, 2 * outputs.len());
            job.effect(Effect::Compacted(compaction, outputs));
            return Some(job);
        }
        let mut inputs = compaction.inputs.clone();
        inputs.extend(&compaction.below);
        let mut reads = Job::default();
        for table in &inputs {
            let Table { fd, bytes, .. } = self.tables.all[table];
            reads.chunks(0, bytes, READ, |at, len| Call::Pread { fd, at, len });
        }
        let keys = self.tables.merged(&inputs);
        let mut writes = Job::default();
        let mut outputs = Vec::new();
        for keys in keys.chunks(self.tables.shape.keys_per_table()) {
            let number = self.make(keys.to_vec());
            self.write_table(&mut writes, number, compaction.to);
            outputs.push(number);
        }
        job.interleave(reads, writes);
        self.edit(&mut job, inputs.len() + outputs.len());
        job.effect(Effect::Compacted(compaction, outputs));
        Some(job)
    }

    /// Job that deletes an obsolete table without readers.
    fn delete(&mut self) -> Option<Job<Effect>> {
        let Table { fd, path, .. } = self.tables.take_obsolete()?;
        let mut job = Job::default();
        job.call(Call::Close { fd });
        job.effect(Effect::Free(fd));
        job.call(Call::Unlink { path });
        Some(job)
    }
}

/// Lifetime hint of tables of `level`, where `base` is the first level below 0 in use: RocksDB's
/// own map (`CalculateSSTWriteHint`), or that of its users, who describe trees of six levels of
/// which `base` is the first.
//= rocksdb-hints 1
//= rocksdb-hints 2
const fn life(lifetimes: Lifetimes, level: usize, base: usize) -> Hint {
    let depth = level.saturating_sub(base);
    let (medium, long) = match lifetimes {
        Lifetimes::Native | Lifetimes::Unsaid => (0, 1),
        Lifetimes::Tuned => (2, 3),
    };
    match depth {
        depth if depth <= medium => Hint::Medium,
        depth if depth <= long => Hint::Long,
        _ => Hint::Extreme,
    }
}

/// Adds the steps that open a table for reading, and read its footer and the metadata before it.
pub(super) fn open_table(job: &mut Job<Effect>, table: &Table, shape: Shape) {
    let fd = table.fd;
    job.call(open(fd, table.path, OpenFlags::READ));
    let meta = shape.meta(table.keys.len());
    let at = table.bytes - FOOTER;
    job.call(Call::Pread {
        fd,
        at,
        len: FOOTER,
    });
    let (at, len) = (table.bytes - meta, meta - FOOTER);
    job.call(Call::Pread { fd, at, len });
}
