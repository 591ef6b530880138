//! Flashloom as a library: the parts that the command line is made of.
//!
//! Start with [`stack`]: [`stack::Plan`] says what is run, [`stack::run()`] runs it
//! and leaves a [`report::record::Run`], and [`stack::sweep()`] runs many at once.
//! [`ssd`] and [`sim`] are there to drive one drive by hand.

pub use {host, nand, report, sim, ssd, stack, units, workload};
