//! Tables, the bytes of their rows, and their files.
//!
//! A row has the bytes of the specification's table, plus those that `InnoDB` adds.

use units::Ns;

/// Bytes of a page.
//= mysql 14.12
pub(super) const PAGE: u64 = 16_384;
/// Bytes of a page that rows inserted in order fill: a sixteenth stays free.
//= mysql 14.6
const FILLED: u64 = PAGE * 15 / 16;
/// Bytes that `InnoDB` adds to a row (header, transaction number, pointer to the undo record) and
/// to an entry of an index.
//= mysql 14.11
const ROW_EXTRA: u64 = 5 + 6 + 7;
const ENTRY_EXTRA: u64 = 5;
/// Bytes of the hidden row number of a table without a primary key.
//= mysql 14.11
const ROW_ID: u64 = 6;
/// Pages below one inner page, whose entries hold a header, a key of up to ten bytes and a page
/// number.
//= mysql 14.11
pub(super) const FAN_OUT: u32 = (FILLED / (5 + 10 + 4)) as u32;
/// Pages by which files grow (1 MiB), the extents from which they grow by several at once, and how
/// many.
//= mysql 14.12
pub(super) const EXTENT: u32 = 64;
pub(super) const EXTENTS_LARGE: u32 = 32;
pub(super) const EXTENTS_AT_ONCE: u32 = 4;
/// Pages by which the system tablespace grows (`innodb_autoextend_increment`, 64 MiB), and its
/// first size (12 MiB).
//= mysql 14.15
pub(super) const SYSTEM_GROWS: u32 = 64 * EXTENT;
pub(super) const SYSTEM_FIRST: u32 = 12 * EXTENT;
/// Processor time of a statement besides its calls: our own choice, of the order of a prepared
/// statement on one row with client and server on one machine.
pub(super) const STATEMENT: Ns = Ns(20_000);

/// Districts of a warehouse.
//= tpcc 1.2
pub(super) const DISTRICTS: u32 = 10;

/// Table of the schema. Its number is that of its file; number 0 is the system tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Warehouse = 1,
    District,
    Customer,
    History,
    NewOrders,
    Orders,
    OrderLine,
    Stock,
    Item,
}

/// File that holds undo pages and the doublewrite buffer.
pub(super) const SYSTEM: u8 = 0;

impl Table {
    pub(super) const ALL: [Self; 9] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::NewOrders,
        Self::Orders,
        Self::OrderLine,
        Self::Stock,
        Self::Item,
    ];

    /// Name of the table in `tpcc-mysql`.
    //= tpcc-mysql 1
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::NewOrders => "new_orders",
            Self::Orders => "orders",
            Self::OrderLine => "order_line",
            Self::Stock => "stock",
            Self::Item => "item",
        }
    }

    pub(super) const fn space(self) -> u8 {
        self as u8
    }

    /// Bytes of a row by the specification.
    //= tpcc 1.2
    const fn specified(self) -> u64 {
        match self {
            Self::Warehouse => 89,
            Self::District => 95,
            Self::Customer => 655,
            Self::History => 46,
            Self::NewOrders => 8,
            Self::Orders => 24,
            Self::OrderLine => 54,
            Self::Stock => 306,
            Self::Item => 82,
        }
    }

    /// Bytes of a stored row.
    pub(super) const fn row(self) -> u64 {
        let id = match self {
            Self::History => ROW_ID,
            _ => 0,
        };
        self.specified() + ROW_EXTRA + id
    }

    /// Rows of a leaf that is filled in order.
    pub(super) const fn rows_per_leaf(self) -> u32 {
        (FILLED / self.row()) as u32
    }
}

/// Bytes of an entry of the index of customers by name: warehouse, district, names of
/// some ten bytes each behind their lengths, number.
//= tpcc-mysql 1
const NAME_ENTRY: u64 = ENTRY_EXTRA + 2 + 1 + 2 * (1 + 10) + 4;
/// Bytes of an entry of the index of orders by customer: warehouse, district, customer, number.
//= tpcc-mysql 1
pub(super) const ORDER_ENTRY: u64 = ENTRY_EXTRA + 2 + 1 + 4 + 4;
pub(super) const NAMES_PER_LEAF: u32 = (FILLED / NAME_ENTRY) as u32;
pub(super) const ORDERS_PER_LEAF: u32 = (FILLED / ORDER_ENTRY) as u32;
/// Entries of that index in a leaf without free room.
pub(super) const ORDERS_FULL: usize = (PAGE / ORDER_ENTRY) as usize;

/// Page: its file and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageId {
    pub(super) space: u8,
    pub(super) no: u32,
}

impl PageId {
    pub(super) const fn offset(self) -> u64 {
        self.no as u64 * PAGE
    }
}

/// Numbers of rows, by the scale of a run.
//= tpcc 1.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cardinality {
    pub(super) warehouses: u32,
    /// Number of items; each warehouse has a stock of every item.
    pub(super) items: u32,
    /// Customers of a district, each with one order and one payment at the start.
    pub(super) customers: u32,
    /// Number of last names; each belongs to some customer.
    pub(super) names: u32,
    /// Undelivered orders of a district at the start.
    pub(super) open: u32,
}

impl Cardinality {
    pub(super) const fn new(warehouses: u32, scale: u64) -> Self {
        let scale = scale as u32;
        Self {
            warehouses,
            items: 1_000 * scale,
            customers: 30 * scale,
            names: 10 * scale,
            open: 9 * scale,
        }
    }

    pub(super) const fn districts(&self) -> u32 {
        self.warehouses * DISTRICTS
    }
}

/// File of pages and its allocator.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Pages of the file, and the first page that was never used.
    pub(super) pages: u32,
    next: u32,
    /// Pages that were given back.
    free: Vec<u32>,
    /// Whether a connection is extending the file.
    pub(super) grows: bool,
    grows_by: u32,
}

impl Space {
    /// A table's file with `used` pages in use.
    pub(super) fn of_table(used: u32) -> Self {
        Self {
            pages: used.div_ceil(EXTENT) * EXTENT,
            next: used,
            free: Vec::new(),
            grows: false,
            grows_by: EXTENT,
        }
    }

    /// The system tablespace with `used` pages in use.
    pub(super) fn of_system(used: u32) -> Self {
        let pages = SYSTEM_FIRST.max(used.div_ceil(EXTENT) * EXTENT);
        Self {
            pages,
            grows_by: SYSTEM_GROWS,
            ..Self::of_table(used)
        }
    }

    /// Pages that can be taken before the file has to grow.
    pub(super) const fn room(&self) -> u32 {
        self.pages - self.next + self.free.len() as u32
    }

    /// Pages by which the file grows next.
    pub(super) const fn growth(&self) -> u32 {
        if self.grows_by == EXTENT && self.pages >= EXTENTS_LARGE * EXTENT {
            return EXTENTS_AT_ONCE * EXTENT;
        }
        self.grows_by
    }

    /// Takes a free page.
    pub(super) fn take(&mut self) -> u32 {
        assert!(self.room() > 0, "room is made before it is used");
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(super) fn put(&mut self, no: u32) {
        self.free.push(no);
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &[u32] {
        &self.free
    }
}
