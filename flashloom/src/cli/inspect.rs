//! `inspect`: the structures of a file system on a drive in a file, as text.

use super::Answer;
use super::bench::Bench;
use super::failure::Failure;
use super::filesystem::{Kind, attach, finish};
use super::found::Named;
use super::output::note;
use super::recover::{replay, replay_exchanges};
use clap::{Args, ValueEnum};
use extfs::Inspector;
use stack::DriveImage;
use std::fmt::Display;
use std::path::PathBuf;

/// Print a file system's on-disk structures
#[derive(Args)]
#[command(override_usage = "flashloom inspect [FILESYSTEM] <DRIVE> [WHAT] [INODE]")]
pub(crate) struct Inspect {
    /// File system; if omitted, it is detected by its superblock
    #[arg(value_enum, value_name = "FILESYSTEM")]
    kind: Named,
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Structure to print
    #[arg(value_enum, default_value = "superblock")]
    what: What,
    /// Inode number [default: the root directory]
    inode: Option<u64>,
}

/// Structures that `inspect` prints.
#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Fields of the superblock
    Superblock,
    /// Block groups or chunks, one per line
    Groups,
    /// Fields of an inode
    Inode,
    /// Extents of a file
    Extents,
    /// Directory entries and their blocks
    Directory,
}

impl Inspect {
    pub(crate) fn run(&self) -> Answer {
        if let (What::Superblock | What::Groups, Some(number)) = (self.what, self.inode) {
            let reason = format!(
                "expected no inode number: this structure exists once on a drive; \
                found {number}"
            );
            return Err(Failure::new(reason));
        }
        let bench = Bench::open(&self.path)?;
        let kind = self.kind.on(&bench, &self.path)?;
        let has_trees = matches!(kind, Kind::Btrfs | Kind::BtrfsNocow | Kind::HyFim);
        if !has_trees && !kind.is_ext4() {
            let reason = format!("inspect does not support the format of {}", kind.name());
            return Err(Failure::new(reason));
        }
        let port = attach(&bench, &self.path, kind)?;
        let sim = bench.kernel.sim();
        let text = match kind {
            Kind::Btrfs | Kind::BtrfsNocow => {
                self.trees(&bench, finish(&bench, &self.path, replay(sim, port))?)?
            }
            Kind::HyFim => self.trees(
                &bench,
                finish(&bench, &self.path, replay_exchanges(sim, port))?,
            )?,
            _ => self.tables(&bench)?,
        };
        text.ok_or_else(|| {
            let reason = match self.inode {
                Some(inode) => format!(
                    "inode {inode} does not exist or does not have this \
                    structure"
                ),
                None => "the root directory does not have this structure".to_owned(),
            };
            Failure::at(&self.path, reason)
        })
    }

    /// Structures in the format of ext4.
    fn tables(&self, bench: &Bench) -> Result<Option<String>, Failure> {
        let image = DriveImage::new(&bench.drive);
        let inspector = Inspector::new(&image).map_err(|e| Failure::at(&self.path, e))?;
        // An out-of-range number becomes one that no inode has.
        let inode = u32::try_from(self.inode.unwrap_or(2)).unwrap_or(u32::MAX);
        Ok(match self.what {
            What::Superblock => Some(inspector.superblock()),
            What::Groups => Some(inspector.groups()),
            What::Inode => inspector.inode(inode),
            What::Extents => inspector.extents(inode),
            What::Directory => inspector.directory(inode),
        })
    }

    /// Structures of Btrfs, after the log trees are `replayed` in memory.
    fn trees<E: Display>(
        &self,
        bench: &Bench,
        replayed: Result<u64, E>,
    ) -> Result<Option<String>, Failure> {
        replayed.map_err(|e| Failure::at(&self.path, e))?;
        let image = DriveImage::new(&bench.drive);
        let wrong = |findings: Vec<vfs::Finding>| {
            let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
            Failure::at(&self.path, all.join("; "))
        };
        let mut inspector = cowfs::Inspector::new(&image).map_err(wrong)?;
        let inode = self.inode.unwrap_or(cowfs::ROOT);
        let text = match self.what {
            What::Superblock => Some(inspector.superblock()),
            What::Groups => Some(inspector.groups()),
            What::Inode => inspector.inode(inode),
            What::Extents => inspector.extents(inode),
            What::Directory => inspector.directory(inode),
        };
        // The intact rest of a damaged file system is still printed.
        for finding in inspector.findings() {
            note(&format!("flashloom: {}: {finding}", self.path.display()));
        }
        Ok(text)
    }
}
