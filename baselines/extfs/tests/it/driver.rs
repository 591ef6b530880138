//! A minimal stand-in for the cache above a body: inodes in memory by number, paths, whole files.

use extfs::{
    BLOCK, ExtFs, MkfsOptions, MountError, MountOptions, NoJournal, Persist, Private, mkfs,
};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Placement};
use vfs::{
    Access, Attr, Body, DirEntry, DirtyPage, Errno, FileKind, Ino, Inode, NewInode, Rename, Result,
    Timestamp,
};

pub(crate) type Node = Rc<Inode<Private>>;

pub(crate) const NOW: Timestamp = Timestamp {
    secs: 1_700_000_000,
    nanos: 123_456_789,
};

/// A mounted file system and its inodes in memory.
pub(crate) struct Driver<P: Persist = NoJournal> {
    pub(crate) fs: ExtFs<P>,
    nodes: RefCell<BTreeMap<Ino, Node>>,
}

/// A new file system in memory.
pub(crate) fn formatted(sim: &Sim, options: &MkfsOptions) -> RamDisk {
    let contents = mkfs(options).unwrap();
    let payload = |bytes: Box<[u8; BLOCK]>| Payload::Bytes(Arc::from(bytes));
    let contents = contents
        .into_iter()
        .map(|(block, bytes)| (block, payload(bytes)));
    RamDisk::holding(
        sim,
        Bytes(options.blocks * BLOCK as u64),
        contents.collect(),
    )
}

/// Runs `work` on a file system mounted from `image`, unmounts it and returns the image.
pub(crate) fn on_image<W>(image: &[u8], work: impl FnOnce(Driver) -> W + 'static) -> Vec<u8>
where
    W: Future<Output = Driver>,
{
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    let kept = disk.clone();
    kernel.block_on(async move {
        let driver = Driver::mount(&sim, disk).await.unwrap();
        let driver = work(driver).await;
        driver.unmount().await;
    });
    kept.to_image()
}

/// An image of a new file system of `blocks` blocks.
pub(crate) fn new_image(options: &MkfsOptions) -> Vec<u8> {
    let kernel = Kernel::new();
    formatted(&kernel.sim(), options).to_image()
}

impl Driver {
    pub(crate) async fn mount(sim: &Sim, disk: RamDisk) -> std::result::Result<Self, MountError> {
        let persist = NoJournal::new(sim, &disk, 4096, Placement(0));
        let options = MountOptions {
            now: NOW,
            ..MountOptions::default()
        };
        let fs = ExtFs::mount(sim, persist, options).await?;
        Ok(Self::new(fs))
    }
}

impl<P: Persist> Driver<P> {
    pub(crate) fn new(fs: ExtFs<P>) -> Self {
        Self {
            fs,
            nodes: RefCell::default(),
        }
    }

    pub(crate) async fn unmount(&self) {
        let nodes = std::mem::take(&mut *self.nodes.borrow_mut());
        for node in nodes.values() {
            self.fs.evict(node).await.unwrap();
        }
        self.fs.unmount().await.unwrap();
    }

    fn keep(&self, inode: Inode<Private>) -> Node {
        let node = Rc::new(inode);
        self.nodes.borrow_mut().insert(node.ino, Rc::clone(&node));
        node
    }

    pub(crate) async fn node(&self, ino: Ino) -> Result<Node> {
        let known = self.nodes.borrow().get(&ino).cloned();
        match known {
            Some(node) => Ok(node),
            None => Ok(self.keep(self.fs.load(ino).await?)),
        }
    }

    pub(crate) async fn root(&self) -> Node {
        self.node(self.fs.root()).await.unwrap()
    }

    /// The directory of a path, and its last name.
    pub(crate) async fn parent<'a>(&self, path: &'a str) -> Result<(Node, &'a [u8])> {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.walk(dirs).await?, name.as_bytes()))
    }

    pub(crate) async fn walk(&self, path: &str) -> Result<Node> {
        let mut node = self.node(self.fs.root()).await?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let found = self.fs.lookup(&node, name.as_bytes()).await?;
            node = self.node(found.ok_or(Errno::ENOENT)?).await?;
        }
        Ok(node)
    }

    pub(crate) async fn make(&self, path: &str, kind: FileKind, target: &[u8]) -> Result<Node> {
        let (dir, name) = self.parent(path).await?;
        let new = NewInode {
            kind,
            mode: if kind == FileKind::Directory {
                0o755
            } else {
                0o644
            },
            uid: 0,
            gid: 0,
            rdev: 0x0801,
            target,
            now: NOW,
        };
        Ok(self.keep(self.fs.create(&dir, name, new).await?))
    }

    pub(crate) async fn mkdir(&self, path: &str) -> Result<Node> {
        self.make(path, FileKind::Directory, b"").await
    }

    /// Creates a file with contents `bytes`.
    pub(crate) async fn put(&self, path: &str, bytes: &[u8]) -> Result<Node> {
        let node = self.make(path, FileKind::Regular, b"").await?;
        self.write(&node, 0, bytes).await?;
        Ok(node)
    }

    /// Writes bytes as the cache would: whole pages, written back at once.
    pub(crate) async fn write(&self, node: &Node, offset: u64, bytes: &[u8]) -> Result<()> {
        let (size, end) = (node.attr.get().size, offset + bytes.len() as u64);
        let pages = offset / 4096..end.div_ceil(4096);
        self.fs
            .reserve(&Access::root(), node, pages.clone())
            .await?;
        let mut dirty = Vec::new();
        for index in pages {
            let mut page = [0; BLOCK];
            let first = index * 4096;
            let (from, to) = (offset.max(first), end.min(first + 4096));
            if (from > first || to < first + 4096) && first < size {
                let mut old = [Payload::Zero];
                self.fs.read_pages(node, index, &mut old).await?;
                page = old[0].to_bytes();
                let kept = size.saturating_sub(first).min(4096) as usize;
                page[kept..].fill(0);
            }
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            page[(from - first) as usize..(to - first) as usize].copy_from_slice(part);
            dirty.push(DirtyPage {
                index,
                now: Payload::Bytes(Arc::new(page)),
                before: None,
            });
        }
        node.update(|attr| {
            attr.size = size.max(end);
            (attr.mtime, attr.ctime) = (NOW, NOW);
        });
        self.fs.write_pages(node, &dirty).await
    }

    /// All bytes of a file.
    pub(crate) async fn read(&self, node: &Node) -> Result<Vec<u8>> {
        let size = node.attr.get().size as usize;
        let mut pages = vec![Payload::Zero; size.div_ceil(4096)];
        self.fs.read_pages(node, 0, &mut pages).await?;
        let mut bytes: Vec<_> = pages.iter().flat_map(Payload::to_bytes).collect();
        bytes.truncate(size);
        Ok(bytes)
    }

    pub(crate) async fn cut(&self, node: &Node, size: u64) -> Result<()> {
        let old = node.attr.get().size;
        if size < old && !size.is_multiple_of(4096) {
            let mut page = [Payload::Zero];
            self.fs.read_pages(node, size / 4096, &mut page).await?;
            let hole = page[0] == Payload::Zero;
            let mut bytes = page[0].to_bytes();
            bytes[(size % 4096) as usize..].fill(0);
            let page = DirtyPage {
                index: size / 4096,
                now: Payload::Bytes(Arc::new(bytes)),
                before: None,
            };
            if !hole {
                self.fs.write_pages(node, &[page]).await?;
            }
        }
        node.update(|attr| attr.size = size);
        self.fs.truncate(node, old).await
    }

    async fn drop_node(&self, node: &Node) -> Result<()> {
        if node.attr.get().nlink == 0 {
            self.nodes.borrow_mut().remove(&node.ino);
            self.fs.evict(node).await?;
        }
        Ok(())
    }

    pub(crate) async fn unlink(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path).await?;
        let node = self.walk(path).await?;
        self.fs.unlink(&dir, name, &node, NOW).await?;
        self.drop_node(&node).await
    }

    pub(crate) async fn rmdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path).await?;
        let node = self.walk(path).await?;
        self.fs.rmdir(&dir, name, &node, NOW).await?;
        self.drop_node(&node).await
    }

    pub(crate) async fn link(&self, old: &str, new: &str) -> Result<()> {
        let node = self.walk(old).await?;
        let (dir, name) = self.parent(new).await?;
        self.fs.link(&dir, name, &node, NOW).await
    }

    pub(crate) async fn rename(&self, old: &str, new: &str, exchange: bool) -> Result<()> {
        let (from, from_name) = self.parent(old).await?;
        let (to, to_name) = self.parent(new).await?;
        let moved = self.walk(old).await?;
        let replaced = self.walk(new).await.ok();
        let rename = Rename {
            from: &from,
            from_name,
            to: &to,
            to_name,
            moved: &moved,
            replaced: replaced.as_deref(),
            exchange,
            now: NOW,
        };
        self.fs.rename(rename).await?;
        match replaced {
            Some(node) => self.drop_node(&node).await,
            None => Ok(()),
        }
    }

    /// Lists a directory, a few entries per call.
    pub(crate) async fn list(&self, dir: &Node) -> Result<Vec<DirEntry>> {
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |entry| entry.cookie);
            let some = self.fs.read_dir(dir, after, 37).await?;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }
}

pub(crate) fn attr(node: &Node) -> Attr {
    node.attr.get()
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = sim::Seed(seed).stream("pattern");
    let words = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(len).collect()
}
