//! Redo log: two files in a circle, in blocks, with group commit.
//!
//! Invariants:
//! - A write begins with the block that the last write left incomplete.
//! - One thread writes for all that wait; its write includes everything logged until then.
//! - From the checkpoint to the end the log never exceeds the room in the files.

//= mysql 14.6
//= innodb 4
use super::schema::PAGE;
use crate::files::ThreadId;

/// Bytes of a block, of its header and of its checksum.
//= innodb 4
pub(super) const BLOCK: u64 = 512;
const BLOCK_HEAD: u64 = 12;
const BLOCK_TAIL: u64 = 4;
/// Bytes at the start of each file that hold no log. In the first file they include the two blocks
/// that checkpoints alternate between.
//= innodb 4
const HEADER: u64 = 4 * BLOCK;
pub(super) const CHECKPOINTS: [u64; 2] = [BLOCK, 3 * BLOCK];
/// Unit to which writes of the log are extended, so that no block has to be read first
/// (`innodb_log_write_ahead_size`).
//= mysql 14.15
const AHEAD: u64 = 8_192;
/// Upper bound on the log of one step of a transaction, in bytes.
const STEP_MAX: u64 = 16_384;

/// Limits on the log beyond the changes that are durable in their pages.
//= innodb 4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of both files.
    pub(super) room: u64,
    /// Capacity that adaptive flushing calculates with, and the age of a page at which it flushes
    /// as much as it can.
    pub(super) capacity: u64,
    pub(super) flush: u64,
    /// Age of the oldest dirty page at which changes wait.
    pub(super) flush_now: u64,
    /// Age of the checkpoint at which the next one is made, and at which changes wait.
    pub(super) checkpoint: u64,
    pub(super) checkpoint_now: u64,
}

impl Limits {
    /// Limits for two files of `file` bytes.
    pub(super) const fn new(file: u64) -> Self {
        let room = 2 * (file / PAGE * PAGE - HEADER);
        let capacity = room - room / 10;
        // Room for the records of ten threads, and a reserve.
        let free = 10 * 4 * PAGE + 8 * PAGE;
        let margin = capacity - free;
        let margin = margin - margin / 10;
        Self {
            room,
            capacity,
            flush: margin - margin / 8,
            flush_now: margin - margin / 16,
            checkpoint: margin - margin / 32,
            checkpoint_now: margin,
        }
    }

    /// Whether the files have room for one more step of each of `threads` after changes begin to
    /// wait.
    pub(super) const fn allow(&self, threads: u32) -> bool {
        self.checkpoint_now + threads as u64 * STEP_MAX < self.room
    }
}

/// Action of a thread that needs the log written or durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Write for all waiters; [`Stream::ended`] must follow.
    Lead,
    Wait,
}

/// Log that one thread at a time writes for all waiters.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// End of the log in memory, in its file, and on durable media.
    pub(super) end: u64,
    pub(super) written: u64,
    pub(super) durable: u64,
    busy: bool,
    waiting: Vec<ThreadId>,
}

impl Stream {
    /// Requests that the log is durable up to `to`, or with `written` only in its file.
    pub(super) fn want(&mut self, thread: ThreadId, to: u64, written: bool) -> Turn {
        let is = if written { self.written } else { self.durable };
        if is >= to {
            return Turn::Nothing;
        }
        if std::mem::replace(&mut self.busy, true) {
            self.waiting.push(thread);
            return Turn::Wait;
        }
        Turn::Lead
    }

    /// Ends a write up to `to`, synced if `durable`. Returns the waiters, which have to call
    /// [`Stream::want`] again.
    pub(super) fn ended(&mut self, to: u64, durable: bool) -> Vec<ThreadId> {
        self.written = to;
        if durable {
            self.durable = to;
        }
        self.busy = false;
        std::mem::take(&mut self.waiting)
    }
}

/// Write to the log: file, offset and length.
pub(super) type Piece = (usize, u64, u64);

/// State of the redo log.
#[derive(Clone, Debug)]
pub(super) struct Redo {
    pub(super) stream: Stream,
    pub(super) limits: Limits,
    /// Log position of the last checkpoint: all changes before it are durable in their pages; then
    /// the number of checkpoints.
    pub(super) checkpoint: u64,
    pub(super) checkpoints: u64,
    /// Log position up to which the files have been written ahead.
    ahead: u64,
}

impl Redo {
    /// A log of two empty files of `file` bytes.
    pub(super) fn new(file: u64) -> Self {
        let start = BLOCK_HEAD;
        Self {
            stream: Stream {
                end: start,
                written: start,
                durable: start,
                ..Stream::default()
            },
            limits: Limits::new(file),
            checkpoint: start,
            checkpoints: 0,
            ahead: 0,
        }
    }

    /// Bytes of log in one file.
    const fn part(&self) -> u64 {
        self.limits.room / 2
    }

    /// Bytes of one file, with its header.
    pub(super) const fn file(&self) -> u64 {
        self.part() + HEADER
    }

    /// Appends a record of `bytes`; returns its start and end.
    pub(super) fn append(&mut self, bytes: u64) -> (u64, u64) {
        let start = self.stream.end;
        let mut left = bytes;
        while left > 0 {
            let room = BLOCK - BLOCK_TAIL - self.stream.end % BLOCK;
            let step = left.min(room);
            self.stream.end += step;
            left -= step;
            if step == room {
                self.stream.end += BLOCK_TAIL + BLOCK_HEAD;
            }
        }
        let beyond = self.stream.end.next_multiple_of(BLOCK) - self.checkpoint;
        assert!(
            beyond <= self.limits.room,
            "the log overruns its checkpoint"
        );
        (start, self.stream.end)
    }

    /// Writes that bring the files up to the end of the log.
    pub(super) fn pieces(&mut self) -> Vec<Piece> {
        let mut at = self.stream.written / BLOCK * BLOCK;
        let mut end = self.stream.end.next_multiple_of(BLOCK);
        let mut pieces = Vec::new();
        // A unit that has been written ahead is not extended again.
        let ahead = self.ahead_of(end);
        if end > self.ahead {
            (self.ahead, end) = (ahead, ahead);
        }
        while at < end {
            let (file, place) = self.place(at);
            let len = (end - at).min(self.file() - place);
            pieces.push((file, place, len));
            at += len;
        }
        pieces
    }

    /// End of the write-ahead unit that contains the block before `end`.
    const fn ahead_of(&self, end: u64) -> u64 {
        let (_, place) = self.place(end - BLOCK);
        let next = (place / AHEAD + 1) * AHEAD;
        let file = self.file();
        let next = if next < file { next } else { file };
        end - BLOCK + (next - place)
    }

    /// File and offset of the log position `at`.
    const fn place(&self, at: u64) -> (usize, u64) {
        let around = at % self.limits.room;
        let file = (around / self.part()) as usize;
        (file, HEADER + around % self.part())
    }

    /// Offset in the first file of the next checkpoint's block.
    pub(super) const fn checkpoint_place(&self) -> u64 {
        CHECKPOINTS[(self.checkpoints % 2) as usize]
    }

    /// Whether changes must wait; `oldest` is the log position of the oldest dirty page.
    pub(super) fn is_nearly_full(&self, oldest: Option<u64>) -> bool {
        let age = self.stream.end - self.checkpoint;
        age > self.limits.checkpoint_now || self.is_too_old(oldest)
    }

    /// Whether changes must wait for the oldest dirty page to be written.
    pub(super) fn is_too_old(&self, oldest: Option<u64>) -> bool {
        oldest.is_some_and(|oldest| self.stream.end - oldest > self.limits.flush_now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_begins_with_the_last_incomplete_block() {
        let mut redo = Redo::new(4 << 20);
        assert_eq!(redo.append(100), (12, 112));
        assert_eq!(redo.pieces(), [(0, 2_048, 8_192 - 2_048)], "written ahead");
        redo.stream.ended(112, true);
        assert_eq!(redo.append(496), (112, 624));
        assert_eq!(redo.pieces(), [(0, 2_048, 1_024)]);
        redo.stream.ended(624, true);
        assert_eq!(redo.append(512 - 4 - 112).1, 1_024 + 12);
        assert_eq!(redo.pieces(), [(0, 2_560, 1_024)]);
    }

    #[test]
    fn log_wraps_around_its_two_files() {
        let mut redo = Redo::new(4 << 20);
        let part = (4 << 20) - 2_048;
        let mut around = 0;
        for _ in 0..100_000 {
            let before = redo.stream.written / BLOCK * BLOCK;
            let (_, end) = redo.append(333);
            let mut at = before;
            for (file, place, len) in redo.pieces() {
                assert!(place >= 2_048 && place + len <= 4 << 20, "{place} {len}");
                assert_eq!((file as u64, place - 2_048), (at / part % 2, at % part));
                assert!(place.is_multiple_of(512) && len.is_multiple_of(512));
                at += len;
            }
            assert!(at >= end && at < end + AHEAD);
            around = around.max(at / (2 * part));
            redo.stream.ended(end, true);
            redo.checkpoint = end;
        }
        assert!(around >= 4, "{around}");
    }

    #[test]
    #[should_panic(expected = "overruns")]
    fn append_beyond_the_files_panics() {
        let mut redo = Redo::new(4 << 20);
        (0..9_000).for_each(|_| _ = redo.append(1_000));
    }

    #[test]
    fn one_thread_writes_for_all_waiters() {
        let mut stream = Stream {
            end: 30,
            ..Stream::default()
        };
        assert_eq!(stream.want(ThreadId(0), 10, false), Turn::Lead);
        assert_eq!(stream.want(ThreadId(1), 20, false), Turn::Wait);
        assert_eq!(stream.want(ThreadId(2), 40, false), Turn::Wait);
        assert_eq!(stream.ended(30, true), [ThreadId(1), ThreadId(2)]);
        assert_eq!(stream.want(ThreadId(1), 20, false), Turn::Nothing);
        assert_eq!(stream.want(ThreadId(2), 40, true), Turn::Lead);
    }
}
