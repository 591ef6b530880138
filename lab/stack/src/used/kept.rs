//! Used stacks in files.
//!
//! A file is one line of JSON, with a checksum before it, and the drive's image behind it
//! ([`ssd::image`]), which has checksums of its own. The line states all that determines the
//! contents, so a file of another stack, or of a program of another version, is recognised.

use super::Rest;
use crate::hosts::Memory;
use crate::plan::Plan;
use crate::run::fitted;
use host::PmMedia;
use report::record::UsedPast;
use serde::{Deserialize, Serialize};
use ssd::Policies;
use ssd::image::{self, ImageError};
use std::io::{self, BufRead, Read, Write};

const SCHEMA: &str = "flashloom.used/1";
/// Most bytes of the first line of a snapshot.
const LINE: u64 = 1 << 20;

/// Reason why a file is not the used stack that it should be.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The line is missing or damaged.
    #[error("expected a line with a checksum and the schema {SCHEMA}")]
    Line,
    /// The file is that of another stack or program.
    #[error("the file was made for another stack, or by another version of the program")]
    Other,
    /// The image of the drive is damaged.
    #[error(transparent)]
    Image(#[from] ImageError),
}

#[derive(Serialize, Deserialize)]
struct Line {
    schema: String,
    made_from: String,
    used: UsedPast,
}

/// Everything that determines the used stack of `plan`, as text: `program` is the version of the
/// program. `None` if the plan's contents are made by its run, or depend on a caller's code.
#[must_use]
pub fn made_from(plan: &Plan, program: &str) -> Option<String> {
    let plan = fitted(plan);
    let used = plan.used.filter(|_| plan.policies == Policies::default())?;
    let (stack, seed, past) = (&plan.stack, plan.seed, plan.precondition.name());
    let (drive, host) = (&plan.drive, &plan.host);
    let (cache, behaviour) = (&plan.page_cache, &plan.behaviour);
    let model = format!("{drive:?} {host:?} {cache:?} {behaviour:?}");
    Some(format!(
        "{program}, {stack}, {past}, {used}, seed {seed}, {model}"
    ))
}

impl Rest {
    /// Writes the used stack of `plan`, which `made_from` determines.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, plan: &Plan, made_from: &str, out: &mut impl Write) -> io::Result<()> {
        let line = Line {
            schema: SCHEMA.to_owned(),
            made_from: made_from.to_owned(),
            used: self.used.unwrap_or_default(),
        };
        let line = serde_json::to_string(&line)?;
        writeln!(out, "{:08x} {line}", crc32c::crc32c(line.as_bytes()))?;
        let memory = match &self.memory {
            Memory::Blank => None,
            Memory::Left(media) => Some(media.kept()),
        };
        image::write_with(&fitted(plan).drive, &self.media, memory.as_ref(), out)?;
        Ok(())
    }

    /// Reads the used stack of `plan`, which `made_from` determines.
    ///
    /// # Errors
    /// If the file is damaged, or that of another stack.
    pub fn read(plan: &Plan, made_from: &str, input: &mut impl BufRead) -> Result<Self, KeptError> {
        let mut text = String::new();
        let line = input.by_ref().take(LINE).read_line(&mut text);
        line.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => KeptError::Line,
            _ => error.into(),
        })?;
        let line = parse(&text).ok_or(KeptError::Line)?;
        if line.made_from != made_from {
            return Err(KeptError::Other);
        }
        let opened = image::open(input)?;
        if opened.config != fitted(plan).drive {
            return Err(KeptError::Other);
        }
        let memory = opened.memory.map(PmMedia::of);
        Ok(Self {
            media: opened.media,
            memory: memory.map_or(Memory::Blank, Memory::Left),
            used: Some(line.used),
        })
    }
}

fn parse(text: &str) -> Option<Line> {
    let (sum, line) = text.strip_suffix('\n')?.split_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(line.as_bytes()) {
        return None;
    }
    let line: Line = serde_json::from_str(line).ok()?;
    (line.schema == SCHEMA).then_some(line)
}
