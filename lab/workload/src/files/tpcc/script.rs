//! The five transactions: the rows that their statements read and change.
//!
//! Invariant: locks are taken in the order of [`Lock`].

//= tpcc 2.4
//= tpcc 2.5
//= tpcc 2.6
//= tpcc 2.7
//= tpcc 2.8
use super::lock::Lock;
use super::population::{Population, lines};
use super::schema::DISTRICTS;
use sim::Rng;

/// Kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// Draws a kind, by the shares of the specification.
    //= tpcc 5.2
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..45 => Self::NewOrder,
            45..88 => Self::Payment,
            88..92 => Self::OrderStatus,
            92..96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }
}

/// Rows that a statement looks up. Districts are numbered across all warehouses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Warehouse(u32),
    District(u32),
    /// District and customer.
    Customer(u32, u32),
    /// Entries of the index of customers by name: district and name.
    Name(u32, u32),
    Item(u32),
    /// Warehouse and item.
    Stock(u32, u32),
    /// District and order: the order, all its lines, its entry in the index by customer, and its
    /// entry among the undelivered ones.
    Order(u32, u32),
    Lines(u32, u32),
    OrderOf(u32, u32),
    NewOrder(u32, u32),
}

/// Next action of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Lock(Lock),
    Read(Row),
    /// Changes this many bytes of each row.
    Update(Row, u64),
    /// Inserts an order (district, customer, number of lines), then its entry among the undelivered
    /// ones.
    InsertOrder(u32, u32, u32),
    InsertOpen(u32),
    /// Inserts the next line of the last order of a district.
    InsertLine(u32),
    InsertHistory,
    /// Removes an order (district, number) from the undelivered ones.
    Remove(u32, u32),
    /// Steps that depend on the state when they run: read the last order of a customer, deliver an
    /// order of a district, read the stock of the items ordered last in a district.
    LastOrder(u32, u32),
    Deliver(u32),
    Recent(u32),
    /// Commits the last order of a district with these items.
    Ordered(u32, Vec<u32>),
    /// Rolls back the new order of this district.
    RollBack(u32),
    /// Writes the end of the transaction to the log; waits for the log; waits for the binary log;
    /// releases the locks.
    End,
    Harden,
    Log,
    Release,
}

/// Bytes that updates change, from the types of the columns.
//= tpcc 1.3
const WAREHOUSE_YTD: u64 = 6;
const DISTRICT_NEXT: u64 = 4;
const DISTRICT_YTD: u64 = 6;
const STOCK: u64 = 2 + 4 + 2 + 2;
const BALANCE: u64 = 6 + 6 + 2;
const CARRIER: u64 = 1;
const DELIVERED: u64 = 8;
const BALANCE_DELIVERED: u64 = 6 + 2;
/// Bytes of notes about a customer with bad credit, which one in ten has.
//= tpcc 2.5
const CUSTOMER_DATA: u64 = 500;

/// Terminal that requests transactions: its random numbers, and the tables' population.
pub(super) struct Terminal<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) population: &'a Population,
    pub(super) binlog: bool,
}

impl Terminal<'_> {
    /// Steps of a transaction of this kind, with random inputs.
    pub(super) fn script(&mut self, kind: Kind) -> Vec<Step> {
        let warehouse = self.below(self.population.of.warehouses);
        let district = warehouse * DISTRICTS + self.below(DISTRICTS);
        let mut steps = Vec::new();
        match kind {
            Kind::NewOrder => self.new_order(warehouse, district, &mut steps),
            Kind::Payment => self.payment(warehouse, district, &mut steps),
            Kind::OrderStatus => self.order_status(district, &mut steps),
            Kind::Delivery => {
                let first = warehouse * DISTRICTS;
                for district in first..first + DISTRICTS {
                    steps.push(Step::Lock(Lock::Delivery(district)));
                    steps.push(Step::Deliver(district));
                }
            }
            Kind::StockLevel => {
                steps.push(Step::Read(Row::District(district)));
                steps.push(Step::Recent(district));
            }
        }
        steps.push(Step::End);
        // Without a binary log, locks are released before the log is durable.
        //= innodb 4
        steps.extend(match self.binlog {
            true => [Step::Harden, Step::Log, Step::Release].to_vec(),
            false => [Step::Release, Step::Harden].to_vec(),
        });
        steps
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.rng.below(bound.into()) as u32
    }

    /// A different warehouse, if there is one.
    fn other(&mut self, warehouse: u32) -> u32 {
        match self.population.of.warehouses {
            1 => warehouse,
            all => (warehouse + 1 + self.below(all - 1)) % all,
        }
    }

    fn new_order(&mut self, warehouse: u32, district: u32, steps: &mut Vec<Step>) {
        let customer = self.population.draws.customer.draw(self.rng);
        let count = lines(self.rng);
        let fails = self.rng.chance(1, 100);
        let wrong = if fails { count - 1 } else { count };
        let ordered = (0..wrong).map(|_| {
            let item = self.population.draws.item.draw(self.rng);
            let remote = self.rng.chance(1, 100);
            let supply = if remote {
                self.other(warehouse)
            } else {
                warehouse
            };
            (supply, item)
        });
        // Sorted by row, so that transactions cannot deadlock.
        //= tpcc-mysql 2
        let mut ordered: Vec<(u32, u32)> = ordered.collect();
        ordered.sort_unstable();
        steps.extend([
            Step::Read(Row::Customer(district, customer)),
            Step::Read(Row::Warehouse(warehouse)),
            Step::Lock(Lock::District(district)),
            Step::Read(Row::District(district)),
            Step::Update(Row::District(district), DISTRICT_NEXT),
            Step::InsertOrder(district, customer, count),
            Step::InsertOpen(district),
        ]);
        for &(supply, item) in &ordered {
            steps.extend([
                Step::Read(Row::Item(item)),
                Step::Lock(Lock::Stock(supply, item)),
                Step::Read(Row::Stock(supply, item)),
                Step::Update(Row::Stock(supply, item), STOCK),
                Step::InsertLine(district),
            ]);
        }
        if fails {
            // The item does not exist: its lookup ends behind the last item.
            steps.push(Step::Read(Row::Item(self.population.of.items - 1)));
            steps.push(Step::RollBack(district));
        } else {
            let items = ordered.into_iter().map(|(_, item)| item).collect();
            steps.push(Step::Ordered(district, items));
        }
    }

    /// Draws a customer, three times in five by name. Adds the reads of that lookup; with `all`,
    /// also those of every customer of the name.
    //= tpcc 2.5
    fn customer(&mut self, district: u32, all: bool, steps: &mut Vec<Step>) -> u32 {
        if !self.rng.chance(60, 100) {
            return self.population.draws.customer.draw(self.rng);
        }
        let name = self.population.draws.name.draw(self.rng);
        // Customers of the name are counted, then read.
        let named = Step::Read(Row::Name(district, name));
        steps.extend([named.clone(), named]);
        let customers = self.population.districts[district as usize].customers(name);
        if all {
            let rows = customers.iter().map(|&c| Row::Customer(district, c));
            steps.extend(rows.map(Step::Read));
        }
        customers[customers.len().div_ceil(2) - 1]
    }

    fn payment(&mut self, warehouse: u32, district: u32, steps: &mut Vec<Step>) {
        let home = match self.rng.chance(85, 100) {
            true => district,
            false => self.other(warehouse) * DISTRICTS + self.below(DISTRICTS),
        };
        steps.extend([
            Step::Lock(Lock::Warehouse(warehouse)),
            Step::Update(Row::Warehouse(warehouse), WAREHOUSE_YTD),
            Step::Read(Row::Warehouse(warehouse)),
            Step::Lock(Lock::District(district)),
            Step::Update(Row::District(district), DISTRICT_YTD),
            Step::Read(Row::District(district)),
        ]);
        // The lookup by name reads the index only.
        //= tpcc-mysql 2
        let customer = self.customer(home, false, steps);
        let row = Row::Customer(home, customer);
        steps.push(Step::Lock(Lock::Customer(home, customer)));
        steps.push(Step::Read(row));
        let bad = self.rng.chance(1, 10);
        if bad {
            steps.push(Step::Read(row));
        }
        let bytes = BALANCE + if bad { CUSTOMER_DATA } else { 0 };
        steps.push(Step::Update(row, bytes));
        steps.push(Step::InsertHistory);
    }

    fn order_status(&mut self, district: u32, steps: &mut Vec<Step>) {
        let before = steps.len();
        let customer = self.customer(district, true, steps);
        if steps.len() == before {
            steps.push(Step::Read(Row::Customer(district, customer)));
        }
        steps.push(Step::LastOrder(district, customer));
    }
}

/// Steps of a delivery in a district; none if no committed order is undelivered.
pub(super) fn deliver(population: &Population, district: u32) -> Vec<Step> {
    let of = &population.districts[district as usize];
    if of.delivered == of.committed {
        return Vec::new();
    }
    let order = of.delivered;
    let customer = of.orders[order as usize].customer;
    vec![
        Step::Read(Row::NewOrder(district, order)),
        Step::Remove(district, order),
        Step::Read(Row::Order(district, order)),
        Step::Update(Row::Order(district, order), CARRIER),
        Step::Update(Row::Lines(district, order), DELIVERED),
        Step::Read(Row::Lines(district, order)),
        Step::Lock(Lock::Customer(district, customer)),
        Step::Update(Row::Customer(district, customer), BALANCE_DELIVERED),
    ]
}

/// Reads of the last orders of a district: their lines, and the stock of each item.
pub(super) fn recent(population: &Population, district: u32) -> Vec<Step> {
    let of = &population.districts[district as usize];
    let (first, items) = of.stock_level();
    let lines = (first..of.committed).map(|order| Row::Lines(district, order));
    let stock = items
        .iter()
        .map(|&item| Row::Stock(district / DISTRICTS, item));
    lines.chain(stock).map(Step::Read).collect()
}

/// Reads of a customer's last order, which is number `order`.
pub(super) fn last_order(district: u32, order: u32) -> Vec<Step> {
    vec![
        Step::Read(Row::OrderOf(district, order)),
        Step::Read(Row::Order(district, order)),
        Step::Read(Row::Lines(district, order)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::schema::Cardinality;
    use super::*;
    use sim::Seed;

    /// A thousand scripts of `kind`.
    fn scripts(kind: Kind, population: &Population) -> Vec<Vec<Step>> {
        let mut rng = Seed(3).stream("scripts");
        let mut terminal = Terminal {
            rng: &mut rng,
            population,
            binlog: false,
        };
        (0..1_000).map(|_| terminal.script(kind)).collect()
    }

    fn number(steps: &[Step], matches: impl Fn(&Step) -> bool) -> usize {
        steps.iter().filter(|step| matches(step)).count()
    }

    //= tpcc 2.4
    #[test]
    fn new_order_follows_the_specification() {
        let population = Population::new(Cardinality::new(4, 10), Seed(1));
        let (mut undone, mut lines, mut remote) = (0, 0, 0);
        for steps in scripts(Kind::NewOrder, &population) {
            let stock = number(&steps, |s| matches!(s, Step::Update(Row::Stock(..), _)));
            let items = number(&steps, |s| matches!(s, Step::Read(Row::Item(_))));
            let inserted = number(&steps, |s| matches!(s, Step::InsertLine(_)));
            let Some(&Step::InsertOrder(district, _, count)) =
                steps.iter().find(|s| matches!(s, Step::InsertOrder(..)))
            else {
                panic!("{steps:?}");
            };
            let fails = number(&steps, |s| matches!(s, Step::RollBack(_)));
            undone += fails;
            lines += count;
            assert!((5..=15).contains(&count));
            assert_eq!(
                (items, stock, inserted),
                (count as usize, count as usize - fails, stock)
            );
            assert_eq!(
                number(&steps, |s| matches!(s, Step::Ordered(..))),
                1 - fails
            );
            for wanted in [
                Step::Read(Row::Warehouse(district / DISTRICTS)),
                Step::Read(Row::District(district)),
                Step::Lock(Lock::District(district)),
                Step::InsertOpen(district),
            ] {
                assert_eq!(number(&steps, |step| *step == wanted), 1, "{wanted:?}");
            }
            let updates = number(&steps, |s| matches!(s, Step::Update(..)));
            assert_eq!(updates, stock + 1);
            let supplied = |s: &Step| match s {
                Step::Update(Row::Stock(warehouse, _), _) => *warehouse != district / DISTRICTS,
                _ => false,
            };
            remote += number(&steps, supplied);
        }
        assert!((1..30).contains(&undone), "1 % of 1,000: {undone}");
        assert!(lines.abs_diff(10_000) < 500, "{lines}");
        assert!((50..150).contains(&remote), "1 % of 10,000: {remote}");
    }

    //= tpcc 2.5
    //= tpcc 2.6
    #[test]
    fn payment_and_order_status_concern_one_customer() {
        let population = Population::new(Cardinality::new(4, 10), Seed(1));
        let (mut named, mut remote, mut asked) = (0, 0, 0);
        for steps in scripts(Kind::Payment, &population) {
            let mut updates = steps.iter().filter_map(|step| match step {
                Step::Update(row, _) => Some(*row),
                _ => None,
            });
            let rows = [
                updates.next(),
                updates.next(),
                updates.next(),
                updates.next(),
            ];
            let [
                Some(Row::Warehouse(w)),
                Some(Row::District(d)),
                Some(Row::Customer(home, _)),
                None,
            ] = rows
            else {
                panic!("{rows:?}");
            };
            assert_eq!(d / DISTRICTS, w);
            assert_eq!(number(&steps, |s| *s == Step::InsertHistory), 1);
            named += usize::from(number(&steps, |s| matches!(s, Step::Read(Row::Name(..)))) > 0);
            remote += usize::from(home / DISTRICTS != w);
            assert!(
                home == d || home / DISTRICTS != w,
                "another district, another warehouse"
            );
        }
        // 60 % and 15 % of 1,000, within five standard errors.
        assert!(
            named.abs_diff(600) < 78 && remote.abs_diff(150) < 57,
            "{named} {remote}"
        );
        for steps in scripts(Kind::OrderStatus, &population) {
            assert_eq!(number(&steps, |s| matches!(s, Step::LastOrder(..))), 1);
            assert_eq!(
                number(&steps, |s| matches!(s, Step::Update(..) | Step::Lock(_))),
                0
            );
            asked += usize::from(number(&steps, |s| matches!(s, Step::Read(Row::Name(..)))) > 0);
        }
        assert!(asked.abs_diff(600) < 78, "{asked}");
    }

    //= tpcc 2.7
    //= tpcc 2.8
    #[test]
    fn delivery_takes_the_oldest_order_and_stock_level_reads_the_last_twenty() {
        let mut population = Population::new(Cardinality::new(1, 10), Seed(1));
        for steps in scripts(Kind::Delivery, &population) {
            let of = |step: &Step| matches!(step, Step::Deliver(_));
            assert_eq!(number(&steps, of), 10);
        }
        let first = population.districts[3].delivered;
        let steps = deliver(&population, 3);
        let customer = population.districts[3].orders[first as usize].customer;
        let changed: Vec<Row> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Update(row, _) => Some(*row),
                Step::Remove(district, order) => Some(Row::NewOrder(*district, *order)),
                _ => None,
            })
            .collect();
        let rows = [
            Row::NewOrder(3, first),
            Row::Order(3, first),
            Row::Lines(3, first),
            Row::Customer(3, customer),
        ];
        assert_eq!(changed, rows);
        population.districts[3].delivered = population.districts[3].committed;
        assert!(deliver(&population, 3).is_empty(), "nothing is left there");
        population.districts[3].commit(vec![7, 7, 8]);
        let steps = recent(&population, 3);
        assert_eq!(
            number(&steps, |s| matches!(s, Step::Read(Row::Lines(3, _)))),
            20
        );
        for item in [7, 8] {
            let read = Step::Read(Row::Stock(0, item));
            assert_eq!(number(&steps, |step| *step == read), 1);
        }
        assert!(!steps.contains(&Step::Read(Row::Lines(
            3,
            population.districts[3].committed
        ))));
    }
}
