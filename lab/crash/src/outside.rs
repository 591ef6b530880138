//! Checkers of formats that other projects wrote: `e2fsck`, `fsck.f2fs`, `btrfs check`.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use whole::Scratch;

/// Reason for which a checker gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The image could not be written.
    #[error("an image for {program} could not be written: {source}")]
    Image {
        /// Name of the checker that was to run.
        program: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The checker could not be started.
    #[error("{program} could not be started: {source}; on Debian it is in the package {package}")]
    Start {
        /// Name of the checker that is missing.
        program: &'static str,
        /// Package that contains the checker.
        package: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// An image in a file: pieces with the offset of each; the rest is zeros.
fn image<'a>(
    program: &'static str,
    bytes: u64,
    pieces: impl Iterator<Item = (u64, &'a [u8])>,
) -> Result<Scratch, OutsideError> {
    let wrong = |source| OutsideError::Image { program, source };
    let scratch = Scratch::new().map_err(wrong)?;
    scratch.file().set_len(bytes).map_err(wrong)?;
    for (offset, piece) in pieces {
        scratch.file().write_all_at(piece, offset).map_err(wrong)?;
    }
    Ok(scratch)
}

/// Runs `e2fsck -fn` on an image of `bytes`, given as pieces with the offset of
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
    let file = image(program, bytes, pieces)?;
    let start = |source| OutsideError::Start {
        program,
        package: "e2fsprogs",
        source,
    };
    if recover {
        // What it says here is about the journal; how it left the image counts.
        ask(program, &["-fy"], file.path()).map_err(start)?;
    }
    let output = ask(program, &["-fn"], file.path()).map_err(start)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.code() != Some(0)).then_some(said))
}

/// Words of lines in which `fsck.f2fs` finds something wrong. Its status is 0 whatever it
/// finds on a dry run.
const F2FS_COMPLAINTS: [&str; 4] = ["[Fail]", "[ASSERT]", "unreachable", "Invalid"];

/// Message with which `fsck.f2fs` gives up where nodes that were forced since the last checkpoint lead to one of
/// the last segments. Up to 1.15 it takes the segments of the main area alone for those
/// of the whole medium, and so its end for nearer than it is (`TOTAL_SEGS` in
/// `fsck/f2fs.h`, which later versions have mended).
const F2FS_GIVES_UP: &str = "record_fsync_data failed";
/// Message that precedes [`F2FS_GIVES_UP`] if the nodes are wrong.
const F2FS_LOOP: &str = "looped node chain";

/// Message about a checkpoint whose write the power cut interrupted; `fsck.f2fs` then takes
/// the other checkpoint, as it should.
const F2FS_TORN: &str = "Invalid CP CRC offset";

/// Runs `fsck.f2fs` on an image of `bytes`, given as pieces with the offset of each;
/// the rest is zeros. It walks all that the last checkpoint leads to, and changes
/// nothing. None if it has no complaint, else what it says. If `unrecovered`, it may also
/// not be able to walk at all, for a reason that is its own.
///
/// # Errors
/// If it cannot be asked.
pub fn fsck_f2fs<'a>(
    bytes: u64,
    pieces: impl Iterator<Item = (u64, &'a [u8])>,
    unrecovered: bool,
) -> Result<Option<String>, OutsideError> {
    let program = "fsck.f2fs";
    let file = image(program, bytes, pieces)?;
    let start = |source| OutsideError::Start {
        program,
        package: "f2fs-tools",
        source,
    };
    let output = ask(program, &["-f", "--dry-run"], file.path()).map_err(start)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let is_torn = |line: &str| unrecovered && line.contains(F2FS_TORN);
    let has_words = |line: &str| F2FS_COMPLAINTS.iter().any(|word| line.contains(word));
    let complains = |line: &str| has_words(line) && !is_torn(line);
    // A checker that gives up has not come to its last line.
    let gave_up = unrecovered && said.contains(F2FS_GIVES_UP) && !said.contains(F2FS_LOOP);
    let done = gave_up || said.contains("other corrupted bugs");
    Ok((!done || said.lines().any(complains)).then_some(said))
}

/// Runs `btrfs check` on an image of `bytes`, given as pieces with the offset of each;
/// the rest is zeros. It walks all that the last commit leads to, reads contents beside
/// their sums, and changes nothing. None if it has no complaint, else what it says.
///
/// # Errors
/// If it cannot be asked.
pub fn btrfs_check<'a>(
    bytes: u64,
    pieces: impl Iterator<Item = (u64, &'a [u8])>,
) -> Result<Option<String>, OutsideError> {
    let program = "btrfs";
    let file = image(program, bytes, pieces)?;
    let start = |source| OutsideError::Start {
        program,
        package: "btrfs-progs",
        source,
    };
    let how = ["check", "--readonly", "--check-data-csum"];
    let output = ask(program, &how, file.path()).map_err(start)?;
    let content = output.status.success();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((!content || !said.contains("no error found")).then_some(said))
}

/// Command of a checker, found in `sbin` too, which ordinary users do not have on their path.
fn ask(program: &str, how: &[&str], image: &Path) -> io::Result<Output> {
    let run = |program: &str| {
        let mut command = Command::new(program);
        command.args(how).arg(image).stdin(Stdio::null()).output()
    };
    run(program).or_else(|_| run(&format!("/usr/sbin/{program}")))
}
