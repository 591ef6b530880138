//! The readers accept what their formats specify and reject other input with a readable message.

use crate::drive::{Turns, all};
use memsys::{Op, Program};
use programs::trace::{File, Format, Reader, Recording, TraceError, Writer, listed};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Reads all operations of a trace.
pub(crate) fn read(bytes: &[u8], format: Option<Format>) -> Result<Vec<Op>, TraceError> {
    let mut reader = Reader::new("t", Cursor::new(bytes.to_vec()), format)?;
    let mut ops = Vec::new();
    while reader.step(&mut ops)? {}
    Ok(ops)
}

fn refused(bytes: &[u8], format: Format) -> String {
    read(bytes, Some(format)).unwrap_err().to_string()
}

fn load(at: u64, size: u8, after: u16) -> Op {
    Op::Load { at, size, after }
}

fn store(at: u64, size: u8, after: u16) -> Op {
    Op::Store { at, size, after }
}

/// A ChampSim record of 64 bytes.
fn champsim(results: [u8; 2], sources: [u8; 4], stores: [u64; 2], loads: [u64; 4]) -> Vec<u8> {
    let mut record = vec![0; 10];
    record.extend(results);
    record.extend(sources);
    for at in stores.into_iter().chain(loads) {
        record.extend(at.to_le_bytes());
    }
    record
}

#[test]
fn champsim_instructions_keep_their_dependences() {
    let mut bytes = champsim([3, 0], [0; 4], [0; 2], [0x1000, 0, 0, 0]);
    // The dependence passes through an addition to another register, and from there to the
    // addresses of a load and a store.
    bytes.extend(champsim([4, 0], [3, 5, 0, 0], [0; 2], [0; 4]));
    bytes.extend(champsim(
        [6, 0],
        [4, 0, 0, 0],
        [0x203c, 0],
        [0x3000, 0, 0, 0],
    ));
    let ops = read(&bytes, Some(Format::ChampSim)).unwrap();
    assert_eq!(
        ops,
        [
            load(0x1000, 8, 0),
            Op::Compute(1),
            load(0x3000, 8, 1),
            store(0x203c, 4, 2)
        ]
    );
    bytes.pop();
    let refused = refused(&bytes, Format::ChampSim);
    assert!(
        refused.contains("record 3") && refused.contains("63 of 64"),
        "{refused}"
    );
}

/// A MacSim record of 80 bytes.
fn macsim(sources: &[u8], results: &[u8], loads: &[u64], write: Option<u64>) -> Vec<u8> {
    let mut record = vec![0; 80];
    record[0] = sources.len() as u8;
    record[1] = results.len() as u8;
    record[2..2 + sources.len()].copy_from_slice(sources);
    record[11..11 + results.len()].copy_from_slice(results);
    record[20] = u8::from(write.is_some());
    record[23] = loads.len() as u8;
    for (nth, at) in loads.iter().enumerate() {
        record[32 + 8 * nth..40 + 8 * nth].copy_from_slice(&at.to_le_bytes());
    }
    record[48..56].copy_from_slice(&write.unwrap_or(0).to_le_bytes());
    record[72] = 8;
    record[73] = 4;
    record
}

#[test]
fn macsim_instructions_keep_their_dependences() {
    let mut bytes = macsim(&[], &[7], &[0x1000, 0x2000], None);
    bytes.extend(macsim(&[7], &[], &[], Some(0x3000)));
    bytes.extend(macsim(&[1], &[2], &[], None));
    let ops = read(&bytes, Some(Format::MacSim)).unwrap();
    let wanted = [
        load(0x1000, 8, 0),
        load(0x2000, 8, 0),
        store(0x3000, 4, 1),
        Op::Compute(1),
    ];
    assert_eq!(ops, wanted);
    bytes[80] = 10;
    assert!(refused(&bytes, Format::MacSim).contains("record 2: expected at most 9 registers"));
    bytes[80] = 1;
    bytes[80 + 73] = 0;
    assert!(refused(&bytes, Format::MacSim).contains("1 to 4096 bytes, not 0"));
}

#[test]
fn macsim_lists_its_threads() {
    let path = Path::new("/a/trace.txt");
    let files = listed(path, "x86 1.3\n2\n0 0\n5 120\n").unwrap();
    assert_eq!(
        files,
        [Path::new("/a/trace_0.raw"), Path::new("/a/trace_5.raw")]
    );
    assert_eq!(listed(path, "x86\n1\n0 0").unwrap().len(), 1);
    for text in [
        "",
        "ptx 1.3 1 0 0",
        "x86 1.3 2 0 0",
        "x86 1.3 18446744073709551615 0 0 ",
    ] {
        assert!(listed(path, text).is_none(), "{text}");
    }
}

fn pin(at: u64, kind: u8, size: u8) -> Vec<u8> {
    let mut record = 77_u64.to_le_bytes().to_vec();
    record.extend(at.to_le_bytes());
    record.extend([kind, size]);
    record
}

#[test]
fn pin_accesses_are_split_at_cache_lines() {
    let bytes = [pin(0x1038, b'R', 16), pin(0x2000, b'W', 1)].concat();
    let ops = read(&bytes, Some(Format::Pin)).unwrap();
    assert_eq!(
        ops,
        [load(0x1038, 8, 0), load(0x1040, 8, 0), store(0x2000, 1, 0)]
    );
    let wrong = [pin(0x1038, b'R', 16), pin(0x2000, b'X', 1)].concat();
    assert_eq!(
        refused(&wrong, Format::Pin),
        "t: record 2: expected R or W at byte 16, not 88"
    );
    assert!(refused(&pin(1 << 63, b'R', 1), Format::Pin).contains("below 2^63"));
}

#[test]
fn pin_text_is_detected_by_its_contents() {
    let text = b"# made by hand\n0x4006b0: R 0x7fff5e8\n0x4006b4: W 0x103c\n\n#eof\n";
    let expected = [load(0x7ff_f5e8, 8, 0), store(0x103c, 4, 0)];
    assert_eq!(read(text, None).unwrap(), expected);
    assert_eq!(read(text, Some(Format::Pin)).unwrap(), expected);
    assert_eq!(
        refused(b"0x1: R 0x8\n0x4: Q 0x10\n", Format::Pin),
        "t:2: expected an instruction, R or W and an address, such as '0x4006b0: R 0x7fff5e8', \
         found \"0x4: Q 0x10\""
    );
    // Other contents are not taken for records because of the file name or a letter at the right
    // offset.
    for contents in [
        &b"12,4096,8192,512,R "[..],
        b"once upon a time, R and W were friends",
    ] {
        let reader = Reader::new("pinatrace.out", Cursor::new(contents.to_vec()), None);
        assert!(reader.is_err());
    }
}

const LACKEY: &str = "==7== Lackey\nI  0401ab70,3\nI  0401ab73,5\n S 1fff000748,8\nI  04,1\n M 100,4\nI  05,1\nI  06,1\n L 200,4\n L 300,4\n";

#[test]
fn lackey_counts_an_instruction_by_its_first_access() {
    let ops = read(LACKEY.as_bytes(), None).unwrap();
    let wanted = [
        Op::Compute(1),
        store(0x1f_ff00_0748, 8, 0),
        load(0x100, 4, 0),
        store(0x100, 4, 0),
        Op::Compute(1),
        load(0x200, 4, 0),
        load(0x300, 4, 0),
    ];
    assert_eq!(ops, wanted);
    let wrong = format!("{LACKEY} X 300,4\n");
    let refused = refused(wrong.as_bytes(), Format::Lackey);
    assert!(
        refused.starts_with("t:11: expected a line I, L, S or M"),
        "{refused}"
    );
    assert!(refused.ends_with("found \" X 300,4\""), "{refused}");
    assert!(read(b" L +1,4\n", None).is_err());
}

#[test]
fn cache_traces_are_lines_of_64_bytes() {
    let text = "==1== x\n[R 0x1234 12.5]\nW 0x40\n";
    assert_eq!(
        read(text.as_bytes(), None).unwrap(),
        [load(0x1200, 64, 0), store(0x40, 64, 0)]
    );
    assert!(refused(b"[R 0x12\n", Format::CacheTrace).contains("t:1: expected R or W"));
}

const EVERY: [Op; 9] = [
    Op::Compute(7),
    Op::Load {
        at: 1 << 62,
        size: 64,
        after: 0,
    },
    Op::Store {
        at: 3,
        size: 24,
        after: 65_535,
    },
    Op::Load {
        at: 0,
        size: 1,
        after: 1,
    },
    Op::Flush { at: 64 },
    Op::Fence,
    Op::Meet,
    Op::Begin,
    Op::Compute(u32::MAX),
];

pub(crate) fn written(ops: &[Op]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for op in ops {
        writer.op(*op).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    // Enough operations for several blocks.
    let many: Vec<Op> = EVERY.into_iter().cycle().take(100_000).collect();
    for ops in [&many[..], &EVERY, &[]] {
        assert_eq!(read(&written(ops), None).unwrap(), ops);
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let bytes = written(&EVERY);
    let mut plain = Vec::new();
    zstd::Decoder::new(&bytes[8..])
        .unwrap()
        .read_to_end(&mut plain)
        .unwrap();
    let packed = |plain: &[u8]| [&bytes[..8], &zstd::encode_all(plain, 1).unwrap()].concat();
    assert_eq!(read(&packed(&plain), None).unwrap(), EVERY);
    for at in 0..plain.len() {
        let mut wrong = plain.clone();
        wrong[at] ^= 1;
        assert!(read(&packed(&wrong), None).is_err(), "{at}");
        assert!(read(&packed(&plain[..at]), None).is_err(), "{at}");
    }
    let more = [&plain[..], &[0]].concat();
    assert!(
        read(&packed(&more), None)
            .unwrap_err()
            .to_string()
            .contains("nothing after")
    );
}

#[test]
fn compressed_traces_are_read_and_a_damaged_one_is_refused() {
    let zstd = zstd::encode_all(LACKEY.as_bytes(), 1).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(LACKEY.as_bytes()).unwrap();
    let plain = read(LACKEY.as_bytes(), None).unwrap();
    assert_eq!(read(&zstd, None).unwrap(), plain);
    assert_eq!(read(&gzip.finish().unwrap(), None).unwrap(), plain);
    let xz = read(b"\xfd7zXZ\0rest", None).unwrap_err().to_string();
    assert!(xz.contains("cannot be read"), "{xz}");
    let unknown = read(b"what", None).unwrap_err().to_string();
    assert!(unknown.contains("flm, champsim, macsim"), "{unknown}");
}

fn file(bytes: Vec<u8>) -> File {
    File::new("t", None, move || Ok(Box::new(Cursor::new(bytes.clone()))))
}

#[test]
fn threads_share_dense_pages_and_begin_after_warm_up() {
    let far = [
        load(0x7fff_0000_0040, 8, 0),
        load(0x5000, 8, 0),
        Op::Compute(3),
        store(0x5008, 8, 0),
    ];
    let near = [load(0x7fff_0000_0080, 8, 0), store(0x9000, 8, 0)];
    let recording = Recording::read(vec![file(written(&far)), file(written(&near))]).unwrap();
    assert_eq!(recording.touched().0, 3 * 4096);
    let replay = recording.replay(34).unwrap();
    let base = 1 << 20;
    assert_eq!(replay.footprint().0, base + 4 * 4096);
    let ops = all(replay, Turns::Back);
    let second = base + 2 * 4096;
    // 34 percent of three accesses is one, and of two accesses none.
    assert_eq!(
        ops[0],
        [
            load(second + 0x40, 8, 0),
            Op::Begin,
            Op::Meet,
            load(base, 8, 0),
            Op::Compute(3),
            store(base + 8, 8, 0)
        ]
    );
    assert_eq!(
        ops[1],
        [
            Op::Begin,
            Op::Meet,
            load(second + 0x80, 8, 0),
            store(base + 4096, 8, 0)
        ]
    );
}

#[test]
fn a_recorded_program_runs_as_it_did() {
    let ops: Vec<Op> = (0..5000).map(|i| load(0x1_0000 + i * 8, 8, 0)).collect();
    let begins = [&ops[..2500], &[Op::Begin], &ops[2500..]].concat();
    let recording = Recording::read(vec![file(written(&begins))]).unwrap();
    let replay = recording.replay(99).unwrap();
    let replayed = &all(replay, Turns::Forth)[0];
    assert_eq!(replayed.len(), begins.len());
    assert_eq!(replayed[2500], Op::Begin);
    assert_eq!(replayed[5000], load((1 << 20) + 4999 * 8, 8, 0));
}

/// Repeats a load and two instructions without memory accesses. Batches can end between those two
/// instructions.
fn phases(rounds: u64) -> Vec<u8> {
    let idle = champsim([0; 2], [0; 4], [0; 2], [0; 4]);
    let round = |round| {
        let loads = champsim([0; 2], [0; 4], [0; 2], [0x1000 + round % 64 * 64, 0, 0, 0]);
        [&loads[..], &idle, &idle].concat()
    };
    (0..rounds).flat_map(round).collect()
}

#[test]
fn operations_already_returned_do_not_change() {
    let file = File::new("t", Some(Format::ChampSim), || {
        Ok(Box::new(Cursor::new(phases(1000))))
    });
    let mut replay = Recording::read(vec![file]).unwrap().replay(0).unwrap();
    let (mut ops, mut more) = (Vec::new(), true);
    while more {
        let before = ops.clone();
        more = replay.next(0, &mut ops);
        assert_eq!(ops[..before.len()], before);
    }
    // The number of instructions is also correct.
    let executed: u64 = ops.iter().map(Op::instructions).sum();
    assert_eq!(executed, 3000);
}

/// A recording of a file that contains `first` at the first reading and `then` when it is replayed.
fn exchanged(first: &[Op], then: Vec<u8>) -> impl Program {
    let (first, readings) = (written(first), AtomicU64::new(0));
    let file = File::new("t", None, move || {
        let now = match readings.fetch_add(1, Relaxed) {
            0 => &first,
            _ => &then,
        };
        Ok(Box::new(Cursor::new(now.clone())))
    });
    Recording::read(vec![file]).unwrap().replay(0).unwrap()
}

#[test]
fn changed_files_fail_the_replay() {
    let loads = |pages: u64| -> Vec<Op> { (0..pages).map(|n| load(n * 4096, 8, 0)).collect() };
    let first = loads(700);
    let mut elsewhere = first.clone();
    elsewhere[650] = load(0x7_0000_0000, 8, 0);
    let changed = "t: expected what was read of it first, found something else";
    for (then, why) in [
        (written(&loads(699)), changed),
        (written(&loads(701)), changed),
        (written(&elsewhere), changed),
        (written(&first)[..30].to_vec(), "t: record "),
    ] {
        let mut replay = exchanged(&first, then);
        let mut ops = Vec::new();
        while replay.next(0, &mut ops) {}
        let failure = replay.failure().unwrap_or_default();
        assert!(failure.starts_with(why), "{failure:?}, not {why:?}");
        assert!(ops.len() <= 701);
    }
    let mut replay = exchanged(&first, written(&first));
    while replay.next(0, &mut Vec::new()) {}
    assert_eq!(replay.failure(), None);
}
