//! The preload libraries, which record or place the files of unmodified programs, and the tools
//! around them.
//!
//! The crate is built three times. With the configuration `flashloom_preload` it is a `no_std`
//! library that the dynamic linker puts in front of the C library ([`preload`]); it appends a raw
//! record ([`wire`]) of each call to a file of the thread. With `flashloom_place` it is a library
//! that puts files in zones, or gives write hints for them (`place`). Built as usual it embeds both
//! libraries as bytes, runs programs under them (`run`), serves zones to all programs that place
//! files (`daemon`), and converts records to a trace (`convert`).
//!
//! Invariants:
//! - A program behaves under the library as without it: results, `errno`, descriptors, offsets and
//!   signals are the same.
//! - Activity that the library cannot see is counted or named, never guessed.
//!
//! The crate must not know the purpose of a trace, nor any drive model.

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
