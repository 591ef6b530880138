//! The address space: placement of each virtual page, and the pages moved to the host.
//!
//! A physical line is a number: its node above bit 40, and there the lines from the
//! start of the node's memory; [`FAR`] is the device. Behind the memory of the first
//! node lie the tables of translations themselves, eight entries a line.
//!
//! Of the pages that were moved to the host there are two lists, active and inactive.
//! A page comes in at the head of the inactive one, is made active if it was
//! referenced when its turn comes, and leaves from the tail.

use crate::buddy::Buddy;
use crate::config::{Config, Invalid, Place};
use crate::tiering::Demote;

/// The node of the device's lines.
pub(crate) const FAR: u64 = 15;
pub(crate) const NODE_SHIFT: u32 = 40;
const NONE: u32 = u32::MAX;

/// Whether a physical line is the device's.
#[inline]
pub(crate) fn is_far(line: u64) -> bool {
    line >> NODE_SHIFT == FAR
}

/// The node of a line, and the line there.
#[inline]
pub(crate) fn split(line: u64) -> (u64, u64) {
    (line >> NODE_SHIFT, line & ((1 << NODE_SHIFT) - 1))
}

pub(crate) fn far_line(line: u64) -> u64 {
    FAR << NODE_SHIFT | line
}

/// The page never leaves the device.
const PINNED: u8 = 1;
/// The kernel wants to know of the next access.
const SAMPLED: u8 = 2;
/// It was accessed between samples before.
const WARM: u8 = 4;

#[derive(Clone, Copy, Debug)]
struct Page {
    /// First physical line of the page.
    line: u64,
    /// Number among the moved pages.
    moved: u32,
    /// Offers by the device, saturating.
    offers: u16,
    flags: u8,
}

/// A page in the host's memory for moved pages.
#[derive(Clone, Copy, Debug)]
struct Moved {
    page: u64,
    /// First line on the device, if that is kept.
    home: u64,
    referenced: bool,
    active: bool,
    before: u32,
    after: u32,
}

/// Ends of a list of moved pages.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    length: u64,
}

const EMPTY: List = List {
    head: NONE,
    tail: NONE,
    length: 0,
};

/// Sampling state of a page, as an access finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampled {
    No,
    /// The kernel wanted to know.
    Once,
    /// And it had been accessed between the samples before.
    Again,
}

/// A page that goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) page: u64,
    /// First line in the host's memory.
    pub(crate) from: u64,
    /// First line on the device.
    pub(crate) to: u64,
    /// Lines to be written, one bit each.
    pub(crate) lines: Vec<u64>,
}

pub(crate) struct Pages {
    pages: Vec<Page>,
    /// Lines of each 4,096 bytes that were asked of memory, one bit each.
    touched: Vec<u64>,
    moved: Vec<Moved>,
    free_moved: Vec<u32>,
    dirty: Vec<u64>,
    /// Moved page of each frame, by node.
    owners: Vec<Vec<u32>>,
    /// Page of each frame of the device.
    far_owners: Vec<u32>,
    nodes: Vec<Buddy>,
    far: Buddy,
    /// Lists of moved pages in order of use: inactive, then active.
    lists: [List; 2],
    shift: u32,
    order: usize,
    chunks: u64,
    tables: u64,
    held: u64,
    limit: u64,
    demote: Demote,
    hand: u64,
}

fn place(
    config: &Config,
    buddies: &mut [(u64, &mut Buddy)],
    count: u64,
) -> Result<Vec<u64>, Invalid> {
    let order = config.page.chunks().ilog2() as usize;
    let mut lines = Vec::with_capacity(count as usize);
    for (node, buddy) in buddies {
        // Large blocks first, so that setting up takes no time to speak of.
        for block in [order.max(18), order.max(9), order] {
            while count - lines.len() as u64 >= 1 << (block - order) {
                let Some(frame) = buddy.take(block) else {
                    break;
                };
                let base = (*node << NODE_SHIFT) | (frame * 64);
                let step = config.page.chunks() * 64;
                lines.extend((0..1 << (block - order)).map(|n: u64| base + n * step));
            }
        }
    }
    if (lines.len() as u64) < count {
        return Err(Invalid(format!(
            "the program uses {} pages of {} bytes, and {} fit where they are to be",
            count,
            config.page.bytes(),
            lines.len()
        )));
    }
    Ok(lines)
}

impl Pages {
    /// The pages of a program that uses addresses up to `footprint`.
    pub(crate) fn new(config: &Config, footprint: u64) -> Result<Self, Invalid> {
        let bytes = config.page.bytes();
        let chunks = config.page.chunks();
        let frames = |memory: u64| memory / bytes * chunks;
        let memories = config.nodes.iter().map(|node| frames(node.memory.0));
        let mut nodes: Vec<Buddy> = memories.map(Buddy::new).collect();
        let mut far = Buddy::new(frames(config.far.0));
        let count = footprint.div_ceil(bytes);
        let lines = if config.place == Place::Far {
            place(config, &mut [(FAR, &mut far)], count)?
        } else {
            let mut local: Vec<_> = (0..).zip(&mut nodes).collect();
            place(config, &mut local, count)?
        };
        let pinned = |page: u64| {
            let inside = |&(from, to): &(u64, u64)| page * bytes < to && from < (page + 1) * bytes;
            u8::from(config.pinned.iter().any(inside)) * PINNED
        };
        let pages = lines.iter().zip(0..).map(|(&line, page)| Page {
            line,
            moved: NONE,
            offers: 0,
            flags: pinned(page),
        });
        let moves = config.tiering.moves();
        let tracked = |node: &crate::config::NodeConfig| {
            vec![NONE; moves.map_or(0, |_| node.memory.0 / bytes) as usize]
        };
        let mut all = Self {
            pages: pages.collect(),
            touched: vec![0; (count * chunks) as usize],
            moved: Vec::new(),
            free_moved: Vec::new(),
            dirty: Vec::new(),
            owners: config.nodes.iter().map(tracked).collect(),
            far_owners: Vec::new(),
            nodes,
            far,
            lists: [EMPTY; 2],
            shift: bytes.ilog2(),
            order: chunks.ilog2() as usize,
            chunks,
            tables: config.nodes[0].memory.0 / 64,
            held: 0,
            limit: moves.map_or(0, |moves| moves.limit.0 / bytes),
            demote: moves.map_or(Demote::DirtyLines, |moves| moves.demote),
            hand: 0,
        };
        if config.place == Place::Far {
            for (page, &line) in lines.iter().enumerate() {
                all.note_far(line, page as u32);
            }
        }
        Ok(all)
    }

    fn note_far(&mut self, line: u64, page: u32) {
        let frame = (split(line).1 / 64 / self.chunks) as usize;
        if frame >= self.far_owners.len() {
            self.far_owners.resize(frame + 1, NONE);
        }
        self.far_owners[frame] = page;
    }

    /// Pages of 4,096 bytes in a page.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    #[inline]
    pub(crate) fn page_of(&self, at: u64) -> u64 {
        at >> self.shift
    }

    /// The physical line of a virtual address.
    #[inline]
    pub(crate) fn line_of(&self, at: u64) -> u64 {
        let within = at & ((1 << self.shift) - 1);
        self.pages[(at >> self.shift) as usize].line + within / 64
    }

    /// Prefetches the entry that a translation of `at` will read into the simulating machine's
    /// cache.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64) {
        sim::prefetch(&self.pages, (at >> self.shift) as usize);
    }

    /// The first physical line of a page.
    pub(crate) fn first_line(&self, page: u64) -> u64 {
        self.pages[page as usize].line
    }

    /// The line that holds the translation of a page.
    pub(crate) fn table_line(&self, page: u64) -> u64 {
        self.tables + page / 8
    }

    /// Notes that the line of `at` was asked of memory.
    #[inline]
    pub(crate) fn touch(&mut self, at: u64) {
        self.touched[(at >> 12) as usize] |= 1 << (at / 64 % 64);
    }

    /// Histogram of pages of 4,096 bytes by their lines requested from memory, 0 to 64.
    pub(crate) fn touched(&self) -> [u64; 65] {
        let mut histogram = [0; 65];
        for lines in &self.touched {
            histogram[lines.count_ones() as usize] += 1;
        }
        histogram
    }

    /// Forgets which lines were asked for.
    pub(crate) fn forget_touched(&mut self) {
        self.touched.fill(0);
    }

    /// The page of a physical line of the device, if one lies there.
    pub(crate) fn at_far(&self, line: u64) -> Option<u64> {
        let frame = (split(line).1 / 64 / self.chunks) as usize;
        let page = self.far_owners.get(frame).copied()?;
        (page != NONE).then_some(u64::from(page))
    }

    /// Whether a page of the program lies at a physical line of the device.
    pub(crate) fn lies_at(&self, line: u64) -> bool {
        let page = self.at_far(line);
        page.is_some_and(|page| is_far(self.first_line(page)))
    }

    /// Whether a page may be moved to the host.
    pub(crate) fn may_move(&self, page: u64) -> bool {
        let page = &self.pages[page as usize];
        is_far(page.line) && page.flags & PINNED == 0
    }

    /// Whether a page that never leaves the device lies at a physical line of it.
    pub(crate) fn is_pinned(&self, line: u64) -> bool {
        let page = self.at_far(line);
        page.is_some_and(|page| self.pages[page as usize].flags & PINNED != 0)
    }

    /// Counts an offer of the device.
    pub(crate) fn offered(&mut self, page: u64) -> u32 {
        let offers = &mut self.pages[page as usize].offers;
        *offers = offers.saturating_add(1);
        u32::from(*offers)
    }

    /// Pages that the host holds or has room taken for, and the most it may.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.held, self.limit)
    }

    /// Takes room for a page: at the device's node first, else where most is free.
    //= skybyte 4
    pub(crate) fn take_frame(&mut self) -> Option<u64> {
        if self.held >= self.limit {
            return None;
        }
        let roomiest = (0..self.nodes.len())
            .max_by_key(|&node| (self.nodes[node].left(), std::cmp::Reverse(node)))?;
        let order = self.order;
        let mut take = |node: usize| {
            let frame = self.nodes[node].take(order)?;
            Some(((node as u64) << NODE_SHIFT) | (frame * 64))
        };
        let line = take(0).or_else(|| take(roomiest))?;
        self.held += 1;
        Some(line)
    }

    /// The page lies at `line` of the host from now on.
    pub(crate) fn moved_in(&mut self, page: u64, line: u64) {
        let home = self.pages[page as usize].line;
        if self.demote == Demote::WholePage {
            self.note_far(home, NONE);
            self.far.give(split(home).1 / 64, self.order);
        }
        let new = Moved {
            page,
            home,
            referenced: false,
            active: false,
            before: NONE,
            after: NONE,
        };
        let number = match self.free_moved.pop() {
            Some(number) => {
                self.moved[number as usize] = new;
                number
            }
            None => {
                self.moved.push(new);
                self.dirty
                    .resize(self.moved.len() * self.chunks as usize, 0);
                self.moved.len() as u32 - 1
            }
        };
        let first = number as usize * self.chunks as usize;
        self.dirty[first..first + self.chunks as usize].fill(0);
        let (node, at) = split(line);
        self.owners[node as usize][(at / 64 / self.chunks) as usize] = number;
        let page = &mut self.pages[page as usize];
        (page.line, page.moved, page.offers) = (line, number, 0);
        page.flags &= !(SAMPLED | WARM);
        self.push(number, false);
    }

    /// Marks lines of a moved page as different from the device's data: the mask `lines` of chunk
    /// `chunk`.
    pub(crate) fn mark_lines(&mut self, page: u64, chunk: u64, lines: u64) {
        let number = self.pages[page as usize].moved;
        if number != NONE {
            self.dirty[(u64::from(number) * self.chunks + chunk) as usize] |= lines;
        }
    }

    /// The moved page of a physical line of the host, if one lies there.
    #[inline]
    fn moved_at(&self, line: u64) -> Option<u32> {
        let (node, at) = split(line);
        let owners = &self.owners[node as usize];
        let number = *owners.get((at / 64 / self.chunks) as usize)?;
        (number != NONE).then_some(number)
    }

    /// Marks the page of a host line as referenced, because the line enters the caches. This
    /// covers pages with a translation that never leaves the TLB.
    #[inline]
    pub(crate) fn used(&mut self, line: u64) {
        if let Some(number) = self.moved_at(line) {
            self.moved[number as usize].referenced = true;
        }
    }

    /// Notes that a physical line of the host was written.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, line: u64) {
        if let Some(number) = self.moved_at(line) {
            let at = split(line).1;
            let chunk = at / 64 % self.chunks;
            self.dirty[(u64::from(number) * self.chunks + chunk) as usize] |= 1 << (at % 64);
        }
    }

    /// Marks a newly translated page as referenced; returns whether the access hit a sampled
    /// page, for the first or a further time.
    pub(crate) fn reference(&mut self, page: u64) -> Sampled {
        let entry = &mut self.pages[page as usize];
        if entry.moved != NONE {
            self.moved[entry.moved as usize].referenced = true;
        }
        if entry.flags & SAMPLED == 0 {
            return Sampled::No;
        }
        entry.flags &= !SAMPLED;
        if entry.flags & WARM == 0 {
            entry.flags |= WARM;
            return Sampled::Once;
        }
        Sampled::Again
    }

    /// Marks the next `count` pages of the device to be told of; `told` hears which.
    pub(crate) fn sample(&mut self, count: u64, mut told: impl FnMut(u64)) {
        let all = self.pages.len() as u64;
        for _ in 0..count.min(all) {
            let page = self.hand;
            self.hand = (self.hand + 1) % all;
            let entry = &mut self.pages[page as usize];
            if is_far(entry.line) && entry.flags & PINNED == 0 {
                // Not accessed since the sample before: it is not warm any more.
                if entry.flags & SAMPLED != 0 {
                    entry.flags &= !WARM;
                }
                entry.flags |= SAMPLED;
                told(page);
            }
        }
    }

    /// The moved page that is to go back next.
    pub(crate) fn victim(&mut self) -> Option<u64> {
        let all = self.lists[0].length + self.lists[1].length;
        for _ in 0..=2 * all {
            if self.lists[0].length < self.lists[1].length || self.lists[0].length == 0 {
                let tail = self.lists[1].tail;
                if tail == NONE {
                    return None;
                }
                self.unlink(tail);
                self.moved[tail as usize].referenced = false;
                self.push(tail, false);
            }
            let tail = self.lists[0].tail;
            if !self.moved[tail as usize].referenced {
                return Some(self.moved[tail as usize].page);
            }
            self.unlink(tail);
            self.moved[tail as usize].referenced = false;
            self.push(tail, true);
        }
        None
    }

    /// Returns a moved page to the device, with the lines to write and their place. `None` if
    /// the device has no room for the page.
    pub(crate) fn send_back(&mut self, page: u64) -> Option<Return> {
        let number = self.pages[page as usize].moved;
        let moved = self.moved[number as usize];
        let first = number as usize * self.chunks as usize;
        let (to, lines) = match self.demote {
            Demote::DirtyLines => {
                let dirty = &self.dirty[first..first + self.chunks as usize];
                (moved.home, dirty.to_vec())
            }
            Demote::WholePage => {
                let frame = self.far.take(self.order)?;
                (far_line(frame * 64), vec![u64::MAX; self.chunks as usize])
            }
        };
        self.unlink(number);
        self.free_moved.push(number);
        self.note_far(to, page as u32);
        let entry = &mut self.pages[page as usize];
        let from = entry.line;
        (entry.line, entry.moved) = (to, NONE);
        let (node, at) = split(from);
        self.owners[node as usize][(at / 64 / self.chunks) as usize] = NONE;
        self.nodes[node as usize].give(at / 64, self.order);
        self.held -= 1;
        Some(Return {
            page,
            from,
            to,
            lines,
        })
    }

    fn push(&mut self, number: u32, active: bool) {
        let list = &mut self.lists[usize::from(active)];
        let entry = &mut self.moved[number as usize];
        (entry.active, entry.before, entry.after) = (active, NONE, list.head);
        let head = std::mem::replace(&mut list.head, number);
        list.length += 1;
        if head == NONE {
            list.tail = number;
        } else {
            self.moved[head as usize].before = number;
        }
    }

    fn unlink(&mut self, number: u32) {
        let Moved {
            active,
            before,
            after,
            ..
        } = self.moved[number as usize];
        let list = &mut self.lists[usize::from(active)];
        list.length -= 1;
        if before == NONE {
            list.head = after;
        } else {
            self.moved[before as usize].after = after;
        }
        if after == NONE {
            list.tail = before;
        } else {
            self.moved[after as usize].before = before;
        }
    }
}

#[cfg(test)]
mod tests;
