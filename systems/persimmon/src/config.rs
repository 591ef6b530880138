//! What can be chosen, with where it comes from.

use crate::format::Entries;
use lfs::MountOptions;
use units::Bytes;
use vfs::Timestamp;

/// How chunk pages follow the metadata that they lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Those of a batch of metadata behind the batch, each once.
    //= dissertation 4.3.1
    #[default]
    Batched,
    /// One behind each block, as "every other block" is read at a mount.
    //= dissertation 4.3.5
    Paired,
}

/// How to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Free zones of metadata that there have to be once a new one was opened; with fewer,
    /// zones are cleaned. 2 in the paper.
    //= dissertation 4.3.3
    pub clean_at: u32,
    /// How chunk pages are written.
    pub pages: Pages,
    /// Most bytes of addresses of metadata in memory, or all of them if none.
    //= dissertation 4.6.5
    pub memory: Option<Bytes>,
    /// Of the body.
    pub body: MountOptions,
}

impl Options {
    /// Parts of the map in memory at most; none if all of them are.
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

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Identity.
    pub uuid: [u8; 16],
    /// The present.
    pub now: Timestamp,
    /// Label, up to 512 units of UTF-16.
    pub label: String,
    /// Hundredths of a percent of the main area that files cannot fill: 10 % in the paper.
    //= dissertation 4.6.3
    pub overprovision: u32,
    /// Zones that are kept for cleaning beside that, a choice of ours: one for each log to
    /// go on in while a zone is emptied, and two more.
    pub reserved_zones: u32,
    /// Hundredths of the size of the metadata that are given to it: 120 in the paper.
    //= dissertation 4.3.4
    pub metadata_percent: u32,
    /// Free zones of metadata that cleaning is to keep; there are enough for it.
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
