//! Table of the presets of files and their parameters.
//!
//! Numbers of files, records and operations are a hundredth of those in Table 5 of the `ByteFS`
//! paper, numbers of threads are equal; sizes of files and requests are those of the paper and of
//! filebench's scripts.

//= bytefs 5.1
use super::cachebench;
use crate::describe::table::{Param, Preset, param};
use crate::describe::unit::Unit;

const OPS: Param = param(
    "ops",
    "100000",
    Unit::Limit,
    "calls in all; 0 for as many as there are",
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
    "files, of which 80 % are there at first",
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
    "size below which an append stays, each as likely",
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
        "calls in all; 0 for until all is done",
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
    "bytes of a call, or several sizes that take turns: 64:512:4k",
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
const DIRECT: Param = param("direct", "no", YES_NO, "past the page cache");

/// Parameter `direct` of random reads and writes, whose default is yes, as on a drive.
const PAST_CACHE: Param = param("direct", "yes", YES_NO, "past the page cache");
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
        "bytes of a file behind which no call begins",
    ),
    param(
        "room",
        "0",
        Unit::Trim,
        "most bytes left free at first; 0 for all there are",
    ),
    param("ops", "2000", Unit::Count, "calls in all"),
    TIME,
];

/// Parameters of files that are written in order.
const STREAMS: [Param; 5] = [
    param("files", "4", Unit::Threads, "files, and threads"),
    param("size", "64m", Unit::Length, "bytes of a file"),
    param("bs", "128k", Unit::Length, "bytes of a write"),
    param("direct", "yes", YES_NO, "past the page cache"),
    param(
        "hint",
        "extreme",
        Unit::Choice(&["none", "short", "medium", "long", "extreme"]),
        "how long what is written will live, as the file system is told",
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
        "where the next one goes; each part of the file is written once a pass",
    ),
    param(
        "sync",
        "each",
        Unit::Choice(&["each", "end", "no"]),
        "what is made durable: each write, all at the end, or nothing",
    ),
    param(
        "total",
        "0",
        Unit::Trim,
        "bytes that are written over; 0 for as many as the file has",
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
        "hundredths of the customers, orders and items that the specification has, 1 to 100",
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
        "whether there is a binary log, of which each commit is made durable",
    ),
    param(
        "io",
        "200",
        Unit::Count,
        "innodb_io_capacity: pages that are written back in a second",
    ),
    param("ops", "20000", Unit::Count, "transactions in all"),
    TIME,
];

/// Parameters of `db_bench`.
const DB_BENCH: [Param; 13] = [
    param(
        "benchmarks",
        "fillseq:overwrite:readrandom",
        Unit::Benchmarks,
        "what is done, with operations if not one for each record: overwrite/1000",
    ),
    param(
        "records",
        "100000",
        Unit::Records,
        "records that are filled in, or are there at first",
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
        "where the records are: tables in levels, or pages in place",
    ),
    param("records", "100000", Unit::Files, "records at first"),
    param("value", "1000", Unit::Length, "bytes of a record's value"),
    param("threads", "8", Unit::Threads, "clients"),
    param("ops", "400000", Unit::Count, "operations on records in all"),
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
        "LSM: how many times as many bytes each further level has",
    ),
    param(
        "lifetimes",
        "native",
        Unit::Choice(&["native", "tuned", "none"]),
        "LSM: what files are said to live: RocksDB's map of levels, that of its users, or nothing",
    ),
    param(
        "compaction",
        "leveled",
        Unit::Choice(&["leveled", "fifo"]),
        "LSM: tables are merged into levels, or the oldest ones are dropped",
    ),
    param(
        "keep",
        "1g",
        Unit::Length,
        "LSM with fifo: bytes of tables that are kept",
    ),
];

/// Every preset of files, in the order in which lists show them.
pub static FILE_PRESETS: [Preset; 27] = [
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
        "YCSB D: 95 % reads, mostly of what is new, 5 % inserts",
    ),
    ycsb(
        "ycsb-e",
        "YCSB E: 95 % scans of up to 100 records, 5 % inserts",
    ),
    ycsb("ycsb-f", "YCSB F: half reads, half reads that write back"),
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
        "files made and written, each by one thread, until all are there",
        &[
            SIZE_4K,
            param(
                "fsync",
                "no",
                YES_NO,
                "whether each is made durable before it is closed",
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
    of_files("mkdir", "directories made until all are there", &[], &MICRO),
    of_files(
        "rmdir",
        "empty directories removed until none is left",
        &[],
        &MICRO,
    ),
    of_files(
        "overwrite",
        "writes over files that are there, at random or in order",
        &[param(
            "order",
            "random",
            Unit::Choice(&["random", "sequential"]),
            "where the next write goes",
        )],
        &WRITES,
    ),
    of_files(
        "randwrite",
        "on files: writes to any place of files that are there",
        &[],
        &ANY_WRITES,
    ),
    of_files(
        "randread",
        "on files: reads of any place of files that are there",
        &[],
        &ANY_READS,
    ),
    of_files(
        "randrw",
        "on files: reads and writes of any place of files that are there, in turns",
        &[param("read", "70", Unit::Percent, "share of reads")],
        &ANY_WRITES,
    ),
    of_files(
        "append",
        "writes at the end of files that are empty at first",
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
        "calls of every kind at random on few files, as a tester makes them",
        &[],
        &ANYTHING,
    ),
    of_files(
        "ace",
        "every sequence of a few calls on a few names, and a force, as CrashMonkey's ACE has it",
        &[],
        &ACE,
    ),
];

const ACE: [Param; 4] = [
    param(
        "seq",
        "2",
        Unit::Choice(&["1", "2", "3"]),
        "calls of a sequence before the force",
    ),
    param("every", "1", Unit::Count, "takes one sequence in so many"),
    param("from", "1", Unit::Count, "the first sequence that is taken"),
    param(
        "nth",
        "0",
        Unit::Limit,
        "the only sequence that is made, from 1; 0 for all, each in a directory of its own, \
         but one by one where the power is cut",
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

/// Parameters that may follow the path of a filebench script.
pub static SCRIPT: Preset = of_files(
    "SCRIPT.f",
    "a path to a filebench script",
    &[],
    &[
        param("ops", "0", Unit::Limit, OPS.help),
        param(
            "time",
            "0",
            Unit::Time,
            "virtual time instead of the script's; 0 for that",
        ),
    ],
);

/// Parameters that may follow the path of a trace of file calls.
pub static CALLS: Preset = of_files(
    "CALLS.flt",
    "a path to a trace of file calls, as flashloom record makes them",
    &[],
    &[
        param("think", "yes", YES_NO, "whether threads pause as they did"),
        param(
            "order",
            "data",
            Unit::Choice(&["data", "names"]),
            "what threads keep in order: reads and writes of a file too, or names and descriptors",
        ),
        param(
            "hints",
            "yes",
            YES_NO,
            "whether files are told how long what is written to them will live, as the program said",
        ),
        param(
            "ops",
            "0",
            Unit::Limit,
            "how many calls are made, of the first ones; 0 for all",
        ),
    ],
);
