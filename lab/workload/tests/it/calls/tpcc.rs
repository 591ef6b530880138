//! TPC-C from outside: its files, its calls, its errors.

//= tpcc 1.2
use super::model::{Run, run};
use std::collections::BTreeMap;
use workload::files::{Call, EntryKind, FileWorkload, OpenFlags};

const PAGE: u64 = 16_384;

/// Sizes of the files in the setup, by name.
fn sizes(text: &str) -> BTreeMap<String, u64> {
    let workload = FileWorkload::parse(text).unwrap();
    let source = workload.open(sim::Seed(1)).unwrap();
    let files = source.setup().entries.iter().filter_map(|entry| {
        let path = String::from_utf8(source.names().bytes(entry.path).to_vec()).unwrap();
        match entry.kind {
            EntryKind::File { size } => Some((path, size)),
            _ => None,
        }
    });
    files.collect()
}

#[test]
fn tables_are_populated_by_the_specification_at_the_start() {
    let all = sizes("tpcc:scale=100");
    // Bytes of the specification's rows alone, and the overhead of a row, a page and a file.
    for (table, bytes) in [
        ("customer", 30_000 * 655),
        ("history", 30_000 * 46),
        ("new_orders", 9_000 * 8),
        ("orders", 30_000 * 24),
        ("order_line", 300_000 * 54),
        ("stock", 100_000 * 306),
        ("item", 100_000 * 82),
    ] {
        let size = all[&format!("mysql/tpcc/{table}.ibd")];
        let within = bytes..bytes * 2 + (1 << 20);
        assert!(within.contains(&size), "{table}: {size} of {bytes}");
        assert!(size.is_multiple_of(PAGE));
    }
    assert_eq!(all.len(), 9 + 1 + 2);
    assert_eq!(all["mysql/ib_logfile0"], 8 << 20);
    let twice = sizes("tpcc:scale=100,warehouses=2");
    let stock = "mysql/tpcc/stock.ibd";
    assert!(twice[stock].abs_diff(2 * all[stock]) <= 2 << 20);
    let item = "mysql/tpcc/item.ibd";
    assert_eq!(twice[item], all[item], "items belong to no warehouse");
}

/// Flags with which the file `name` was opened.
fn opened(run: &Run, name: &str) -> OpenFlags {
    let path = run.source.names().find(name.as_bytes()).unwrap();
    let flags = run.made.iter().find_map(|made| match made.call {
        Call::Open {
            path: of, flags, ..
        } if of == path => Some(flags),
        _ => None,
    });
    flags.unwrap()
}

#[test]
fn run_follows_its_parameters() {
    for flush in ["fsync", "direct"] {
        let run = run(
            &format!("tpcc:ops=1000,scale=2,binlog=yes,flush={flush}"),
            1,
        );
        let stock = opened(&run, "mysql/tpcc/stock.ibd");
        assert_eq!(stock.has(OpenFlags::DIRECT), flush == "direct");
        assert!(!opened(&run, "mysql/ib_logfile1").has(OpenFlags::DIRECT));
        assert!(opened(&run, "mysql/binlog.000001").has(OpenFlags::APPEND));
        assert!(run.count("fdatasync") > 50 && run.count("fsync") > 50);
    }
    let short = run("tpcc:scale=2,time=20ms", 1);
    assert!(short.time < units::Ns::ms(60), "{:?}", short.time);
    let lazy = run("tpcc:ops=1000,scale=2,commit=0", 1);
    let eager = run("tpcc:ops=1000,scale=2", 1);
    assert!(lazy.count("fsync") * 4 < eager.count("fsync"));
}

#[test]
fn invalid_parameters_are_refused_with_a_reason() {
    for (params, wants) in [
        ("warehouses=0", "from 1"),
        ("commit=3", "0, 1, 2"),
        ("doublewrite=maybe", "no, yes"),
    ] {
        let told = FileWorkload::parse(&format!("tpcc:{params}")).unwrap_err();
        assert!(told.to_string().contains(wants), "{told}");
    }
    for (params, wants) in [
        ("scale=0", "1 to 100"),
        ("warehouses=300", "256"),
        ("cache=1m", "5m"),
        ("log=1m", "4m"),
        ("threads=4000", "threads"),
    ] {
        let workload = FileWorkload::parse(&format!("tpcc:{params}")).unwrap();
        let told = workload.open(sim::Seed(1)).err().map(|e| e.to_string());
        assert!(told.as_ref().is_some_and(|t| t.contains(wants)), "{told:?}");
    }
}
