//! Execution of the core's commands on the zones of a drive.
//!
//! Invariant: the core's zone `n` is the `n`th sequential zone, and commands of one zone are
//! executed one at a time, so that writes keep their order.

use host::{Purpose, Who, ZoneDisk, ZonedPort};
use nand::{Payload, UNIT};
use shimmer::{BLOCK, Command, Failure, LOG_ZONES, Limits, Piece, ZoneReport};
use ssd::{Content, ZoneAction, ZoneInfo, ZoneLimits};
use std::sync::Arc;
use units::{Extent, Lba, Origin, SECTOR};

/// Largest command: 1 MiB, which is what Linux sends at most to a drive without a limit of its own.
const COMMAND: usize = 1 << 20;
/// Longest range of one copy: sectors of 512 bytes are counted in 32 bits, and all of them are held
/// in memory.
const COPY: u64 = COMMAND as u64;

/// The zones that the core writes.
#[derive(Clone)]
pub(crate) struct Zones {
    pub(crate) port: ZoneDisk,
    limits: ZoneLimits,
}

/// The report of a zone, in the core's units.
fn report(info: &ZoneInfo) -> ZoneReport {
    let capacity = info.capacity * SECTOR / BLOCK * BLOCK;
    ZoneReport {
        capacity,
        written: (info.readable() * SECTOR).min(capacity),
    }
}

/// Reports of the sequential ones among zones at rest.
pub fn reports(infos: impl IntoIterator<Item = ZoneInfo>) -> Vec<ZoneReport> {
    let sequential = infos
        .into_iter()
        .filter(|info| info.kind == ssd::ZoneKind::Sequential);
    sequential.map(|info| report(&info)).collect()
}

/// The drive's limits on open and active zones.
pub(crate) fn limits_of(limits: &ZoneLimits) -> Limits {
    Limits {
        open: limits.max_open,
        active: limits.max_active,
    }
}

/// Reads zones offline: the log of a volume at rest.
pub trait Reader {
    /// Reads block `block` of the sequential zone `zone`; false if it cannot be read.
    fn read(&self, zone: u32, block: u64, out: &mut [u8; UNIT]) -> bool;
}

/// One payload for each block of `bytes`; patterns stay patterns.
pub(crate) fn payloads(bytes: &[u8]) -> Vec<Payload> {
    bytes.chunks(UNIT).map(payload).collect()
}

/// The payload of up to a block of bytes, padded with zeros.
pub(crate) fn payload(bytes: &[u8]) -> Payload {
    if let Some(first) = bytes.first_chunk::<8>().filter(|_| bytes.len() == UNIT)
        && bytes.chunks_exact(8).all(|eight| eight == first)
    {
        return match u64::from_le_bytes(*first) {
            0 => Payload::Zero,
            pattern => Payload::Fill(pattern),
        };
    }
    let mut block = [0; UNIT];
    block[..bytes.len()].copy_from_slice(bytes);
    Payload::Bytes(Arc::new(block))
}

impl Zones {
    pub(crate) fn new(port: ZoneDisk) -> Self {
        let limits = port.limits();
        Self { port, limits }
    }

    pub(crate) fn limits(&self) -> Limits {
        limits_of(&self.limits)
    }

    pub(crate) fn reports(&self) -> Vec<ZoneReport> {
        let all = (0..self.limits.zones).filter_map(|zone| self.port.zone(zone));
        reports(all)
    }

    fn number(&self, zone: u32) -> u32 {
        self.limits.conventional + zone
    }

    /// The sector of byte `at` of a zone.
    fn sector(&self, zone: u32, at: u64) -> u64 {
        u64::from(self.number(zone)) * self.limits.size + at / SECTOR
    }

    /// Reads whole blocks around a piece, and returns the piece's bytes.
    pub(crate) async fn read(&self, piece: Piece, origin: Origin) -> Result<Vec<u8>, Failure> {
        let purpose = if piece.zone < LOG_ZONES {
            Purpose::Journal
        } else {
            Purpose::Data
        };
        let who = Who { origin, purpose };
        let first = piece.at / BLOCK * BLOCK;
        let end = (piece.at + piece.len).next_multiple_of(BLOCK);
        let mut bytes = vec![0; (end - first) as usize];
        for (part, from) in bytes.chunks_mut(COMMAND).zip((first..).step_by(COMMAND)) {
            let sectors = (part.len() as u64 / SECTOR) as u32;
            let extent = Extent::new(self.sector(piece.zone, from), sectors);
            let mut part = part;
            let read = self.port.read(extent, &mut part, who).await;
            read.map_err(|_| Failure)?;
        }
        bytes.drain(..(piece.at - first) as usize);
        bytes.truncate(piece.len as usize);
        Ok(bytes)
    }

    async fn write(&self, zone: u32, at: u64, data: &[u8], who: Who) -> Result<(), Failure> {
        for (part, from) in data.chunks(COMMAND).zip((at..).step_by(COMMAND)) {
            let sectors = (part.len() as u64 / SECTOR) as u32;
            let extent = Extent::new(self.sector(zone, from), sectors);
            let content = payloads(part);
            let content = Content::Sectors(&content);
            let written = self.port.write(extent, content, who, false).await;
            written.map_err(|_| Failure)?;
        }
        Ok(())
    }

    //= dissertation 5.3.3
    async fn copy(&self, from: Piece, zone: u32, at: u64) -> Result<(), Failure> {
        let mut done = 0;
        while done < from.len {
            let len = COPY.min(from.len - done);
            let source = self.sector(from.zone, from.at + done);
            let source = Extent::new(source, (len / SECTOR) as u32);
            let to = Lba(self.sector(zone, at + done));
            let copied = self.port.copy(&[source], to).await;
            copied.map_err(|_| Failure)?;
            done += len;
        }
        Ok(())
    }

    /// Executes a command, with the requests of `origin`.
    pub(crate) async fn run(&self, command: &Command, origin: Origin) -> Result<(), Failure> {
        let manage = async |zone: u32, action| {
            let managed = self.port.manage(self.number(zone), action).await;
            managed.map_err(|_| Failure)
        };
        match *command {
            Command::Write { zone, at, ref data } => {
                let purpose = if zone < LOG_ZONES {
                    Purpose::Journal
                } else {
                    Purpose::Data
                };
                self.write(zone, at, data, Who { origin, purpose }).await
            }
            Command::Copy { from, zone, at } => self.copy(from, zone, at).await,
            Command::Flush => self.port.flush().await.map_err(|_| Failure),
            Command::Reset { zone } => manage(zone, ZoneAction::Reset).await,
            Command::Finish { zone } => manage(zone, ZoneAction::Finish).await,
            Command::Close { zone } => manage(zone, ZoneAction::Close).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_words_become_a_pattern_and_other_bytes_stay_bytes() {
        let mut bytes = 7_u64.to_le_bytes().repeat(UNIT / 8);
        assert_eq!(payload(&bytes), Payload::Fill(7));
        assert_eq!(payload(&[0; UNIT]), Payload::Zero);
        bytes[UNIT - 1] = 9;
        let Payload::Bytes(kept) = payload(&bytes) else {
            panic!("one byte differs");
        };
        assert_eq!(kept[..], bytes[..]);
        let short = payloads(&[5; 10]);
        let mut out = [1; UNIT];
        assert!(short[0].copy_to(0, &mut out));
        assert_eq!(
            (&out[..10], &out[10..]),
            (&[5; 10][..], &[0; UNIT - 10][..])
        );
    }
}
