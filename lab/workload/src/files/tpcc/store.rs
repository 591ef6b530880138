//! Pages that a statement touches: pages read, pages changed, and the bytes of log of each change.
//!
//! Invariant: pages are only taken from files that have room for them; see [`Store::needs_room`].

use super::population::{Order, Population};
use super::schema::{
    Cardinality, NAMES_PER_LEAF, ORDER_ENTRY, ORDERS_FULL, ORDERS_PER_LEAF, PAGE, PageId, SYSTEM,
    Space, Table,
};
use super::script::{self, Row, Step};
use super::tree::{Edges, Layout, OrderKey, Ranked, Scattered};
use super::undo::{Undo, Which};
use sim::Seed;
use std::collections::BTreeSet;

/// Bytes of a log record besides the changed bytes: kind, page, position in the page. This and the
/// numbers below are our own choice, of the order of `InnoDB`'s.
const RECORD: u64 = 16;
/// Bytes of an undo record besides the old values: the row's key and position, the transaction.
const UNDO: u64 = 24;
/// Bytes of log about the end of a transaction, on each page that records it; about taking a page
/// into use; about a leaf, on the page above it.
const END: u64 = 60;
const TAKEN: u64 = 30;
const POINTER: u64 = RECORD + 14;
/// Bytes of the binary log for a transaction, and for a statement besides its rows.
//= mysql 16.4
const EVENTS: u64 = 200;
const EVENT: u64 = 80;
/// Upper bound on the pages that a step takes from a file.
const ROOM: u32 = 4;

/// Page that is read or, with a nonzero number of log bytes, changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) page: PageId,
    pub(super) redo: u64,
}

/// Effects of the transaction in progress of a connection.
#[derive(Clone, Debug, Default)]
struct Done {
    /// Leaves that it changed, in order.
    changed: Vec<PageId>,
    events: u64,
}

/// Files, trees and population of the database.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) population: Population,
    /// Files, indexed by number.
    pub(super) spaces: Vec<Space>,
    /// Pages in use that have never been written, so they need not be read.
    pub(super) fresh: BTreeSet<PageId>,
    undo: Undo,
    done: Vec<Done>,
    warehouse: Ranked,
    district: Ranked,
    customer: Ranked,
    names: Ranked,
    item: Ranked,
    stock: Ranked,
    history: Edges,
    open: Edges,
    orders: Edges,
    lines: Edges,
    orders_of: Scattered,
}

/// A tree alone in its table's file, and the pages used there.
fn ranked(table: Table, rows: u32) -> (Ranked, u32) {
    let mut layout = Layout::new(table.space());
    let tree = Ranked::new(&mut layout, rows, table.rows_per_leaf());
    (tree, layout.used())
}

/// A tree of rows that come and go at edges, and the layout of its file.
fn edges(table: Table, groups: &[(u32, u32)]) -> (Edges, Layout) {
    let mut layout = Layout::new(table.space());
    let tree = Edges::new(&mut layout, groups, table.rows_per_leaf());
    (tree, layout)
}

impl Store {
    pub(super) fn new(of: Cardinality, connections: u32, seed: Seed) -> Self {
        let population = Population::new(of, seed);
        let (districts, customers) = (of.districts(), of.districts() * of.customers);
        let (warehouse, warehouse_used) = ranked(Table::Warehouse, of.warehouses);
        let (district, district_used) = ranked(Table::District, districts);
        let mut layout = Layout::new(Table::Customer.space());
        let per_leaf = Table::Customer.rows_per_leaf();
        let customer = Ranked::new(&mut layout, customers, per_leaf);
        let names = Ranked::new(&mut layout, customers, NAMES_PER_LEAF);
        let customer_used = layout.used();
        let (item, item_used) = ranked(Table::Item, of.items);
        let (stock, stock_used) = ranked(Table::Stock, of.warehouses * of.items);
        let each = |range: (u32, u32)| vec![range; districts as usize];
        let (history, history_layout) = edges(Table::History, &[(0, customers)]);
        let unsent = (of.customers - of.open, of.customers);
        let (open, open_layout) = edges(Table::NewOrders, &each(unsent));
        let (orders, mut orders_layout) = edges(Table::Orders, &each((0, of.customers)));
        let keys = order_keys(&population);
        let (normal, full) = (ORDERS_PER_LEAF, ORDERS_FULL);
        let orders_of = Scattered::new(&mut orders_layout, &keys, districts, normal, full);
        let count = |order: &Order| (0, order.first_line + order.lines);
        let last = population.districts.iter().filter_map(|d| d.orders.last());
        let lines: Vec<(u32, u32)> = last.map(count).collect();
        let (lines, lines_layout) = edges(Table::OrderLine, &lines);
        let used = Table::ALL.map(|table| match table {
            Table::Warehouse => warehouse_used,
            Table::District => district_used,
            Table::Customer => customer_used,
            Table::History => history_layout.used(),
            Table::NewOrders => open_layout.used(),
            Table::Orders => orders_layout.used(),
            Table::OrderLine => lines_layout.used(),
            Table::Stock => stock_used,
            Table::Item => item_used,
        });
        let tables = used.into_iter().map(Space::of_table);
        Self {
            population,
            spaces: std::iter::once(Undo::space()).chain(tables).collect(),
            fresh: BTreeSet::new(),
            undo: Undo::new(connections),
            done: vec![Done::default(); connections as usize],
            warehouse,
            district,
            customer,
            names,
            item,
            stock,
            history,
            open,
            orders,
            lines,
            orders_of,
        }
    }

    /// File that must grow before `step` can be made.
    pub(super) fn needs_room(&self, step: &Step) -> Option<u8> {
        let table = match step {
            Step::Update(..) | Step::Remove(..) => None,
            Step::InsertOrder(..) => Some(Table::Orders),
            Step::InsertOpen(_) => Some(Table::NewOrders),
            Step::InsertLine(_) => Some(Table::OrderLine),
            Step::InsertHistory => Some(Table::History),
            _ => return None,
        };
        let spaces = [SYSTEM, table.map_or(SYSTEM, Table::space)];
        let full = |space: &u8| self.spaces[usize::from(*space)].room() < ROOM;
        spaces.into_iter().find(full)
    }

    /// Adds `pages` new pages to a file; returns the touch of its header page.
    pub(super) fn grown(&mut self, space: u8, pages: u32) -> Touch {
        let file = &mut self.spaces[usize::from(space)];
        file.pages += pages;
        file.grows = false;
        let page = PageId { space, no: 0 };
        Touch { page, redo: TAKEN }
    }

    /// Pages on the way to a row, or to all rows meant; the last one is a leaf.
    pub(super) fn way(&self, row: Row) -> Vec<PageId> {
        let of = &self.population.of;
        let order = |district: u32, order: u32| {
            self.population.districts[district as usize].orders[order as usize]
        };
        match row {
            Row::Warehouse(warehouse) => self.warehouse.way(warehouse),
            Row::District(district) => self.district.way(district),
            Row::Customer(district, customer) => {
                self.customer.way(district * of.customers + customer)
            }
            Row::Name(district, name) => {
                let named = self.population.districts[district as usize].named(name);
                let first = district * of.customers + named.0;
                self.names.range(first, named.1)
            }
            Row::Item(item) => self.item.way(item),
            Row::Stock(warehouse, item) => self.stock.way(warehouse * of.items + item),
            Row::Order(district, order) => self.orders.way(district, order),
            Row::Lines(district, number) => {
                let Order {
                    first_line, lines, ..
                } = order(district, number);
                self.lines.range(district, first_line, lines)
            }
            Row::OrderOf(district, number) => {
                let customer = order(district, number).customer;
                self.orders_of.way((district, customer, number))
            }
            Row::NewOrder(district, order) => self.open.way(district, order),
        }
    }

    /// Makes `step` of a connection. Returns the pages that it touches, in order, and steps that
    /// follow from the rows found.
    pub(super) fn step(&mut self, connection: usize, step: &Step) -> (Vec<Touch>, Vec<Step>) {
        let mut out = Vec::new();
        let mut then = Vec::new();
        match *step {
            Step::Read(row) => look(&self.way(row), &mut out),
            Step::Update(row, bytes) => self.update(connection, row, bytes, &mut out),
            Step::InsertOrder(district, customer, lines) => {
                self.insert_order(connection, (district, customer, lines), &mut out);
            }
            Step::InsertOpen(district) => {
                self.insert(connection, Table::NewOrders, district, &mut out);
            }
            Step::InsertLine(district) => {
                self.insert(connection, Table::OrderLine, district, &mut out);
            }
            Step::InsertHistory => self.insert(connection, Table::History, 0, &mut out),
            Step::Remove(district, order) => self.remove(connection, district, order, &mut out),
            Step::LastOrder(district, customer) => {
                let order = self.orders_of.last(district, customer);
                let steps = order.map(|order| script::last_order(district, order));
                then = steps.unwrap_or_default();
            }
            Step::Deliver(district) => then = script::deliver(&self.population, district),
            Step::Recent(district) => then = script::recent(&self.population, district),
            Step::Ordered(district, ref items) => {
                self.population.districts[district as usize].commit(items.clone());
            }
            Step::RollBack(district) => self.roll_back(connection, district, &mut out),
            Step::End => self.end(connection, &mut out),
            Step::Lock(_) | Step::Harden | Step::Log | Step::Release => {
                unreachable!("those that run transactions do these")
            }
        }
        (out, then)
    }

    /// Takes the bytes of the binary log for the transaction of `connection`; 0 if it changed
    /// nothing.
    pub(super) fn take_events(&mut self, connection: usize) -> u64 {
        match std::mem::take(&mut self.done[connection].events) {
            0 => 0,
            rows => EVENTS + rows,
        }
    }

    fn update(&mut self, connection: usize, row: Row, bytes: u64, out: &mut Vec<Touch>) {
        let way = self.way(row);
        let leaves = match row {
            Row::Lines(district, number) => {
                let orders = &self.population.districts[district as usize].orders;
                let order = orders[number as usize];
                let rows = order.first_line..order.first_line + order.lines;
                rows.map(|row| self.lines.leaf(district, row)).collect()
            }
            _ => vec![way[way.len() - 1]],
        };
        look(&way, out);
        self.done[connection].events += EVENT;
        let image = match row {
            Row::Warehouse(_) => Table::Warehouse,
            Row::District(_) => Table::District,
            Row::Customer(..) => Table::Customer,
            Row::Stock(..) => Table::Stock,
            Row::Lines(..) => Table::OrderLine,
            _ => Table::Orders,
        };
        for leaf in leaves {
            self.note(connection, Which::Changes, UNDO + bytes, out);
            self.change(connection, leaf, RECORD + bytes, out);
            // The event holds the rows before and after the change.
            self.done[connection].events += 2 * image.row();
        }
    }

    /// Inserts a row at the end of its group.
    fn insert(&mut self, connection: usize, table: Table, group: u32, out: &mut Vec<Touch>) {
        let tree = match table {
            Table::History => &mut self.history,
            Table::NewOrders => &mut self.open,
            Table::Orders => &mut self.orders,
            _ => &mut self.lines,
        };
        let space = &mut self.spaces[usize::from(table.space())];
        let row = tree.end(group);
        let taken = tree.push(group, space);
        let (way, above) = (tree.way(group, row), tree.parents.above(group));
        look(&way, out);
        if let Some(page) = taken {
            self.take(page, above, out);
        }
        self.note(connection, Which::Inserts, UNDO, out);
        self.change(connection, way[way.len() - 1], RECORD + table.row(), out);
        self.done[connection].events += EVENT + table.row();
    }

    fn insert_order(
        &mut self,
        connection: usize,
        (district, customer, lines): (u32, u32, u32),
        out: &mut Vec<Touch>,
    ) {
        let orders = &mut self.population.districts[district as usize].orders;
        let key: OrderKey = (district, customer, orders.len() as u32);
        orders.push(Order {
            customer,
            first_line: self.lines.end(district),
            lines,
        });
        self.insert(connection, Table::Orders, district, out);
        let space = &mut self.spaces[usize::from(Table::Orders.space())];
        let before = self.orders_of.way(key);
        let taken = self.orders_of.insert(key, space);
        look(&before, out);
        if let Some(page) = taken {
            let above = self.orders_of.parents.above(district);
            // Half of the entries move to the new leaf.
            let (moved, leaf) = (PAGE / 2, before[before.len() - 1]);
            self.take(page, above, out);
            out.push(Touch { page, redo: moved });
            out.push(Touch {
                page: leaf,
                redo: RECORD,
            });
        }
        let way = self.orders_of.way(key);
        self.change(connection, way[way.len() - 1], RECORD + ORDER_ENTRY, out);
    }

    fn remove(&mut self, connection: usize, district: u32, order: u32, out: &mut Vec<Touch>) {
        let leaf = self.open.leaf(district, order);
        self.note(connection, Which::Changes, UNDO, out);
        self.change(connection, leaf, RECORD, out);
        self.done[connection].events += EVENT + Table::NewOrders.row();
        let space = &mut self.spaces[usize::from(leaf.space)];
        if self.open.remove_first(district, order, space) {
            let above = self.open.parents.above(district);
            self.take_or_give(leaf.space, above, out);
        }
        self.population.districts[district as usize].delivered += 1;
    }

    /// Undoes the last order of `district`, which is being inserted.
    fn roll_back(&mut self, connection: usize, district: u32, out: &mut Vec<Touch>) {
        let orders = &mut self.population.districts[district as usize].orders;
        let order = orders.pop().expect("the order that is rolled back");
        let number = orders.len() as u32;
        self.orders_of.remove((district, order.customer, number));
        self.orders.pop(district);
        self.open.pop(district);
        while self.lines.end(district) > order.first_line {
            self.lines.pop(district);
        }
        let changed = std::mem::take(&mut self.done[connection].changed);
        let redo = RECORD + UNDO;
        out.extend(changed.into_iter().rev().map(|page| Touch { page, redo }));
        self.done[connection].events = 0;
    }

    /// Logs the end of a transaction on its segment page and its last undo page.
    fn end(&mut self, connection: usize, out: &mut Vec<Touch>) {
        self.done[connection].changed.clear();
        if !self.undo.has_begun(connection) {
            return;
        }
        let pages = [Some(Undo::segment(connection)), self.undo.last(connection)];
        let ended = pages.into_iter().flatten();
        out.extend(ended.map(|page| Touch { page, redo: END }));
        self.undo.end(connection, &mut self.spaces[0]);
    }

    /// Records a change to a leaf.
    fn change(&mut self, connection: usize, page: PageId, redo: u64, out: &mut Vec<Touch>) {
        self.done[connection].changed.push(page);
        out.push(Touch { page, redo });
    }

    /// Records an undo record.
    fn note(&mut self, connection: usize, which: Which, bytes: u64, out: &mut Vec<Touch>) {
        let space = &mut self.spaces[usize::from(SYSTEM)];
        let (page, taken) = self.undo.write(connection, which, bytes, space);
        if taken {
            self.take(page, Undo::segment(connection), out);
        }
        let redo = RECORD + bytes;
        out.push(Touch { page, redo });
    }

    /// Takes `page` into use and records its pointer on the page `above`.
    fn take(&mut self, page: PageId, above: PageId, out: &mut Vec<Touch>) {
        self.fresh.insert(page);
        self.take_or_give(page.space, above, out);
    }

    /// Records the changes to the pages that list a file's pages, and to the page `above`.
    fn take_or_give(&self, space: u8, above: PageId, out: &mut Vec<Touch>) {
        let lists = [0, 2].map(|no| PageId { space, no });
        out.extend(lists.map(|page| Touch { page, redo: TAKEN }));
        out.push(Touch {
            page: above,
            redo: POINTER,
        });
    }
}

/// Keys of all orders by customer, sorted.
fn order_keys(population: &Population) -> Vec<OrderKey> {
    let mut keys = Vec::new();
    for (district, of) in population.districts.iter().enumerate() {
        let key = |(order, of): (usize, &Order)| (district as u32, of.customer, order as u32);
        keys.extend(of.orders.iter().enumerate().map(key));
    }
    keys.sort_unstable();
    keys
}

fn look(way: &[PageId], out: &mut Vec<Touch>) {
    out.extend(way.iter().map(|&page| Touch { page, redo: 0 }));
}

#[cfg(test)]
impl Store {
    /// Asserts that no page is used twice and that every order is in each of its trees.
    pub(super) fn check(&self) {
        let edges = [&self.history, &self.open, &self.orders, &self.lines];
        let mut leaves: Vec<PageId> = edges.iter().flat_map(|tree| tree.check()).collect();
        leaves.extend(self.orders_of.check());
        leaves.extend(self.undo.pages());
        for (space, file) in self.spaces.iter().enumerate() {
            let space = space as u8;
            leaves.extend(file.free().iter().map(|&no| PageId { space, no }));
        }
        let once: BTreeSet<PageId> = leaves.iter().copied().collect();
        assert_eq!(once.len(), leaves.len(), "a page is used once");
        let within = |page: &PageId| page.no < self.spaces[usize::from(page.space)].pages;
        assert!(once.iter().all(within));
        assert!(self.orders_of.keys().eq(order_keys(&self.population)));
        for (number, of) in self.population.districts.iter().enumerate() {
            let (district, count) = (number as u32, of.orders.len() as u32);
            assert_eq!(self.orders.end(district), count);
            assert_eq!(self.open.end(district), count);
            assert_eq!(of.committed, count, "no transaction is under way");
            let mut line = 0;
            for order in &of.orders {
                assert_eq!(order.first_line, line);
                line += order.lines;
            }
            assert_eq!(self.lines.end(district), line);
            assert!(of.delivered <= of.committed);
        }
    }

    pub(super) fn history(&self) -> u32 {
        self.history.end(0)
    }
}
