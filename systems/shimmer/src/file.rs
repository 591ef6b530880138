//! A file: its block map, and its data that are still in memory.
//!
//! Invariants: the zones hold a prefix of the file, the sealed chunks follow in order, and the
//! buffer being filled is the end. Each of these begins where the previous one ends, or at the
//! start of the previous one's last block, which is then written again.

use crate::command::{Data, FileId, Part, Piece};
use crate::config::{BLOCK, Placement};
use crate::runs::Runs;
use std::collections::VecDeque;
use std::sync::Arc;

/// A sealed buffer, full or cut short by a sync, that is to be written to zones.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Sequence number, in the order in which chunks of all files were sealed.
    pub(crate) number: u64,
    /// Offset in the file in bytes; a multiple of the block size.
    pub(crate) offset: u64,
    /// Number of bytes of the file; padding behind them fills the last block.
    pub(crate) len: u64,
    pub(crate) data: Arc<Vec<u8>>,
    /// Number of its blocks that are in zones.
    pub(crate) done: u32,
}

impl Chunk {
    pub(crate) fn blocks(&self) -> u32 {
        (self.data.len() as u64 / BLOCK) as u32
    }

    /// End of the written blocks, as an offset in the file in bytes.
    pub(crate) fn stored(&self) -> u64 {
        self.offset + self.len.min(u64::from(self.done) * BLOCK)
    }
}

/// A buffer that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    /// Offset in the file in bytes; a multiple of the block size.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Number of bytes at the start, less than a block, that were already sealed.
    pub(crate) clean: usize,
    /// Value of `Core::uses` at its last write.
    pub(crate) used: u64,
}

impl Filling {
    pub(crate) fn is_dirty(&self) -> bool {
        self.bytes.len() > self.clean
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// State of a file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path of the file; `None` once it is unlinked.
    pub(crate) path: Option<Box<[u8]>>,
    pub(crate) placement: Placement,
    pub(crate) opens: u32,
    pub(crate) runs: Runs,
    /// Size in bytes, including data in memory.
    pub(crate) size: u64,
    /// Number of bytes that the runs hold.
    pub(crate) stored: u64,
    pub(crate) sealed: VecDeque<Chunk>,
    /// Whether the first sealed chunk is being written.
    pub(crate) writing: bool,
    pub(crate) filling: Option<Filling>,
    /// Bytes by which the caller identifies the file.
    pub(crate) tag: Box<[u8]>,
    /// Batch of the log that holds the latest record of the file.
    pub(crate) batch: u64,
}

impl File {
    pub(crate) fn new(path: Box<[u8]>, placement: Placement) -> Self {
        Self {
            path: Some(path),
            placement,
            opens: 0,
            runs: Runs::default(),
            size: 0,
            stored: 0,
            sealed: VecDeque::new(),
            writing: false,
            filling: None,
            tag: Box::default(),
            batch: 0,
        }
    }

    /// Number of blocks that are still to be written.
    pub(crate) fn owed(&self) -> u64 {
        let sealed = self
            .sealed
            .iter()
            .map(|chunk| u64::from(chunk.blocks() - chunk.done));
        let dirty = self.filling.as_ref().filter(|filling| filling.is_dirty());
        let filling = dirty.map_or(0, |filling| (filling.bytes.len() as u64).div_ceil(BLOCK));
        sealed.sum::<u64>() + filling
    }

    /// The bytes of a partial last block, if it is in a sealed chunk.
    pub(crate) fn tail_in_memory(&self) -> Option<Data> {
        let chunk = self.sealed.back()?;
        let len = (self.size % BLOCK) as usize;
        let from = (self.size - len as u64).checked_sub(chunk.offset)? as usize;
        Some(Data {
            buffer: Arc::clone(&chunk.data),
            from,
            len,
        })
    }

    /// Location of the bytes of a partial last block, if it is in a zone.
    pub(crate) fn tail_in_zone(&self) -> Option<Piece> {
        let len = self.size % BLOCK;
        let first = self.size / BLOCK;
        let run = self.runs.parts(first, first + 1).next()?;
        Some(Piece {
            zone: run.zone,
            at: u64::from(run.at) * BLOCK,
            len,
        })
    }

    /// Length of the prefix, in bytes, whose current contents are in zones. It ends before the
    /// first byte that was overwritten in memory since.
    pub(crate) fn settled(&self) -> u64 {
        let sealed = self.sealed.front().map(Chunk::stored);
        let filling = self.filling.as_ref();
        let clean = filling.map(|filling| filling.offset + filling.clean as u64);
        let least = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
        self.stored.min(least(sealed)).min(least(clean))
    }

    /// Locates `len` bytes from `offset` on; a range behind the end is left out.
    pub(crate) fn parts(&self, offset: u64, len: u64) -> Vec<Part> {
        let end = offset.saturating_add(len).min(self.size);
        let mut at = offset;
        let mut parts = Vec::new();
        while at < end {
            let before = at;
            if let Some(data) = self.memory(at, end) {
                at += data.len as u64;
                parts.push(Part::Memory(data));
            } else {
                let end = end.min(self.memory_from());
                at = self.zone_parts(at, end, &mut parts);
            }
            assert!(at > before, "no byte of a file is nowhere");
        }
        parts
    }

    /// Offset of the first byte in memory; `u64::MAX` if none is.
    fn memory_from(&self) -> u64 {
        let sealed = self.sealed.front().map(|chunk| chunk.offset);
        let filling = self.filling.as_ref().map(|filling| filling.offset);
        sealed.or(filling).unwrap_or(u64::MAX)
    }

    /// The newest data in memory from `at` on, up to `end`.
    fn memory(&self, at: u64, end: u64) -> Option<Data> {
        let filling = self.filling.as_ref();
        if let Some(filling) = filling.filter(|f| (f.offset..f.end()).contains(&at)) {
            let from = (at - filling.offset) as usize;
            let bytes = &filling.bytes[from..];
            let len = bytes.len().min((end - at) as usize);
            let buffer = Arc::new(bytes[..len].to_vec());
            return Some(Data {
                buffer,
                from: 0,
                len,
            });
        }
        let holds = |chunk: &&Chunk| (chunk.offset..chunk.offset + chunk.len).contains(&at);
        let chunk = self.sealed.iter().rev().find(holds)?;
        // Newer data begin at a block behind this offset, or in its block.
        let newer = filling.map_or(u64::MAX, |filling| filling.offset);
        let stop = end.min(chunk.offset + chunk.len).min(newer.max(at + 1));
        Some(Data {
            buffer: Arc::clone(&chunk.data),
            from: (at - chunk.offset) as usize,
            len: (stop - at) as usize,
        })
    }

    fn zone_parts(&self, at: u64, end: u64, parts: &mut Vec<Part>) -> u64 {
        let mut reached = at;
        for run in self.runs.parts(at / BLOCK, end.div_ceil(BLOCK)) {
            let start = run.first * BLOCK;
            let stop = (run.end() * BLOCK).min(end);
            let within = reached - start;
            parts.push(Part::Zone(Piece {
                zone: run.zone,
                at: u64::from(run.at) * BLOCK + within,
                len: stop - reached,
            }));
            reached = stop;
        }
        reached
    }

    /// # Panics
    /// If the parts of the file do not join.
    pub(crate) fn check(&self, id: FileId) {
        self.runs.check();
        assert_eq!(self.runs.end(), self.stored.div_ceil(BLOCK), "{id:?}");
        let mut end = self.stored;
        for chunk in &self.sealed {
            assert!(
                chunk.offset.is_multiple_of(BLOCK) && chunk.len > 0,
                "{id:?}"
            );
            let done = u64::from(chunk.done) * BLOCK;
            let joins =
                end.wrapping_sub(chunk.offset + done) < BLOCK || end == chunk.offset + chunk.len;
            assert!(
                joins || end == chunk.stored(),
                "{id:?}: {end} then {}",
                chunk.offset
            );
            end = chunk.offset + chunk.len;
        }
        if let Some(filling) = &self.filling {
            assert!(filling.offset.is_multiple_of(BLOCK), "{id:?}");
            assert!(
                filling.offset <= end && end < filling.offset + BLOCK,
                "{id:?}"
            );
            assert_eq!(
                filling.clean as u64,
                (end - filling.offset).min(filling.clean as u64)
            );
            end = filling.end();
        }
        assert_eq!(self.size, end, "{id:?}");
    }
}
