//! Statistics of the body: node counts per tree, tree heights and extents per file.

use crate::forest::NodeStats;
use crate::format::extent::{Part, Piece, piece};
use crate::format::{Key, id, kind, node};
use crate::fs::Core;
use crate::nodes::TreeKind;
use crate::persist::Persist;
use vfs::{Errno, ExtentCounts, NodesByTree, Result, TreeStats};

/// Sums node counts, indexed by [`TreeKind`], into the groups that reports list.
fn by_tree(counts: &[u64; TreeKind::ALL.len()]) -> NodesByTree {
    let of = |kind: TreeKind| counts[kind as usize];
    NodesByTree {
        roots: of(TreeKind::Root) + of(TreeKind::Other),
        extents: of(TreeKind::Extent),
        chunks: of(TreeKind::Chunk) + of(TreeKind::Device),
        files: of(TreeKind::Files),
        checksums: of(TreeKind::Csum),
        logs: of(TreeKind::Log),
    }
}

/// Counts files, pieces and contiguous extents. Pieces arrive ordered by inode, then offset.
#[derive(Default)]
struct Counter {
    counts: ExtentCounts,
    file: u64,
    own: u64,
    /// Start of a piece that would extend the last one: offset in the file, address, and
    /// whether it is written. `None` at the start of a file and after a hole.
    next: Option<(u64, u64, bool)>,
}

impl Counter {
    fn take(&mut self, key: Key, part: Option<Part>) {
        if key.object != self.file {
            self.end();
            self.file = key.object;
        }
        let Some(part) = part else {
            self.own += 1;
            self.counts.pieces += 1;
            return;
        };
        if part.is_hole() {
            self.next = None;
            return;
        }
        self.counts.pieces += 1;
        let place = part.bytenr + part.offset;
        self.own += u64::from(self.next != Some((key.offset, place, part.written)));
        self.next = Some((key.offset + part.bytes, place + part.bytes, part.written));
    }

    fn end(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.next = None;
        self.counts.files += u64::from(own > 0);
        self.counts.extents += own;
        self.counts.most = self.counts.most.max(own);
    }
}

impl<S: Persist> Core<S> {
    /// Counters since the mount, and the number of levels of each main tree.
    pub(crate) fn tree_stats(&self) -> TreeStats {
        let (forest, counts) = (&self.forest, self.counts.get());
        let NodeStats {
            copied,
            changed,
            split,
            written,
            handed,
        } = forest.stats.get();
        let levels = |tree: &crate::forest::Tree| u64::from(tree.start.get().level) + 1;
        TreeStats {
            commits: counts.commits,
            forced_commits: counts.forced_commits,
            logged_forces: counts.logged,
            copied: by_tree(&copied),
            changed: by_tree(&changed),
            split: by_tree(&split),
            written: by_tree(&written),
            handed: by_tree(&handed),
            copied_pages: counts.copied_pages,
            replaced_pages: counts.replaced_pages,
            files_levels: self.tree(id::FS_TREE).map_or(0, |tree| levels(&tree)),
            extents_levels: levels(&forest.extents),
            checksums_levels: levels(&forest.csums),
        }
    }

    /// Counts the pieces and contiguous extents of the files of the first subvolume.
    //= hyfim fig 5
    pub(crate) async fn count_extents(&self) -> Result<ExtentCounts> {
        let tree = self.tree(id::FS_TREE).ok_or(Errno::EUCLEAN)?;
        let (mut counter, mut from) = (Counter::default(), Key::default());
        loop {
            let some = self.with(|| {
                let Some((leaf, slot)) = self.forest.leaf_from(&tree, from)? else {
                    return Ok(Vec::new());
                };
                let bytes = leaf.bytes();
                let slots = slot..node::items(&bytes);
                let taken = slots.map(|slot| {
                    let key = node::key(&bytes, slot);
                    let own = key.kind == kind::EXTENT_DATA;
                    let part = own.then(|| match piece(node::data(&bytes, slot)) {
                        Some(Piece::Extent(part)) => Some(part),
                        _ => None,
                    });
                    (key, part)
                });
                Ok(taken.collect::<Vec<_>>())
            });
            let some = some.await?;
            let next = some.last().and_then(|(key, _)| key.next());
            for (key, part) in some {
                if let Some(part) = part {
                    counter.take(key, part);
                }
            }
            let Some(next) = next else { break };
            from = next;
        }
        counter.end();
        Ok(counter.counts)
    }
}
