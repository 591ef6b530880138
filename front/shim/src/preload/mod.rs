//! The recording library: hooks with names of C library functions, which record the calls.
//!
//! A hook checks whether its descriptor or path is watched, calls the next function of its name in
//! link order, and appends a record to the log of its thread. Regular files and directories are
//! watched, except those in `/proc`, `/sys` and `/dev`.
//!
//! Measures against side effects:
//! - A hook allocates nothing, takes no lock and preserves `errno`, even in its first call: next
//!   functions are looked up without the dynamic linker (`lookup`), and the state of a thread is
//!   static memory of it (`thread`). Allocators call hooks under their own locks, and before any
//!   constructor has run: until then a hook only forwards to the C library. The log is a shared
//!   mapping of a file without a descriptor, so a program may close or replace all its descriptors,
//!   and a crash loses no finished record.
//! - A signal handler may call hooks at any point: a record's room is reserved by one atomic
//!   exchange, and signals are blocked while the next chunk is opened. Each record holds the number
//!   of calls it interrupted, so that the conversion can order them before it.
//! - After any kind of `fork` the child finds the page with its image number wiped by the kernel
//!   (`MADV_WIPEONFORK`), and starts new logs.
//! - An `exec` with a cleared environment gets the library's variables back.
//!
//! Calls that the C library makes internally do not pass through the hooks. Streams are recorded at
//! their table of functions that make system calls (`stdio`); directory streams, temporary files
//! and `realpath` by hooks of their own. Not recorded: `glob`, `ftw`, `fts` and `wordexp` of the C
//! library, asynchronous I/O (`io_uring`, `libaio`, `aio_*`; their setup is noted), descriptors
//! above 65535, programs that are linked statically or gain privileges on start, and direct system
//! calls in assembler.

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

/// A hook: the name of the C function, and the address of the replacement.
pub type Hook = (&'static str, *const ());

/// Every hook of the recording library, in groups by module.
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
    // SAFETY: `abort` has no arguments and ends the process.
    unsafe { libc::abort() }
}
