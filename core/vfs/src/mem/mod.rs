//! A file system in memory, the smallest body there is. Tests run over it, mounts are tried with
//! it, and programs use it like a `tmpfs`.
//!
//! Invariants: a page is in `File::data` exactly if it is allocated; a name is in `names` and,
//! under its cookie, in `order`; `used` counts the pages of all files. The contents end with the
//! process, so a force does nothing but take its time.

mod body;

use crate::body::{DirtyPage, NewInode};
use crate::errno::{Errno, Result};
use crate::inode::Inode;
use crate::types::{Attr, FileKind, Ino, PAGE, Timestamp};
use nand::Payload;
use sim::Sim;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Ns, SECTOR};

/// Sectors in a page.
const SECTORS: u64 = PAGE / SECTOR;

/// A file, directory or other inode in memory.
pub struct File {
    attr: Cell<Attr>,
    data: RefCell<BTreeMap<u64, Payload>>,
    names: RefCell<BTreeMap<Box<[u8]>, Entry>>,
    order: RefCell<BTreeMap<u64, Box<[u8]>>>,
    cookies: Cell<u64>,
    parent: Cell<Ino>,
    target: Box<[u8]>,
    xattrs: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
}

#[derive(Clone, Copy)]
struct Entry {
    cookie: u64,
    ino: Ino,
    kind: FileKind,
}

/// A file system in memory with a bounded number of pages.
pub struct MemFs {
    files: RefCell<BTreeMap<u64, Rc<File>>>,
    /// The next new number, and the generation of the next inode.
    next: Cell<u64>,
    /// Numbers that are free again; the last one is used first.
    free: RefCell<Vec<u64>>,
    used: Cell<u64>,
    pages: u64,
    /// Duration of each access to the medium; `None` takes no time.
    delay: Option<(Sim, Ns)>,
    broken: Cell<Option<Errno>>,
    /// Whether calls for pages are recorded.
    recording: bool,
    writes: RefCell<Vec<PageCall>>,
    reads: RefCell<Vec<PageCall>>,
    duplicates: bool,
    /// Whether contents are accessed in place, without a cache.
    dax: bool,
    last: RefCell<Vec<DirtyPage>>,
}

/// A recorded call for pages: the file, the first page, and the number of pages.
pub type PageCall = (Ino, u64, usize);

type Node = Inode<Rc<File>>;

const ROOT: Ino = Ino(1);

impl MemFs {
    /// An empty file system for `capacity` bytes of contents.
    #[must_use]
    pub fn new(capacity: Bytes) -> Self {
        let fs = Self {
            files: RefCell::default(),
            next: Cell::new(ROOT.0),
            free: RefCell::default(),
            used: Cell::new(0),
            pages: capacity.0 / PAGE,
            delay: None,
            broken: Cell::new(None),
            recording: false,
            writes: RefCell::default(),
            reads: RefCell::default(),
            duplicates: false,
            dax: false,
            last: RefCell::default(),
        };
        let root = fs.allocate(NewInode {
            kind: FileKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            rdev: 0,
            target: &[],
            now: Timestamp::default(),
        });
        root.private.parent.set(ROOT);
        fs
    }

    /// A file system whose reads and writes of pages, and forces, take `span` each.
    #[must_use]
    pub fn slow(sim: &Sim, capacity: Bytes, span: Ns) -> Self {
        Self {
            delay: Some((sim.clone(), span)),
            ..Self::new(capacity)
        }
    }

    /// Records all calls for pages from now on.
    #[must_use]
    pub fn recording(self) -> Self {
        Self {
            recording: true,
            ..self
        }
    }

    /// Asks write-back for the contents that pages had when they were last clean.
    #[must_use]
    pub fn with_duplicates(self) -> Self {
        Self {
            duplicates: true,
            ..self
        }
    }

    /// Accesses contents in place: no cache above.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { dax: true, ..self }
    }

    /// Makes every write of pages and every change of a size fail with `errno`, or succeed again if
    /// `None`.
    pub fn break_writes(&self, errno: Option<Errno>) {
        self.broken.set(errno);
    }

    /// Writes of pages since the last call; empty unless recording.
    pub fn take_writes(&self) -> Vec<PageCall> {
        std::mem::take(&mut self.writes.borrow_mut())
    }

    /// Reads of pages since the last call; empty unless recording.
    pub fn take_reads(&self) -> Vec<PageCall> {
        std::mem::take(&mut self.reads.borrow_mut())
    }

    /// Pages written since the last call; empty unless recording, with duplicates.
    pub fn take_duplicates(&self) -> Vec<DirtyPage> {
        std::mem::take(&mut self.last.borrow_mut())
    }

    /// Panics unless the tree of an unmounted file system is consistent: every name leads to a
    /// file, link counts are right, and no file lacks a name.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check(&self) {
        let files = self.files.borrow();
        let mut links: BTreeMap<u64, u32> = BTreeMap::from([(ROOT.0, 2)]);
        for (&ino, file) in files.iter() {
            for (name, entry) in file.names.borrow().iter() {
                assert!(files.contains_key(&entry.ino.0), "{name:?} leads nowhere");
                let order = file.order.borrow();
                assert_eq!(order.get(&entry.cookie), Some(name), "cookie of {name:?}");
                let is_dir = entry.kind == FileKind::Directory;
                *links.entry(entry.ino.0).or_default() += if is_dir { 2 } else { 1 };
                if is_dir {
                    *links.entry(ino).or_default() += 1;
                    let parent = files[&entry.ino.0].parent.get();
                    assert_eq!(parent, Ino(ino), "parent of {name:?}");
                }
            }
        }
        for (ino, file) in files.iter() {
            let counted = links.get(ino).copied().unwrap_or(0);
            assert!(counted > 0, "{ino} has no name");
            assert_eq!(file.attr.get().nlink, counted, "links of {ino}");
        }
    }

    async fn wait(&self) {
        if let Some((sim, span)) = &self.delay {
            sim.sleep(*span).await;
        }
    }

    fn allocate(&self, new: NewInode<'_>) -> Node {
        let made = self.next.get();
        self.next.set(made + 1);
        let ino = self.free.borrow_mut().pop().unwrap_or(made);
        let attr = Attr {
            kind: new.kind,
            mode: new.mode,
            nlink: if new.kind == FileKind::Directory {
                2
            } else {
                1
            },
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            size: new.target.len() as u64,
            sectors: 0,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: new.now,
            generation: made as u32,
        };
        let file = Rc::new(File {
            attr: Cell::new(attr),
            data: RefCell::default(),
            names: RefCell::default(),
            order: RefCell::default(),
            cookies: Cell::new(0),
            parent: Cell::new(Ino(ino)),
            target: new.target.into(),
            xattrs: RefCell::default(),
        });
        self.files.borrow_mut().insert(ino, Rc::clone(&file));
        Node::new(Ino(ino), attr, file)
    }

    /// Updates the page counts of a file and of the file system.
    fn book(&self, inode: &Node) {
        let pages = inode.private.data.borrow().len() as u64;
        inode.update(|attr| {
            let before = attr.sectors / SECTORS;
            self.used.set(self.used.get() + pages - before);
            attr.sectors = pages * SECTORS;
        });
    }

    /// Allocates the missing pages of a range.
    fn fill(&self, inode: &Node, pages: Range<u64>) -> Result<()> {
        let mut data = inode.private.data.borrow_mut();
        let there = data.range(pages.clone()).count() as u64;
        let missing = pages.end - pages.start - there;
        if missing > self.pages.saturating_sub(self.used.get()) {
            return Err(Errno::ENOSPC);
        }
        for index in pages {
            data.entry(index).or_default();
        }
        drop(data);
        self.book(inode);
        Ok(())
    }

    /// Makes a range read as zeros; whole pages are freed.
    fn clear(&self, inode: &Node, range: &Range<u64>) {
        let mut data = inode.private.data.borrow_mut();
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let touched: Vec<u64> = data.range(pages).map(|(&index, _)| index).collect();
        for index in touched {
            let from = range.start.max(index * PAGE) - index * PAGE;
            let to = range.end.min((index + 1) * PAGE) - index * PAGE;
            if to - from == PAGE {
                data.remove(&index);
            } else if let Some(page) = data.get_mut(&index) {
                let mut bytes = page.to_bytes();
                bytes[from as usize..to as usize].fill(0);
                *page = Payload::Bytes(Arc::new(bytes));
            }
        }
        drop(data);
        self.book(inode);
    }
}

impl File {
    fn insert(&self, name: &[u8], ino: Ino, kind: FileKind) {
        let cookie = self.cookies.get() + 1;
        self.cookies.set(cookie);
        self.order.borrow_mut().insert(cookie, name.into());
        let entry = Entry { cookie, ino, kind };
        if let Some(old) = self.names.borrow_mut().insert(name.into(), entry) {
            self.order.borrow_mut().remove(&old.cookie);
        }
    }

    fn remove(&self, name: &[u8]) {
        if let Some(entry) = self.names.borrow_mut().remove(name) {
            self.order.borrow_mut().remove(&entry.cookie);
        }
    }
}
