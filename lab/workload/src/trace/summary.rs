//! What a workload is made of, counted in one pass.
//!
//! Invariant: the memory is bounded by [`CHUNKS_MAX`] bitmaps of 4 KiB, which
//! cover 128 MiB each. What is touched beyond them is not counted, and
//! `footprint_exact` says so.

use crate::request::{Labels, Op, Purpose, Request};
use serde::Serialize;
use std::collections::BTreeMap;
use units::{Extent, KIB, Ns, SECTOR};

/// The unit of a footprint.
const UNIT: u64 = 4 * KIB;
const SECTORS_PER_UNIT: u64 = UNIT / SECTOR;

/// Units that one bitmap covers.
const CHUNK: u64 = 32_768;

/// Bitmaps that are kept: two sets of 4 TiB, 256 MiB of memory at most.
const CHUNKS_MAX: usize = 32_768;

/// What a workload is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Deallocations.
    pub trims: u64,
    /// Appends to zones.
    pub appends: u64,
    /// Writes of zeroes, which send no data.
    pub zeroes: u64,
    /// Commands that change the state of zones.
    pub zone_commands: u64,
    /// Flushes.
    pub flushes: u64,
    /// Writes with forced unit access.
    pub fua_writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes deallocated.
    pub trim_bytes: u64,
    /// Bytes appended. Where they come to lie is not known, so that no footprint
    /// counts them.
    pub append_bytes: u64,
    /// Bytes that become zeroes.
    pub zeroes_bytes: u64,
    /// Distinct bytes read or written, in whole units of 4 KiB.
    pub footprint_bytes: u64,
    /// Distinct bytes written, in whole units of 4 KiB.
    pub write_footprint_bytes: u64,
    /// Whether the footprints are complete; false for more than 4 TiB.
    pub footprint_exact: bool,
    /// How often a unit of 4 KiB that is written at all is written, on
    /// average. 0 without writes.
    pub overwrite_factor: f64,
    /// One past the highest byte that is addressed: the drive it needs.
    pub span_bytes: u64,
    /// Reads that begin where the read before ended.
    pub sequential_reads: u64,
    /// Writes that begin where the write before ended.
    pub sequential_writes: u64,
    /// From the first request to the last.
    pub duration_ns: u64,
    /// Reads and writes by size, in powers of two.
    pub sizes: Vec<SizeBucket>,
    /// By who asked, in order of first appearance.
    pub origins: Vec<OriginSummary>,
}

/// Reads and writes of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// They are at most this large and larger than half of it.
    pub up_to_bytes: u64,
    /// How many reads.
    pub reads: u64,
    /// How many writes and appends.
    pub writes: u64,
}

/// What one origin asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginSummary {
    /// Its name.
    pub name: String,
    /// What its data is for.
    pub purpose: Purpose,
    /// All its requests.
    pub requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote or appended.
    pub write_bytes: u64,
}

/// Counts requests as they pass.
#[derive(Default)]
pub struct Summarizer {
    summary: Summary,
    sizes: BTreeMap<u64, (u64, u64)>,
    origins: BTreeMap<u16, (u64, u64, u64)>,
    touched: Units,
    written: Units,
    read_end: Option<u64>,
    write_end: Option<u64>,
}

impl Summary {
    /// Counts all of `requests`.
    pub fn of(requests: impl IntoIterator<Item = Request>, labels: &Labels) -> Self {
        let mut counter = Summarizer::default();
        requests.into_iter().for_each(|r| counter.add(&r));
        counter.finish(labels)
    }
}

impl Summarizer {
    /// Counts one request.
    pub fn add(&mut self, request: &Request) {
        let total = &mut self.summary;
        total.requests += 1;
        total.duration_ns = total.duration_ns.max(request.at.since(Ns::ZERO).0);
        total.span_bytes = total.span_bytes.max(request.extent.end() * SECTOR);
        let bytes = request.extent.bytes();
        self.origin(request, bytes);
        match request.op {
            Op::Read => self.read(request.extent),
            Op::Write => self.write(request),
            Op::Trim => {
                self.summary.trims += 1;
                self.summary.trim_bytes += bytes;
            }
            Op::Flush => self.summary.flushes += 1,
            Op::Append => {
                self.summary.appends += 1;
                self.summary.append_bytes += bytes;
                self.size(request.extent).1 += 1;
            }
            Op::Zeroes => {
                self.summary.zeroes += 1;
                self.summary.zeroes_bytes += bytes;
            }
            _ => self.summary.zone_commands += 1,
        }
    }

    fn origin(&mut self, request: &Request, bytes: u64) {
        let (requests, read, written) = self.origins.entry(request.origin.0).or_default();
        *requests += 1;
        match request.op {
            Op::Read => *read += bytes,
            Op::Write | Op::Append => *written += bytes,
            _ => {}
        }
    }

    fn read(&mut self, extent: Extent) {
        self.summary.reads += 1;
        self.summary.read_bytes += extent.bytes();
        self.summary.sequential_reads += u64::from(self.read_end == Some(extent.start.0));
        self.read_end = Some(extent.end());
        self.size(extent).0 += 1;
        self.touched.insert(extent);
    }

    fn write(&mut self, request: &Request) {
        let extent = request.extent;
        self.summary.writes += 1;
        self.summary.fua_writes += u64::from(request.fua);
        self.summary.write_bytes += extent.bytes();
        self.summary.sequential_writes += u64::from(self.write_end == Some(extent.start.0));
        self.write_end = Some(extent.end());
        self.size(extent).1 += 1;
        self.touched.insert(extent);
        self.written.insert(extent);
    }

    fn size(&mut self, extent: Extent) -> &mut (u64, u64) {
        self.sizes
            .entry(extent.bytes().next_power_of_two())
            .or_default()
    }

    /// The sums.
    #[must_use]
    pub fn finish(mut self, labels: &Labels) -> Summary {
        let total = &mut self.summary;
        total.footprint_bytes = self.touched.count * UNIT;
        total.write_footprint_bytes = self.written.count * UNIT;
        total.footprint_exact = !self.touched.full && !self.written.full;
        if self.written.count > 0 {
            total.overwrite_factor = self.written.inserted as f64 / self.written.count as f64;
        }
        total.sizes = self.sizes.into_iter().map(size_bucket).collect();
        let of = |(origin, sums)| origin_summary(labels, units::Origin(origin), sums);
        total.origins = self.origins.into_iter().map(of).collect();
        self.summary
    }
}

fn size_bucket((up_to_bytes, (reads, writes)): (u64, (u64, u64))) -> SizeBucket {
    SizeBucket {
        up_to_bytes,
        reads,
        writes,
    }
}

fn origin_summary(
    labels: &Labels,
    origin: units::Origin,
    (requests, read_bytes, write_bytes): (u64, u64, u64),
) -> OriginSummary {
    OriginSummary {
        name: labels.name(origin).to_owned(),
        purpose: labels.purpose(origin),
        requests,
        read_bytes,
        write_bytes,
    }
}

/// A set of 4 KiB units.
#[derive(Default)]
struct Units {
    chunks: BTreeMap<u64, Box<[u64]>>,
    /// Units in the set.
    count: u64,
    /// Units that were put into it, in it already or not.
    inserted: u64,
    full: bool,
}

impl Units {
    fn insert(&mut self, extent: Extent) {
        let mut unit = extent.start.0 / SECTORS_PER_UNIT;
        let end = extent.end().div_ceil(SECTORS_PER_UNIT);
        while unit < end {
            let stop = end.min((unit / CHUNK + 1) * CHUNK);
            self.insert_within_chunk(unit, stop);
            unit = stop;
        }
    }

    fn insert_within_chunk(&mut self, start: u64, end: u64) {
        let chunk = start / CHUNK;
        if self.chunks.len() == CHUNKS_MAX && !self.chunks.contains_key(&chunk) {
            self.full = true;
            return;
        }
        self.inserted += end - start;
        let empty = || vec![0; (CHUNK / 64) as usize].into_boxed_slice();
        let words = self.chunks.entry(chunk).or_insert_with(empty);
        for unit in start..end {
            let word = &mut words[(unit % CHUNK / 64) as usize];
            let bit = 1 << (unit % 64);
            self.count += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Origin, Placement};

    fn request(op: Op, start: u64, sectors: u32, at: u64) -> Request {
        Request {
            at: Ns(at),
            op,
            extent: Extent::new(start, sectors),
            placement: Placement(0),
            origin: Origin(0),
            fua: false,
        }
    }

    #[test]
    fn a_few_requests_are_summed_by_hand() {
        let requests = [
            request(Op::Write, 0, 8, 0),
            request(Op::Write, 8, 16, 5),
            request(Op::Write, 0, 8, 9),
            request(Op::Read, 4, 8, 20),
            request(Op::Flush, 0, 0, 30),
        ];
        let sum = Summary::of(requests, &Labels::default());
        assert_eq!((sum.reads, sum.writes, sum.flushes), (1, 3, 1));
        assert_eq!(sum.write_bytes, 16 * KIB);
        assert_eq!(sum.write_footprint_bytes, 12 * KIB);
        assert_eq!(sum.footprint_bytes, 12 * KIB);
        assert!((sum.overwrite_factor - 4.0 / 3.0).abs() < 1e-12);
        assert_eq!(sum.sequential_writes, 1);
        assert_eq!(sum.duration_ns, 30);
        assert_eq!(sum.sizes.len(), 2);
        assert_eq!(sum.origins[0].requests, 5);
        assert!(sum.footprint_exact);
    }

    #[test]
    fn a_unit_counts_once_across_chunks() {
        let mut units = Units::default();
        let edge = CHUNK * SECTORS_PER_UNIT;
        units.insert(Extent::new(edge - 8, 16));
        units.insert(Extent::new(edge - 1, 2));
        assert_eq!(units.count, 2);
        assert_eq!(units.chunks.len(), 2);
    }
}
