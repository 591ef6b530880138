//! Options of mount and mkfs, each with its source.

use crate::format::Entries;
use lfs::MountOptions;
use units::Bytes;
use vfs::Timestamp;

/// Order of chunk pages relative to the metadata blocks that they map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// All pages of a batch of metadata follow the batch, each page once.
    //= dissertation 4.3.1
    #[default]
    Batched,
    /// A page follows each block: the paper's mount reads "every other block".
    //= dissertation 4.3.5
    Paired,
}

/// Options of a Persimmon mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Free metadata zones below which appending metadata cleans zones first; the paper has 2.
    //= dissertation 4.3.3
    pub clean_at: u32,
    /// Order in which chunk pages are written.
    pub pages: Pages,
    /// Bytes of the map (MAT) kept in memory at most; `None` keeps the whole map there.
    //= dissertation 4.6.5
    pub memory: Option<Bytes>,
    /// Options of the F2FS body ([`lfs`]).
    pub body: MountOptions,
}

impl Options {
    /// Parts of the map kept in memory at most; `None` is no limit.
    pub(crate) fn parts(&self) -> Option<usize> {
        let most = self.memory?;
        Some(most.0 as usize / size_of::<Entries>())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clean_at: 2,
            pages: Pages::default(),
            memory: None,
            body: MountOptions::default(),
        }
    }
}

/// Options for the creation of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// UUID of the file system; also seeds the checksums of Persimmon's own blocks.
    pub uuid: [u8; 16],
    /// Creation time, stamped on the root directory.
    pub now: Timestamp,
    /// Volume label, up to 512 UTF-16 units.
    pub label: String,
    /// Over-provisioning of the main area in hundredths of a percent: 10 % in the paper.
    //= dissertation 4.6.3
    pub overprovision: u32,
    /// Main zones reserved for cleaning in addition, our choice: one for each log to continue
    /// in while a zone is cleaned, and two more.
    pub reserved_zones: u32,
    /// Size of the metadata area in percent of the size of the metadata: 120 in the paper.
    //= dissertation 4.3.4
    pub metadata_percent: u32,
    /// Free metadata zones that cleaning keeps; the layout reserves enough zones for that.
    pub clean_at: u32,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            uuid: *b"\x1f\x1a\x55\x10\x00\x00\x40\x00\x80\x00prsm\x00\x01",
            now: Timestamp::default(),
            label: String::new(),
            overprovision: 1_000,
            reserved_zones: 8,
            metadata_percent: 120,
            clean_at: 2,
        }
    }
}
