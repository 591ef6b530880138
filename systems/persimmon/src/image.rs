//! An unmounted drive presented as an F2FS image: tables and checkpoint appear at the
//! addresses of that format, so the checkers of [`lfs`] can read it.

use crate::format::blank;
use crate::layout::Layout;
use crate::map::Map;
use crate::recover::{Medium, OpenError, find};
use host::{Image, ZonesAtRest};
use lfs::{Block, Geometry};
use ssd::{ZoneLimits, ZoneState};
use std::cell::RefCell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use vfs::{Errno, Result};

/// Zones of a drive at rest; block addresses run through the zones without gaps.
pub trait Zones: Image {
    /// Zone count, size and capacity of the drive, and its open and active limits.
    fn limits(&self) -> ZoneLimits;

    /// Written blocks of `zone`, or more if the drive cannot tell: callers clamp the value.
    fn written(&self, zone: u32) -> u32;
}

impl Zones for ZonesAtRest {
    fn limits(&self) -> ZoneLimits {
        self.limits
    }

    fn written(&self, zone: u32) -> u32 {
        let zone = self.zones.get(zone as usize);
        zone.map_or(0, |zone| match zone.state {
            // A drive no longer reports the write pointer of a read-only zone.
            ZoneState::ReadOnly => u32::MAX,
            _ => zone.payloads.len() as u32,
        })
    }
}

struct AtRest<'a, I: ?Sized>(&'a I);

impl<I: Zones + ?Sized> Medium for AtRest<'_, I> {
    fn limits(&self) -> ZoneLimits {
        self.0.limits()
    }

    fn written(&self, zone: u32, zone_blocks: u32) -> u32 {
        self.0.written(zone).min(zone_blocks)
    }

    async fn read(&self, addr: u32, count: u32) -> Result<Vec<Box<Block>>> {
        let block = |at: u32| {
            let mut block = blank();
            let known = self.0.read(u64::from(at), &mut block);
            known.then_some(block).ok_or(Errno::EIO)
        };
        (addr..addr + count).map(block).collect()
    }
}

/// F2FS image of a drive at rest, in the state of its last checkpoint and the metadata
/// appended since.
pub struct Shown<'a, I: ?Sized> {
    zones: &'a I,
    geometry: Geometry,
    layout: Layout,
    map: RefCell<Map>,
    pack: Vec<Box<Block>>,
}

impl<'a, I: Zones + ?Sized> Shown<'a, I> {
    /// Finds the last state of a drive, as a mount does.
    ///
    /// # Errors
    /// [`OpenError`] if the drive has no whole checkpoint, or its map is damaged.
    pub fn new(zones: &'a I) -> std::result::Result<Self, OpenError> {
        let medium = AtRest(zones);
        let finding = pin!(find(&medium, None));
        // A drive at rest completes each read at once, so the future is ready at the first poll.
        let state = match finding.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(state) => state?,
            Poll::Pending => return Err(Errno::EIO.into()),
        };
        Ok(Self {
            zones,
            geometry: state.found.geometry,
            layout: state.layout,
            map: RefCell::new(state.map),
            pack: state.pack,
        })
    }
}

impl<I: Zones + ?Sized> Image for Shown<'_, I> {
    fn blocks(&self) -> u64 {
        self.zones.blocks()
    }

    fn read(&self, block: u64, out: &mut Block) -> bool {
        out.fill(0);
        let Ok(at) = u32::try_from(block) else {
            return false;
        };
        if at < 2 || at >= self.layout.main() {
            return self.zones.read(block, out);
        }
        // F2FS has two checkpoint packs; both places show the newest one.
        let of_pack = at.checked_sub(self.geometry.checkpoints().start);
        let segment = self.geometry.checkpoints().len() as u32 / 2;
        let of_pack = of_pack
            .filter(|at| *at < 2 * segment)
            .map(|at| at % segment);
        if let Some(block) = of_pack.and_then(|at| self.pack.get(at as usize)) {
            out.copy_from_slice(&block[..]);
            return true;
        }
        let mut map = self.map.borrow_mut();
        let Some(index) = map.index(at) else {
            return true;
        };
        let entries = map.part(Map::part_of(index));
        let addr = entries.map_or(0, |entries| entries[index as usize % entries.len()]);
        addr == 0 || self.zones.read(u64::from(addr), out)
    }
}

/// Checks an unmounted file system. Returns one message a defect; empty if it is sound.
pub fn check<I: Zones + ?Sized>(zones: &I) -> Vec<String> {
    match Shown::new(zones) {
        Ok(shown) => lfs::check(&shown).iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
