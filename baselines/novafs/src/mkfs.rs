//! Formatting a medium.

use crate::commit::journal_header;
use crate::format::{
    Anchor, Birth, CORES_MAX, Geometry, LINE, LINE_BYTES, PAGE, PAGE_BYTES, POOL_MIN, ROOT, table,
    table_header,
};
use crate::mount::MountError;
use host::{BlockPort, ByteDisk, BytePort, Purpose, Who};
use sim::Boxed;
use units::Origin;
use vfs::{FileKind, Timestamp};

/// Options for formatting a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Number of cores, each with a journal, an inode table and a list of free pages: 1 to 64.
    pub cores: u32,
    /// Time of creation of the root directory.
    pub now: Timestamp,
    /// Origin to which the stores are attributed.
    pub origin: Origin,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            cores: 4,
            now: Timestamp::default(),
            origin: Origin(0),
        }
    }
}

/// Makes an empty file system as large as `port`.
///
/// # Errors
/// [`MountError::Size`] if the port is too small or too large, or there are too many cores; an
/// error of the port.
pub fn mkfs<'a>(
    port: &impl BytePort,
    options: &'a MkfsOptions,
) -> Boxed<'a, Result<(), MountError>> {
    mkfs_disk(ByteDisk::from(port), options)
}

fn mkfs_disk(port: ByteDisk, options: &MkfsOptions) -> Boxed<'_, Result<(), MountError>> {
    Box::pin(async move { make(&port, options).await })
}

async fn make(port: &ByteDisk, options: &MkfsOptions) -> Result<(), MountError> {
    let pages = port.capacity().0 / PAGE_BYTES;
    let cores = u64::from(options.cores);
    let geometry = Geometry::new(pages, cores).ok_or(MountError::Size {
        pages,
        cores,
        least: 1 + 2 * cores.clamp(1, CORES_MAX) + POOL_MIN,
    })?;
    let who = |purpose| {
        let origin = options.origin;
        Who { origin, purpose }
    };
    port.recover_once().await?;
    // Clears the old superblock first: the medium is invalid until the new one is stored.
    port.store(0, &[0; PAGE], 0, who(Purpose::Superblock))
        .await?;
    port.verify().await?;
    for core in 0..cores {
        let mut page = [0; PAGE];
        page[..LINE].copy_from_slice(&journal_header(0));
        let at = geometry.journal(core) * PAGE_BYTES;
        port.store(at, &page, 0, who(Purpose::Journal)).await?;
        let mut page = [0; PAGE];
        page[..LINE].copy_from_slice(&table_header(core, 0, 0));
        if core == ROOT.0 % cores {
            write_root(&mut page, &geometry, options.now);
        }
        let at = geometry.table(core) * PAGE_BYTES;
        port.store(at, &page, 0, who(Purpose::Inode)).await?;
    }
    port.verify().await?;
    let superblock = geometry.encode();
    port.store(0, &superblock, 0, who(Purpose::Superblock))
        .await?;
    port.verify().await?;
    Ok(())
}

/// Writes the root directory into the first page of its table.
fn write_root(page: &mut [u8; PAGE], geometry: &Geometry, now: Timestamp) {
    let (_, _, slot) = geometry.place(ROOT.0);
    let at = (slot as usize + 1) * table::SLOT;
    let anchor = Anchor {
        valid: true,
        ino: ROOT.0,
        ..Anchor::default()
    };
    let birth = Birth {
        kind: FileKind::Directory,
        mode: 0o755,
        nlink: 2,
        uid: 0,
        gid: 0,
        rdev: 0,
        generation: 0,
        time: now,
        parent: ROOT,
    };
    page[at..at + LINE].copy_from_slice(&anchor.encode());
    let second = at + LINE_BYTES as usize;
    page[second..second + LINE].copy_from_slice(&birth.encode());
}
