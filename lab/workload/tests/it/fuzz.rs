//! Random bytes against every parser: no panic, no hang, and the size of the result is bounded by
//! that of the input.

use super::load;
use bolero::TypeGenerator;
use sim::Seed;
use units::{Bytes, Ns};
use workload::Workload;
use workload::jobs::Next;
use workload::trace::{Format, MAX_ADDRESS, Options, Summary};

/// Words of the formats, so that random input gets past the first column.
const WORDS: [&str; 58] = [
    "0",
    "1",
    "8",
    "512",
    "4096",
    "18446744073709551615",
    "524289",
    "1.5",
    ",",
    " ",
    "\n",
    "R",
    "W",
    "FF",
    "WFS",
    "D",
    "N",
    "ZR",
    "+",
    "[p]",
    "[",
    "]",
    "8,0",
    "Q",
    "Read",
    "Write",
    "read",
    "write",
    "trim",
    "wait",
    "sync",
    "f",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    ": block_rq_issue: ",
    "()",
    "CPU:0 LOST",
    "# x",
    "\r\n",
    "time_ns,flags",
    "ZAS",
    "WZ",
    "ZRA",
    "1600000000",
    "1600000000000100",
    "7,W,4096,512,99\n",
    "1600000000,8,8,1,7\n",
    "0,8,512,r,0.5\n",
    "block:block_rq_issue: ",
    "block_bio_queue: ",
    "TIME(s) COMM",
    "version,time,op,size,lbn\n",
    "1,7,2a,512,8\n",
    "7,8,w,512\n",
    "1455592506.010202000,0.1,R,2,4096,512\n",
    "89966100321654 4892 p 904265560 8 W 6 0 2c8c\n",
    "0.5 0 8 8 1\n",
    "0.5 p 7 sda W 8 512 0.1\n",
];

#[derive(Debug, TypeGenerator)]
struct Input {
    words: Vec<u8>,
    tail: Vec<u8>,
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let words = self
            .words
            .iter()
            .map(|&w| WORDS[usize::from(w) % WORDS.len()]);
        let mut bytes = words.collect::<String>().into_bytes();
        bytes.extend(&self.tail);
        bytes
    }
}

fn survive(format: Option<Format>, bytes: &[u8]) {
    let Ok(loaded) = load(bytes, format, Options::default()) else {
        return;
    };
    // A line with a preflush makes two requests, and every line has more bytes than that.
    assert!(loaded.requests.len() <= bytes.len());
    assert!(loaded.requests.is_sorted_by_key(|r| r.at));
    assert!(
        loaded
            .requests
            .iter()
            .all(|r| r.extent.end() <= MAX_ADDRESS)
    );
    Summary::of(loaded.requests, &loaded.labels);
}

#[test]
fn random_words_in_any_format_never_panic() {
    bolero::check!()
        .with_type::<Input>()
        .with_iterations(5_000)
        .for_each(|input| {
            let bytes = input.bytes();
            survive(None, &bytes);
            Format::ALL
                .into_iter()
                .for_each(|f| survive(Some(f), &bytes));
        });
}

#[test]
fn random_bytes_behind_each_magic_never_panic() {
    bolero::check!()
        .with_iterations(5_000)
        .for_each(|tail: &[u8]| {
            let magics: [&[u8]; 9] = [
                b"",
                b"\x07tae",
                b"eat\x07",
                b"flblock\x01",
                b"\x1f\x8b\x08\0",
                b"\x28\xb5\x2f\xfd",
                b"\xfd7zXZ\0\0\x04",
                b"\x2a\0\0\x02\x07\0\0\0\0\x02\0\0",
                b"\x01\0\0\0\x08\0\0\0\0\0\0\0\0\x02\0\0",
            ];
            for magic in magics {
                survive(None, &[magic, tail].concat());
            }
        });
}

#[test]
fn damaged_binary_trace_never_panics() {
    bolero::check!()
        .with_type::<(u8, u8, u8)>()
        .with_iterations(3_000)
        .for_each(|&(place, value, end)| {
            let one = super::readers::record(false, 5, 64, 4096, 2 << 16 | 1, b"payload");
            let mut file = one.repeat(4);
            let place = usize::from(place) % file.len();
            file[place] = value;
            file.truncate(file.len() - usize::from(end) % file.len());
            survive(Some(Format::Blktrace), &file);
        });
}

/// Words of the texts of workloads and job files.
const TEXT: [&str; 44] = [
    "randwrite",
    "logs",
    "hotcold",
    "zipfwrite",
    ":",
    ",",
    "=",
    "bs",
    "4k",
    "/",
    "60",
    "theta",
    "0.99",
    "span",
    "%",
    "[",
    "]",
    "\n",
    "global",
    "rw=randrw",
    "size=1m",
    "numjobs=3",
    "stonewall",
    "runtime=5",
    "iodepth",
    "zipf:",
    ";",
    "rate_iops=9",
    "ops=3",
    "99999999999999999999",
    "b",
    "é",
    "verify=md5\n",
    "rw=randtrimwrite:7\n",
    "rw=read:-8k\n",
    "bssplit=4k/:8k/30,512/\n",
    "random_distribution=zoned:60/10:40/\n",
    "random_distribution=pareto\n",
    "nrfiles=3\n",
    "offset_increment=1%\n",
    "loops=2\n",
    "fsync=1\n",
    "thinktime=1\n",
    "rate=1k,2k\n",
];

#[test]
fn random_workload_text_never_panics() {
    bolero::check!()
        .with_iterations(5_000)
        .for_each(|words: &[u8]| {
            let text: String = words
                .iter()
                .map(|&w| TEXT[usize::from(w) % TEXT.len()])
                .collect();
            let _ = Workload::parse(&text).map(|w| w.open(Bytes(1 << 20), Seed(1)));
        });
}

#[test]
fn random_job_file_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any.fio");
    bolero::check!()
        .with_iterations(500)
        .for_each(|words: &[u8]| {
            let text: String = words
                .iter()
                .map(|&w| TEXT[usize::from(w) % TEXT.len()])
                .collect();
            std::fs::write(&path, format!("[job]\nsize=64k\n{text}")).unwrap();
            let Ok(workload) = Workload::parse(path.to_str().unwrap()) else {
                return;
            };
            if let Ok(stream) = workload.open(Bytes(1 << 20), Seed(1)) {
                assert!(stream.take(1_000).all(|r| r.unwrap().extent.end() <= 2_048));
            }
            let Some(Ok(opened)) = workload.jobs().map(|j| j.open(Bytes(1 << 20), 4, Seed(1)))
            else {
                return;
            };
            for (_, mut thread) in opened.threads {
                let mut now = Ns::ZERO;
                for _ in 0..100 {
                    match thread.next(now, 0) {
                        Next::Issue(request) => assert!(request.extent.end() <= 2_048),
                        Next::Until(time) => {
                            assert!(time > now);
                            now = time;
                        }
                        Next::Drain => unreachable!("no request is in flight"),
                        Next::End => break,
                    }
                }
            }
        });
}
