//! The file system on a drive, found by its superblock.
//!
//! Formats are distinguished by their magic numbers. File systems that share a format are
//! distinguished by a structure that only one of them has: the mapping in memory beside the drive,
//! the record of ByteFS, Persimmon's record, or a mark of `mkfs` in the boot sector, which none of
//! the formats uses.

use super::bench::Bench;
use super::failure::Failure;
use super::filesystem::Kind;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use extfs::{BLOCK, Image};
use host::{BlockPort, Who};
use ssd::Content;
use stack::{Attached, DriveImage};
use std::ffi::OsString;
use std::path::Path;
use std::sync::LazyLock;
use units::{Extent, Placement, SECTOR};

/// The hidden argument for a file system that is to be detected.
const FOUND: &str = "found";

/// A file system that the user names, or leaves to be detected.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    As(Kind),
    Found,
}

static ALL: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let kinds = Kind::value_variants().iter().copied().map(Named::As);
    kinds.chain([Named::Found]).collect()
});

impl ValueEnum for Named {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::As(kind) => kind.to_possible_value(),
            Self::Found => Some(PossibleValue::new(FOUND).hide(true)),
        }
    }
}

impl Named {
    /// The file system on the drive of `bench`, whose file is at `path`.
    pub(crate) fn on(self, bench: &Bench, path: &Path) -> Result<Kind, Failure> {
        match self {
            Self::As(kind) => Ok(kind),
            Self::Found => find(bench, path),
        }
    }

    /// The file system on the drive in the file at `path`.
    pub(crate) fn at(self, path: &Path) -> Result<Kind, Failure> {
        match self {
            Self::As(kind) => Ok(kind),
            Self::Found => find(&Bench::open(path)?, path),
        }
    }

    /// Whether the file system is to be detected.
    pub(crate) const fn is_found(self) -> bool {
        matches!(self, Self::Found)
    }
}

/// The arguments `words` with the hidden one before the operands, if `error` says that the first
/// operand names no file system.
pub(crate) fn with_found(words: &[OsString], error: &clap::Error) -> Option<Vec<OsString>> {
    let (before, after) = words.split_at_checked(2).filter(|_| names_none(error))?;
    Some([before, &[FOUND.into()], after].concat())
}

/// Whether `error` is about an operand that should name a file system and does not.
fn names_none(error: &clap::Error) -> bool {
    let argument = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::InvalidValue
        && argument == Some(&ContextValue::String("<FILESYSTEM>".to_owned()))
}

/// The error to report for a command line, where `found` is that of the same line with the hidden
/// argument. With too many operands for that, or where a file system must be named, the user meant
/// to name one.
pub(crate) fn told(named: clap::Error, found: clap::Error) -> clap::Error {
    match found.kind() == ErrorKind::UnknownArgument || names_none(&found) {
        true => named,
        false => found,
    }
}

/// Start of a mark.
const MARK: &[u8; 8] = b"FLmkfs\0\x01";

/// A sector with the mark of `kind`; `None` if another structure distinguishes it.
fn mark(kind: Kind) -> Option<[u8; SECTOR as usize]> {
    if !matches!(kind, Kind::Pmfs | Kind::ByteFsDual | Kind::BtrfsNocow) {
        return None;
    }
    let mut sector = [0; SECTOR as usize];
    let name = kind.name().as_bytes();
    sector[..MARK.len()].copy_from_slice(MARK);
    sector[MARK.len()..][..name.len()].copy_from_slice(name);
    Some(sector)
}

/// Writes the mark of `kind` to a drive with a new file system.
pub(crate) async fn write_mark(port: &Attached, kind: Kind) -> Result<(), String> {
    let Some(sector) = mark(kind) else {
        return Ok(());
    };
    let (extent, what) = (Extent::new(0, 1), Content::Bytes(&sector));
    let written = port
        .write(extent, what, Placement(0), Who::default(), false)
        .await;
    written.map_err(|e| e.to_string())?;
    port.flush().await.map_err(|e| e.to_string())
}

/// The first blocks of a drive, which contain all superblocks.
struct Head<'a>(DriveImage<'a>);

impl Head<'_> {
    fn has(&self, at: usize, magic: &[u8]) -> bool {
        let mut block = [0; BLOCK];
        let (number, offset) = (at / BLOCK, at % BLOCK);
        self.0.read(number as u64, &mut block) && block[offset..].starts_with(magic)
    }

    /// The file systems whose superblock is present.
    fn kinds(&self, has_log: bool) -> Vec<Kind> {
        let marked = |kind: Kind| mark(kind).is_some_and(|sector| self.has(0, &sector));
        let mut kinds = Vec::new();
        // Magic numbers, little endian, with their positions.
        if self.has(0, &0x5a4f_4653_u32.to_le_bytes()) {
            kinds.push(Kind::ZoneFs);
        }
        if self.has(0, b"FlNovaFS") {
            kinds.push(Kind::Nova);
        }
        if self.has(1024, &0xf2f5_2010_u32.to_le_bytes()) {
            let appends = self.has(0, b"persimmn");
            kinds.push(if appends { Kind::Persimmon } else { Kind::F2fs });
        }
        if self.has(65_600, b"_BHRfS_M") {
            let nocow = marked(Kind::BtrfsNocow);
            kinds.push(if nocow { Kind::BtrfsNocow } else { Kind::Btrfs });
        }
        if self.has(1080, &0xef53_u16.to_le_bytes()) {
            let marked = [Kind::Pmfs, Kind::ByteFsDual]
                .into_iter()
                .find(|kind| marked(*kind));
            // The `mkfs` of ByteFS gives the drive a log of cache lines; the others remove it.
            let of_format = if has_log { Kind::ByteFs } else { Kind::Ext4 };
            kinds.push(marked.unwrap_or(of_format));
        }
        kinds
    }
}

fn find(bench: &Bench, path: &Path) -> Result<Kind, Failure> {
    if bench.memory.is_some() {
        return Ok(Kind::HyFim);
    }
    let front = bench.config.front.as_ref();
    let has_log = front.is_some_and(|front| front.log.bytes.0 > 0);
    let kinds = match bench.config.raw {
        None => Head(DriveImage::new(&bench.drive)).kinds(has_log),
        // Addresses go through a host's mapping, which has to be recovered. The bench is a separate
        // one: the file system attaches the drive again later.
        Some(_) => {
            let bench = Bench::open(path)?;
            bench.attach_as_is(path)?;
            Head(DriveImage::new(&bench.drive)).kinds(has_log)
        }
    };
    match kinds[..] {
        [kind] => Ok(kind),
        [] => Err(Failure::at(
            path,
            "no known superblock was found; name the file system before the drive",
        )),
        _ => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let names = names.join(" and ");
            let reason = format!(
                "the drive has superblocks of {names}; name one of them before \
                the drive"
            );
            Err(Failure::at(path, reason))
        }
    }
}
