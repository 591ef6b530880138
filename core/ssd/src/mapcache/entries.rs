//! Cache of single map entries, as in DFTL's cached mapping table.
//!
//! A cached entry has a slot. The slots are linked in the order of their last use, and the dirty
//! ones of each translation page are linked too, so that its write-back finds them without a
//! search. That list has one direction, because a write-back empties it and nothing else leaves it.
//!
//! All tables begin as zeros, so an unused part of them takes no memory. A table by mapped page
//! leads to the slots: four bytes a page, as the map itself, of which only the pages in use take
//! memory. A hash table by capacity would be smaller on a large drive, but slower.
//!
//! Invariant ([`Entries::check`]): slots 1 to `used` hold distinct pages, each of which leads to
//! its slot, and a slot is dirty if and only if it is in the list of its translation page.
//! //= dftl 4

/// Bytes of the cache that an entry takes: the numbers of the mapped and of the flash page, four
/// bytes each. Translation pages have only the latter, because their order gives the former. `MQSim`
/// has both as well, in as many bits as the drive needs, and a bit for each written sector: nine
/// bytes on its default drive.
pub(crate) const ENTRY: u64 = 8;

/// Positions in the links of a slot.
const NEWER: usize = 0;
const OLDER: usize = 1;

/// End of a list of dirty slots; 0 marks a clean slot or an empty list.
const END: u32 = u32::MAX;

/// Dirty entries of one translation page, which an eviction writes back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteBack {
    pub(crate) map_page: u32,
    pub(crate) entries: u32,
}

/// Map entries in DRAM, least recently used ones first to go.
pub(super) struct Entries {
    /// Binary logarithm of the entries of a translation page.
    shift: u32,
    capacity: u32,
    /// Slots in use: they are taken in order, and evictions reuse them.
    used: u32,
    /// Slot of each mapped page; 0 if its entry is not cached.
    slots: Vec<u32>,
    /// Mapped page of each slot. Slot 0 is the head of the list by last use.
    pages: Vec<u32>,
    /// Next newer and next older slot of each slot.
    links: Vec<[u32; 2]>,
    /// Next dirty slot of the same translation page.
    next_dirty: Vec<u32>,
    /// Load of the translation page that brings the entry of a slot, counted from 1; 0 for none.
    arrivals: Vec<u32>,
    /// First dirty slot of each translation page.
    first_dirty: Vec<u32>,
    /// Completed loads of each translation page.
    loads: Vec<u32>,
    loading: Vec<bool>,
}

impl Entries {
    /// An empty cache of `capacity` entries, for `pages` mapped pages with `1 << shift` entries in
    /// each translation page.
    pub(super) fn new(pages: u32, shift: u32, capacity: u64) -> Self {
        let capacity = capacity.clamp(1, u64::from(pages.max(1))) as u32;
        let slots = capacity as usize + 1;
        let map_pages = pages.div_ceil(1 << shift) as usize;
        Self {
            shift,
            capacity,
            used: 0,
            slots: vec![0; pages as usize],
            pages: vec![0; slots],
            links: vec![[0; 2]; slots],
            next_dirty: vec![0; slots],
            arrivals: vec![0; slots],
            first_dirty: vec![0; map_pages],
            loads: vec![0; map_pages],
            loading: vec![false; map_pages],
        }
    }

    /// Moves the entry of `page` to the newest end. Returns whether it was cached already or being
    /// loaded, and the write-back that the eviction of another entry causes.
    pub(super) fn touch(&mut self, page: u32, dirty: bool) -> (bool, Option<WriteBack>) {
        let (slot, written) = match self.slots[page as usize] {
            0 => self.take_slot(page),
            slot => {
                self.unlink(slot);
                (slot, None)
            }
        };
        let held = std::mem::replace(&mut self.slots[page as usize], slot) != 0;
        self.link_newest(slot);
        if dirty && self.next_dirty[slot as usize] == 0 {
            let first = &mut self.first_dirty[(page >> self.shift) as usize];
            self.next_dirty[slot as usize] = if *first == 0 { END } else { *first };
            *first = slot;
        }
        (held, written)
    }

    /// A slot for `page`: an unused one, or that of the least recently used entry.
    fn take_slot(&mut self, page: u32) -> (u32, Option<WriteBack>) {
        let mut written = None;
        let slot = if self.used < self.capacity {
            self.used += 1;
            self.used
        } else {
            let oldest = self.links[0][NEWER];
            let evicted = self.pages[oldest as usize];
            self.unlink(oldest);
            if self.next_dirty[oldest as usize] != 0 {
                written = Some(self.clean(evicted >> self.shift));
            }
            self.slots[evicted as usize] = 0;
            oldest
        };
        self.pages[slot as usize] = page;
        self.arrivals[slot as usize] = 0;
        (slot, written)
    }

    /// Marks the dirty entries of a translation page as clean, and returns their number.
    fn clean(&mut self, map_page: u32) -> WriteBack {
        let mut slot = std::mem::take(&mut self.first_dirty[map_page as usize]);
        let mut entries = 0;
        while slot != END {
            slot = std::mem::take(&mut self.next_dirty[slot as usize]);
            entries += 1;
        }
        WriteBack { map_page, entries }
    }

    fn unlink(&mut self, slot: u32) {
        let [newer, older] = self.links[slot as usize];
        self.links[newer as usize][OLDER] = older;
        self.links[older as usize][NEWER] = newer;
    }

    fn link_newest(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.links[0][OLDER], slot);
        self.links[slot as usize] = [0, before];
        self.links[before as usize][NEWER] = slot;
    }

    /// Lets the entry of `page`, which is cached, arrive with the next end of a load of its
    /// translation page.
    pub(super) fn expect(&mut self, page: u32) {
        let slot = self.slots[page as usize];
        self.arrivals[slot as usize] = self.next_load(page >> self.shift);
    }

    /// The load of its translation page that brings the entry of `page`, which is cached; `None`
    /// if it has arrived.
    pub(super) fn arrival(&self, page: u32) -> Option<u32> {
        let load = self.arrivals[self.slots[page as usize] as usize];
        (!self.has_loaded(page >> self.shift, load)).then_some(load)
    }

    /// Number of the load of a translation page that ends next, whether it has begun or not.
    pub(super) fn next_load(&self, map_page: u32) -> u32 {
        self.loads[map_page as usize] + 1
    }

    pub(super) fn has_loaded(&self, map_page: u32, load: u32) -> bool {
        self.loads[map_page as usize] >= load
    }

    /// Begins a load of a translation page, unless one is under way.
    pub(super) fn begin_load(&mut self, map_page: u32) -> bool {
        !std::mem::replace(&mut self.loading[map_page as usize], true)
    }

    pub(super) fn end_load(&mut self, map_page: u32) {
        self.loading[map_page as usize] = false;
        self.loads[map_page as usize] += 1;
    }

    /// Panics if an invariant of the module does not hold.
    pub(super) fn check(&self) {
        let (mut linked, mut slot) = (0, self.links[0][OLDER]);
        while slot != 0 {
            let page = self.pages[slot as usize];
            assert_eq!(self.slots[page as usize], slot, "page {page} leads to it");
            let older = self.links[slot as usize][OLDER];
            assert_eq!(self.links[older as usize][NEWER], slot);
            linked += 1;
            slot = older;
        }
        assert_eq!(linked, self.used, "slots by last use");
        let mut listed = 0;
        for (map_page, &first) in self.first_dirty.iter().enumerate() {
            let mut slot = if first == 0 { END } else { first };
            while slot != END {
                let page = self.pages[slot as usize];
                assert_eq!((page >> self.shift) as usize, map_page, "page {page}");
                listed += 1;
                slot = self.next_dirty[slot as usize];
            }
        }
        let dirty = self.next_dirty.iter().filter(|next| **next != 0);
        assert_eq!(listed, dirty.count(), "dirty slots");
    }
}
