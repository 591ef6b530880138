//! Derives which load an address depends on from the registers of a recorded program.
//!
//! Invariant: each register knows the newest load that its value depends on, through any number of
//! instructions. The results of an instruction depend on its own last load if it has one, and
//! otherwise on the newest load among its source registers.

use super::put;
use memsys::Op;

/// Registers of one thread.
pub(super) struct Registers {
    /// For each register, the number of its newest load among the memory operations, from 1; 0 for
    /// none.
    loads: [u64; 256],
    /// Number of memory operations so far.
    count: u64,
}

/// Register and memory operands of one instruction.
pub(super) struct Instruction<'a> {
    pub(super) sources: &'a [u8],
    pub(super) results: &'a [u8],
    /// Addresses and sizes of the accesses.
    pub(super) loads: &'a [(u64, u64)],
    pub(super) stores: &'a [(u64, u64)],
}

impl Registers {
    pub(super) const fn new() -> Self {
        Self {
            loads: [0; 256],
            count: 0,
        }
    }

    /// Appends the operations of an instruction. Register 0 means no register.
    pub(super) fn execute(&mut self, instruction: &Instruction<'_>, ops: &mut Vec<Op>) {
        let newest = |loads: &[u64; 256], of: &[u8]| {
            let real = of.iter().filter(|&&register| register != 0);
            real.map(|&register| loads[usize::from(register)])
                .max()
                .unwrap_or(0)
        };
        let mut from = newest(&self.loads, instruction.sources);
        let read = from;
        for &(at, size) in instruction.loads {
            self.access(at, size, read, false, ops);
            from = self.count;
        }
        for &(at, size) in instruction.stores {
            self.access(at, size, read, true, ops);
        }
        if instruction.loads.is_empty() && instruction.stores.is_empty() {
            put::compute(ops, 1);
        }
        for &register in instruction
            .results
            .iter()
            .filter(|&&register| register != 0)
        {
            self.loads[usize::from(register)] = from;
        }
    }

    fn access(&mut self, at: u64, size: u64, from: u64, store: bool, ops: &mut Vec<Op>) {
        let before = ops.len();
        let back = |count: u64| match from {
            0 => 0,
            from => u16::try_from(count + 1 - from).unwrap_or(0),
        };
        put::access(ops, at, size, store, |nth| back(self.count + nth));
        self.count += (ops.len() - before) as u64;
    }
}
