//! The time kernel: async tasks on a virtual clock.
//!
//! Whatever waits is an `async fn`; the kernel decides when it goes on. The
//! clock is virtual and jumps to the next event, so firmware, file systems and
//! workloads read like the pseudo-code of their paper and a run is a pure
//! function of its inputs.
//!
//! # The contract of order
//!
//! - An event is "task T goes on at time t". Events run by (time, sequence
//!   number), and the sequence number is taken when the event is scheduled: first
//!   come, first served among equals. Nothing else decides.
//! - A task that is woken goes on after everything already scheduled for the
//!   same instant.
//! - A task may be woken without cause. Every future of this crate checks its own
//!   condition and waits on, so a timer that lost its meaning is harmless; a
//!   served job that was suspended recognises the stale one by its end time.
//! - One kernel is one thread. Kernels share nothing, so many may run at once.
//!
//! The standard [`std::task::Waker`] is not used: futures of this crate name the
//! task to wake by its number. A future from elsewhere that needs a waker never
//! goes on here.
//!
//! # Three drivers
//!
//! [`Kernel::run`] jumps from event to event; [`Kernel::run_paced`] lets a
//! [`Pacer`] hold each event back until its time has come outside;
//! [`Kernel::run_to_cut`] stops before a chosen event and hands back what is
//! durable.

pub mod chance;
mod combine;
pub mod fixed;
mod kernel;
#[allow(unsafe_code, reason = "measured to be worth it; see the module")]
mod prefetch;
mod queue;
mod server;
mod shuffle;
mod sync;
mod timeline;
mod zipf;

pub use chance::{Rng, Seed, mix};
pub use combine::{Elapsed, join, join_all, timeout};
pub use kernel::{Cut, JoinHandle, Kernel, Pacer, Sim, Sleep, TaskId};
pub use prefetch::prefetch;
pub use server::{Class, Discipline, Server, Service};
pub use shuffle::Shuffle;
pub use sync::{
    Acquire, Lock, LockGuard, Permit, Receiver, RwLock, Semaphore, Sender, Signal, channel,
};
pub use timeline::{Meter, Timeline};
pub use zipf::{Theta, Zipf};
