//! Mounting: the trees that the newest superblock leads to, the space that they leave, and
//! what was forced since.
//!
//! Invariant: nothing is written unless something was forced, or had no name, and then a
//! commit ends it.

use crate::forest::{Forest, Tree};
use crate::format::extent::group as group_item;
use crate::format::node;
use crate::format::superblock::{Start, SuperError, Superblock};
use crate::format::tree::{Chunk, RootItem};
use crate::format::{Key, NODE_BYTES, id, kind};
use crate::fs::{Core, CowFs, Settings};
use crate::nodes::{Identity, NodeCache};
use crate::persist::{Btrfs, Persist, newest};
use crate::space::Space;
use host::BlockPort;
use sim::{Boxed, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, MIB, NoSpace, Ns, Origin};
use vfs::{AnyBody, Errno, Timestamp};

/// Options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether what becomes free is deallocated on the drive.
    pub discard: bool,
    /// Whether contents are written in their place, and have no sums (`nodatacow`).
    pub in_place: bool,
    /// Whether contents of new files have sums.
    pub sums: bool,
    /// Origin of metadata writes in the drive's ledger.
    pub origin: Origin,
    /// Interval of commits without an fsync: 30 s in Linux.
    pub interval: Ns,
    /// Memory for nodes that are clean.
    pub cache: Bytes,
    /// The time at which the clock of the simulation began.
    pub start: Timestamp,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            discard: false,
            in_place: false,
            sums: true,
            origin: Origin(0),
            interval: Ns::secs(30),
            cache: Bytes(256 * MIB),
            start: Timestamp::default(),
        }
    }
}

/// Why there is no file system to work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MountError {
    /// No superblock can be used; this is the first one's reason.
    #[error(transparent)]
    Super(#[from] SuperError),
    /// A structure below the superblock is damaged.
    #[error("the superblock leads to damaged {0}")]
    Damaged(&'static str),
    /// There is no room for what has to be written to go on from there.
    #[error("there is no room for what recovery writes: {0}")]
    NoSpace(NoSpace),
    /// It could not be read, or not be recovered.
    #[error("the file system could not be read or recovered: {0}")]
    Errno(#[from] Errno),
}

/// Work that a mount did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Files that were forced after the last commit.
    pub files: u64,
    /// Inodes without a name that were freed.
    pub orphans: u64,
}

fn forest<S: Persist>(persist: &S, superblock: &Superblock, options: &MountOptions) -> Forest {
    let nowhere = |tree: u64| Rc::new(Tree::at(tree, Start::default()));
    Forest {
        identity: Cell::new(Identity {
            fsid: superblock.fsid,
            chunk_tree: [0; 16],
        }),
        transid: Cell::new(superblock.generation + 1),
        in_place: persist.changes_nodes_in_place(),
        most_changed: persist.most_changed_nodes(),
        nodes: RefCell::new(NodeCache::new((options.cache.0 / NODE_BYTES) as usize)),
        space: RefCell::new(Space::new(superblock.total_bytes)),
        refs: RefCell::default(),
        roots: Rc::new(Tree::at(id::ROOT_TREE, superblock.root)),
        chunks: Rc::new(Tree::at(id::CHUNK_TREE, superblock.chunk_root)),
        extents: nowhere(id::EXTENT_TREE),
        devices: nowhere(id::DEV_TREE),
        csums: nowhere(id::CSUM_TREE),
        stats: Cell::default(),
    }
}

/// Mounts what a strategy persists, once it has recovered that.
///
/// # Errors
/// What is damaged, or why the drive failed.
pub async fn mount_with<S: Persist>(
    sim: &Sim,
    persist: S,
    options: MountOptions,
) -> Result<(CowFs<S>, Recovery), MountError> {
    persist.recover().await?;
    let superblock = newest(persist.port(), options.origin).await?;
    let forest = forest(&persist, &superblock, &options);
    let mut space = Space::new(superblock.total_bytes);
    for chunk in &superblock.system {
        if !space.add_chunk(chunk.clone()) {
            return Err(MountError::Damaged("chunks"));
        }
    }
    *forest.space.borrow_mut() = space;
    let settings = Settings {
        origin: options.origin,
        interval: options.interval,
        discard: options.discard,
        sums: options.sums,
        dup: superblock.system.iter().any(|chunk| chunk.copies.len() > 1),
        start: options.start,
    };
    let log = superblock.log_root;
    let core = Core::new(sim, persist, settings, forest, superblock);
    core.read_trees().await?;
    let recovery = core.recover(log).await;
    let recovery = recovery.map_err(|errno| core.named(errno))?;
    Ok((CowFs { core }, recovery))
}

/// Mounts Btrfs as Linux has it from `port`, and recovers what has to be.
///
/// # Errors
/// The damaged part of the file system, or the failure of the drive.
pub fn mount(
    sim: &Sim,
    port: &impl BlockPort,
    options: MountOptions,
) -> Boxed<'static, Result<(CowFs<Btrfs>, Recovery), MountError>> {
    mount_copying(sim.clone(), Btrfs::new(port, options.in_place), options)
}

fn mount_copying(
    sim: Sim,
    persist: Btrfs,
    options: MountOptions,
) -> Boxed<'static, Result<(CowFs<Btrfs>, Recovery), MountError>> {
    Box::pin(async move { mount_with(&sim, persist, options).await })
}

impl From<CowFs<Btrfs>> for AnyBody {
    fn from(body: CowFs<Btrfs>) -> Self {
        Self::new(body)
    }
}

impl<S: Persist> Core<S> {
    /// Finds chunks, trees and free space.
    async fn read_trees(&self) -> Result<(), MountError> {
        let chunks = self.read_chunks().await?;
        {
            let mut space = Space::new(self.superblock.borrow().total_bytes);
            for chunk in chunks {
                if !space.add_chunk(chunk) {
                    return Err(MountError::Damaged("chunks"));
                }
            }
            *self.forest.space.borrow_mut() = space;
        }
        let identity = self.chunk_tree_identity().await?;
        self.forest.identity.set(Identity {
            chunk_tree: identity,
            ..self.forest.identity.get()
        });
        self.read_roots().await?;
        self.read_space().await
    }

    async fn chunk_tree_identity(&self) -> Result<[u8; 16], MountError> {
        let root = self.with(|| self.forest.root(&self.forest.roots)).await?;
        Ok(node::head::CHUNK_TREE_UUID.get(&root.bytes()[..]))
    }

    async fn read_chunks(&self) -> Result<Vec<Chunk>, MountError> {
        let tree = &self.forest.chunks;
        let items = self.items_of(tree, id::CHUNKS, kind::CHUNK_ITEM, kind::CHUNK_ITEM);
        let mut chunks = Vec::new();
        for (key, data) in items.await? {
            let chunk = Chunk::get(key.offset, &data);
            chunks.push(chunk.ok_or(MountError::Damaged("chunks"))?);
        }
        Ok(chunks)
    }

    /// Reads the items of all roots.
    async fn read_roots(&self) -> Result<(), MountError> {
        let mut from = Key::new(id::EXTENT_TREE, 0, 0);
        loop {
            let next = self.with(|| {
                self.forest
                    .first_from(&self.forest.roots, from, |key, data| {
                        let root = key.kind == kind::ROOT_ITEM;
                        (key, root.then(|| RootItem::get(data)))
                    })
            });
            let Some((key, item)) = next.await? else {
                break;
            };
            if let Some(item) = item {
                self.take_root(key, item);
            }
            let Some(next) = key.next() else { break };
            from = next;
        }
        let forest = &self.forest;
        let known = [&forest.extents, &forest.devices, &forest.csums];
        let there = known.iter().all(|tree| tree.start.get().bytenr != 0);
        if !there || self.tree(id::FS_TREE).is_none() {
            return Err(MountError::Damaged("roots"));
        }
        Ok(())
    }

    fn take_root(&self, key: Key, item: RootItem) {
        let forest = &self.forest;
        let read = Tree::of(key.object, key.offset, item);
        let own = match key.object {
            id::EXTENT_TREE => &forest.extents,
            id::DEV_TREE => &forest.devices,
            id::CSUM_TREE => &forest.csums,
            _ => {
                self.trees.borrow_mut().insert(key.object, Rc::new(read));
                return;
            }
        };
        own.start.set(read.start.get());
        own.bytes_used.set(read.bytes_used.get());
        *own.item.borrow_mut() = read.item.into_inner();
    }

    /// Reads the tree of extents, which says what is not free.
    async fn read_space(&self) -> Result<(), MountError> {
        let forest = &self.forest;
        let mut from = Key::default();
        loop {
            // A leaf at once: all extents there are, are looked at.
            let some = self.with(|| {
                let Some((leaf, slot)) = forest.leaf_from(&forest.extents, from)? else {
                    return Ok(Vec::new());
                };
                let bytes = leaf.bytes();
                let slots = slot..node::items(&bytes);
                let said = slots.map(|slot| {
                    let key = node::key(&bytes, slot);
                    let is_group = key.kind == kind::BLOCK_GROUP_ITEM;
                    let used = is_group.then(|| group_item::USED.get(node::data(&bytes, slot)));
                    (key, used)
                });
                Ok(said.collect::<Vec<_>>())
            });
            let some = some.await?;
            let Some((last, _)) = some.last() else {
                return Ok(());
            };
            let next = last.next();
            let mut space = forest.space.borrow_mut();
            for (key, used) in some {
                let sound = match (key.kind, used) {
                    (kind::EXTENT_ITEM, _) => space.occupy(key.object, key.offset),
                    (kind::METADATA_ITEM, _) => space.occupy(key.object, NODE_BYTES),
                    (_, Some(used)) => space.set_used(key.object, used),
                    _ => true,
                };
                if !sound {
                    return Err(MountError::Damaged("extents"));
                }
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
        }
    }

    /// Lays the log over the trees, and frees what had no name.
    async fn recover(&self, log: Option<Start>) -> Result<Recovery, Errno> {
        let files = match log {
            Some(log) => {
                // Half a log on the medium would be all of it: it is published once, below.
                let _publishing = self.publishing.acquire(1).await;
                self.replay(log).await?
            }
            None => 0,
        };
        if log.is_some() {
            self.commit().await?;
        }
        let trees: Vec<Rc<Tree>> = self.trees.borrow().values().cloned().collect();
        let mut orphans = 0;
        for tree in trees.iter().filter(|tree| id::is_subvolume(tree.id)) {
            orphans += self.free_orphans(tree).await?;
        }
        if orphans > 0 {
            self.commit().await?;
        }
        Ok(Recovery { files, orphans })
    }

    /// Why a mount ends, with the limit if it met one.
    fn named(&self, errno: Errno) -> MountError {
        match (errno, self.refusals.borrow().last()) {
            (Errno::ENOSPC, Some(why)) => MountError::NoSpace(why.clone()),
            (errno, _) => errno.into(),
        }
    }
}
