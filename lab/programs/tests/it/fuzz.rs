//! Random bytes for every reader: nothing panics or hangs, and the number of operations is bounded
//! by the size of the input.

use crate::traces::{read, written};
use bolero::TypeGenerator;
use memsys::Op;
use programs::trace::Format;

/// Parts of the text formats, so that random input gets past the first column.
const WORDS: [&str; 16] = [
    "I  ",
    " L ",
    " S ",
    " M ",
    "0401ab70",
    ",8",
    ",4096",
    "\n",
    "[R ",
    "[W ",
    "0x",
    "]",
    "==",
    " 1.5",
    "ffffffffffffffff",
    ",0",
];

#[derive(Debug, TypeGenerator)]
struct Input {
    words: Vec<u8>,
    tail: Vec<u8>,
}

/// Largest number of operations per input byte. An access of 4096 bytes has up to 65 pieces, twice
/// that if it loads and stores, and takes a line or record of at least 8 bytes.
const MOST: usize = 17;

#[test]
fn readers_survive_anything() {
    bolero::check!().with_type::<Input>().for_each(|input| {
        let words = input
            .words
            .iter()
            .map(|&w| WORDS[usize::from(w) % WORDS.len()]);
        let mut bytes = words.collect::<String>().into_bytes();
        bytes.extend(&input.tail);
        for (format, ..) in Format::ALL {
            if let Ok(ops) = read(&bytes, Some(format)) {
                assert!(ops.len() <= bytes.len() * MOST, "{format:?}");
            }
        }
        let _ = read(&bytes, None);
    });
}

#[test]
fn blocks_survive_anything() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|payload| {
        // A correct checksum, so that the input reaches the decoder of operations.
        let mut plain = (payload.len() as u32).to_le_bytes().to_vec();
        plain.extend(crc32c::crc32c(payload).to_le_bytes());
        plain.extend(payload);
        let frame = zstd::encode_all(&plain[..], 1).unwrap();
        let _ = read(&[&written(&[])[..8], &frame].concat(), None);
    });
}

#[derive(Debug, TypeGenerator)]
struct Drawn {
    kind: u8,
    at: u64,
    size: u8,
    after: u16,
}

#[test]
fn any_operations_come_back() {
    bolero::check!().with_type::<Vec<Drawn>>().for_each(|all| {
        let op = |drawn: &Drawn| {
            let (at, size, after) = (drawn.at >> 1, drawn.size % 64 + 1, drawn.after);
            match drawn.kind % 7 {
                0 => Op::Compute(at as u32),
                1 => Op::Load { at, size, after },
                2 => Op::Store { at, size, after },
                3 => Op::Flush { at },
                4 => Op::Fence,
                5 => Op::Meet,
                _ => Op::Begin,
            }
        };
        let ops: Vec<Op> = all.iter().map(op).collect();
        assert_eq!(read(&written(&ops), None).unwrap(), ops);
    });
}
