//! The placing library: files that rules name are put in zones, or get hints.
//!
//! A file that a rule names and that is made anew stays an empty file of the ordinary file
//! system, with an attribute that says where its bytes really are ([`shimmer`] keeps
//! them). Descriptors, names, folders, locks and permissions are that file's; only calls
//! about bytes and lengths are answered here.
//!
//! A daemon has the zones ([`crate::daemon`]), so that any number of processes have files
//! in them, and the same ones.
//!
//! What holds:
//! - Calls on files that no rule names go to the C library after one look at a byte; the
//!   first one on a descriptor asks for a mark. Nothing else is done in between: no memory is
//!   asked for, no lock is taken, nobody is waited for. Allocators make such calls under locks
//!   of their own. What calls on placed files need is memory of the library's own (`heap`).
//! - Before the library has begun, which is after the libraries of the program and before its
//!   own code, calls are the C library's. What a library makes then is placed no more.
//! - Rules say where new files go. What is placed is served from the zones whatever they say,
//!   also where they cannot be read, and is never taken for what stands for it: without a way
//!   to the zones each call on it answers `EIO`.
//! - What a zone cannot hold (a write to the past, a hole, a shared mapping of what can be
//!   written) moves the file to the ordinary file system first: its bytes
//!   are copied into the file that stands for it, which then is one like any other. So
//!   does a name that no rule names, by which nobody would find it; if the file cannot
//!   move, it does not get that name.
//! - Programs do not see the attribute. On a copy that was made without the library it says
//!   nothing: such a file answers `EIO`, and what becomes of it becomes of no other.
//! - What was forced is there after the program, the daemon or the machine has died at any
//!   moment. What was written stays when the program is killed.
//! - When the daemon dies, programs go on with the next one. A file of which something was
//!   not forced then answers `EIO` until all have closed it: nothing is missing unawares.
//! - `io_uring`, `libaio` and `aio_*` would pass by: they answer that they are not there.
//!
//! - A signal handler that interrupts its thread within a call on a placed file gets
//!   `EDEADLK` for one of its own. In programs that keep places to jump to (`setjmp`) signals
//!   wait until such a call is done.
//!
//! What is not covered: programs that are linked statically or make system calls on their
//! own, descriptors above 65535, an offset that a program shares with one to which it has
//! sent a descriptor by a socket, files with several names that a tool without the library
//! reads (it sees what stands for them), a file without a name that a program leaves open to the one that
//! it becomes (`exec`), and a folder that gets a name by which the rules know its files no
//! more, and a mapping that is there when another process, or this one later, opens the file
//! to be written. Memory of a placed file's data that is not there is a signal, and not `EFAULT`.

mod attributes;
mod data;
mod demote;
mod durable;
mod fault;
mod files;
mod gate;
mod heap;
mod image;
mod link;
mod maps;
mod marks;
mod names;
mod number;
mod offset;
mod open;
mod printed;
mod process;
mod reach;
mod refuse;
mod rules;
mod sieve;
mod start;
mod stat;
mod streams;
mod table;
mod transfer;
mod volume;
mod zones;

#[cfg(test)]
pub(crate) use marks::Instead;
#[cfg(not(flashloom_place))]
pub(crate) use marks::Mark;
pub use rules::Rules;
pub use start::{RULES, ZONES};
pub use streams::CONSTRUCTOR;

/// A hook: its name and where it is.
pub type Hook = (&'static str, *const ());

/// The names that are hooked, in groups.
pub fn hooks() -> impl Iterator<Item = Hook> {
    let groups: [&[fn() -> Hook]; 15] = [
        attributes::HOOKS,
        data::HOOKS,
        durable::HOOKS,
        maps::HOOKS,
        names::HOOKS,
        number::HOOKS,
        open::HOOKS,
        printed::HOOKS,
        printed::OPEN_ENDED,
        process::HOOKS,
        process::PASSING,
        refuse::HOOKS,
        stat::HOOKS,
        streams::HOOKS,
        transfer::HOOKS,
    ];
    groups.into_iter().flatten().map(|hook| hook())
}
