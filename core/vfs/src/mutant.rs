//! Mutants: file systems with one deliberate defect, for the test of the judge of power cuts.
//!
//! A file system asks [`is()`] at the place of a defect. In a release build the answer is the
//! constant `false`, and the compiler drops the defect. In a build with debug assertions, as tests
//! have, a test selects it with `with`. With a cargo feature instead, every crate above this one
//! would be built twice: for the tests and for all that is built without them.

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<&'static str> = const { Cell::new("") };
    }

    /// Whether the file systems of this thread have the defect `name`.
    #[must_use]
    pub fn is(name: &'static str) -> bool {
        CHOSEN.get() == name
    }

    /// Gives the file systems of this thread the defect `name` while `run` runs. A simulation
    /// stays on its thread, so tests in parallel do not meet.
    pub fn with<T>(name: &'static str, run: impl FnOnce() -> T) -> T {
        CHOSEN.set(name);
        let done = run();
        CHOSEN.set("");
        done
    }
}

#[cfg(debug_assertions)]
pub use chosen::{is, with};

/// Whether the file systems of this thread have the defect `name`: never in this build.
#[cfg(not(debug_assertions))]
#[must_use]
#[inline]
pub const fn is(_name: &'static str) -> bool {
    false
}
