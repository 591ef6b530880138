//! The block map of a file.
//!
//! Invariants: runs are sorted and cover the file from block 0 without holes. No two neighbours
//! could be merged. A run is in one zone.

/// Consecutive blocks of a file that are consecutive in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block, as an index in the file.
    pub(crate) first: u64,
    pub(crate) zone: u32,
    /// First block, as an index in the zone.
    pub(crate) at: u32,
    pub(crate) blocks: u32,
}

impl Run {
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.blocks)
    }

    /// The part of the run from block `from` to block `to` of the file, which it must contain.
    fn part(&self, from: u64, to: u64) -> Self {
        Self {
            first: from,
            zone: self.zone,
            at: self.at + (from - self.first) as u32,
            blocks: (to - from) as u32,
        }
    }

    fn overlap(&self, from: u64, to: u64) -> Option<Self> {
        let (from, to) = (from.max(self.first), to.min(self.end()));
        (from < to).then(|| self.part(from, to))
    }

    fn leads_to(&self, next: &Self) -> bool {
        self.zone == next.zone
            && self.end() == next.first
            && self.at.checked_add(self.blocks) == Some(next.at)
            && self.blocks.checked_add(next.blocks).is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: Vec<Run>,
}

impl Runs {
    /// Number of mapped blocks.
    pub(crate) fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Maps a run, which may begin at the end or overwrite blocks; returns the old runs of the
    /// overwritten blocks.
    pub(crate) fn put(&mut self, run: Run) -> Vec<Run> {
        assert!(run.first <= self.end() && run.blocks > 0, "no holes");
        let (start, stop) = self.span(run.first, run.end());
        let mut old = Vec::new();
        let mut new = Vec::new();
        for was in &self.runs[start..stop] {
            old.extend(was.overlap(run.first, run.end()));
            new.extend(was.overlap(was.first, run.first));
        }
        new.push(run);
        let tails = self.runs[start..stop].iter();
        new.extend(tails.filter_map(|was| was.overlap(run.end(), was.end())));
        self.runs.splice(start..stop, new);
        self.join(start.saturating_sub(1), stop + 3);
        old
    }

    /// Unmaps all blocks from `end` on; returns their runs.
    pub(crate) fn cut(&mut self, end: u64) -> Vec<Run> {
        let (start, stop) = self.span(end, u64::MAX);
        let gone: Vec<Run> = self.runs.drain(start..stop).collect();
        let left = gone.first().and_then(|run| run.overlap(0, end));
        self.runs.extend(left);
        gone.iter()
            .filter_map(|run| run.overlap(end, u64::MAX))
            .collect()
    }

    /// The mappings of the blocks from `from` to `to`.
    pub(crate) fn parts(&self, from: u64, to: u64) -> impl Iterator<Item = Run> {
        let (start, stop) = self.span(from, to);
        self.runs[start..stop]
            .iter()
            .filter_map(move |run| run.overlap(from, to))
    }

    /// Indices of the runs that overlap the blocks from `from` to `to`.
    fn span(&self, from: u64, to: u64) -> (usize, usize) {
        let start = self.runs.partition_point(|run| run.end() <= from);
        let stop = self.runs.partition_point(|run| run.first < to);
        (start, stop.max(start))
    }

    /// Merges mergeable neighbours among the runs from index `from` to `to`.
    fn join(&mut self, from: usize, to: usize) {
        let mut at = to.min(self.runs.len());
        while at > from + 1 {
            at -= 1;
            if self.runs[at - 1].leads_to(&self.runs[at]) {
                self.runs[at - 1].blocks += self.runs[at].blocks;
                self.runs.remove(at);
            }
        }
    }

    pub(crate) fn check(&self) {
        let mut end = 0;
        for run in &self.runs {
            assert!(run.first == end && run.blocks > 0, "{run:?} at {end}");
            end = run.end();
        }
        for pair in self.runs.windows(2) {
            assert!(!pair[0].leads_to(&pair[1]), "{pair:?} are one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Place of every block, as a list.
    fn blocks(runs: &Runs) -> Vec<(u32, u32)> {
        let each = |run: &Run| {
            (0..run.blocks)
                .map(|n| (run.zone, run.at + n))
                .collect::<Vec<_>>()
        };
        runs.iter().flat_map(each).collect()
    }

    #[test]
    fn runs_agree_with_a_list_of_blocks() {
        bolero::check!()
            .with_type::<Vec<(u8, u8, u8, bool)>>()
            .for_each(|steps| {
                let (mut runs, mut model) = (Runs::default(), Vec::new());
                for &(first, length, place, cuts) in steps {
                    let first = usize::from(first) % (model.len() + 1);
                    let gone = if cuts {
                        let gone = model.split_off(first);
                        assert_eq!(
                            runs.cut(first as u64)
                                .iter()
                                .map(|r| r.blocks as usize)
                                .sum::<usize>(),
                            gone.len()
                        );
                        gone
                    } else {
                        let count = u32::from(length % 7) + 1;
                        let (zone, at) = (u32::from(place & 1), u32::from(place / 2) % 40);
                        let run = Run {
                            first: first as u64,
                            zone,
                            at,
                            blocks: count,
                        };
                        let old = runs.put(run);
                        let end = model.len().min(first + count as usize);
                        let new = (0..count).map(|n| (zone, at + n));
                        let gone: Vec<_> = model.splice(first..end, new).collect();
                        let total: u32 = old.iter().map(|r| r.blocks).sum();
                        assert_eq!(total as usize, gone.len());
                        gone
                    };
                    drop(gone);
                    runs.check();
                    assert_eq!(blocks(&runs), model);
                }
            });
    }

    #[test]
    fn consecutive_blocks_merge_into_one_run() {
        let mut runs = Runs::default();
        for n in 0..5 {
            runs.put(Run {
                first: n,
                zone: 3,
                at: 10 + n as u32,
                blocks: 1,
            });
        }
        assert_eq!(
            runs.runs,
            [Run {
                first: 0,
                zone: 3,
                at: 10,
                blocks: 5
            }]
        );
    }
}
