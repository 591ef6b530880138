//! Copy-on-write inside the mapping.

use crate::record::{Quadruple, put_quadruples};
use crate::{HyFim, HyfimError};
use host::{BlockPort, RawPort, Who};
use nand::Payload;
use std::collections::BTreeMap;

impl<P: RawPort> HyFim<P> {
    /// Overwrites sectors of 4 KiB, all of them or none; of two versions of one sector the
    /// later counts. They are durable when this returns.
    ///
    /// # Errors
    /// If there are more of them than spare sectors or room in the journal; then nothing has
    /// changed. If nothing can be written any more.
    //= hyfim 3.2
    pub async fn exchange(&self, batch: &[(u32, Payload)], who: Who) -> Result<(), HyfimError> {
        let batch: BTreeMap<u32, &Payload> = batch.iter().map(|(s, p)| (*s, p)).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let exported = self.exported();
        if let Some(&past) = batch.keys().find(|&&sector| sector >= exported) {
            return Err(HyfimError::Change(past));
        }
        self.check_exchange(batch.len())?;
        let spares = self.take_spares(batch.len()).await;
        let done = self.exchange_with(&batch, &spares, who).await;
        self.give_spares(spares);
        done
    }

    async fn exchange_with(
        &self,
        batch: &BTreeMap<u32, &Payload>,
        spares: &[u32],
        who: Who,
    ) -> Result<(), HyfimError> {
        let contents = batch.values().map(|payload| (*payload).clone());
        let contents: Vec<(u32, Payload)> = spares.iter().copied().zip(contents).collect();
        self.ftl().write_sectors(&contents, who).await?;
        self.ftl().flush().await?;
        let named: Vec<u32> = batch.keys().chain(spares).copied().collect();
        self.ftl().pin(&named).await?;
        let done = self.exchange_pinned(batch, spares).await;
        self.ftl().unpin(&named);
        done
    }

    /// The record, and then what it says. The durable point is that it is checkpointing.
    async fn exchange_pinned(
        &self,
        batch: &BTreeMap<u32, &Payload>,
        spares: &[u32],
    ) -> Result<(), HyfimError> {
        let quadruples = batch.keys().zip(spares).map(|(&sector, &spare)| Quadruple {
            sector,
            old: self.ftl().place(sector),
            spare,
            new: self.ftl().place(spare),
        });
        let quadruples: Vec<Quadruple> = quadruples.collect();
        let position = self
            .exchanges()
            .append(&put_quadruples(&quadruples))
            .await?;
        self.exchanges().advance(position).await;
        let entries: Vec<(u32, Option<u32>)> = quadruples
            .iter()
            .flat_map(|q| [(q.sector, q.new), (q.spare, None)])
            .collect();
        self.ftl().remap(&entries).await;
        self.exchanges().advance(position).await;
        Ok(())
    }
}
