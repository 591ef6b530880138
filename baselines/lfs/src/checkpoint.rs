//! Checkpoints, and forcing a file by its nodes alone.
//!
//! # The order of a checkpoint
//!
//! No operation is under way. Blocks of entries are written, then nodes, then what
//! describes both: entries of NAT and SIT, into the journals if they fit and else into
//! tables, and the summaries of segments that were filled. The strategy's commit is the
//! durable point; then what is not in use is let go.
//!
//! # The order of a force
//!
//! Contents are on the medium; nodes of the file are written to one log, in which each leads on to
//! the next, the inode last and with a mark, and with a second one if the last checkpoint does not
//! know it, so that recovery gives it its name; a flush is the durable point. Where that would not
//! bring all of the file back, the force is a checkpoint: see [`Core::is_forced_whole`].

use crate::format::Block;
use crate::format::checkpoint::{COMPACT, CRC_RECOVERY, Head, UMOUNT};
use crate::format::nat::NatEntry;
use crate::format::node;
use crate::format::summary::{self, Owner, Owners};
use crate::fs::{Core, File, Since, number};
use crate::inplace::runs;
use crate::nat::Nat;
use crate::nodes::NodeBuf;
use crate::persist::{Log, MainArea, Pack, Persist, Table};
use host::Purpose;
use nand::Payload;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use vfs::{Errno, FileKind, Result};

/// The log that a node goes to.
fn log_of(node: &Block, is_dir: bool) -> Log {
    let offset = node::offset_of(node);
    let addrs = 923;
    let leads_to_nodes = offset != node::XATTR_OFFSET
        && !node::is_inode(node)
        && crate::format::path::first_page(offset, addrs).is_none();
    match (leads_to_nodes, is_dir) {
        (true, _) => Log::ColdNode,
        (false, true) => Log::HotNode,
        (false, false) => Log::WarmNode,
    }
}

impl<P: Persist> Core<P> {
    /// Writes nodes, each to the next place of its log.
    pub(crate) async fn write_nodes(
        &self,
        bufs: &[Rc<NodeBuf>],
        forced: Option<u32>,
    ) -> Result<()> {
        let mut dirs = BTreeSet::new();
        for buf in bufs {
            let inode = self.node(buf.ino).await?;
            let mode = node::MODE.get(&inode.bytes()[..]);
            if FileKind::of_mode(mode) == Some(FileKind::Directory) {
                dirs.insert(buf.ino);
            }
            self.nat_entry(buf.nid).await?;
        }
        let mut by_log: [Vec<(u32, Payload)>; 6] = Default::default();
        for buf in bufs {
            let log = log_of(&buf.bytes(), dirs.contains(&buf.ino));
            let (addr, bytes) = self.place_node(buf, log, forced)?;
            by_log[log as usize].push((addr, Payload::Bytes(bytes)));
        }
        for log in Log::ALL {
            let placed = std::mem::take(&mut by_log[log as usize]);
            let purpose = if log == Log::ColdNode {
                Purpose::Pointer
            } else {
                Purpose::Inode
            };
            self.write_placed(placed, log, purpose).await?;
        }
        Ok(())
    }

    /// Writes blocks where they were given a place.
    async fn write_placed(
        &self,
        placed: Vec<(u32, Payload)>,
        log: Log,
        purpose: Purpose,
    ) -> Result<()> {
        let (writes, who) = (runs(placed), self.who(purpose));
        let each = writes
            .iter()
            .map(|(addr, run)| self.persist.main().write(*addr, run, log, who));
        let done: Result<Vec<()>> = sim::join_all(each.collect()).await.into_iter().collect();
        self.noted(done).map(drop)
    }

    /// Gives a node its next place; the bytes that go there.
    fn place_node(
        &self,
        buf: &NodeBuf,
        log: Log,
        forced: Option<u32>,
    ) -> Result<(u32, Arc<Block>)> {
        let entry = self.nat.borrow().get(buf.nid).ok_or(Errno::EUCLEAN)?;
        let owner = Owner {
            nid: buf.nid,
            version: entry.version,
            at: 0,
        };
        let given = self.noted(self.give(log, owner))?;
        if self.geometry.is_main(entry.addr) {
            self.segments.borrow_mut().free_block(entry.addr);
        }
        let addr = given.addr;
        self.nat
            .borrow_mut()
            .set(buf.nid, NatEntry { addr, ..entry });
        let stamp = self.stamp.get();
        let marked = !vfs::mutant::is("f2fs-fsync-without-mark");
        let mark = match forced == Some(buf.nid) && marked {
            true => node::FSYNC | self.name_mark(buf.nid),
            false => 0,
        };
        if forced.is_none() {
            self.since.borrow_mut().unmarked.insert(buf.ino);
        }
        let cold = u32::from(log != Log::HotNode);
        buf.edit(|bytes| {
            node::STAMP.put(bytes, stamp);
            node::NEXT.put(bytes, given.next);
            let flag = node::offset_of(bytes) << 3 | mark | cold;
            node::FLAG.put(bytes, flag);
        });
        buf.dirty.set(false);
        self.nodes.borrow_mut().dirty.remove(&(buf.ino, buf.nid));
        let bytes = Arc::new(*buf.bytes());
        Ok((addr, bytes))
    }

    /// The mark of an inode that is forced and that no checkpoint knows: the first one
    /// has its name.
    fn name_mark(&self, ino: u32) -> u32 {
        let mut since = self.since.borrow_mut();
        let named = since.made.get_mut(&ino);
        let first = named.is_some_and(|named| !std::mem::replace(named, true));
        let named = !vfs::mutant::is("f2fs-new-file-without-name");
        if first && named { node::DENTRY } else { 0 }
    }

    /// Whether only a checkpoint makes a file durable: recovery brings back what is in nodes of a
    /// regular file, and for one that is new its only name, in a directory that the last checkpoint
    /// knows; and all that the last checkpoint has must have room besides.
    ///
    /// In recovery a forced new file takes its name from the file that had it at the last
    /// checkpoint, as in Linux, but never from a directory: in Linux the entries of that
    /// directory would be left without a name.
    //= f2fs-paper 2.7
    fn is_forced_whole(&self, file: &File) -> bool {
        let (attr, ino) = (file.attr.get(), number(file));
        let since = self.since.borrow();
        let parent = node::PARENT.get(&file.private.buf.bytes()[..]);
        let unplaced = since.dirs_moved || since.made.contains_key(&parent);
        attr.kind != FileKind::Regular
            || attr.nlink != 1
            || since.whole.contains(&ino)
            || since.made.contains_key(&ino) && unplaced
            || since.chain_broken
            || since.valid + since.taken > self.usable_blocks()
    }

    /// Makes a file durable.
    pub(crate) async fn force(&self, file: &File) -> Result<()> {
        if self.settings.read_only {
            return Ok(());
        }
        self.ensure_sound()?;
        if self.is_forced_whole(file) {
            return self.force_all().await;
        }
        let operation = self.operate().await?;
        let chain = self.chain.acquire(1).await;
        if self.is_forced_whole(file) {
            drop((chain, operation));
            return self.force_all().await;
        }
        let ino = number(file);
        let dirty = self.nodes.borrow().dirty_of(ino);
        let unmarked = self.since.borrow_mut().unmarked.remove(&ino);
        if !dirty.is_empty() || unmarked {
            let shows = |buf: &&Rc<NodeBuf>| log_of(&buf.bytes(), false) == Log::WarmNode;
            let mut bufs: Vec<_> = dirty.iter().filter(shows).cloned().collect();
            bufs.retain(|buf| buf.nid != ino);
            bufs.push(Rc::clone(&file.private.buf));
            self.write_nodes(&bufs, Some(ino)).await?;
            self.note_change();
        }
        if self.since.borrow().chain_broken {
            drop((chain, operation));
            return self.force_all().await;
        }
        drop(chain);
        if vfs::mutant::is("f2fs-fsync-without-flush") {
            return Ok(());
        }
        let done = self.persist.main().flush().await;
        self.noted(done)
    }

    /// Makes everything durable that has changed before.
    pub(crate) async fn force_all(&self) -> Result<()> {
        if self.settings.read_only {
            return Ok(());
        }
        let wanted = self.changes.get();
        self.make_room().await?;
        let _alone = self.alone().await;
        self.ensure_sound()?;
        if self.settled.get() >= wanted {
            let done = self.persist.main().flush().await;
            return self.noted(done);
        }
        self.checkpoint(false).await
    }

    /// Leaves the medium as an unmount does.
    pub(crate) async fn leave(&self) -> Result<()> {
        if self.settings.read_only {
            return Ok(());
        }
        self.make_room().await?;
        let _alone = self.alone().await;
        self.ensure_sound()?;
        self.checkpoint(true).await
    }

    /// Commits everything. The caller holds [`Core::alone`]. After a failure nothing is written
    /// any more: how much of the checkpoint is on the medium is unknown.
    pub(crate) async fn checkpoint(&self, leaving: bool) -> Result<()> {
        let done = self.write_all(leaving).await;
        if let Some(why) = self.persist.take_refusal() {
            self.refuse(why.limit, || why);
        }
        self.noted(done)
    }

    async fn write_all(&self, leaving: bool) -> Result<()> {
        self.write_dirs().await?;
        let dirty: Vec<Rc<NodeBuf>> = {
            let nodes = self.nodes.borrow();
            let known = nodes.dirty.iter().filter_map(|(_, nid)| nodes.get(*nid));
            known.collect()
        };
        self.write_nodes(&dirty, None).await?;
        let mut tables = Vec::new();
        let nats = self.nat_changes(&mut tables).await?;
        let sits = self.sit_changes(&mut tables);
        self.read_owners().await?;
        self.filled_summaries(&mut tables).await?;
        self.persist.write_tables(tables).await?;
        let stamp = self
            .persist
            .commit(self.pack(&nats, &sits, leaving))
            .await?;
        self.stamp.set(stamp);
        self.version.set(self.version.get() + 1);
        self.tally(|stats| stats.checkpoints += 1);
        self.settled.set(self.changes.get());
        *self.since.borrow_mut() = Since::after(self.counts.get());
        self.nat.borrow_mut().let_go();
        let freed = self.segments.borrow_mut().let_go();
        if self.settings.discard {
            let blocks = self.geometry.segs_per_sec * crate::format::SEG_BLOCKS;
            for section in freed {
                let first = section * self.geometry.segs_per_sec;
                self.persist
                    .main()
                    .discard(self.geometry.addr_of(first, 0), blocks)
                    .await?;
            }
        }
        self.look_for_lost();
        Ok(())
    }

    /// Writes blocks of entries.
    async fn write_dirs(&self) -> Result<()> {
        if vfs::mutant::is("f2fs-checkpoint-without-directories") {
            return Ok(());
        }
        let dirty: Vec<(u32, u64)> = self.dirs.borrow().dirty.iter().copied().collect();
        let mut placed = Vec::new();
        for (ino, index) in dirty {
            let inode = self.node(ino).await?;
            let (buf, at) = self.find_or_make(&inode, index).await?;
            let old = buf.addr(at);
            let version = self.nat_entry(buf.nid).await?.version;
            let owner = Owner {
                nid: buf.nid,
                version,
                at: at as u16,
            };
            let Some(block) = self.dirs.borrow().get(ino, index) else {
                continue;
            };
            let given = self.noted(self.give(Log::HotData, owner))?;
            if self.geometry.is_main(old) {
                self.segments.borrow_mut().free_block(old);
            }
            buf.edit(|bytes| node::set_addr(bytes, at, given.addr));
            self.soil(&buf);
            let bytes = Arc::new(**block.bytes.borrow());
            placed.push((given.addr, Payload::Bytes(bytes)));
            self.dirs.borrow_mut().clean(ino, index);
        }
        self.write_placed(placed, Log::HotData, Purpose::Directory)
            .await
    }

    /// Entries of the NAT for the journal; if they are too many, blocks of the table instead.
    async fn nat_changes(
        &self,
        tables: &mut Vec<(Table, Box<Block>)>,
    ) -> Result<Vec<(u32, NatEntry)>> {
        let mut nat = self.nat.borrow_mut();
        if nat.changed.len() <= summary::NAT_MOST {
            let entry = |nid: &u32| Some((*nid, nat.get(*nid)?));
            return Ok(nat.changed.iter().filter_map(entry).collect());
        }
        let changed = std::mem::take(&mut nat.changed);
        let blocks: BTreeSet<u32> = changed.into_iter().map(Nat::block_of).collect();
        for index in blocks {
            let entries = nat.block(index).ok_or(Errno::EUCLEAN)?;
            tables.push((Table::Nat(index), crate::format::nat::encode(entries)));
        }
        Ok(Vec::new())
    }

    /// Segments whose entries are for the journal; if they are too many, blocks of the
    /// table instead.
    fn sit_changes(&self, tables: &mut Vec<(Table, Box<Block>)>) -> Vec<u32> {
        let mut segments = self.segments.borrow_mut();
        if vfs::mutant::is("f2fs-stale-segment-table") {
            segments.changed.clear();
        }
        if segments.changed.len() <= summary::SIT_MOST {
            return segments.changed.iter().copied().collect();
        }
        let per_block = crate::format::sit::PER_BLOCK as u32;
        let changed = std::mem::take(&mut segments.changed);
        let blocks: BTreeSet<u32> = changed.into_iter().map(|s| s / per_block).collect();
        for index in blocks {
            let first = index * per_block;
            let end = (first + per_block).min(self.geometry.main_segments);
            let entries = (first..end).map(|segment| segments.entry(segment));
            tables.push((Table::Sit(index), crate::format::sit::encode(entries)));
        }
        Vec::new()
    }

    /// Owners of blocks of a segment, of which `known` has those that were written since
    /// they were last on the medium.
    async fn merged(&self, segment: u32, mut known: Owners) -> Result<Owners> {
        let block = self.persist.read_table(Table::Summary(segment)).await?;
        let before = summary::decode(&block);
        for (owner, before) in known.iter_mut().zip(before.iter()) {
            if owner.nid == 0 {
                *owner = *before;
            }
        }
        Ok(known)
    }

    /// Brings owners to memory of blocks in segments that logs fill gaps of.
    pub(crate) async fn read_owners(&self) -> Result<()> {
        for index in 0..6 {
            let wanted = {
                let log = &self.segments.borrow().logs[index];
                log.unread.then(|| (log.at.segment, log.owners.clone()))
            };
            if let Some((segment, known)) = wanted {
                let owners = self.merged(segment, known).await?;
                let log = &mut self.segments.borrow_mut().logs[index];
                (log.owners, log.unread) = (owners, false);
            }
        }
        Ok(())
    }

    /// Summaries of segments that were filled.
    async fn filled_summaries(&self, tables: &mut Vec<(Table, Box<Block>)>) -> Result<()> {
        let filled = std::mem::take(&mut self.segments.borrow_mut().filled);
        for (segment, (mut owners, unread)) in filled {
            if unread {
                owners = self.merged(segment, owners).await?;
            }
            let nodes = self.segments.borrow().entry(segment).log >= 3;
            let block = summary::encode(&owners, nodes, &[]);
            tables.push((Table::Summary(segment), block));
        }
        Ok(())
    }

    /// The owners of the blocks of a segment, wherever they are written down.
    pub(crate) async fn owners_of(&self, segment: u32) -> Result<Owners> {
        let filled = self.segments.borrow().filled.get(&segment).cloned();
        match filled {
            Some((owners, false)) => Ok(owners),
            Some((owners, true)) => self.merged(segment, owners).await,
            None => self.merged(segment, summary::nobody()).await,
        }
    }

    /// Builds the pack that a checkpoint commits; `leaving` marks a clean unmount.
    fn pack(&self, nats: &[(u32, NatEntry)], sits: &[u32], leaving: bool) -> Pack {
        let segments = self.segments.borrow();
        let counts = self.counts.get();
        let nat = summary::nat_journal(nats);
        let entries = sits
            .iter()
            .map(|&segment| (segment, segments.entry(segment)));
        let sit = summary::sit_journal(entries);
        let used = |index: usize| {
            let at = segments.logs[index].at;
            if at.fills { 512 } else { usize::from(at.at) }
        };
        let logs = [0, 1, 2].map(|index| (&segments.logs[index].owners, used(index)));
        let (mut flags, mut data) = (CRC_RECOVERY, Vec::new());
        if let Some(compact) = summary::compact(&nat, &sit, logs) {
            flags |= COMPACT;
            data = compact;
        } else {
            for (log, journal) in segments.logs[..3].iter().zip([&nat[..], &[], &sit[..]]) {
                data.push(summary::encode(&log.owners, false, journal));
            }
        }
        let mut nodes = Vec::new();
        if leaving {
            flags |= UMOUNT;
            let logs = segments.logs[3..].iter();
            nodes.extend(logs.map(|log| summary::encode(&log.owners, true, &[])));
        }
        let head = Head {
            version: self.version.get() + 1,
            user_blocks: counts.user_blocks,
            valid_blocks: counts.valid_blocks,
            reserved_segments: counts.reserved_segments,
            overprovision: counts.overprovision,
            free_segments: segments.empty_segments(),
            logs: [0, 1, 2, 3, 4, 5].map(|index| segments.logs[index].at),
            flags,
            valid_nodes: counts.nodes,
            valid_inodes: counts.inodes,
            next_nid: self.nat.borrow().next_free(),
            elapsed: self.elapsed(),
            ..Head::default()
        };
        Pack {
            head,
            orphans: match vfs::mutant::is("f2fs-orphans-not-listed") {
                true => Vec::new(),
                false => self.orphans.borrow().iter().copied().collect(),
            },
            data,
            nodes,
        }
    }

    /// Has a checkpoint made of its own accord once the present changes have waited for long.
    pub(crate) fn arm(&self) {
        if self.armed.replace(true) {
            return;
        }
        let (me, sim, interval) = (self.me.clone(), self.sim.clone(), self.settings.interval);
        self.sim.spawn_detached(async move {
            sim.sleep(interval).await;
            let Some(core) = me.upgrade() else { return };
            core.armed.set(false);
            if core.settled.get() < core.changes.get() && !core.failed.get() {
                // A failure ends all changes; the next force reports it.
                let _ = core.force_all().await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indirect_nodes_go_to_the_cold_log() {
        let node = |offset| node::fresh(9, 4, offset);
        let of = |offset, dir| log_of(&node(offset), dir);
        assert_eq!([of(1, true), of(1, false)], [Log::HotNode, Log::WarmNode]);
        assert_eq!([of(3, true), of(2041, false)], [Log::ColdNode; 2]);
        assert_eq!(of(node::XATTR_OFFSET, false), Log::WarmNode);
        assert_eq!(log_of(&crate::format::blank(), false), Log::WarmNode);
    }
}
