//! One excerpt of each format, compared request by request.

use super::load;
use workload::trace::{Action, Devices, Format, Loaded, Options};
use workload::{Op, Purpose, Request};

/// Summary of a request: time, operation, first sector, sectors, forced unit access.
type Short = (u64, Op, u64, u32, bool);

fn short(request: &Request) -> Short {
    let extent = request.extent;
    (
        request.at.0,
        request.op,
        extent.start.0,
        extent.sectors,
        request.fua,
    )
}

fn read(text: impl AsRef<[u8]>) -> Loaded {
    load(text, None, Options::default()).unwrap()
}

fn shorts(loaded: &Loaded) -> Vec<Short> {
    loaded.requests.iter().map(short).collect()
}

#[test]
fn csv_keeps_flags_and_processes() {
    let loaded = read(
        "time_ns,flags,sector,sectors,process\n\
         100,RAM,69896,8,db_bench\n\
         120,WS,4456448,8,db_bench\n\
         130,WSM,3932160,8,jbd2/loop0-8\n\
         140,FF,0,0,kworker/1:1H\n\
         150,NS,0,0,x\n\
         160,FWFS,16,8,a,b\n\
         155,DS,0,4096,sync\n",
    );
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 69896, 8, false),
            (20, Op::Write, 4456448, 8, false),
            (30, Op::Write, 3932160, 8, false),
            (40, Op::Flush, 0, 0, false),
            (55, Op::Trim, 0, 4096, false),
            (60, Op::Flush, 0, 0, false),
            (60, Op::Write, 16, 8, true),
        ]
    );
    let name = |i: usize| loaded.labels.name(loaded.requests[i].origin);
    assert_eq!(name(0), "db_bench (metadata)");
    assert_eq!(name(1), "db_bench");
    assert_eq!(name(2), "jbd2/loop0-8");
    assert_eq!(name(6), "a,b");
    let journal = loaded.requests[2].origin;
    assert_eq!(loaded.labels.purpose(journal), Purpose::Journal);
    assert_eq!((loaded.notes.skipped, loaded.notes.clock_went_back), (1, 1));
}

#[test]
fn msr_times_are_file_times_and_bounds_are_bytes() {
    let text = "128166372003061629,hm,0,Read,383496192,32768,113736\n\
                128166372016382155,hm,1,Write,2822144,4097,151\n";
    let loaded = load(text, Some(Format::Msr), Options::default()).unwrap();
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Read, 749016, 64, false),
            (1_332_052_600, Op::Write, 5512, 9, false),
        ]
    );
    assert_eq!(loaded.notes.widened, 1);
    assert_eq!(loaded.labels.name(loaded.requests[0].origin), "hm");
}

#[test]
fn mqsim_devices_can_be_kept_together_apart_or_chosen() {
    let text = "938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n938944000 4 8 32 0\n";
    let starts = |devices: &str| {
        let devices: Devices = devices.parse().unwrap();
        let options = Options {
            devices,
            ..Options::default()
        };
        let loaded = load(text, None, options).unwrap();
        let starts = loaded.requests.iter().map(|r| r.extent.start.0);
        (starts.collect::<Vec<_>>(), loaded.notes.other_devices)
    };
    assert_eq!(starts("together"), (vec![264719034, 197570570, 8], 0));
    assert_eq!(starts("3"), (vec![197570570], 2));
    let tib = 1 << 31;
    assert_eq!(
        starts("apart:1TiB"),
        (vec![264719034, tib + 197570570, 8], 0)
    );
    assert_eq!(read(text).requests[1].op, Op::Read);
}

#[test]
fn fio_logs_have_waits_or_times() {
    let two = read(
        "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 4096 4096\n\
         /dev/a wait 250 0\n/dev/a write 0 512\n/dev/a sync 0 0\n/dev/a close\n",
    );
    assert_eq!(
        shorts(&two),
        [
            (0, Op::Read, 8, 8, false),
            (250_000, Op::Write, 0, 1, false),
            (250_000, Op::Flush, 0, 0, false),
        ]
    );
    let three = read(
        "fio version 3 iolog\n5 f add\n7 f open\n10 f trim 0 1048576\n25 f datasync\n30 f close\n",
    );
    assert_eq!(
        shorts(&three),
        [
            (0, Op::Trim, 0, 2048, false),
            (15_000, Op::Flush, 0, 0, false)
        ]
    );
    assert_eq!(three.labels.name(three.requests[0].origin), "f");
}

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197   697  P   N [kjournald]
  8,0    3        4     0.000004000   697  D   W 223490 + 8 [kjournald]
  8,0    1        5     1.5           701  Q FWS [a [b] c]
  8,0    1        6     1.600000000   701  Q  RM 0 + 16 [ls]
CPU3 (8,0):
 Reads Queued:           1,        8KiB
";

#[test]
fn blkparse_text_is_read_up_to_its_summary() {
    let loaded = read(BLKPARSE);
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 223490, 8, false),
            (1_500_000_000, Op::Flush, 0, 0, false),
            (1_600_000_000, Op::Read, 0, 16, false),
        ]
    );
    assert_eq!(loaded.labels.name(loaded.requests[1].origin), "a [b] c");
    let options = Options {
        action: Action::Issued,
        ..Options::default()
    };
    assert_eq!(load(BLKPARSE, None, options).unwrap().requests.len(), 1);
}

#[test]
fn ftrace_text_is_read_among_other_events() {
    let loaded = read(
        "# tracer: nop\n#\n\
         CPU:1 [LOST 7 EVENTS]\n\
         kworker/u8:0-11 [001] ..... 41.000100: block_rq_insert: 7,0 W 4096 () 8 + 8 none,0,0 [x]\n\
         kworker/u8:0-11 [001] ..... 41.000200: block_rq_issue: 7,0 WS 4096 () 1234 + 8 none,0,0 [db bench]\n\
         <idle>-0 [000] d.h.. 41.000300: block_rq_issue: 7,0 FF 0 () 0 + 0 [kworker/1:1H]\n",
    );
    assert_eq!(
        shorts(&loaded),
        [
            (0, Op::Write, 1234, 8, false),
            (100_000, Op::Flush, 0, 0, false)
        ]
    );
    assert_eq!(loaded.labels.name(loaded.requests[0].origin), "db bench");
    assert_eq!(loaded.notes.lost, 1);
}

/// Record of `blk_io_trace`, laid out by hand.
pub(crate) fn record(
    big: bool,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pdu: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |value: u64, length: usize| {
        let bytes = value.to_be_bytes();
        let mut bytes = bytes[8 - length..].to_vec();
        if !big {
            bytes.reverse();
        }
        out.extend(bytes);
    };
    put(0x6561_7407, 4);
    put(1, 4);
    put(time, 8);
    put(sector, 8);
    put(u64::from(bytes), 4);
    put(u64::from(action), 4);
    put(42, 4);
    put(8 << 20, 4);
    put(0, 4);
    put(0, 2);
    put(pdu.len() as u64, 2);
    out.extend(pdu);
    out
}

#[test]
fn blktrace_records_are_read_in_either_byte_order() {
    let (queue, issue) = (1, 7);
    let category = |bits: &[u32]| bits.iter().map(|b| 1 << (16 + b)).sum::<u32>();
    for big in [false, true] {
        let file = [
            record(big, 0, 0, 0, category(&[10]), b"fsync-tester\0\0\0\0"),
            record(big, 10, 800, 4096, category(&[1, 3, 15]) | queue, b"xy"),
            record(big, 12, 800, 4096, category(&[1]) | issue, b""),
            record(big, 20, 0, 0, category(&[2]) | queue, b""),
            record(big, 30, 64, 65536, category(&[13, 1]) | queue, b""),
            record(
                big,
                40,
                64,
                512,
                category(&[0, 12]) | queue | 1 << 8,
                b"cgroupid",
            ),
        ]
        .concat();
        let loaded = read(&file);
        assert_eq!(
            shorts(&loaded),
            [
                (0, Op::Write, 800, 8, true),
                (10, Op::Flush, 0, 0, false),
                (20, Op::Trim, 64, 128, false),
                (30, Op::Read, 64, 1, false),
            ]
        );
        let last = loaded.requests[3].origin;
        assert_eq!(loaded.labels.name(last), "fsync-tester (metadata)");
    }
}

#[test]
fn compressed_file_is_opened_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv.zst");
    std::fs::write(&path, zstd::encode_all(&b"0,R,0,8,p\n"[..], 3).unwrap()).unwrap();
    let trace = workload::trace::Trace::open(&path, None, Options::default()).unwrap();
    assert_eq!(trace.format(), Format::Csv);
    assert_eq!(trace.count(), 1);
}
