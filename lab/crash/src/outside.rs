//! Checkers that others wrote.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Why a checker gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The image could not be written.
    #[error("an image for {program} could not be written: {source}")]
    Image {
        /// The checker.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The checker could not be started.
    #[error("{program} could not be started: {source}; on Debian it is in the package {package}")]
    Start {
        /// The checker.
        program: &'static str,
        /// Where it comes from.
        package: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Asks `e2fsck -fn` about an image of `bytes`, given as pieces with the offset of
/// each; the rest is zeros. With `recover` its own `e2fsck -fy` replays the journal
/// first. None if it has no complaint, else what it says.
///
/// # Errors
/// If it cannot be asked.
pub fn e2fsck<'a>(
    bytes: u64,
    pieces: impl Iterator<Item = (u64, &'a [u8])>,
    recover: bool,
) -> Result<Option<String>, OutsideError> {
    let program = "e2fsck";
    let image = |source| OutsideError::Image { program, source };
    let mut file = tempfile::NamedTempFile::new().map_err(image)?;
    file.as_file().set_len(bytes).map_err(image)?;
    for (offset, piece) in pieces {
        file.seek(SeekFrom::Start(offset)).map_err(image)?;
        file.write_all(piece).map_err(image)?;
    }
    let start = |source| OutsideError::Start {
        program,
        package: "e2fsprogs",
        source,
    };
    if recover {
        // What it says here is about the journal; how it left the image counts.
        ask("-fy", file.path()).map_err(start)?;
    }
    let output = ask("-fn", file.path()).map_err(start)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.code() != Some(0)).then_some(said))
}

/// Runs `e2fsck`, which ordinary users do not have on their path.
fn ask(how: &str, image: &Path) -> io::Result<Output> {
    let run = |program: &str| {
        let mut command = Command::new(program);
        command.arg(how).arg(image).stdin(Stdio::null()).output()
    };
    run("e2fsck").or_else(|_| run("/usr/sbin/e2fsck"))
}
