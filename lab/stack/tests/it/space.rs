//! Runs on full drives report the limit that was hit, and its holders.

use crate::{done, plan, refused};
use report::record::{Refusal, Run};
use ssd::Precondition;

/// Number of calls that failed with `ENOSPC`.
fn errors(run: &Run) -> u64 {
    let errors = run
        .errors
        .iter()
        .filter(|(reason, _)| reason.ends_with(" ENOSPC"));
    errors.map(|(_, count)| count).sum()
}

fn adds_up(met: &Refusal) {
    let held: u64 = met.held_by.iter().map(|holder| holder.amount).sum();
    assert_eq!(held + met.free, met.total, "{met:?}");
    assert!(met.asked > met.free - met.reserve, "{met:?}");
}

/// Every call without space hit a limit, whose total is accounted for.
#[test]
fn every_call_without_space_hit_an_accounted_limit() {
    for (stack, limit) in [
        ("ext4@block", "blocks"),
        ("f2fs@block", "blocks"),
        ("bytefs@byte", "blocks"),
        ("pmfs@byte", "blocks"),
        ("nova@byte", "pages"),
    ] {
        let workload = "anything:ops=600,size=256k,room=64k";
        let run = done(&plan(stack, 64, Precondition::Fresh, workload));
        assert!(errors(&run) > 50, "{stack}: {:?}", run.errors);
        run.refusals.iter().for_each(adds_up);
        let times: u64 = run.refusals.iter().map(|met| met.times).sum();
        assert!(times >= errors(&run), "{stack}: {times} {:?}", run.errors);
        assert!(run.refusals.iter().any(|met| met.limit == limit));
        let first: Vec<u64> = run.refusals.iter().map(|met| met.first_ns).collect();
        assert!(
            first.is_sorted() && first[0] <= run.sim_time_ns,
            "{first:?}"
        );
    }
}

#[test]
fn workload_that_does_not_fit_is_rejected_with_the_limit() {
    let workload = "varmail:files=4300";
    let said = refused(&plan("ext4@block", 64, Precondition::Fresh, workload)).to_string();
    let parts = [
        "ENOSPC",
        "blocks: ",
        " asked for, ",
        "; held by ",
        "the journal (",
    ];
    for part in parts {
        assert!(said.contains(part), "{said}");
    }
}

/// Writes to full zones hit a limit; writes to wrong positions do not.
#[test]
fn full_zones_are_limits_and_wrong_positions_are_not() {
    let run = done(&plan(
        "raw@zns",
        64,
        Precondition::Full,
        "randwrite:ops=500",
    ));
    run.refusals.iter().for_each(adds_up);
    let met: Vec<(&str, u64)> = run
        .refusals
        .iter()
        .map(|met| (met.limit.as_str(), met.times))
        .collect();
    assert_eq!(met, [("bytes of a zone", run.errors["zone full"])]);
    let calm = done(&plan("raw@zns", 64, Precondition::Full, "seqwrite:ops=100"));
    assert_eq!(calm.refusals, []);
}
