//! A drive as blocks of a file system, read at once and without the clock.

use extfs::{BLOCK, Image};
use nand::Payload;
use ssd::Drive;

/// Most blocks of a piece: 1 MiB.
const PIECE: u64 = 256;

/// Everything on a drive that is not zeros, with the offset of each piece.
pub(crate) fn pieces(drive: &Drive) -> Vec<(u64, Vec<u8>)> {
    let image = DriveImage(drive);
    let blocks = drive.capacity().0 / BLOCK as u64;
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut bytes = [0; BLOCK];
    for block in 0..blocks {
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

impl novafs::Image for DriveImage<'_> {
    fn pages(&self) -> u64 {
        self.0.capacity().0 / BLOCK as u64
    }

    fn read(&self, page: u64, out: &mut [u8; BLOCK]) -> bool {
        Image::read(self, page, out)
    }
}

impl lfs::Image for DriveImage<'_> {
    fn blocks(&self) -> u64 {
        self.0.capacity().0 / BLOCK as u64
    }

    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        Image::read(self, block, out)
    }
}

impl Image for DriveImage<'_> {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        if block >= self.0.capacity().0 / BLOCK as u64 {
            return false;
        }
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
