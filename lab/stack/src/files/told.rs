//! Facts and counters of a file system, for the record.

use crate::attached::Attached;
use hyfim::HyfimStats;
use report::record::{Cleaning, Extents, FileSystem, LogFacts, Nodes, SwapFacts, TreeFacts};
use vfs::{Body, ExtentCounts, LogStats, NodesByTree, TreeStats};

/// Counters of a file system at one time.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    log: Option<LogStats>,
    trees: Option<TreeStats>,
    swaps: Option<HyfimStats>,
}

impl Counted {
    /// The present counters of the file system and of the mapping below it.
    pub(super) fn of<B: Body>(body: &B, port: &Attached) -> Self {
        Self {
            log: body.log_stats(),
            trees: body.tree_stats(),
            swaps: port.swap_stats(),
        }
    }
}

/// The facts of a file system at the end of a run; counters are relative to `before`.
pub(super) fn file_system<B: Body>(
    (body, port): (&B, &Attached),
    before: Counted,
    extents: Option<ExtentCounts>,
) -> FileSystem {
    let (stat, now) = (body.stat(), Counted::of(body, port));
    let below = (
        now.swaps.unwrap_or_default(),
        before.swaps.unwrap_or_default(),
    );
    let bytes = |blocks: u64| blocks * u64::from(stat.block_size);
    FileSystem {
        usable_bytes: bytes(stat.blocks),
        used_bytes: bytes(stat.blocks - stat.blocks_free.min(stat.blocks)),
        log: now
            .log
            .zip(before.log)
            .map(|(now, before)| log(now, before)),
        trees: now.trees.zip(before.trees).map(|(now, before)| TreeFacts {
            journaled_bytes: below.0.journaled_bytes - below.1.journaled_bytes,
            written_back: below.0.written_back - below.1.written_back,
            ..trees(now, before)
        }),
        swaps: now.swaps.map(|now| swaps(now, below.1)),
        extents: extents.map(|counts| Extents {
            files: counts.files,
            pieces: counts.pieces,
            total: counts.extents,
            most: counts.most,
        }),
    }
}

fn log(now: LogStats, before: LogStats) -> LogFacts {
    let cleaning = |now: vfs::Cleaning, before: vfs::Cleaning| {
        let since = now.since(before);
        Cleaning {
            calls: since.calls,
            moved_bytes: since.moved_bytes,
            time_ns: since.time.0,
        }
    };
    LogFacts {
        memory_bytes: now.memory,
        foreground: cleaning(now.foreground, before.foreground),
        background: cleaning(now.background, before.background),
        metadata: cleaning(now.metadata, before.metadata),
        checkpoints: now.checkpoints - before.checkpoints,
    }
}

fn nodes(now: NodesByTree, before: NodesByTree) -> Nodes {
    let of = |count: fn(NodesByTree) -> u64| count(now) - count(before);
    let mut nodes = Nodes {
        all: 0,
        roots: of(|n| n.roots),
        extents: of(|n| n.extents),
        chunks: of(|n| n.chunks),
        files: of(|n| n.files),
        checksums: of(|n| n.checksums),
        logs: of(|n| n.logs),
    };
    nodes.all =
        nodes.roots + nodes.extents + nodes.chunks + nodes.files + nodes.checksums + nodes.logs;
    nodes
}

const fn swaps(now: HyfimStats, before: HyfimStats) -> SwapFacts {
    SwapFacts {
        published: now.published - before.published,
        staged: now.staged - before.staged,
        exchanged: now.exchanged - before.exchanged,
        refused: now.refused - before.refused,
        waits: now.waits - before.waits,
    }
}

fn trees(now: TreeStats, before: TreeStats) -> TreeFacts {
    TreeFacts {
        commits: now.commits - before.commits,
        forced_commits: now.forced_commits - before.forced_commits,
        logged_forces: now.logged_forces - before.logged_forces,
        copied: nodes(now.copied, before.copied),
        changed: nodes(now.changed, before.changed),
        split: nodes(now.split, before.split),
        written: nodes(now.written, before.written),
        handed: nodes(now.handed, before.handed),
        journaled_bytes: 0,
        written_back: 0,
        copied_pages: now.copied_pages - before.copied_pages,
        replaced_pages: now.replaced_pages - before.replaced_pages,
        files_levels: now.files_levels,
        extents_levels: now.extents_levels,
        checksums_levels: now.checksums_levels,
    }
}
