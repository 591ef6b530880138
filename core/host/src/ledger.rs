//! The ledger of traffic between host and drive, counted once, when a request succeeds.
//!
//! Invariant: the sums over purposes and over origins are equal: all traffic.

use units::Origin;

/// The purpose of transferred data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Contents of files, or of a database.
    #[default]
    Data,
    /// File system structures of no more specific purpose.
    Metadata,
    /// The journal of a file system.
    Journal,
    /// Superblock and group descriptors.
    Superblock,
    /// Block and inode bitmaps, which record free space.
    Bitmap,
    /// Inodes of a file system.
    Inode,
    /// Directory entries and their indexes.
    Directory,
    /// Blocks that map a file to its blocks, outside the inode: extent trees, indirect blocks.
    Pointer,
    /// Extended attributes outside the inode.
    Attribute,
    /// Checksums of the contents of files.
    Checksum,
}

impl Purpose {
    /// Every purpose, indexed by its number.
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

    /// Name of the purpose in reports.
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

/// The tag of a request, under which the ledger counts its traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Cause of the request: a process, a file or a structure.
    pub origin: Origin,
    /// Purpose of the transferred data.
    pub purpose: Purpose,
}

/// Numbers of bytes by granularity of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grain {
    /// Bytes transferred by loads and stores of cache lines.
    pub byte: u64,
    /// Bytes transferred by block commands.
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

/// Numbers of bytes by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read from the drive.
    pub read: Grain,
    /// Bytes written to the drive.
    pub write: Grain,
}

impl Traffic {
    /// Traffic since `before`, an earlier value of this counter.
    const fn since(self, before: Self) -> Self {
        Self {
            read: self.read.since(before.read),
            write: self.write.since(before.write),
        }
    }

    /// Whether no byte was transferred.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// All traffic of successful requests so far, by purpose and by origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    purposes: [Traffic; Purpose::ALL.len()],
    origins: Vec<Traffic>,
    /// Number of deallocated bytes.
    pub trimmed: u64,
    /// Number of flush commands.
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

    /// Traffic for `purpose`, of all origins.
    #[must_use]
    pub fn purpose(&self, purpose: Purpose) -> Traffic {
        self.purposes[purpose as usize]
    }

    /// Traffic of each origin, indexed by its number; origins past the end have none.
    #[must_use]
    pub fn origins(&self) -> &[Traffic] {
        &self.origins
    }

    /// Bytes read, of all purposes and both interfaces.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        let grains = self.purposes.iter().map(|t| t.read);
        grains.map(|g| g.byte + g.block).sum()
    }

    /// Traffic since `before`, an earlier copy of this ledger.
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

    /// Bytes written, of all purposes and both interfaces.
    #[must_use]
    pub fn write_bytes(&self) -> u64 {
        let grains = self.purposes.iter().map(|t| t.write);
        grains.map(|g| g.byte + g.block).sum()
    }
}
