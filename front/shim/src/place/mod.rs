//! The placing library: puts files that rules name into zones, or gives write hints for them.
//!
//! A new file that a rule names stays an empty file of the ordinary file system, its stand-in, with
//! an attribute that tells where its bytes are ([`shimmer`] stores them). Descriptors, names,
//! folders, locks and permissions are those of the stand-in; only calls on bytes and lengths are
//! served here.
//!
//! A daemon ([`crate::daemon`]) owns the zones, so that any number of processes can share them and
//! their files.
//!
//! Invariants:
//! - A call on a file that no rule names goes to the C library after a look at one byte; the first
//!   such call on a descriptor also queries the mark. It allocates nothing, takes no lock and waits
//!   for no thread, since allocators make such calls under their own locks. Calls on placed files
//!   use memory of the library's own (`heap`).
//! - Before the library is initialized, which is after the program's libraries and before the
//!   program's own code, all calls are the C library's. Files that a library creates during that
//!   time are not placed.
//! - Rules decide where new files go. A placed file is served from the zones whatever the rules
//!   say, also if they cannot be read, and is never confused with its stand-in: without a
//!   connection to the zones every call on it fails with `EIO`.
//! - A file is demoted before an operation that zones cannot serve (a write to the past, a hole, a
//!   shared mapping of a file that can be written): its bytes are copied into its stand-in, which
//!   is an ordinary file from then on. A rename or link to a name that no rule names demotes the
//!   file, too, since it would not be found by that name; if the file cannot be demoted, it does
//!   not get the name.
//! - Programs do not see the attribute. On a copy made without the library it is invalid: such a
//!   file fails with `EIO`, and no operation on it affects the placed file.
//! - Synced data survive the death of the program, the daemon or the machine at any moment. Written
//!   data survive a kill of the program.
//! - When the daemon dies, programs go on with the next one. A file with writes that were not
//!   synced then fails with `EIO` until all its openings are closed, so that no loss goes
//!   unnoticed.
//! - `io_uring`, `libaio` and `aio_*` would bypass the library: they are reported as unavailable.
//!
//! - A signal handler that interrupts its thread within a call on a placed file gets `EDEADLK` for
//!   its own calls on placed files. In programs that save jump targets (`setjmp`) signals are
//!   blocked until such a call is done.
//!
//! Not covered:
//! - programs that are linked statically or make system calls of their own;
//! - descriptors above 65535;
//! - a file offset shared by a descriptor that was sent over a socket;
//! - files with several names, read by a tool without the library (it sees their stand-ins);
//! - a file without a name that a program leaves open to the one it executes (`exec`);
//! - a folder that is renamed so that rules no longer name the files in it;
//! - a mapping that exists when another process, or this one later, opens the file for writing.
//!
//! A call with invalid memory on a placed file raises a signal instead of returning `EFAULT`.

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

/// A hook: the name of the C function, and the address of the replacement.
pub type Hook = (&'static str, *const ());

/// Every hook of the placing library, in groups by module.
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
