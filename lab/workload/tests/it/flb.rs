//! The binary form of block traces: everything is kept, and invalid contents are refused.

use super::load;
use bolero::TypeGenerator;
use input::blocks::{BlockWriter, zigzag};
use proptest::prelude::*;
use sim::Seed;
use units::{Bytes, Extent, Ns, Origin, Placement};
use workload::trace::{
    Devices, Format, Loaded, MAGIC, MAX_ADDRESS, Options, Trace, WriteError, Written, write,
};
use workload::{Labels, Op, Purpose, Request, Workload};

fn flb(labels: &Labels, requests: &[Request]) -> Vec<u8> {
    let mut file = Vec::new();
    let written = write(Format::Flb, labels, requests.iter().copied(), &mut file).unwrap();
    let requests = requests.len() as u64;
    let left_out = 0;
    assert_eq!(written, Written { requests, left_out });
    file
}

fn told(bytes: impl AsRef<[u8]>) -> String {
    let read = load(bytes, None, Options::default());
    read.map_or_else(|e| e.to_string(), |loaded| format!("{:?}", loaded.requests))
}

fn request(at: u64, op: Op, start: u64, sectors: u32) -> Request {
    Request {
        at: Ns(at),
        op,
        extent: Extent::new(start, sectors),
        placement: Placement(0),
        origin: Origin(0),
        fua: false,
    }
}

/// Labels of all purposes, more than one form of names, and a full table if `many`.
fn labels(many: bool) -> Labels {
    let mut labels = Labels::default();
    labels.intern("other");
    labels.intern_as("db bench, [x]", Purpose::Metadata);
    labels.intern_as("no jbd2\n", Purpose::Journal);
    labels.intern("db (metadata)");
    labels.intern("");
    for number in 0..if many { 300 } else { 0 } {
        labels.intern(&format!("p{number}"));
    }
    labels
}

fn requests(labels: u16) -> impl Strategy<Value = Vec<Request>> {
    let ops = prop::sample::select(Op::ALL.to_vec());
    let one = (
        ops,
        prop_oneof![0..1_u64 << 20, 0..MAX_ADDRESS - (1 << 20)],
        1..500_000_u32,
        0..labels,
        prop_oneof![0..9_u64, 0..1_u64 << 40],
        prop_oneof![0..3_u16, any::<u16>()],
        any::<bool>(),
    );
    prop::collection::vec(one, 0..80).prop_map(|drawn| {
        let mut at = 0;
        let step = |(op, start, sectors, origin, gap, handle, fua)| {
            let request = Request {
                placement: Placement(handle),
                origin: Origin(origin),
                fua,
                ..request(at, op, start, sectors)
            };
            at += gap;
            request
        };
        drawn.into_iter().map(step).collect()
    })
}

proptest! {
    #[test]
    fn every_field_and_label_is_kept(requests in requests(6), full in requests(256)) {
        for (many, requests) in [(false, requests), (true, full)] {
            let labels = labels(many);
            let back = load(flb(&labels, &requests), None, Options::default()).unwrap();
            prop_assert_eq!(back.requests, requests);
            prop_assert!(back.labels == labels, "{:?}", back.labels.names());
            prop_assert_eq!(back.notes.sentences(), Vec::<String>::new());
        }
    }

    #[test]
    fn layout_of_one_device_is_that_of_text(mut requests in requests(3)) {
        requests.retain(|r| r.op == Op::Write);
        for request in &mut requests {
            (request.placement, request.fua) = (Placement(0), false);
            request.extent.start.0 %= 1 << 40;
        }
        let labels = labels(false);
        let mut csv = Vec::new();
        write(Format::Csv, &labels, requests.iter().copied(), &mut csv).unwrap();
        let flb = flb(&labels, &requests);
        for devices in [
            Devices::Together,
            Devices::Packed,
            Devices::Only(0),
            Devices::Only(1),
            Devices::Apart(Bytes(1 << 60)),
        ] {
            let options = Options { devices, ..Options::default() };
            let of = |file: &[u8], format| load(file, Some(format), options).unwrap();
            let (text, binary) = (of(&csv, Format::Csv), of(&flb, Format::Flb));
            let named = |loaded: &Loaded| {
                let one = |r: &Request| (r.at, r.extent, loaded.labels.name(r.origin).to_owned());
                loaded.requests.iter().map(one).collect::<Vec<_>>()
            };
            prop_assert_eq!(named(&text), named(&binary));
            prop_assert_eq!(text.notes, binary.notes);
        }
    }
}

#[test]
fn compressed_binary_trace_is_detected() {
    let file = flb(&labels(true), &[request(7, Op::Write, 8, 8)]);
    let file = zstd::encode_all(&file[..], 1).unwrap();
    let reader = std::io::Cursor::new(file);
    let trace = Trace::from_reader("t", reader, None, Options::default()).unwrap();
    assert_eq!((trace.format(), trace.count()), (Format::Flb, 1));
}

#[test]
fn repeated_binary_trace_keeps_its_labels() {
    let placed = Request {
        placement: Placement(9),
        origin: Origin(255),
        ..request(5, Op::Write, 8, 8)
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.flb");
    let requests = [request(0, Op::Read, 0, 8), placed];
    std::fs::write(&path, flb(&labels(true), &requests)).unwrap();
    let text = format!("{}:repeat=2,placement=own", path.display());
    let workload = Workload::parse(&text).unwrap();
    let mut stream = workload.open(Bytes(1 << 20), Seed(1)).unwrap();
    let read: Vec<Request> = stream.by_ref().map(Result::unwrap).collect();
    let later = requests.map(|r| Request {
        at: r.at + Ns(5),
        ..r
    });
    assert_eq!(read, [requests, later].concat());
    assert_eq!(*stream.labels(), labels(true));
}

#[test]
fn requests_out_of_order_are_not_written() {
    let requests = [request(7, Op::Read, 0, 8), request(6, Op::Read, 0, 8)];
    let refused = write(Format::Flb, &Labels::default(), requests, &mut Vec::new());
    let Err(WriteError::Io(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        error.to_string(),
        "expected requests in the order of their times"
    );
}

#[test]
fn requests_without_sectors_are_left_out_and_counted() {
    let requests = [
        request(0, Op::Read, 8, 0),
        request(1, Op::Flush, 0, 0),
        request(2, Op::ZoneResetAll, 0, 0),
    ];
    let file = flb(&Labels::default(), &requests);
    let back = load(file, None, Options::default()).unwrap();
    assert_eq!(back.requests.len(), 2);
    assert_eq!(back.notes.skipped, 1);
}

/// A file whose only block has the contents that `put` writes.
fn made(put: impl FnOnce(&mut BlockWriter<Vec<u8>>)) -> Vec<u8> {
    let mut out = BlockWriter::new(Vec::new(), &MAGIC, 1).unwrap();
    put(&mut out);
    out.finish().unwrap()
}

/// The error of a file with an item of this `tag` and these `numbers`.
fn refusal(tag: u8, numbers: &[u64]) -> String {
    told(made(|out| {
        out.bytes(&[tag]);
        numbers.iter().for_each(|number| out.number(*number));
    }))
}

#[test]
fn invalid_items_are_refused_with_their_place() {
    let late = made(|out| {
        for _ in 0..2 {
            out.bytes(&[0]);
            [1 << 63, 8, 0]
                .into_iter()
                .for_each(|number| out.number(number));
        }
    });
    let past = zigzag(MAX_ADDRESS as i64);
    for (said, expected) in [
        (refusal(11, &[0, 8, 0]), "a known tag, not 11"),
        (refusal(0x82, &[]), "a known tag, not 130"),
        (refusal(0x80, &[1]), "an end after 0 requests"),
        (refusal(0x81, &[3, 0]), "a purpose from 0 to 2"),
        (
            refusal(0x81, &[0, u64::MAX]),
            "at most 255 labels of at most 16384 bytes",
        ),
        (
            refusal(0x81, &[0, 2]),
            "a label in UTF-8 that ends in its block",
        ),
        (
            refusal(0x81, &[0, 2, 0x3fff]),
            "a label in UTF-8 that ends in its block",
        ),
        (
            refusal(0, &[0, 524_289, 0]),
            "a request of at most 524288 sectors",
        ),
        (
            refusal(2, &[0, 1 << 32, 0]),
            "a request of at most 4294967295 sectors",
        ),
        (refusal(0, &[0, 1, past]), "an address below 8 EiB"),
        (refusal(0, &[0, 1, 1]), "an address below 8 EiB"),
        (refusal(1 << 5, &[0, 1, 0, 1]), "an origin that is known"),
        (
            refusal(1 << 6, &[0, 1, 0, 65_536]),
            "a placement handle of 16 bits",
        ),
        (refusal(0, &[0, 1]), "an item that ends in its block"),
    ] {
        assert_eq!(said, format!("t: at byte 8: expected {expected}"));
    }
    assert_eq!(told(late), "t: at byte 21: expected a time below 2^64 ns");
    let ended = made(|out| out.bytes(&[0x80, 0, 0x80, 0]));
    assert_eq!(told(ended), "t: at byte 8: expected nothing after the end");
}

#[test]
fn other_version_and_cut_file_are_refused() {
    let file = flb(&labels(false), &[request(0, Op::Write, 0, 8)]);
    let mut newer = file.clone();
    newer[7] = 2;
    assert_eq!(
        told(newer),
        "t: at byte 0: expected version 1 of binary block traces, found 2"
    );
    let forced = load(b"0,R,0,8,p\n", Some(Format::Flb), Options::default());
    assert_eq!(
        forced.unwrap_err().to_string(),
        "t: at byte 0: expected a binary block trace"
    );
    for length in 7..file.len() {
        assert!(load(&file[..length], None, Options::default()).is_err());
    }
}

#[test]
fn flipped_byte_is_refused() {
    let mut file = flb(&labels(false), &[request(0, Op::Write, 0, 8); 40]);
    let whole = load(&file, None, Options::default()).unwrap().requests;
    for place in 0..file.len() {
        file[place] ^= 1;
        // zstd ignores some bits of its frame's head; no other flip goes unseen.
        if let Ok(loaded) = load(&file, Some(Format::Flb), Options::default()) {
            assert_eq!(loaded.requests, whole, "{place}");
        }
        file[place] ^= 1;
    }
}

/// Items with random fields behind valid checksums.
#[derive(Debug, TypeGenerator)]
struct Any {
    items: Vec<(u8, u64, u32, u64, u8)>,
    tail: Vec<u8>,
}

#[test]
fn random_items_never_panic() {
    bolero::check!()
        .with_type::<Any>()
        .with_iterations(5_000)
        .for_each(|any| {
            let file = made(|out| {
                for (tag, since, sectors, start, further) in &any.items {
                    out.bytes(&[*tag]);
                    out.number(since >> (further % 64));
                    out.number((sectors >> (further % 32)).into());
                    out.number(start >> (further % 64));
                    out.number((*further).into());
                    out.end_item().unwrap();
                }
                out.bytes(&any.tail);
            });
            for devices in [
                Devices::Auto,
                Devices::Packed,
                Devices::Apart(Bytes(1 << 40)),
            ] {
                let options = Options {
                    devices,
                    ..Options::default()
                };
                let reader = std::io::Cursor::new(file.clone());
                let trace = Trace::from_reader("t", reader, None, options).unwrap();
                let read = trace.map_while(Result::ok);
                let mut last = Ns::ZERO;
                for request in read {
                    assert!(request.at >= last && request.extent.end() <= MAX_ADDRESS);
                    last = request.at;
                }
            }
        });
}
