//! Traces in published formats: excerpts by their public descriptions, request by request.

use super::load;
use proptest::prelude::*;
use units::{Bytes, Ns};
use workload::trace::{Action, Columns, Devices, Format, Loaded, Options, Trace};
use workload::{Op, Request};

fn read(bytes: impl AsRef<[u8]>, expected: Format) -> Loaded {
    let reader = std::io::Cursor::new(bytes.as_ref().to_vec());
    let trace = Trace::from_reader("t", reader, None, Options::default());
    let trace = trace.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(trace.format(), expected);
    trace.load().unwrap_or_else(|e| panic!("{e}"))
}

fn refusal(bytes: impl AsRef<[u8]>, format: Option<Format>) -> String {
    load(bytes, format, Options::default())
        .unwrap_err()
        .to_string()
}

/// Time in nanoseconds, operation, first sector, sectors, name of the origin.
fn shorts(loaded: &Loaded) -> Vec<(u64, Op, u64, u32, &str)> {
    let short = |r: &Request| {
        let (extent, name) = (r.extent, loaded.labels.name(r.origin));
        (r.at.0, r.op, extent.start.0, extent.sectors, name)
    };
    loaded.requests.iter().map(short).collect()
}

/// Sectors of the pieces into which devices are packed.
const GIB: u64 = 1 << 21;

#[test]
fn systor_has_seconds_and_bytes_and_leaves_out_unanswered_requests() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1455592506.010202000,0.000512,R,2,4096,8192\n\
                1455592506.010203000,,,2,8192,512\n\
                1455592507.510202000,0.000512,W,0,512,512\n";
    let loaded = read(text, Format::Systor);
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 8, 16, "2"),
            (1_500_000_000, Op::Write, GIB + 1, 1, "0"),
        ]
    );
    assert_eq!(loaded.notes.skipped, 1);
    let bare = text.split_once('\n').unwrap().1;
    assert_eq!(read(bare, Format::Systor).requests, loaded.requests);
}

#[test]
fn fiu_has_nanoseconds_and_sectors_and_names_with_spaces() {
    let loaded = read(
        "89966100321654 4892 syslogd 904265560 8 W 6 0 2c8c6d3ef8d1d4f0abcdefabcdefabcd\n\
         89966100322654 20 a b 8 16 R 6 1\n",
        Format::Fiu,
    );
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 904_265_560, 8, "syslogd"),
            (1_000, Op::Read, 8, 16, "a b"),
        ]
    );
    assert_eq!(loaded.notes.devices, 2);
}

#[test]
fn cloudphysics_tables_have_two_forms() {
    let scsi = "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,8\n\
                1,5633899,12,0,0\n1,5633900,35,0,0\n";
    let loaded = read(scsi, Format::CloudPhysics);
    let second = 1_000_000_000;
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 42_932_745, 1, "unnamed"),
            (second, Op::Read, 8, 8, "unnamed"),
            (2 * second, Op::Flush, 0, 0, "unnamed"),
        ]
    );
    assert_eq!(loaded.notes.skipped, 1);
    let bare = scsi.split_once('\n').unwrap().1;
    assert_eq!(read(bare, Format::CloudPhysics).requests, loaded.requests);
    let table = read(
        "5633898146,42932745,w,512\n5633898146,8,r,4096\n",
        Format::CloudPhysics,
    );
    assert_eq!(table.requests[1].extent.sectors, 8);
}

/// A record of vscsi, of either version.
fn vscsi(version: u16, command: u16, length: u32, sector: u64, micros: u64) -> Vec<u8> {
    let head: [&[u8]; 2] = [&command.to_le_bytes(), &(version << 8).to_le_bytes()];
    let numbers = [7, length, 1].map(u32::to_le_bytes).concat();
    let place = [sector, micros].map(u64::to_le_bytes).concat();
    match version {
        1 => [numbers, head.concat(), place].concat(),
        _ => [head.concat(), numbers, place, vec![9; 8]].concat(),
    }
}

#[test]
fn vscsi_of_both_versions_has_microseconds_bytes_and_scsi_operations() {
    for version in [1, 2] {
        let file = [
            vscsi(version, 0x2a, 512, 42_932_745, 5_633_898_146),
            vscsi(version, 0x28, 6_656, 8, 5_633_898_148),
            vscsi(version, 0x12, 512, 0, 5_633_898_149),
            vscsi(version, 0x35, 0, 0, 5_633_898_150),
        ]
        .concat();
        let loaded = read(&file, Format::Vscsi);
        assert_eq!(
            shorts(&loaded),
            [
                (0, Op::Write, 42_932_745, 1, "unnamed"),
                (2_000, Op::Read, 8, 13, "unnamed"),
                (4_000, Op::Flush, 0, 0, "unnamed"),
            ]
        );
        assert_eq!(loaded.notes.skipped, 1);
        let cut = refusal(&file[..file.len() - 3], Some(Format::Vscsi));
        assert!(cut.contains("bytes, but the file ends within it"), "{cut}");
        let mut wrong = file.clone();
        let last = file.len() - file.len() / 4;
        wrong[last..last + 16].fill(0);
        let told = refusal(&wrong, Some(Format::Vscsi));
        assert!(told.ends_with(&format!("expected version {version} of the vscsi record")));
    }
}

fn oracle(seconds: u32, id: u64, size: u32, next: i64) -> Vec<u8> {
    let (at, size) = (seconds.to_le_bytes(), size.to_le_bytes());
    [&at[..], &id.to_le_bytes(), &size, &next.to_le_bytes()].concat()
}

#[test]
fn oracle_has_seconds_and_reads_and_refuses_implausible_records() {
    let file = [
        oracle(5_633_898, 42_932_745, 512, 3),
        oracle(5_633_899, 8, 4_096, -1),
        oracle(5_633_899, 64, 8_192, i64::MAX),
    ]
    .concat();
    let loaded = read(&file, Format::Oracle);
    let second = 1_000_000_000;
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 42_932_745, 1, "unnamed"),
            (second, Op::Read, 8, 8, "unnamed"),
            (second, Op::Read, 64, 16, "unnamed"),
        ]
    );
    let back = [oracle(9, 8, 512, 5), oracle(8, 8, 512, -1)].concat();
    let past = [oracle(9, 8, 512, 5), oracle(9, 8, 512, 1)].concat();
    for file in [back, past, vec![0; 96]] {
        assert!(load(&file, None, Options::default()).is_err());
    }
    let objects = refusal(oracle(9, 7, 100, -1), None);
    assert_eq!(
        objects,
        "t: expected a trace of blocks, found objects whose sizes are no multiples of 512 bytes, in \
         the format oracle (--format oracle reads them so all the same)"
    );
}

#[test]
fn disksim_has_milliseconds_and_flags() {
    let loaded = read(
        "0.000123 0 1234567 8 1\n1.5 2 16 4 0\n2.000000 0 0 1 3\n",
        Format::DiskSim,
    );
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 1_234_567, 8, "unnamed"),
            (1_499_877, Op::Write, 16, 4, "unnamed"),
            (1_999_877, Op::Read, 0, 1, "unnamed"),
        ]
    );
    assert_eq!(loaded.notes.devices, 2);
    assert_eq!(
        refusal("0.5 0 8 8 x\n", None),
        "t:1: expected hexadecimal flags in column 5, found \"0.5 0 8 8 x\""
    );
}

const BIOSNOOP: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
0.000000    kworker/23:1   9126           R 18446744073709551615 0         0.61
1.774198    Web Content    5270   nvme0n1 W 520198144  225280    0.48
1.774198    ?              0              R 0          512       0.21
1.774381    jbd2/nvme0n1p3 686    nvme0n1 W 490161296  65536     0.03
";

#[test]
fn biosnoop_has_times_of_completion_and_names_with_spaces() {
    let loaded = read(BIOSNOOP, Format::Biosnoop);
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 520_198_144, 440, "Web Content"),
            (270_000, Op::Read, 0, 1, "?"),
            (633_000, Op::Write, 490_161_296, 128, "jbd2/nvme0n1p3"),
        ]
    );
    assert_eq!((loaded.notes.skipped, loaded.notes.devices), (1, 2));
    let queued = "0.5 a 7 sda R 8 4096 0.25 1.00\n0.6 b 8 sda W 16 512 0.1 0.50\n";
    let loaded = read(queued, Format::Biosnoop);
    assert_eq!(shorts(&loaded)[1], (100_500_000, Op::Write, 16, 1, "b"));
}

#[test]
fn perf_and_trace_cmd_are_read_as_ftrace() {
    let perf = "fio 12345 [001] 1234.567: block:block_bio_queue: 8,0 W 2048 + 16 [fio]\n\
                fio 12345 [001] 1234.568: block:block_rq_issue: 8,0 W 8192 () 2048 + 16 [fio]\n\
                swapper 0 [001] 1234.58: block:block_rq_complete: 8,0 W () 2048 + 16 [0]\n";
    let loaded = read(perf, Format::Perf);
    assert_eq!(shorts(&loaded), [(0, Op::Write, 2048, 16, "fio")]);
    let only = |word: &str| {
        let lines: Vec<&str> = perf.lines().filter(|line| line.contains(word)).collect();
        let loaded = read(lines.join("\n"), Format::Perf);
        loaded.labels.name(loaded.requests[0].origin).to_owned()
    };
    assert_eq!(
        (only("queue"), only("complete")),
        ("fio".to_owned(), "unnamed".to_owned())
    );
    let trace_cmd = "cpus=8\n  jbd2/sda6-8-234   [002]  3771.2374: block_rq_issue:       8,0 WS 4096 \
                     () 298927464 + 8 [jbd2/sda6-8]\nCPU:2 [12 EVENTS DROPPED]\n";
    let loaded = read(trace_cmd, Format::TraceCmd);
    assert_eq!(
        shorts(&loaded),
        [(0, Op::Write, 298_927_464, 8, "jbd2/sda6-8")]
    );
    assert_eq!(loaded.notes.lost, 1);
    let options = Options {
        action: Action::Queued,
        ..Options::default()
    };
    assert!(load(trace_cmd, None, options).unwrap().requests.is_empty());
}

fn table(text: &str, columns: &str) -> Result<Loaded, String> {
    let options = Options {
        columns: Some(columns.parse().unwrap()),
        ..Options::default()
    };
    load(text, None, options).map_err(|e| e.to_string())
}

#[test]
fn tables_are_read_by_their_columns() {
    let loaded = table(
        "when;what;where;how much;who\n1.5;write;8;4;db\n1.75;R;0;8;log\n2;flush;0;0;db\n",
        "time_ms,op,offset_kib,size_kib,volume",
    )
    .unwrap();
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 16, 8, "db"),
            (250_000, Op::Read, GIB, 16, "log"),
            (500_000, Op::Flush, 0, 0, "db"),
        ]
    );
    let words = table(
        "7 x 1 512 1024 p\n",
        "time_ns,-,op_1read,offset_bytes,size_bytes,process",
    );
    assert_eq!(shorts(&words.unwrap()), [(0, Op::Read, 1, 2, "p")]);
    let list = "time_us,op,sector,sectors";
    assert_eq!(
        table("1,R,0,8\n2,R,0\n", list).unwrap_err(),
        "t:2: expected 4 columns time_us,op,sector,sectors, found \"2,R,0\""
    );
    assert_eq!(
        table("1,Q,0,8\n", list).unwrap_err(),
        "t:1: expected an operation such as R, W, read, write, trim or flush in column 2, found \
         \"1,Q,0,8\""
    );
}

#[test]
fn tenants_have_their_own_parts_and_are_origins() {
    let options = Options {
        devices: Devices::Tenants,
        ..Options::default()
    };
    let msr = "128166372003061629,hm,0,Read,0,512,1\n128166372003061729,hm,1,Write,0,512,1\n";
    let loaded = load(msr, None, options).unwrap();
    let named: Vec<_> = shorts(&loaded)
        .iter()
        .map(|short| (short.2, short.4))
        .collect();
    assert_eq!(named, [(0, "hm_0"), (GIB, "hm_1")]);
    let kernel = "8,0 1 1 0.0 7 Q W 8 + 8 [a]\n259,3 1 1 0.1 7 Q WM 8 + 8 [a]\n";
    let loaded = load(kernel, None, options).unwrap();
    let named: Vec<_> = shorts(&loaded)
        .iter()
        .map(|short| (short.2, short.4))
        .collect();
    assert_eq!(named, [(8, "8,0"), (GIB + 8, "259,3")]);
    let columns = "time_ns,op,sector,sectors,volume,process";
    let options = Options {
        columns: Some(columns.parse().unwrap()),
        ..options
    };
    // A volume of the number 0 is not the first one with a name.
    let volumes = "1 R 0 8 root p\n2 R 8 8 0 p\n3 W 16 8 root q\n";
    let loaded = load(volumes, None, options).unwrap();
    let named: Vec<_> = shorts(&loaded)
        .iter()
        .map(|short| (short.2, short.4))
        .collect();
    assert_eq!(named, [(0, "root"), (GIB + 8, "0"), (16, "root")]);
}

/// `0,R,0,8,p` and a line end, by `xz -0`.
const XZ: [u8; 68] = [
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x0c, 0x00, 0x00, 0x00, 0x8f, 0x98, 0x41, 0x9c, 0x01, 0x00, 0x09, 0x30, 0x2c, 0x52, 0x2c, 0x30,
    0x2c, 0x38, 0x2c, 0x70, 0x0a, 0x00, 0x00, 0x00, 0x39, 0xbf, 0x4e, 0x96, 0xdd, 0xb0, 0x71, 0xc1,
    0x00, 0x01, 0x22, 0x0a, 0x15, 0x1a, 0xe1, 0x67, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x04, 0x59, 0x5a,
];

#[test]
fn xz_is_read_as_plain_contents() {
    assert_eq!(read(XZ, Format::Csv).requests.len(), 1);
    let cut = &XZ[..XZ.len() / 2];
    assert!(refusal(cut, None).starts_with("t: the beginning cannot be read: "));
}

proptest! {
    #[test]
    fn written_records_are_detected_and_keep_their_requests(
        rows in prop::collection::vec(
            (any::<bool>(), 0..1_u64 << 40, 1..256_u32, 0..1_000_u64), 1..40),
        version in 1..3_u16,
    ) {
        let (mut clock, mut files) = (5_633_898_146, [Vec::new(), Vec::new()]);
        let mut texts: [String; 5] = Default::default();
        for (turn, &(write, start, sectors, gap)) in (1..).zip(&rows) {
            clock += gap;
            let (command, kind) = if write { (0x2a, 'W') } else { (0x28, 'R') };
            let bytes = sectors * 512;
            files[0].extend(vscsi(version, command, bytes, start, clock));
            files[1].extend(oracle(clock as u32 / 1_000_000, start, bytes, turn));
            let seconds = 1_500_000_000 + clock / 1_000_000;
            texts[0] += &format!("{seconds}.5,0.1,{kind},3,{},{bytes}\n", start * 512);
            texts[1] += &format!("{clock} 7 p q {start} {} {kind} 6 0 d41d8cd9\n", 1 + sectors * 2);
            texts[2] += &format!("{clock},{start},{kind},{bytes}\n");
            texts[3] += &format!("{}.5 0 {start} {} {}\n", clock / 1_000, 1 + sectors * 2,
                u8::from(!write));
            texts[4] += &format!("{}.5 p q 7 sda {kind} {start} {bytes} 0.1\n", clock / 1_000_000);
        }
        let formats = [
            Format::Systor, Format::Fiu, Format::CloudPhysics, Format::DiskSim, Format::Biosnoop,
        ];
        let texts = texts.map(String::into_bytes).into_iter().zip(formats);
        let [scsi, objects] = files;
        let all = [(scsi, Format::Vscsi), (objects, Format::Oracle)].into_iter().chain(texts);
        for (contents, format) in all {
            let loaded = read(contents, format);
            prop_assert_eq!(loaded.requests.len(), rows.len());
            let writes = loaded.requests.iter().filter(|r| r.op == Op::Write).count();
            let written = rows.iter().filter(|row| row.0).count();
            prop_assert_eq!(writes, if format == Format::Oracle { 0 } else { written });
        }
    }

    #[test]
    fn random_tables_never_panic(
        text in "[0-9RWrw,;. \\-\n]{0,200}",
        list in "(time_s|time_ns|op|op_0read|sector|sectors|size_bytes|volume|-|,){0,9}",
    ) {
        let options = list.parse::<Columns>().map(|columns| Options {
            columns: Some(columns),
            ..Options::default()
        });
        let _ = load(&text, None, options.unwrap_or_default());
    }
}

/// Requests of the workload `text` on a drive of `capacity`.
fn stream(text: &str, capacity: Bytes) -> Result<Vec<(Ns, u64)>, String> {
    let workload = workload::Workload::parse(text).map_err(|e| e.to_string())?;
    let stream = workload
        .open(capacity, sim::Seed(1))
        .map_err(|e| e.to_string())?;
    let short = |request: Result<Request, _>| match request {
        Ok(request) => Ok((request.at, request.extent.start.0)),
        Err(e) => Err(workload::trace::TraceError::to_string(&e)),
    };
    stream.map(short).collect()
}

#[test]
fn workload_of_a_trace_takes_speed_range_compaction_and_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    let text = "0 R 0 4096\n1000 W 1073741824 4096\n2000 W 4096 512\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let columns = "columns=time_ns/op/offset_bytes/size_bytes";
    let told = |params: &str, size: u64| {
        stream(&format!("{path}:{columns}{params}"), Bytes(size)).map(|all| {
            all.into_iter()
                .map(|(at, start)| (at.0, start))
                .collect::<Vec<_>>()
        })
    };
    let whole = vec![(0, 0), (1_000, 2_097_152), (2_000, 8)];
    assert_eq!(told("", 1 << 40), Ok(whole));
    assert_eq!(told(",speed=0.5", 1 << 40).unwrap()[2], (4_000, 8));
    let late = told(",speed=0.000001,repeat=3", 1 << 40).unwrap();
    assert_eq!(late.last(), Some(&(6_000_000_000, 8)));
    std::fs::write(
        format!("{path}.late"),
        "0 R 0 512\n99999999999999 R 0 512\n",
    )
    .unwrap();
    let late = stream(
        &format!("{path}.late:{columns},speed=0.000001"),
        Bytes(1 << 20),
    );
    let late = late.unwrap_err();
    assert!(late.ends_with("584 years, found speed=0.000001"), "{late}");
    assert_eq!(
        told(",range=1k-1GiB", 1 << 40),
        Ok(vec![(0, 0), (2_000, 6)])
    );
    let twice = told(",compact=first-touch,repeat=2", 1 << 20);
    let places = [0, 128, 8, 0, 128, 8];
    assert_eq!(
        twice.unwrap().iter().map(|r| r.1).collect::<Vec<_>>(),
        places
    );
    assert_eq!(
        told(",compact=first-touch", 1 << 16).unwrap_err(),
        format!(
            "{path}: expected a trace that uses at most the 64 KiB of the drive in pieces of 64 KiB, \
             found more than 64 KiB"
        )
    );
    let unknown = stream(
        &format!("{path}:columns=time_ns/op/offset_bytes"),
        Bytes(1 << 20),
    );
    assert!(
        unknown
            .unwrap_err()
            .contains("one time, one operation, one offset and one size")
    );
}
