//! Malformed records: every user can write into a spool.

use shim::convert::{Options, convert};
use shim::wire::{Chunk, Head, Info, Op};

/// A fixed pseudo-random sequence of numbers (Knuth's constants).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    fn word(&mut self) -> u64 {
        let any = self.next();
        self.of(&[
            0,
            1,
            100,
            4095,
            1 << 20,
            i64::MAX as u64,
            u64::MAX,
            u64::MAX - 4096,
            any,
        ])
    }

    fn record(&mut self) -> Vec<u8> {
        let mut head = Head::new(Op::of(self.next() as u16 % 70).unwrap_or(Op::Read));
        (head.a, head.b, head.c) = (self.word(), self.word(), self.word());
        (head.fd, head.fd2) = (self.of(&[-100, -1, 0, 1, 2]), self.of(&[-100, 0, 1, 2]));
        head.result = self.of(&[0, 0, 0, 1, 2, -2, 4096, i64::MIN, i64::MAX]);
        head.flags = self.next() as u32;
        (head.start, head.end) = (self.of(&[1, 5, 900]), self.of(&[1, 7, 1000]));
        head.infos = (self.next() % 3) as u16;
        let paths = [
            &b"a"[..],
            b"/x/../../y",
            b"",
            b"d/b",
            b"/proc/self/fd/1",
            b"\xff",
        ];
        let (s1, s2) = (self.of(&paths), self.of(&paths));
        (head.s1, head.s2) = (s1.len() as u16, s2.len() as u16);
        let mut bytes = head.bytes(head.op).to_vec();
        for _ in 0..head.infos {
            let info = Info {
                mode: self.of(&[0o100_644, 0o040_755, 0o120_777, 0]),
                links: 2,
                size: self.word(),
                inode: self.next() % 3,
                device: 1,
            };
            bytes.extend(info.bytes());
        }
        bytes.extend([s1, s2].concat());
        bytes.resize(head.size(), 0);
        bytes
    }
}

#[test]
fn malformed_records_cause_no_panic() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let spool = tempfile::TempDir::new().unwrap();
        for index in 0..3 {
            let chunk = Chunk {
                pid: 1 + index % 2,
                tid: 1 + index,
                image: 1 + u64::from(index) * (seed % 2),
                index: 0,
            };
            let mut bytes = chunk.bytes().to_vec();
            for _ in 0..60 {
                bytes.extend(numbers.record());
            }
            let cut = bytes.len() - numbers.next() as usize % 50;
            std::fs::write(spool.path().join(index.to_string()), &bytes[..cut]).unwrap();
        }
        let options = Options {
            all: seed % 3 == 0,
            ..Options::default()
        };
        // Either outcome is fine, as long as there is no panic.
        let _ = convert(&[spool.path()], &options, Vec::new()).map_err(|e| e.to_string());
    }
}

#[test]
fn spool_without_records_is_refused() {
    let spool = tempfile::TempDir::new().unwrap();
    std::fs::write(spool.path().join("x"), b"no chunk").unwrap();
    let told = convert(&[spool.path()], &Options::default(), Vec::new()).unwrap_err();
    assert!(told.to_string().contains("left no record"));
}
