//! Traces of clouds and of zoned drives, and the detection of formats.

use super::load;
use proptest::prelude::*;
use units::Ns;
use workload::trace::{Devices, Format, Loaded, Options, Trace};
use workload::{Op, Request};

fn read(text: &str) -> Loaded {
    load(text, None, Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn told(text: &str) -> String {
    let read = load(text, None, Options::default());
    read.map_or_else(|e| e.to_string(), |loaded| format!("{:?}", loaded.requests))
}

/// Time in microseconds, operation, first sector, sectors, name of the origin.
fn shorts(loaded: &Loaded) -> Vec<(u64, Op, u64, u32, &str)> {
    let short = |r: &Request| {
        let name = loaded.labels.name(r.origin);
        (
            r.at.0 / 1_000,
            r.op,
            r.extent.start.0,
            r.extent.sectors,
            name,
        )
    };
    loaded.requests.iter().map(short).collect()
}

/// Sectors of the pieces into which devices are packed.
const GIB: u64 = 1 << 21;

#[test]
fn alibaba_has_bytes_and_microseconds_and_keeps_volumes_apart() {
    let text = "3,R,2147487744,8192,1577808000000046\n5,W,4096,4096,1577808000000099\n\
                3,W,2147491840,512,1577808000000346\n";
    let loaded = read(text);
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 8, 16, "3"),
            (53, Op::Write, GIB + 8, 8, "5"),
            (300, Op::Write, 16, 1, "3"),
        ]
    );
    assert_eq!(
        loaded.notes.sentences(),
        [
            "2 devices lie behind each other, in pieces of 1 GiB in the order of first use; \
          devices=together takes addresses as they stand"
        ]
    );
    let headed = format!("device_id,opcode,offset,length,timestamp\n{text}");
    assert_eq!(read(&headed).requests, loaded.requests);
    let options = Options {
        devices: Devices::Only(3),
        ..Options::default()
    };
    let one = load(text, None, options).unwrap();
    assert_eq!(one.requests[0].extent.start.0, 2_147_487_744 / 512);
    assert_eq!(one.notes.other_devices, 1);
}

#[test]
fn tencent_has_seconds_and_sectors() {
    let loaded = read(
        "1538323200,12910952,128,0,1063\n1538323200,8,8,1,1063\n1538323203,6265096,8,1,1113\n",
    );
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 12_910_952 % GIB, 128, "1063"),
            (0, Op::Write, GIB + 8, 8, "1063"),
            (3_000_000, Op::Write, 2 * GIB + 6_265_096 % GIB, 8, "1113"),
        ]
    );
}

#[test]
fn spc_has_sectors_bytes_and_seconds() {
    let loaded = read("0,303567,3584,w,0.026214\n1,55590,3072,W,0.026682\n0,303574,512,R,1.5,x\n");
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 303_567, 7, "0"),
            (468, Op::Write, GIB + 55_590, 6, "1"),
            (1_473_786, Op::Read, 303_574, 1, "0"),
        ]
    );
}

const ZONES: &str = "\
259,0    1        1     0.000001000   901  Q  ZR N 0 + 0 [mkfs]
259,0    1        2     0.000002000   901  D  ZR N 0 + 0 [mkfs]
259,0    1        3     0.000003000     0  C  ZR N 0 + 0 [0]
259,0    1        4     0.000004000   902  Q ZAS be/4 262144 + 16 [zenfs]
259,0    1        5     0.000005000   902  D ZAS be/4 262144 + 16 [zenfs]
259,0    1        6     0.000006000     0  C ZAS be/4 262160 + 16 [0]
259,0    1        7     0.000007000   902  Q WZS 0 4096 + 2048 [a [b] c]
259,0    1        8     0.000008000   902  Q  FF N [fsync]
259,0    1        9     0.000009000   902  Q  WS 64 + 8 [old]
";

#[test]
fn blkparse_keeps_appends_resets_and_zeroes_and_counts_each_once() {
    let loaded = read(ZONES);
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::ZoneReset, 0, 0, "mkfs"),
            (3, Op::Append, 262_144, 16, "zenfs"),
            (6, Op::Zeroes, 4_096, 2_048, "a [b] c"),
            (7, Op::Flush, 0, 0, "fsync"),
            (8, Op::Write, 64, 8, "old"),
        ]
    );
    assert_eq!(loaded.notes.skipped, 0);
    // A trace that begins within a request counts the step of which it has a line for each.
    let without = |action: &str| {
        let lines = ZONES.lines().filter(|line| !line.contains(action));
        let text: Vec<&str> = lines.collect();
        read(&text.join("\n")).requests.len()
    };
    assert_eq!((without("  Q "), without("  D ")), (2, 5));
    let completed: Vec<&str> = ZONES.lines().filter(|line| line.contains("  C ")).collect();
    assert_eq!(read(&completed.join("\n")).requests.len(), 2);
    let late: Vec<&str> = ZONES.lines().skip(2).collect();
    assert_eq!(read(&late.join("\n")).requests.len(), 4);
}

#[test]
fn numbers_in_milliseconds_and_bytes_are_not_taken_for_mqsim() {
    let text = "5 0 4096000 8192 1\n17 0 8192 4096 0\n";
    assert_eq!(
        told(text),
        "t:1: expected sizes in sectors of 512 bytes, not multiples of 512 alone, which look like \
         bytes, as the format mqsim has them (--format mqsim reads them so all the same), found \
         \"5 0 4096000 8192 1\""
    );
    let forced = load(text, Some(Format::Mqsim), Options::default()).unwrap();
    assert_eq!(forced.requests[1].extent.sectors, 4096);
}

#[test]
fn contents_of_two_formats_are_refused_with_both_names() {
    assert_eq!(
        told("4,W,4096,512,9\n6,R,0,1024,30\n"),
        "t: expected contents of one format, found such as fit csv and alibaba; --format says \
         which it is"
    );
}

#[test]
fn contents_of_no_format_are_refused_with_a_reason_for_each_similar_one() {
    let text = told("4,W,4096,100,1577808000000046\n");
    for reason in [
        "csv expects a process in column 5, and no time in line 1",
        "alibaba expects an offset and a length in multiples of 512 bytes in line 1",
        "found none of them: ",
    ] {
        assert!(text.contains(reason), "{text}");
    }
    assert!(told("4,W,18446744073709551615,8,db\n").contains("an address below 16 PiB"));
    assert!(told("8,0 9 a b c d e\n").contains("t:1: expected a time in seconds"));
}

#[test]
fn times_far_out_of_order_are_refused() {
    let lines = |late: u64| format!("20000000000,R,0,8,p\n{late},R,8,8,p\n20000000001,R,0,8,p\n");
    let near = read(&lines(10_000_000_000));
    let at: Vec<Ns> = near.requests.iter().map(|r| r.at).collect();
    assert_eq!(at, [Ns(0), Ns::secs(10), Ns(10_000_000_001)]);
    assert_eq!(
        near.notes.sentences(),
        [
            "1 requests were recorded out of order, by up to 10.00 s, and were sorted by time (up \
          to 10.00 s is)"
        ]
    );
    assert_eq!(
        told(&lines(9_999_999_999)),
        "t:2: expected a time at most 10.00 s before the latest so far, not 10.00 s, in a trace \
         that is sorted by time, found \"9999999999,R,8,8,p\""
    );
    let many: String = (0..20_000)
        .map(|i| format!("{},R,0,8,p\n", 1_000 + i))
        .collect();
    let late = format!("{many}5,R,0,8,p\n");
    assert!(told(&late).contains("t:20001: expected a request at most 16384 requests behind"));
}

/// Documented lines of public formats that have no reader.
const UNREAD: [&str; 3] = [
    // A table of another program.
    "23,4,28,7,4096,812,1412",
    // Mooncake.
    r#"{"timestamp": 27482, "input_length": 6955, "hash_ids": [46, 47]}"#,
    // biosnoop of bpftrace, which has no addresses.
    "611    nvme0n1  jbd2/nvme0n1-8     251      7",
];

#[test]
fn unsupported_formats_are_not_mistaken_for_supported_ones() {
    for line in UNREAD {
        let refused = Trace::from_reader("t", std::io::Cursor::new(line), None, Options::default())
            .and_then(Trace::load);
        assert!(refused.is_err(), "{line}");
    }
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[0-9RWrw,. \\-+:\\[\\]x\n]{0,400}") {
        let _ = load(&text, None, Options::default());
    }

    #[test]
    fn foreign_formats_are_detected(
        rows in prop::collection::vec(
            (0..9_u64, any::<bool>(), 0..1_u64 << 31, 1..256_u64, 0..1_000_u64), 1..40),
    ) {
        let mut clock = 1_577_808_000_000_046_u64;
        let (mut alibaba, mut tencent, mut spc) = (String::new(), String::new(), String::new());
        for &(volume, write, start, pages, gap) in &rows {
            clock += gap;
            let (kind, start, bytes) = (if write { "W" } else { "R" }, start * 8, pages * 4096);
            alibaba += &format!("{volume},{kind},{},{bytes},{clock}\n", start * 512);
            let (seconds, sectors) = (clock / 1_000_000, pages * 8 + 1);
            tencent += &format!("{seconds},{start},{sectors},{},{volume}\n", u8::from(write));
            spc += &format!("{volume},{start},{bytes},{kind},{}.5\n", clock / 1_000_000);
        }
        for (text, format) in [
            (alibaba, Format::Alibaba),
            (tencent, Format::Tencent),
            (spc, Format::Spc),
        ] {
            let reader = std::io::Cursor::new(text.into_bytes());
            let trace = Trace::from_reader("t", reader, None, Options::default()).unwrap();
            prop_assert_eq!(trace.format(), format);
            let written = rows.iter().filter(|row| row.1).map(|row| row.3 * 8);
            let loaded = trace.load().unwrap();
            let sectors = loaded.requests.iter().filter(|r| r.op == Op::Write);
            let sectors: u64 = sectors.map(|r| u64::from(r.extent.sectors)).sum();
            let odd = u64::from(format == Format::Tencent);
            prop_assert_eq!(sectors, written.map(|w| w + odd).sum::<u64>());
        }
    }

    #[test]
    fn trace_shuffled_within_the_bound_is_sorted_and_noted(
        gaps in prop::collection::vec(0..1_000_000_000_u64, 2..200),
        swaps in prop::collection::vec((0..1_000_usize, 0..8_usize), 1..200),
    ) {
        let mut at = 5_000_000_000;
        let mut lines: Vec<(u64, u64)> = (0..).zip(&gaps).map(|(i, gap)| {
            at += gap + 1;
            (at, i)
        }).collect();
        let sorted = lines.clone();
        // Each line moves by at most eight places, which is less than ten seconds.
        for block in lines.chunks_mut(8) {
            for &(a, b) in &swaps {
                let len = block.len();
                block.swap(a % len, b % len);
            }
        }
        let text: String = lines.iter().map(|(at, i)| format!("{at},W,{},8,p\n", i * 8)).collect();
        let loaded = load(&text, None, Options::default()).unwrap();
        let read: Vec<(u64, u64)> = loaded.requests.iter()
            .map(|r| (r.at.0 + sorted[0].0, r.extent.start.0 / 8)).collect();
        prop_assert_eq!(&read, &sorted);
        let moved = lines != sorted;
        let said = loaded.notes.sentences().iter().any(|s| s.contains("sorted by time"));
        prop_assert_eq!(moved, said);
    }
}
