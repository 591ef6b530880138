//! Jobs of fio: a job file, read into threads of control.
//!
//! A section is a job; `[global]` sets the defaults of the jobs after it; `numjobs` clones a job.
//! Each clone is a [`Thread`] with its own requests in flight, pace, order and end. Files of
//! different names have regions of their own on the drive. A thread starts when the jobs before its
//! `stonewall`, and the job that it waits for, have ended.
//!
//! Invariants: a thread yields the same requests for the same job, drive and seed, if it is asked at
//! the same times; it allocates nothing a request; an error lists all faults of a file at once.

mod file;
mod layout;
mod names;
mod options;
mod places;
mod requests;
mod thread;
mod value;
mod words;

pub use file::{Fault, JobError};
pub use thread::{Next, Thread};

pub(crate) use file::is_job;

use crate::generate::NoRoom;
use crate::request::{Labels, Request};
use file::Section;
use layout::Layout;
use options::Exit;
use requests::Requests;
use sim::Seed;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, Ns};

/// Direction of a request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    Trim,
}

/// Jobs of a file.
#[derive(Clone, Debug)]
pub struct Jobs {
    sections: Arc<[Section]>,
    /// Bytes of a zone of the drive; 0 without zones.
    zone: u64,
}

/// Place of a thread among the jobs of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Job of the thread, an index into [`Opened::jobs`].
    pub job: usize,
    /// Phase of the job: it starts when all jobs of earlier phases have ended.
    pub phase: usize,
    /// Job whose end the thread waits for besides.
    pub wait_for: Option<usize>,
    /// Threads that end with this one.
    pub ends: Option<Ends>,
}

/// Threads that end when a thread with `exitall` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Threads of the same reporting group.
    Group,
    /// Threads of the same phase.
    Phase,
    /// All, and those that have not started.
    All,
}

/// Job for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name of the job.
    pub name: String,
    /// Number of its reporting group, from 0.
    pub group: usize,
    /// Whether its results are those of its group (`group_reporting`).
    pub is_grouped: bool,
    /// Options that its file sets, with their values.
    pub options: BTreeMap<String, String>,
    /// Number of its clones.
    pub clones: u32,
    /// Time from the start of a thread from which its requests are measured.
    pub ramp: Ns,
}

/// Jobs with their regions on one drive.
pub struct Opened {
    /// Threads, in the order of the file.
    pub threads: Vec<(Order, Thread)>,
    /// Jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// Origins of the requests: one a name of a job.
    pub labels: Labels,
    /// Deviations from the file, one sentence each.
    pub notes: Vec<String>,
}

impl Jobs {
    /// Reads the job file at `path`. Returns its notes too, one sentence each.
    pub(crate) fn read(path: &str) -> Result<(Self, Vec<String>), JobError> {
        let (sections, notes) = file::read(path)?;
        Ok((Self::of(sections), notes))
    }

    /// Parses the text of a job file, and returns its notes too.
    pub(crate) fn parse(text: &str) -> Result<(Self, Vec<String>), JobError> {
        let (sections, notes) = file::parse("job", text)?;
        Ok((Self::of(sections), notes))
    }

    fn of(sections: Vec<Section>) -> Self {
        let sections = sections.into();
        Self { sections, zone: 0 }
    }

    /// These jobs on a drive with zones of `capacity` bytes, one after the other: a job that
    /// appends resets each zone before its first append to it.
    #[must_use]
    pub fn in_zones(&self, capacity: Bytes) -> Self {
        Self {
            sections: Arc::clone(&self.sections),
            zone: capacity.0,
        }
    }

    /// The threads of these jobs on a drive of `capacity` with `handles` placement handles, with
    /// `seed` for their random choices.
    ///
    /// # Errors
    /// If the drive has too little room.
    pub fn open(&self, capacity: Bytes, handles: u16, seed: Seed) -> Result<Opened, NoRoom> {
        let layout = Layout::new(&self.sections, capacity)?;
        let mut opened = Opened {
            threads: Vec::new(),
            jobs: Vec::new(),
            labels: Labels::default(),
            notes: layout.notes(),
        };
        let (mut phase, mut group) = (0, 0);
        for (job, section) in self.sections.iter().enumerate() {
            let options = &section.options;
            phase += usize::from(options.stonewall && job > 0);
            group += usize::from((options.stonewall || options.new_group) && job > 0);
            let order = Order {
                job,
                phase,
                wait_for: section.wait_for,
                ends: options.exitall.then_some(match options.exit {
                    Exit::Group => Ends::Group,
                    Exit::Phase => Ends::Phase,
                    Exit::All => Ends::All,
                }),
            };
            opened.jobs.push(Job {
                name: section.name.clone(),
                group,
                is_grouped: options.group_reporting,
                options: section.given(),
                clones: options.numjobs,
                ramp: options.pace.ramp,
            });
            let origin = opened.labels.intern(&section.name);
            for clone in 0..options.numjobs {
                let number = opened.threads.len() as u64;
                let seed = seed.child(options.seed.wrapping_mul(1 << 20).wrapping_add(number + 1));
                let regions = layout.regions(job, clone)?;
                let requests = Requests::new(section, regions, (origin, handles), seed);
                let requests = requests.in_zones(self.zone);
                opened
                    .threads
                    .push((order, Thread::new(options, requests, seed)));
            }
        }
        opened.notes.extend(self.placement_note(handles));
        Ok(opened)
    }

    /// All requests of the jobs, one phase after the other, without their times: the threads of a
    /// phase take turns. A job that runs for a time is passed once.
    pub(crate) fn flat(&self, capacity: Bytes, seed: Seed) -> Result<(Flat, Labels), NoRoom> {
        let opened = self.open(capacity, 1, seed)?;
        let threads = opened.threads.into_iter();
        let threads = threads.map(|(order, thread)| (order.phase, thread.into_requests()));
        let flat = Flat {
            threads: threads.collect(),
            turn: 0,
        };
        Ok((flat, opened.labels))
    }

    /// A sentence about handles that the drive has not.
    fn placement_note(&self, handles: u16) -> Option<String> {
        let wants = |section: &&Section| {
            let wanted = &section.options.handles;
            let most = wanted.list.iter().max().filter(|_| wanted.is_on);
            most.copied().unwrap_or(wanted.hint) >= handles || (wanted.is_on && handles < 2)
        };
        let first = self.sections.iter().find(wants)?;
        Some(match handles {
            0 | 1 => format!(
                "the placement of [{}] is ignored: the drive has one placement handle",
                first.name
            ),
            _ => format!(
                "[{}] names handles that the drive has not, which has {handles}: they are the last one",
                first.name
            ),
        })
    }
}

/// Requests of all threads, in turns.
pub(crate) struct Flat {
    threads: Vec<(usize, Requests)>,
    turn: usize,
}

impl Iterator for Flat {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            let phase = self.threads.first()?.0;
            let width = self.threads.partition_point(|thread| thread.0 == phase);
            self.turn = (self.turn + 1) % width;
            let (_, requests) = &mut self.threads[self.turn];
            match requests.next_in_one_pass() {
                Some(request) => return Some(request),
                None => drop(self.threads.remove(self.turn)),
            }
        }
    }
}
