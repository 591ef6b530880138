//! The blocks of a drive, read at once without the clock, as an offline image of a file system.
//! Zones have no gaps between them, as [`lfs`] uses them.

use extfs::BLOCK;
use host::Image;
use nand::Payload;
use ssd::{Drive, ZoneLimits};
use std::cell::Cell;
use std::rc::Rc;
use units::SECTOR;

/// Largest piece in blocks: 1 MiB.
const PIECE: u64 = 256;

/// All non-zero parts of an image, each with its offset in bytes.
pub(crate) fn pieces_of<I: Image>(image: &I) -> Vec<(u64, Vec<u8>)> {
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

/// The current contents of a drive for offline checks of a file system, through the remapping layer
/// if there is one.
pub struct DriveImage<'a> {
    bare: Bare<'a>,
    layer: Option<remap::Shown<Bare<'a>>>,
}

impl<'a> DriveImage<'a> {
    /// An image of the drive itself.
    #[must_use]
    pub fn new(drive: &'a Drive) -> Self {
        Self {
            bare: Bare::new(drive),
            layer: None,
        }
    }

    /// An image of the drive through the remapping layer on it.
    ///
    /// # Errors
    /// If the layer is damaged.
    pub fn through_layer(drive: &'a Drive) -> Result<Self, remap::OpenError> {
        let bare = Bare::new(drive);
        Ok(Self {
            layer: Some(remap::Shown::new(bare.clone())?),
            bare,
        })
    }

    /// Whether the drive's firmware has transactions of cache lines.
    pub(crate) fn has_transactions(&self) -> bool {
        self.bare.drive.has_transactions()
    }

    /// Whether a read of the image has met a block that the flash has lost.
    #[must_use]
    pub fn has_met_lost(&self) -> bool {
        self.bare.met_lost.get()
    }
}

/// The drive's zones at rest.
impl DriveImage<'_> {
    /// The limits of the zones, and reports of the sequential ones; `None` for a drive without
    /// zones.
    pub(crate) fn zones_at_rest(&self) -> Option<(ZoneLimits, Vec<shimmer::ZoneReport>)> {
        let zones = self.bare.drive.zones()?;
        let limits = zones.limits();
        let infos = (0..limits.zones).filter_map(|zone| zones.info(zone));
        Some((limits, placed::reports(infos)))
    }
}

impl placed::Reader for DriveImage<'_> {
    fn read(&self, zone: u32, block: u64, out: &mut [u8; BLOCK]) -> bool {
        let Some(zones) = self.bare.drive.zones() else {
            return false;
        };
        let limits = zones.limits();
        let start = u64::from(limits.conventional + zone) * limits.size;
        self.bare.peek(start / (BLOCK as u64 / SECTOR) + block, out)
    }
}

/// The drive itself, without a layer.
#[derive(Clone)]
struct Bare<'a> {
    drive: &'a Drive,
    /// Whether a read has met a block that the flash has lost.
    met_lost: Rc<Cell<bool>>,
}

impl<'a> Bare<'a> {
    fn new(drive: &'a Drive) -> Self {
        Self {
            drive,
            met_lost: Rc::default(),
        }
    }

    /// Position of a block of the image on the drive: zones may have gaps there.
    fn place(&self, block: u64) -> u64 {
        let per_block = BLOCK as u64 / SECTOR;
        match self.drive.zones() {
            Some(zones) => lfs::packing(zones.limits()).place(block * per_block).1 / per_block,
            None => block,
        }
    }
}

impl Image for Bare<'_> {
    fn blocks(&self) -> u64 {
        let packing = self.drive.zones().map(|zones| lfs::packing(zones.limits()));
        let bytes = packing.map_or(self.drive.capacity().0, |packing| {
            packing.sectors() * SECTOR
        });
        bytes / BLOCK as u64
    }

    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        if block >= self.blocks() {
            return false;
        }
        self.peek(self.place(block), out)
    }
}

impl Bare<'_> {
    /// Reads a block by its position on the drive.
    fn peek(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        let per_page = self.drive.layout().page_bytes() / BLOCK as u64;
        let (page, sector) = (block / per_page, block % per_page);
        let page = u32::try_from(page)
            .ok()
            .and_then(|page| self.drive.peek(page));
        let Some(payloads) = page else {
            out.fill(0);
            return true;
        };
        let payload = payloads.get(sector as usize).unwrap_or(&Payload::Zero);
        let is_whole = payload.copy_to(0, out);
        if !is_whole {
            self.met_lost.set(true);
        }
        is_whole
    }
}

impl persimmon::Zones for DriveImage<'_> {
    fn limits(&self) -> ZoneLimits {
        let zones = self.bare.drive.zones();
        zones.map_or(ZoneLimits::NONE, ssd::Zones::limits)
    }

    fn written(&self, zone: u32) -> u32 {
        let info = self.bare.drive.zones().and_then(|zones| zones.info(zone));
        let sectors = info.map_or(0, |info| info.readable());
        u32::try_from(sectors * SECTOR / BLOCK as u64).unwrap_or(u32::MAX)
    }
}

impl Image for DriveImage<'_> {
    fn blocks(&self) -> u64 {
        match &self.layer {
            Some(layer) => layer.units(),
            None => self.bare.blocks(),
        }
    }

    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        match &self.layer {
            Some(layer) => layer.read(block, out),
            None => self.bare.read(block, out),
        }
    }
}

impl extfs::Image for DriveImage<'_> {
    fn read(&self, block: u64, out: &mut [u8; BLOCK]) -> bool {
        Image::read(self, block, out)
    }
}
