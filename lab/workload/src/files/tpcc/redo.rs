//! The log: two files in a circle, in blocks; and who waits for it.
//!
//! Invariants:
//! - Writes go on where the last one ended, with the block that it began.
//! - One at a time writes, for all who wait; it takes with it what the others wrote until
//!   then.
//! - From the checkpoint to the end the log has no more bytes than the files have room for.

//= mysql 14.6
//= innodb 4
use super::schema::PAGE;
use crate::files::ThreadId;

/// Bytes of a block, and of its header and its checksum.
//= innodb 4
pub(super) const BLOCK: u64 = 512;
const BLOCK_HEAD: u64 = 12;
const BLOCK_TAIL: u64 = 4;
/// Bytes at the start of each file that are no log; in those of the first file are two
/// blocks in which checkpoints take turns.
//= innodb 4
const HEADER: u64 = 4 * BLOCK;
pub(super) const CHECKPOINTS: [u64; 2] = [BLOCK, 3 * BLOCK];
/// What is written of a part of a file that is begun, so that nothing has to be read first
/// (`innodb_log_write_ahead_size`).
//= mysql 14.15
const AHEAD: u64 = 8_192;
/// Bytes that a step of a transaction writes at most.
const STEP_MAX: u64 = 16_384;

/// How far the log may go beyond what is durable in its place.
//= innodb 4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of both files.
    pub(super) room: u64,
    /// What adaptive flushing counts with: most bytes, and the age of a page at which it
    /// flushes all it can.
    pub(super) capacity: u64,
    pub(super) flush: u64,
    /// The age of a page at which changes wait for it.
    pub(super) flush_now: u64,
    /// The age of the checkpoint at which one is made, and at which changes wait for it.
    pub(super) checkpoint: u64,
    pub(super) checkpoint_now: u64,
}

impl Limits {
    /// Of two files of `file` bytes.
    pub(super) const fn new(file: u64) -> Self {
        let room = 2 * (file / PAGE * PAGE - HEADER);
        let capacity = room - room / 10;
        // Room for ten threads, and some more.
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

    /// Whether so many threads can each end a step after the last moment.
    pub(super) const fn allow(&self, threads: u32) -> bool {
        self.checkpoint_now + threads as u64 * STEP_MAX < self.room
    }
}

/// What one who wants a log durable has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Make it so, for all who wait; it is told of by [`Stream::ended`].
    Lead,
    Wait,
}

/// A file that is written in order, by one at a time for all who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Where it ends in memory, in its file, and on what lasts.
    pub(super) end: u64,
    pub(super) written: u64,
    pub(super) durable: u64,
    busy: bool,
    waiting: Vec<ThreadId>,
}

impl Stream {
    /// `thread` wants it to be durable up to `to`, or with `written` only that it is written.
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

    /// It is written up to `to`, and is durable if `durable`. Those who wait are to ask again.
    pub(super) fn ended(&mut self, to: u64, durable: bool) -> Vec<ThreadId> {
        self.written = to;
        if durable {
            self.durable = to;
        }
        self.busy = false;
        std::mem::take(&mut self.waiting)
    }
}

/// A write to the log: file, place and length.
pub(super) type Piece = (usize, u64, u64);

/// The redo log.
#[derive(Clone, Debug)]
pub(super) struct Redo {
    pub(super) stream: Stream,
    pub(super) limits: Limits,
    /// What is before it is durable where it belongs; how often that was said.
    pub(super) checkpoint: u64,
    pub(super) checkpoints: u64,
    /// Up to where the files have been written ahead.
    ahead: u64,
}

impl Redo {
    /// Two files of `file` bytes, which are empty.
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

    /// Bytes of a file that are log.
    const fn part(&self) -> u64 {
        self.limits.room / 2
    }

    /// Bytes of a file.
    pub(super) const fn file(&self) -> u64 {
        self.part() + HEADER
    }

    /// Adds a record of so many bytes: where it begins and ends.
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

    /// The writes that bring the files to the end of the log.
    pub(super) fn pieces(&mut self) -> Vec<Piece> {
        let mut at = self.stream.written / BLOCK * BLOCK;
        let mut end = self.stream.end.next_multiple_of(BLOCK);
        let mut pieces = Vec::new();
        // What was begun ahead of the end is not written ahead again.
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

    /// The end of the part of a file that is written ahead, which `end` is in.
    const fn ahead_of(&self, end: u64) -> u64 {
        let (_, place) = self.place(end - BLOCK);
        let next = (place / AHEAD + 1) * AHEAD;
        let file = self.file();
        let next = if next < file { next } else { file };
        end - BLOCK + (next - place)
    }

    /// The file that `at` is in, and the place there.
    const fn place(&self, at: u64) -> (usize, u64) {
        let around = at % self.limits.room;
        let file = (around / self.part()) as usize;
        (file, HEADER + around % self.part())
    }

    /// The place of the block of the next checkpoint in the first file.
    pub(super) const fn checkpoint_place(&self) -> u64 {
        CHECKPOINTS[(self.checkpoints % 2) as usize]
    }

    /// Whether changes have to wait, the oldest page that is not written being of `oldest`.
    pub(super) fn is_nearly_full(&self, oldest: Option<u64>) -> bool {
        let age = self.stream.end - self.checkpoint;
        age > self.limits.checkpoint_now || self.is_too_old(oldest)
    }

    /// Whether they have to wait for that page.
    pub(super) fn is_too_old(&self, oldest: Option<u64>) -> bool {
        oldest.is_some_and(|oldest| self.stream.end - oldest > self.limits.flush_now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_headers_and_a_write_begins_with_the_last_one() {
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
    fn the_files_are_a_circle() {
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
    fn more_than_the_files_hold_is_refused() {
        let mut redo = Redo::new(4 << 20);
        (0..9_000).for_each(|_| _ = redo.append(1_000));
    }

    #[test]
    fn one_writes_for_all_who_wait() {
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
