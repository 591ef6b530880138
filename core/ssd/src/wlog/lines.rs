//! Storage of a log's lines, for every kind of log.
//!
//! Invariant: clones share the segments that neither has written since.

use super::LINE;
use std::sync::Arc;

/// Lines of a segment, the unit of sharing between clones.
const SEGMENT: usize = 1024;

type Segment = [[u8; LINE]; SEGMENT];

/// Numbered places for lines. A place never written takes no memory and reads as zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines(Vec<Option<Arc<Segment>>>);

impl Lines {
    /// Storage with room for `places` lines.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self(vec![None; places.div_ceil(SEGMENT)])
    }

    /// Writes a line of 64 bytes to `place`.
    ///
    /// # Panics
    /// If `place` is out of range, or `line` has another length.
    pub fn set(&mut self, place: usize, line: &[u8]) {
        let segment = &mut self.0[place / SEGMENT];
        let segment = segment.get_or_insert_with(|| Arc::new([[0; LINE]; SEGMENT]));
        Arc::make_mut(segment)[place % SEGMENT].copy_from_slice(line);
    }

    /// The line at `place`.
    ///
    /// # Panics
    /// If `place` is out of range.
    #[must_use]
    pub fn get(&self, place: usize) -> [u8; LINE] {
        let segment = self.0[place / SEGMENT].as_ref();
        segment.map_or([0; LINE], |segment| segment[place % SEGMENT])
    }
}
