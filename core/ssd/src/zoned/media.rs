//! State of the zones that survives without power, besides the flash.

use super::rules::ZoneState;
use nand::Payload;

/// State that a drive keeps of its zones besides their flash. Clones share contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZonesMedia {
    /// Buffers that the capacitors saved, by ascending zone number.
    pub(crate) saved: Vec<SavedZone>,
    /// Zones that are read-only or offline, by ascending zone number: the list of grown defects,
    /// which a drive keeps in a reserved area. As with the lifetime counters, writes to that area
    /// are not modelled.
    pub(crate) defects: Vec<(u32, ZoneState)>,
}

/// Saved buffer of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedZone {
    /// Number of the zone, conventional ones included.
    pub(crate) zone: u32,
    /// First saved sector of 4 KiB in the zone.
    pub(crate) from: u32,
    /// Saved sectors of 4 KiB.
    pub(crate) sectors: u32,
    /// Whether a reset was under way; power-on completes it.
    pub(crate) reset: bool,
    /// Whether the zone was finished while it was empty, which leaves no trace on flash.
    pub(crate) finished: bool,
    /// Contents of the sectors; empty if contents are not kept.
    pub(crate) payload: Vec<Payload>,
}

impl ZonesMedia {
    /// The defect of `zone`, read-only or offline; `None` if it has none.
    pub(crate) fn defect(&self, zone: u32) -> Option<ZoneState> {
        let defects = &self.defects;
        let at = defects.binary_search_by_key(&zone, |&(zone, _)| zone);
        at.ok().map(|at| defects[at].1)
    }

    /// The saved buffer of `zone`; `None` if none was saved.
    pub(crate) fn saved(&self, zone: u32) -> Option<&SavedZone> {
        let at = self.saved.binary_search_by_key(&zone, |saved| saved.zone);
        at.ok().map(|at| &self.saved[at])
    }
}
