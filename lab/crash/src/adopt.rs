//! Files from before a history: durable, whatever follows.

use crate::chronicle::{Chronicle, Leads, Pending};
use crate::file::Birth;
use crate::judge::{Seen, Shown};
use nand::{Payload, UNIT};

impl Chronicle {
    /// Takes over the tree that is there before the history begins, as durable.
    pub fn adopt(&mut self, shown: &Shown) {
        for (dir, name, seen) in shown.iter() {
            if !self.inodes.contains_key(&seen.ino) {
                self.made(seen.ino, seen.kind, &seen.target);
                self.fill(seen);
                self.know(seen.ino, seen.attributes.clone());
            }
            let ticket = self.begin_names(&[(dir, name, Leads::To(seen.ino))]);
            self.end_names(ticket, &[(dir, name, Some(seen.ino))]);
        }
        self.settle();
    }

    /// Takes over the contents of a file, page by page.
    fn fill(&mut self, seen: &Seen) {
        let size = seen.size;
        let id = self.id(seen.ino);
        let file = self.file(id);
        file.size = size;
        for (index, page) in (0..).zip(&seen.pages) {
            let start = index * UNIT as u64;
            let range = start..size.min(start + UNIT as u64);
            match pattern_of(page, range.end - range.start) {
                Some(pattern) => drop(file.now.write(range, pattern)),
                None => drop(file.unknown.write(range, 1)),
            }
        }
    }

    /// Makes all files and names durable, and older than the history that follows.
    pub fn settle(&mut self) {
        for file in self.files.values_mut() {
            file.birth = Birth::Before;
        }
        let ticket = self.begin(Pending::ForceAll);
        self.end_force_all(ticket);
    }
}

/// The repeated pattern of 8 bytes that the first `len` bytes of a page consist of; none if
/// they have several.
fn pattern_of(page: &Payload, len: u64) -> Option<u64> {
    match page {
        Payload::Zero => Some(0),
        Payload::Fill(pattern) => Some(*pattern),
        Payload::Lost | Payload::Partly(_) => None,
        Payload::Bytes(bytes) => {
            let bytes = &bytes[..len as usize];
            let mut first = [0; 8];
            let known = bytes.len().min(8);
            first[..known].copy_from_slice(&bytes[..known]);
            let mut chunks = bytes.chunks(8);
            let same = chunks.all(|chunk| chunk == &first[..chunk.len()]);
            same.then(|| u64::from_le_bytes(first))
        }
    }
}
