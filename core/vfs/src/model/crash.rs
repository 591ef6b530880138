//! Crash consistency: the states that a power cut may leave, and the judge of a recovered tree.
//!
//! # Promises
//!
//! Each paragraph has a test in `tests/it/model.rs`.
//!
//! **Forced contents are there.** After `fsync` or `fdatasync` of a file, a write of a file opened
//! with `O_SYNC` or `O_DSYNC`, or `sync`, recovery shows the contents that the file had then, as
//! far as they were not changed since.
//!
//! **Later writes are there or not, byte by byte.** A byte written since the last force of the file
//! has one of its values since then; where the file was shorter once, or had a hole, the byte may
//! be zero. It never has another value: no byte of another file, and none from before the last
//! force.
//!
//! **The size is one that the file passed through.** The size lies between the smallest and the
//! largest since the last force; a large write may be there in part.
//!
//! **A name leads to what it led to at some moment since it was forced.** `fsync` of a directory
//! forces the names in it, `fsync` of a file forces the names of this file, `sync` forces all
//! names; `fdatasync` forces none.
//!
//! **A rename happens at once.** A file that was moved has either the old name or the new one. A
//! replaced name leads to the old file or to the new one. Both names of an exchange have changed,
//! or neither.
//!
//! **With one journal, names are a moment of the past.** If all changes of names have one order
//! ([`Order::Journal`]: ext4 and file systems that journal like it), the whole tree of names is as
//! it was at one moment.
//!
//! **Where files are forced one by one, names are a moment of the past and files that were forced
//! since.** Under [`Order::Entries`] (file systems that roll forward, as F2FS) the names are those
//! of the last checkpoint, overlaid by the names of regular files that were created and forced
//! after it: each of these files has the name that it was created under, whatever happened to that
//! name later without a force. A force of such a file promises nothing about other names. A file
//! that had the name at the checkpoint has lost it, and is gone if that was its last name: a file
//! that was moved away and not forced since does not survive the creation and force of another file
//! under its old name. No directory is lost in this way, nor its contents. A force of any other
//! inode, or of a file whose names have changed since its creation, promises a moment after these
//! changes. `fdatasync` of a new file may persist its name.
//!
//! Types of files, targets of links and the structure of the tree follow from the names. Times,
//! permissions and extended attributes are not judged.

use super::{Id, Model, Node, ROOT};
use crate::body::Body;
use crate::errno::Result;
use crate::flags::OpenFlags;
use crate::process::Process;
use crate::types::{FileKind, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The name tree: directory and name, mapped to the node.
pub(crate) type Names = BTreeMap<Key, Id>;

/// A directory entry without its node: directory and bytes of the name.
type Key = (Id, Vec<u8>);

/// Order that a body guarantees among changes of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Recovery shows all names as they were at one moment.
    Journal,
    /// Recovery shows all names as they were at one moment, overlaid by the names of files that
    /// were created and forced since.
    Entries,
}

/// A new file that was forced on its own, and its name.
struct Forced {
    /// Moment of the creation.
    made: usize,
    key: Key,
    id: Id,
    /// Whether recovery must show the name, or only may.
    promised: bool,
}

/// Name trees that recovery may show.
pub(crate) struct Past {
    order: Order,
    /// Names at each moment, oldest first; the last is the present.
    moments: Vec<Names>,
    /// Number of older moments that were discarded.
    dropped: usize,
    /// New files forced on their own, by the moment of their creation.
    forced: Vec<Forced>,
}

impl Past {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            order,
            moments: vec![Names::new()],
            dropped: 0,
            forced: Vec::new(),
        }
    }

    fn now(&self) -> usize {
        self.dropped + self.moments.len() - 1
    }

    /// Discards the moments before `moment`.
    fn forget_before(&mut self, moment: usize) {
        let old = moment.saturating_sub(self.dropped);
        self.moments.drain(..old);
        self.dropped += old;
        let dropped = self.dropped;
        self.forced.retain(|forced| forced.made > dropped);
    }

    /// The moment since which `key` has led to its present node.
    fn since(&self, key: &Key) -> usize {
        let present = self.moments.last().and_then(|names| names.get(key));
        let same = self.moments.iter().rev();
        let same = same.take_while(|names| names.get(key) == present).count();
        self.now() + 1 - same
    }

    /// All names that have led to a file in the moments kept.
    fn names_of(&self, id: Id) -> Vec<Key> {
        let names = self.moments.iter().flatten();
        let own = names.filter(|(_, to)| **to == id);
        let keys: BTreeSet<&Key> = own.map(|(key, _)| key).collect();
        keys.into_iter().cloned().collect()
    }

    /// The moment and name of the creation of a file, if it was created within the moments kept and
    /// its names have not changed since.
    fn made(&self, id: Id) -> Option<(usize, Key)> {
        let [key] = &self.names_of(id)[..] else {
            return None;
        };
        let leads = |names: &Names| names.get(key) == Some(&id);
        let made = self.moments.iter().position(leads)?;
        let still = self.moments[made..].iter().all(leads);
        (made > 0 && still).then(|| (self.dropped + made, key.clone()))
    }

    /// Records the force of a new file; its parent directory survives from then on.
    fn force_new(&mut self, id: Id, (made, key): (usize, Key), promised: bool) {
        if promised {
            let there = |names: &Names| key.0 == ROOT || names.values().any(|to| *to == key.0);
            let born = self.moments.iter().position(there).unwrap_or(0);
            self.forget_before(self.dropped + born);
        }
        if made <= self.dropped {
            return;
        }
        let promised = promised || self.forced.iter().any(|f| f.id == id && f.promised);
        self.forced.retain(|forced| forced.id != id);
        self.forced.push(Forced {
            made,
            key,
            id,
            promised,
        });
        self.forced.sort_by_key(|forced| forced.made);
    }

    /// Nodes that names overlaid since a last checkpoint at `moment` may lead to. A file that was
    /// forced without a promise does not displace a node in `kept`.
    fn laid_over(
        &self,
        moment: usize,
        kept: impl Fn(Id) -> bool,
    ) -> BTreeMap<&Key, Vec<Option<Id>>> {
        let base = &self.moments[moment - self.dropped];
        let mut over: BTreeMap<&Key, Vec<Option<Id>>> = BTreeMap::new();
        for forced in self.forced.iter().filter(|forced| forced.made > moment) {
            let before = base.get(&forced.key).copied();
            let allowed = over.entry(&forced.key).or_insert_with(|| vec![before]);
            if forced.promised {
                allowed.clear();
            }
            if forced.promised || !before.is_some_and(&kept) {
                allowed.push(Some(forced.id));
            }
        }
        over
    }
}

/// Contents that recovery may show for a file, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Versions(Vec<Vec<u8>>);

impl Versions {
    pub(crate) fn starting(data: &[u8]) -> Self {
        Self(vec![data.to_vec()])
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        self.0.push(data.to_vec());
    }

    fn force(&mut self) {
        let present = self.0.len() - 1;
        self.0.drain(..present);
    }

    fn allows_size(&self, size: usize) -> bool {
        let sizes = self.0.iter().map(Vec::len);
        sizes.clone().min() <= Some(size) && Some(size) <= sizes.max()
    }

    fn allows(&self, at: usize, byte: u8) -> bool {
        let values = self.0.iter().map(|v| v.get(at).copied().unwrap_or(0));
        values.into_iter().any(|value| value == byte)
    }
}

impl Model {
    /// Applies changes of names in one step.
    pub(crate) fn set_names(&mut self, changes: &[(Id, Vec<u8>, Option<Id>)]) {
        for (dir, name, id) in changes {
            let key = (*dir, name.clone());
            match id {
                Some(id) => self.names.insert(key, *id),
                None => self.names.remove(&key),
            };
        }
        self.past.moments.push(self.names.clone());
    }

    /// Applies a force of a file or directory.
    pub(crate) fn force(&mut self, id: Id, data_only: bool) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.versions.force();
        }
        let regular = self.nodes.get(&id).map(|node| node.kind) == Some(FileKind::Regular);
        let by_itself = regular && self.past.order == Order::Entries;
        let made = self.past.made(id).filter(|_| by_itself);
        if let Some(made) = made {
            return self.past.force_new(id, made, !data_only);
        }
        if data_only {
            return;
        }
        let mut keys = self.past.names_of(id);
        let inside = self.past.moments.iter().flat_map(BTreeMap::keys);
        keys.extend(inside.filter(|(dir, _)| *dir == id).cloned());
        let since = keys.iter().map(|key| self.past.since(key)).max();
        if let Some(since) = since {
            self.past.forget_before(since);
        }
    }

    /// Applies a force of the whole file system.
    pub(crate) fn force_all(&mut self) {
        self.past.forget_before(self.past.now());
        for node in self.nodes.values_mut() {
            node.versions.force();
        }
    }
}

/// A file that a walk found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Inode number, equal for all names of one file.
    pub ino: Ino,
    /// Type of the file.
    pub kind: FileKind,
    /// Contents, or the target of a symbolic link; empty for other types.
    pub data: Vec<u8>,
}

/// The tree of a recovered file system by path (`/a/b`), without the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<Vec<u8>, Seen>);

impl Tree {
    /// Reads the names and contents of all files.
    ///
    /// # Errors
    /// The first error of a call.
    pub async fn read<B: Body>(process: &Process<B>) -> Result<Self> {
        let mut tree = Self::default();
        let mut dirs = vec![b"/".to_vec()];
        while let Some(dir) = dirs.pop() {
            for name in super::op::list(process, &dir).await? {
                let mut path = if dir == b"/" { Vec::new() } else { dir.clone() };
                path.push(b'/');
                path.extend(name);
                let seen = see(process, &path).await?;
                if seen.kind == FileKind::Directory {
                    dirs.push(path.clone());
                }
                tree.0.insert(path, seen);
            }
        }
        Ok(tree)
    }
}

/// Paths and sizes of all regular files; their contents are not read.
///
/// # Errors
/// The first error of a call.
pub async fn sizes<B: Body>(process: &Process<B>) -> Result<Vec<(Vec<u8>, u64)>> {
    let (mut files, mut dirs) = (Vec::new(), vec![b"/".to_vec()]);
    while let Some(dir) = dirs.pop() {
        for name in super::op::list(process, &dir).await? {
            let mut path = if dir == b"/" { Vec::new() } else { dir.clone() };
            path.push(b'/');
            path.extend(name);
            let flags = OpenFlags::PATH | OpenFlags::NO_FOLLOW;
            let fd = process.open(&path, flags, 0).await?;
            let attr = process.fstat(fd).await?;
            process.close(fd).await?;
            match attr.kind {
                FileKind::Directory => dirs.push(path),
                FileKind::Regular => files.push((path, attr.size)),
                _ => {}
            }
        }
    }
    Ok(files)
}

async fn see<B: Body>(process: &Process<B>, path: &[u8]) -> Result<Seen> {
    let fd = process
        .open(path, OpenFlags::PATH | OpenFlags::NO_FOLLOW, 0)
        .await?;
    let (ino, attr) = (process.ino(fd)?, process.fstat(fd).await?);
    process.close(fd).await?;
    let data = match attr.kind {
        FileKind::Regular => {
            let fd = process.open(path, OpenFlags::READ, 0).await?;
            let data = process.read_bytes(fd, 0, attr.size as usize).await;
            process.close(fd).await?;
            data?
        }
        FileKind::Symlink => process.readlink(path).await?,
        _ => Vec::new(),
    };
    Ok(Seen {
        ino,
        kind: attr.kind,
        data,
    })
}

/// A broken promise in a recovered tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the file concerned.
    pub path: Vec<u8>,
    /// The deviation, as a sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        write!(f, "{path}: {}", self.what)
    }
}

fn violation(path: &[u8], what: impl Into<String>) -> Violation {
    Violation {
        path: path.to_vec(),
        what: what.into(),
    }
}

/// Compares a recovered tree with the promises of the model; empty if all are kept.
#[must_use]
pub fn check(model: &Model, tree: &Tree) -> Vec<Violation> {
    match model.past.order {
        Order::Journal => {
            let moments = model.past.moments.iter().rev();
            let judged =
                moments.map(|names| judge(model, tree, &|key| vec![names.get(key).copied()]));
            // Report against the moment that fits best: it says most about the deviation.
            judged.min_by_key(Vec::len).unwrap_or_default()
        }
        Order::Entries => {
            let first = model.past.dropped;
            let judged = (first..=model.past.now()).rev();
            let judged = judged.map(|moment| judge_over(model, tree, moment));
            judged.min_by_key(Vec::len).unwrap_or_default()
        }
    }
}

/// Compares the tree with the names of a last checkpoint at `moment` and the files forced since.
fn judge_over(model: &Model, tree: &Tree, moment: usize) -> Vec<Violation> {
    let is_dir = |id: Id| model.nodes[&id].kind == FileKind::Directory;
    let over = model.past.laid_over(moment, is_dir);
    let base = &model.past.moments[moment - model.past.dropped];
    let mut found = judge(model, tree, &|key| match over.get(key) {
        Some(allowed) => allowed.clone(),
        None => vec![base.get(key).copied()],
    });
    for (key, allowed) in &over {
        let before = base.get(*key).copied();
        if before.is_some_and(is_dir) && !allowed.contains(&before) {
            found.push(violation(&key.1, "a directory has lost this name"));
        }
    }
    found
}

/// Nodes that a name may lead to; `None` allows its absence.
type Allowed<'a> = dyn Fn(&Key) -> Vec<Option<Id>> + 'a;

/// Compares the tree with the allowed names, in both directions.
fn judge(model: &Model, tree: &Tree, allowed: &Allowed<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let ids = identify(tree, allowed, model);
    for (path, seen) in &tree.0 {
        let Some(Some(id)) = ids.get(path) else {
            found.push(violation(path, "this name did not lead to such a file"));
            continue;
        };
        found.extend(contents(path, seen, &model.nodes[id]));
    }
    for (path, key) in expected(model, &ids) {
        let missing = !tree.0.contains_key(&path) && !allowed(&key).contains(&None);
        if missing {
            found.push(violation(&path, "this name was forced and is gone"));
        }
    }
    found
}

/// Maps each path to a node of the model that its name may lead to: of the right type, and one node
/// for all names of an inode.
fn identify(tree: &Tree, allowed: &Allowed<'_>, model: &Model) -> BTreeMap<Vec<u8>, Option<Id>> {
    let mut ids: BTreeMap<Vec<u8>, Option<Id>> = BTreeMap::new();
    let mut inodes: BTreeMap<Ino, Id> = BTreeMap::new();
    for (path, seen) in &tree.0 {
        let slash = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
        let (dir, name) = (&path[..slash], &path[slash + 1..]);
        let dir = if dir.is_empty() {
            Some(ROOT)
        } else {
            ids.get(dir).copied().flatten()
        };
        let fits = |id: &Id| {
            let node = &model.nodes[id];
            let known = inodes.get(&seen.ino);
            node.kind == seen.kind && known.is_none_or(|known| known == id)
        };
        let candidates = dir.map(|dir| allowed(&(dir, name.to_vec())));
        let mut fitting: Vec<Id> = candidates
            .into_iter()
            .flatten()
            .flatten()
            .filter(fits)
            .collect();
        fitting.sort_by_key(|id| contents(path, seen, &model.nodes[id]).is_some());
        if let Some(&id) = fitting.first() {
            inodes.insert(seen.ino, id);
        }
        ids.insert(path.clone(), fitting.first().copied());
    }
    ids
}

/// Names that may exist in the directories that were found.
fn expected(model: &Model, ids: &BTreeMap<Vec<u8>, Option<Id>>) -> BTreeMap<Vec<u8>, Key> {
    let mut dirs: BTreeMap<Id, &[u8]> = BTreeMap::from([(ROOT, &b""[..])]);
    dirs.extend(
        ids.iter()
            .filter_map(|(path, id)| Some(((*id)?, path.as_slice()))),
    );
    let keys = model.past.moments.iter().flat_map(BTreeMap::keys);
    let paths = keys.filter_map(|(dir, name)| {
        let path = [dirs.get(dir)?, &b"/"[..], name].concat();
        Some((path, (*dir, name.clone())))
    });
    paths.collect()
}

fn contents(path: &[u8], seen: &Seen, node: &Node) -> Option<Violation> {
    if node.kind == FileKind::Symlink && node.data != seen.data {
        return Some(violation(path, "this link led elsewhere"));
    }
    if !node.versions.allows_size(seen.data.len()) {
        let what = format!("it never had {} bytes since it was forced", seen.data.len());
        return Some(violation(path, what));
    }
    let mut bytes = seen.data.iter().enumerate();
    let (at, byte) = bytes.find(|&(at, &byte)| !node.versions.allows(at, byte))?;
    let what = format!("byte {at} is {byte:#04x}, which it never was since it was forced");
    Some(violation(path, what))
}
