//! Power cuts of a stack with a file system under a file workload, or of a drive under block
//! requests.
//!
//! The drive is formatted and the workload's tree is made first; the run to be cut begins with a
//! mount. Write-back and commits are accelerated, so that a run of a fraction of a second contains
//! them: see [`HURRIED`].

mod again;
mod blocks;
mod prepare;
mod program;
mod setup;
mod subject;

pub use program::{Check, Fresh, State};

use crate::error::StackError;
use crate::hosts::{self, AnyHost, Behaviour};
use crate::plan::Plan;
use crate::used::Rest as Start;
use crash::{Exploration, Points, Progress};
use sim::{Rng, Seed};
use std::ops::ControlFlow;
use units::{Bytes, GIB, Ns};
use vfs::CacheConfig;
use workload::files::FileWorkload;

/// Accelerated intervals of a run to be cut: dirty pages expire after 3 ms and are scanned each
/// millisecond, and a transaction commits after 5 ms. Linux has 30 s, 5 s and 5 s; runs of that
/// length have too few calls between two of them for cuts to hit much.
pub const HURRIED: (Ns, Ns, Ns) = (Ns::ms(3), Ns::ms(1), Ns::ms(5));

/// Largest drive to be cut: forking and recovering it takes time in proportion to its size.
pub const LARGEST: Bytes = Bytes(4 * GIB);

/// The settings of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuts {
    /// The run; its seed determines workload and points.
    pub plan: Plan,
    /// The points at which the power is cut.
    pub points: Points,
    /// An outside checker examines one cut in this many; 0 for none.
    pub outside: u64,
    /// Memory of the page cache: a small one evicts recently written pages.
    pub memory: Bytes,
    /// Whether the drive acknowledges flushes without performing them while the workload runs. The
    /// judges must detect it.
    pub lies: bool,
    /// Whether the drive has a volatile cache that it empties in any order, in the run and in
    /// recoveries: only flushes and forced writes order writes. Promises hold all the same.
    pub reorders: bool,
    /// Whether stores to persistent memory survive only by chance while the workload runs, as
    /// without fences. The judges must detect it.
    pub skips_fences: bool,
    /// Whether a snapshot is taken of the files before the workload starts; it must stay unchanged.
    pub snapshot: bool,
    /// Contents of a used stack; `None` to make those of the plan.
    pub rest: Option<Start>,
}

/// Runs the plan of `cuts` once and cuts the power at its points.
///
/// # Errors
/// If the plan cannot be built or run, or if an outside checker is missing.
pub fn explore(cuts: &Cuts, progress: &mut dyn FnMut(Progress)) -> Result<Exploration, StackError> {
    explore_while(cuts, &mut |heard| {
        progress(heard);
        ControlFlow::Continue(())
    })
}

/// Cuts the power as [`explore()`] does, until `progress` breaks; the result covers the points
/// until then.
///
/// # Errors
/// The errors of [`explore()`].
pub fn explore_while(
    cuts: &Cuts,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Exploration, StackError> {
    let plan = &cuts.plan;
    let Some(host) = host(cuts)? else {
        let subject = blocks::Blocks::new(cuts)?;
        let found = crash::explore_while(&subject, &cuts.points, Seed(plan.seed), progress);
        return subject.failure().map_or(Ok(found), Err);
    };
    if let Some(corpus) = FileWorkload::parse(&plan.workload)?.corpus() {
        return explore_corpus(&host, cuts, corpus, progress);
    }
    let subject = subject::Files::new(host, cuts)?;
    let found = crash::explore_while(&subject, &cuts.points, Seed(plan.seed), progress);
    subject.failure().map_or(Ok(found), Err)
}

/// Checks whether `cuts` can be explored: builds the drive with its past, and on it the file system
/// with the workload's first tree. A corpus is not unfolded.
///
/// # Errors
/// The error with which [`explore_while()`] would end before the first cut.
pub fn check(cuts: &Cuts) -> Result<(), StackError> {
    match host(cuts)? {
        None => blocks::Blocks::new(cuts).map(drop),
        Some(host) => subject::Files::new(host, cuts).map(drop),
    }
}

/// The file system of `cuts`; none for block requests.
fn host(cuts: &Cuts) -> Result<Option<AnyHost>, StackError> {
    let plan = &cuts.plan;
    let refused = |reason: &str| StackError::Stack {
        stack: plan.stack.to_string(),
        reason: reason.to_owned(),
    };
    if plan.drive.capacity > LARGEST {
        return Err(refused("expected a drive of at most 4 GiB for power cuts"));
    }
    if cuts.skips_fences && hosts::memory(&plan.stack.host, &plan.stack.switches).is_none() {
        return Err(refused(
            "--skip-fences: expected a host with persistent memory",
        ));
    }
    let drive = &plan.drive;
    if cuts.reorders && (drive.zones.is_some() || drive.front.is_some() || drive.raw.is_some()) {
        let problem = "--reorder: expected a drive that has only the block interface";
        return Err(refused(problem));
    }
    if plan.stack.host == "raw" && plan.drive.zones.is_none() {
        return Ok(None);
    }
    let behaviour = Behaviour {
        commit_interval: Some(HURRIED.2),
        ..plan.behaviour.clone()
    };
    let none = "expected a stack with a file system, or a raw stack with a block interface";
    let host = hosts::named(&plan.stack.host, &plan.stack.switches, &behaviour);
    host.map(Some).ok_or_else(|| refused(none))
}

/// Runs every workload of a corpus by itself. Workloads of a group share the drive that the
/// first of them is given, with its file system and tree.
fn explore_corpus(
    host: &AnyHost,
    cuts: &Cuts,
    corpus: Vec<Vec<FileWorkload>>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Exploration, StackError> {
    let mut all = Exploration::default();
    for group in corpus {
        let Some(first) = group.first() else { continue };
        let mut cuts = cuts.clone();
        cuts.plan.workload.clone_from(&first.text);
        let mut subject = subject::Files::new(host.clone(), &cuts)?;
        for workload in group {
            let text = workload.text.clone();
            subject.set_workload(workload);
            let (points, failures) = (all.points, all.lost + all.corrupt);
            let mut ended = ControlFlow::Continue(());
            let mut tell = |heard: Progress| {
                ended = progress(Progress {
                    points: points + heard.points,
                    of: points + heard.of,
                    failures: failures + heard.failures,
                });
                ended
            };
            let seed = Seed(cuts.plan.seed);
            let mut found = crash::explore_while(&subject, &cuts.points, seed, &mut tell);
            if let Some(error) = subject.failure() {
                return Err(error);
            }
            for failure in &mut found.failures {
                failure.workload = Some(text.clone());
            }
            all.add(&found);
            if ended.is_break() {
                return Ok(all);
            }
        }
    }
    Ok(all)
}

/// Choices of a drive with a volatile cache, if `cuts` ask for one.
fn disorder(cuts: &Cuts) -> Option<Rng> {
    let rng = || Seed(cuts.plan.seed).stream("volatile cache");
    cuts.reorders.then(rng)
}

/// The page cache of a run to be cut, with this much memory.
fn cache(memory: Bytes) -> CacheConfig {
    CacheConfig {
        memory,
        expire: HURRIED.0,
        writeback_interval: HURRIED.1,
        ..CacheConfig::default()
    }
}
