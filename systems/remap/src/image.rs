//! The contents of a layer on a drive at rest, without a clock.
//!
//! Invariant: the contents are those after a mount: from the same checkpoint and the same
//! transactions.

use crate::format::{Block, NONE, PER_PAGE, Pair, Sums, Super, decode_page};
use crate::layout::HEADERS;
use crate::restore::{self, OpenError};
use host::Image;
use nand::UNIT;

/// A layer on an image of a drive, resolved and readable.
pub struct Shown<I> {
    image: I,
    layout: Super,
    /// Unit of the data area by original unit; [`NONE`] if unmapped.
    map: Vec<u32>,
}

impl<I: Image> Shown<I> {
    /// Resolves the layer on `image`: last checkpoint, then the log.
    ///
    /// # Errors
    /// Damage for which a mount would fail too.
    pub fn new(image: I) -> Result<Self, OpenError> {
        let block = |unit: u32| -> Option<Block> {
            let mut block = [0; UNIT];
            image.read(u64::from(unit), &mut block).then_some(block)
        };
        let pair = |units: [u32; 2]| units.map(block);
        if image.blocks() <= u64::from(HEADERS[1]) {
            return Err(OpenError::NoSuperblock);
        }
        let layout = restore::superblock(pair([0, 1]), image.blocks())?;
        let sums = Sums::of(&layout.uuid);
        let header = restore::header(pair(HEADERS), sums)?;
        let places = restore::directory(&layout, header.sequence, sums, block)?;
        let mut map = vec![NONE; layout.partitions() as usize * layout.partition as usize];
        for (page, place) in (0..).zip(places) {
            let Some(unit) = layout.page_at(page, place) else {
                continue;
            };
            let mut entries = [NONE; PER_PAGE];
            let is_read = block(unit).is_some_and(|b| decode_page(&b, &mut entries, page, sums));
            if !is_read {
                return Err(restore::damaged(&layout, page, unit));
            }
            let (part, at) = (page / layout.pages_each(), page % layout.pages_each());
            let first = at * PER_PAGE as u32;
            let len = (layout.partition - first).min(PER_PAGE as u32) as usize;
            let to = (part * layout.partition + first) as usize;
            map[to..to + len].copy_from_slice(&entries[..len]);
        }
        // A mount checks the tables too, before it replays the log.
        if let Some(error) = check(&layout, &map) {
            return Err(error);
        }
        let mut replay = restore::Replay::new(&layout, &header, sums);
        let mut take = |pairs: &[Pair]| {
            for pair in pairs {
                restore::check_pair(&layout, *pair)?;
                map[pair.orig as usize] = pair.trans;
            }
            Ok(())
        };
        while let Some(at) = replay.next() {
            replay.push(block(layout.log + at).as_ref(), &mut take)?;
        }
        match check(&layout, &map) {
            None => Ok(Self { image, layout, map }),
            Some(error) => Err(error),
        }
    }

    /// The image of the drive below the layer.
    #[must_use]
    pub const fn image(&self) -> &I {
        &self.image
    }

    /// Units of 4 KiB that the layer offers.
    #[must_use]
    pub fn units(&self) -> u64 {
        u64::from(self.layout.logical)
    }

    /// Reads `unit` as the layer would; false if `unit` is beyond the layer or its data cannot be
    /// read.
    pub fn read(&self, unit: u64, out: &mut [u8; UNIT]) -> bool {
        let Some(&trans) = self.map.get(unit as usize) else {
            return false;
        };
        if trans == NONE {
            out.fill(0);
            return unit < self.units();
        }
        self.image.read(u64::from(self.layout.data + trans), out)
    }
}

/// First error in `map`: a pair out of range, or a unit mapped twice.
fn check(layout: &Super, map: &[u32]) -> Option<OpenError> {
    let mut met = vec![false; layout.data_units as usize];
    for (orig, &trans) in (0..).zip(map).filter(|(_, trans)| **trans != NONE) {
        if let Err(error) = restore::check_pair(layout, Pair { orig, trans }) {
            return Some(error);
        }
        if std::mem::replace(&mut met[trans as usize], true) {
            return Some(OpenError::Mapping {
                orig: u64::from(orig) * crate::layout::SECTORS,
                unit: trans,
                why: "where another one leads",
            });
        }
    }
    None
}
