//! The hooks: functions of the C library's names that note what they do.
//!
//! A hook asks whether its descriptor or path is of interest, calls the next
//! function of its name in the order of the dynamic linker, and appends a
//! record to the log of its thread. Only regular files and directories are of
//! interest, and not those of `/proc`, `/sys` and `/dev`.
//!
//! How it stays out of the way:
//! - A hook allocates nothing, takes no lock and keeps `errno`, its first call
//!   included: the functions behind hooks are looked up without the dynamic
//!   linker (`lookup`), and a thread's state is static memory of it (`thread`).
//!   Allocators call hooks under locks of their own, and before any constructor
//!   has run: until then a hook is the C library's function and nothing else.
//!   The log is a shared mapping of a file without a descriptor, so a program may close or
//!   replace every descriptor it has, and a crash loses nothing that was
//!   finished.
//! - A signal handler may call hooks at any point: a record's place is taken by one
//!   exchange, and what opens the next chunk blocks signals. Each record tells how many
//!   calls it interrupted, so that they can be put before it.
//! - After `fork` by whatever name, the child finds the page that holds the
//!   number of its image zeroed by the kernel (`MADV_WIPEONFORK`), and starts
//!   logs of its own.
//! - `exec` with a cleared environment gets the variables back.
//!
//! Calls that the C library makes inside itself are not seen through its
//! names. Streams are seen where they meet the system, in the table of
//! functions of their kind (`stdio`); directory streams, temporary files and
//! `realpath` at their own names. What stays unseen: `glob`, `ftw` and `fts`
//! of the C library, `wordexp`, asynchronous input and output (`io_uring`,
//! `libaio`, `aio_*`, noted where they are set up), descriptors above 65535,
//! programs that are linked statically or that gain rights when they start, and
//! direct system calls in assembler.

mod attributes;
mod data;
mod directories;
mod log;
pub(crate) mod lookup;
mod maps;
mod names;
pub(crate) mod next;
mod open;
mod process;
pub(crate) mod raw;
pub(crate) mod start;
pub(crate) mod stdio;
pub(crate) mod thread;
mod unseen;
mod watch;

pub use maps::DESTRUCTOR;
pub use start::{CONSTRUCTOR, SPOOL, VARIABLES};

/// A hook: its name and where it is.
pub type Hook = (&'static str, *const ());

/// The names that are hooked, in groups.
pub fn hooks() -> impl Iterator<Item = Hook> {
    let groups: [&[fn() -> Hook]; 9] = [
        attributes::HOOKS,
        data::HOOKS,
        directories::HOOKS,
        maps::HOOKS,
        names::HOOKS,
        open::HOOKS,
        process::HOOKS,
        stdio::HOOKS,
        unseen::HOOKS,
    ];
    groups.into_iter().flatten().map(|hook| hook())
}

#[cfg(flashloom_preload)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing and ends the process.
    unsafe { libc::abort() }
}
