//! Appends operations: consecutive instructions are combined, and accesses are split at cache
//! lines.

use input::{Expected, expected};
use memsys::Op;

/// Largest size of one recorded access, in bytes. It covers every access that the tools of these
/// formats report (the state stored by `xsave` is smaller).
const MOST: u64 = 4096;

/// Appends `count` compute instructions.
pub(super) fn compute(ops: &mut Vec<Op>, count: u32) {
    if let Some(Op::Compute(before)) = ops.last_mut()
        && let Some(both) = before.checked_add(count)
    {
        *before = both;
        return;
    }
    ops.push(Op::Compute(count));
}

/// Appends an access of `size` bytes; `after` gives the dependence of its nth piece.
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

/// Rejects accesses that no program could make.
pub(super) fn check(at: u64, size: u64) -> Result<(), Expected> {
    if at >= 1 << 63 {
        return expected("an address below 2^63");
    }
    if !(1..=MOST).contains(&size) {
        return expected(format!("an access of 1 to {MOST} bytes, not {size}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_in_a_row_are_one_operation_while_they_can_be() {
        let mut ops = vec![Op::Fence];
        for count in [2, 3, u32::MAX - 5, 7] {
            compute(&mut ops, count);
        }
        assert_eq!(ops, [Op::Fence, Op::Compute(u32::MAX), Op::Compute(7)]);
    }
}
