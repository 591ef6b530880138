//! The journal of small node changes, and the write-back of the nodes.

use crate::overlay::Pending;
use crate::record::{Change, misfit};
use crate::{HyFim, HyfimError};
use host::{BlockPort, PageChange, RawPort, Who};
use nand::{Payload, UNIT};
use ssd::IoError;
use std::sync::Arc;

/// A node to write back: first sector, contents, and the tag of its I/O.
type Leaving = (u32, Vec<Payload>, Who);

impl<P: RawPort> HyFim<P> {
    /// Keeps the nodes changed by the record at `position` in memory, where reads find them, until
    /// they are written back. Starts a write-back if the journal is half full.
    //= hyfim 3.3
    pub(crate) fn hold(&self, position: u64, changes: &[PageChange]) {
        for change in changes {
            let node = Pending {
                position,
                contents: change.contents.clone(),
                who: change.who,
            };
            self.overlay_mut().hold(change.first as u32, node);
        }
        self.pending().borrow_mut().push_back(position);
        if self.changes().is_half_full() && !self.leaving().replace(true) {
            let all = self.clone();
            self.sim().spawn_detached(async move {
                // The next publication or flush meets the error itself.
                let _ = all.write_back().await;
                all.leaving().set(false);
            });
        }
    }

    /// Writes back all nodes held in memory and flushes the mapping's buffer; then checkpoints the
    /// records whose changes are on flash.
    ///
    /// # Errors
    /// If the drive accepts no more writes.
    //= hyfim 3.3
    pub(crate) async fn write_back(&self) -> Result<(), IoError> {
        let _alone = self.writing().acquire(1).await;
        let last = self.pending().borrow().back().copied();
        let nodes: Vec<Leaving> = {
            let overlay = self.overlay_mut();
            let leaving = |(first, node): (u32, &Pending)| (first, node.contents.clone(), node.who);
            overlay.nodes().map(leaving).collect()
        };
        for (first, contents, who) in nodes {
            let sectors: Vec<(u32, Payload)> = (first..).zip(contents).collect();
            self.ftl().write_sectors(&sectors, who).await?;
            self.tally(|stats| stats.written_back += 1);
        }
        self.ftl().flush().await?;
        let Some(last) = last else {
            return Ok(());
        };
        // In order: redo of a record relies on the result of all records before it.
        loop {
            let next = self.pending().borrow().front().copied();
            let Some(position) = next.filter(|&position| position <= last) else {
                break;
            };
            self.pending().borrow_mut().pop_front();
            self.changes().advance(position).await;
        }
        self.overlay_mut().settle(last);
        Ok(())
    }

    /// Writes back if a held node overlaps the sectors `first..end`, which are about to be
    /// overwritten.
    pub(crate) async fn leave_nodes(&self, first: u32, end: u32) -> Result<(), IoError> {
        let has_node = self.overlay_mut().has_node(first, end);
        if has_node {
            self.write_back().await?;
        }
        Ok(())
    }

    /// Waits until the journal of nodes has room for a body of `body` bytes, by a write-back of the
    /// nodes before.
    ///
    /// # Errors
    /// If the body exceeds the whole journal; if the drive accepts no more writes.
    pub(crate) async fn make_room(&self, body: usize) -> Result<(), HyfimError> {
        self.changes().check_size(body)?;
        if !self.changes().has_room(body) {
            self.tally(|stats| stats.waits += 1);
            self.waiting().set(true);
            let written = self.write_back().await;
            self.waiting().set(false);
            written?;
        }
        Ok(())
    }

    /// Redoes the changes of one record; returns the number of node sectors that could not be read
    /// and that no change replaces as a whole.
    ///
    /// # Errors
    /// If the record is inconsistent, and then nothing of it is redone; if the drive accepts no
    /// more writes.
    pub(crate) async fn redo(&self, changes: &[Change]) -> Result<u64, HyfimError> {
        if misfit(changes, self.exported()).is_some() {
            return Err(HyfimError::Damaged("of nodes"));
        }
        let mut lost = 0;
        for change in changes {
            let (mut bytes, unread) = self.read_node(change.sector, change.sectors).await?;
            let is_other = |&(at, generation): &(u32, u64)| {
                let at = at as usize;
                let is_read =
                    !unread.contains(&(at / UNIT)) && !unread.contains(&((at + 7) / UNIT));
                is_read && bytes[at..at + 8] != generation.to_le_bytes()
            };
            if change.generation.as_ref().is_some_and(is_other) {
                continue;
            }
            lost += unread.iter().filter(|&&at| !change.has_all(at)).count() as u64;
            for (first, part) in &change.parts {
                if vfs::mutant::is("hyfim-redo-skipped") {
                    break;
                }
                let first = *first as usize;
                bytes[first..first + part.len()].copy_from_slice(part);
            }
            let sectors = bytes
                .chunks_exact(UNIT)
                .map(|sector| Payload::Bytes(Arc::new(sector.try_into().expect("a sector"))));
            let sectors: Vec<(u32, Payload)> = (change.sector..).zip(sectors).collect();
            self.ftl().write_sectors(&sectors, Who::default()).await?;
        }
        Ok(lost)
    }

    /// Reads `count` sectors; sectors that cannot be read are zeros, and their indexes are
    /// returned.
    async fn read_node(&self, first: u32, count: u32) -> Result<(Vec<u8>, Vec<usize>), IoError> {
        let mut bytes = vec![0; count as usize * UNIT];
        let mut unread = Vec::new();
        for (at, out) in bytes.chunks_exact_mut(UNIT).enumerate() {
            let sector = first + at as u32;
            match self.ftl().read_sectors(sector, 1, Who::default()).await {
                Ok(held) if held[0].copy_to(0, out) => {}
                Ok(_) | Err(IoError::Media(_)) => unread.push(at),
                Err(error) => return Err(error),
            }
        }
        Ok((bytes, unread))
    }
}
