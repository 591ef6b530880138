//! The reference model of a file system: the results that user 0 sees if every call takes effect at
//! once, and the states that a power cut may leave.
//!
//! The model is small enough to be read in one go: a node has contents as plain bytes, the names
//! are one map, and a call is a few lines in the order in which POSIX checks. A file system that
//! runs beside it (see [`perform`]) must return the same results and the same errors.
//!
//! The promises across power cuts are in [`crash`].

mod beside;
pub mod crash;
mod draw;
mod endure;
mod listing;
mod mix;
mod op;

pub use beside::{cache, eager, run_beside};
pub use crash::{Order, Tree, Violation, check, sizes};
pub use draw::{draw, draw_on_file, draw_on_names};
pub use endure::endure;
pub use listing::list_renaming;
pub use mix::{Mix, drawn};
pub use op::{Op, Value, perform};

use crate::access::SGID;
use crate::errno::{Errno, Result};
use crate::flags::OpenFlags;
use crate::rename::RenameFlags;
use crate::types::{FallocateMode, FileKind, XattrFlags};
use crash::{Names, Past, Versions};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of a node; never reused.
pub type Id = u64;

const ROOT: Id = 0;
const LINKS_MAX: u32 = 40;
const SIZE_MAX: u64 = i64::MAX as u64;

/// A file, directory or symbolic link.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: FileKind,
    mode: u16,
    /// Contents, or the target of a symbolic link.
    pub(crate) data: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Contents that a power cut may leave; the last version equals `data`.
    pub(crate) versions: Versions,
}

struct Open {
    node: Id,
    flags: OpenFlags,
}

/// A file system as its callers observe it.
pub struct Model {
    pub(crate) nodes: BTreeMap<Id, Node>,
    pub(crate) names: Names,
    pub(crate) past: Past,
    processes: Vec<Vec<Option<Open>>>,
    next: Id,
    /// Whether a directory counts a link for each subdirectory, and two more.
    dirs_count: bool,
}

/// Result of resolving a path.
struct Found {
    dir: Id,
    name: Vec<u8>,
    node: Option<Id>,
}

impl Found {
    fn there(&self) -> Result<Id> {
        self.node.ok_or(Errno::ENOENT)
    }

    fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

fn ensure(condition: bool, errno: Errno) -> Result<()> {
    crate::access::ensure(condition, errno)
}

impl Model {
    /// An empty file system used by `processes` programs of user 0, over a body that guarantees
    /// `order` among changes of names.
    #[must_use]
    pub fn new(processes: usize, order: Order) -> Self {
        let mut model = Self {
            nodes: BTreeMap::new(),
            names: Names::new(),
            past: Past::new(order),
            processes: (0..processes).map(|_| Vec::new()).collect(),
            next: ROOT,
            dirs_count: true,
        };
        model.add(FileKind::Directory, 0o755, Vec::new());
        model
    }

    /// Counts one link for each directory, as Btrfs does.
    #[must_use]
    pub fn with_single_links(self) -> Self {
        Self {
            dirs_count: false,
            ..self
        }
    }

    /// Performs `op` for `process` and returns the expected result.
    ///
    /// # Errors
    /// The error that the call must return.
    pub fn perform(&mut self, process: usize, op: &Op) -> Result<Value> {
        match op {
            Op::Open { path, flags } => self.open(process, path, *flags).map(Value::Fd),
            Op::Read { fd, offset, len } => self.read(process, *fd, *offset, *len),
            Op::Write {
                fd,
                offset,
                byte,
                len,
            } => {
                let count = self.write(process, *fd, *offset, *byte, *len);
                count.map(Value::Count)
            }
            Op::Readlink { path } => {
                let node = self.at(path, false)?;
                ensure(node.kind == FileKind::Symlink, Errno::EINVAL)?;
                Ok(Value::Bytes(node.data.clone()))
            }
            Op::Stat { path } => self.stat(path),
            Op::ReadDir { path } => {
                let id = self.walk(path, true)?.there()?;
                ensure(self.is_dir(id), Errno::ENOTDIR)?;
                let names = self.entries(id).map(|(name, _)| name.to_vec());
                Ok(Value::Names(names.collect()))
            }
            Op::GetXattr { path, name } => {
                let value = self.at(path, true)?.xattrs.get(name).cloned();
                value.map(Value::Bytes).ok_or(Errno::ENODATA)
            }
            _ => self.change(process, op).map(|()| Value::Done),
        }
    }

    fn change(&mut self, process: usize, op: &Op) -> Result<()> {
        match op {
            Op::Close { fd } => {
                self.file(process, *fd)?;
                self.processes[process][*fd as usize] = None;
            }
            Op::Fsync { fd, data_only } => {
                let id = self.file(process, *fd)?.node;
                self.force(id, *data_only);
            }
            Op::Sync => self.force_all(),
            Op::Ftruncate { fd, size } => {
                let Open { node, flags } = *self.file(process, *fd)?;
                ensure(flags.has(OpenFlags::WRITE), Errno::EINVAL)?;
                self.resize(node, *size)?;
            }
            Op::Fallocate {
                fd,
                mode,
                offset,
                len,
            } => {
                self.fallocate(process, *fd, *mode, *offset, *len)?;
            }
            Op::Truncate { path, size } => {
                let id = self.walk(path, true)?.there()?;
                self.resize(id, *size)?;
            }
            Op::Mkdir { path } => self.make(path, FileKind::Directory, 0o755, Vec::new())?,
            Op::Symlink { target, path } => {
                ensure(!target.is_empty(), Errno::ENOENT)?;
                self.make(path, FileKind::Symlink, 0o777, target.clone())?;
            }
            Op::Rmdir { path } => self.rmdir(path)?,
            Op::Unlink { path } => self.unlink(path)?,
            Op::Rename { from, to, flags } => self.rename(from, to, *flags)?,
            Op::Link { path, new } => self.link(path, new)?,
            Op::Chmod { path, mode } => self.at_mut(path)?.mode = *mode,
            Op::SetXattr {
                path,
                name,
                value,
                flags,
            } => {
                let xattrs = &mut self.at_mut(path)?.xattrs;
                let there = xattrs.contains_key(name);
                ensure(!there || *flags != XattrFlags::Create, Errno::EEXIST)?;
                ensure(there || *flags != XattrFlags::Replace, Errno::ENODATA)?;
                xattrs.insert(name.clone(), value.clone());
            }
            Op::RemoveXattr { path, name } => {
                let removed = self.at_mut(path)?.xattrs.remove(name);
                removed.ok_or(Errno::ENODATA)?;
            }
            _ => unreachable!("calls that give something are performed above"),
        }
        Ok(())
    }

    fn add(&mut self, kind: FileKind, mode: u16, data: Vec<u8>) -> Id {
        let id = self.next;
        self.next += 1;
        let versions = Versions::starting(&data);
        let node = Node {
            kind,
            mode,
            data,
            xattrs: BTreeMap::new(),
            versions,
        };
        self.nodes.insert(id, node);
        id
    }

    fn is_dir(&self, id: Id) -> bool {
        self.nodes[&id].kind == FileKind::Directory
    }

    fn entries(&self, dir: Id) -> impl Iterator<Item = (&[u8], Id)> {
        let from = self.names.range((dir, Vec::new())..);
        let own = from.take_while(move |((d, _), _)| *d == dir);
        own.map(|((_, name), &id)| (name.as_slice(), id))
    }

    /// Parent of `dir`; the root is its own parent.
    fn parent(&self, dir: Id) -> Id {
        let name = self.names.iter().find(|(_, id)| **id == dir);
        name.map_or(ROOT, |((parent, _), _)| *parent)
    }

    fn walk(&self, path: &[u8], follow: bool) -> Result<Found> {
        self.walk_from(ROOT, path, follow, &mut 0)
    }

    fn walk_from(&self, dir: Id, path: &[u8], follow: bool, links: &mut u32) -> Result<Found> {
        ensure(!path.is_empty(), Errno::ENOENT)?;
        ensure(path.len() < 4096, Errno::ENAMETOOLONG)?;
        let root = path[0] == b'/';
        let mut found = Found {
            dir: if root { ROOT } else { dir },
            name: b".".to_vec(),
            node: Some(if root { ROOT } else { dir }),
        };
        let mut names = path
            .split(|&b| b == b'/')
            .filter(|n| !n.is_empty())
            .peekable();
        while let Some(name) = names.next() {
            let dir = found.there()?;
            found = self.step(dir, name)?;
            let link = found.node.map(|id| &self.nodes[&id]);
            let link = link.filter(|node| node.kind == FileKind::Symlink);
            if let Some(link) = link.filter(|_| follow || names.peek().is_some()) {
                *links += 1;
                ensure(*links <= LINKS_MAX, Errno::ELOOP)?;
                found = self.walk_from(dir, &link.data, true, links)?;
            }
        }
        Ok(found)
    }

    fn step(&self, dir: Id, name: &[u8]) -> Result<Found> {
        ensure(self.is_dir(dir), Errno::ENOTDIR)?;
        ensure(name.len() <= 255, Errno::ENAMETOOLONG)?;
        let node = match name {
            b"." => Some(dir),
            b".." => Some(self.parent(dir)),
            _ => self.names.get(&(dir, name.to_vec())).copied(),
        };
        let name = name.to_vec();
        Ok(Found { dir, name, node })
    }

    fn at(&self, path: &[u8], follow: bool) -> Result<&Node> {
        Ok(&self.nodes[&self.walk(path, follow)?.there()?])
    }

    fn at_mut(&mut self, path: &[u8]) -> Result<&mut Node> {
        let id = self.walk(path, true)?.there()?;
        self.nodes.get_mut(&id).ok_or(Errno::ENOENT)
    }

    fn file(&self, process: usize, fd: u32) -> Result<&Open> {
        let file = self.processes[process].get(fd as usize);
        file.and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    fn open(&mut self, process: usize, path: &[u8], flags: OpenFlags) -> Result<u32> {
        let creates = flags.has(OpenFlags::CREATE);
        let exclusive = creates && flags.has(OpenFlags::EXCLUSIVE);
        let follow = !exclusive && !flags.has(OpenFlags::NO_FOLLOW);
        ensure(!(creates && flags.has(OpenFlags::DIRECTORY)), Errno::EINVAL)?;
        let found = self.walk(path, follow)?;
        let node = match found.node {
            Some(_) if exclusive => return Err(Errno::EEXIST),
            Some(id) => id,
            None if creates => {
                let id = self.add(FileKind::Regular, 0o644, Vec::new());
                self.set_name(found.dir, &found.name, Some(id));
                id
            }
            None => return Err(Errno::ENOENT),
        };
        let kind = self.nodes[&node].kind;
        let is_dir = kind == FileKind::Directory;
        ensure(is_dir || !flags.has(OpenFlags::DIRECTORY), Errno::ENOTDIR)?;
        ensure(kind != FileKind::Symlink, Errno::ELOOP)?;
        let cuts = flags.has(OpenFlags::TRUNCATE);
        let changes = flags.has(OpenFlags::WRITE) || cuts || creates;
        ensure(!(is_dir && changes), Errno::EISDIR)?;
        if cuts {
            self.resize(node, 0)?;
        }
        let files = &mut self.processes[process];
        let free = files.iter().position(Option::is_none);
        let fd = free.unwrap_or(files.len());
        if fd == files.len() {
            files.push(None);
        }
        files[fd] = Some(Open { node, flags });
        Ok(fd as u32)
    }

    fn read(&self, process: usize, fd: u32, offset: u64, len: u64) -> Result<Value> {
        let file = self.file(process, fd)?;
        ensure(file.flags.has(OpenFlags::READ), Errno::EBADF)?;
        ensure(!self.is_dir(file.node), Errno::EISDIR)?;
        let data = &self.nodes[&file.node].data;
        let from = data.len().min(offset as usize);
        let to = data.len().min((offset + len) as usize);
        Ok(Value::Bytes(data[from..to].to_vec()))
    }

    fn write(&mut self, process: usize, fd: u32, at: u64, byte: u8, len: u64) -> Result<u64> {
        let Open { node, flags } = *self.file(process, fd)?;
        ensure(flags.has(OpenFlags::WRITE), Errno::EBADF)?;
        let size = self.nodes[&node].data.len() as u64;
        let at = if flags.has(OpenFlags::APPEND) {
            size
        } else {
            at
        };
        if len > 0 {
            self.set_bytes(node, at..at + len, byte, true);
        }
        if flags.has(OpenFlags::DATA_SYNC) {
            self.force(node, !flags.has(OpenFlags::SYNC));
        }
        Ok(len)
    }

    fn fallocate(
        &mut self,
        process: usize,
        fd: u32,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let Open { node, flags } = *self.file(process, fd)?;
        ensure(len > 0, Errno::EINVAL)?;
        ensure(flags.has(OpenFlags::WRITE), Errno::EBADF)?;
        let range = offset..offset + len;
        let size = self.nodes[&node].data.len() as u64;
        match mode {
            FallocateMode::Punch | FallocateMode::Zero { keep_size: true } => {
                self.set_bytes(node, range, 0, false);
            }
            FallocateMode::Zero { keep_size: false } => self.set_bytes(node, range, 0, true),
            FallocateMode::Allocate { keep_size: false } if range.end > size => {
                self.resize(node, range.end)?;
            }
            FallocateMode::Allocate { .. } => {}
        }
        Ok(())
    }

    /// Fills bytes of a file; bytes past its end only if `grows`.
    fn set_bytes(&mut self, id: Id, range: Range<u64>, byte: u8, grows: bool) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let (from, to) = (range.start as usize, range.end as usize);
        if grows && node.data.len() < to {
            node.data.resize(to, 0);
        }
        let to = to.min(node.data.len());
        node.data[from.min(to)..to].fill(byte);
        node.versions.push(&node.data);
    }

    fn resize(&mut self, id: Id, size: u64) -> Result<()> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?;
        match node.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        ensure(size <= SIZE_MAX, Errno::EFBIG)?;
        node.data.resize(size as usize, 0);
        node.versions.push(&node.data);
        Ok(())
    }

    fn stat(&self, path: &[u8]) -> Result<Value> {
        let id = self.walk(path, false)?.there()?;
        let node = &self.nodes[&id];
        let is_dir = node.kind == FileKind::Directory;
        let names = self.names.values().filter(|&&other| other == id).count();
        let below = self.entries(id).filter(|&(_, id)| self.is_dir(id)).count();
        let nlink = match (is_dir, self.dirs_count) {
            (true, true) => 2 + below,
            (true, false) => 1,
            (false, _) => names,
        };
        Ok(Value::Stat {
            kind: node.kind,
            mode: node.mode,
            nlink: nlink as u32,
            size: if is_dir { 0 } else { node.data.len() as u64 },
        })
    }

    fn make(&mut self, path: &[u8], kind: FileKind, mode: u16, data: Vec<u8>) -> Result<()> {
        let found = self.walk(path, false)?;
        ensure(found.node.is_none(), Errno::EEXIST)?;
        let inherits = kind == FileKind::Directory;
        let group = if inherits {
            self.nodes[&found.dir].mode & SGID
        } else {
            0
        };
        let id = self.add(kind, mode | group, data);
        self.set_name(found.dir, &found.name, Some(id));
        Ok(())
    }

    fn link(&mut self, path: &[u8], new: &[u8]) -> Result<()> {
        let id = self.walk(path, false)?.there()?;
        let found = self.walk(new, false)?;
        ensure(found.node.is_none(), Errno::EEXIST)?;
        ensure(!self.is_dir(id), Errno::EPERM)?;
        self.set_name(found.dir, &found.name, Some(id));
        Ok(())
    }

    fn unlink(&mut self, path: &[u8]) -> Result<()> {
        let found = self.walk(path, false)?;
        ensure(!found.is_dots(), Errno::EISDIR)?;
        ensure(!self.is_dir(found.there()?), Errno::EISDIR)?;
        self.set_name(found.dir, &found.name, None);
        Ok(())
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        let found = self.walk(path, false)?;
        let id = found.there()?;
        ensure(found.name != b"." || path.ends_with(b"."), Errno::EBUSY)?;
        ensure(found.name != b".", Errno::EINVAL)?;
        ensure(found.name != b"..", Errno::ENOTEMPTY)?;
        ensure(self.is_dir(id), Errno::ENOTDIR)?;
        ensure(self.entries(id).next().is_none(), Errno::ENOTEMPTY)?;
        self.set_name(found.dir, &found.name, None);
        Ok(())
    }

    /// Whether `dir` is `above` or a descendant of it.
    fn is_below(&self, mut dir: Id, above: Id) -> bool {
        while dir != above && dir != ROOT {
            dir = self.parent(dir);
        }
        dir == above
    }

    fn rename(&mut self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let (old, new) = (self.walk(from, false)?, self.walk(to, false)?);
        ensure(!old.is_dots(), Errno::EBUSY)?;
        let taken = if flags.no_replace {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        };
        ensure(!new.is_dots(), taken)?;
        ensure(!(flags.no_replace && flags.exchange), Errno::EINVAL)?;
        let moved = old.there()?;
        ensure(!(flags.no_replace && new.node.is_some()), Errno::EEXIST)?;
        ensure(!(flags.exchange && new.node.is_none()), Errno::ENOENT)?;
        ensure(!self.is_below(new.dir, moved), Errno::EINVAL)?;
        if let Some(other) = new.node {
            let above = self.is_below(old.dir, other);
            ensure(!(above && flags.exchange), Errno::EINVAL)?;
            ensure(!above, Errno::ENOTEMPTY)?;
            if other == moved {
                return Ok(());
            }
            if !flags.exchange {
                self.may_replace(moved, other)?;
            }
        }
        let behind = new.node.filter(|_| flags.exchange);
        self.set_names(&[
            (old.dir, old.name, behind),
            (new.dir, new.name, Some(moved)),
        ]);
        Ok(())
    }

    fn may_replace(&self, moved: Id, other: Id) -> Result<()> {
        match (self.is_dir(moved), self.is_dir(other)) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            _ => ensure(self.entries(other).next().is_none(), Errno::ENOTEMPTY),
        }
    }

    fn set_name(&mut self, dir: Id, name: &[u8], id: Option<Id>) {
        self.set_names(&[(dir, name.to_vec(), id)]);
    }
}
