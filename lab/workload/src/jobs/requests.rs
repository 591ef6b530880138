//! Requests of one thread, without their times.
//!
//! A *pass* covers the amount of a job once; `loops` and `time_based` repeat it. A pass of writes
//! with `verify` is followed by reads of the same places.

use super::Direction;
use super::file::Section;
use super::layout::Region;
use super::options::{Amount, Handles, Options, Service};
use super::places::Places;
use super::value::{Each, Sizes};
use super::words::Access;
use crate::generate::Part;
use crate::request::{Op, Request};
use sim::{Rng, Seed};
use units::{Bytes, Extent, Ns, Origin, Placement, SECTOR};

/// Requests of one thread.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    options: Options,
    origin: Origin,
    handles: Chosen,
    files: Vec<File>,
    /// File of the next request, if files take turns.
    turn: usize,
    /// Requests and bytes of a pass.
    amount: (u64, u64),
    /// Requests and bytes left of this pass.
    left: (u64, u64),
    /// Passes that follow this one.
    loops: u64,
    /// Whether this pass reads what the one before it wrote.
    checks: bool,
    rng: Rng,
    /// State of `rng` at the start of the pass.
    at_start: Rng,
    /// Writes since the last flush.
    unflushed: u64,
    /// Whether a write has come since the last flush.
    is_dirty: bool,
    /// Bytes of a zone whose first append follows a reset; 0 for none.
    zone: u64,
    /// Append that waits for the reset of its zone.
    held: Option<Request>,
}

/// Placement handles of writes.
#[derive(Clone, Debug)]
struct Chosen {
    list: Vec<Placement>,
    is_random: bool,
    next: usize,
}

/// A file and the places of the last requests in it.
#[derive(Clone, Debug)]
struct File {
    region: Region,
    /// End of the last request, and its start, from the start of the region.
    last: Each<Option<(u64, u64)>>,
    places: Each<Places>,
    /// Requests that the last random place still serves.
    run: Each<u64>,
    /// Start and size of a trim that a write to the same place follows.
    trimmed: Option<(u64, u64)>,
}

impl Requests {
    pub(super) fn new(
        section: &Section,
        regions: Vec<Region>,
        (origin, handles): (Origin, u16),
        seed: Seed,
    ) -> Self {
        let options = section.options.clone();
        let mut rng = seed.stream(&format!("job {}", section.name));
        let size: u64 = regions.iter().map(|region| region.len).sum();
        let whole = match options.amount.size {
            Part::Bytes(bytes) => bytes.0,
            Part::Percent(_) => size,
        };
        let bytes = options.amount.io_size.map(|part| part.of(Bytes(whole)).0);
        let at_start = rng.clone();
        let file = |region| File::new(region, &options, &mut rng);
        let files = regions.into_iter().map(file).collect();
        let amount = (options.amount.number_ios, bytes.unwrap_or(whole));
        Self {
            handles: Chosen::new(&options.handles, handles),
            loops: match options.amount {
                // Passes that only check may yield no request, and must end.
                _ if options.verify.only => 0,
                Amount {
                    time_based: true, ..
                } => u64::MAX,
                Amount { loops, .. } => loops - 1,
            },
            checks: options.verify.only && options.access.writes,
            origin,
            files,
            turn: 0,
            left: amount,
            amount,
            at_start,
            rng,
            unflushed: 0,
            is_dirty: false,
            zone: 0,
            held: None,
            options,
        }
    }

    /// These requests on zones of `capacity` bytes.
    pub(super) fn in_zones(mut self, capacity: u64) -> Self {
        self.zone = if self.options.appends { capacity } else { 0 };
        self
    }

    /// The smallest size of requests in direction `direction`.
    pub(super) fn smallest(&self, direction: Direction) -> u64 {
        self.options.sizes[direction as usize].smallest()
    }

    /// Direction of the next request.
    pub(super) fn direction(&mut self) -> Direction {
        match self.options.access {
            Access {
                reads: true,
                writes: true,
                ..
            } => match self.rng.chance(self.options.read_percent, 100) {
                true => Direction::Read,
                false => Direction::Write,
            },
            Access { reads: true, .. } => Direction::Read,
            Access { trims: true, .. } => Direction::Trim,
            _ => Direction::Write,
        }
    }

    /// Whether the job mixes reads and writes.
    pub(super) const fn is_mixed(&self) -> bool {
        self.options.access.reads && self.options.access.writes
    }

    /// The flush that is due after the last write; `None` if none is.
    pub(super) fn flush(&mut self) -> Option<Request> {
        let every = self.options.durable.flush_every;
        let is_due = every > 0 && self.unflushed >= every;
        is_due.then(|| self.forced())
    }

    /// Whether the job has to end with a flush.
    pub(super) const fn needs_flush(&self) -> bool {
        self.options.durable.flush_at_end && self.is_dirty
    }

    /// The flush at the end of the job, if it needs one.
    pub(super) fn last_flush(&mut self) -> Option<Request> {
        self.needs_flush().then(|| self.forced())
    }

    fn forced(&mut self) -> Request {
        (self.unflushed, self.is_dirty) = (0, false);
        self.request(Op::Flush, Extent::default())
    }

    /// The next request in `direction`; `None` after the last pass.
    pub(super) fn next(&mut self, mut direction: Direction) -> Option<Request> {
        if self.held.is_some() {
            return self.held.take();
        }
        loop {
            if self.left.0 == 0 || self.left.1 == 0 {
                self.begin_pass()?;
                direction = self.direction();
            }
            let made = self.make(direction);
            let begins = |at: u64| (at * SECTOR).checked_rem(self.zone) == Some(0);
            if made.op == Op::Append && begins(made.extent.start.0) {
                self.held = Some(made);
                return Some(self.request(Op::ZoneReset, Extent::new(made.extent.start.0, 0)));
            }
            if !self.checks {
                return Some(made);
            }
            if made.op == Op::Write {
                return Some(Request {
                    op: Op::Read,
                    fua: false,
                    placement: Placement(0),
                    ..made
                });
            }
            direction = self.direction();
        }
    }

    /// The next request or flush of the first pass.
    pub(super) fn next_in_one_pass(&mut self) -> Option<Request> {
        self.loops = 0;
        if let Some(flush) = self.flush() {
            return Some(flush);
        }
        let direction = self.direction();
        self.next(direction).or_else(|| self.last_flush())
    }

    /// Begins the next pass; `None` if there is none.
    fn begin_pass(&mut self) -> Option<()> {
        let verify = self.options.verify;
        let is_checked = verify.has_method && verify.is_done && self.options.access.writes;
        let checks = is_checked && !self.checks;
        if !checks {
            self.loops = self.loops.checked_sub(1)?;
        }
        self.checks = checks;
        if self.checks || self.options.same_order {
            self.rng = self.at_start.clone();
        }
        self.at_start = self.rng.clone();
        for file in &mut self.files {
            *file = File::new(file.region, &self.options, &mut self.rng);
        }
        (self.left, self.turn) = (self.amount, 0);
        Some(())
    }

    fn make(&mut self, direction: Direction) -> Request {
        let index = match self.options.files.service {
            _ if self.files.len() == 1 => 0,
            Service::Turns => self.turn,
            Service::Random => self.rng.below(self.files.len() as u64) as usize,
        };
        let files = self.files.len();
        let file = &mut self.files[index];
        let (direction, start, size) = match file.trimmed.take() {
            Some((start, size)) => (Direction::Write, start, size),
            None => {
                let size = self.options.sizes[direction as usize].draw(&mut self.rng);
                let start = file.place(direction, size, &self.options, &mut self.rng);
                (direction, start, size)
            }
        };
        let access = self.options.access;
        if direction == Direction::Trim && access.writes {
            file.trimmed = Some((start, size));
        } else {
            self.turn = if index + 1 < files { index + 1 } else { 0 };
        }
        let (at, sectors) = (file.region.base + start, (size / SECTOR) as u32);
        self.left = (self.left.0 - 1, self.left.1.saturating_sub(size));
        let op = match direction {
            Direction::Read => Op::Read,
            Direction::Write if self.options.appends => Op::Append,
            Direction::Write => Op::Write,
            Direction::Trim => Op::Trim,
        };
        if op == Op::Write && !self.checks {
            self.unflushed += 1;
            self.is_dirty = true;
        }
        self.request(op, Extent::new(at / SECTOR, sectors))
    }

    fn request(&mut self, op: Op, extent: Extent) -> Request {
        let is_write = op == Op::Write;
        Request {
            at: Ns::ZERO,
            op,
            extent,
            placement: match is_write {
                true => self.handles.next(&mut self.rng),
                false => Placement(0),
            },
            origin: self.origin,
            fua: is_write && self.options.durable.fua,
        }
    }
}

impl Chosen {
    /// The handles of `wanted` on a drive with `handles`.
    fn new(wanted: &Handles, handles: u16) -> Self {
        let most = handles.max(1) - 1;
        let list = match (wanted.is_on, wanted.list.as_slice()) {
            (false, _) => vec![wanted.hint.min(most)],
            (true, []) => (0..=most).collect(),
            (true, list) => list.iter().map(|&handle| handle.min(most)).collect(),
        };
        Self {
            list: list.into_iter().map(Placement).collect(),
            is_random: wanted.is_random,
            next: 0,
        }
    }

    fn next(&mut self, rng: &mut Rng) -> Placement {
        if let [one] = self.list.as_slice() {
            return *one;
        }
        if self.is_random {
            return self.list[rng.below(self.list.len() as u64) as usize];
        }
        let handle = self.list[self.next];
        self.next = if self.next + 1 < self.list.len() {
            self.next + 1
        } else {
            0
        };
        handle
    }
}

impl File {
    fn new(region: Region, options: &Options, rng: &mut Rng) -> Self {
        let places = [0, 1, 2].map(|direction: usize| {
            let sizes: &Sizes = &options.sizes[direction];
            let unit = unit(options, direction);
            let count = (region.len - sizes.largest()) / unit + 1;
            let distribution = &options.distribution[direction];
            Places::new(distribution, (count, unit), options.norandommap, rng)
        });
        Self {
            region,
            last: [None; 3],
            places,
            run: [0; 3],
            trimmed: None,
        }
    }

    /// Start of the next request of `size` bytes.
    fn place(&mut self, direction: Direction, size: u64, options: &Options, rng: &mut Rng) -> u64 {
        let index = direction as usize;
        let access = options.access;
        let start = if access.random && self.is_drawn(index, options, rng) {
            // One permutation serves all directions whose places are alike.
            let shared = match (0..index).find(|&other| alike(options, other, index)) {
                Some(other) => other,
                None => index,
            };
            self.places[shared].draw(rng) * unit(options, index)
        } else {
            self.following(index, size, access)
        };
        self.last[index] = Some((start + size, start));
        start
    }

    /// Whether a random job draws a new place.
    fn is_drawn(&mut self, index: usize, options: &Options, rng: &mut Rng) -> bool {
        if self.run[index] > 0 {
            self.run[index] -= 1;
            return false;
        }
        self.run[index] = options.access.run - 1;
        let percent = options.random_percent[index];
        percent >= 100 || rng.chance(percent, 100)
    }

    /// Place after the last request, or again its place.
    fn following(&self, index: usize, size: u64, access: Access) -> u64 {
        let Some((end, start)) = self.last[index] else {
            return 0;
        };
        let len = i128::from(self.region.len);
        let next = match access.identical {
            true => i128::from(start),
            false => i128::from(end) + i128::from(access.gap),
        };
        let is_within = |at: &i128| *at >= 0 && at + i128::from(size) <= len;
        let wrapped = if next < 0 {
            len + i128::from(access.gap)
        } else {
            0
        };
        [next, wrapped].into_iter().find(is_within).unwrap_or(0) as u64
    }
}

/// Whether the places of two directions are alike.
fn alike(options: &Options, one: usize, other: usize) -> bool {
    options.sizes[one] == options.sizes[other]
        && options.align[one] == options.align[other]
        && options.distribution[one] == options.distribution[other]
}

/// Bytes between two places.
fn unit(options: &Options, direction: usize) -> u64 {
    options.align[direction].unwrap_or_else(|| options.sizes[direction].smallest())
}
