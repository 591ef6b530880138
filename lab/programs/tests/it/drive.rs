//! Drives a program as a machine would, without one.

use memsys::{Op, Program};

/// In which order threads are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turns {
    /// Each for one batch, from the first to the last.
    Forth,
    /// Each as far as it goes, from the last to the first.
    Back,
}

/// Runs the program to its end; `see` gets each thread's batches.
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

/// All that each thread does.
pub(crate) fn all(mut program: impl Program, turns: Turns) -> Vec<Vec<Op>> {
    let mut all = vec![Vec::new(); program.threads() as usize];
    drive(&mut program, turns, |thread, ops| {
        all[thread].extend_from_slice(ops);
    });
    all
}

/// Runs it and forgets what it did.
pub(crate) fn finish(mut program: impl Program) {
    drive(&mut program, Turns::Forth, |_, _| {});
}

/// Where and how much an operation touches.
pub(crate) fn touched(op: &Op) -> Option<(u64, u64)> {
    match *op {
        Op::Load { at, size, .. } | Op::Store { at, size, .. } => Some((at, size.into())),
        _ => None,
    }
}
