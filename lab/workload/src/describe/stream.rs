//! Requests of a workload on one drive.
//!
//! Invariant: the times of the requests never go back.

use super::recorded::Passes;
use super::{Source, Workload, WorkloadError};
use crate::classify::Placer;
use crate::generate::{LogsIter, SyntheticIter};
use crate::jobs::Flat;
use crate::request::{Labels, Request};
use crate::trace::{Notes, TraceError};
use sim::Seed;
use units::{Bytes, Extent};

/// Requests of a workload, in the order of issue.
pub struct Stream {
    running: Running,
    placer: Placer,
}

enum Running {
    Trace(Box<Passes>),
    Generated(Labels, Generator),
}

enum Generator {
    Synthetic(Box<SyntheticIter>),
    Logs(Box<LogsIter>),
    Jobs(Flat),
}

impl Workload {
    /// The requests of this workload on a drive of `capacity`, with `seed` for its random choices.
    /// Those of a job file come without its times, and a job that runs for a time ends after one
    /// pass over its amount; [`Self::jobs`] has its threads.
    ///
    /// # Errors
    /// If the drive is too small or the trace cannot be opened.
    pub fn open(&self, capacity: Bytes, seed: Seed) -> Result<Stream, WorkloadError> {
        let mut labels = Labels::default();
        let generator = match &self.source {
            Source::Trace(recorded) => {
                return Ok(Stream {
                    running: Running::Trace(Box::new(recorded.open(capacity)?)),
                    placer: self.placer(capacity),
                });
            }
            Source::Synthetic(synthetic) => {
                let origin = labels.intern(&synthetic.label);
                let iter = SyntheticIter::new(synthetic, capacity, origin, seed.child(0))?;
                Generator::Synthetic(Box::new(iter))
            }
            Source::Logs(logs) => {
                Generator::Logs(Box::new(LogsIter::new(logs, capacity, &mut labels, seed)?))
            }
            Source::Jobs(jobs) => {
                let (flat, named) = jobs.flat(capacity, seed)?;
                labels = named;
                Generator::Jobs(flat)
            }
        };
        Ok(Stream {
            running: Running::Generated(labels, generator),
            placer: self.placer(capacity),
        })
    }

    /// The placer of this workload's requests on a drive of `capacity`.
    #[must_use]
    pub fn placer(&self, capacity: Bytes) -> Placer {
        Placer::new(self.placing, capacity)
    }
}

impl Stream {
    /// Names of the origins that requests carry. A trace adds an origin when it first meets it.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        match &self.running {
            Running::Trace(passes) => passes.labels(),
            Running::Generated(labels, _) => labels,
        }
    }

    /// Deviations from a trace so far (requests folded, widened, skipped); none for other
    /// workloads.
    #[must_use]
    pub fn notes(&self) -> Notes {
        match &self.running {
            Running::Trace(passes) => passes.notes(),
            Running::Generated(..) => Notes::default(),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.running {
            Running::Trace(passes) => passes.next()?,
            Running::Generated(_, generator) => Ok(match generator {
                Generator::Synthetic(requests) => requests.next()?,
                Generator::Logs(requests) => requests.next()?,
                Generator::Jobs(requests) => requests.next()?,
            }),
        };
        Some(next.map(|request| self.placer.place(request)))
    }
}

/// Folds `extent` onto a drive of `room` sectors: its start modulo the room, moved back so that it
/// ends within the drive, and cut to the length of the drive.
pub(super) fn fold(extent: Extent, room: u64) -> Extent {
    if extent.end() <= room {
        return extent;
    }
    let sectors = u64::from(extent.sectors).min(room) as u32;
    let last = room - u64::from(sectors);
    let start = extent.start.0.checked_rem(room).unwrap_or(0);
    Extent::new(start.min(last), sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_past_the_end_is_folded_back() {
        let fold = |start, sectors| {
            let folded = fold(Extent::new(start, sectors), 100);
            (folded.start.0, folded.sectors)
        };
        assert_eq!(fold(92, 8), (92, 8));
        assert_eq!(fold(93, 8), (92, 8));
        assert_eq!(fold(250, 8), (50, 8));
        assert_eq!(fold(250, 800), (0, 100));
    }
}
