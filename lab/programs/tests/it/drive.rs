//! Drives a program as a machine would, without a machine.

use memsys::{Op, Program};

/// The order in which threads are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turns {
    /// One batch of each thread in turn, from the first to the last.
    Forth,
    /// Each thread up to its next barrier, from the last to the first.
    Back,
}

/// Runs the program to its end and passes each batch to `see`.
pub(crate) fn drive(program: &mut dyn Program, turns: Turns, mut see: impl FnMut(usize, &[Op])) {
    let count = program.threads() as usize;
    let (mut ended, mut waits) = (vec![false; count], vec![false; count]);
    let mut ops = Vec::new();
    while ended.iter().any(|e| !e) {
        let order: Vec<usize> = match turns {
            Turns::Forth => (0..count).collect(),
            Turns::Back => (0..count).rev().collect(),
        };
        for thread in order {
            while !ended[thread] && !waits[thread] {
                ops.clear();
                ended[thread] = !program.next(thread as u32, &mut ops);
                waits[thread] = ops.last() == Some(&Op::Meet);
                see(thread, &ops);
                if matches!(turns, Turns::Forth) {
                    break;
                }
            }
        }
        if (0..count).all(|t| ended[t] || waits[t]) {
            waits.fill(false);
        }
    }
}

/// Collects all operations of each thread.
pub(crate) fn all(mut program: impl Program, turns: Turns) -> Vec<Vec<Op>> {
    let mut all = vec![Vec::new(); program.threads() as usize];
    drive(&mut program, turns, |thread, ops| {
        all[thread].extend_from_slice(ops);
    });
    all
}

/// Runs the program and discards its operations.
pub(crate) fn finish(mut program: impl Program) {
    drive(&mut program, Turns::Forth, |_, _| {});
}

/// Address and size of a load or store.
pub(crate) fn touched(op: &Op) -> Option<(u64, u64)> {
    match *op {
        Op::Load { at, size, .. } | Op::Store { at, size, .. } => Some((at, size.into())),
        _ => None,
    }
}
