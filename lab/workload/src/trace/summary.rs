//! Summary of a workload, counted in one pass.
//!
//! Invariant: memory is bounded by two sets of at most [`CHUNKS_MAX`] bitmaps of 4 KiB, which cover
//! 128 MiB each. Units beyond them are not counted, and `footprint_exact` is false then.

use crate::request::{Labels, Op, Purpose, Request};
use serde::Serialize;
use std::collections::BTreeMap;
use units::{Extent, KIB, Ns, SECTOR};

/// Bytes of a unit of footprints.
const UNIT: u64 = 4 * KIB;
const SECTORS_PER_UNIT: u64 = UNIT / SECTOR;

/// Units covered by one bitmap: 128 MiB.
const CHUNK: u64 = 32_768;

/// Upper bound on the bitmaps of each of the two sets: 4 TiB of addresses, 256 MiB of memory in
/// all.
const CHUNKS_MAX: usize = 32_768;

/// Totals of a workload's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Requests of all kinds.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, without appends.
    pub writes: u64,
    /// Number of deallocations.
    pub trims: u64,
    /// Number of zone appends.
    pub appends: u64,
    /// Writes of zeroes, which send no data.
    pub zeroes: u64,
    /// Number of commands that manage zones.
    pub zone_commands: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Writes with forced unit access.
    pub fua_writes: u64,
    /// Total of the bytes read.
    pub read_bytes: u64,
    /// Bytes written, without appends and zeroes.
    pub write_bytes: u64,
    /// Total of the bytes deallocated.
    pub trim_bytes: u64,
    /// Bytes appended. The drive chooses the addresses of appends, so footprints do not count them.
    pub append_bytes: u64,
    /// Bytes of writes of zeroes.
    pub zeroes_bytes: u64,
    /// Distinct bytes read or written, in whole units of 4 KiB.
    pub footprint_bytes: u64,
    /// Distinct bytes written, in whole units of 4 KiB.
    pub write_footprint_bytes: u64,
    /// Whether the footprints are complete; false if they span more than 4 TiB.
    pub footprint_exact: bool,
    /// Writes of each written unit of 4 KiB, on average; 0 without writes.
    pub overwrite_factor: f64,
    /// One past the highest byte addressed: the capacity of a drive that fits the workload.
    pub span_bytes: u64,
    /// Reads that begin at the end of the read before.
    pub sequential_reads: u64,
    /// Writes that begin at the end of the write before.
    pub sequential_writes: u64,
    /// Nanoseconds from the first request to the last.
    pub duration_ns: u64,
    /// Counts by request size, in powers of two.
    pub sizes: Vec<SizeBucket>,
    /// Totals of each origin, in order of first appearance.
    pub origins: Vec<OriginSummary>,
}

/// Reads and writes of one class of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// Upper bound of the class in bytes; its sizes are larger than half of it.
    pub up_to_bytes: u64,
    /// Reads of this class.
    pub reads: u64,
    /// Writes and appends of this class.
    pub writes: u64,
}

/// Totals of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginSummary {
    /// Name of the origin.
    pub name: String,
    /// Purpose of the origin's data.
    pub purpose: Purpose,
    /// Requests of all kinds.
    pub requests: u64,
    /// Bytes read by the origin.
    pub read_bytes: u64,
    /// Bytes written or appended by the origin.
    pub write_bytes: u64,
}

/// Counter of requests, fed one by one.
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
    /// Counts all `requests`; `labels` names their origins.
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

    /// Returns the totals.
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

/// Set of 4 KiB units.
#[derive(Default)]
struct Units {
    chunks: BTreeMap<u64, Box<[u64]>>,
    /// Distinct units in the set.
    count: u64,
    /// Insertions, including those of units in the set already.
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
    fn summary_of_a_few_requests_matches_a_count_by_hand() {
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
