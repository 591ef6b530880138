//! The time kernel: async tasks on a virtual clock.
//!
//! An activity that waits is an `async fn`, or a record of an [`Actor`] where an event
//! must be cheap, and the kernel decides when it goes on. The clock is virtual and jumps to the next event, so firmware, file
//! systems and workloads read like the pseudo-code of their paper and a run is a
//! pure function of its inputs.
//!
//! # The contract of order
//!
//! - An event is "resume task T at time t" or "call actor A with number n at time t".
//!   Events run by (time, sequence number), and the sequence number is taken when the
//!   event is scheduled: first come, first served among equals. Nothing else decides.
//! - A woken task resumes after everything already scheduled for the same instant.
//! - Spurious wakes are allowed. Every future of this crate checks its own
//!   condition and keeps waiting, so a stale timer is harmless; a [`Server`]
//!   recognises the stale timer of a suspended job by its sequence number.
//! - One kernel is one thread. Kernels share nothing, so many may run at once.
//!
//! The standard [`std::task::Waker`] is not used: futures of this crate name the
//! task to wake by its number. A foreign future that needs a waker never resumes
//! here.
//!
//! # Three drivers
//!
//! [`Kernel::run`] jumps from event to event; [`Kernel::run_paced`] lets a
//! [`Pacer`] hold each event back until an outside clock reaches its time;
//! [`Kernel::run_to_cut`] stops before a chosen event and returns the durable
//! state. A driver that decides after each event runs one at a time ([`Kernel::step_to`]), and
//! answers an event within it ([`Kernel::continue_with`]).

mod actor;
mod calendar;
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

pub use actor::{Actor, ActorId, Timer};
pub use chance::{Rng, Seed, mix};
pub use combine::{Boxed, Elapsed, join, join_all, timeout};
pub use kernel::{Cut, JoinHandle, Kernel, Pacer, Promise, Sim, Sleep, TaskId};
pub use prefetch::prefetch;
pub use server::{Class, Discipline, Server, Service};
pub use shuffle::Shuffle;
pub use sync::{
    Acquire, Lock, LockGuard, Permit, Receiver, RwLock, Semaphore, Sender, Signal, channel,
};
pub use timeline::{Meter, Timeline};
pub use zipf::{Theta, Zipf};
