//! Random numbers of the specification, and the customers and orders of each district.
//!
//! Invariant: orders of a district are numbered without a gap, and only the last one may belong to
//! an unfinished transaction.

//= tpcc 2.1
//= tpcc 4.3
use super::schema::Cardinality;
use crate::generate::Shuffle;
use sim::{Rng, Seed};
use std::collections::VecDeque;

/// Orders whose items a Stock-Level transaction examines.
//= tpcc 2.8
const RECENT: usize = 20;
/// Least and most lines of an order.
//= tpcc 2.4
const LINES_MIN: u64 = 5;
const LINES_MAX: u64 = 15;

/// Non-uniform draw of numbers below `n`, by the specification's NURand.
//= tpcc 2.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uneven {
    /// Constant A of NURand: all ones in binary.
    a: u64,
    c: u64,
    first: u64,
    n: u64,
}

impl Uneven {
    /// A draw of `n` numbers of which the specification has `of`, from `first` on. With fewer
    /// numbers, `a` shrinks in proportion, so that the draw is equally skewed; our own choice.
    fn new(a: u64, first: u64, n: u64, of: u64, rng: &mut Rng) -> Self {
        let a = ((a + 1) * n).div_ceil(of).next_power_of_two() - 1;
        let c = rng.below(a + 1);
        Self { a, c, first, n }
    }

    /// Draws a number below `n`.
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        let either = rng.below(self.a + 1) | (self.first + rng.below(self.n));
        ((either + self.c) % self.n) as u32
    }
}

/// Non-uniform draws of the specification.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub(super) name: Uneven,
    pub(super) customer: Uneven,
    pub(super) item: Uneven,
}

impl Draws {
    pub(super) fn new(of: &Cardinality, rng: &mut Rng) -> Self {
        let (names, customers, items) = (of.names.into(), of.customers.into(), of.items.into());
        Self {
            name: Uneven::new(255, 0, names, 1_000, rng),
            customer: Uneven::new(1_023, 1, customers, 3_000, rng),
            item: Uneven::new(8_191, 1, items, 100_000, rng),
        }
    }

    /// Changes the constant of the draw of names for the run: it differs from that of the load by
    /// 65 to 119, except 96 and 112, in proportion.
    //= tpcc 2.1
    fn run(&mut self, rng: &mut Rng) {
        let mut delta = 65 + rng.below(53);
        delta += u64::from(delta >= 96) + u64::from(delta >= 111);
        let name = &mut self.name;
        name.c = (name.c + delta * (name.a + 1) / 256) % (name.a + 1);
    }
}

/// Draws the number of lines of an order.
pub(super) fn lines(rng: &mut Rng) -> u32 {
    (LINES_MIN + rng.below(LINES_MAX - LINES_MIN + 1)) as u32
}

/// Order of a customer, with its first line among those of its district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) customer: u32,
    pub(super) first_line: u32,
    pub(super) lines: u32,
}

/// Customers of a district by name, and its orders.
#[derive(Clone, Debug)]
pub(super) struct District {
    /// Customers, sorted by name.
    by_name: Vec<u32>,
    /// Index into `by_name` of each name's first customer, and the end.
    names: Vec<u32>,
    pub(super) orders: Vec<Order>,
    /// Number of orders of finished transactions, and number of delivered orders.
    pub(super) committed: u32,
    pub(super) delivered: u32,
    /// Items of the last [`RECENT`] orders, one list an order.
    recent: VecDeque<Vec<u32>>,
}

impl District {
    fn new(of: &Cardinality, draws: &Draws, rng: &mut Rng) -> Self {
        let mut names = vec![Vec::new(); of.names as usize];
        for customer in 0..of.customers {
            // The first customers have each name once.
            let name = match customer < of.names {
                true => customer,
                false => draws.name.draw(rng),
            };
            names[name as usize].push(customer);
        }
        let mut starts = vec![0];
        for customers in &names {
            starts.push(starts[starts.len() - 1] + customers.len() as u32);
        }
        // Each customer has ordered once, in random order.
        let shuffle = Shuffle::new(of.customers.into(), rng);
        let mut orders = Vec::new();
        let mut first_line = 0;
        for order in 0..of.customers {
            let customer = shuffle.at(order.into()) as u32;
            let lines = lines(rng);
            orders.push(Order {
                customer,
                first_line,
                lines,
            });
            first_line += lines;
        }
        let last = orders.iter().rev().take(RECENT).rev();
        let items = |order: &Order| {
            let item = |_| rng.below(of.items.into()) as u32;
            (0..order.lines).map(item).collect()
        };
        let recent = last.map(items).collect();
        Self {
            by_name: names.concat(),
            names: starts,
            orders,
            committed: of.customers,
            delivered: of.customers - of.open,
            recent,
        }
    }

    /// Index of the first customer called `name` in name order, and their number.
    pub(super) fn named(&self, name: u32) -> (u32, u32) {
        let (first, end) = (self.names[name as usize], self.names[name as usize + 1]);
        (first, end - first)
    }

    /// Customers called `name`.
    pub(super) fn customers(&self, name: u32) -> &[u32] {
        let (first, count) = self.named(name);
        &self.by_name[first as usize..(first + count) as usize]
    }

    /// Commits the last order, which has these items.
    pub(super) fn commit(&mut self, items: Vec<u32>) {
        self.committed += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(items);
    }

    /// Number of the first of the last orders, and their distinct items, sorted.
    pub(super) fn stock_level(&self) -> (u32, Vec<u32>) {
        let mut items: Vec<u32> = self.recent.iter().flatten().copied().collect();
        items.sort_unstable();
        items.dedup();
        (self.committed - self.recent.len() as u32, items)
    }
}

/// Districts, and the draws of a run.
#[derive(Clone, Debug)]
pub(super) struct Population {
    pub(super) of: Cardinality,
    pub(super) draws: Draws,
    pub(super) districts: Vec<District>,
}

impl Population {
    pub(super) fn new(of: Cardinality, seed: Seed) -> Self {
        let mut rng = seed.stream("tpcc tables");
        let mut draws = Draws::new(&of, &mut rng);
        let district = |_| District::new(&of, &draws, &mut rng);
        let districts = (0..of.districts()).map(district).collect();
        draws.run(&mut rng);
        Self {
            of,
            draws,
            districts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_populated_as_the_specification_says() {
        let of = Cardinality::new(1, 100);
        assert_eq!((of.items, of.customers, of.names), (100_000, 3_000, 1_000));
        let population = Population::new(of, Seed(1));
        assert_eq!(population.districts.len(), 10);
        for district in &population.districts {
            let mut customers: Vec<u32> = (0..1_000)
                .flat_map(|name| district.customers(name).to_vec())
                .collect();
            customers.sort_unstable();
            assert!(customers.into_iter().eq(0..3_000));
            assert!((0..1_000).all(|name| district.named(name).1 > 0));
            let mut owners: Vec<u32> = district.orders.iter().map(|o| o.customer).collect();
            assert_ne!(owners, (0..3_000).collect::<Vec<u32>>());
            owners.sort_unstable();
            assert!(owners.into_iter().eq(0..3_000));
            assert_eq!((district.committed, district.delivered), (3_000, 2_100));
            let lines: u32 = district.orders.iter().map(|o| o.lines).sum();
            assert!(lines.abs_diff(30_000) < 900, "{lines}");
            let (first, items) = district.stock_level();
            assert_eq!(first, 2_980);
            assert!(items.len() > 100 && items.is_sorted());
        }
    }

    #[test]
    fn uneven_draw_is_skewed_and_reaches_every_number() {
        let mut rng = Seed(1).stream("test");
        let uneven = Uneven::new(255, 0, 1_000, 1_000, &mut rng);
        let mut seen = vec![0_u32; 1_000];
        (0..1_000_000).for_each(|_| seen[uneven.draw(&mut rng) as usize] += 1);
        assert!(seen.iter().all(|n| *n > 0));
        // (random(0, 255) | random(0, 999)) is 255 more often than 0, 256 : 1.
        let (most, least) = (seen.iter().max().unwrap(), seen.iter().min().unwrap());
        assert!(most > &(least * 30), "{most} {least}");
        let few = Uneven::new(255, 0, 10, 1_000, &mut rng);
        assert_eq!(few.a, 3);
        assert!((0..1_000).all(|_| few.draw(&mut rng) < 10));
    }
}
