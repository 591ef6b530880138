//! What of the zones survives without power, besides the flash.

use super::rules::ZoneState;
use nand::Payload;

/// What a drive keeps of its zones apart from their flash. Clones share contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZonesMedia {
    /// What capacitors saved of write buffers, by growing zone.
    pub(crate) saved: Vec<SavedZone>,
    /// Zones that are read-only or offline, by growing zone: the list of grown defects,
    /// which a drive keeps in a reserved area. As with the counters of its life, the
    /// writing of that area is not modelled.
    pub(crate) defects: Vec<(u32, ZoneState)>,
}

/// The buffer of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedZone {
    /// The zone, conventional ones counted.
    pub(crate) zone: u32,
    /// First sector of 4 KiB in the zone.
    pub(crate) from: u32,
    /// How many.
    pub(crate) sectors: u32,
    /// Whether a reset was under way, which is carried through.
    pub(crate) reset: bool,
    /// Their contents, or empty where they are not kept.
    pub(crate) payload: Vec<Payload>,
}

impl ZonesMedia {
    /// The defect of `zone`, if it has one.
    pub(crate) fn defect(&self, zone: u32) -> Option<ZoneState> {
        let defects = &self.defects;
        let at = defects.binary_search_by_key(&zone, |&(zone, _)| zone);
        at.ok().map(|at| defects[at].1)
    }

    /// What was saved of `zone`, if anything was.
    pub(crate) fn saved(&self, zone: u32) -> Option<&SavedZone> {
        let at = self.saved.binary_search_by_key(&zone, |saved| saved.zone);
        at.ok().map(|at| &self.saved[at])
    }
}
