//! Runs of the server, checked by the calls that it makes.

use super::client::fd_of;
use super::engine::{InnoDb, LOGS};
use super::redo::{BLOCK, CHECKPOINTS};
use super::schema::{DISTRICTS, PAGE, PageId};
use super::{Commit, Tpcc};
use crate::files::{Call, Errno, Fd, Source, ThreadId, Turn};
use sim::{Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;

const SMALL: Tpcc = Tpcc {
    warehouses: 2,
    scale: 5,
    threads: 6,
    cache: 5 << 20,
    log: 4 << 20,
    doublewrite: true,
    direct: true,
    commit: Commit::Durable,
    binlog: false,
    io: 200,
    ops: 3_000,
    until: None,
};

/// Call in progress, with the writes that it makes durable if it is a sync.
#[derive(Clone, Debug)]
struct Made {
    thread: ThreadId,
    call: Call,
    /// Coverage of a sync, fixed when it began: end of the log, number of the last copy, pages.
    covers: (u64, u64, BTreeSet<PageId>),
}

/// Part of the log that is being written, or is written and not durable.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    written: bool,
}

/// Model of the durable state, derived from the calls; `begins` also reads the server where it says
/// so.
#[derive(Default)]
struct Watch {
    sizes: BTreeMap<Fd, u64>,
    /// Parts of the log that are not durable, by file, in log positions; then the position up to
    /// which the log has been written.
    pieces: [Vec<Piece>; 2],
    reached: u64,
    /// Thread that last wrote to the end of a log file, and the end of the log at that time.
    at_edge: Option<(ThreadId, u64)>,
    /// Copies in the doublewrite buffer that are not durable, by number; then copies that are
    /// durable and not yet used.
    copied: BTreeMap<u64, u64>,
    last_copy: u64,
    copies: u64,
    /// Pages in their places that are not durable there.
    placed: BTreeSet<PageId>,
    /// Those pages of `placed` that belong to a batch.
    of_batch: BTreeSet<PageId>,
    /// Upper bound of the checkpoint being written, from the server's state.
    checkpoint: Option<u64>,
    checkpoints: u64,
    batches: u64,
    singles: u64,
    grown: u64,
}

impl Watch {
    fn new(server: &InnoDb) -> Self {
        let mut watch = Self::default();
        for (fd, space) in server.store.spaces.iter().enumerate() {
            let size = u64::from(space.pages) * PAGE;
            watch.sizes.insert(Fd(fd as u32), size);
        }
        watch.sizes.extend(LOGS.map(|fd| (fd, server.redo.file())));
        watch.reached = server.redo.stream.end;
        watch
    }

    /// Log position up to which the log is durable.
    fn durable(&self) -> u64 {
        let first = self.pieces.iter().flatten().map(|piece| piece.from).min();
        first.unwrap_or(self.reached)
    }

    /// Handles the beginning of a call: checks its rules, and notes its coverage if it is a sync.
    fn begins(&mut self, server: &InnoDb, thread: ThreadId, call: Call) -> Made {
        let mut covers = (0, 0, BTreeSet::new());
        match call {
            Call::Pwrite { fd, at, len } if fd == LOGS[0] && CHECKPOINTS.contains(&at) => {
                assert_eq!(len, BLOCK);
                assert!(self.of_batch.is_empty(), "all batches are durable");
                let to = server.pool.oldest().unwrap_or(server.redo.stream.end);
                self.checkpoint = Some(to.min(self.durable()));
            }
            Call::Pwrite { fd, at, len } if LOGS.contains(&fd) => {
                self.log_begins(server, thread, (fd, at, len));
            }
            Call::Pwrite { fd, at, len } if fd.0 < 10 => {
                let no = (at / PAGE) as u32;
                let page = PageId {
                    space: fd.0 as u8,
                    no,
                };
                assert!(at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
                if at >= self.sizes[&fd] {
                    self.grown += 1;
                } else if fd == fd_of(0) && (64..192).contains(&no) {
                    let batch = no < 184;
                    assert!(
                        !batch || self.of_batch.is_empty(),
                        "copies are still needed"
                    );
                } else {
                    assert_eq!(len, PAGE);
                    self.page_begins(server, page);
                }
            }
            Call::Pread { fd, at, len } => {
                assert_eq!(len, PAGE);
                assert!(at + len <= self.sizes[&fd], "what is read is there");
            }
            Call::Fsync { fd } => {
                let file = LOGS.iter().position(|log| *log == fd);
                let written = file.map(|file| self.pieces[file].iter().filter(|p| p.written));
                covers.0 = written
                    .into_iter()
                    .flatten()
                    .map(|p| p.to)
                    .max()
                    .unwrap_or(0);
                covers.1 = if fd == fd_of(0) { self.last_copy } else { 0 };
                let of = |page: &&PageId| fd_of(page.space) == fd;
                covers.2 = self.placed.iter().filter(of).copied().collect();
            }
            _ => {}
        }
        Made {
            thread,
            call,
            covers,
        }
    }

    fn log_begins(&mut self, server: &InnoDb, thread: ThreadId, (fd, at, len): (Fd, u64, u64)) {
        let (room, part) = (server.redo.limits.room, server.redo.limits.room / 2);
        let file = LOGS.iter().position(|log| *log == fd).unwrap();
        assert!(at >= 4 * BLOCK && at.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK));
        assert!(at + len <= self.sizes[&fd], "the log does not grow");
        // Unroll the circle from the block that was written last.
        let around = file as u64 * part + at - 4 * BLOCK;
        let last = self.reached / BLOCK * BLOCK;
        let from = last + (around + room - last % room) % room;
        assert!(from <= self.reached, "no gap: {from} {}", self.reached);
        assert!(from + len <= server.redo.checkpoint + room, "overrun");
        // The second of two writes holds the log up to the end at the beginning of the first.
        let end = match self.at_edge.take() {
            Some((before, end)) if before == thread && at == 4 * BLOCK => end,
            _ => server.redo.stream.end,
        };
        self.at_edge = (at + len == self.sizes[&fd]).then_some((thread, end));
        let to = (from + len).min(end);
        if to > self.reached {
            self.pieces[file].push(Piece {
                from: self.reached,
                to,
                written: false,
            });
            self.reached = to;
        }
    }

    /// Checks the rules for writing a page to its place.
    fn page_begins(&mut self, server: &InnoDb, page: PageId) {
        let newest = server.pool.newest(page);
        let durable = self.durable();
        assert!(
            newest <= durable,
            "{page:?}: log {newest}, durable {durable}"
        );
        if server.tpcc.doublewrite {
            assert!(self.copies > 0, "{page:?} has a copy that is durable");
            self.copies -= 1;
        }
    }

    /// Handles the end of a call.
    fn ends(&mut self, server: &InnoDb, made: &Made) {
        match made.call {
            Call::Pwrite { fd, at, .. } if LOGS.contains(&fd) && at >= 4 * BLOCK => {
                let file = usize::from(fd == LOGS[1]);
                self.pieces[file].iter_mut().for_each(|p| p.written = true);
            }
            Call::Pwrite { fd, at, len } if fd.0 < 10 => {
                let size = self.sizes.get_mut(&fd).unwrap();
                let (space, no) = (fd.0 as u8, (at / PAGE) as u32);
                if at >= *size {
                    *size = at + len;
                } else if space == 0 && (64..192).contains(&no) {
                    self.last_copy += 1;
                    self.copied.insert(self.last_copy, len / PAGE);
                } else {
                    let page = PageId { space, no };
                    self.placed.insert(page);
                    let batch = made.thread > server.cleaner_thread();
                    self.batches += u64::from(batch);
                    self.singles += u64::from(!batch);
                    if batch {
                        self.of_batch.insert(page);
                    }
                }
            }
            Call::Fsync { fd } => {
                if let Some(file) = LOGS.iter().position(|log| *log == fd) {
                    self.pieces[file].retain(|piece| piece.to > made.covers.0);
                }
                let rest = self.copied.split_off(&(made.covers.1 + 1));
                self.copies += std::mem::replace(&mut self.copied, rest)
                    .values()
                    .sum::<u64>();
                for page in &made.covers.2 {
                    self.placed.remove(page);
                    self.of_batch.remove(page);
                }
            }
            _ => {}
        }
    }

    /// Checks a checkpoint after the server has handled a result.
    fn looks(&mut self, server: &InnoDb) {
        if server.redo.checkpoints > self.checkpoints {
            self.checkpoints += 1;
            assert_eq!(server.redo.checkpoints, self.checkpoints);
            let most = self.checkpoint.take().expect("it was written");
            assert!(server.redo.checkpoint <= most, "beyond what is durable");
        }
    }
}

/// Result of a run.
struct Ran {
    server: InnoDb,
    watch: Watch,
    made: Vec<(ThreadId, Call)>,
    finished: BTreeMap<&'static str, u64>,
    time: Ns,
}

/// Runs `tpcc`, with calls of 20 to 400 µs, or 0.1 to 5 ms for syncs. Call number `fails.0` gets
/// the result `fails.1`, an error or a short count.
fn run_failing(tpcc: Tpcc, seed: u64, fails: Option<(usize, Result<u64, Errno>)>) -> Ran {
    tpcc.check().unwrap();
    let mut server = InnoDb::new(&tpcc, Seed(seed));
    let mut watch = Watch::new(&server);
    let mut rng = Seed(seed).stream("calls");
    let mut agenda: BTreeMap<(Ns, u64), (ThreadId, Option<Made>)> = BTreeMap::new();
    for thread in 0..server.threads() {
        agenda.insert((Ns::ZERO, u64::from(thread)), (ThreadId(thread), None));
    }
    let (mut sequence, mut made, mut finished) = (1_000, Vec::new(), BTreeMap::new());
    let mut time = Ns::ZERO;
    while let Some(((now, _), (thread, call))) = agenda.pop_first() {
        time = now;
        if let Some(one) = call {
            watch.ends(&server, &one);
            let len = moves(&one.call);
            let failed = fails.filter(|(at, _)| *at == made.len());
            server.ended(thread, failed.map_or(Ok(len), |(_, result)| result));
            made.push((thread, one.call));
        }
        let end = server.clients.get(thread.0 as usize).and_then(|c| c.end);
        let turn = server.next(thread, now);
        while let Some((kind, latency)) = server.finished() {
            *finished.entry(kind).or_insert(0) += 1;
            assert!(latency > Ns::ZERO);
            let hard = tpcc.commit == Commit::Durable;
            assert!(
                !hard || end.is_none_or(|end| end <= watch.durable()),
                "{kind}"
            );
        }
        watch.looks(&server);
        if made.len() % 64 == 0 {
            server.pool.check();
        }
        sequence += 1;
        match turn {
            Turn::Call { call, .. } => {
                let one = watch.begins(&server, thread, call);
                let took = takes(&call, &mut rng);
                agenda.insert((now + took, sequence), (thread, Some(one)));
            }
            Turn::Pause(span) => _ = agenda.insert((now + span, sequence), (thread, None)),
            Turn::Park | Turn::Done => {}
        }
        while let Some(woken) = server.wake() {
            sequence += 1;
            agenda.insert((now, sequence), (woken, None));
        }
    }
    Ran {
        server,
        watch,
        made,
        finished,
        time,
    }
}

fn moves(call: &Call) -> u64 {
    match *call {
        Call::Pread { len, .. } | Call::Pwrite { len, .. } | Call::Write { len, .. } => len,
        _ => 0,
    }
}

fn takes(call: &Call, rng: &mut Rng) -> Ns {
    match call {
        Call::Fsync { .. } | Call::Fdatasync { .. } => Ns(100_000 + rng.below(4_900_000)),
        _ => Ns(20_000 + rng.below(380_000)),
    }
}

fn run(tpcc: Tpcc) -> Ran {
    let ran = run_failing(tpcc, 1, None);
    assert_eq!(ran.server.failure(), None);
    let all: u64 = ran.finished.values().sum();
    assert_eq!(all, tpcc.ops, "every transaction ends");
    ran.server.store.check();
    ran.server.pool.check();
    assert!(ran.server.locks.is_empty());
    ran
}

fn count(ran: &Ran, matches: impl Fn(&Call) -> bool) -> usize {
    ran.made.iter().filter(|(_, call)| matches(call)).count()
}

#[test]
fn run_keeps_its_rules_while_the_log_wraps() {
    let ran = run(Tpcc {
        ops: 12_000,
        ..SMALL
    });
    let log = ran.server.redo.limits.room;
    assert!(
        ran.server.redo.stream.end > 2 * log,
        "{}",
        ran.server.redo.stream.end
    );
    assert!(ran.watch.checkpoints > 2, "{}", ran.watch.checkpoints);
    assert!(ran.watch.batches > 1_000 && ran.watch.grown > 0);
    // Shares of 45, 43, 4, 4 and 4 %, within five standard errors.
    for (kind, percent) in [
        ("new-order", 45),
        ("payment", 43),
        ("order-status", 4),
        ("delivery", 4),
        ("stock-level", 4),
    ] {
        let (p, n) = (f64::from(percent) / 100.0, 12_000.0);
        let error = 5.0 * f64::sqrt(n * p * (1.0 - p));
        assert!(
            (ran.finished[kind] as f64 - n * p).abs() < error,
            "{:?}",
            ran.finished
        );
    }
    // Each payment has added a row of history; each new order an order, except one in a hundred.
    let of = ran.server.store.population.of;
    let customers = of.districts() * of.customers;
    assert_eq!(
        u64::from(ran.server.store.history() - customers),
        ran.finished["payment"]
    );
    let districts = &ran.server.store.population.districts;
    let orders: u32 = districts.iter().map(|d| d.orders.len() as u32).sum();
    let undone = ran.finished["new-order"] - u64::from(orders - customers);
    assert!((20..100).contains(&undone), "{undone}");
    let delivered: u32 = districts.iter().map(|d| d.delivered).sum();
    let sent = u64::from(delivered - of.districts() * (of.customers - of.open));
    assert_eq!(sent, ran.finished["delivery"] * u64::from(DISTRICTS));
}

#[test]
fn every_configuration_keeps_the_rules() {
    for doublewrite in [false, true] {
        for commit in [Commit::Later, Commit::Durable, Commit::Written] {
            for binlog in [false, true] {
                let ops = 2_000;
                let ran = run(Tpcc {
                    doublewrite,
                    commit,
                    binlog,
                    ops,
                    ..SMALL
                });
                let area = |call: &Call| match *call {
                    Call::Pwrite { fd, at, .. } => {
                        fd == fd_of(0) && (64 * PAGE..192 * PAGE).contains(&at)
                    }
                    _ => false,
                };
                assert_eq!(count(&ran, area) > 0, doublewrite);
                let appends = count(&ran, |call| matches!(call, Call::Write { .. }));
                let forces = count(&ran, |call| matches!(call, Call::Fdatasync { .. }));
                assert_eq!((appends > 100, appends), (binlog, forces));
            }
        }
    }
}

#[test]
fn equal_seeds_make_equal_calls() {
    let text = |seed| format!("{:?}", run_failing(SMALL, seed, None).made);
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn concurrent_commits_share_a_sync() {
    let forces = |commit, threads| {
        let ran = run(Tpcc {
            commit,
            threads,
            cache: 64 << 20,
            warehouses: 8,
            log: 32 << 20,
            ..SMALL
        });
        let logs = |call: &Call| matches!(call, Call::Fsync { fd } if LOGS.contains(fd));
        let changing = ["new-order", "payment", "delivery"];
        let commits: u64 = changing.iter().map(|kind| ran.finished[kind]).sum();
        (count(&ran, logs) as f64 / commits as f64, ran.time)
    };
    let (alone, slow) = forces(Commit::Durable, 1);
    assert!((1.0..1.1).contains(&alone), "{alone}");
    let (together, fast) = forces(Commit::Durable, 32);
    assert!(together < 0.5 && fast.0 * 2 < slow.0, "{together}");
    let (none, _) = forces(Commit::Written, 1);
    assert!(none < 0.1, "{none}");
}

#[test]
fn changes_wait_while_the_log_is_nearly_full() {
    // The log of a second exceeds the files, and all pages stay in memory.
    let ran = run(Tpcc {
        commit: Commit::Written,
        threads: 32,
        warehouses: 8,
        cache: 64 << 20,
        io: 1,
        ops: 8_000,
        ..SMALL
    });
    let (log, room) = (ran.server.redo.stream.end, ran.server.redo.limits.room);
    assert!(log > room * 3 / 2, "{log} of {room}");
    assert!(ran.watch.checkpoints > 1 && ran.watch.batches > 0);
}

#[test]
fn pool_that_holds_all_pages_reads_each_once() {
    let ran = run(Tpcc {
        cache: 256 << 20,
        ..SMALL
    });
    let reads = ran.made.iter().filter_map(|(_, call)| match *call {
        Call::Pread { fd, at, .. } => Some((fd, at)),
        _ => None,
    });
    let reads: Vec<(Fd, u64)> = reads.collect();
    let pages: BTreeSet<(Fd, u64)> = reads.iter().copied().collect();
    assert_eq!(reads.len(), pages.len());
    let small = run(SMALL);
    let again = count(&small, |call| matches!(call, Call::Pread { .. }));
    assert!(again > 3 * reads.len(), "{again} {}", reads.len());
    assert!(small.watch.batches + small.watch.singles > 0);
}

#[test]
fn failed_call_ends_the_run_with_a_failure() {
    for at in [0, 5, 20, 100, 333, 1_001] {
        let told = |result| {
            let ran = run_failing(SMALL, 1, Some((at, result)));
            assert!(ran.made.len() < at + 20, "it ends soon");
            ran.server.failure()
        };
        let why = told(Err(Errno(28))).expect("it is told");
        assert!(why.contains("ENOSPC"), "{why}");
    }
    let ran = run_failing(SMALL, 1, Some((100, Ok(0))));
    let (_, call) = ran.made[100];
    let moves = matches!(call, Call::Pread { .. } | Call::Pwrite { .. });
    assert_eq!(ran.server.failure().is_some(), moves);
}

#[test]
fn inconsistent_parameters_are_refused() {
    for wrong in [
        Tpcc { scale: 0, ..SMALL },
        Tpcc {
            scale: 101,
            ..SMALL
        },
        Tpcc {
            warehouses: 257,
            ..SMALL
        },
        Tpcc {
            cache: 1 << 20,
            ..SMALL
        },
        Tpcc {
            log: 1 << 20,
            ..SMALL
        },
        Tpcc {
            threads: 4_096,
            ..SMALL
        },
        Tpcc {
            io: 1 << 40,
            ..SMALL
        },
    ] {
        assert!(wrong.open(Seed(1)).is_err(), "{wrong:?}");
    }
}
