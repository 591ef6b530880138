//! Relocation: the cleaner copies the valid blocks of a section to other sections.
//!
//! A section is relocated a segment at a time, in the steps of Linux. First the summary of
//! the segment and the nodes that point to its blocks are read, then the blocks, a command
//! for each run. Data of files is written to the cold log and nodes to the log of their kind,
//! in runs as well; directory blocks become dirty, and the next checkpoint writes them. A
//! segment is read while the segment before it is written.
//!
//! # Concurrency
//!
//! Loading and moving a segment are one operation, so no checkpoint lies between them. Other
//! calls proceed: relocation takes no inode lock. A copy of file data is optimistic. The
//! pointer is redirected after the copy was written, without a suspension point in between,
//! and only if the pointer still leads to the old block; otherwise the file has changed and
//! the copy is freed. A call that still reads the old block finds it intact: only a
//! checkpoint lets the block be overwritten, and a checkpoint waits for all operations.
//!
//! Invariant: no log writes to the section, so a block that a pointer leads to keeps its
//! contents until the relocation ends.

use crate::dir::DirBlock;
use crate::format::summary::Owner;
use crate::format::{SEG_BLOCKS, blank, node, path};
use crate::fs::{Core, damaged};
use crate::inplace::{COMMAND_BLOCKS, runs};
use crate::nat::Nat;
use crate::nodes::{NodeBuf, checked_node};
use crate::persist::{Log, MainArea, Persist};
use host::Purpose;
use nand::Payload;
use sim::Permit;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{DirtyPage, Errno, FileKind, Result};

/// Reads of single blocks that are in flight at once: a choice of ours.
const READS: usize = 64;

/// A block to move, and the pointer to it: address `at` of the node `buf`.
struct Moving {
    addr: u32,
    buf: Rc<NodeBuf>,
    at: usize,
    inode: Rc<NodeBuf>,
}

/// A directory block to move: it becomes dirty, and the next checkpoint writes it. `index`
/// is its block number in the directory.
struct MovingEntries {
    from: Moving,
    index: u64,
    block: Rc<DirBlock>,
}

/// Valid blocks of a segment, by the kind of the log that wrote them.
enum Contents {
    /// Nodes with their addresses, and the inodes of their files by number. The references
    /// keep both in the node cache.
    Nodes {
        nodes: Vec<(u32, Rc<NodeBuf>)>,
        inodes: BTreeMap<u32, Result<Rc<NodeBuf>>>,
    },
    Data {
        entries: Vec<MovingEntries>,
        files: Vec<(Moving, Payload)>,
    },
}

/// A segment in memory. The permit keeps checkpoints out until its blocks are moved.
struct Loaded {
    contents: Contents,
    _operation: Permit,
}

/// Runs `reads` in batches of [`READS`]; returns their results in order.
async fn together<T>(reads: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let (mut reads, mut all) = (reads.peekable(), Vec::new());
    while reads.peek().is_some() {
        all.extend(sim::join_all(reads.by_ref().take(READS).collect()).await);
    }
    all
}

impl<P: Persist> Core<P> {
    /// Moves the valid blocks of `section`, and returns how many were moved. The caller
    /// holds the cleaner's lock and has set [`Segments::cleaning`] to the section; the next
    /// checkpoint frees the section.
    ///
    /// [`Segments::cleaning`]: crate::segments::Segments::cleaning
    //= f2fs-gc 1
    pub(crate) async fn relocate(&self, section: u32) -> Result<u64> {
        let segments = self.segments.borrow().segments_of(section);
        let (mut moved, mut loaded) = (0, None);
        for segment in segments {
            let (next, done) = sim::join(self.load(segment), self.unload(loaded.take())).await;
            moved += done?;
            loaded = next?;
        }
        Ok(moved + self.unload(loaded).await?)
    }

    /// Reads the valid blocks of `segment` and the nodes that point to them; `None` if the
    /// segment has no valid block.
    async fn load(&self, segment: u32) -> Result<Option<Loaded>> {
        let operation = self.look().await;
        self.ensure_sound()?;
        let entry = *self.segments.borrow().entry(segment);
        if entry.valid == 0 {
            return Ok(None);
        }
        let owners = self.owners_of(segment).await?;
        let addrs = (0..SEG_BLOCKS).map(|at| self.geometry.addr_of(segment, at));
        let blocks: Vec<(u32, Owner)> = addrs.zip(owners.iter().copied()).collect();
        let contents = match Log::ALL.get(usize::from(entry.log)) {
            Some(log) if log.is_node() => self.load_nodes(&blocks, *log).await?,
            _ => self.load_data(&blocks).await?,
        };
        Ok(Some(Loaded {
            contents,
            _operation: operation,
        }))
    }

    /// Moves the blocks of a loaded segment and ends its operation; returns how many blocks
    /// were moved.
    async fn unload(&self, loaded: Option<Loaded>) -> Result<u64> {
        match loaded.as_ref().map(|loaded| &loaded.contents) {
            None => Ok(0),
            Some(Contents::Nodes { nodes, inodes }) => self.move_nodes(nodes, inodes).await,
            Some(Contents::Data { entries, files }) => {
                let soiled = self.move_entries(entries);
                Ok(soiled + self.move_files(files).await?)
            }
        }
    }

    /// Whether the block at `addr` is in use.
    fn is_valid(&self, addr: u32) -> bool {
        self.segments.borrow().is_valid(addr)
    }

    /// Whether the block is valid and its pointer still leads to it.
    fn leads(&self, moving: &Moving) -> bool {
        self.is_valid(moving.addr) && moving.buf.addr(moving.at) == moving.addr
    }

    /// Reads the blocks at `addrs`, which must rise: a run of adjacent blocks takes one command
    /// for each [`COMMAND_BLOCKS`]. Returns the contents in the order of `addrs`.
    async fn read_runs(
        &self,
        addrs: impl Iterator<Item = u32>,
        purpose: Purpose,
    ) -> Result<Vec<Payload>> {
        let mut runs = runs(addrs.map(|addr| (addr, Payload::Zero)));
        let commands = runs.iter_mut().flat_map(|(start, run)| {
            let starts = (*start..).step_by(COMMAND_BLOCKS);
            starts.zip(run.chunks_mut(COMMAND_BLOCKS))
        });
        let (main, who) = (self.persist.main(), self.who(purpose));
        let reads = commands.map(|(addr, blocks)| main.read(addr, blocks, who));
        for done in together(reads).await {
            done?;
        }
        Ok(runs.into_iter().flat_map(|(_, run)| run).collect())
    }

    /// Loads the blocks of the node address table that cover `nids`; skips numbers beyond the
    /// table.
    async fn load_nats(&self, nids: &BTreeSet<u32>) -> Result<()> {
        let known = nids.iter().filter(|nid| **nid < self.geometry.nids());
        let blocks: BTreeSet<u32> = known.map(|nid| Nat::block_of(*nid)).collect();
        let reads = blocks.iter().map(|index| self.load_nat(*index));
        together(reads).await.into_iter().collect()
    }

    /// Loads the nodes `nids`; the map has the node or the error of each number.
    async fn nodes_of(&self, nids: BTreeSet<u32>) -> Result<BTreeMap<u32, Result<Rc<NodeBuf>>>> {
        self.load_nats(&nids).await?;
        let found = together(nids.iter().map(|nid| self.node(*nid))).await;
        Ok(nids.into_iter().zip(found).collect())
    }

    /// Loads the valid nodes among `blocks`, which `log` has written, and the inodes of their
    /// files. Skips a block that the node address table does not lead to any more.
    //= f2fs-gc 2
    async fn load_nodes(&self, blocks: &[(u32, Owner)], log: Log) -> Result<Contents> {
        let valid = blocks.iter().filter(|(addr, _)| self.is_valid(*addr));
        let valid: Vec<(u32, u32)> = valid.map(|(addr, owner)| (*addr, owner.nid)).collect();
        self.load_nats(&valid.iter().map(|(_, nid)| *nid).collect())
            .await?;
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for (addr, nid) in valid {
            let entry = self.nat.borrow().get(nid);
            let cached = self.nodes.borrow().get(nid);
            match (entry.filter(|entry| entry.addr == addr), cached) {
                (Some(_), Some(buf)) => known.push((addr, buf)),
                (Some(entry), None) => missing.push((nid, entry)),
                (None, _) => {}
            }
        }
        let purpose = match log {
            Log::ColdNode => Purpose::Pointer,
            _ => Purpose::Inode,
        };
        let addrs = missing.iter().map(|(_, entry)| entry.addr);
        let read = self.read_runs(addrs, purpose).await?;
        for ((nid, entry), payload) in missing.into_iter().zip(read) {
            // Another operation may have freed the node or written it elsewhere meanwhile.
            if self.nat.borrow().get(nid) == Some(entry) {
                let bytes = checked_node(nid, entry, &payload)?;
                let buf = self.nodes.borrow_mut().insert(NodeBuf::new(bytes));
                known.push((entry.addr, buf));
            }
        }
        let inos = known.iter().map(|(_, buf)| buf.ino).collect();
        Ok(Contents::Nodes {
            inodes: self.nodes_of(inos).await?,
            nodes: known,
        })
    }

    /// Loads the valid data of files and directories among `blocks`, and the nodes that point
    /// to them. Skips a block that its node does not lead to.
    //= f2fs-gc 3
    async fn load_data(&self, blocks: &[(u32, Owner)]) -> Result<Contents> {
        let is_valid = |(addr, _): &(u32, Owner)| self.is_valid(*addr);
        let valid = blocks.iter().copied().filter(is_valid);
        let nids = valid.map(|(_, owner)| owner.nid).collect();
        let bufs = self.nodes_of(nids).await?;
        let inos = bufs.values().flatten().map(|buf| buf.ino).collect();
        let inodes = self.nodes_of(inos).await?;
        let (mut entries, mut files) = (Vec::new(), Vec::new());
        for (addr, owner) in blocks.iter().copied().filter(is_valid) {
            let buf = damaged(bufs.get(&owner.nid))?.clone()?;
            let inode = damaged(inodes.get(&buf.ino))?.clone()?;
            let mode = node::MODE.get(&inode.bytes()[..]);
            let moving = Moving {
                addr,
                at: usize::from(owner.at),
                buf,
                inode,
            };
            // A valid block without a pointer is being written, or its summary is damaged.
            if self.leads(&moving) {
                match FileKind::of_mode(mode) {
                    Some(FileKind::Directory) => entries.push(moving),
                    _ => files.push(moving),
                }
            }
        }
        let reads = self.read_runs(files.iter().map(|file| file.addr), Purpose::Data);
        let (read, entries) = sim::join(reads, self.load_entries(entries)).await;
        Ok(Contents::Data {
            entries: entries?,
            files: files.into_iter().zip(read?).collect(),
        })
    }

    /// Loads directory blocks into the cache of directories.
    async fn load_entries(&self, moving: Vec<Moving>) -> Result<Vec<MovingEntries>> {
        let (mut loaded, mut missing) = (Vec::new(), Vec::new());
        for from in moving {
            let addrs = node::addrs(&from.inode.bytes());
            let first = path::first_page(node::offset_of(&from.buf.bytes()), addrs);
            let index = damaged(first)? + from.at as u64;
            let cached = self.dirs.borrow().get(from.inode.ino, index);
            match cached {
                Some(block) => loaded.push(MovingEntries { from, index, block }),
                None => missing.push((from, index)),
            }
        }
        let addrs = missing.iter().map(|(from, _)| from.addr);
        let read = self.read_runs(addrs, Purpose::Directory).await?;
        for ((from, index), payload) in missing.into_iter().zip(read) {
            let mut bytes = blank();
            if !payload.copy_to(0, &mut bytes[..]) {
                return Err(Errno::EIO);
            }
            if self.leads(&from) {
                let mut dirs = self.dirs.borrow_mut();
                let block = dirs.insert(from.inode.ino, index, bytes);
                drop(dirs);
                loaded.push(MovingEntries { from, index, block });
            }
        }
        Ok(loaded)
    }

    /// Writes nodes to their logs; returns how many. Skips a node that was written or freed
    /// since it was loaded, and one whose inode could not be loaded.
    async fn move_nodes(
        &self,
        nodes: &[(u32, Rc<NodeBuf>)],
        inodes: &BTreeMap<u32, Result<Rc<NodeBuf>>>,
    ) -> Result<u64> {
        let _chain = self.chain.acquire(1).await;
        self.ensure_sound()?;
        let stays = |(addr, buf): &&(u32, Rc<NodeBuf>)| {
            let entry = self.nat.borrow().get(buf.nid);
            entry.is_some_and(|entry| entry.addr == *addr)
                && inodes.get(&buf.ino).is_some_and(Result::is_ok)
        };
        let left = nodes.iter().filter(stays);
        let left: Vec<Rc<NodeBuf>> = left.map(|(_, buf)| Rc::clone(buf)).collect();
        left.iter().for_each(|buf| self.soil(buf));
        self.write_nodes(&left, None).await?;
        Ok(left.len() as u64)
    }

    /// Marks directory blocks dirty, so that the next checkpoint writes them elsewhere;
    /// returns how many.
    fn move_entries(&self, entries: &[MovingEntries]) -> u64 {
        let left = entries.iter().filter(|entry| self.leads(&entry.from));
        let soil = |entry: &MovingEntries| {
            self.soil_block(entry.from.inode.ino, entry.index, &entry.block);
        };
        left.map(soil).count() as u64
    }

    /// Copies data of files to the cold log and redirects the pointers to the copies; returns
    /// how many pointers were redirected. Frees the copy of a block whose pointer has changed
    /// meanwhile.
    //= f2fs-gc 4
    async fn move_files(&self, files: &[(Moving, Payload)]) -> Result<u64> {
        let left: Vec<_> = files.iter().filter(|(from, _)| self.leads(from)).collect();
        if left.is_empty() {
            return Ok(0);
        }
        let page = |now: &Payload| DirtyPage {
            index: 0,
            now: now.clone(),
            before: None,
        };
        let pages: Vec<DirtyPage> = left.iter().map(|(_, now)| page(now)).collect();
        let places = left.iter().zip(&pages);
        let places = places.map(|((from, _), page)| (Rc::clone(&from.buf), from.at, page));
        let places: Vec<_> = places.collect();
        let who = self.who(Purpose::Data);
        let copies = self.write_new(&places, Log::ColdData, who).await?;
        let mut moved = 0;
        for ((from, _), copy) in left.into_iter().zip(copies) {
            if self.leads(from) {
                self.segments.borrow_mut().free_block(from.addr);
                from.buf.edit(|bytes| node::set_addr(bytes, from.at, copy));
                self.soil(&from.buf);
                moved += 1;
            } else {
                self.segments.borrow_mut().free_block(copy);
            }
        }
        Ok(moved)
    }
}
