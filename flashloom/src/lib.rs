//! Flashloom as a library: the parts that the command line is made of.
//!
//! Start with [`stack`]: [`stack::Plan`] says what is run, [`stack::run()`] runs it
//! and leaves a [`report::record::Run`], and [`stack::sweep()`] runs many at once.
//! [`crash`] cuts the power and judges what is left. [`machine`] runs the
//! [`programs`] on memory that [`skybyte`] designs. [`ssd`] and [`sim`] are there to drive one
//! drive by hand.

pub use {crash, host, machine, nand, programs, report, sim, skybyte, ssd, stack, units, workload};
