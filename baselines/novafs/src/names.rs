//! Creating, linking, renaming and unlinking: one commit each.
//!
//! Invariants: a call that fails leaves no trace; attributes in memory change after the medium.

use crate::alloc::Class;
use crate::commit::Step;
use crate::entry::{Entry, Lead, Target};
use crate::format::{Anchor, Birth, LINE_BYTES, PAGE, PAGE_BYTES, ROOT, table, table_header};
use crate::fs::{Node, NovaFs, Private, damaged};
use crate::log::Walk;
use crate::pieces::Run;
use crate::state::State;
use host::Purpose;
use vfs::{Attr, DirEntry, Errno, FileKind, Ino, Inode, NewInode, Rename, Result, Timestamp};

/// Most hard links of a file: a choice of ours.
pub(crate) const LINKS_MAX: u32 = 65_000;

fn is_dir(node: &Node) -> bool {
    node.attr.get().kind == FileKind::Directory
}

/// The entry that changes the target of `name` in `dir`, whose link count becomes `nlink`.
fn name_entry(
    dir: &Node,
    name: &[u8],
    to: Option<(Ino, FileKind)>,
    nlink: u32,
    now: Timestamp,
) -> Entry {
    let state = dir.private.state.borrow();
    let old = state.lead(name).map(|old| old.cookie);
    let cookie = old.unwrap_or_else(|| state.next_cookie());
    let lead = to.map(|(ino, kind)| Lead { ino, kind, cookie });
    Entry::Name {
        name: name.into(),
        lead,
        nlink,
        time: now,
    }
}

fn links_entry(nlink: u32, ctime: Timestamp) -> Entry {
    Entry::Links { nlink, ctime }
}

/// Stamps a directory whose names have changed, and sets its link count.
fn touch(dir: &Node, nlink: u32, now: Timestamp) {
    dir.update(|attr| {
        attr.nlink = nlink;
        (attr.mtime, attr.ctime) = (now, now);
    });
}

/// Sets the link count of an inode.
fn relink(node: &Node, nlink: u32, now: Timestamp) {
    node.update(|attr| (attr.nlink, attr.ctime) = (nlink, now));
}

/// Link count of a node after the removal of one name.
fn without(node: &Node) -> u32 {
    if is_dir(node) {
        0
    } else {
        node.attr.get().nlink.saturating_sub(1)
    }
}

/// Link count of `dir` after a subdirectory is added or removed.
fn linked(dir: &Node, come: bool, go: bool) -> u32 {
    let nlink = dir.attr.get().nlink.saturating_add(u32::from(come));
    nlink.saturating_sub(u32::from(go))
}

impl NovaFs {
    /// Loads an inode: reads its log.
    pub(crate) async fn load_inode(&self, ino: Ino) -> Result<Node> {
        let slot = self.alloc.borrow().slot(ino.0);
        let slot = slot.filter(|_| ino.0 >= ROOT.0).ok_or(Errno::ENOENT)?;
        let mut bytes = [0; table::SLOT];
        let who = self.who(Purpose::Inode);
        self.load_bytes(slot, &mut bytes, who).await?;
        let anchor = damaged(Anchor::decode(&bytes, ino.0))?;
        if !anchor.valid {
            return Err(Errno::ENOENT);
        }
        let birth = damaged(Birth::decode(&bytes[LINE_BYTES as usize..]))?;
        damaged((birth.generation == anchor.generation).then_some(()))?;
        let purpose = crate::log::link_purpose(birth.kind);
        let walk = damaged(Walk::new(self.geometry, anchor, State::born(&birth)))?;
        let state = crate::fs::walk(&self.port, walk, self.who(purpose)).await;
        let state = state.map_err(|error| match error {
            crate::fs::WalkError::Damaged => Errno::EUCLEAN,
            crate::fs::WalkError::Port(_) => Errno::EIO,
        })?;
        Ok(Inode::new(
            ino,
            state.attr,
            self.private(slot, anchor, state),
        ))
    }

    /// Allocates a free inode, from the table of the task's core.
    async fn take_ino(&self) -> Result<u64> {
        let core = self.core();
        let taken = self.alloc.borrow_mut().take_ino(core);
        if let Some(ino) = taken {
            return Ok(ino);
        }
        let _turn = self.cores[core].turn.acquire(1).await;
        // The previous holder of the turn may have added a page.
        let taken = self.alloc.borrow_mut().take_ino(core);
        if let Some(ino) = taken {
            return Ok(ino);
        }
        self.grow_table(core).await?;
        let taken = self.alloc.borrow_mut().take_ino(core);
        taken.ok_or(Errno::ENOSPC)
    }

    /// Adds a page to the inode table of `core`; the caller holds its turn.
    async fn grow_table(&self, core: usize) -> Result<()> {
        let page = self.take(1, Class::Growth)?[0].start;
        let (last, index) = {
            let alloc = self.alloc.borrow();
            let table = alloc.table(core);
            (table[table.len() - 1], table.len() as u64)
        };
        let who = self.who(Purpose::Inode);
        let number = core as u64;
        let mut bytes = [0; PAGE];
        bytes[..LINE_BYTES as usize].copy_from_slice(&table_header(number, index, 0));
        self.store(page * PAGE_BYTES, &bytes, who).await?;
        self.verify().await?;
        let link = table_header(number, index - 1, page);
        self.store(last * PAGE_BYTES, &link, who).await?;
        self.verify().await?;
        let mut alloc = self.alloc.borrow_mut();
        let index = alloc.add_table(core, page);
        for slot in 0..table::SLOTS {
            alloc.add_ino(self.geometry.ino(number, index, slot));
        }
        Ok(())
    }

    /// A new inode in memory, not on the medium yet.
    async fn prepare(&self, new: &NewInode<'_>, nlink: u32, parent: Ino) -> Result<(Node, Birth)> {
        let ino = self.take_ino().await?;
        let slot = self.alloc.borrow().slot(ino);
        let slot = slot.expect("an inode that was free has a slot");
        let mut bytes = [0; LINE_BYTES as usize];
        let read = self.load_bytes(slot, &mut bytes, self.who(Purpose::Inode));
        let old = read
            .await
            .and_then(|()| damaged(Anchor::decode(&bytes, ino)));
        let generation = old
            .inspect_err(|_| self.alloc.borrow_mut().give_ino(ino))?
            .generation;
        let device = matches!(new.kind, FileKind::CharDevice | FileKind::BlockDevice);
        let birth = Birth {
            kind: new.kind,
            mode: new.mode & 0o7777,
            nlink,
            uid: new.uid,
            gid: new.gid,
            rdev: if device { new.rdev } else { 0 },
            generation: generation.wrapping_add(1),
            time: new.now,
            parent,
        };
        // Until the commit, the first line is that of a free inode.
        let anchor = Anchor {
            valid: false,
            ino,
            head: 0,
            tail: 0,
            generation: birth.generation,
        };
        let state = State::born(&birth);
        let attr = state.attr;
        let private = self.private(slot, anchor, state);
        Ok((Inode::new(Ino(ino), attr, private), birth))
    }

    /// Creates an inode under a name.
    pub(crate) async fn make(&self, dir: &Node, name: &[u8], new: NewInode<'_>) -> Result<Node> {
        let subdir = new.kind == FileKind::Directory;
        if subdir && dir.attr.get().nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        let _turn = self.turns(&[dir]).await;
        let links = if subdir { 2 } else { 1 };
        let (node, birth) = self.prepare(&new, links, dir.ino).await?;
        let nlink = linked(dir, subdir, false);
        let entry = name_entry(dir, name, Some((node.ino, new.kind)), nlink, new.now);
        let named = Step::new(dir, vec![entry]);
        let done = self.make_in(&node, birth, new.target, Some(named)).await;
        self.made(node, done)
            .inspect(|_| touch(dir, nlink, new.now))
    }

    /// Creates an inode without a name.
    pub(crate) async fn make_unnamed(&self, new: NewInode<'_>) -> Result<Node> {
        let (node, birth) = self.prepare(&new, 0, ROOT).await?;
        let done = self.make_in(&node, birth, new.target, None).await;
        self.made(node, done)
    }

    fn made(&self, node: Node, done: Result<()>) -> Result<Node> {
        if done.is_err() && !self.failed.get() {
            self.alloc.borrow_mut().give_ino(node.ino.0);
        }
        done.map(|()| node)
    }

    async fn make_in(
        &self,
        node: &Node,
        birth: Birth,
        target: &[u8],
        named: Option<Step<'_>>,
    ) -> Result<()> {
        let mut runs = Vec::new();
        let mut entries = Vec::new();
        if birth.kind == FileKind::Symlink {
            if target.len() >= PAGE {
                return Err(Errno::ENAMETOOLONG);
            }
            runs = self.take(1, Class::Growth)?;
            entries = self.store_target(node, target, runs[0].start).await?;
        }
        let mut made = Step::new(node, entries);
        made.birth = Some(birth);
        let steps = named.into_iter().chain([made]).collect();
        let done = self.commit(steps, Class::Growth).await;
        if done.is_err() && !self.failed.get() {
            self.give(runs);
        }
        done
    }

    /// Stores the target of a symbolic link; returns the entry that refers to it.
    async fn store_target(&self, node: &Node, target: &[u8], page: u64) -> Result<Vec<Entry>> {
        let mut bytes = target.to_vec();
        bytes.resize(target.len().next_multiple_of(LINE_BYTES as usize), 0);
        let (at, who) = (page * PAGE_BYTES, Self::owner(node));
        self.store(at, &bytes, who).await?;
        node.update(|attr| attr.size = target.len() as u64);
        let attr = node.attr.get();
        Ok(vec![Entry::Write {
            first: 0,
            pages: 1,
            to: Target::Data(page),
            size: attr.size,
            mtime: attr.mtime,
            ctime: attr.ctime,
        }])
    }

    /// Target of a symbolic link.
    pub(crate) async fn target_of(&self, node: &Node) -> Result<Vec<u8>> {
        let size = node.attr.get().size as usize;
        damaged((size < PAGE).then_some(()))?;
        let mut target = vec![0; size];
        self.read_at(node, 0, &mut target).await?;
        Ok(target)
    }

    /// Adds a hard link to an inode.
    pub(crate) async fn add_link(
        &self,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        let _turns = self.turns(&[dir, node]).await;
        let Attr { nlink, kind, .. } = node.attr.get();
        if nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        let dir_links = dir.attr.get().nlink;
        let entry = name_entry(dir, name, Some((node.ino, kind)), dir_links, now);
        let steps = vec![
            Step::new(dir, vec![entry]),
            Step::new(node, vec![links_entry(nlink + 1, now)]),
        ];
        if vfs::mutant::is("nova-link-count-before-name") {
            let counted = Step::new(node, vec![links_entry(nlink + 1, now)]);
            self.commit(vec![counted], Class::Growth).await?;
            self.commit(steps.into_iter().take(1).collect(), Class::Growth)
                .await?;
            relink(node, nlink + 1, now);
            touch(dir, dir_links, now);
            return Ok(());
        }
        self.commit(steps, Class::Growth).await?;
        touch(dir, dir_links, now);
        relink(node, nlink + 1, now);
        Ok(())
    }

    /// Removes a name of an inode; a directory must be empty.
    pub(crate) async fn drop_name(
        &self,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        let _turns = self.turns(&[dir, node]).await;
        if !node.private.state.borrow().is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        let nlink = linked(dir, false, is_dir(node));
        let left = without(node);
        let steps = vec![
            Step::new(dir, vec![name_entry(dir, name, None, nlink, now)]),
            Step::new(node, vec![links_entry(left, now)]),
        ];
        self.commit(steps, Class::Upkeep).await?;
        touch(dir, nlink, now);
        relink(node, left, now);
        Ok(())
    }

    /// Performs a rename as one commit.
    pub(crate) async fn move_name(&self, rename: Rename<'_, Private>) -> Result<()> {
        let Rename {
            from, to, moved, ..
        } = rename;
        let mut nodes = vec![from, to, moved];
        nodes.extend(rename.replaced);
        let _turns = self.turns(&nodes).await;
        let gone = rename.replaced.filter(|_| !rename.exchange);
        if gone.is_some_and(|gone| !gone.private.state.borrow().is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        let back = rename.replaced.filter(|_| rename.exchange);
        let (moves, replaces) = (is_dir(moved), rename.replaced.is_some_and(is_dir));
        let comes = back.is_some_and(is_dir);
        // Within one directory, the same subdirectories are added and removed.
        let same = from.ino == to.ino;
        let (from_links, to_links) = if same {
            let nlink = linked(from, false, gone.is_some() && replaces);
            (nlink, nlink)
        } else {
            (linked(from, comes, moves), linked(to, moves, replaces))
        };
        let kind = |node: &Node| (node.ino, node.attr.get().kind);
        let now = rename.now;
        let old = name_entry(from, rename.from_name, back.map(kind), from_links, now);
        let new = name_entry(to, rename.to_name, Some(kind(moved)), to_links, now);
        let mut steps = if same {
            vec![Step::new(from, vec![old, new])]
        } else {
            vec![Step::new(from, vec![old]), Step::new(to, vec![new])]
        };
        steps.push(Step::new(moved, moved_entries(moved, to, same, now)));
        steps.extend(back.map(|back| Step::new(back, moved_entries(back, from, same, now))));
        steps.extend(gone.map(|gone| Step::new(gone, vec![links_entry(without(gone), now)])));
        if vfs::mutant::is("nova-rename-in-two-steps") && steps.len() == 3 {
            let last = steps.split_off(1);
            self.commit(last, Class::Upkeep).await?;
        }
        self.commit(steps, Class::Upkeep).await?;
        touch(from, from_links, now);
        touch(to, to_links, now);
        for node in [Some(moved), back].into_iter().flatten() {
            relink(node, node.attr.get().nlink, now);
        }
        if let Some(gone) = gone {
            relink(gone, without(gone), now);
        }
        Ok(())
    }

    /// Frees an inode without a name, with its pages.
    pub(crate) async fn drop_inode(&self, node: &Node) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let anchor = Anchor {
            valid: false,
            head: 0,
            tail: 0,
            ..node.private.anchor.get()
        };
        self.store_anchor(node, anchor).await?;
        self.verify().await?;
        let state = node.private.state.borrow();
        self.give(state.runs());
        self.give(state.log.pages.iter().map(|&start| Run { start, len: 1 }));
        self.alloc.borrow_mut().give_ino(node.ino.0);
        Ok(())
    }

    /// Lists up to `most` names of a directory after `cookie`.
    pub(crate) fn list(dir: &Node, cookie: u64, most: usize) -> Vec<DirEntry> {
        let state = dir.private.state.borrow();
        let entries = state.names_after(cookie).take(most);
        let entry = |(name, lead): (&[u8], Lead)| DirEntry {
            cookie: lead.cookie,
            ino: lead.ino,
            kind: lead.kind,
            name: name.to_vec(),
        };
        entries.map(entry).collect()
    }
}

/// Entries of an inode that moves to the directory `to`.
fn moved_entries(node: &Node, to: &Node, same: bool, now: Timestamp) -> Vec<Entry> {
    if is_dir(node) && !same {
        let (ino, ctime) = (to.ino, now);
        return vec![Entry::Parent { ino, ctime }];
    }
    vec![links_entry(node.attr.get().nlink, now)]
}
