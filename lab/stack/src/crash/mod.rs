//! Power cuts of a stack with a file system under a workload of files, or of a drive under
//! requests of blocks.
//!
//! The drive is formatted and the tree that the workload needs is made first; the
//! run that is cut begins with a mount. Write-back and commits are hurried, so
//! that a run of a fraction of a second sees them: see [`HURRIED`].

mod again;
mod blocks;
mod subject;

use crate::error::StackError;
use crate::hosts::{self, AnyHost, Behaviour};
use crate::plan::Plan;
use crash::{Exploration, Points, Progress};
use sim::Seed;
use std::ops::ControlFlow;
use units::{Bytes, GIB, Ns};
use vfs::CacheConfig;
use workload::files::FileWorkload;

/// Ages in a run that is cut: dirty pages are written back after 3 ms, looked for
/// each millisecond, and a transaction is committed after 5 ms. Linux has 30 s,
/// 5 s and 5 s; runs of that length have too few calls between two of them for
/// cuts to meet much.
pub const HURRIED: (Ns, Ns, Ns) = (Ns::ms(3), Ns::ms(1), Ns::ms(5));

/// Largest drive that is cut: forking and recovering it costs time by its size.
pub const LARGEST: Bytes = Bytes(4 * GIB);

/// What is to be explored.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuts {
    /// What runs: the seed of the plan chooses workload and points.
    pub plan: Plan,
    /// Where the power is cut.
    pub points: Points,
    /// One in so many cuts is shown to a checker from outside; 0 for none.
    pub outside: u64,
    /// Memory of the page cache: a small one evicts what was just written.
    pub memory: Bytes,
    /// Whether the drive answers flushes without doing them while the workload
    /// runs, which the judges must find out.
    pub lies: bool,
    /// Whether stores to memory that survives power cuts last by chance alone while the
    /// workload runs, which the judges must find out as well.
    pub skips_fences: bool,
    /// Whether the files that are there when the workload begins are kept as a snapshot,
    /// which is to stay what it is.
    pub snapshot: bool,
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

/// Cuts the power as [`explore()`] does, for as long as `progress` lets it go on: what comes
/// out is of the points until then.
///
/// # Errors
/// As [`explore()`].
pub fn explore_while(
    cuts: &Cuts,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Exploration, StackError> {
    let plan = &cuts.plan;
    let refused = |reason: &str| StackError::Stack {
        stack: plan.stack.to_string(),
        reason: reason.to_owned(),
    };
    if plan.drive.capacity > LARGEST {
        return Err(refused("expected a drive of at most 4 GiB to be cut"));
    }
    if cuts.skips_fences && hosts::memory(&plan.stack.host, &plan.stack.switches).is_none() {
        return Err(refused(
            "expected a host with persistent memory, to skip its fences",
        ));
    }
    if plan.stack.host == "raw" && plan.drive.zones.is_none() {
        let subject = blocks::Blocks::new(cuts)?;
        let found = crash::explore_while(&subject, &cuts.points, Seed(plan.seed), progress);
        return subject.failure().map_or(Ok(found), Err);
    }
    let behaviour = Behaviour {
        commit_interval: Some(HURRIED.2),
        ..plan.behaviour.clone()
    };
    let none = "expected a stack with a file system or with blocks, by which cuts are judged";
    let host = hosts::named(&plan.stack.host, &plan.stack.switches, &behaviour);
    let host = host.ok_or_else(|| refused(none))?;
    if let Some(corpus) = FileWorkload::parse(&plan.workload)?.corpus() {
        return explore_corpus(&host, cuts, corpus, progress);
    }
    let subject = subject::Files::new(host, cuts)?;
    let found = crash::explore_while(&subject, &cuts.points, Seed(plan.seed), progress);
    subject.failure().map_or(Ok(found), Err)
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

/// The cache of a run that is cut, with so much memory.
fn cache(memory: Bytes) -> CacheConfig {
    CacheConfig {
        memory,
        expire: HURRIED.0,
        writeback_interval: HURRIED.1,
        ..CacheConfig::default()
    }
}
