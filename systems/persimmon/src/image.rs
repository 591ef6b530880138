//! A drive that is not mounted, shown as an image of F2FS: everything is where that format
//! has it, so that its checkers can look.

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

/// The zones of a drive at rest, without gaps.
pub trait Zones: Image {
    /// Their limits.
    fn limits(&self) -> ZoneLimits;

    /// Blocks of a zone that are written.
    fn written(&self, zone: u32) -> u32;
}

impl Zones for ZonesAtRest {
    fn limits(&self) -> ZoneLimits {
        self.limits
    }

    fn written(&self, zone: u32) -> u32 {
        let zone = self.zones.get(zone as usize);
        zone.map_or(0, |zone| match zone.state {
            // As a drive has it, which does not tell any more.
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

/// An image of F2FS.
pub struct Shown<'a, I: ?Sized> {
    zones: &'a I,
    geometry: Geometry,
    layout: Layout,
    map: RefCell<Map>,
    pack: Vec<Box<Block>>,
}

impl<'a, I: Zones + ?Sized> Shown<'a, I> {
    /// What the last checkpoint of a drive leads to.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(zones: &'a I) -> std::result::Result<Self, OpenError> {
        let medium = AtRest(zones);
        let finding = pin!(find(&medium, None));
        // Nothing in it waits, since a drive at rest answers at once.
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
        // F2FS has two of them; both places show the one that counts.
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

/// What is wrong with a file system that is not mounted; nothing if it is sound.
pub fn check<I: Zones + ?Sized>(zones: &I) -> Vec<String> {
    match Shown::new(zones) {
        Ok(shown) => lfs::check(&shown).iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
