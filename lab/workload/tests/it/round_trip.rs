//! Written traces are read back equal, as far as the format can carry them.

use super::load;
use proptest::prelude::*;
use units::{Extent, Ns, Origin, Placement};
use workload::trace::{Format, Options, WriteError, write};
use workload::{Labels, Op, Request};

fn labels() -> Labels {
    let mut labels = Labels::default();
    labels.intern("db bench, [x]");
    labels.intern_as("db bench, [x]", workload::Purpose::Metadata);
    labels.intern_as("jbd2/loop0-8", workload::Purpose::Journal);
    labels
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let ops = prop::sample::select(Op::ALL.to_vec());
    let one = (
        ops,
        0..1_u64 << 40,
        1..5_000_u32,
        0..4_u16,
        0..1_u64 << 40,
        any::<bool>(),
    );
    prop::collection::vec(one, 0..50).prop_map(|drawn| {
        let mut at = 0;
        let step = |(op, start, sectors, origin, gap, fua)| {
            let request = Request {
                at: Ns(at),
                op,
                extent: if matches!(op, Op::Flush | Op::ZoneResetAll) {
                    Extent::default()
                } else {
                    Extent::new(start, sectors)
                },
                placement: Placement(0),
                origin: Origin(origin),
                fua: fua && matches!(op, Op::Write | Op::Append),
            };
            at += gap;
            request
        };
        drawn.into_iter().map(step).collect()
    })
}

/// Writes `requests` in `format` and reads them back, with the names of their origins.
fn there_and_back(format: Format, requests: &[Request]) -> Vec<(Request, String)> {
    let mut file = Vec::new();
    let written = write(format, &labels(), requests.iter().copied(), &mut file).unwrap();
    assert_eq!(written.requests + written.left_out, requests.len() as u64);
    let back = load(&file, Some(format), Options::default()).unwrap();
    assert_eq!(back.requests.len() as u64, written.requests);
    let named = back
        .requests
        .iter()
        .map(|r| (anonymous(r), back.labels.name(r.origin).to_owned()));
    named.collect()
}

fn anonymous(request: &Request) -> Request {
    Request {
        origin: Origin(0),
        ..*request
    }
}

/// The part of `request` that `format` preserves; `None` if it has no form for it.
fn kept(format: Format, request: &Request, first: Ns) -> Option<(Request, String)> {
    let labels = labels();
    let since = |unit: u64| Ns(request.at.0 / unit * unit - first.0 / unit * unit);
    let data = matches!(request.op, Op::Read | Op::Write);
    let full = labels.name(request.origin);
    let (at, fua, name) = match format {
        Format::Csv | Format::Blkparse | Format::Flb => (since(1), request.fua, full.to_owned()),
        Format::Fio if request.op.needs_zones() || request.op == Op::Zeroes => return None,
        Format::Fio => (since(1_000), false, full.replace(' ', "_")),
        Format::Msr if data => {
            // MSR has columns, so it carries no commas in names, and no metadata.
            let plain = full.trim_end_matches(" (metadata)").replace(',', " ");
            (since(100), false, plain)
        }
        Format::Mqsim if data => (since(1), false, "unnamed".to_owned()),
        _ => return None,
    };
    Some((
        Request {
            at,
            fua,
            ..anonymous(request)
        },
        name,
    ))
}

proptest! {
    #[test]
    fn every_writer_and_its_reader_agree(requests in requests()) {
        for format in Format::ALL.into_iter().filter(|format| format.is_written()) {
            let mut carried = requests.clone();
            carried.retain(|r| kept(format, r, Ns(0)).is_some());
            let first = carried.first().map_or(Ns(0), |r| r.at);
            let expected: Vec<_> = carried.iter().filter_map(|r| kept(format, r, first)).collect();
            prop_assert_eq!(there_and_back(format, &requests), expected);
        }
    }
}

#[test]
fn formats_without_a_writer_are_refused() {
    let refused = write(Format::Ftrace, &Labels::default(), [], &mut Vec::new());
    assert!(matches!(refused, Err(WriteError::Format(Format::Ftrace))));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "expected a format that can be written (csv, msr, mqsim, fio, blkparse, flb), found ftrace"
    );
}
