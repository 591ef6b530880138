//! Journals of small changes of nodes, which are written in their places afterwards.

use crate::record::{Change, put_changes};
use crate::{HyFim, HyfimError};
use host::{BlockPort, RawPort, Who};
use nand::{Payload, UNIT};
use ssd::IoError;
use std::sync::Arc;

impl<P: RawPort> HyFim<P> {
    /// Changes nodes, all of them or none; with each comes all that it holds then. They are
    /// durable when this returns, and on flash some time later.
    ///
    /// # Errors
    /// If a change does not fit its node, or the journal could never hold the batch; then
    /// nothing has changed. If nothing can be written any more.
    //= hyfim 3.3
    pub async fn journal(
        &self,
        batch: &[(Change, Vec<Payload>)],
        who: Who,
    ) -> Result<(), HyfimError> {
        let wrong = batch.iter().find(|(change, contents)| {
            !change.fits(self.exported()) || contents.len() != change.sectors as usize
        });
        if let Some((change, _)) = wrong {
            return Err(HyfimError::Change(change.sector));
        }
        let changes: Vec<Change> = batch.iter().map(|(change, _)| change.clone()).collect();
        let body = put_changes(&changes);
        let _turn = self.turn().acquire(1).await;
        if self.changes().is_half_full() {
            self.write_back().await?;
        }
        // Nothing else waits for room: what is done is done before.
        self.make_room(&body).await?;
        let position = self.changes().append(&body).await?;
        self.changes().advance(position).await;
        for (change, contents) in batch {
            let sectors = (change.sector..).zip(contents.iter().cloned());
            let sectors: Vec<(u32, Payload)> = sectors.collect();
            self.ftl().write_sectors(&sectors, who).await?;
        }
        // From now on a flush puts the nodes on flash.
        self.pending().borrow_mut().push(position);
        Ok(())
    }

    /// Writes everything out that the mapping has in its buffer; the records of nodes that
    /// are on flash then are done.
    ///
    /// # Errors
    /// If nothing can be written any more.
    pub(crate) async fn write_back(&self) -> Result<(), IoError> {
        let pending = self.pending().borrow().clone();
        self.ftl().flush().await?;
        for position in pending {
            let is_pending = self.pending().borrow().first() == Some(&position);
            if is_pending {
                self.pending().borrow_mut().remove(0);
                self.changes().advance(position).await;
            }
        }
        Ok(())
    }

    /// Does again what a record says.
    pub(crate) async fn redo(&self, changes: &[Change]) -> Result<(), HyfimError> {
        for change in changes {
            if !change.fits(self.exported()) {
                return Err(HyfimError::Damaged("of nodes"));
            }
            let mut bytes = vec![0; change.sectors as usize * UNIT];
            let at = u64::from(change.sector) * (UNIT as u64 / units::SECTOR);
            let count = change.sectors * (UNIT as u64 / units::SECTOR) as u32;
            let extent = units::Extent::new(at, count);
            let sink = &mut bytes.as_mut_slice();
            self.ftl().read(extent, sink, Who::default()).await?;
            if let Some((at, generation)) = change.generation {
                let at = at as usize;
                if bytes[at..at + 8] != generation.to_le_bytes() {
                    continue;
                }
            }
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
        Ok(())
    }
}
