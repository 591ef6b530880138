//! Stacks in use: the file system is filled and written over until cleaning by file system and
//! firmware together is steady.
//!
//! [`workload::files::ageing`] is the model of the files. Every stack gets the calls of one seed,
//! in one order: those that lead to the steady state of one stack are the first ones of those that
//! lead to that of another. The calls begin on a new file system, on a drive with a past of its
//! own.
//!
//! Invariants: the contents are a function of the plan without its workload. Nothing but the
//! contents is left of the calls when a run starts: no cache, no counter but those of the drive's
//! life, and the run cannot tell whether the contents were made for it or read from a file.

mod kept;
mod make;

pub use kept::{KeptError, made_from};
pub(crate) use make::make;

use crate::error::StackError;
use crate::hosts::Memory;
use crate::plan::{Plan, Progress};
use crate::run::{self, fitted};
use report::record::UsedPast;
use ssd::DriveMedia;
use std::ops::ControlFlow;

/// Contents of a stack without power, from which a run starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// Contents of the drive.
    pub media: DriveMedia,
    /// Contents of the host's persistent memory.
    pub memory: Memory,
    /// Use of the file system before the run; `None` if the run makes a new one.
    pub used: Option<UsedPast>,
}

impl Rest {
    /// A drive on which the run makes a file system.
    #[must_use]
    pub const fn new(media: DriveMedia) -> Self {
        Self {
            media,
            memory: Memory::Blank,
            used: None,
        }
    }
}

/// The contents of the stack of `plan` before the run, with its past. `heard` is called from time
/// to time, and may break.
///
/// # Errors
/// If the stack cannot be built, if the file system has no room for its files, and
/// [`StackError::Stopped`] if `heard` broke.
pub fn rest(
    plan: &Plan,
    heard: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Rest, StackError> {
    let media = run::media(plan)?;
    match plan.used {
        None => Ok(Rest::new(media)),
        Some(used) => make(&fitted(plan), used, media, heard),
    }
}
