//! One file, written from its start to its end and then written over, as IOZone does it.
//!
//! Writes are durable one by one (`O_SYNC`), all together at the end, or never. Random rewrites are
//! a permutation of the file's records, so that each record is written once a pass, as in IOZone.
//! Operations of the kinds `write` and `rewrite` tell the making of the file from the rewrites. If
//! all writes are made durable at the end, `rewrite-all` is one more operation: from the first
//! `rewrite` until all of them are durable, as IOZone times it with `-e`.
//!
//! Invariant: a pass covers the whole file, each byte of it once.

use super::fileset::FILE_MODE;
use super::names::{Name, Names};
use super::setup::{Entry, EntryKind, Setup};
use super::source::{Source, Turn};
use super::{Call, Errno, Fd, OpenFlags, ThreadId};
use crate::generate::Shuffle;
use sim::{Rng, Seed};
use units::Ns;

/// Time at which writes become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// Each write before the next one (`O_SYNC`).
    Each,
    /// At the end of making the file, and at the end of all rewrites.
    End,
    /// Never: no sync is made.
    No,
}

/// Parameters of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IoZone {
    /// Bytes of the file, of a write that makes it, and of a rewrite.
    pub(super) size: u64,
    pub(super) make: u64,
    pub(super) record: u64,
    pub(super) random: bool,
    pub(super) durable: Durable,
    /// Bytes rewritten in total.
    pub(super) total: u64,
}

/// Next step of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Open,
    /// Bytes of the file written so far.
    Make(u64),
    Made,
    /// Bytes rewritten so far.
    Rewrite(u64),
    Rewritten,
    Close,
    End,
}

struct Running {
    iozone: IoZone,
    names: Names,
    setup: Setup,
    path: Name,
    step: Step,
    /// Order of the present pass, if rewrites are random.
    order: Option<Shuffle>,
    rng: Rng,
    /// Kind of the write or sync in progress, and its beginning.
    begun: Option<(&'static str, Ns)>,
    /// Beginning of the first rewrite.
    rewriting: Option<Ns>,
    /// Bytes of the write in progress.
    len: u64,
    finished: Option<(&'static str, Ns)>,
    failure: Option<String>,
}

impl IoZone {
    pub(super) fn open(&self, seed: Seed) -> Box<dyn Source> {
        let (mut names, mut setup) = (Names::default(), Setup::default());
        let path = names.intern(b"iozone.tmp");
        setup.entries.push(Entry {
            path,
            kind: EntryKind::File { size: 0 },
            mode: FILE_MODE,
        });
        Box::new(Running {
            iozone: *self,
            names,
            setup,
            path,
            step: Step::Open,
            order: None,
            rng: seed.stream("iozone"),
            begun: None,
            rewriting: None,
            len: 0,
            finished: None,
            failure: None,
        })
    }

    /// Number of records of a pass; the last one may be shorter.
    const fn records(&self) -> u64 {
        self.size.div_ceil(self.record)
    }
}

impl Running {
    /// Offset and length of the next rewrite after `done` bytes.
    fn place(&mut self, done: u64) -> (u64, u64) {
        let (record, records) = (self.iozone.record, self.iozone.records());
        let turn = done / record;
        if self.iozone.random && turn.is_multiple_of(records) {
            self.order = Some(Shuffle::new(records, &mut self.rng));
        }
        let next = turn % records;
        let next = self.order.as_ref().map_or(next, |order| order.at(next));
        let at = next * record;
        (at, record.min(self.iozone.size - at))
    }

    /// Next call, and the step after it succeeds; `None` if the step makes no call.
    fn call(&mut self, now: Ns) -> Option<(Call, Step)> {
        let fd = Fd(0);
        let IoZone {
            size,
            make,
            durable,
            total,
            ..
        } = self.iozone;
        let force = durable == Durable::End;
        Some(match self.step {
            Step::Open => {
                let flags = match durable {
                    Durable::Each => OpenFlags::WRITE.and(OpenFlags::SYNC),
                    Durable::End | Durable::No => OpenFlags::WRITE,
                };
                let (path, mode) = (self.path, FILE_MODE);
                let open = Call::Open {
                    fd,
                    path,
                    flags,
                    mode,
                };
                (open, Step::Make(0))
            }
            Step::Make(at) if at < size => {
                self.begun = Some(("write", now));
                self.len = make.min(size - at);
                let len = self.len;
                (Call::Pwrite { fd, at, len }, Step::Make(at + len))
            }
            Step::Make(_) if force => (Call::Fsync { fd }, Step::Made),
            Step::Make(_) | Step::Made => {
                self.step = Step::Rewrite(0);
                return None;
            }
            Step::Rewrite(done) if done < total => {
                self.begun = Some(("rewrite", now));
                self.rewriting.get_or_insert(now);
                let (at, len) = self.place(done);
                self.len = len;
                // The last record of a pass counts as a whole one, so that the next pass begins.
                let next = done + self.iozone.record;
                (Call::Pwrite { fd, at, len }, Step::Rewrite(next))
            }
            Step::Rewrite(_) if force => {
                self.begun = self.rewriting.map(|since| ("rewrite-all", since));
                self.len = 0;
                (Call::Fsync { fd }, Step::Rewritten)
            }
            Step::Rewrite(_) | Step::Rewritten => (Call::Close { fd }, Step::Close),
            Step::Close | Step::End => {
                self.step = Step::End;
                return None;
            }
        })
    }
}

impl Source for Running {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        1
    }

    fn next(&mut self, _: ThreadId, now: Ns) -> Turn {
        if let Some((kind, since)) = self.begun.take() {
            self.finished = Some((kind, now.since(since)));
        }
        if self.failure.is_some() {
            return Turn::Done;
        }
        while self.step != Step::End {
            if let Some((call, next)) = self.call(now) {
                self.step = next;
                return Turn::now(call);
            }
        }
        Turn::Done
    }

    fn ended(&mut self, _: ThreadId, result: Result<u64, Errno>) {
        let why = match result {
            Ok(count) if self.begun.is_some() && count < self.len => {
                format!("{count} of {} bytes were taken", self.len)
            }
            Ok(_) => return,
            Err(errno) => errno.to_string(),
        };
        let why = format!("iozone.tmp could not be written: {why}");
        self.failure.get_or_insert(why);
    }

    fn wake(&mut self) -> Option<ThreadId> {
        None
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        self.finished.take()
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: IoZone = IoZone {
        size: 100_000,
        make: 30_000,
        record: 8_192,
        random: true,
        durable: Durable::Each,
        total: 2 * 13 * 8_192,
    };

    /// Runs `iozone` with calls that all succeed; returns the calls and the ended operations.
    fn calls(iozone: IoZone) -> (Vec<Call>, Vec<(&'static str, Ns)>) {
        let mut source = iozone.open(Seed(1));
        let (mut calls, mut operations) = (Vec::new(), Vec::new());
        for turn in 0.. {
            let next = source.next(ThreadId(0), Ns::us(turn));
            operations.extend(source.finished());
            let Turn::Call { call, .. } = next else {
                assert_eq!((next, source.failure()), (Turn::Done, None));
                break;
            };
            let done = match call {
                Call::Pwrite { len, .. } => len,
                _ => 0,
            };
            source.ended(ThreadId(0), Ok(done));
            calls.push(call);
        }
        (calls, operations)
    }

    fn writes(calls: &[Call]) -> Vec<(u64, u64)> {
        let write = |call: &Call| match *call {
            Call::Pwrite { at, len, .. } => Some((at, len)),
            _ => None,
        };
        calls.iter().filter_map(write).collect()
    }

    #[test]
    fn file_is_made_and_each_record_rewritten_once_a_pass() {
        let (calls, operations) = calls(BASE);
        let all = writes(&calls);
        let made = [
            (0, 30_000),
            (30_000, 30_000),
            (60_000, 30_000),
            (90_000, 10_000),
        ];
        assert_eq!(all[..4], made);
        let records = (0..13).map(|n| (n * 8_192, (100_000 - n * 8_192).min(8_192)));
        let records: Vec<(u64, u64)> = records.collect();
        for pass in [&all[4..17], &all[17..]] {
            assert_ne!(pass, records, "at random");
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, records);
        }
        assert_ne!(all[4..17], all[17..], "another order each time");
        let count = |kind| operations.iter().filter(|o| o.0 == kind).count();
        assert_eq!((count("write"), count("rewrite")), (4, 26));
        assert!(operations.iter().all(|operation| operation.1 == Ns::us(1)));
    }

    #[test]
    fn writes_are_synced_each_at_the_end_or_never() {
        for durable in [Durable::Each, Durable::End, Durable::No] {
            let random = false;
            let (calls, operations) = calls(IoZone {
                durable,
                random,
                ..BASE
            });
            let Call::Open { flags, .. } = calls[0] else {
                panic!("{:?}", calls[0]);
            };
            assert_eq!(flags.has(OpenFlags::SYNC), durable == Durable::Each);
            let forces = calls.iter().filter(|c| matches!(c, Call::Fsync { .. }));
            assert_eq!(forces.count(), if durable == Durable::End { 2 } else { 0 });
            // 26 writes and a force, a microsecond each.
            let whole = operations.iter().filter(|o| o.0 == "rewrite-all");
            let expected = (durable == Durable::End).then_some(Ns::us(27));
            assert_eq!(whole.map(|o| o.1).next(), expected);
            let all = writes(&calls);
            assert!(
                all[4..17].is_sorted() && all[4..17] == all[17..],
                "in order"
            );
            assert!(matches!(calls.last(), Some(Call::Close { .. })));
        }
    }

    #[test]
    fn short_write_ends_the_run_with_a_failure() {
        let mut source = BASE.open(Seed(1));
        for done in [0, 29_999] {
            assert_ne!(source.next(ThreadId(0), Ns(0)), Turn::Done);
            source.ended(ThreadId(0), Ok(done));
        }
        assert_eq!(source.next(ThreadId(0), Ns(0)), Turn::Done);
        let why = source.failure().expect("it is said");
        assert!(why.contains("29999 of 30000"), "{why}");
    }
}
