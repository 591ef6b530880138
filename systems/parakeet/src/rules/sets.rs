//! Built-in rule sets; the comments of each name its sources.

/// Name and text of every built-in set, sorted by name.
pub const ALL: &[(&str, &str)] = &[
    ("cachelib", include_str!("sets/cachelib.toml")),
    ("kafka", include_str!("sets/kafka.toml")),
    ("postgresql", include_str!("sets/postgresql.toml")),
    ("rocksdb", include_str!("sets/rocksdb.toml")),
    ("rocksdb-tuned", include_str!("sets/rocksdb-tuned.toml")),
    ("shimmer", include_str!("sets/shimmer.toml")),
    ("sqlite", include_str!("sets/sqlite.toml")),
    ("wiredtiger", include_str!("sets/wiredtiger.toml")),
];

/// The text of the built-in set `name`; `None` if there is none.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    let found = ALL.iter().find(|(own, _)| *own == name);
    found.map(|&(_, text)| text)
}
