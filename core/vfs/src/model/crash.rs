//! What a power cut may leave, and the judge of it.
//!
//! # What is promised
//!
//! Each paragraph has a test in `tests/it/model.rs`.
//!
//! **Forced contents are there.** After `fsync` or `fdatasync` of a file, or a
//! write of a file opened with `O_SYNC` or `O_DSYNC`, or `sync`, its contents at
//! that moment are what is read, as far as nothing changed them since.
//!
//! **Later writes are there or not, byte by byte.** A byte that was written since
//! the file was last forced is one of the values that it had since; where the file
//! was shorter once, or had a hole, it may be zero. It is never anything else: not
//! a byte of another file, nor one that was there before the last force.
//!
//! **The size is one that the file passed through.** Between the smallest and the
//! largest since the last force; a large write may be there in part.
//!
//! **A name leads to what it led to at some moment since it was forced.** `fsync`
//! of a directory forces the names in it, `fsync` of a file the names of this
//! file, `sync` all of them; `fdatasync` forces none.
//!
//! **A rename happens at once.** A file that had a name all the time since has
//! one: the old, or the new. A name that was replaced leads to the old file or to
//! the new one. Both names of an exchange, or neither, have changed.
//!
//! **With one journal, names are a moment of the past.** Where all changes of
//! names are in one order ([`Order::Journal`]: ext4 and what journals like it),
//! the whole tree of names is as it was at one moment.
//!
//! **Where files are forced one by one, names are a moment of the past and files that
//! were forced since.** Under [`Order::Entries`] (file systems that roll forward, as
//! F2FS) there is one moment, that of the last checkpoint, and over its names lie those
//! of the regular files that were made and forced after it: each is there under the name
//! that it had, whatever happened to that name later without being forced. To force
//! such a file promises nothing about other names. Who had its name at the checkpoint
//! has lost it, and is gone if that was the last one: a file that was moved away from a
//! name and not forced since does not survive that another one is made of that name and
//! forced. No directory is lost in this way, nor what is in it. To force anything else,
//! or a file whose names have changed otherwise than by making it, promises a moment
//! after these changes; `fdatasync` of a new file may bring its name along.
//!
//! Kinds, targets of links and the structure of the tree follow from the names.
//! Times, permissions and extended attributes are not judged.

use super::{Id, Model, Node, ROOT};
use crate::body::Body;
use crate::errno::Result;
use crate::flags::OpenFlags;
use crate::process::Process;
use crate::types::{FileKind, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Names: directory and name, and what they lead to.
pub(crate) type Names = BTreeMap<Key, Id>;

/// A name: its directory and its bytes.
type Key = (Id, Vec<u8>);

/// What a body promises about the order among changes of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Recovery shows all names as they were at one moment.
    Journal,
    /// It shows all names as they were at one moment, and over them those of files that
    /// were made and forced since.
    Entries,
}

/// The name of a file that was forced by itself.
struct Forced {
    /// The moment at which it was made.
    made: usize,
    key: Key,
    id: Id,
    /// Whether it has to be there, or only may.
    promised: bool,
}

/// Moments that recovery may show.
pub(crate) struct Past {
    order: Order,
    /// Names at each moment, oldest first; the last one is the present.
    moments: Vec<Names>,
    /// Moments that came before those kept.
    dropped: usize,
    /// Names of files that were forced by themselves, in the order in which they were made.
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

    /// Forgets what came before `moment`.
    fn forget_before(&mut self, moment: usize) {
        let old = moment.saturating_sub(self.dropped);
        self.moments.drain(..old);
        self.dropped += old;
        let dropped = self.dropped;
        self.forced.retain(|forced| forced.made > dropped);
    }

    /// The moment since which `key` leads where it leads now.
    fn since(&self, key: &Key) -> usize {
        let present = self.moments.last().and_then(|names| names.get(key));
        let same = self.moments.iter().rev();
        let same = same.take_while(|names| names.get(key) == present).count();
        self.now() + 1 - same
    }

    /// Names that have led to a file.
    fn names_of(&self, id: Id) -> Vec<Key> {
        let names = self.moments.iter().flatten();
        let own = names.filter(|(_, to)| **to == id);
        let keys: BTreeSet<&Key> = own.map(|(key, _)| key).collect();
        keys.into_iter().cloned().collect()
    }

    /// The name of a file that all that ever happened to is that it was made, and when,
    /// if that is not too long ago.
    fn made(&self, id: Id) -> Option<(usize, Key)> {
        let [key] = &self.names_of(id)[..] else {
            return None;
        };
        let leads = |names: &Names| names.get(key) == Some(&id);
        let made = self.moments.iter().position(leads)?;
        let still = self.moments[made..].iter().all(leads);
        (made > 0 && still).then(|| (self.dropped + made, key.clone()))
    }

    /// Notes that a new file was forced, after which its directory is there.
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

    /// If the last checkpoint was at `moment`, what names of files that were forced since
    /// may lead to. Who was forced without a promise displaces nobody in `kept`.
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

/// Contents that recovery may show of a file.
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
    /// Changes names, all at once.
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

    /// Forces a file or directory.
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

    /// Forces everything.
    pub(crate) fn force_all(&mut self) {
        self.past.forget_before(self.past.now());
        for node in self.nodes.values_mut() {
            node.versions.force();
        }
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which inode: the same for names of the same file.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Contents, or where a symbolic link leads.
    pub data: Vec<u8>,
}

/// A file system as recovery shows it: by path, `/a/b`, without the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<Vec<u8>, Seen>);

impl Tree {
    /// Reads all there is.
    ///
    /// # Errors
    /// Whatever could not be read.
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

/// The regular files that there are, with their sizes; nothing of them is read.
///
/// # Errors
/// Whatever could not be looked at.
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

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub path: Vec<u8>,
    /// What is wrong.
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

/// What recovery must not have shown. None if all promises were kept.
#[must_use]
pub fn check(model: &Model, tree: &Tree) -> Vec<Violation> {
    match model.past.order {
        Order::Journal => {
            let moments = model.past.moments.iter().rev();
            let judged =
                moments.map(|names| judge(model, tree, &|key| vec![names.get(key).copied()]));
            // The moment that fits best tells most about what is wrong.
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

/// The same, if the last checkpoint was at this moment.
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

/// What a name may lead to.
type Allowed<'a> = dyn Fn(&Key) -> Vec<Option<Id>> + 'a;

/// Goes through the tree and the names side by side.
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

/// Which node of the model each path leads to: one that the name may lead to, of
/// the right kind, and the same one for all names of an inode.
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

/// Names that may be there in the directories that are.
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
