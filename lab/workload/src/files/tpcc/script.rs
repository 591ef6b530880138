//! The five transactions: which rows their statements read and change.
//!
//! Invariant: locks are asked for in the order of [`Lock`].

//= tpcc 2.4
//= tpcc 2.5
//= tpcc 2.6
//= tpcc 2.7
//= tpcc 2.8
use super::lock::Lock;
use super::population::{Population, lines};
use super::schema::DISTRICTS;
use sim::Rng;

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// One of them, by the shares of the specification.
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

/// Rows that a statement looks for. Districts have numbers of their own over all
/// warehouses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Warehouse(u32),
    District(u32),
    /// District and customer.
    Customer(u32, u32),
    /// The index of customers: district and name.
    Name(u32, u32),
    Item(u32),
    /// Warehouse and item.
    Stock(u32, u32),
    /// District and order; all lines of it; its entry in the index of its customer; it as
    /// one that is not delivered.
    Order(u32, u32),
    Lines(u32, u32),
    OrderOf(u32, u32),
    NewOrder(u32, u32),
}

/// What a transaction does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Lock(Lock),
    Read(Row),
    /// Changes so many bytes of each row.
    Update(Row, u64),
    /// Inserts an order of a customer of a district with so many lines; and lists it as
    /// one that is not delivered.
    InsertOrder(u32, u32, u32),
    InsertOpen(u32),
    /// Inserts the next line of the last order of a district.
    InsertLine(u32),
    InsertHistory,
    /// Removes the oldest order of a district that is not delivered.
    Remove(u32, u32),
    /// Does what is known once the lock is held: reads the last order of a customer,
    /// delivers an order of a district, looks at the stock of what was ordered last there.
    LastOrder(u32, u32),
    Deliver(u32),
    Recent(u32),
    /// The items of the order that is inserted are these; it is there to stay.
    Ordered(u32, Vec<u32>),
    /// Everything is undone; of an order of this district.
    RollBack(u32),
    /// Its log is written; then waits for it, and for the binary log; gives locks back.
    End,
    Harden,
    Log,
    Release,
}

/// Bytes of what updates change, from the types of the columns.
//= tpcc 1.3
const WAREHOUSE_YTD: u64 = 6;
const DISTRICT_NEXT: u64 = 4;
const DISTRICT_YTD: u64 = 6;
const STOCK: u64 = 2 + 4 + 2 + 2;
const BALANCE: u64 = 6 + 6 + 2;
const CARRIER: u64 = 1;
const DELIVERED: u64 = 8;
const BALANCE_DELIVERED: u64 = 6 + 2;
/// Bytes of notes about a customer with bad credit, of whom there is one in ten.
//= tpcc 2.5
const CUSTOMER_DATA: u64 = 500;

/// Who asks: draws, and what there is.
pub(super) struct Terminal<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) population: &'a Population,
    pub(super) binlog: bool,
}

impl Terminal<'_> {
    /// The steps of a transaction.
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
        // Without a binary log locks are given back before the log is durable.
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

    /// Another warehouse, if there is one.
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
        // In the order of their rows, so that nobody waits in a circle.
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
            // An item that there is not: it is looked for behind the last one.
            steps.push(Step::Read(Row::Item(self.population.of.items - 1)));
            steps.push(Step::RollBack(district));
        } else {
            let items = ordered.into_iter().map(|(_, item)| item).collect();
            steps.push(Step::Ordered(district, items));
        }
    }

    /// A customer, by name three times in five.
    //= tpcc 2.5
    fn customer(&mut self, district: u32, all: bool, steps: &mut Vec<Step>) -> u32 {
        if !self.rng.chance(60, 100) {
            return self.population.draws.customer.draw(self.rng);
        }
        let name = self.population.draws.name.draw(self.rng);
        // They are counted, then looked at.
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
        // What is asked for by name is in the index.
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

/// What a delivery does in a district, if an order is there to be delivered.
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

/// What is read of the last orders of a district: their lines, and the stock of each item.
pub(super) fn recent(population: &Population, district: u32) -> Vec<Step> {
    let of = &population.districts[district as usize];
    let (first, items) = of.stock_level();
    let lines = (first..of.committed).map(|order| Row::Lines(district, order));
    let stock = items
        .iter()
        .map(|&item| Row::Stock(district / DISTRICTS, item));
    lines.chain(stock).map(Step::Read).collect()
}

/// What is read of the last order of a customer, who has one of this number.
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

    /// Scripts of `kind`, a thousand of them.
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
    fn a_new_order_reads_and_changes_what_the_specification_says() {
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
    fn payments_and_questions_are_of_one_customer() {
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
    fn deliveries_take_the_oldest_order_and_stock_is_looked_at_for_the_last_twenty() {
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
