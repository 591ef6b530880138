//! A drive as blocks of a file system, read at once and without the clock. Zones have no
//! gaps between them, as [`lfs`] uses them.

use extfs::{BLOCK, Image};
use nand::Payload;
use ssd::{Drive, ZoneLimits};
use units::SECTOR;

/// Most blocks of a piece: 1 MiB.
const PIECE: u64 = 256;

/// Everything on a drive that is not zeros, with the offset of each piece.
pub(crate) fn pieces(drive: &Drive) -> Vec<(u64, Vec<u8>)> {
    pieces_of(&DriveImage(drive))
}

/// The same of an image.
pub(crate) fn pieces_of<I: lfs::Image>(image: &I) -> Vec<(u64, Vec<u8>)> {
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut bytes = [0; BLOCK];
    for block in 0..image.blocks() {
        if !image.read(block, &mut bytes) || bytes == [0; BLOCK] {
            continue;
        }
        let at = block * BLOCK as u64;
        match pieces.last_mut() {
            Some((start, piece))
                if *start + piece.len() as u64 == at
                    && (piece.len() as u64) < PIECE * BLOCK as u64 =>
            {
                piece.extend_from_slice(&bytes);
            }
            _ => pieces.push((at, bytes.to_vec())),
        }
    }
    pieces
}

/// What a drive holds now, for who looks at a file system that is not mounted.
pub struct DriveImage<'a>(pub &'a Drive);

impl DriveImage<'_> {
    /// Blocks of the drive.
    pub(crate) fn count(&self) -> u64 {
        let packing = self.0.zones().map(|zones| lfs::packing(zones.limits()));
        let bytes = packing.map_or(self.0.capacity().0, |packing| packing.sectors() * SECTOR);
        bytes / BLOCK as u64
    }

    /// Where the drive has a block.
    fn place(&self, block: u64) -> u64 {
        let per_block = BLOCK as u64 / SECTOR;
        match self.0.zones() {
            Some(zones) => lfs::packing(zones.limits()).place(block * per_block).1 / per_block,
            None => block,
        }
    }
}

impl cowfs::Image for DriveImage<'_> {
    fn blocks(&self) -> u64 {
        self.count()
    }

    fn read(&self, block: u64, out: &mut cowfs::Block) -> bool {
        Image::read(self, block, out)
    }
}

impl novafs::Image for DriveImage<'_> {
    fn pages(&self) -> u64 {
        self.count()
    }

    fn read(&self, page: u64, out: &mut [u8; BLOCK]) -> bool {
        Image::read(self, page, out)
    }
}

impl lfs::Image for DriveImage<'_> {
    fn blocks(&self) -> u64 {
        self.count()
    }

    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        Image::read(self, block, out)
    }
}

impl persimmon::Zones for DriveImage<'_> {
    fn limits(&self) -> ZoneLimits {
        let zones = self.0.zones();
        zones.map_or(ZoneLimits::NONE, ssd::Zones::limits)
    }

    fn written(&self, zone: u32) -> u32 {
        let info = self.0.zones().and_then(|zones| zones.info(zone));
        let sectors = info.map_or(0, |info| info.readable());
        u32::try_from(sectors * SECTOR / BLOCK as u64).unwrap_or(u32::MAX)
    }
}

impl Image for DriveImage<'_> {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        if block >= self.count() {
            return false;
        }
        let block = self.place(block);
        let per_page = self.0.layout().page_bytes() / BLOCK as u64;
        let (page, sector) = (block / per_page, block % per_page);
        let page = u32::try_from(page).ok().and_then(|page| self.0.peek(page));
        let Some(payloads) = page else {
            out.fill(0);
            return true;
        };
        let payload = payloads.get(sector as usize).unwrap_or(&Payload::Zero);
        payload.copy_to(0, out)
    }
}
