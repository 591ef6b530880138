//! Parameters of `cachebench` and their defaults.
//!
//! Memory, flash, items, sizes and clients are those of a configuration that comes with
//! `cachebench` (`feature_stress/navy/default.json`). Of ten operations there five get, three set
//! and two chain an item to another, which this model does not do: three gets for two sets are our
//! choice, rounded from that. The rest are `cachebench`'s own defaults (`CacheConfig`). All sizes
//! but those of items, and the numbers of items and operations, are an eighth of the originals, for
//! a run of seconds. `cachebench` draws items from a normal distribution; Zipf's law and its
//! exponent are our choice.

//= cachelib 5
use crate::describe::table::{Param, param};
use crate::describe::unit::Unit;

const YES_NO: Unit = Unit::Choice(&["no", "yes"]);

/// Every parameter of `cachebench`.
pub(in crate::files) const PARAMS: [Param; 22] = [
    param("keys", "12500", Unit::Files, "number of distinct items"),
    param(
        "theta",
        "0.9",
        Unit::Exponent,
        "exponent of Zipf's law; larger is more skewed",
    ),
    param(
        "key",
        "1:8:64",
        Unit::Lengths,
        "bytes of keys: bounds of the size ranges (keySizeRange)",
    ),
    param(
        "key-weights",
        "30:70",
        Unit::Lengths,
        "weight of each range of key sizes",
    ),
    param(
        "value",
        "256:1k:4k",
        Unit::Lengths,
        "bytes of values: bounds of the size ranges (valSizeRange)",
    ),
    param(
        "value-weights",
        "20:80",
        Unit::Lengths,
        "weight of each range of value sizes",
    ),
    param(
        "get",
        "60",
        Unit::Percent,
        "percentage of operations that get an item",
    ),
    param(
        "set",
        "40",
        Unit::Percent,
        "percentage of operations that set an item; the rest delete one",
    ),
    param(
        "lookaside",
        "no",
        YES_NO,
        "whether a get that misses is followed by a set",
    ),
    param(
        "memory",
        "16m",
        Unit::Length,
        "bytes of the cache in memory",
    ),
    param("flash", "64m", Unit::Length, "bytes of the two files"),
    param(
        "small",
        "50",
        Unit::Percent,
        "percentage of flash for buckets of small items (navyBigHashSizePct)",
    ),
    param(
        "small-max",
        "2k",
        Unit::Length,
        "most bytes of a key and its value that are small (navySmallItemMaxSize)",
    ),
    param(
        "region",
        "2m",
        Unit::Length,
        "bytes of a region of large items",
    ),
    param(
        "clean",
        "1",
        Unit::Threads,
        "regions that are kept clean; buffers are twice as many",
    ),
    param(
        "evict",
        "lru",
        Unit::Choice(&["lru", "fifo"]),
        "eviction order of regions: least recently read, or oldest first",
    ),
    param(
        "admit",
        "100",
        Unit::Percent,
        "percentage of items evicted from memory that are admitted to flash",
    ),
    param(
        "parcels",
        "128m",
        Unit::Length,
        "most bytes in the write queue; further items are dropped",
    ),
    param(
        "allocate",
        "yes",
        YES_NO,
        "whether files are fully allocated at the start; otherwise the file of large items grows",
    ),
    param("threads", "16", Unit::Threads, "clients"),
    param(
        "writers",
        "32",
        Unit::Threads,
        "threads that write small items",
    ),
    param("ops", "125000", Unit::Count, "total number of operations"),
];
