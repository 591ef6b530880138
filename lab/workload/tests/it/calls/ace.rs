//! The corpus of short sequences.

use sim::Seed;
use units::Ns;
use workload::files::{Call, FileWorkload, ThreadId, Turn};

fn calls(workload: &FileWorkload) -> Vec<Call> {
    let mut source = workload.open(Seed(1)).unwrap();
    let mut made = Vec::new();
    while let Turn::Call { call, .. } = source.next(ThreadId(0), Ns::ZERO) {
        made.push(call);
        source.ended(ThreadId(0), Ok(0));
    }
    made
}

fn corpus(text: &str) -> Vec<Vec<FileWorkload>> {
    FileWorkload::parse(text).unwrap().corpus().unwrap()
}

#[test]
fn corpus_has_a_force_at_the_end_of_each_sequence() {
    let groups = corpus("ace:seq=1");
    assert_eq!(groups.len(), 2, "fresh and settled");
    let is_force = |call: &Call| {
        matches!(
            call,
            Call::Fsync { .. } | Call::Fdatasync { .. } | Call::Sync {}
        )
    };
    for workload in groups.iter().flatten() {
        let made = calls(workload);
        let forces = made.iter().filter(|call| is_force(call)).count();
        let last = made
            .iter()
            .rfind(|call| !matches!(call, Call::Close { .. }));
        assert!(forces == 1 && last.is_some_and(is_force), "{made:?}");
    }
}

#[test]
fn corpus_of_three_calls_holds_more_and_every_takes_a_part() {
    let count = |text| corpus(text).iter().map(Vec::len).sum::<usize>();
    let (two, three) = (count("ace:seq=2"), count("ace:seq=3"));
    assert!(two > 1_000 && three > 10 * two, "{two} and {three}");
    assert_eq!(count("ace:seq=2,every=10"), two.div_ceil(10));
    println!("{two} and {three}");
}

#[test]
fn sequence_of_a_corpus_is_the_one_of_its_number() {
    let groups = corpus("ace:seq=2,every=97");
    for workload in groups.iter().flatten() {
        let again = FileWorkload::parse(&workload.text).unwrap();
        assert_eq!(calls(workload), calls(&again));
        assert!(again.corpus().is_none());
    }
}

#[test]
fn number_beyond_the_corpus_is_refused() {
    let workload = FileWorkload::parse("ace:seq=1,nth=100000").unwrap();
    let error = workload.open(Seed(1)).err().unwrap().to_string();
    assert!(error.contains("expected nth up to"), "{error}");
}
