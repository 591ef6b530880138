//! What a thread does, as the cores see it.

use units::Bytes;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// So many instructions that touch no memory beyond what every core holds.
    Compute(u32),
    /// A load of `size` bytes at the virtual address `at`. Its address is made from
    /// what the load `after` memory operations earlier in this thread returned; 0
    /// when it depends on none of them. One instruction.
    Load {
        /// Virtual address, in bytes.
        at: u64,
        /// Bytes, 1 to 64; may cross a line.
        size: u8,
        /// How many loads and stores of this thread back; 0 for none.
        after: u16,
    },
    /// A store, in the same terms. One instruction.
    Store {
        /// Virtual address, in bytes.
        at: u64,
        /// Bytes, 1 to 64; may cross a line.
        size: u8,
        /// How many loads and stores of this thread back; 0 for none.
        after: u16,
    },
    /// The line of `at` is written back and kept (`clwb`).
    Flush {
        /// Virtual address, in bytes.
        at: u64,
    },
    /// Earlier flushes of this thread are done before what follows (`sfence`).
    Fence,
    /// The thread waits here until all threads of the program have come here.
    Meet,
    /// What came before was preparation, and is done before what follows: once all threads have
    /// passed this, measuring begins.
    Begin,
}

impl Op {
    /// Instructions of a program that it stands for; what only orders or marks counts as none.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        match self {
            Self::Compute(count) => *count as u64,
            Self::Load { .. } | Self::Store { .. } => 1,
            Self::Flush { .. } | Self::Fence | Self::Meet | Self::Begin => 0,
        }
    }
}

/// Threads that run in one address space.
///
/// What a thread does must not depend on the time at which it is asked: a program is
/// executed as far as its next [`Op::Meet`] without regard to the others.
pub trait Program {
    /// Threads, numbered from 0.
    fn threads(&self) -> u32;

    /// Highest virtual address that is used, plus one.
    fn footprint(&self) -> Bytes;

    /// Appends the next operations of `thread` to `ops`, some hundreds at a time.
    /// False once there are none left; the thread has ended then.
    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool;

    /// Why a thread has ended before all was done that it should do, if one has: a run
    /// ends with that.
    fn failure(&self) -> Option<String> {
        None
    }
}
