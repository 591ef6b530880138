//! Table of the presets of files and their parameters.
//!
//! Numbers of files, records and operations are a hundredth of those in Table 5 of the `ByteFS`
//! paper, numbers of threads are equal; sizes of files and requests are those of the paper and of
//! filebench's scripts.

//= bytefs 5.1
mod paths;

pub use paths::{CALLS, SCRIPT};

use super::{ace, ageing, cachebench};
use crate::describe::table::{Param, Preset, param};
use crate::describe::unit::Unit;

const OPS: Param = param(
    "ops",
    "100000",
    Unit::Limit,
    "total number of calls; 0 for no limit",
);
const TIME: Param = param(
    "time",
    "0",
    Unit::Time,
    "virtual time after which no more calls are made; 0 for no limit",
);
const THREADS: Param = param(
    "threads",
    "12",
    Unit::Threads,
    "threads that share the files",
);
const FILES: Param = param(
    "files",
    "10000",
    Unit::Files,
    "files, 80 % of which exist at the start",
);
const SIZE_16K: Param = param(
    "size",
    "16k",
    Unit::Length,
    "mean size of a file, by a gamma distribution of shape 1.5",
);
const APPEND: Param = param(
    "append",
    "16k",
    Unit::Length,
    "largest append; sizes are uniformly distributed",
);
const DIRWIDTH: Param = param(
    "dirwidth",
    "0",
    Unit::Number,
    "mean entries of a directory, at least 2; 0 for that of filebench's script",
);

/// Parameters of filebench's personalities.
const COMMON: [Param; 7] = [FILES, THREADS, SIZE_16K, APPEND, DIRWIDTH, OPS, TIME];

/// Parameters of the presets that only create or delete files; a run ends when all is done.
const MICRO: [Param; 5] = [
    param("files", "10000", Unit::Files, "how many"),
    THREADS,
    DIRWIDTH,
    param(
        "ops",
        "0",
        Unit::Limit,
        "total number of calls; 0 for no limit",
    ),
    TIME,
];

const ALL_THERE: Param = param("files", "10000", Unit::Files, "files");
const SIZE_4K: Param = param("size", "4k", Unit::Length, "size of a file");
const YES_NO: Unit = Unit::Choice(&["no", "yes"]);

/// Parameters of reads and writes of files.
const SIZES: Param = param(
    "bs",
    "4k",
    Unit::Lengths,
    "bytes of a call, or several sizes in rotation: 64:512:4k",
);
const PART: Param = param(
    "size",
    "64m",
    Unit::Length,
    "bytes of a file that are read or written",
);
const EACH: Param = param(
    "threads",
    "1",
    Unit::Threads,
    "threads, each with a file of its own",
);
const DIRECT: Param = param(
    "direct",
    "no",
    YES_NO,
    "whether calls bypass the page cache \
    (O_DIRECT)",
);

/// Parameter `direct` of random reads and writes, whose default is yes, as on a drive.
const PAST_CACHE: Param = param(
    "direct",
    "yes",
    YES_NO,
    "whether calls bypass the page cache \
    (O_DIRECT)",
);
const SYNC: Param = param(
    "fsync",
    "0",
    Unit::Number,
    "a sync after this many writes; 0 for never",
);

/// Parameters of random reads of files.
const ANY_READS: [Param; 7] = [SIZES, PART, EACH, PAST_CACHE, OPS, TIME, DIRWIDTH];

/// Parameters of random writes to files.
const ANY_WRITES: [Param; 8] = [SIZES, PART, EACH, SYNC, PAST_CACHE, OPS, TIME, DIRWIDTH];

/// Parameters of writes to files.
const WRITES: [Param; 8] = [SIZES, PART, EACH, SYNC, DIRECT, OPS, TIME, DIRWIDTH];

/// Parameters of calls of every kind.
const ANYTHING: [Param; 6] = [
    param("files", "24", Unit::Files, "names of files"),
    param(
        "threads",
        "4",
        Unit::Threads,
        "threads that share the files",
    ),
    param(
        "size",
        "64k",
        Unit::Length,
        "largest offset in a file at which a call begins",
    ),
    param(
        "room",
        "0",
        Unit::Trim,
        "most bytes left free at the start; 0 for all free space",
    ),
    param("ops", "2000", Unit::Count, "total number of calls"),
    TIME,
];

/// Parameters of files that are written in order.
const STREAMS: [Param; 5] = [
    param("files", "4", Unit::Threads, "files, and threads"),
    param("size", "64m", Unit::Length, "bytes of a file"),
    param("bs", "128k", Unit::Length, "bytes of a write"),
    param(
        "direct",
        "yes",
        YES_NO,
        "whether calls bypass the page cache (O_DIRECT)",
    ),
    param(
        "hint",
        "extreme",
        Unit::Choice(&["none", "short", "medium", "long", "extreme"]),
        "lifetime hint of the written data",
    ),
];

/// Parameters of one file that is rewritten.
const IOZONE: [Param; 6] = [
    param("size", "64m", Unit::Length, "bytes of the file"),
    param("make", "1m", Unit::Length, "bytes of a write that makes it"),
    param("bs", "4k", Unit::Length, "bytes of a write over it"),
    param(
        "order",
        "sequential",
        Unit::Choice(&["sequential", "random"]),
        "order of writes; each part of the file is written once in a pass",
    ),
    param(
        "sync",
        "each",
        Unit::Choice(&["each", "end", "no"]),
        "when to sync: after each write, at the end, or never",
    ),
    param(
        "total",
        "0",
        Unit::Trim,
        "bytes to overwrite; 0 for the size of the file",
    ),
];

/// Parameters of TPC-C. The warehouses, their scale, the pool and the log are smaller than in
/// practice, for a run of seconds; the rest are the defaults of MySQL 5.7.
const TPCC: [Param; 12] = [
    param("warehouses", "1", Unit::Threads, "warehouses, at most 256"),
    param(
        "scale",
        "10",
        Unit::Number,
        "percentage of the specification's numbers of customers, orders and items, 1 to 100",
    ),
    param("threads", "8", Unit::Threads, "connections"),
    param("cache", "8m", Unit::Length, "bytes of the buffer pool"),
    param(
        "log",
        "8m",
        Unit::Length,
        "bytes of each of two files of the log",
    ),
    param(
        "commit",
        "1",
        Unit::Choice(&["0", "1", "2"]),
        "innodb_flush_log_at_trx_commit: 1 waits until the log is durable, 2 until it is written",
    ),
    param(
        "doublewrite",
        "yes",
        YES_NO,
        "whether a page is written to the doublewrite buffer first",
    ),
    param(
        "flush",
        "fsync",
        Unit::Choice(&["fsync", "direct"]),
        "innodb_flush_method: whether pages go past the page cache",
    ),
    param(
        "binlog",
        "no",
        YES_NO,
        "whether there is a binary log, synced at each commit",
    ),
    param(
        "io",
        "200",
        Unit::Count,
        "innodb_io_capacity: pages that are written back in a second",
    ),
    param("ops", "20000", Unit::Count, "total number of transactions"),
    TIME,
];

/// Parameters of `db_bench`.
const DB_BENCH: [Param; 13] = [
    param(
        "benchmarks",
        "fillseq:overwrite:readrandom",
        Unit::Benchmarks,
        "phases, each with its number of operations unless one for each record: overwrite/1000",
    ),
    param(
        "records",
        "100000",
        Unit::Records,
        "records that are filled in, or exist at the start",
    ),
    YCSB[2],
    param("threads", "16", Unit::Threads, "clients"),
    TIME,
    YCSB[7],
    YCSB[8],
    YCSB[9],
    YCSB[10],
    YCSB[13],
    YCSB[14],
    YCSB[15],
    YCSB[16],
];

/// Parameters of YCSB's workloads.
const YCSB: [Param; 17] = [
    param(
        "engine",
        "lsm",
        Unit::Choice(&["lsm", "btree"]),
        "storage engine: LSM tree (tables in levels) or B-tree (pages in place)",
    ),
    param("records", "100000", Unit::Files, "records at the start"),
    param("value", "1000", Unit::Length, "bytes of a record's value"),
    param("threads", "8", Unit::Threads, "clients"),
    param(
        "ops",
        "400000",
        Unit::Count,
        "total number of operations on records",
    ),
    TIME,
    param(
        "theta",
        "0.99",
        Unit::Exponent,
        "exponent of Zipf's law; larger is more skewed",
    ),
    param(
        "sync",
        "no",
        YES_NO,
        "whether a write waits until its log is durable",
    ),
    param(
        "memtable",
        "1m",
        Unit::Length,
        "LSM: bytes in memory before a table is written",
    ),
    param("table", "1m", Unit::Length, "LSM: bytes of a table"),
    param(
        "base",
        "4m",
        Unit::Length,
        "LSM: most bytes of the first level",
    ),
    param(
        "cache",
        "16m",
        Unit::Length,
        "B-tree: bytes of pages in memory",
    ),
    param(
        "checkpoint",
        "16m",
        Unit::Length,
        "B-tree: bytes of log between checkpoints",
    ),
    param(
        "multiplier",
        "10",
        Unit::Count,
        "LSM: size ratio of consecutive levels",
    ),
    param(
        "lifetimes",
        "native",
        Unit::Choice(&["native", "tuned", "none"]),
        "LSM: lifetime hints of files: RocksDB's map of levels, a tuned map, or none",
    ),
    param(
        "compaction",
        "leveled",
        Unit::Choice(&["leveled", "fifo"]),
        "LSM: compaction: tables are merged into levels, or the oldest tables are dropped",
    ),
    param(
        "keep",
        "1g",
        Unit::Length,
        "LSM with fifo: bytes of tables that are kept",
    ),
];

/// Every preset of files, in the order in which lists show them.
pub static FILE_PRESETS: [Preset; 28] = [
    of_files(
        "varmail",
        "filebench's mail server: small files made, appended to, synced, read, deleted",
        &[],
        &COMMON,
    ),
    of_files(
        "fileserver",
        "filebench's file server: whole files written, appended to, read, deleted",
        &[
            param("files", "1000", Unit::Files, FILES.help),
            param("size", "128k", Unit::Length, SIZE_16K.help),
        ],
        &COMMON,
    ),
    of_files(
        "webproxy",
        "filebench's proxy: one file replaced, five read",
        &[param("size", "16k", Unit::Length, "size of a file")],
        &COMMON,
    ),
    of_files(
        "webserver",
        "filebench's web server: ten files read, then the log appended to",
        &[ALL_THERE],
        &COMMON,
    ),
    of_files(
        "oltp",
        "filebench's database: many readers of pages, some writers, a log",
        &[
            param("files", "16", Unit::Files, "files"),
            param("threads", "200", Unit::Threads, "readers"),
            param("writers", "10", Unit::Threads, "threads that write pages"),
            param("size", "10m", Unit::Length, "size of a file"),
            param("iosize", "2k", Unit::Length, "bytes of a page"),
        ],
        &[DIRWIDTH, OPS, TIME],
    ),
    ycsb("ycsb-a", "YCSB A: half reads, half updates, by Zipf's law"),
    ycsb("ycsb-b", "YCSB B: 95 % reads, 5 % updates, by Zipf's law"),
    ycsb("ycsb-c", "YCSB C: reads, by Zipf's law"),
    ycsb(
        "ycsb-d",
        "YCSB D: 95 % reads, mostly of the newest records, 5 % inserts",
    ),
    ycsb(
        "ycsb-e",
        "YCSB E: 95 % scans of up to 100 records, 5 % inserts",
    ),
    ycsb("ycsb-f", "YCSB F: half reads, half read-modify-writes"),
    of_files(
        "db-bench",
        "db_bench of RocksDB: records filled in, written over and read, one after the other",
        &[],
        &DB_BENCH,
    ),
    of_files(
        "tpcc",
        "TPC-C as tpcc-mysql runs it on InnoDB: pages in place, a log, a doublewrite buffer",
        &[],
        &TPCC,
    ),
    of_files(
        "cachebench",
        "CacheLib's cachebench: a cache in memory, small items in buckets and large ones in regions",
        &[TIME],
        &cachebench::PARAMS,
    ),
    of_files(
        "create",
        "files created and written, each by one thread, until all exist",
        &[
            SIZE_4K,
            param(
                "fsync",
                "no",
                YES_NO,
                "whether each file is synced before it is closed",
            ),
        ],
        &MICRO,
    ),
    of_files(
        "delete",
        "files deleted until none is left",
        &[SIZE_4K],
        &MICRO,
    ),
    of_files("mkdir", "directories created until all exist", &[], &MICRO),
    of_files(
        "rmdir",
        "empty directories removed until none is left",
        &[],
        &MICRO,
    ),
    of_files(
        "overwrite",
        "overwrites of existing files, at random or in order",
        &[param(
            "order",
            "random",
            Unit::Choice(&["random", "sequential"]),
            "order of writes: random or sequential",
        )],
        &WRITES,
    ),
    of_files(
        "randwrite",
        "on files: writes at uniformly random offsets of existing files",
        &[],
        &ANY_WRITES,
    ),
    of_files(
        "randread",
        "on files: reads at uniformly random offsets of existing files",
        &[],
        &ANY_READS,
    ),
    of_files(
        "randrw",
        "on files: alternating reads and writes at uniformly random offsets of existing files",
        &[param("read", "70", Unit::Percent, "share of reads")],
        &ANY_WRITES,
    ),
    of_files(
        "append",
        "appends to files that are empty at the start",
        &[],
        &WRITES,
    ),
    of_files(
        "iozone",
        "IOZone's rewrite and random write: one file made, then written over, synced",
        &[],
        &IOZONE,
    ),
    of_files(
        "streams",
        "files by name, seq/0 and so on, each written from its start by a thread of its own",
        &[],
        &STREAMS,
    ),
    of_files(
        "anything",
        "random calls of every kind on few files, for tests",
        &[],
        &ANYTHING,
    ),
    of_files(
        "ace",
        "every sequence of a few calls on a few names followed by a sync, as in CrashMonkey's ACE",
        &[],
        &ace::PARAMS,
    ),
    of_files(
        "ageing",
        "the life of a file system in use: files of many sizes and lifetimes made, rewritten, deleted",
        &[],
        &ageing::PARAMS,
    ),
];

const fn of_files(
    name: &'static str,
    help: &'static str,
    own: &'static [Param],
    common: &'static [Param],
) -> Preset {
    Preset {
        name,
        help,
        own,
        common,
    }
}

const fn ycsb(name: &'static str, help: &'static str) -> Preset {
    of_files(name, help, &[], &YCSB)
}
