//! Nodes of the directory: numbers, names, attributes, and the calls that change them.
//!
//! The inode numbers for the kernel are our own; programs see those of Linux' zonefs: the zone's
//! number for a file, and the numbers behind the last zone for directories. Attributes set on files
//! and directories are kept until the unmount, as in Linux.

use engine::{Device, FileError, Service};
use fuser::{FileAttr, FileType, INodeNo};
use sim::Kernel;
use ssd::Drive;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::SystemTime;
use units::SECTOR;
use vfs::{Errno, OpenFlags, Result};
use zonefs::{Group, How, ZoneFs};

/// Name of the JSON document about the zones, which no listing shows.
const TABLE_NAME: &str = ".zones.json";
/// Maximum length of a name in bytes (`ZONEFS_NAME_MAX`).
pub(super) const NAME_MAX: usize = 16;
/// Size of a block in bytes.
pub(super) const BLOCK: u32 = zonefs::BLOCK as u32;

/// A file or directory of the mounted tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Root,
    Directory(Group),
    /// The JSON document about the zones.
    Table,
    File(Group, usize),
}

/// Inode number, for the kernel, of the first file.
const FILES: u64 = 8;

impl Node {
    /// Inode number for the kernel.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Root => INodeNo::ROOT.0,
            Self::Directory(group) => 2 + group as u64,
            Self::Table => 4,
            Self::File(group, number) => FILES + 2 * number as u64 + group as u64,
        }
    }

    /// The node with an inode number of the kernel; `None` if there is none.
    pub(super) fn of(number: INodeNo) -> Option<Self> {
        let group = |odd| Group::ALL[usize::from(odd)];
        Some(match number.0 {
            1 => Self::Root,
            2 | 3 => Self::Directory(group(number.0 == 3)),
            4 => Self::Table,
            FILES.. => Self::File(group(number.0 % 2 == 1), (number.0 - FILES) as usize / 2),
            _ => return None,
        })
    }
}

/// Attributes to set on a file or a directory; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<SystemTime>,
    pub(super) mtime: Option<SystemTime>,
}

/// Attributes that the file system itself does not keep.
#[derive(Clone, Copy)]
struct Looks {
    atime: SystemTime,
    mtime: SystemTime,
    ctime: SystemTime,
    /// Permissions of a directory.
    perm: u16,
    owner: (u32, u32),
}

/// A mounted zonefs and the drive below it, on the engine's thread.
pub struct Zones {
    fs: ZoneFs,
    device: Rc<Device>,
    mounted: SystemTime,
    /// Changed attributes, by inode number for the kernel.
    looks: RefCell<BTreeMap<u64, Looks>>,
    /// Snapshots of the document for open files, by handle.
    tables: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl Zones {
    /// A service of `fs`, which is on the drive of `device`.
    #[must_use]
    pub fn new(fs: ZoneFs, device: Device) -> Self {
        Self {
            fs,
            device: Rc::new(device),
            mounted: SystemTime::now(),
            looks: RefCell::default(),
            tables: RefCell::default(),
        }
    }

    /// The drive below the file system.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        self.device.drive()
    }

    /// The drive and its file, for [`engine::Handle::part`].
    #[must_use]
    pub fn device(&self) -> Rc<Device> {
        Rc::clone(&self.device)
    }

    /// Powers the drive off and saves it.
    ///
    /// # Errors
    /// If the drive's file cannot be written.
    pub fn close(&self, kernel: &Kernel) -> std::result::Result<(), FileError> {
        self.device.close(kernel)
    }

    fn looks(&self, node: Node) -> Looks {
        let new = Looks {
            atime: self.mounted,
            mtime: self.mounted,
            ctime: self.mounted,
            perm: 0o555,
            owner: (0, 0),
        };
        let looks = self.looks.borrow();
        looks.get(&node.number()).copied().unwrap_or(new)
    }

    /// The directories that exist: those of groups with at least one file.
    fn groups(&self) -> impl Iterator<Item = Group> {
        let groups = Group::ALL.into_iter();
        groups.filter(|&group| self.fs.count(group) > 0)
    }

    /// Inode number that programs see.
    fn ino(&self, node: Node) -> u64 {
        let zones = u64::from(self.fs.limits().zones);
        match node {
            Node::Root => zones,
            Node::Directory(group) => zones + 1 + group as u64,
            Node::Table => zones + 3,
            Node::File(group, number) => {
                let file = self.fs.attributes((group, number));
                file.map_or(0, |file| file.ino)
            }
        }
    }

    /// The attributes of `node`, as replied to the kernel.
    //= zonefs 2
    pub(super) fn attr(&self, node: Node) -> Result<FileAttr> {
        let looks = self.looks(node);
        let mut attr = FileAttr {
            ino: INodeNo(self.ino(node)),
            size: 0,
            blocks: 0,
            atime: looks.atime,
            mtime: looks.mtime,
            ctime: looks.ctime,
            crtime: self.mounted,
            kind: FileType::Directory,
            perm: looks.perm,
            nlink: 2,
            uid: looks.owner.0,
            gid: looks.owner.1,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        };
        match node {
            Node::Root => {
                let groups = self.groups().count() as u32;
                (attr.nlink, attr.size) = (2 + groups, (2 + groups).into());
            }
            Node::Directory(group) => attr.size = self.fs.count(group) as u64,
            Node::Table => {
                attr.kind = FileType::RegularFile;
                (attr.nlink, attr.perm) = (1, 0o444);
                attr.size = self.table()?.len() as u64;
                attr.blocks = attr.size.div_ceil(SECTOR);
            }
            Node::File(group, number) => {
                let file = self.fs.attributes((group, number))?;
                attr.kind = FileType::RegularFile;
                (attr.nlink, attr.perm) = (1, file.perm);
                (attr.uid, attr.gid) = (file.uid, file.gid);
                (attr.size, attr.blocks) = (file.size, file.sectors);
            }
        }
        Ok(attr)
    }

    /// The node called `name` in `parent`.
    pub(super) fn find(&self, parent: Node, name: &str) -> Result<Node> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        match parent {
            Node::Root if name == TABLE_NAME => Ok(Node::Table),
            Node::Root => {
                let found = self.groups().find(|group| group.name() == name);
                found.map(Node::Directory).ok_or(Errno::ENOENT)
            }
            Node::Directory(group) => {
                let number = name.parse().ok().filter(|number: &usize| {
                    // Only the canonical decimal form of a number is a name.
                    *number < self.fs.count(group) && number.to_string() == name
                });
                let number = number.ok_or(Errno::ENOENT)?;
                Ok(Node::File(group, number))
            }
            Node::Table | Node::File(..) => Err(Errno::ENOTDIR),
        }
    }

    /// The entries of a directory, from index `from` on.
    pub(super) fn entries(
        &self,
        node: Node,
        from: usize,
    ) -> Result<impl Iterator<Item = (u64, FileType, String)>> {
        let parts: Vec<(Node, String)> = match node {
            Node::Root => self
                .groups()
                .map(|group| (Node::Directory(group), group.name().to_owned()))
                .collect(),
            Node::Directory(group) => (from.saturating_sub(2)..self.fs.count(group))
                .map(|number| (Node::File(group, number), number.to_string()))
                .collect(),
            Node::Table | Node::File(..) => return Err(Errno::ENOTDIR),
        };
        let dots = [(node, ".".to_owned()), (Node::Root, "..".to_owned())];
        let passed = match node {
            Node::Root => from.saturating_sub(2),
            _ => 0,
        };
        let all = dots
            .into_iter()
            .skip(from)
            .chain(parts.into_iter().skip(passed));
        Ok(all.map(|(node, name)| {
            let kind = match node {
                Node::File(..) | Node::Table => FileType::RegularFile,
                _ => FileType::Directory,
            };
            (self.ino(node), kind, name)
        }))
    }

    /// Changes attributes; a change of a file's size resets or finishes its zone.
    //= zonefs 2
    pub(super) async fn change(&self, node: Node, change: Change) -> Result<()> {
        let mut looks = self.looks(node);
        self.fs.is_read_write()?;
        match node {
            Node::Table => return Err(Errno::EPERM),
            Node::Root | Node::Directory(_) => {
                // Nothing can be created in a directory, so write permission must not suggest it.
                if change.mode.is_some_and(|mode| mode & 0o222 != 0) {
                    return Err(Errno::EPERM);
                }
                looks.perm = change.mode.unwrap_or(looks.perm);
                let (uid, gid) = looks.owner;
                looks.owner = (change.uid.unwrap_or(uid), change.gid.unwrap_or(gid));
            }
            Node::File(group, number) => {
                let name = (group, number);
                if let Some(size) = change.size {
                    self.fs.truncate(name, size).await?;
                    self.promise().await?;
                }
                let owner = (change.uid, change.gid);
                self.fs.set_attributes(name, change.mode, owner)?;
            }
        }
        let now = SystemTime::now();
        looks.ctime = now;
        looks.atime = change.atime.unwrap_or(looks.atime);
        let cut = change.size.map(|_| now);
        looks.mtime = change.mtime.or(cut).unwrap_or(looks.mtime);
        self.looks.borrow_mut().insert(node.number(), looks);
        Ok(())
    }

    /// Records the drive's state in its file, so that a completed command survives this process.
    async fn promise(&self) -> Result<()> {
        self.device.note().await.map_err(|_| Errno::EIO)
    }

    /// Opens a file; returns whether it can be read.
    pub(super) async fn open(&self, name: (Group, usize), flags: OpenFlags) -> Result<bool> {
        self.fs.open(name, flags.has(OpenFlags::WRITE)).await?;
        Ok(self.fs.is_readable(name))
    }

    /// Closes a file that was open for writing.
    pub(super) async fn release(&self, name: (Group, usize)) {
        self.fs.release(name, true).await;
    }

    /// Reads up to `len` bytes of a file, at offset `at`.
    pub(super) async fn read(
        &self,
        name: (Group, usize),
        at: u64,
        len: usize,
        flags: OpenFlags,
    ) -> Result<Vec<u8>> {
        let direct = flags.has(OpenFlags::DIRECT);
        self.fs.read(name, at, len, direct).await
    }

    /// Writes to a file that is open with `flags`, or pages of a mapped file.
    pub(super) async fn write(
        &self,
        name: (Group, usize),
        (at, bytes): (u64, &[u8]),
        flags: OpenFlags,
    ) -> Result<usize> {
        let how = How {
            direct: flags.has(OpenFlags::DIRECT),
            append: flags.has(OpenFlags::APPEND),
        };
        let written = self.fs.write(name, at, bytes, how).await?;
        if flags.has(OpenFlags::DATA_SYNC) {
            self.force(name).await?;
        } else if self.device.is_protected() {
            self.promise().await?;
        }
        Ok(written)
    }

    /// Makes earlier writes to a file durable.
    pub(super) async fn force(&self, name: (Group, usize)) -> Result<()> {
        self.fs.fsync(name).await?;
        self.promise().await
    }

    /// Capacity of all files in bytes, bytes in use, and the number of files and directories.
    pub(super) fn space(&self) -> (u64, u64, u64) {
        let (most, used) = self.fs.space();
        let files = self.groups().map(|group| 1 + self.fs.count(group) as u64);
        (most, used, files.sum())
    }

    fn table(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec_pretty(&self.fs.told()).map_err(|_| Errno::EIO)?;
        Ok([&text[..], b"\n"].concat())
    }

    /// Opens a snapshot of the document; returns its handle.
    pub(super) fn open_table(&self) -> Result<u64> {
        let text = self.table()?;
        let mut tables = self.tables.borrow_mut();
        let handle = tables.last_key_value().map_or(1, |(last, _)| last + 1);
        tables.insert(handle, text);
        Ok(handle)
    }

    /// Reads from an open snapshot of the document.
    pub(super) fn read_table(&self, handle: u64, at: u64, len: usize) -> Result<Vec<u8>> {
        let tables = self.tables.borrow();
        let text = tables.get(&handle).ok_or(Errno::EBADF)?;
        let rest = usize::try_from(at).ok().and_then(|at| text.get(at..));
        let rest = rest.unwrap_or_default();
        Ok(rest[..len.min(rest.len())].to_vec())
    }

    /// Drops an open snapshot of the document.
    pub(super) fn close_table(&self, handle: u64) {
        self.tables.borrow_mut().remove(&handle);
    }
}

impl Service for Zones {
    fn settle(&self) {
        self.device.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_numbers_survive_a_round_trip() {
        let groups = Group::ALL;
        let files = groups.map(|group| [0, 1, 77].map(|number| Node::File(group, number)));
        let all = files.into_iter().flatten();
        let all = all.chain(groups.map(Node::Directory));
        for node in all.chain([Node::Root, Node::Table]) {
            assert_eq!(Node::of(INodeNo(node.number())), Some(node));
        }
        assert_eq!(Node::of(INodeNo(0)), None);
        assert_eq!(Node::of(INodeNo(5)), None);
    }
}
