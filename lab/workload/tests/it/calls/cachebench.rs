//! The cache from outside: its files and its calls.

//= cachelib 4
use super::model::{Run, run};
use parakeet::rules::{Facts, RuleSet, sets};
use workload::files::{Call, FileWorkload, OpenFlags};

const SMALL: &str = "keys=2000,memory=512k,flash=4m,region=128k,ops=20000";

/// Paths and flags of the opened files.
fn opened(run: &Run) -> Vec<(String, OpenFlags)> {
    let names = run.source.names();
    let opened = run.made.iter().filter_map(|made| match made.call {
        Call::Open { path, flags, .. } => {
            let path = String::from_utf8(names.bytes(path).to_vec()).unwrap();
            Some((path, flags))
        }
        _ => None,
    });
    opened.collect()
}

/// Stream that the rule set `set` assigns to the file `path`.
fn stream(set: &str, path: &str) -> String {
    let rules = RuleSet::read(set, sets::text(set).unwrap()).unwrap();
    let facts = Facts {
        path: path.as_bytes(),
        ..Facts::default()
    };
    let stream = rules.classify(&facts).expect("a rule is for it");
    rules.streams[usize::from(stream.0)].name.clone()
}

#[test]
fn rules_tell_the_two_cache_files_apart() {
    let opened = opened(&run(&format!("cachebench:{SMALL}"), 1));
    let of =
        |set: &str| -> Vec<String> { opened.iter().map(|(path, _)| stream(set, path)).collect() };
    assert_eq!(of("cachelib"), ["large", "small"]);
    assert_eq!(of("shimmer"), ["sstable", "log"]);
    let past_cache = |flags: &OpenFlags| flags.has(OpenFlags::DIRECT);
    assert!(opened.iter().all(|(_, flags)| past_cache(flags)));
}

#[test]
fn files_are_allocated_or_one_grows() {
    let bytes = 4 << 20;
    let whole = run(&format!("cachebench:{SMALL}"), 1);
    let allocated = whole.made.iter().filter_map(|made| match made.call {
        Call::Fallocate { len, .. } => Some(len),
        _ => None,
    });
    let allocated: u64 = allocated.sum();
    assert!(
        (bytes - (256 << 10)..=bytes).contains(&allocated),
        "{allocated}"
    );
    assert_eq!(whole.model.bytes(), allocated);
    let grown = run(&format!("cachebench:{SMALL},allocate=no,set=2,get=98"), 1);
    assert_eq!(grown.count("fallocate"), 0);
    assert!(grown.model.bytes() < allocated);
}

#[test]
fn run_ends_at_its_time_limit() {
    let short = run(&format!("cachebench:{SMALL},time=1ms"), 1);
    assert!(
        (1_000_000..3_000_000).contains(&short.time.0),
        "{:?}",
        short.time
    );
}

#[test]
fn invalid_parameters_are_refused_with_a_sentence() {
    let wrong = |text: &str| {
        let workload = FileWorkload::parse(&format!("cachebench:{text}"));
        let opened = workload.and_then(|workload| workload.open(sim::Seed(1)).map(|_| ()));
        opened.unwrap_err().to_string()
    };
    assert!(wrong("theta=x").contains("0.99"));
    assert!(wrong("evict=random").contains("one of lru, fifo"));
    assert!(wrong("get=70,set=70").contains("expected shares of gets and sets of 100 together"));
    assert!(wrong("value=1k:512").contains("expected sizes that ascend"));
    assert!(wrong("flash=4m").contains("regions for large items"));
}
