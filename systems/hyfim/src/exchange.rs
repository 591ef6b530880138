//! Copy-on-write inside the mapping: staging at spare sectors, and their exchange.

use crate::overlay::Swap;
use crate::record::{Change, Quadruple, exchange_bytes, misfit, put_changes, put_quadruples};
use crate::{HyFim, HyfimError};
use host::{BlockPort, PageChange, RawPort, Who};
use nand::Payload;
use ssd::IoError;

impl<P: RawPort> HyFim<P> {
    /// Writes new versions of the sectors from `first` on to spare sectors; returns the number of
    /// the batch. `None` if too few spare sectors are free now: the caller copies instead.
    ///
    /// # Errors
    /// If the drive accepts no more writes.
    //= hyfim 3.2
    pub(crate) async fn stage_sectors(
        &self,
        first: u32,
        contents: &[Payload],
        who: Who,
    ) -> Result<Option<u64>, IoError> {
        let Some(spares) = self.overlay_mut().take(contents.len()) else {
            self.tally(|stats| stats.refused += 1);
            self.short().set(true);
            return Ok(None);
        };
        let all: Vec<(u32, Payload)> = spares.iter().copied().zip(contents.to_vec()).collect();
        if let Err(error) = self.ftl().write_sectors(&all, who).await {
            self.overlay_mut().give(spares);
            return Err(error);
        }
        self.tally(|stats| stats.staged += contents.len() as u64);
        Ok(Some(self.overlay_mut().stage(first, spares)))
    }

    /// Publishes staged batches and changes of nodes atomically; durable on return.
    ///
    /// # Errors
    /// If the changes do not fit their nodes or the journal; then nothing has changed. If the drive
    /// accepts no more writes.
    //= hyfim 3.2
    //= hyfim 3.3
    pub(crate) async fn publish_all(
        &self,
        staged: &[u64],
        changes: &[PageChange],
    ) -> Result<(), HyfimError> {
        let records = self.changes_of(changes)?;
        let body = (!records.is_empty()).then(|| put_changes(&records));
        let _turn = self.turn().acquire(1).await;
        if let Some(body) = &body {
            self.make_room(body.len()).await?;
        }
        self.ftl().flush().await?;
        let swap = self.overlay_mut().swap_of(staged);
        self.exchanges()
            .check_size(exchange_bytes(swap.pairs.len()))?;
        let sectors = swap.pairs.iter().map(|(sector, _)| *sector);
        let named: Vec<u32> = sectors.chain(swap.spares.iter().copied()).collect();
        self.ftl().pin(&named).await?;
        let done = self.publish_pinned(staged, swap, body).await;
        self.ftl().unpin(&named);
        if let Some(position) = done? {
            self.hold(position, changes);
        }
        self.short().set(false);
        self.tally(|stats| stats.published += 1);
        Ok(())
    }

    /// Writes the records, then applies them. With changes of nodes the durable point is the state
    /// checkpointing of their record, which the record of the sectors names as partner; without, it
    /// is that state of the sectors' own record. Returns the position of the record of nodes.
    //= hyfim 3.4
    async fn publish_pinned(
        &self,
        staged: &[u64],
        swap: Swap,
        changes: Option<Vec<u8>>,
    ) -> Result<Option<u64>, HyfimError> {
        let mut partner = None;
        if let Some(body) = &changes {
            partner = Some(self.changes().append(body).await?);
            self.tally(|stats| stats.journaled_bytes += body.len() as u64);
        }
        let quadruples: Vec<Quadruple> = self.quadruples(&swap);
        let mut exchange = None;
        if !quadruples.is_empty() {
            let body = put_quadruples(partner, &quadruples);
            exchange = Some(self.exchanges().append(&body).await?);
            self.tally(|stats| stats.exchanged += quadruples.len() as u64);
        }
        if let Some(position) = partner {
            self.changes().advance(position).await;
        }
        if let Some(position) = exchange {
            self.exchanges().advance(position).await;
        }
        self.swap(staged, swap, &quadruples).await;
        if let Some(position) = exchange {
            self.exchanges().advance(position).await;
        }
        Ok(partner)
    }

    /// Sets the entries of the table, and ends the redirection of reads to the spare sectors.
    async fn swap(&self, staged: &[u64], swap: Swap, quadruples: &[Quadruple]) {
        let news = quadruples.iter().map(|q| (q.sector, q.new));
        let gone = swap.spares.iter().map(|&spare| (spare, None));
        let entries: Vec<(u32, Option<u32>)> = news.chain(gone).collect();
        // Reads switch at the instant at which the entries are set: no await in between.
        self.overlay_mut().end(staged);
        self.ftl().remap(&entries).await;
        self.overlay_mut().release(swap);
    }

    fn quadruples(&self, swap: &Swap) -> Vec<Quadruple> {
        let quadruple = |&(sector, spare): &(u32, u32)| Quadruple {
            sector,
            old: self.ftl().place(sector),
            spare,
            new: self.ftl().place(spare),
        };
        swap.pairs.iter().map(quadruple).collect()
    }

    /// Converts changes to journal form, and checks that they fit together.
    fn changes_of(&self, changes: &[PageChange]) -> Result<Vec<Change>, HyfimError> {
        let mut all = Vec::with_capacity(changes.len());
        for change in changes {
            let sector = u32::try_from(change.first).unwrap_or(u32::MAX);
            all.push(Change::of(sector, change).ok_or(HyfimError::Change(sector))?);
        }
        match misfit(&all, self.exported()) {
            Some(sector) => Err(HyfimError::Change(sector)),
            None => Ok(all),
        }
    }
}
