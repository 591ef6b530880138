//! Cached names of a directory: an open-addressing hash table with linear probing.
//!
//! Invariants: no place is free between the home of a name and its place; at least a quarter of all
//! places is free; the order of places is never observable, so results do not depend on the hash.

use crate::node::Name;

struct Place {
    hash: u64,
    name: Box<[u8]>,
    known: Name,
}

/// Cache of the names of one directory, present and absent.
#[derive(Default)]
pub(crate) struct Names {
    /// The table: its length is a power of two, or 0 before the first name.
    places: Vec<Option<Place>>,
    count: usize,
}

/// Mixes eight bytes at a time, by the golden ratio.
fn hash(name: &[u8]) -> u64 {
    const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = name.chunks(8).fold(name.len() as u64, |hash, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(RATIO);
        mixed ^ mixed >> 32
    });
    mixed.wrapping_mul(RATIO) >> 16
}

impl Names {
    /// Home place of a name with this hash.
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    /// Probe distance from `from` to `at`, wrapping around.
    fn distance(&self, from: usize, at: usize) -> usize {
        at.wrapping_sub(from) & (self.places.len() - 1)
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        while let Some(place) = &self.places[at] {
            if place.hash == hash && *place.name == *name {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    /// Cached state of `name`; `None` if it is not cached.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Name> {
        let at = self.find(hash(name), name)?;
        self.places[at].as_ref().map(|place| place.known)
    }

    /// Caches the state of `name`; returns whether the name is new to the cache.
    pub(crate) fn insert(&mut self, name: &[u8], known: Name) -> bool {
        let hash = hash(name);
        if let Some(at) = self.find(hash, name) {
            let place = self.places[at].as_mut();
            place.expect("it was found there").known = known;
            return false;
        }
        if (self.count + 1) * 4 > self.places.len() * 3 {
            let places = (self.places.len() * 2).max(8);
            self.move_to(places, |_| true);
        }
        let name = name.into();
        self.put(Place { hash, name, known });
        true
    }

    fn put(&mut self, place: Place) {
        let mut at = self.home(place.hash);
        while self.places[at].is_some() {
            at = self.after(at);
        }
        self.places[at] = Some(place);
        self.count += 1;
    }

    /// Rehashes the entries that `keep` accepts into a table of `places`.
    fn move_to(&mut self, places: usize, keep: impl Fn(Name) -> bool) {
        let new = std::iter::repeat_with(|| None).take(places).collect();
        let old = std::mem::replace(&mut self.places, new);
        self.count = 0;
        let kept = old.into_iter().flatten();
        kept.filter(|place| keep(place.known))
            .for_each(|place| self.put(place));
    }

    /// Removes `name` from the cache; returns whether it was cached.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(mut hole) = self.find(hash(name), name) else {
            return false;
        };
        self.places[hole] = None;
        self.count -= 1;
        let mut at = self.after(hole);
        while let Some(place) = &self.places[at] {
            // An entry whose probe sequence passed the hole moves into it.
            let home = self.home(place.hash);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.places.swap(hole, at);
                hole = at;
            }
            at = self.after(at);
        }
        true
    }

    /// Removes all entries but those that `keep` accepts, and shrinks the table.
    pub(crate) fn retain(&mut self, keep: impl Fn(Name) -> bool) {
        let known = self.places.iter().flatten();
        let kept = known.filter(|place| keep(place.known)).count();
        let places = match kept {
            0 => 0,
            kept => (kept * 2).next_power_of_two().max(8),
        };
        self.move_to(places, keep);
    }

    /// Number of cached names.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether no name is cached.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Ino;
    use std::collections::BTreeMap;

    #[test]
    fn names_behave_like_a_map() {
        let mut rng = sim::Seed(1).stream("names");
        let (mut names, mut model) = (Names::default(), BTreeMap::new());
        for step in 0..50_000 {
            let name = format!("name-{}", rng.below(300)).into_bytes();
            match rng.below(5) {
                0..3 => {
                    let known = match rng.below(3) {
                        0 => Name::Sought,
                        _ => Name::Leads(Ino(step)),
                    };
                    let new = model.insert(name.clone(), known).is_none();
                    assert_eq!(names.insert(&name, known), new);
                }
                3 => assert_eq!(names.remove(&name), model.remove(&name).is_some()),
                _ if rng.chance(1, 100) => {
                    names.retain(|known| known == Name::Sought);
                    model.retain(|_, known| *known == Name::Sought);
                }
                _ => assert_eq!(names.get(&name), model.get(&name).copied()),
            }
            assert_eq!(
                (names.len(), names.is_empty()),
                (model.len(), model.is_empty())
            );
        }
        assert!(
            model
                .iter()
                .all(|(name, known)| names.get(name) == Some(*known))
        );
    }
}
