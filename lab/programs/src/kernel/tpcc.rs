//! TPC-C transactions over tables in memory.
//!
//! Data structures: warehouses, districts, customers, items and stock are behind hash indexes. Each
//! district has arrays of orders, order lines, undelivered orders and history, to which entries are
//! appended, a search tree over the orders, and a list of customers by last name. Row sizes and
//! cardinalities follow the specification. The number of warehouses, at least [`WAREHOUSES`], is
//! chosen to fill the footprint; the numbers of items and customers are reduced where the footprint
//! is too small for that.
//!
//! Differences from the specification: a district belongs to one thread, and its transactions run
//! one after another (as in partitioned stores). A Delivery takes up to ten orders of its own
//! district instead of one of each district of the warehouse. The operations of a thread thus do
//! not depend on other threads. There is no concurrency control and no log.
//!
//! The mix is 45 % New-Order, 43 % Payment, and 4 % each of Order-Status, Delivery and Stock-Level.
//! Transactions are assigned to the districts in turn, and districts to the threads, so the same
//! transactions run for any number of threads. The first quarter of them is warm-up.
//!
//! Instructions besides loads and stores: those of the indexes and the tree, 30 for the input of
//! each transaction, and 10 for arithmetic and dispatch of each order line.

use super::table::{Table, Tree};
use crate::mem::{Array, Mem, Space};
use crate::threads::Threads;
use sim::{Rng, Seed};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

//= tpcc 1.2
/// Smallest number of warehouses.
pub const WAREHOUSES: u64 = 8;
const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;
/// Average number of customers of a district that share a last name.
const NAMESAKES: u64 = 3;
/// Bytes of the rows of each table, without the header of the hash index.
const WAREHOUSE_ROW: u64 = 89;
const DISTRICT_ROW: u64 = 95;
const CUSTOMER_ROW: u64 = 655;
const HISTORY_ROW: u64 = 46;
const ORDER_ROW: u64 = 24;
const LINE_ROW: u64 = 54;
const ITEM_ROW: u64 = 82;
const STOCK_ROW: u64 = 306;
const NEW_ORDER_ROW: u64 = 8;
/// Largest number of lines in an order.
const LINES: u64 = 15;

/// Cardinalities of the TPC-C tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of warehouses, each with ten districts.
    pub warehouses: u64,
    /// Number of items. Each warehouse has a stock of every item.
    pub items: u64,
    /// Customers in a district, which is also its initial number of orders.
    pub customers: u64,
}

impl Size {
    /// Table sizes that fill `footprint` bytes.
    #[must_use]
    pub fn of(footprint: u64) -> Self {
        let whole = Self::bytes_of_warehouse(ITEMS, CUSTOMERS);
        let items = ITEMS * Table::bytes(ITEM_ROW);
        let warehouses = (footprint.saturating_sub(items) / whole).max(WAREHOUSES);
        let most = warehouses * whole + items;
        let scaled = |whole: u64, least: u64| {
            let share = u128::from(whole) * u128::from(footprint) / u128::from(most);
            (share as u64).clamp(least, whole)
        };
        Self {
            warehouses,
            items: scaled(ITEMS, 100),
            customers: scaled(CUSTOMERS, 30),
        }
    }

    const fn bytes_of_warehouse(items: u64, customers: u64) -> u64 {
        let order = ORDER_ROW + LINE_ROW * LINES + NEW_ORDER_ROW + Tree::BYTES;
        // Initial orders and payments, and room for one more of each per customer.
        let customer = Table::bytes(CUSTOMER_ROW) + 8 + 2 * (HISTORY_ROW + order);
        items * Table::bytes(STOCK_ROW) + DISTRICTS * customers * customer
    }
}

/// State of the TPC-C workload, shared by its threads.
pub struct Tpcc {
    size: Size,
    transactions: u64,
    tables: Tables,
    districts: Vec<RefCell<District>>,
    end: u64,
    seed: Seed,
    /// Payments counted by each warehouse, which the consistency conditions check.
    warehouse_ytd: Vec<Cell<u64>>,
    stock: Vec<Cell<Stock>>,
    /// Balance of each customer: amounts delivered minus amounts paid.
    balance: Vec<Cell<i64>>,
}

struct Tables {
    warehouse: Table,
    district: Table,
    customer: Table,
    item: Table,
    stock: Table,
}

#[derive(Clone, Copy, Default)]
struct Stock {
    quantity: u16,
    sold: u32,
}

/// Data structures of one district.
struct District {
    number: u64,
    orders: Array,
    lines: Array,
    new_orders: Array,
    history: Array,
    names: Array,
    tree: Tree,
    /// The first order that has not been delivered.
    undelivered: u64,
    /// Number of payments so far, including the initial ones.
    payments: u64,
    ytd: u64,
    /// Last order of each customer.
    last_order: Vec<u32>,
    /// Number of items ordered since the start.
    ordered: u64,
    /// Total amounts of the delivered orders and of the payments.
    delivered: u64,
    paid: u64,
    /// Number of transactions executed.
    done: u64,
}

/// Sums that must be consistent after a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Total of the payments, counted by the warehouses.
    pub warehouse_ytd: u64,
    /// Total of the payments, counted by the districts.
    pub district_ytd: u64,
    /// Items sold, counted by the stock rows.
    pub sold: u64,
    /// Items ordered, counted by the districts.
    pub ordered: u64,
    /// Total of the customers' balances.
    pub balance: i64,
    /// Amounts delivered minus amounts paid.
    pub owed: i64,
    /// Number of transactions executed.
    pub done: u64,
}

impl Tpcc {
    /// Tables of the given size, and `transactions` transactions.
    #[must_use]
    pub fn new(size: Size, transactions: u64, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let districts = size.warehouses * DISTRICTS;
        let customers = districts * size.customers;
        let stock = size.warehouses * size.items;
        let mut table = |rows, columns| Table::new(&mut space, rows, columns);
        let tables = Tables {
            warehouse: table(size.warehouses, WAREHOUSE_ROW),
            district: table(districts, DISTRICT_ROW),
            customer: table(customers, CUSTOMER_ROW),
            item: table(size.items, ITEM_ROW),
            stock: table(stock, STOCK_ROW),
        };
        let each = transactions.div_ceil(districts);
        let district = |number| RefCell::new(District::new(&mut space, number, size, each));
        let first = Stock {
            quantity: 91,
            sold: 0,
        };
        Rc::new(Self {
            size,
            transactions,
            tables,
            districts: (0..districts).map(district).collect(),
            end: space.end(),
            seed,
            warehouse_ytd: vec![Cell::new(0); size.warehouses as usize],
            stock: vec![Cell::new(first); stock as usize],
            balance: vec![Cell::new(0); customers as usize],
        })
    }

    /// The program that runs with `threads` threads. Threads beyond the number of districts do
    /// nothing.
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, threads, mem)
        })
    }

    /// Sums compared by the consistency conditions.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums {
            warehouse_ytd: self.warehouse_ytd.iter().map(Cell::get).sum(),
            sold: self.stock.iter().map(|s| u64::from(s.get().sold)).sum(),
            balance: self.balance.iter().map(Cell::get).sum(),
            ..Sums::default()
        };
        for district in &self.districts {
            let district = district.borrow();
            sums.district_ytd += district.ytd;
            sums.ordered += district.ordered;
            sums.owed += district.delivered as i64 - district.paid as i64;
            sums.done += district.done;
        }
        sums
    }

    fn customer(&self, district: u64, customer: u64) -> u64 {
        district * self.size.customers + customer
    }
}

impl District {
    fn new(space: &mut Space, number: u64, size: Size, transactions: u64) -> Self {
        // Each transaction appends at most one order or one payment.
        let orders = size.customers + transactions;
        let mut tree = Tree::new(space, orders);
        tree.preload(size.customers);
        Self {
            number,
            orders: Array::new(space, orders, ORDER_ROW),
            lines: Array::new(space, orders * LINES, LINE_ROW),
            new_orders: Array::new(space, orders, NEW_ORDER_ROW),
            history: Array::new(space, orders, HISTORY_ROW),
            names: Array::new(space, size.customers, 8),
            tree,
            undelivered: size.customers * 7 / 10,
            payments: size.customers,
            ytd: 0,
            last_order: (0..size.customers as u32).collect(),
            ordered: 0,
            delivered: 0,
            paid: 0,
            done: 0,
        }
    }
}

/// One line of an order.
struct Line {
    item: u64,
    supplier: u64,
    quantity: u16,
}

/// An order as drawn at random, fully determined by its district and number.
struct Order {
    customer: u64,
    lines: Vec<Line>,
}

//= tpcc 2.1
/// A non-uniform random number below `bound`. `a` is the power of two minus one that the
/// specification gives for the range.
fn uneven(rng: &mut Rng, a: u64, bound: u64) -> u64 {
    ((rng.below(a + 1) | rng.below(bound)) + a / 2) % bound
}

async fn run(tpcc: Rc<Tpcc>, thread: u32, threads: u32, mut mem: Mem) {
    let districts = tpcc.districts.len() as u64;
    for warm in [true, false] {
        if !warm {
            mem.begin().await;
        }
        // Each round covers all districts. A thread runs the turns of its own districts.
        let quarter = tpcc.transactions / 4;
        let range = if warm {
            0..quarter
        } else {
            quarter..tpcc.transactions
        };
        let first = range.start / districts * districts;
        for base in (first..range.end).step_by(districts as usize) {
            for own in (u64::from(thread)..districts).step_by(threads as usize) {
                if range.contains(&(base + own)) {
                    tpcc.transaction(own, base + own, &mut mem);
                    mem.breathe().await;
                }
            }
        }
    }
    mem.end();
}

impl Tpcc {
    /// Executes transaction `number`, which belongs to `district`.
    fn transaction(&self, district: u64, number: u64, mem: &mut Mem) {
        let mut rng = self.seed.child(number).stream("transaction");
        let district = &mut *self.districts[district as usize].borrow_mut();
        district.done += 1;
        mem.compute(30);
        //= tpcc 5.2
        match rng.below(100) {
            0..45 => self.new_order(district, mem),
            45..88 => self.payment(district, &mut rng, mem),
            88..92 => self.order_status(district, &mut rng, mem),
            92..96 => self.delivery(district, mem),
            _ => self.stock_level(district, mem),
        }
    }

    /// The contents of order number `order` of a district.
    fn order(&self, district: u64, order: u64) -> Order {
        let mut rng = self.seed.child(district << 32 | order).stream("order");
        let home = district / DISTRICTS;
        let count = 5 + rng.below(LINES - 4);
        let customer = match order < self.size.customers {
            true => order,
            false => uneven(&mut rng, 1023, self.size.customers),
        };
        let lines = (0..count).map(|_| {
            let remote = rng.chance(1, 100);
            Line {
                item: uneven(&mut rng, 8191, self.size.items),
                supplier: if remote {
                    rng.below(self.size.warehouses)
                } else {
                    home
                },
                quantity: 1 + rng.below(10) as u16,
            }
        });
        Order {
            customer,
            lines: lines.collect(),
        }
    }

    /// Total price of the lines of an order, in cents.
    fn amount(order: &Order) -> u64 {
        let price = |line: &Line| 100 + line.item * 7919 % 9901;
        order
            .lines
            .iter()
            .map(|l| u64::from(l.quantity) * price(l))
            .sum()
    }

    fn new_order(&self, district: &mut District, mem: &mut Mem) {
        let number = district.tree.keys();
        let order = self.order(district.number, number);
        let (row, found) = self.tables.warehouse.find(mem, district.number / DISTRICTS);
        mem.load_after(row, 8, found);
        let (row, found) = self.tables.district.find(mem, district.number);
        let next = mem.load_after(row, 16, found);
        mem.store_after(row, 8, found);
        let customer = self.customer(district.number, order.customer);
        let (row, found) = self.tables.customer.find(mem, customer);
        mem.load_after(row, 32, found);
        mem.store_span(district.orders.at(number), ORDER_ROW, Some(next));
        mem.store_after(district.new_orders.at(number), 8, next);
        district.tree.append(mem);
        for (nth, line) in (0..).zip(&order.lines) {
            let (row, found) = self.tables.item.find(mem, line.item);
            mem.load_span(row, ITEM_ROW, Some(found));
            let key = line.supplier * self.size.items + line.item;
            let (row, found) = self.tables.stock.find(mem, key);
            mem.load_after(row, 16, found);
            // The 24 bytes of the stock row that belong to the district are copied to the order
            // line.
            let info = 40 + district.number % DISTRICTS * 24;
            mem.load_after(row + info, 24, found);
            mem.store_after(row, 16, found);
            mem.compute(10);
            let at = district.lines.at(number * LINES + nth);
            mem.store_span(at, LINE_ROW, Some(next));
            self.sell(key, line.quantity);
            district.ordered += u64::from(line.quantity);
        }
        district.last_order[order.customer as usize] = number as u32;
    }

    //= tpcc 2.4
    fn sell(&self, key: u64, quantity: u16) {
        let cell = &self.stock[key as usize];
        let stock = cell.get();
        let left = match stock.quantity >= quantity + 10 {
            true => stock.quantity - quantity,
            false => stock.quantity + 91 - quantity,
        };
        cell.set(Stock {
            quantity: left,
            sold: stock.sold + u32::from(quantity),
        });
    }

    //= tpcc 2.5
    fn payment(&self, district: &mut District, rng: &mut Rng, mem: &mut Mem) {
        let amount = 100 + rng.below(500_000 - 100);
        let home = district.number / DISTRICTS;
        let (row, found) = self.tables.warehouse.find(mem, home);
        mem.load_span(row, WAREHOUSE_ROW, Some(found));
        mem.store_after(row + 16, 8, found);
        let ytd = &self.warehouse_ytd[home as usize];
        ytd.set(ytd.get() + amount);
        let (row, found) = self.tables.district.find(mem, district.number);
        mem.load_span(row, DISTRICT_ROW, Some(found));
        mem.store_after(row + 16, 8, found);
        district.ytd += amount;
        let whose = match rng.chance(15, 100) {
            true => rng.below(self.districts.len() as u64),
            false => district.number,
        };
        let customer = self.choose(district, whose, rng, mem);
        let (row, found) = self.tables.customer.find(mem, customer);
        mem.load_span(row, 128, Some(found));
        mem.store_span(row + 64, 24, Some(found));
        // A tenth of the customers have bad credit. For those the payment is also noted in a
        // 500-byte column.
        if customer.is_multiple_of(10) {
            mem.load_span(row + 155, 500, Some(found));
            mem.store_span(row + 155, 500, Some(found));
        }
        let balance = &self.balance[customer as usize];
        balance.set(balance.get() - amount as i64);
        district.paid += amount;
        mem.store_span(district.history.at(district.payments), HISTORY_ROW, None);
        district.payments += 1;
    }

    /// A customer of district `whose`. Six of ten are chosen by last name.
    fn choose(&self, own: &District, whose: u64, rng: &mut Rng, mem: &mut Mem) -> u64 {
        let mut customer = uneven(rng, 1023, self.size.customers);
        if rng.chance(60, 100) {
            let first = customer - customer % NAMESAKES;
            let last = (first + NAMESAKES).min(self.size.customers);
            // All customers of that name are read, and the middle one is chosen.
            let names = match whose == own.number {
                true => own.names,
                false => self.names_of(whose),
            };
            mem.compute(8);
            for namesake in first..last {
                mem.load(names.at(namesake), 8);
            }
            customer = first.midpoint(last);
        }
        self.customer(whose, customer)
    }

    /// The list of names of a district that is not currently borrowed.
    fn names_of(&self, district: u64) -> Array {
        self.districts[district as usize].borrow().names
    }

    //= tpcc 2.6
    fn order_status(&self, district: &mut District, rng: &mut Rng, mem: &mut Mem) {
        let customer = self.choose(district, district.number, rng, mem);
        let (row, found) = self.tables.customer.find(mem, customer);
        mem.load_span(row, 128, Some(found));
        let own = customer % self.size.customers;
        let last = u64::from(district.last_order[own as usize]);
        self.read_order(district, last, mem);
    }

    /// Reads an order and its lines.
    fn read_order(&self, district: &District, number: u64, mem: &mut Mem) -> Order {
        let found = district.tree.find(mem, number);
        mem.load_after(district.orders.at(number), ORDER_ROW as u8, found);
        let order = self.order(district.number, number);
        for nth in 0..order.lines.len() as u64 {
            let at = district.lines.at(number * LINES + nth);
            mem.load_span(at, LINE_ROW, Some(found));
            mem.compute(10);
        }
        order
    }

    //= tpcc 2.7
    fn delivery(&self, district: &mut District, mem: &mut Mem) {
        for _ in 0..DISTRICTS {
            let number = district.undelivered;
            if number == district.tree.keys() {
                return;
            }
            mem.load(district.new_orders.at(number), 8);
            mem.store(district.new_orders.at(number), 8);
            district.undelivered += 1;
            let order = self.read_order(district, number, mem);
            mem.store(district.orders.at(number) + 16, 4);
            for nth in 0..order.lines.len() as u64 {
                mem.store(district.lines.at(number * LINES + nth) + 16, 8);
            }
            let amount = Self::amount(&order);
            let customer = self.customer(district.number, order.customer);
            let (row, found) = self.tables.customer.find(mem, customer);
            mem.load_after(row + 64, 8, found);
            mem.store_after(row + 64, 8, found);
            let balance = &self.balance[customer as usize];
            balance.set(balance.get() + amount as i64);
            district.delivered += amount;
        }
    }

    //= tpcc 2.8
    fn stock_level(&self, district: &mut District, mem: &mut Mem) {
        let (row, found) = self.tables.district.find(mem, district.number);
        mem.load_after(row, 8, found);
        let next = district.tree.keys();
        let home = district.number / DISTRICTS;
        for number in next.saturating_sub(20)..next {
            let order = self.read_order(district, number, mem);
            for line in &order.lines {
                let key = home * self.size.items + line.item;
                let (row, found) = self.tables.stock.find(mem, key);
                mem.load_after(row, 2, found);
            }
        }
    }
}
