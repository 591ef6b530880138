//! Requests compared with a model of the data, with simple and with structured replies.

use crate::client::{CACHE, FLUSH, LEAVE, READ, STATUS, TRIM, WRITE, ZERO};
use crate::memory::{PAGE, Place};
use std::io::Read;
use std::thread;

const SIZE: usize = 64 * PAGE;

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[test]
fn reads_return_the_data_written_before() {
    for structured in [false, true] {
        let memory = Place::new(SIZE);
        let mut client = memory.connected();
        let (size, flags) = client.go(structured);
        assert_eq!(size, SIZE as u64);
        let parts = if structured { 1 << 7 } else { 0 };
        assert_eq!(flags, 0b1101_0110_1101 | parts);
        let (mut expected, mut numbers) = (vec![0; SIZE], Numbers(7));
        for round in 0..3000 {
            let at = numbers.below(SIZE as u64 + 1);
            let len = numbers.below((SIZE as u64 - at + 1).min(5000)) as u32;
            let range = at as usize..at as usize + len as usize;
            match numbers.below(4) {
                0 => {
                    let data = vec![round as u8 | 1; len as usize];
                    assert_eq!(client.call(0, WRITE, at, len, &data).error, 0);
                    expected[range].fill(round as u8 | 1);
                }
                1 => {
                    let no_hole = numbers.below(2) as u16 * 2;
                    assert_eq!(client.call(no_hole, ZERO, at, len, b"").error, 0);
                    expected[range].fill(0);
                }
                2 => assert_eq!(client.call(0, TRIM, at, len, b"").error, 0),
                _ if (range.start, len) == (13 * PAGE, PAGE as u32) => {}
                _ => assert_eq!(client.call(0, READ, at, len, b"").bytes, expected[range]),
            }
        }
        assert_eq!(client.call(0, CACHE, 0, 512, b"").error, 0);
        assert_eq!(client.call(0, FLUSH, 0, 0, b"").error, 0);
        client.send(0, LEAVE, 0, 0, b"");
        assert_eq!(client.stream.read(&mut [0]).expect("the end"), 0);
    }
}

#[test]
fn block_status_returns_extents_if_the_context_is_selected() {
    let memory = Place::new(SIZE);
    let mut client = memory.connected();
    client.go(true);
    client.call(0, WRITE, 1024, 512, &[1; 512]);
    let said = client.call(0, STATUS, 100, 4000, b"");
    assert_eq!(said.pieces, [(924, 3), (512, 0), (2564, 3)]);
    assert_eq!(client.call(8, STATUS, 100, 4000, b"").pieces, [(924, 3)]);
    assert_eq!(client.call(0, STATUS, 100, 0, b"").error, 22);
    // Without the context the query is refused.
    let mut other = memory.connected();
    other.go(false);
    assert_eq!(other.call(0, STATUS, 0, 512, b"").error, 22);
}

#[test]
fn write_with_fua_is_flushed_before_its_answer() {
    let memory = Place::new(SIZE);
    let mut client = memory.connected();
    client.go(true);
    let flushes = || memory.with(|inner| inner.flushes);
    for (count, (flags, kind)) in [(1, WRITE), (1, ZERO), (1, TRIM), (0, FLUSH)]
        .into_iter()
        .enumerate()
    {
        let data: &[u8] = if kind == WRITE { &[1; 512] } else { b"" };
        assert_eq!(client.call(0, TRIM, 0, 512, b"").error, 0);
        assert_eq!(flushes(), count as u32);
        let len = if kind == FLUSH { 0 } else { 512 };
        assert_eq!(client.call(flags, kind, 0, len, data).error, 0);
        assert_eq!(flushes(), count as u32 + 1);
    }
}

#[test]
fn requests_that_can_not_be_are_refused_and_the_next_one_is_answered() {
    for structured in [false, true] {
        let memory = Place::new(SIZE);
        let mut client = memory.connected();
        client.go(structured);
        let end = SIZE as u64;
        for (flags, kind, at, len, error) in [
            (0, READ, end, 1, 22),
            (0, READ, u64::MAX, 512, 22),
            (0, WRITE, end - 1, 2, 28),
            (0, ZERO, end, 1, 28),
            (0, TRIM, end, 1, 22),
            (0x80, READ, 0, 512, 22),
            (2, WRITE, 0, 512, 22),
            (0x12, ZERO, 0, 512, 95),
            (0, 77, 0, 512, 22),
            (0, READ, 13 * PAGE as u64, PAGE as u32, 5),
        ] {
            let data = vec![9; if kind == WRITE { len as usize } else { 0 }];
            let said = client.call(flags, kind, at, len, &data);
            assert_eq!(said.error, error, "{flags} {kind} {at} {len}");
        }
        assert!(memory.with(|inner| inner.bytes.iter().all(|&b| b == 0)));
        assert_eq!(client.call(0, READ, 0, 512, b"").bytes, [0; 512]);
    }
}

#[test]
fn answers_come_as_they_are_ready_and_once_if_the_drive_goes() {
    let memory = Place::new(SIZE);
    let mut client = memory.connected();
    client.go(false);
    memory.with(|inner| inner.held = Some(Vec::new()));
    let cookies: Vec<u64> = (0..3)
        .map(|n| client.send(0, READ, n * 512, 512, b""))
        .collect();
    while memory.with(|inner| inner.held.as_ref().map(Vec::len)) < Some(3) {
        thread::yield_now();
    }
    memory.with(|inner| {
        let last = inner.held.as_mut().and_then(Vec::pop);
        let (job, done) = last.expect("the last one");
        let answer = inner.carry_out(job);
        done.answer(answer);
    });
    let said = client.reply(|_| 512);
    assert_eq!((said.cookie, said.error), (cookies[2], 0));
    // The other jobs are dropped, as by a drive that has lost its power.
    memory.with(|inner| inner.held = None);
    let mut gone: Vec<u64> = Vec::new();
    for _ in 0..2 {
        let said = client.reply(|_| 512);
        assert_eq!(said.error, 108);
        gone.push(said.cookie);
    }
    gone.sort_unstable();
    assert_eq!(gone, cookies[..2]);
    memory.stop();
    assert_eq!(client.stream.read(&mut [0]).unwrap_or(0), 0);
}
