//! The preload library: sees what an unmodified program asks of files, and what
//! becomes of what it saw.
//!
//! The crate is built three times. With the configuration `flashloom_preload` it is a
//! library without Rust's runtime that the dynamic linker puts in front of the
//! C library ([`preload`]); it appends a raw record ([`wire`]) of each call to
//! a file of the thread. With `flashloom_place` it is one that puts files in zones, or
//! gives hints for them (`place`). Built as usual it carries both as bytes, runs
//! programs under them (`run`), has the zones for all that place files (`daemon`), and
//! makes one trace of all records (`convert`).
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

#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod convert;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod daemon;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod ends;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
mod folder;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod library;
#[cfg(not(flashloom_preload))]
pub mod place;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod run;
#[cfg(not(flashloom_preload))]
mod share;
#[cfg(not(flashloom_preload))]
mod sys;
#[cfg(not(any(flashloom_preload, flashloom_place)))]
pub mod view;
