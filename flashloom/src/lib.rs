//! Flashloom as a library: the parts that the command line is made of.
//!
//! Start with [`stack`]: a [`stack::Plan`] describes a run, [`stack::run()`] runs it and returns a
//! [`report::record::Run`], and [`stack::sweep()`] runs many at once. [`crash`] cuts the power and
//! judges the recovered state. [`machine`] runs the [`programs`] on memory that [`skybyte`]
//! designs. [`ssd`] and [`sim`] drive a single drive by hand.

pub use {crash, host, machine, nand, programs, report, sim, skybyte, ssd, stack, units, workload};
