//! Operations of threads, as cores execute them.

use units::Bytes;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A number of instructions that touch no memory outside the core.
    Compute(u32),
    /// A load of `size` bytes at the virtual address `at`, one instruction. The address
    /// depends on the load `after` memory operations earlier in this thread; 0 for none.
    Load {
        /// Virtual address, in bytes.
        at: u64,
        /// Bytes, 1 to 64; may cross a line.
        size: u8,
        /// Distance to the load that provides the address, in loads and stores of this thread;
        /// 0 for none.
        after: u16,
    },
    /// A store of `size` bytes at `at`, one instruction; `after` as for a load.
    Store {
        /// Virtual address, in bytes.
        at: u64,
        /// Bytes, 1 to 64; may cross a line.
        size: u8,
        /// Distance to the load that provides the address, in loads and stores of this thread;
        /// 0 for none.
        after: u16,
    },
    /// Writes the line of `at` back and keeps it cached (`clwb`).
    Flush {
        /// Virtual address, in bytes.
        at: u64,
    },
    /// Completes earlier flushes of this thread before later operations (`sfence`).
    Fence,
    /// Barrier: the thread waits until all threads of the program have reached it.
    Meet,
    /// End of preparation: completes earlier operations before later ones. Measuring begins
    /// once all threads have passed it.
    Begin,
}

impl Op {
    /// Instructions that the operation stands for; 0 for flushes, fences, barriers and marks.
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
/// The operations of a thread must not depend on the time of the call: each thread is
/// executed up to its next [`Op::Meet`] without regard to the others.
pub trait Program {
    /// Number of threads; they are numbered from 0.
    fn threads(&self) -> u32;

    /// One past the highest virtual address that the program uses.
    fn footprint(&self) -> Bytes;

    /// Appends the next operations of `thread` to `ops`, some hundreds at a time.
    /// False once there are none left; the thread has ended then.
    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool;

    /// Reason why a thread ended early, if one has; the run then fails with this reason.
    fn failure(&self) -> Option<String> {
        None
    }
}
