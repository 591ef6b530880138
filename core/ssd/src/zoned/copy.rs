//! Simple copy: data move inside the drive, without crossing the link.

use super::rules::ZoneStatus;
use super::write::For;
use super::{Zoned, Zones};
use crate::drive::{Content, Sink};
use crate::ledger::{Cause, ReadCause};
use nand::{Payload, UNIT};
use std::rc::Rc;
use units::{Extent, Lba, SECTOR};

/// Largest number of ranges in a copy command.
const RANGES: usize = 256;

/// Sink that collects whole sectors.
struct Kept(Vec<Payload>);

impl Sink for Kept {
    fn take(&mut self, _: usize, len: usize, payload: &Payload, from: usize) {
        assert!(from == 0 && len == UNIT, "zones are read in whole sectors");
        self.0.push(payload.clone());
    }
}

impl Zones {
    /// Copies `sources`, one after the other, to `to`, the write pointer of a zone. All sources are
    /// read before the first write.
    ///
    /// # Errors
    /// As a read of each source and a write of their sum; no sector is written if a source cannot
    /// be read. Sources and target must be in sequential zones.
    //= zns 3.3.2
    pub async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let total = sources
            .iter()
            .try_fold(0_u32, |sum, source| sum.checked_add(source.sectors));
        let total = total.filter(|_| !sources.is_empty() && sources.len() <= RANGES);
        let target = Extent {
            start: to,
            sectors: total.ok_or(ZoneStatus::InvalidField)?,
        };
        let (zone, at, len) = inner.locate(target)?;
        let zone = inner.sequential(zone)?;
        let mut kept = Kept(Vec::new());
        for &source in sources {
            inner.read_source(source, &mut kept).await?;
        }
        let content = if kept.0.is_empty() {
            Content::Nothing
        } else {
            Content::Sectors(&kept.0)
        };
        let who = For {
            cause: Cause::Copy,
            tag: 0,
        };
        inner.put(zone, Some(at), len, content, who).await?;
        let sectors = u64::from(total.unwrap_or(0));
        let mut state = inner.core.state.borrow_mut();
        state.ledger.zones.copied_sectors += sectors * SECTOR / UNIT as u64;
        Ok(())
    }
}

impl Zoned {
    async fn read_source(
        self: &Rc<Self>,
        source: Extent,
        kept: &mut Kept,
    ) -> Result<(), ZoneStatus> {
        let (zone, at, len) = self.locate(source)?;
        self.sequential(zone)?;
        if self.config.flash.keep_contents {
            Box::pin(self.read((zone, at, len), kept, ReadCause::Gc)).await
        } else {
            Box::pin(self.read((zone, at, len), &mut (), ReadCause::Gc)).await
        }
    }
}
