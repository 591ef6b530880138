//! Calls of every kind: their variety, the rules for slots, and the ballast that takes the space.

use sim::Seed;
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;
use workload::files::{Call, Errno, Fd, FileWorkload, Source, Target, ThreadId, Turn};

const ENOSPC: Errno = Errno(28);

fn open(text: &str, seed: u64) -> Box<dyn Source> {
    let workload = FileWorkload::parse(text).unwrap();
    workload.open(Seed(seed)).unwrap()
}

/// Runs the threads in turns; `answer` returns the result of each call.
fn calls(
    text: &str,
    seed: u64,
    mut answer: impl FnMut(&Call) -> Result<u64, Errno>,
) -> Vec<(ThreadId, Call, bool)> {
    let mut source = open(text, seed);
    let mut working: BTreeSet<u32> = (0..source.threads()).collect();
    let mut made = Vec::new();
    for round in 0.. {
        let Some(&first) = working.first() else { break };
        let thread = working.range(round % 7..).next().copied();
        let thread = ThreadId(thread.unwrap_or(first));
        match source.next(thread, Ns(round.into())) {
            Turn::Call { call, .. } => {
                let result = answer(&call);
                made.push((thread, call, result.is_ok()));
                source.ended(thread, result);
            }
            Turn::Done => drop(working.remove(&thread.0)),
            Turn::Pause(_) => {}
            Turn::Park => panic!("nobody wakes it"),
        }
    }
    made
}

/// Slot that a call on an open file uses, or frees.
fn slot(call: &Call) -> Option<Fd> {
    match *call {
        Call::Close { fd }
        | Call::Write { fd, .. }
        | Call::Pwrite { fd, .. }
        | Call::Fsync { fd }
        | Call::Store { fd, .. }
        | Call::Fallocate { fd, .. }
        | Call::Truncate {
            of: Target::Open(fd),
            ..
        }
        | Call::CopyRange { from: fd, .. } => Some(fd),
        _ => None,
    }
}

#[test]
fn every_kind_of_change_and_of_sync_occurs() {
    let made = calls("anything:ops=6000,threads=3", 1, |_| Ok(0));
    assert_eq!(made.len(), 6_000);
    let kinds: BTreeSet<&str> = made.iter().map(|m| m.1.name()).collect();
    for kind in [
        "open",
        "close",
        "write",
        "pwrite",
        "pread",
        "fsync",
        "fdatasync",
        "sync-range",
        "syncfs",
        "sync",
        "truncate",
        "fallocate",
        "rename",
        "unlink",
        "rmdir",
        "mkdir",
        "mknod",
        "link",
        "symlink",
        "setxattr",
        "removexattr",
        "chmod",
        "chown",
        "advise",
        "load",
        "store",
        "msync",
        "copy-range",
    ] {
        assert!(kinds.contains(kind), "{kind}");
    }
    assert_eq!(made, calls("anything:ops=6000,threads=3", 1, |_| Ok(0)));
    assert_ne!(made, calls("anything:ops=6000,threads=3", 2, |_| Ok(0)));
}

#[test]
fn slots_are_used_only_while_open() {
    let mut turn = 0;
    let made = calls("anything:ops=6000,threads=3", 1, |_| {
        turn += 1;
        if turn % 3 == 0 { Err(ENOSPC) } else { Ok(0) }
    });
    let mut open: BTreeMap<Fd, ThreadId> = BTreeMap::new();
    for (thread, call, done) in made {
        if let Call::Open { fd, .. } = call {
            assert!(!open.contains_key(&fd), "{fd:?} is free");
            if done {
                open.insert(fd, thread);
            }
        }
        if let Some(fd) = slot(&call) {
            assert_eq!(open.get(&fd), Some(&thread), "{call:?}");
        }
        if let Call::Close { fd } = call {
            open.remove(&fd);
        }
    }
}

#[test]
fn ballast_leaves_the_requested_room_free() {
    const FREE: u64 = 50_000_000;
    for room in [64, 100] {
        let (mut taken, mut first) = (0, true);
        let workload = format!("anything:ops=500,room={room}k");
        let made = calls(&workload, 1, |call| match call {
            Call::Open { .. } if std::mem::take(&mut first) => Ok(0),
            Call::Fallocate { fd: Fd(0), len, .. } if taken + len <= FREE => {
                taken += len;
                Ok(0)
            }
            _ => Err(ENOSPC),
        });
        let left = FREE - taken;
        assert!(left < room << 10, "{left} bytes are left");
        assert!(made.len() > 500, "and then the calls begin");
    }
}
