//! Checks of the core's invariants.

use crate::Core;
use crate::config::LOG_ZONES;
use crate::flight::Flight;
use std::collections::BTreeMap;

impl Core {
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self) {
        self.zones.check();
        self.check_files();
        self.check_blocks();
        let owed: u64 = self.files.values().map(crate::file::File::owed).sum();
        assert_eq!(self.promised, owed, "promised blocks");
        let sealed: usize = self.files.values().map(|file| file.sealed.len()).sum();
        assert_eq!(self.sealed as usize, sealed, "chunks");
        if let Some(room) = self.room.get() {
            assert_eq!(
                room,
                self.zones
                    .room(self.options.relocate, self.reserve().into())
            );
        }
        let zones = self.flights.values().filter_map(|flight| match *flight {
            Flight::Chunk { zone, .. }
            | Flight::Move { zone, .. }
            | Flight::Manage { zone, .. }
            | Flight::Log { zone } => Some(zone),
            Flight::Force => None,
        });
        let mut zones: Vec<_> = zones.collect();
        zones.sort_unstable();
        assert!(
            zones.windows(2).all(|pair| pair[0] != pair[1]),
            "one command a zone"
        );
        for (number, zone) in self.zones.data() {
            assert_eq!(
                zone.busy,
                zones.binary_search(&number).is_ok(),
                "zone {number}"
            );
        }
    }

    fn check_files(&self) {
        let named = self
            .files
            .values()
            .filter(|file| file.path.is_some())
            .count();
        assert_eq!(named, self.names.len(), "every path is of one file");
        for (&id, file) in &self.files {
            file.check(id);
            match &file.path {
                Some(path) => assert_eq!(self.names.get(path), Some(id)),
                None => assert!(file.opens > 0, "{id:?} is neither named nor open"),
            }
            assert_eq!(file.filling.is_some(), self.filled.contains(&id), "{id:?}");
            let waits = self.waiting.contains(&id);
            assert!(
                file.sealed.is_empty() || file.writing || waits,
                "{id:?} is forgotten"
            );
        }
    }

    /// Checks that no two files share a block, and that the live counts of zones are right.
    fn check_blocks(&self) {
        let mut runs: Vec<_> = self
            .files
            .values()
            .flat_map(|file| file.runs.iter())
            .collect();
        runs.sort_by_key(|run| (run.zone, run.at));
        for pair in runs.windows(2) {
            let apart = pair[0].zone != pair[1].zone || pair[0].at + pair[0].blocks <= pair[1].at;
            assert!(apart, "{pair:?}");
        }
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        for run in runs {
            assert!(run.zone >= LOG_ZONES);
            assert!(
                run.at + run.blocks <= self.zones.get(run.zone).written,
                "{run:?}"
            );
            *live.entry(run.zone).or_default() += run.blocks;
        }
        for (number, zone) in self.zones.data() {
            assert_eq!(
                zone.live,
                live.get(&number).copied().unwrap_or(0),
                "zone {number}"
            );
        }
    }
}
