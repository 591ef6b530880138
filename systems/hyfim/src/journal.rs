//! Journals of small changes of nodes, which are written in their places afterwards.

use crate::overlay::Pending;
use crate::record::{Change, misfit};
use crate::{HyFim, HyfimError};
use host::{BlockPort, PageChange, RawPort, Who};
use nand::{Payload, UNIT};
use ssd::IoError;
use std::sync::Arc;

/// A node on its way to flash: its first sector, what it holds, and whom it is booked under.
type Leaving = (u32, Vec<Payload>, Who);

impl<P: RawPort> HyFim<P> {
    /// Nodes whose changes the record at `position` has are read in memory from now on, and
    /// written in their places some time later.
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
                // Whoever publishes next is told what went wrong.
                let _ = all.write_back().await;
                all.leaving().set(false);
            });
        }
    }

    /// Writes nodes in their places, and everything else that the mapping has in its buffer.
    /// Records whose changes are on flash are done then.
    ///
    /// # Errors
    /// If nothing can be written any more.
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
        // In order: what is redone is redone over what all before it have left.
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

    /// Waits until nothing in the journal is about a node that has any of these sectors,
    /// which are about to hold something else.
    pub(crate) async fn leave_nodes(&self, first: u32, end: u32) -> Result<(), IoError> {
        let has_node = self.overlay_mut().has_node(first, end);
        if has_node {
            self.write_back().await?;
        }
        Ok(())
    }

    /// Waits until the journal has room for a body, by writing back what is before.
    ///
    /// # Errors
    /// If it never could; if nothing can be written any more.
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

    /// Does again what a record says; gives how many sectors of nodes could not be read and
    /// are not in it as a whole. Those hold zeros besides what is in it, so that the sum of
    /// their node says that it is damaged: to leave them would bring back, should they be
    /// readable again, a node that is older and looks whole.
    ///
    /// # Errors
    /// If it makes no sense, and then nothing of it is done; if nothing can be written any
    /// more.
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

    /// What sectors hold, and those of them that cannot be read, as zeros.
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
