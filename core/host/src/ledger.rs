//! Traffic between host and drive, counted once, where it passes.
//!
//! Invariant: the purposes add up to the origins, and both to all traffic.

use units::Origin;

/// What data are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Contents of files, or of a database.
    #[default]
    Data,
    /// Structures of a file system that are not told apart.
    Metadata,
    /// The journal of a file system.
    Journal,
    /// Superblock and group descriptors.
    Superblock,
    /// What is free: block and inode bitmaps.
    Bitmap,
    /// Inodes.
    Inode,
    /// Directory entries and their indexes.
    Directory,
    /// What leads from a file to its blocks, outside the inode.
    Pointer,
    /// Extended attributes outside the inode.
    Attribute,
    /// Sums of the contents of files.
    Checksum,
}

impl Purpose {
    /// All purposes, by number.
    pub const ALL: [Self; 10] = [
        Self::Data,
        Self::Metadata,
        Self::Journal,
        Self::Superblock,
        Self::Bitmap,
        Self::Inode,
        Self::Directory,
        Self::Pointer,
        Self::Attribute,
        Self::Checksum,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Metadata => "metadata",
            Self::Journal => "journal",
            Self::Superblock => "superblock",
            Self::Bitmap => "bitmap",
            Self::Inode => "inode",
            Self::Directory => "directory",
            Self::Pointer => "pointer",
            Self::Attribute => "attribute",
            Self::Checksum => "checksum",
        }
    }
}

/// Who asks, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Who.
    pub origin: Origin,
    /// What for.
    pub purpose: Purpose,
}

/// Bytes by granularity of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grain {
    /// Through a byte interface.
    pub byte: u64,
    /// Through a block interface.
    pub block: u64,
}

impl Grain {
    const fn since(self, before: Self) -> Self {
        Self {
            byte: self.byte - before.byte,
            block: self.block - before.block,
        }
    }
}

/// Bytes by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from the drive.
    pub read: Grain,
    /// Written to it.
    pub write: Grain,
}

impl Traffic {
    /// What came after `before`.
    const fn since(self, before: Self) -> Self {
        Self {
            read: self.read.since(before.read),
            write: self.write.since(before.write),
        }
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// All traffic so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    purposes: [Traffic; Purpose::ALL.len()],
    origins: Vec<Traffic>,
    /// Bytes deallocated.
    pub trimmed: u64,
    /// Flush commands.
    pub flushes: u64,
}

impl Ledger {
    pub(crate) fn book(&mut self, who: Who, add: impl Fn(&mut Traffic)) {
        let origin = usize::from(who.origin.0);
        if origin >= self.origins.len() {
            self.origins.resize(origin + 1, Traffic::default());
        }
        add(&mut self.origins[origin]);
        add(&mut self.purposes[who.purpose as usize]);
    }

    /// Traffic for `purpose`.
    #[must_use]
    pub fn purpose(&self, purpose: Purpose) -> Traffic {
        self.purposes[purpose as usize]
    }

    /// Traffic by origin, by its number.
    #[must_use]
    pub fn origins(&self) -> &[Traffic] {
        &self.origins
    }

    /// Bytes read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        let grains = self.purposes.iter().map(|t| t.read);
        grains.map(|g| g.byte + g.block).sum()
    }

    /// The traffic after `before`, which is what this ledger once was.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let origins = self.origins.iter().enumerate();
        let then = |origin: usize| before.origins.get(origin).copied().unwrap_or_default();
        Self {
            purposes: std::array::from_fn(|p| self.purposes[p].since(before.purposes[p])),
            origins: origins.map(|(o, traffic)| traffic.since(then(o))).collect(),
            trimmed: self.trimmed - before.trimmed,
            flushes: self.flushes - before.flushes,
        }
    }

    /// Bytes written.
    #[must_use]
    pub fn write_bytes(&self) -> u64 {
        let grains = self.purposes.iter().map(|t| t.write);
        grains.map(|g| g.byte + g.block).sum()
    }
}
