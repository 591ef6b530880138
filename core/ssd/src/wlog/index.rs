//! The index of a log: the slots of the newest version of each line.

use super::chunks::Chunk;

/// An index of a log. It is a parameter of the log, because firmware differs in it.
pub trait Index: Default {
    /// Makes the slots of `chunk` the newest version of its lines in `page`.
    fn lay(&mut self, page: u32, chunk: Chunk);

    /// Chunks of `page` in the index, ordered by line.
    fn chunks(&self, page: u32) -> &[Chunk];

    /// Removes the lines of `page` in `mask`. Returns whether the page was in the index.
    fn cut(&mut self, page: u32, mask: u64) -> bool;

    /// Removes `page`. Returns whether it was in the index.
    fn remove(&mut self, page: u32) -> bool;

    /// The first page in the index from `from` on.
    fn next_page(&self, from: u32) -> Option<u32>;

    /// Pages in the index.
    fn pages(&self) -> u64;

    /// Bytes of device DRAM that the index takes, by the sizes that its source states.
    fn memory(&self) -> u64;
}
