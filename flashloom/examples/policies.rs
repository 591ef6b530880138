//! Two policies of a caller: the choice of the next victim, and of the handle of a write. Both are
//! pure functions of their views.

use flashloom::report::record::Run;
use flashloom::ssd::{LineView, Policies, Precondition, WriteView};
use flashloom::stack::{Choices, StackError, run};
use flashloom::workload::shipped::Asked;
use std::cmp::Reverse;

/// The emptiest line of the older half: recently written data may still be overwritten.
fn windowed(lines: &[LineView]) -> &LineView {
    let mut oldest: Vec<_> = lines.iter().collect();
    oldest.sort_by_key(|view| (Reverse(view.age), view.line));
    let window = &oldest[..lines.len().div_ceil(2)];
    let emptiest = window.iter().min_by_key(|view| (view.valid, view.line));
    emptiest.expect("there is one at least")
}

/// Page programs of a drive after which data is no longer young.
const YOUNG: u64 = 128;

/// Data that replaces young data will soon be replaced itself, and is kept apart from all else.
fn by_age(write: &WriteView) -> u16 {
    u16::from(write.age.is_none_or(|age| age >= YOUNG))
}

/// A run of one workload on one aged drive, whose firmware follows `policies`.
pub(crate) fn measured(policies: &Policies) -> Result<Run, StackError> {
    let asked = Asked::new("zipfwrite:ops=60000").map_err(StackError::Shipped)?;
    let (size, usual) = ("256MiB".parse().ok(), Choices::default());
    let choices = Choices { size, ..usual };
    let mut plan = choices.plan(&"raw@fdp".parse()?, Some(Precondition::Aged.into()), &asked)?;
    plan.policies = policies.clone();
    run(&plan, &mut |_| ())
}

/// Prints the write amplification under each policy.
pub(crate) fn main() -> Result<(), StackError> {
    let usual = Policies::default();
    let victim = usual.clone().victim("windowed", windowed);
    let placement = usual.clone().placement("by age", by_age);
    let both = victim.clone().placement("by age", by_age);
    for policies in [usual, victim, placement, both] {
        let waf = measured(&policies)?.waf.device;
        println!("{waf:.2} programmed for each written: {policies:?}");
    }
    Ok(())
}
