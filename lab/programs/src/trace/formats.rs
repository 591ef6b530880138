//! Readers of the trace formats of other tools.
//!
//! Invariant: one step reads one line or one record, appends its operations, and returns whether
//! there was one.

use super::put;
use super::registers::{Instruction, Registers};
use input::{Fault, Input, expected};
use memsys::Op;
use std::io::{self, BufRead};

/// Longest line that is accepted, in bytes without the line end.
const MAX_LINE: usize = 4096;

/// The little-endian 64-bit number at `offset` of a record.
fn word(record: &[u8], offset: usize) -> u64 {
    let bytes = &record[offset..offset + 8];
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// ChampSim's `input_instr`, 64 bytes per instruction.
///
/// | offset | field |
/// | --- | --- |
/// | 0 | address of the instruction |
/// | 8, 9 | whether it is a branch, and taken |
/// | 10 | 2 registers that it writes |
/// | 12 | 4 registers that it reads |
/// | 16 | 2 addresses that it stores to, or 0 |
/// | 32 | 4 addresses that it loads from, or 0 |
///
/// Sizes are not recorded: each access counts as 8 bytes, or fewer if its cache line ends earlier.
pub(super) fn champsim(
    input: &mut Input,
    registers: &mut Registers,
    ops: &mut Vec<Op>,
) -> Result<bool, Fault> {
    let Some(record) = read_record::<64>(&mut **input)? else {
        return Ok(false);
    };
    let all = |first: usize, count: usize| {
        let addresses = (0..count).map(move |n| word(&record, first + 8 * n));
        addresses.filter(|&at| at != 0)
    };
    let sized = |at: u64| (at, 8.min(64 - at % 64));
    let loads: Vec<_> = all(32, 4).map(sized).collect();
    let stores: Vec<_> = all(16, 2).map(sized).collect();
    for &(at, size) in loads.iter().chain(&stores) {
        put::check(at, size)?;
    }
    let instruction = Instruction {
        sources: &record[12..16],
        results: &record[10..12],
        loads: &loads,
        stores: &stores,
    };
    registers.execute(&instruction, ops);
    Ok(true)
}

/// MacSim's x86 instructions, version 1.3, 80 bytes each.
///
/// | offset | field |
/// | --- | --- |
/// | 0, 1 | how many registers it reads and writes |
/// | 2 | 9 registers that it reads |
/// | 11 | 6 registers that it writes |
/// | 20 | whether it stores |
/// | 23 | how many loads, 0 to 2 |
/// | 32, 40 | addresses of the loads |
/// | 48 | address of the store |
/// | 56, 64 | addresses of the instruction and of where it branches to |
/// | 72, 73 | bytes of each load and of the store |
pub(super) fn macsim(
    input: &mut Input,
    registers: &mut Registers,
    ops: &mut Vec<Op>,
) -> Result<bool, Fault> {
    let Some(record) = read_record::<80>(&mut **input)? else {
        return Ok(false);
    };
    let (sources, results) = (usize::from(record[0]), usize::from(record[1]));
    if sources > 9 || results > 6 {
        return expected("at most 9 registers that are read and 6 that are written");
    }
    if record[20] > 1 || record[23] > 2 {
        return expected("at most two loads and a store");
    }
    let loads = [32, 40].map(|offset| (word(&record, offset), u64::from(record[72])));
    let loads = &loads[..usize::from(record[23])];
    let stores = [(word(&record, 48), u64::from(record[73]))];
    let stores = &stores[..usize::from(record[20])];
    for &(at, size) in loads.iter().chain(stores) {
        put::check(at, size)?;
    }
    let instruction = Instruction {
        sources: &record[2..2 + sources],
        results: &record[11..11 + results],
        loads,
        stores,
    };
    registers.execute(&instruction, ops);
    Ok(true)
}

/// Binary traces of `pinatrace`, as used for warm-up by SkyByte. Each access takes 18 bytes: time
/// in nanoseconds, address, `R` or `W`, size in bytes. The instructions between accesses are not
/// recorded. The times are ignored, since they are those of the slowed-down program.
pub(super) fn pin(input: &mut Input, ops: &mut Vec<Op>) -> Result<bool, Fault> {
    let Some(record) = read_record::<18>(&mut **input)? else {
        return Ok(false);
    };
    let (at, size) = (word(&record, 8), u64::from(record[17]));
    put::check(at, size)?;
    let store = match record[16] {
        b'R' => false,
        b'W' => true,
        other => return expected(format!("R or W at byte 16, not {other}")),
    };
    put::access(ops, at, size, store, |_| 0);
    Ok(true)
}

/// Whether contents that begin with `head` are accesses of `pinatrace`, as text or as binary
/// records.
pub(super) fn is_pin(head: &[u8]) -> bool {
    let record = |record: &[u8]| {
        let size = u64::from(record[17]);
        // Addresses of programs are below 2^48, and text contains no zero bytes.
        let at = word(record, 8);
        matches!(record[16], b'R' | b'W') && at < 1 << 48 && put::check(at, size).is_ok()
    };
    let records = head.chunks_exact(18);
    is_pin_text(head) || (records.len() > 0 && records.into_iter().all(record))
}

/// Whether the first line of `head` that is not a comment is an access in text form.
pub(super) fn is_pin_text(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n');
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first.is_some_and(|line| pin_access(line).is_some())
}

/// Parses a line of `pinatrace` text, such as `0x4006b0: R 0x7fff5e8`: the address of the
/// instruction, the kind of access, and the accessed address. Sizes are not recorded: each access
/// counts as 8 bytes, or fewer if its cache line ends earlier. The tool ends its file with `#eof`.
pub(super) fn pin_text(line: &[u8], ops: &mut Vec<Op>) -> Result<(), Fault> {
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(());
    }
    let Some((store, at)) = pin_access(line) else {
        return expected("an instruction, R or W and an address, such as '0x4006b0: R 0x7fff5e8'");
    };
    let size = 8.min(64 - at % 64);
    put::check(at, size)?;
    put::access(ops, at, size, store, |_| 0);
    Ok(())
}

/// Whether a line of text is a store, and the accessed address.
fn pin_access(line: &[u8]) -> Option<(bool, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let (instruction, access) = text.trim().split_once(": ")?;
    hexadecimal(instruction.strip_prefix("0x")?)?;
    let (kind, at) = access.split_once(' ')?;
    let at = hexadecimal(at.trim().strip_prefix("0x")?)?;
    match kind {
        "R" => Some((false, at)),
        "W" => Some((true, at)),
        _ => None,
    }
}

/// State of the lackey parser between lines.
#[derive(Default)]
pub(super) struct Lackey {
    /// Whether the current instruction has made no access yet.
    idle: bool,
}

impl Lackey {
    /// Parses a line of `valgrind --tool=lackey --trace-mem=yes`: `I  addr,size`, ` L addr,size`, `
    /// S addr,size` or ` M addr,size`, with hexadecimal addresses. Valgrind's own messages begin
    /// with `==` or `--`. Dependences of addresses on loads are not recorded.
    pub(super) fn line(&mut self, line: &[u8], ops: &mut Vec<Op>) -> Result<(), Fault> {
        if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
            return Ok(());
        }
        let kinds = "a line I, L, S or M with an address and a size, such as ' L 1fff000748,8'";
        let text = std::str::from_utf8(line).unwrap_or_default().trim();
        let parts = text.split_once(' ').and_then(|(kind, rest)| {
            let (at, size) = rest.trim_start().split_once(',')?;
            Some((kind, hexadecimal(at)?, size.parse().ok()?))
        });
        let Some((kind, at, size)) = parts else {
            return expected(kinds);
        };
        put::check(at, size)?;
        match kind {
            "I" => {
                if std::mem::replace(&mut self.idle, true) {
                    put::compute(ops, 1);
                }
                return Ok(());
            }
            "L" => put::access(ops, at, size, false, |_| 0),
            "S" => put::access(ops, at, size, true, |_| 0),
            "M" => {
                put::access(ops, at, size, false, |_| 0);
                put::access(ops, at, size, true, |_| 0);
            }
            _ => return expected(kinds),
        }
        // The first access of an instruction represents the instruction.
        self.idle = false;
        Ok(())
    }
}

/// Parses a line of the cache trace written by the modified Valgrind that produces MQSim_CXL's
/// traces: `[R 0x1234 5.6]` or `R 0x1234 5.6`, where the time is optional. Each line is a 64-byte
/// cache line that missed a cache; instructions in between are not recorded. The times are ignored,
/// since they are those of the slowed-down program.
pub(super) fn cache(line: &[u8], ops: &mut Vec<Op>) -> Result<(), Fault> {
    if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
        return Ok(());
    }
    let text = std::str::from_utf8(line).unwrap_or_default().trim();
    let bare = text
        .strip_prefix('[')
        .map_or(Some(text), |rest| rest.strip_suffix(']'));
    let mut words = bare.unwrap_or_default().split_whitespace();
    let kind = words.next();
    let at = words
        .next()
        .and_then(|w| hexadecimal(w.strip_prefix("0x").unwrap_or(w)));
    let (Some(kind @ ("R" | "W")), Some(at)) = (kind, at) else {
        return expected("R or W and an address, such as '[R 0x1ffeffe7c0]'");
    };
    let at = at & !63;
    put::check(at, 64)?;
    put::access(ops, at, 64, kind == "W", |_| 0);
    Ok(())
}

fn hexadecimal(text: &str) -> Option<u64> {
    // `from_str_radix` would also accept a sign.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Reads a line and passes it to `take`; returns whether there was one.
pub(super) fn each_line(
    input: &mut Input,
    line: &mut Vec<u8>,
    take: impl FnOnce(&[u8]) -> Result<(), Fault>,
) -> Result<bool, Fault> {
    if !input::read_line(&mut **input, line, MAX_LINE)? {
        return Ok(false);
    }
    take(line).map(|()| true)
}

/// Reads one record of a fixed size; `None` at the end of the input.
fn read_record<const SIZE: usize>(input: &mut dyn BufRead) -> io::Result<Option<[u8; SIZE]>> {
    let mut record = [0; SIZE];
    let mut filled = 0;
    while filled < SIZE {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => {
                let why = format!("it ends after {filled} of {SIZE} bytes");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Some(record))
}
