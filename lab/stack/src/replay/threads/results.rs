//! Results of each job and of each reporting group.
//!
//! Invariant: requests that end within the ramp of their thread are not measured, as in fio.

use crate::fill::ratio;
use crate::meter::Tally;
use report::record::{JobDirection, JobResult, Latency};
use units::Ns;
use workload::Op;
use workload::jobs::Job;

/// Measurements of one job, or of several.
#[derive(Clone, Default)]
struct Measured {
    /// Requests by direction (reads, writes, trims), and flushes.
    tallies: [Tally; 4],
    bytes: [u64; 3],
    errors: u64,
    /// Start of the first thread and last completion, from the start of the run.
    span: Option<(Ns, Ns)>,
}

/// Results of all jobs.
pub(crate) struct Results {
    jobs: Vec<(Job, Measured)>,
}

impl Results {
    pub(super) fn new(jobs: &[Job]) -> Self {
        let jobs = jobs.iter().cloned();
        Self {
            jobs: jobs.map(|job| (job, Measured::default())).collect(),
        }
    }

    /// Reporting group of job `job`.
    pub(super) fn group(&self, job: usize) -> usize {
        self.jobs[job].0.group
    }

    /// A thread of `job` issues its first request at `start`.
    pub(super) fn begin(&mut self, job: usize, start: Ns) {
        let (job, measured) = &mut self.jobs[job];
        let start = start + job.ramp;
        let (first, last) = measured.span.unwrap_or((start, start));
        measured.span = Some((first.min(start), last));
    }

    /// A request of a thread of `job` that began at `start` has ended at `now`.
    pub(super) fn add(
        &mut self,
        job: usize,
        now: Ns,
        start: u64,
        (op, bytes, latency, is_ok): (Op, u64, Ns, bool),
    ) {
        let (job, measured) = &mut self.jobs[job];
        if now.0 < start + job.ramp.0 {
            return;
        }
        if let Some((_, last)) = &mut measured.span {
            *last = now;
        }
        if !is_ok {
            measured.errors += 1;
            return;
        }
        let index = match op {
            Op::Read => 0,
            Op::Write | Op::Append => 1,
            Op::Trim => 2,
            _ => 3,
        };
        measured.tallies[index].add(latency);
        if let Some(sum) = measured.bytes.get_mut(index) {
            *sum += bytes;
        }
    }

    /// Records of the jobs.
    pub(crate) fn jobs(&self) -> Vec<JobResult> {
        let jobs = self.jobs.iter();
        jobs.map(|(job, measured)| JobResult {
            in_group: job.is_grouped && self.members(job.group).nth(1).is_some(),
            ..record(&job.name, job, measured)
        })
        .collect()
    }

    /// Records of the groups of several jobs that are reported together.
    pub(crate) fn groups(&self) -> Vec<JobResult> {
        let last = self.jobs.last().map_or(0, |(job, _)| job.group);
        let group = |number: usize| {
            self.members(number).nth(1)?;
            let (first, _) = self.members(number).next()?;
            let mut all = Measured::default();
            let (mut clones, mut names) = (0, Vec::new());
            for (job, measured) in self.members(number) {
                all.merge(measured);
                clones += job.clones;
                names.push(job.name.as_str());
            }
            let job = Job {
                clones,
                ..first.clone()
            };
            Some(record(&names.join(" + "), &job, &all))
        };
        (0..=last).filter_map(group).collect()
    }

    /// Jobs of the group `number` that are reported together.
    fn members(&self, number: usize) -> impl Iterator<Item = &(Job, Measured)> {
        let jobs = self.jobs.iter();
        jobs.filter(move |(job, _)| job.is_grouped && job.group == number)
    }
}

impl Measured {
    fn merge(&mut self, other: &Self) {
        for (sum, tally) in self.tallies.iter_mut().zip(&other.tallies) {
            sum.merge(tally);
        }
        for (sum, bytes) in self.bytes.iter_mut().zip(other.bytes) {
            *sum += bytes;
        }
        self.errors += other.errors;
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

fn record(name: &str, job: &Job, measured: &Measured) -> JobResult {
    let (start, end) = measured.span.unwrap_or_default();
    let runtime = end.0.saturating_sub(start.0);
    let direction = |index: usize| {
        let latency: Latency = measured.tallies[index].record();
        let (ios, bytes) = (latency.count, measured.bytes[index]);
        JobDirection {
            ios,
            bytes,
            iops: ratio(ios, runtime) * 1e9,
            bytes_per_s: ratio(bytes, runtime) * 1e9,
            latency_ns: latency,
        }
    };
    JobResult {
        name: name.to_owned(),
        group: job.group as u64,
        in_group: false,
        options: job.options.clone(),
        clones: u64::from(job.clones),
        start_ns: start.0,
        runtime_ns: runtime,
        errors: measured.errors,
        read: direction(0),
        write: direction(1),
        trim: direction(2),
        flush_ns: measured.tallies[3].record(),
    }
}
