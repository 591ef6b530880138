//! Configuration of the host: its processor, queues and link, and the cost of its software.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | submission | 1,380 ns | `aios` 2, a 4 KiB read: block layer 720, DMA mapping 290, driver 370 |
//! | completion by interrupt | 1,990 ns | `aios` 2: DMA unmapping 230, completion 810, context switch 950 |
//! | interrupt delivery | 500 ns | a choice of ours: the message arrives, and a core leaves its current work |
//! | submission, polled | 200 ns | `axboe2020`: 2.58 million reads a second and core, 388 ns for both ends |
//! | completion, polled | 188 ns | `axboe2020`: the rest of the 388 ns |
//! | delay of a poll | 100 ns | a choice of ours: half a round of a polling loop |
//! | queue depth | 1,024 | default of Linux' NVMe driver |
//! | load of a line | 4,800 ns | `bytefs` Table 1, over PCIe; 175 ns over CXL.mem, `bytefs` 5.6 |
//! | store of a line | 600 ns | `bytefs` Table 1, posted over PCIe; 175 ns over CXL.mem, `bytefs` 5.6 |
//! | lines in flight | 64 | a choice of ours: a page, more than the write-combining buffers of a core |
//! | cores | 8 | a choice of ours; one queue pair a core, as Linux does |

use crate::link::Link;
use serde::{Deserialize, Serialize};
use units::Ns;

/// Configuration of a host: link, processor, queues and byte access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The PCI Express link to the drive.
    pub link: Link,
    /// The processor, and the cost of commands on it.
    pub cpu: Cpu,
    /// Number and depth of the queue pairs.
    pub queues: Queues,
    /// Cost of loads from and stores to a memory-mapped drive.
    pub bytes: ByteAccess,
}

/// The mechanism by which the host notices completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The drive sends an interrupt to a core.
    Interrupt,
    /// A core polls the completion queue.
    Polling,
}

/// The processor. Its cores serve submissions and completions in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cpu {
    /// Number of cores; queue pair i runs on core i modulo this number.
    pub cores: u32,
    /// The mechanism by which the host notices completions.
    pub completion: Completion,
    /// Core time to build and submit a command, with interrupts.
    pub submit: Ns,
    /// Time from the arrival of an interrupt to its handler.
    pub interrupt_delay: Ns,
    /// Core time to complete a command by interrupt.
    pub interrupt: Ns,
    /// Core time to build and submit a command, with polling.
    pub poll_submit: Ns,
    /// Time from the arrival of a completion until a poll sees it.
    pub poll_delay: Ns,
    /// Core time to complete a command, with polling.
    pub poll: Ns,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            cores: 8,
            completion: Completion::Interrupt,
            submit: Ns(1_380),
            interrupt_delay: Ns(500),
            interrupt: Ns(1_990),
            poll_submit: Ns(200),
            poll_delay: Ns(100),
            poll: Ns(188),
        }
    }
}

impl Cpu {
    /// Core time to submit a command, for the chosen completion mechanism.
    #[must_use]
    pub const fn submission(&self) -> Ns {
        match self.completion {
            Completion::Interrupt => self.submit,
            Completion::Polling => self.poll_submit,
        }
    }

    /// Time until a completion is noticed, and core time to process it.
    #[must_use]
    pub const fn reception(&self) -> (Ns, Ns) {
        match self.completion {
            Completion::Interrupt => (self.interrupt_delay, self.interrupt),
            Completion::Polling => (self.poll_delay, self.poll),
        }
    }
}

/// Number and depth of the NVMe queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queues {
    /// Number of queue pairs.
    pub pairs: u32,
    /// Maximum number of commands in flight per queue pair.
    pub depth: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            pairs: 8,
            depth: 1_024,
        }
    }
}

/// Cost of access to cache lines of a memory-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ByteAccess {
    /// Core time of a load of a line from device DRAM, for which the core waits. Includes
    /// both ways over an idle link, but not the work of the drive.
    pub load: Ns,
    /// Core time of a posted store of a line; an idle link has transferred the line by
    /// then.
    pub store: Ns,
    /// Maximum number of lines in flight; beyond it the core waits for their arrival.
    pub posted: u32,
}

impl Default for ByteAccess {
    fn default() -> Self {
        Self {
            load: Ns(4_800),
            store: Ns(600),
            posted: 64,
        }
    }
}

/// The error for a host with a number out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("host.{knob}: {value} given, {expected} expected")]
pub struct HostError {
    knob: &'static str,
    value: u64,
    expected: &'static str,
}

/// Longest cost of one step: far beyond any host, and short enough that sums of
/// such costs stay within the clock.
const LONGEST: Ns = Ns::secs(1);

impl HostError {
    pub(crate) fn new(knob: &'static str, value: impl Into<u64>, expected: &'static str) -> Self {
        Self {
            knob,
            value: value.into(),
            expected,
        }
    }
}

impl HostConfig {
    /// Returns the configuration itself if all of its numbers are in range.
    ///
    /// # Errors
    /// Names the first knob that is out of range.
    pub fn checked(self) -> Result<Self, HostError> {
        self.link.check()?;
        let counts = [
            ("cpu.cores", self.cpu.cores),
            ("queues.pairs", self.queues.pairs),
            ("queues.depth", self.queues.depth),
            ("bytes.posted", self.bytes.posted),
        ];
        for (knob, count) in counts {
            if !(1..=65_535).contains(&count) {
                return Err(HostError::new(knob, count, "1 to 65535"));
            }
        }
        let times = [
            ("cpu.submit", self.cpu.submit),
            ("cpu.interrupt_delay", self.cpu.interrupt_delay),
            ("cpu.interrupt", self.cpu.interrupt),
            ("cpu.poll_submit", self.cpu.poll_submit),
            ("cpu.poll_delay", self.cpu.poll_delay),
            ("cpu.poll", self.cpu.poll),
            ("link.round_trip", self.link.round_trip),
            ("bytes.load", self.bytes.load),
            ("bytes.store", self.bytes.store),
        ];
        for (knob, time) in times {
            if time > LONGEST {
                return Err(HostError::new(knob, time.0, "at most 1000000000 ns"));
            }
        }
        Ok(self)
    }
}
