//! A drive as blocks of a file system, read at once and without the clock.

use extfs::{BLOCK, Image};
use nand::Payload;
use ssd::Drive;

/// What a drive holds now, for who looks at a file system that is not mounted.
pub struct DriveImage<'a>(pub &'a Drive);

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
