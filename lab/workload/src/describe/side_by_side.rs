//! Check that the jobs of a fio file can share one queue and one range of addresses.
//!
//! fio gives each job a queue, an end and files of its own. Here all requests of a file go through
//! one queue, in which jobs take turns, and address the drive itself. For jobs that are alike the
//! result is equal, and so it is for jobs whose requests all come at times of their own
//! (`rate_iops`). It differs if one job is slower than another, or if two different files lie at
//! the same addresses. Jobs for which the result would differ are refused.

use super::job::{Fault, Section};
use crate::generate::Part;
use units::Bytes;

/// Reasons for which `phases` would not run as fio runs them; no phase is empty.
pub(super) fn faults(phases: &[&[Section]]) -> Vec<Fault> {
    let jobs: Vec<&Section> = phases.iter().flat_map(|phase| phase.iter()).collect();
    let mut faults = of_files(&jobs);
    faults.extend(of_ends(&jobs, phases));
    if jobs.iter().any(|job| job.options.rate > 0) {
        let without = jobs.iter().find(|job| job.options.rate == 0);
        faults.extend(without.map(|job| {
            let found = format!("[{}] without it", job.name);
            fault(job.line, "rate_iops in all jobs or in none", found)
        }));
        return faults;
    }
    faults.extend(phases.iter().flat_map(|phase| of_queue(phase)));
    faults.extend(of_depths(phases));
    faults
}

fn fault(line: usize, expected: &str, found: String) -> Fault {
    Fault {
        line,
        expected: expected.to_owned(),
        found,
    }
}

/// Jobs of one phase that differ from its first job in pace.
fn of_queue(phase: &[Section]) -> Vec<Fault> {
    let (first, others) = phase.split_first().expect("a phase has a job");
    let unlike = others.iter().filter_map(|job| {
        let differences = job.options.differences(&first.options);
        let line = job.line_of(&differences);
        (!differences.is_empty()).then(|| {
            let found = format!(
                "[{}] with another {} than [{}] in line {}",
                job.name,
                differences.join(", "),
                first.name,
                first.line
            );
            let expected = "jobs side by side that are alike, or that all have a rate_iops, \
                            because they share one queue here";
            fault(line, expected, found)
        })
    });
    unlike.collect()
}

/// Phases that keep more or fewer requests in flight than the first one, and jobs with another
/// think time than the first.
fn of_depths(phases: &[&[Section]]) -> Vec<Fault> {
    let depth = |phase: &[Section]| phase.iter().map(Section::in_flight).sum::<u32>();
    let first = &phases[0][0];
    let wanted = depth(phases[0]);
    let differing = phases.iter().filter(|phase| depth(phase) != wanted);
    let mut faults: Vec<Fault> = differing
        .map(|phase| {
            let job = &phase[0];
            let found = format!("{} in the phase of [{}]", depth(phase), job.name);
            let expected = format!(
                "{wanted} requests in flight in every phase, as in that of [{}], because phases \
                 share one queue here",
                first.name
            );
            fault(job.line_of(&["iodepth", "numjobs"]), &expected, found)
        })
        .collect();
    let jobs = phases.iter().flat_map(|phase| phase.iter());
    let thinks = jobs.filter(|job| job.options.think != first.options.think);
    faults.extend(thinks.map(|job| {
        let found = format!("[{}] with another one than [{}]", job.name, first.name);
        let line = job.line_of(&["thinktime"]);
        fault(line, "the same thinktime in all jobs", found)
    }));
    faults
}

/// Runtimes that differ between jobs or come with `stonewall`, and jobs with `time_based` without a
/// runtime.
fn of_ends(jobs: &[&Section], phases: &[&[Section]]) -> Vec<Fault> {
    let first = jobs[0];
    let mut faults = Vec::new();
    for job in jobs {
        let line = job.line_of(&["runtime", "timeout"]);
        if job.options.runtime != first.options.runtime {
            let found = format!("[{}] with another one than [{}]", job.name, first.name);
            faults.push(fault(line, "the same runtime in all jobs", found));
        } else if job.options.runtime.is_some() && phases.len() > 1 {
            let found = format!("[{}] with one", job.name);
            let expected = "no runtime where jobs wait for others (stonewall), because all jobs \
                            share one clock here";
            faults.push(fault(line, expected, found));
        } else if job.options.runtime.is_none() && job.options.time_based {
            let found = format!("[{}] without one", job.name);
            let line = job.line_of(&["time_based"]);
            faults.push(fault(line, "a runtime where a job is time_based", found));
        }
    }
    faults
}

/// Different files that would lie at the same addresses.
fn of_files(jobs: &[&Section]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let expected = "one filename for all jobs, or an offset and a size that keep them apart, \
                        because all files are the drive here";
        let line = job.line_of(&["filename", "numjobs", "offset"]);
        if job.options.numjobs > 1 && job.options.file.is_none() {
            let found = format!(
                "{} jobs [{}] with a file each at one address",
                job.options.numjobs, job.name
            );
            faults.push(fault(line, expected, found));
        }
        let other = jobs[..index].iter().find(|other| overlap(job, other));
        faults.extend(other.map(|other| {
            let found = format!(
                "[{}] with another file than [{}] in line {} at the same addresses",
                job.name, other.name, other.line
            );
            fault(line, expected, found)
        }));
    }
    faults
}

/// Whether two jobs have different files in regions that may overlap.
fn overlap(one: &Section, other: &Section) -> bool {
    let (one, other) = (&one.options, &other.options);
    let same = one.file.is_some() && one.file == other.file;
    let (a, b) = ((one.offset, one.size), (other.offset, other.size));
    !same && !follows(a, b) && !follows(b, a)
}

/// Whether region `next` begins at or behind the end of region `place` on every drive. Each region
/// is an offset and a size.
fn follows(place: (Part, Part), next: (Part, Part)) -> bool {
    let hundredths = |part| match part {
        Part::Percent(percent) => Some(percent),
        Part::Bytes(Bytes(0)) => Some(0),
        Part::Bytes(_) => None,
    };
    let bytes = |part| match part {
        Part::Bytes(Bytes(bytes)) => Some(bytes),
        Part::Percent(0) => Some(0),
        Part::Percent(_) => None,
    };
    let ends_before = |of: &dyn Fn(Part) -> Option<u64>| {
        let (offset, size, next) = (of(place.0)?, of(place.1)?, of(next.0)?);
        Some(offset.saturating_add(size) <= next)
    };
    ends_before(&hundredths)
        .or_else(|| ends_before(&bytes))
        .unwrap_or(false)
}
