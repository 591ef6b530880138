//! Reads, writes and trims of a region, in one of several orders.

use super::arrivals::Clock;
use super::{Arrivals, Budget, Limit, NoRoom, Part, Sizes, Theta, Zipf};
use crate::request::{Op, Request};
use sim::{Rng, Seed};
use units::{Bytes, Extent, Ns, Origin, Placement, SECTOR};

/// Order in which a region is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the beginning to the end, again and again.
    Sequential,
    /// Uniformly at random.
    Uniform,
    /// By Zipf's law; the popular places are scattered.
    Zipf(Theta),
    /// The first `hot` hundredths of the region get `access` hundredths of the
    /// requests.
    HotCold {
        /// Hundredths of the region, 1 to 99.
        hot: u64,
        /// Hundredths of the requests, at most 100.
        access: u64,
    },
}

/// Workload of independent requests to a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Name of its origin in [`Labels`](crate::request::Labels), which seeds its random stream too.
    pub label: String,
    /// Order of places.
    pub order: Order,
    /// Hundredths of the requests that are reads; the others are writes.
    pub read_percent: u64,
    /// Request sizes. Requests are aligned to the smallest one.
    pub sizes: Sizes,
    /// Length of the region, which begins at the start of the drive.
    pub span: Part,
    /// Limit at which the workload ends.
    pub limit: Limit,
    /// Writes between two flushes; 0 for no flushes.
    pub flush_every: u64,
    /// Times at which requests are issued.
    pub arrivals: Arrivals,
}

/// Iterator over the requests of a [`Synthetic`] workload.
#[derive(Clone, Debug)]
pub(crate) struct SyntheticIter {
    description: Synthetic,
    origin: Origin,
    places: Places,
    /// Bytes of the region.
    room: u64,
    /// End of the request before, in bytes from the beginning of the region.
    head: u64,
    budget: Budget,
    clock: Clock,
    rng: Rng,
    unflushed: u64,
    last: Ns,
}

#[derive(Clone, Debug)]
enum Places {
    Sequential,
    Uniform { count: u64 },
    Zipf(Zipf),
    HotCold { hot: u64, count: u64, access: u64 },
}

impl SyntheticIter {
    pub(crate) fn new(
        description: &Synthetic,
        capacity: Bytes,
        origin: Origin,
        seed: Seed,
    ) -> Result<Self, NoRoom> {
        let room = region(description, capacity)?;
        let sizes = &description.sizes;
        let count = (room - sizes.largest()) / sizes.smallest() + 1;
        let mut rng = seed.stream(&format!("workload {}", description.label));
        Ok(Self {
            places: Places::new(description.order, count, &mut rng),
            description: description.clone(),
            origin,
            room,
            head: 0,
            budget: Budget::new(description.limit, capacity),
            clock: Clock::new(description.arrivals),
            rng,
            unflushed: 0,
            last: Ns::ZERO,
        })
    }

    fn operation(&mut self) -> Op {
        match self.description.read_percent {
            0 => Op::Write,
            100.. => Op::Read,
            percent if self.rng.chance(percent, 100) => Op::Read,
            _ => Op::Write,
        }
    }

    /// Start of the next request of `size` bytes within the region, and whether that place is hot.
    fn place(&mut self, size: u64) -> (u64, bool) {
        let drawn = self.places.draw(&mut self.rng);
        let next = if self.head + size > self.room {
            0
        } else {
            self.head
        };
        let unit = self.description.sizes.smallest();
        let (start, hot) = drawn.map_or((next, false), |(place, hot)| (place * unit, hot));
        self.head = start + size;
        (start, hot)
    }

    fn flush(&mut self) -> Option<Request> {
        let every = self.description.flush_every;
        if every == 0 || self.unflushed < every {
            return None;
        }
        self.unflushed = 0;
        Some(self.request(Op::Flush, Extent::default(), false))
    }

    fn request(&self, op: Op, extent: Extent, hot: bool) -> Request {
        Request {
            at: self.last,
            op,
            extent,
            placement: Placement(u16::from(hot)),
            origin: self.origin,
            fua: false,
        }
    }
}

impl Iterator for SyntheticIter {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if let Some(flush) = self.flush() {
            return Some(flush);
        }
        let size = self.description.sizes.draw(&mut self.rng);
        if !self.budget.spend(size) {
            return None;
        }
        let op = self.operation();
        let (start, hot) = self.place(size);
        self.last = self.clock.tick(&mut self.rng);
        self.unflushed += u64::from(op == Op::Write);
        let sectors = u32::try_from(size / SECTOR).expect("sizes are bounded");
        let extent = Extent::new(start / SECTOR, sectors);
        Some(self.request(op, extent, hot))
    }
}

/// Length of the region on a drive of `capacity`. A length in hundredths is cut at the end of the
/// drive; a length in bytes that does not fit is an error.
fn region(description: &Synthetic, capacity: Bytes) -> Result<u64, NoRoom> {
    let room = Bytes(capacity.0 / SECTOR * SECTOR);
    let span = match description.span {
        Part::Percent(_) => description.span.of(capacity).min(room),
        Part::Bytes(_) => description.span.of(capacity),
    };
    let needed = span.max(Bytes(description.sizes.largest()));
    if needed > room.min(span) {
        return Err(NoRoom {
            label: description.label.clone(),
            needed,
            room: room.min(span),
        });
    }
    Ok(span.0)
}

impl Places {
    fn new(order: Order, count: u64, rng: &mut Rng) -> Self {
        match order {
            Order::Sequential => Self::Sequential,
            Order::Uniform => Self::Uniform { count },
            Order::Zipf(theta) => Self::Zipf(Zipf::new(count, theta, rng)),
            Order::HotCold { hot, access } => Self::HotCold {
                // Both parts hold at least one place, unless there is only one.
                hot: (u128::from(count) * u128::from(hot) / 100).clamp(1, u128::from(count)) as u64,
                count,
                access,
            },
        }
    }

    /// Draws a place and whether it is hot; `None` if the order is sequential.
    fn draw(&mut self, rng: &mut Rng) -> Option<(u64, bool)> {
        Some(match self {
            Self::Sequential => return None,
            Self::Uniform { count } => (rng.below(*count), false),
            Self::Zipf(zipf) => (zipf.draw(rng), false),
            Self::HotCold { hot, count, access } => {
                if *hot == *count || rng.chance(*access, 100) {
                    (rng.below(*hot), true)
                } else {
                    (*hot + rng.below(*count - *hot), false)
                }
            }
        })
    }
}
