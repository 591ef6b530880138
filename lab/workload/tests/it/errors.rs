//! Error messages about invalid traces, word for word.

use super::load;
use super::readers::record;
use workload::trace::{Format, Options, Trace};

fn refusal(format: Format, bytes: impl AsRef<[u8]>) -> String {
    let error = load(bytes, Some(format), Options::default()).unwrap_err();
    error.to_string()
}

#[test]
fn csv() {
    let cases = [
        (
            "0,R,0,8,p\nx,R,0,8,p\n",
            "t:2: expected a time in nanoseconds in column 1, found \"x,R,0,8,p\"",
        ),
        (
            "7",
            "t:1: expected 5 columns time_ns,flags,sector,sectors,process, found \"7\"",
        ),
        (
            "0,Q,0,8,p",
            "t:1: expected kernel request flags such as R, WS, D or FF, found \"0,Q,0,8,p\"",
        ),
        (
            "0,R,-1,8,p",
            "t:1: expected a first sector in column 3, found \"0,R,-1,8,p\"",
        ),
        (
            "0,R,0,,p",
            "t:1: expected a number of sectors in column 4, found \"0,R,0,,p\"",
        ),
        (
            "0,R,0,8",
            "t:1: expected a process in column 5, found \"0,R,0,8\"",
        ),
        (
            "0,W,0,524289,p",
            "t:1: expected a request of at most 524288 sectors, found \"0,W,0,524289,p\"",
        ),
        (
            "0,D,18014398509481984,1,p",
            "t:1: expected an address below 16 PiB, found \"0,D,18014398509481984,1,p\"",
        ),
    ];
    for (text, told) in cases {
        assert_eq!(refusal(Format::Csv, text), told);
    }
}

#[test]
fn msr_and_mqsim() {
    assert_eq!(
        refusal(Format::Msr, "1,h,0,Erase,0,512,1"),
        "t:1: expected Read or Write in column 4, found \"1,h,0,Erase,0,512,1\""
    );
    assert_eq!(
        refusal(Format::Msr, "999999999999999999,h,0,Read,0,512,1"),
        "t:1: expected a file time below the year 2185 in column 1, \
         found \"999999999999999999,h,0,Read,0,512,1\""
    );
    assert_eq!(
        refusal(Format::Msr, "1,h,0,Read,18446744073709551615,512,1"),
        "t:1: expected a range of bytes that ends below 2^64, \
         found \"1,h,0,Read,18446744073709551615,512,1\""
    );
    assert_eq!(
        refusal(Format::Mqsim, "1 0 0 8 2"),
        "t:1: expected 0 for a write or 1 for a read in column 5, found \"1 0 0 8 2\""
    );
    assert_eq!(
        refusal(Format::Mqsim, "\n1 0 0 8\n"),
        "t:2: expected 5 numbers: time in ns, device, first sector, sectors, 0 or 1, \
         found \"1 0 0 8\""
    );
}

#[test]
fn fio() {
    assert_eq!(
        refusal(Format::Fio, "fio version 1 iolog\n"),
        "t:1: expected \"fio version 2 iolog\" or \"fio version 3 iolog\", \
         found \"fio version 1 iolog\""
    );
    assert_eq!(
        refusal(Format::Fio, "fio version 2 iolog\nf fly 0 0\n"),
        "t:2: expected an action add, open, close, read, write, trim, sync, datasync or wait, \
         found \"f fly 0 0\""
    );
    assert_eq!(
        refusal(Format::Fio, "fio version 3 iolog\n5 f wait 3\n"),
        "t:2: expected no wait, which version 3 replaces by times, found \"5 f wait 3\""
    );
}

#[test]
fn kernel_text() {
    assert_eq!(
        refusal(Format::Blkparse, "8,0 0 1 soon 1 Q W 0 + 8 [p]"),
        "t:1: expected a time in seconds in column 4, found \"8,0 0 1 soon 1 Q W 0 + 8 [p]\""
    );
    assert_eq!(
        refusal(Format::Blkparse, "8,0 0 1 1.0 1 Q W 0 8 [p]"),
        "t:1: expected sector + count, found \"8,0 0 1 1.0 1 Q W 0 8 [p]\""
    );
    assert_eq!(
        refusal(
            Format::Ftrace,
            "p-1 [0] 1.0: block_rq_issue: seven W 512 () 0 + 1 [p]"
        ),
        "t:1: expected a device major,minor after block_rq_issue, \
         found \"p-1 [0] 1.0: block_rq_issue: seven W 512 () 0 + 1 [p]\""
    );
}

#[test]
fn binary_records() {
    let whole = record(false, 0, 0, 512, 1 << 16 | 1, b"");
    let truncated = [whole.clone(), whole[..20].to_vec()].concat();
    assert_eq!(
        refusal(Format::Blktrace, truncated),
        "t: at byte 48: expected a record of 48 bytes, but the file ends within it"
    );
    let mut old = whole.clone();
    old[0] = 6;
    assert_eq!(
        refusal(Format::Blktrace, old),
        "t: at byte 0: expected version 7 of the blktrace record"
    );
    assert_eq!(
        refusal(Format::Blktrace, [whole, vec![0; 48]].concat()),
        "t: at byte 48: expected the magic number 0x656174 of a blktrace record"
    );
}

#[test]
fn contents_that_are_no_trace() {
    let told = |bytes: &[u8]| {
        load(bytes, None, Options::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        told(b"hello"),
        "t: expected a trace in one of the formats csv, msr, mqsim, fio, blktrace, blkparse, \
         ftrace, perf, trace-cmd, biosnoop, alibaba, tencent, spc, systor, fiu, cloudphysics, \
         vscsi, disksim, oracle, flb, found none of them in \"hello\"; if it is one of these, name \
         its format with --format"
    );
    let long = [b"0,R,0,8,".to_vec(), vec![b'x'; 70_000]].concat();
    assert_eq!(
        told(&long),
        "t: line 1 cannot be read: it is longer than 65536 bytes"
    );
    assert!(told(b"\x1f\x8b\x08nonsense").starts_with("t: the beginning cannot be read: "));
    let missing = Trace::open("/nowhere/t.csv", None, Options::default());
    assert_eq!(
        missing.err().unwrap().to_string(),
        "/nowhere/t.csv: the file cannot be read: No such file or directory (os error 2)"
    );
}
