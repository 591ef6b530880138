//! Runs of whole stacks on small drives.

mod calls;
mod conserve;
mod cuts;
mod device;
mod ext4;
mod failing;
mod files;
mod fuzz;
mod jobs;
mod limits;
mod load;
#[cfg(debug_assertions)]
mod mutants;
mod ocssd;
mod placed;
mod placement;
mod policies;
mod pts;
mod remap;
mod repeat;
mod reproduce;
mod space;
mod steady;
mod trace;
mod used;
mod validate;
mod zones;

use report::record::Run;
use ssd::Precondition;
use stack::{Plan, StackError, run};
use units::{Bytes, MIB};

/// A plan on a drive of the stack's preset with `mib` MiB.
fn plan(stack: &str, mib: u64, past: Precondition, workload: &str) -> Plan {
    let stack: stack::StackName = stack.parse().expect("it is in the table");
    let drive = stack::drive::resolve(&stack.drive, Some(Bytes(mib * MIB)));
    Plan {
        label: String::new(),
        drive: drive.expect("it can be built"),
        stack,
        precondition: past,
        used: None,
        workload: workload.to_owned(),
        seed: 1,
        sample: None,
        host: host::HostConfig::default(),
        page_cache: vfs::CacheConfig::default(),
        behaviour: stack::hosts::Behaviour::default(),
        ending: stack::Ending::default(),
        until: stack::Until::default(),
        policies: ssd::Policies::default(),
    }
}

fn done(plan: &Plan) -> Run {
    run(plan, &mut |_| ()).expect("the plan can be run")
}

fn refused(plan: &Plan) -> StackError {
    run(plan, &mut |_| ()).expect_err("the plan is refused")
}
