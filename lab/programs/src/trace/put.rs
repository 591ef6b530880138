//! Appends operations: instructions in a row become one, accesses end where lines do.

use input::{Expected, expected};
use memsys::Op;

/// Most bytes of one recorded access: the largest that any of the formats' tools
/// reports (the state that `xsave` stores is below it).
const MOST: u64 = 4096;

/// `count` instructions more.
pub(super) fn compute(ops: &mut Vec<Op>, count: u32) {
    match ops.last_mut() {
        Some(Op::Compute(before)) => *before = before.saturating_add(count),
        _ => ops.push(Op::Compute(count)),
    }
}

/// An access of `size` bytes; `after` gives the dependence of its nth piece.
pub(super) fn access(
    ops: &mut Vec<Op>,
    at: u64,
    size: u64,
    store: bool,
    after: impl Fn(u64) -> u16,
) {
    for (nth, (at, size)) in (0..).zip(crate::mem::pieces(at, size)) {
        let after = after(nth);
        ops.push(match store {
            true => Op::Store { at, size, after },
            false => Op::Load { at, size, after },
        });
    }
}

/// Refuses what no program could access.
pub(super) fn check(at: u64, size: u64) -> Result<(), Expected> {
    if at >= 1 << 63 {
        return expected("an address below 2^63");
    }
    if !(1..=MOST).contains(&size) {
        return expected(format!("an access of 1 to {MOST} bytes, not {size}"));
    }
    Ok(())
}
