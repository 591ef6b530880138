//! Converts events to writes and removals of blocks.
//!
//! Invariant: a block is written when it has been covered, or when its file is synced or closed: a
//! real system gathers small appends.

use super::{JudgeError, MAX_WRITTEN};
use crate::event::{Call, Event, FileKey};
use crate::flags::Flags;
use std::collections::BTreeMap;

/// Maximum number of partly written blocks of a file that wait to be covered.
const MAX_PARTIAL: usize = 64;

/// A change of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A block of a file is written, given by index.
    Write(FileKey, u64),
    /// The blocks of a file from an index on are dead.
    Cut(FileKey, u64),
}

/// Partly written blocks of each file, and the number of bytes covered.
pub(super) struct Blocks {
    block: u64,
    partial: BTreeMap<FileKey, BTreeMap<u64, u64>>,
    left: u64,
}

type Sink<'s> = dyn FnMut(Change) -> Result<(), JudgeError> + 's;

impl Blocks {
    /// An empty state for blocks of `block` bytes, above 0.
    pub(super) fn new(block: u64) -> Self {
        Self {
            block,
            partial: BTreeMap::new(),
            left: MAX_WRITTEN,
        }
    }

    pub(super) fn take(
        &mut self,
        event: &Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), JudgeError> {
        let file = event.file;
        match event.call {
            Call::Write { offset, len } => self.write(file, offset, len, sink),
            Call::Sync | Call::Close => {
                let waiting = self.partial.remove(&file).unwrap_or_default();
                for at in waiting.into_keys() {
                    self.put(file, at, sink)?;
                }
                Ok(())
            }
            Call::Open(open) if open.flags.has(Flags::TRUNCATE) && open.flags.writes() => {
                self.cut(file, 0, sink)
            }
            Call::Truncate { len } => self.cut(file, len.div_ceil(self.block), sink),
            Call::Gone => self.cut(file, 0, sink),
            _ => Ok(()),
        }
    }

    fn cut(&mut self, file: FileKey, from: u64, sink: &mut Sink<'_>) -> Result<(), JudgeError> {
        if let Some(waiting) = self.partial.get_mut(&file) {
            waiting.split_off(&from);
            if waiting.is_empty() {
                self.partial.remove(&file);
            }
        }
        sink(Change::Cut(file, from))
    }

    fn put(&mut self, file: FileKey, at: u64, sink: &mut Sink<'_>) -> Result<(), JudgeError> {
        self.left = self.left.checked_sub(1).ok_or(JudgeError::Written)?;
        sink(Change::Write(file, at))
    }

    fn write(
        &mut self,
        file: FileKey,
        offset: u64,
        len: u64,
        sink: &mut Sink<'_>,
    ) -> Result<(), JudgeError> {
        let end = offset.saturating_add(len);
        if len / self.block > self.left {
            return Err(JudgeError::Written);
        }
        let mut at = offset;
        while at < end {
            let number = at / self.block;
            let begin = number * self.block;
            let next = begin.saturating_add(self.block).min(end);
            let waiting = self.partial.entry(file).or_default();
            let covered = waiting.remove(&number).unwrap_or(0) + (next - at);
            let evicted = if covered >= self.block {
                Some(number)
            } else {
                waiting.insert(number, covered);
                let over = waiting.len() > MAX_PARTIAL;
                over.then(|| waiting.pop_first().map(|(first, _)| first))
                    .flatten()
            };
            if let Some(number) = evicted {
                self.put(file, number, sink)?;
            }
            at = next;
        }
        if self.partial.get(&file).is_some_and(BTreeMap::is_empty) {
            self.partial.remove(&file);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ns;

    fn changes(calls: &[Call<'_>]) -> Vec<(char, u64)> {
        let mut blocks = Blocks::new(100);
        let mut seen = Vec::new();
        for &call in calls {
            let event = Event {
                at: Ns(0),
                thread: 0,
                file: FileKey(1),
                call,
            };
            let mut note = |change| {
                seen.push(match change {
                    Change::Write(_, at) => ('w', at),
                    Change::Cut(_, from) => ('c', from),
                });
                Ok(())
            };
            blocks.take(&event, &mut note).unwrap();
        }
        assert!(blocks.partial.is_empty());
        seen
    }

    #[test]
    fn small_appends_are_gathered() {
        let append = |offset, len| Call::Write { offset, len };
        let calls = [
            append(0, 60),
            append(60, 60),
            append(120, 30),
            Call::Sync,
            append(150, 10),
            Call::Close,
        ];
        assert_eq!(changes(&calls), [('w', 0), ('w', 1), ('w', 1)]);
    }

    #[test]
    fn whole_blocks_are_written_at_once_and_cut_as_whole_ones() {
        let write = Call::Write {
            offset: 50,
            len: 300,
        };
        let calls = [write, Call::Truncate { len: 101 }, Call::Gone];
        assert_eq!(changes(&calls), [('w', 1), ('w', 2), ('c', 2), ('c', 0)]);
    }

    #[test]
    fn number_of_partial_blocks_is_bounded() {
        let calls: Vec<_> = (0..MAX_PARTIAL as u64 + 1)
            .map(|at| Call::Write {
                offset: at * 100,
                len: 1,
            })
            .chain([Call::Gone])
            .collect();
        assert_eq!(changes(&calls), [('w', 0), ('c', 0)]);
    }
}
