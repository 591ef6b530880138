//! zonefs as a body of the file API, so that workloads for other file systems run on it.
//!
//! Invariants: calls are rejected by the checks of [`ZoneFs`]; no file is created, removed or
//! renamed, and permissions and owners last until the unmount. Sequential files never have a dirty
//! page: they accept direct writes only.
//!
//! Files are not opened and closed here, so `explicit-open` has no effect.

use crate::file::Group;
use crate::fs::{How, ZoneFs};
use host::ZonedPort;
use nand::Payload;
use std::ops::Range;
use std::sync::Arc;
use vfs::{
    Access, Attr, Body, DirEntry, DirtyPage, Errno, FallocateMode, FileKind, Ino, Inode, NewInode,
    Rename, Result, SeekWhat, StatFs, Timestamp, XattrFlags,
};

/// Size of a page of the cache in bytes.
const PAGE: u64 = vfs::PAGE;
/// Inode number of the root directory; those of the other two directories follow.
const ROOT: u64 = 1;
/// First inode number of a file; numbers of the two directories alternate.
const FILES: u64 = 4;

/// Role of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The root directory, which holds `cnv` and `seq`.
    Root,
    /// The directory `cnv` or `seq`.
    Directory(Group),
    /// A file, by its directory and its number in it.
    File(Group, usize),
}

impl Place {
    fn of(ino: Ino) -> Option<Self> {
        let group = |number: u64| Group::ALL[(number % 2) as usize];
        match ino.0.checked_sub(ROOT)? {
            0 => Some(Self::Root),
            at @ 1..=2 => Some(Self::Directory(group(at - 1))),
            _ => {
                let at = ino.0 - FILES;
                Some(Self::File(group(at), (at / 2) as usize))
            }
        }
    }

    const fn ino(self) -> Ino {
        Ino(match self {
            Self::Root => ROOT,
            Self::Directory(group) => ROOT + 1 + group as u64,
            Self::File(group, number) => FILES + 2 * number as u64 + group as u64,
        })
    }
}

type Node = Inode<Place>;

/// The directory and number of a file; an error for a directory.
fn file(inode: &Node) -> Result<(Group, usize)> {
    match inode.private {
        Place::File(group, number) => Ok((group, number)),
        _ => Err(Errno::EISDIR),
    }
}

impl ZoneFs {
    /// The names in a directory, and the places that they lead to.
    fn listed(&self, place: Place) -> Vec<(String, Place)> {
        match place {
            Place::Root => {
                let there = Group::ALL
                    .into_iter()
                    .filter(|group| self.count(*group) > 0);
                there
                    .map(|group| (group.name().to_owned(), Place::Directory(group)))
                    .collect()
            }
            Place::Directory(group) => (0..self.count(group))
                .map(|number| (number.to_string(), Place::File(group, number)))
                .collect(),
            Place::File(..) => Vec::new(),
        }
    }

    fn attr(&self, place: Place) -> Result<Attr> {
        let directory = Attr {
            kind: FileKind::Directory,
            mode: 0o555,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            sectors: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            generation: 0,
        };
        match place {
            Place::Root | Place::Directory(_) => Ok(directory),
            Place::File(group, number) => {
                let shown = self.attributes((group, number))?;
                Ok(Attr {
                    kind: FileKind::Regular,
                    mode: shown.perm,
                    nlink: 1,
                    uid: shown.uid,
                    gid: shown.gid,
                    size: shown.size,
                    sectors: shown.sectors,
                    ..directory
                })
            }
        }
    }

    async fn flushed(&self) -> Result<()> {
        self.port.flush().await.map_err(|_| Errno::EIO)
    }
}

impl Body for ZoneFs {
    type Private = Place;

    fn max_size(&self) -> u64 {
        i64::MAX as u64
    }

    /// Links cannot be created.
    fn max_links(&self) -> u32 {
        u32::MAX
    }

    fn is_read_only(&self) -> bool {
        Self::is_read_only(self)
    }

    fn root(&self) -> Ino {
        Place::Root.ino()
    }

    async fn load(&self, ino: Ino) -> Result<Node> {
        let private = Place::of(ino).ok_or(Errno::ENOENT)?;
        Ok(Node::new(ino, self.attr(private)?, private))
    }

    async fn evict(&self, _: &Node) -> Result<()> {
        Ok(())
    }

    async fn lookup(&self, dir: &Node, name: &[u8]) -> Result<Option<Ino>> {
        let text = std::str::from_utf8(name).ok();
        let number = || {
            let text = text?;
            let number: usize = text.parse().ok()?;
            (number.to_string() == text).then_some(number)
        };
        let place = match dir.private {
            Place::Directory(group) => number()
                .filter(|number| *number < self.count(group))
                .map(|number| Place::File(group, number)),
            place => {
                let mut there = self.listed(place).into_iter();
                let found = there.find(|(one, _)| one.as_bytes() == name);
                found.map(|(_, place)| place)
            }
        };
        Ok(place.map(Place::ino))
    }

    async fn create(&self, _: &Node, _: &[u8], _: NewInode<'_>) -> Result<Node> {
        Err(Errno::EPERM)
    }

    async fn create_unnamed(&self, _: NewInode<'_>) -> Result<Node> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn link(&self, _: &Node, _: &[u8], _: &Node, _: Timestamp) -> Result<()> {
        Err(Errno::EPERM)
    }

    async fn unlink(&self, _: &Node, _: &[u8], _: &Node, _: Timestamp) -> Result<()> {
        Err(Errno::EPERM)
    }

    async fn rmdir(&self, _: &Node, _: &[u8], _: &Node, _: Timestamp) -> Result<()> {
        Err(Errno::EPERM)
    }

    async fn rename(&self, _: Rename<'_, Place>) -> Result<()> {
        Err(Errno::EPERM)
    }

    async fn readlink(&self, _: &Node) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }

    async fn read_dir(&self, dir: &Node, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        let all = (1..).zip(self.listed(dir.private));
        let rest = all.skip_while(|(at, _)| *at <= cookie).take(most);
        let entry = |(cookie, (name, place)): (u64, (String, Place))| DirEntry {
            cookie,
            ino: place.ino(),
            kind: match place {
                Place::File(..) => FileKind::Regular,
                _ => FileKind::Directory,
            },
            name: name.into_bytes(),
        };
        Ok(rest.map(entry).collect())
    }

    async fn parent(&self, dir: &Node) -> Result<Ino> {
        Ok(match dir.private {
            Place::File(group, _) => Place::Directory(group).ino(),
            _ => Place::Root.ino(),
        })
    }

    async fn store(&self, inode: &Node) -> Result<()> {
        let attr = inode.attr.get();
        match inode.private {
            // Times are not stored.
            Place::File(group, number) if self.is_read_write().is_ok() => {
                let owner = (Some(attr.uid), Some(attr.gid));
                self.set_attributes((group, number), Some(attr.mode), owner)
            }
            _ => Ok(()),
        }
    }

    async fn truncate(&self, inode: &Node, old: u64) -> Result<()> {
        let size = inode.attr.get().size;
        let cut = Self::truncate(self, file(inode)?, size).await;
        if cut.is_err() {
            inode.update(|attr| attr.size = old);
        }
        cut
    }

    async fn read_pages(&self, inode: &Node, first: u64, pages: &mut [Payload]) -> Result<()> {
        let len = pages.len() * PAGE as usize;
        let mut bytes = self.read(file(inode)?, first * PAGE, len, false).await?;
        bytes.resize(len, 0);
        let parts = bytes.as_chunks::<{ PAGE as usize }>().0;
        for (page, part) in pages.iter_mut().zip(parts) {
            *page = Payload::Bytes(Arc::new(*part));
        }
        Ok(())
    }

    /// Linux rejects cached writes of a sequential file with this error.
    async fn reserve(&self, _: &Access, inode: &Node, pages: Range<u64>) -> Result<()> {
        match file(inode)? {
            (Group::Sequential, _) => Err(Errno::EIO),
            _ if pages.end * PAGE > inode.attr.get().size => Err(Errno::EFBIG),
            _ => Ok(()),
        }
    }

    async fn write_pages(&self, inode: &Node, pages: &[DirtyPage]) -> Result<()> {
        let name = file(inode)?;
        for page in pages {
            let bytes = page.now.to_bytes();
            let at = page.index * PAGE;
            self.write(name, at, &bytes, How::default()).await?;
        }
        Ok(())
    }

    async fn read_direct(&self, inode: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = self.read(file(inode)?, offset, out.len(), true).await?;
        out[..bytes.len()].copy_from_slice(&bytes);
        out[bytes.len()..].fill(0);
        Ok(())
    }

    async fn write_direct(
        &self,
        _: &Access,
        inode: &Node,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        let name = file(inode)?;
        let how = How {
            direct: true,
            append: false,
        };
        let written = self.write(name, offset, bytes, how).await;
        // Also after a failure, which may have changed the size.
        let size = self.attributes(name)?.size;
        inode.update(|attr| attr.size = size);
        Ok(written? as u64)
    }

    async fn fallocate(
        &self,
        _: &Access,
        _: &Node,
        _: FallocateMode,
        _: Range<u64>,
        _: Timestamp,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn seek(&self, inode: &Node, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let size = inode.attr.get().size;
        Ok(match what {
            _ if offset >= size => None,
            SeekWhat::Data => Some(offset),
            SeekWhat::Hole => Some(size),
        })
    }

    async fn sync(&self, inode: &Node, _: bool) -> Result<()> {
        match inode.private {
            Place::File(group, number) => self.fsync((group, number)).await,
            _ => self.flushed().await,
        }
    }

    async fn sync_all(&self) -> Result<()> {
        self.flushed().await
    }

    async fn unmount(&self) -> Result<()> {
        self.flushed().await
    }

    async fn get_xattr(&self, _: &Node, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn set_xattr(
        &self,
        _: &Node,
        _: &[u8],
        _: &[u8],
        _: XattrFlags,
        _: Timestamp,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn remove_xattr(&self, _: &Node, _: &[u8], _: Timestamp) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn list_xattrs(&self, _: &Node) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn stat(&self) -> StatFs {
        let (most, used) = self.space();
        let blocks = most / PAGE;
        let free = (most - used) / PAGE;
        StatFs {
            block_size: PAGE as u32,
            blocks,
            blocks_free: free,
            blocks_available: free,
            files: Group::ALL
                .map(|group| self.count(group) as u64)
                .iter()
                .sum(),
            files_free: 0,
            name_max: 255,
        }
    }
}
