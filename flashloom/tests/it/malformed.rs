//! Malformed traces, plans and drives.

use crate::{Bench, trace};
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).expect("it is in memory");
    out.finish().expect("it is in memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).expect("it is in memory")
}

/// Malformed traces: name, format where the contents do not identify it, contents, and a part of
/// the error.
const TEXTS: &[(&str, &str, &str, &str)] = &[
    (
        "a.csv",
        "",
        "0,R,0,8,p\n9,R,zero,8,p\n",
        "a.csv:2: expected a first sector",
    ),
    (
        "a.csv",
        "",
        "0,R,0,8,p\n-9,R,0,8,p\n",
        "a.csv:2: expected a time",
    ),
    (
        "a.csv",
        "",
        "0,R,0,8,p\n9,R,0,-8,p\n",
        "a.csv:2: expected a number of sectors",
    ),
    ("a.csv", "", "0,R,0,8,p\n9,R,0", "a.csv:2: expected"),
    (
        "a.csv",
        "",
        "0,R,18446744073709551615,8,p\n",
        "a.csv:1: expected an address",
    ),
    (
        "a.csv",
        "",
        "0,R,0,18446744073709551616,p\n",
        "a.csv:1: expected",
    ),
    (
        "a.csv",
        "",
        "0,R,0,8,p\n99999999999999999,R,0,8,p\n",
        "a year of virtual time",
    ),
    (
        "a.csv",
        "",
        "0,R,0,8,p\n18446744073709551615,R,0,8,p\n",
        "a year of virtual",
    ),
    (
        "a.msr",
        "msr",
        "1,h,0,Read,0,512,1\n2,h,0,Read,x,512,1\n",
        "a.msr:2: expected",
    ),
    ("a.msr", "msr", "1,h,0,Read,0,-512,1\n", "a.msr:1: expected"),
    ("a.msr", "msr", "1,h,0,Read,0", "a.msr:1: expected"),
    (
        "a.mq",
        "mqsim",
        "1 0 0 8 0\n2 0 0 8 9\n",
        "a.mq:2: expected 0 for a write",
    ),
    ("a.mq", "mqsim", "1 0 0 -8 0\n", "a.mq:1: expected"),
    ("a.mq", "mqsim", "1 0 0", "a.mq:1: expected 5 numbers"),
    (
        "a.iolog",
        "fio",
        "fio version 2 iolog\nf fly 0 0\n",
        "a.iolog:2: expected",
    ),
    (
        "a.log",
        "fio",
        "fio version 9 iolog\n",
        "a.log:1: expected \"fio version 2",
    ),
    (
        "a.log",
        "fio",
        "fio version 2 iolog\nf write 0 -1\n",
        "a.log:2: expected",
    ),
    (
        "a.blk",
        "blkparse",
        "8,0 0 1 soon 1 Q W 0 + 8 [p]\n",
        "a.blk:1: expected",
    ),
    (
        "a.blk",
        "blkparse",
        "8,0 0 1 0.1 1 Q W 0 + -8 [p]\n",
        "a.blk:1: expected",
    ),
    (
        "a.ft",
        "ftrace",
        "p-1 [0] 1.0: block_rq_issue: x W 512 () 0 + 1 [p]",
        "a.ft:1:",
    ),
];

/// Malformed binary traces, with the same fields.
fn binaries() -> Vec<(&'static str, &'static str, Vec<u8>, &'static str)> {
    let good = trace(3_000).into_bytes();
    let (gz, zst) = (gzip(&good), zstd(&good));
    let junk: Vec<u8> = (0..4_000_u32).map(|i| ((i * i * 31) >> 3) as u8).collect();
    let mut magic = [0; 48];
    magic[..4].copy_from_slice(&0x6561_7407_u32.to_le_bytes());
    let short = magic[..20].to_vec();
    let other = [&magic[..], &[1; 48][..]].concat();
    vec![
        ("a.csv", "csv", junk.clone(), "a.csv:1: expected"),
        (
            "a.bin",
            "blktrace",
            other,
            "a.bin: at byte 48: expected the magic number",
        ),
        (
            "a.bin",
            "blktrace",
            short,
            "a.bin: at byte 0: expected a record of 48 bytes",
        ),
        (
            "a.bin",
            "blktrace",
            junk.clone(),
            "a.bin: at byte 0: expected the magic number",
        ),
        (
            "a.flb",
            "",
            b"flblock\x02".to_vec(),
            "a.flb: at byte 0: expected version 1 of binary block traces, found 2",
        ),
        (
            "a.flb",
            "",
            [b"flblock\x01", &junk[..]].concat(),
            "a.flb: byte 0 cannot be read",
        ),
        (
            "a.bin",
            "",
            junk,
            "a.bin: expected a trace in one of the formats",
        ),
        ("a.csv", "", Vec::new(), "a.csv: expected a trace"),
        ("a.csv.gz", "", gz[..gz.len() / 2].to_vec(), "a.csv.gz: "),
        (
            "a.csv.zst",
            "",
            zst[..zst.len() / 2].to_vec(),
            "a.csv.zst: ",
        ),
        ("a.csv.gz", "", gz[..12].to_vec(), "a.csv.gz: "),
        ("a.csv.zst", "", zst[..5].to_vec(), "a.csv.zst: "),
    ]
}

#[test]
fn bad_traces_are_refused_and_leave_nothing() {
    let texts = TEXTS
        .iter()
        .map(|&(name, format, text, told)| (name, format, text.into(), told));
    for (name, format, contents, told) in texts.chain(binaries()) {
        let bench = Bench::new();
        bench.write(name, contents);
        let format = match format {
            "" => String::new(),
            format => format!("--format {format}"),
        };
        let size = "--size 64MiB";
        bench.refuses(
            &format!("run raw@block --trace {name} {format} {size}"),
            &[told],
        );
        bench.refuses(
            &format!("compare {name} {format} {size} --stacks raw@fdp --preconditions fresh"),
            &[told],
        );
        if told.starts_with(name) {
            bench.write("out.csv", "as it was");
            bench.refuses(&format!("trace info {name} {format}"), &[told]);
            for out in ["out.csv", "new.csv"] {
                let line = format!("trace convert {name} {out} --to csv {format}");
                bench.refuses(&line, &[told]);
            }
        }
    }
}

#[test]
fn a_request_past_the_end_is_refused_unless_it_is_folded() {
    let bench = Bench::new();
    bench.write("far.csv", "0,W,0,8,p\n1000,R,131072,8,p\n");
    let line = "run raw@block --size 64MiB --trace far.csv";
    bench.refuses(&format!("{line}:fit=as-is"), &["request 2", "fit=wrap"]);
    bench.done(&format!("{line}:fit=wrap"));
}

#[test]
fn bad_plans_are_refused_with_their_line() {
    let good = "stacks = [\"raw@block\"]\nworkloads = [\"randread:ops=9\"]\nsize = \"64MiB\"\n";
    let cases = [
        (String::new(), "plan.toml:1: expected a list of stacks"),
        ("stacks = [".to_owned(), "plan.toml:1: "),
        (
            format!("{good}sedes = [1]"),
            "plan.toml:4: expected one of stacks",
        ),
        (format!("{good}seeds = [-1]"), "plan.toml:4: seeds: "),
        (format!("{good}seeds = []"), "plan.toml:4: seeds: "),
        (format!("{good}sample = \"soon\""), "plan.toml:4: sample: "),
        (
            format!("{good}drives = [\"tape\"]"),
            "plan.toml:4: expected a drive preset",
        ),
        (
            format!("{good}[overrides]\n\"geometry.channels\" = 0"),
            "channels is 0",
        ),
        (
            format!("{good}[host]\ncpu.cores = 0"),
            "plan.toml:5: host.cpu.cores",
        ),
        (
            format!("{good}[host]\ncpu.submit = \"9000000s\""),
            "plan.toml:5: host.cpu.submit",
        ),
        (good.replace("64MiB", "-1"), "plan.toml:3: size: "),
        (good.replace("64MiB", "0"), "plan.toml:"),
        (
            good.replace("raw@block", "raw@tape"),
            "plan.toml:1: raw@tape",
        ),
        (good.replace("randread", "randred"), "did you mean randread"),
        (good.replace("ops=9", "ops=0"), "ops: expected"),
    ];
    for (text, told) in cases {
        let bench = Bench::new();
        bench.write("plan.toml", &text);
        bench.refuses("compare plan.toml", &[told]);
    }
    let bench = Bench::new();
    bench.write("plan.toml", [0xff, 0xfe, 0]);
    bench.refuses("compare plan.toml", &["plan.toml: "]);
    bench.refuses("compare none.toml", &["none.toml: "]);
}

/// Drives that cannot be built, with a part of the error.
const DRIVES: &[(&str, &str)] = &[
    (
        "preset = \"block\"\n[geometry]\nchannels = 1\nchips_per_channel = 1\ndies_per_chip = 1\n\
         planes = 1\npage_bytes = 4096\npages_per_block = 1\npages_per_program = 1\n",
        "geometry.pages_per_block: 1 given",
    ),
    ("", "mine.toml:1: preset: expected one of block"),
    ("preset = \"tape\"", "mine.toml:1: preset"),
    (
        "preset = \"zns\"\n[zones]\ndies = 3",
        "zones.dies: 3 given, a divisor of the 16 dies expected",
    ),
    (
        "preset = \"block\"\ninterface = \"zoned\"",
        "a table [zones]",
    ),
    ("preset = 4", "mine.toml:1: preset"),
    (
        "preset = \"block\"\nchanels = 4",
        "mine.toml:2: chanels: unknown field",
    ),
    (
        "preset = \"block\"\n[geometry]\nchannels = \"four\"",
        "mine.toml:3: geometry.channels",
    ),
    (
        "preset = \"block\"\n[geometry]\nchannels = 0",
        "channels is 0",
    ),
    (
        "preset = \"block\"\n[geometry]\npages_per_block = 0",
        "pages_per_block is 0",
    ),
    (
        "preset = \"block\"\n[geometry]\nblocks_per_plane = 40",
        "no spare blocks",
    ),
    (
        "preset = \"block\"\n[geometry]\nblocks_per_plane = 4294967295",
        "256 TiB",
    ),
    (
        "preset = \"block\"\n[flash]\npart = \"tape\"",
        "there are z-nand",
    ),
    (
        "preset = \"block\"\n[flash.timing]\nread = \"9000000s\"",
        "flash.timing.read",
    ),
    (
        "preset = \"block\"\n[controller]\ncommand = \"9000000s\"",
        "controller.command",
    ),
    (
        "preset = \"block\"\n[wear]\nspare_blocks = 4294967295",
        "wear.spare_blocks",
    ),
    ("preset = \"block\"\ncapacity = -1", "mine.toml:2: capacity"),
    ("preset = \"block\"\ncapacity = 0", "capacity: 0 given"),
    (
        "preset = \"fdp\"\n[faults]\nfactory_bad_blocks = 2000000",
        "at most 1000000",
    ),
    (
        "preset = \"fdp\"\n[faults]\nread_passes = 4294967295",
        "faults.read_passes",
    ),
    ("preset = \"block\"\n[geometry\n", "mine.toml:2: "),
];

#[test]
fn bad_drives_are_refused_with_their_line() {
    for (text, told) in DRIVES {
        let bench = Bench::new();
        bench.write("mine.toml", text);
        let workload = "--workload randread:ops=9";
        bench.refuses(
            &format!("run raw@block {workload} --drive mine.toml"),
            &[told, "mine.toml:"],
        );
        bench.refuses(
            "drive create d.flash --preset mine.toml",
            &[told, "mine.toml:"],
        );
    }
}

#[test]
fn file_that_is_no_drive_is_rejected() {
    let bench = Bench::new();
    bench.done("drive create good.flash --size 64MiB");
    bench.write("in.img", vec![7; 1 << 20]);
    bench.done("drive import good.flash in.img");
    let good = bench.read("good.flash");
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let mut cases = vec![
        (Vec::new(), "d.flash: "),
        (
            b"FLASHLM\0".to_vec(),
            "d.flash: the drive file is cut short",
        ),
        (vec![9; 4_000], "d.flash: not a drive file"),
        ([&good[..], b"x"].concat(), "d.flash: "),
    ];
    cases.extend([1, 2, 100].map(|n| (good[..good.len() * n / 101].to_vec(), "cut short")));
    cases.extend(
        [0, 9, 13, 40, 900, good.len() / 2, good.len() - 2].map(|at| (flipped(at), "d.flash: ")),
    );
    for (contents, told) in cases {
        bench.write("d.flash", contents);
        for line in [
            "drive info d.flash",
            "drive smart d.flash",
            "drive export d.flash out.img",
            "drive export d.flash in.img",
            "drive import d.flash in.img",
            "run raw@block --workload randread:ops=9 --drive d.flash --save",
        ] {
            // A file without the magic of drive files is read as TOML.
            let words: &[&str] = if line.starts_with("drive") {
                &[told]
            } else {
                &["d.flash"]
            };
            bench.refuses(line, words);
        }
    }
}
