//! The preload library: sees what an unmodified program asks of files, and what
//! becomes of what it saw.
//!
//! The crate is built twice. With the configuration `flashloom_preload` it is a
//! library without Rust's runtime that the dynamic linker puts in front of the
//! C library ([`preload`]); it appends a raw record ([`wire`]) of each call to
//! a file of the thread. Built as usual it carries that library as bytes, runs
//! programs under it (`run`), and makes one trace of all those files (`convert`).
//!
//! Invariants:
//! - A program that runs under the library does what it did without: results,
//!   `errno`, descriptors, offsets and signals are the same.
//! - What cannot be seen is counted or named, never guessed.
//!
//! It must not know what a trace is recorded for, nor any drive.

#![cfg_attr(flashloom_preload, no_std)]

pub mod preload;
pub mod wire;

#[cfg(not(flashloom_preload))]
pub mod convert;
#[cfg(not(flashloom_preload))]
pub mod library;
#[cfg(not(flashloom_preload))]
pub mod run;
