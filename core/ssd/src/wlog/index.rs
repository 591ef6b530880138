//! What the log needs to know: where the newest version of each line is.

use super::chunks::Chunk;

/// An index of a log. Which one is a parameter of the log: firmware differs in it.
pub trait Index: Default {
    /// The newest version of the chunk's lines in `page` is at its slots.
    fn lay(&mut self, page: u32, chunk: Chunk);

    /// The lines of `page` that are in the log, ordered by line.
    fn chunks(&self, page: u32) -> &[Chunk];

    /// Forgets the lines of `page` whose bits are set in `mask`; whether the page
    /// was there.
    fn cut(&mut self, page: u32, mask: u64) -> bool;

    /// Forgets `page`; whether it was there.
    fn remove(&mut self, page: u32) -> bool;

    /// The first page that is there from `from` on.
    fn next_page(&self, from: u32) -> Option<u32>;

    /// Pages that are there.
    fn pages(&self) -> u64;

    /// Bytes of device DRAM that it takes, by the sizes that its source states.
    fn memory(&self) -> u64;
}
