//! Origins of the requests of a trace, interned by the bytes of their names.
//!
//! Invariant: an origin that was met lately is found without allocation and without a search.

use crate::request::{Labels, Purpose};
use units::Origin;

/// Origins that are remembered.
const RECENT: usize = 4;

/// Labels of a trace, and the origins met lately.
#[derive(Default)]
pub(super) struct Origins {
    pub(super) labels: Labels,
    recent: [Option<Recent>; RECENT],
    /// Entry of `recent` that is replaced next.
    oldest: usize,
}

/// Origin, by the name and the mark that its requests have in the trace.
struct Recent {
    name: Vec<u8>,
    metadata: bool,
    origin: Origin,
}

impl Origins {
    /// The origin of a request of process `name`; `metadata` is the kernel's mark `M`.
    #[inline]
    pub(super) fn of(&mut self, name: &[u8], metadata: bool) -> Origin {
        let same = |recent: &&Recent| recent.metadata == metadata && recent.name == name;
        match self.recent.iter().flatten().find(same) {
            Some(recent) => recent.origin,
            None => self.search(name, metadata),
        }
    }

    fn search(&mut self, name: &[u8], metadata: bool) -> Origin {
        let text = String::from_utf8_lossy(name);
        let purpose = Purpose::of(&text, metadata);
        let origin = match &*text {
            "" => self.labels.intern_as("unnamed", purpose),
            text => self.labels.intern_as(text, purpose),
        };
        let recent = self.recent[self.oldest].get_or_insert_with(|| Recent {
            name: Vec::new(),
            metadata,
            origin,
        });
        recent.name.clear();
        recent.name.extend_from_slice(name);
        (recent.metadata, recent.origin) = (metadata, origin);
        self.oldest = (self.oldest + 1) % RECENT;
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_in_turns_keep_their_labels() {
        let mut origins = Origins::default();
        let names: [&[u8]; 7] = [
            b"a",
            b"b",
            b"",
            b"\xff",
            b"jbd2",
            b"a",
            "\u{fffd}".as_bytes(),
        ];
        let mut met = Vec::new();
        for _ in 0..3 {
            for name in names {
                for metadata in [false, true] {
                    met.push(origins.of(name, metadata).0);
                }
            }
        }
        let turn = [1, 2, 3, 4, 0, 5, 6, 7, 8, 8, 1, 2, 6, 7];
        assert_eq!(met, turn.repeat(3));
        let names = origins.labels.names();
        let last = ["b (metadata)", "unnamed (metadata)", "\u{fffd}"];
        assert_eq!(names[4..7], last);
    }
}
