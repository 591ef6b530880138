use super::entries::{Entries, WriteBack};
use super::pages::Pages;
use sim::Seed;

/// Both caches in a few lines: parts with their dirty marks, the newest last.
struct Model {
    capacity: usize,
    /// Binary logarithms of the pages of a part, and of a translation page.
    part: u32,
    map_page: u32,
    parts: Vec<(u32, bool)>,
}

impl Model {
    fn touch(&mut self, page: u32, dirty: bool) -> (bool, Option<WriteBack>) {
        let part = page >> self.part;
        let at = self.parts.iter().position(|&(p, _)| p == part);
        let before = at.map(|at| self.parts.remove(at));
        let mut written = None;
        if before.is_none() && self.parts.len() == self.capacity {
            let map_page = |part| part >> (self.map_page - self.part);
            let (evicted, was_dirty) = self.parts[0];
            let mut entries = 0;
            for (other, dirty) in &mut self.parts {
                if was_dirty && map_page(*other) == map_page(evicted) {
                    entries += u32::from(std::mem::take(dirty));
                }
            }
            self.parts.remove(0);
            written = was_dirty.then(|| WriteBack {
                map_page: map_page(evicted),
                entries,
            });
        }
        self.parts
            .push((part, dirty || before.is_some_and(|b| b.1)));
        (before.is_some(), written)
    }
}

const PAGES: u32 = 1 << 10;
/// Binary logarithm of the entries of a translation page.
const SHIFT: u32 = 5;

/// Touches pages at random, near the last one or anywhere, and returns the write-backs and the
/// entries in them.
fn agree(
    mut model: Model,
    seed: u64,
    mut touch: impl FnMut(u32, bool) -> (bool, Option<WriteBack>),
) -> (u32, u32) {
    let mut rng = Seed(seed).stream("touches");
    let (mut page, mut sums) = (0, (0, 0));
    for step in 0..5000 {
        page = match rng.below(3) {
            0 => (page + 1) % PAGES,
            1 => (page + rng.below(u64::from(model.capacity as u32)) as u32) % PAGES,
            _ => rng.below(u64::from(PAGES)) as u32,
        };
        let dirty = rng.below(2) == 0;
        let expected = model.touch(page, dirty);
        assert_eq!(
            touch(page, dirty),
            expected,
            "seed {seed}, step {step}, page {page}"
        );
        if let (_, Some(written)) = expected {
            sums = (sums.0 + 1, sums.1 + written.entries);
        }
    }
    sums
}

fn model(capacity: u32, part: u32) -> Model {
    Model {
        capacity: capacity as usize,
        part,
        map_page: SHIFT,
        parts: Vec::new(),
    }
}

//= dftl 4
#[test]
fn cache_of_entries_agrees_with_the_model() {
    for capacity in [1, 2, 3, 40, 200, 500] {
        let mut entries = Entries::new(PAGES, SHIFT, u64::from(capacity));
        let touch = |page, dirty| {
            let touched = entries.touch(page, dirty);
            entries.check();
            touched
        };
        let (writes, written) = agree(model(capacity, 0), u64::from(capacity), touch);
        assert!(writes > 0 && written >= writes);
        assert!(capacity < 40 || written > 2 * writes, "batches");
    }
}

//= dftl 4
#[test]
fn cache_of_translation_pages_agrees_with_the_model() {
    for capacity in [1, 2, 3, 8, 31] {
        let mut pages = Pages::new(PAGES >> SHIFT, u64::from(capacity));
        let touch = |page: u32, dirty| {
            let held = pages.touch(page >> SHIFT, dirty);
            let evicted = pages.is_over().then(|| pages.evict()).flatten();
            assert!(!pages.is_over());
            let written = evicted.map(|map_page| WriteBack {
                map_page,
                entries: 1,
            });
            (held, written)
        };
        let (writes, _) = agree(model(capacity, SHIFT), u64::from(capacity), touch);
        assert!(writes > 0);
    }
}

#[test]
fn entry_arrives_with_the_load_of_its_translation_page() {
    let mut entries = Entries::new(PAGES, SHIFT, 8);
    entries.touch(3, false);
    assert_eq!(entries.arrival(3), None, "nothing is on flash");
    entries.touch(4, false);
    entries.expect(4);
    assert!(entries.begin_load(0));
    entries.touch(5, false);
    entries.expect(5);
    assert!(!entries.begin_load(0), "the second look-up joins the load");
    assert_eq!((entries.arrival(4), entries.arrival(5)), (Some(1), Some(1)));
    entries.end_load(0);
    assert_eq!((entries.arrival(4), entries.arrival(5)), (None, None));
    assert_eq!(entries.next_load(0), 2);
}

/// A cache as large as the map keeps every entry, and has no more slots than pages.
#[test]
fn cache_larger_than_the_map_evicts_nothing() {
    let mut entries = Entries::new(PAGES, SHIFT, u64::MAX);
    for page in (0..PAGES).chain(0..PAGES) {
        assert_eq!(entries.touch(page, true).1, None);
    }
    entries.check();
}
