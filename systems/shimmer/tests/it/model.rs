//! Random calls, compared with a map from paths to bytes as a model.

use crate::device::Rng;
use crate::{LIMITS, OPTIONS, Volume, ZONES, bytes};
use shimmer::{BLOCK, FileId, Options, Part, Piece, Placement, Refusal};
use std::collections::BTreeMap;

/// Expected state of a file, and its possible states after a power cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) bytes: Vec<u8>,
    /// Contents and paths since the last acknowledged sync, starting with the synced ones.
    pub(crate) since: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) synced: bool,
    pub(crate) opens: u32,
}

/// A volume and its model.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) volume: Volume,
    pub(crate) known: BTreeMap<FileId, Known>,
    pub(crate) paths: BTreeMap<Vec<u8>, FileId>,
    pub(crate) rng: Rng,
    full: u32,
    /// Maps of files for direct reads of zones, each with the count of changes when it was made;
    /// see [`Run::changes`].
    maps: BTreeMap<FileId, Map>,
    changes: u32,
}

/// Location of the first bytes of a file, as a direct reader has it.
#[derive(Clone)]
struct Map {
    changes: u32,
    stored: u64,
    pieces: Vec<Piece>,
}

impl Run {
    pub(crate) fn new(seed: u64, options: Options, zones: usize) -> Self {
        Self {
            volume: Volume::new(options, LIMITS, zones),
            known: BTreeMap::new(),
            paths: BTreeMap::new(),
            rng: Rng(seed),
            full: 0,
            maps: BTreeMap::new(),
            changes: 0,
        }
    }

    fn path(&mut self) -> Vec<u8> {
        let number = self.rng.below(9);
        format!("/d{}/{number}", number % 2).into_bytes()
    }

    fn any(&mut self) -> Option<FileId> {
        let open: Vec<_> = self.known.iter().filter(|(_, it)| it.opens > 0).collect();
        let which = self.rng.below(open.len() as u64) as usize;
        open.get(which).map(|(id, _)| **id)
    }

    /// Adds the present state of a file to its possible states after a power cut.
    fn changed(&mut self, id: FileId) {
        let path = self.volume.core.path(id).map(<[u8]>::to_vec);
        if let Some(known) = self.known.get_mut(&id) {
            known.since.push((known.bytes.clone(), path));
        }
    }

    /// Makes one random call.
    pub(crate) fn call(&mut self) {
        match self.rng.below(24) {
            0..3 => self.create(),
            3..12 => self.append(),
            12..14 => self.overwrite(),
            14..16 => self.sync(),
            16 => self.sync_all(),
            17..19 => self.unlink(),
            19 => self.rename(),
            20 => self.truncate(),
            21 => self.close_or_open(),
            22 => self.look(),
            _ => self.read(),
        }
        if self.rng.below(3) == 0 {
            self.read_by_maps();
        }
    }

    /// Number of events that make maps stale: zone resets, truncations and overwrites.
    fn changes(&self) -> u32 {
        self.changes + self.volume.device.resets
    }

    fn look(&mut self) {
        let all: Vec<_> = self.known.keys().copied().collect();
        for id in all {
            let core = &mut self.volume.core;
            let parts = core.read_stored(id).unwrap();
            core.release(&parts);
            let stored = core.status(id).unwrap().stored;
            let pieces = parts.iter().map(|part| match part {
                Part::Zone(piece) => *piece,
                Part::Memory(_) => panic!("only zones were asked for"),
            });
            let map = Map {
                changes: self.changes(),
                stored,
                pieces: pieces.collect(),
            };
            self.maps.insert(id, map);
        }
    }

    /// Checks that zones hold the bytes of files according to maps that are not stale.
    fn read_by_maps(&mut self) {
        let (now, known) = (self.changes(), &self.known);
        self.maps
            .retain(|id, map| map.changes == now && known.contains_key(id));
        for (id, map) in &self.maps {
            let pieces = map.pieces.iter();
            let bytes: Vec<u8> = pieces.flat_map(|it| self.volume.device.read(*it)).collect();
            let stored = map.stored as usize;
            assert!(bytes[..stored] == known[id].bytes[..stored], "{id:?}");
        }
    }

    fn create(&mut self) {
        let path = self.path();
        let placement = Placement {
            stream: self.rng.below(3) as u32,
            group: self.rng.below(2) as u32,
        };
        let made = self.volume.core.create(&path, placement);
        assert_eq!(made.is_err(), self.paths.contains_key(&path));
        if let Ok(id) = made {
            let tag = id.0.to_le_bytes();
            self.volume.core.set_tag(id, &tag).unwrap();
            self.known.insert(
                id,
                Known {
                    opens: 1,
                    ..Known::default()
                },
            );
            self.paths.insert(path, id);
            self.changed(id);
        }
    }

    fn append(&mut self) {
        let Some(id) = self.any() else { return };
        let most = if self.rng.below(2) == 0 {
            200
        } else {
            9 * BLOCK
        };
        let len = 1 + self.rng.below(most) as usize;
        let data = bytes(self.rng.next(), len);
        let at = self.known[&id].bytes.len();
        let outcome = self.volume.write(id, at as u64, &data);
        // A write that ran out of room was done in part.
        let size = self.volume.core.status(id).unwrap().size as usize;
        let done = size - at;
        self.known
            .get_mut(&id)
            .unwrap()
            .bytes
            .extend_from_slice(&data[..done]);
        match outcome {
            Ok(()) => assert_eq!(done, len),
            Err(Refusal::NoSpace(_)) => self.full += 1,
            Err(other) => panic!("{other}"),
        }
        self.changed(id);
    }

    fn overwrite(&mut self) {
        let Some(id) = self.any() else { return };
        let bytes = &self.known[&id].bytes;
        let (len, last) = (bytes.len(), bytes.len() / BLOCK as usize * BLOCK as usize);
        if len == 0 {
            return;
        }
        let at = last + self.rng.below((len - last) as u64) as usize;
        if at == len {
            return;
        }
        let outcome = self.volume.write(id, at as u64, b"!");
        if outcome.is_ok() {
            self.known.get_mut(&id).unwrap().bytes[at] = b'!';
            self.changes += 1;
            self.changed(id);
        }
    }

    fn sync(&mut self) {
        let Some(id) = self.any() else { return };
        match self.volume.sync(id) {
            Ok(()) => self.durable(id),
            Err(Refusal::NoSpace(_)) => self.full += 1,
            Err(other) => panic!("{other}"),
        }
    }

    fn durable(&mut self, id: FileId) {
        let path = self.volume.core.path(id).map(<[u8]>::to_vec);
        let known = self.known.get_mut(&id).unwrap();
        known.since = vec![(known.bytes.clone(), path)];
        known.synced = true;
    }

    pub(crate) fn sync_all(&mut self) {
        let sync = self.volume.core.sync_all();
        match self.volume.wait(sync) {
            Ok(()) => {
                let all: Vec<_> = self.known.keys().copied().collect();
                all.into_iter().for_each(|id| self.durable(id));
            }
            Err(Refusal::NoSpace(_)) => self.full += 1,
            Err(other) => panic!("{other}"),
        }
    }

    fn forget(&mut self, id: FileId) {
        if self.known[&id].opens == 0 {
            self.known.remove(&id);
        } else {
            self.changed(id);
        }
    }

    fn unlink(&mut self) {
        let path = self.path();
        let gone = self.paths.remove(&path);
        assert_eq!(self.volume.core.unlink(&path).is_ok(), gone.is_some());
        if let Some(id) = gone {
            self.forget(id);
        }
    }

    fn rename(&mut self) {
        let (from, to) = (self.path(), self.path());
        let moved = self.paths.get(&from).copied();
        assert_eq!(self.volume.core.rename(&from, &to).is_ok(), moved.is_some());
        let Some(id) = moved.filter(|_| from != to) else {
            return;
        };
        self.paths.remove(&from);
        if let Some(over) = self.paths.insert(to, id) {
            self.forget(over);
        }
        self.changed(id);
    }

    fn truncate(&mut self) {
        let Some(id) = self.any() else { return };
        let len = self.known[&id].bytes.len() as u64;
        let to = if self.rng.below(2) == 0 {
            0
        } else {
            self.rng.below(len + 1)
        };
        loop {
            match self.volume.core.truncate(id, to) {
                Ok(()) => break,
                Err(Refusal::Busy) => assert!(self.volume.step()),
                Err(Refusal::NoSpace(_)) => return,
                Err(other) => panic!("{other}"),
            }
        }
        self.known.get_mut(&id).unwrap().bytes.truncate(to as usize);
        self.changes += 1;
        self.changed(id);
    }

    fn close_or_open(&mut self) {
        let all: Vec<_> = self.known.keys().copied().collect();
        let which = self.rng.below(all.len() as u64) as usize;
        let Some(&id) = all.get(which) else { return };
        let known = self.known.get_mut(&id).unwrap();
        if known.opens > 0 {
            known.opens -= 1;
            self.volume.core.close_file(id);
            if self.volume.core.status(id).is_none() {
                self.known.remove(&id);
            }
        } else {
            known.opens += 1;
            self.volume.core.open_file(id).unwrap();
        }
    }

    fn read(&mut self) {
        let all: Vec<_> = self.known.keys().copied().collect();
        for id in all {
            let known = &self.known[&id].bytes;
            let from = self.rng.below(known.len() as u64 + 10);
            let len = self.rng.below(5 * BLOCK);
            let end = known.len().min((from + len) as usize);
            let expected = known.get(from as usize..end).unwrap_or_default();
            let read = self.volume.read(id, from, len);
            assert!(read == expected, "{id:?} from {from}");
        }
    }

    /// Executes a few commands in random order.
    pub(crate) fn commands(&mut self) {
        for _ in 0..self.rng.below(4) {
            self.volume.step_any(&mut self.rng);
        }
    }

    pub(crate) fn check(&mut self) {
        self.volume.core.check();
        let paths: Vec<_> = self
            .volume
            .core
            .files()
            .map(|(path, id)| (path.to_vec(), id))
            .collect();
        assert_eq!(paths, self.paths.clone().into_iter().collect::<Vec<_>>());
        for id in self.paths.values() {
            let tag = self.volume.core.tag(*id);
            assert_eq!(tag, Some(&id.0.to_le_bytes()[..]));
        }
        self.read();
    }
}

#[test]
fn random_calls_agree_with_a_map_from_paths_to_bytes() {
    let zenfs = Options {
        extent: OPTIONS.extent,
        buffers: 2,
        log_blocks_max: 5,
        ..Options::zenfs()
    };
    for (options, zones) in [(OPTIONS, ZONES), (OPTIONS, 8), (zenfs, ZONES)] {
        let mut full = 0;
        for seed in 0..25 {
            let mut run = Run::new(seed, options, zones);
            for _ in 0..400 {
                run.call();
                run.commands();
            }
            run.check();
            full += run.full;
            run.sync_all();
            let device = run.volume.device.clone();
            if run.known.values().all(|known| known.since.len() == 1) {
                run.known
                    .retain(|id, _| run.paths.values().any(|named| named == id));
                run.volume = Volume::reopened(device, options);
                run.check();
            }
        }
        assert_eq!(full > 0, zones == 8, "{full} refused of {zones} zones");
    }
}
