//! Reasons of `ENOSPC`: the limit that was met, and the holders of the space.
//!
//! Invariant: a block is refused when files have all that they may have, a section when
//! none is free; between the two lies the room of cleaning, which no file holds.

use crate::format::SEG_BLOCKS;
use crate::format::checkpoint::ORPHANS_MOST;
use crate::fs::Core;
use crate::persist::Persist;
use units::NoSpace;
use vfs::Errno;

const BLOCKS: &str = "blocks";
const SECTIONS: &str = "free sections";
const NUMBERS: &str = "node numbers";
const ATTRIBUTES: &str = "bytes of attributes of a file";
/// Holder of space in sections whose flash has failed.
const LOST: &str = "zones that have failed";
const ORPHANS: &str = "inodes without a name in a checkpoint";
const LEVELS: &str = "levels of the table of a directory";

impl<P: Persist> Core<P> {
    /// Notes that a limit was met.
    pub(crate) fn refuse(&self, limit: &'static str, why: impl FnOnce() -> NoSpace) -> Errno {
        let now = self.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        Errno::ENOSPC
    }

    /// A block was asked for, and files have all that they may have.
    pub(crate) fn refuse_block(&self) -> Errno {
        self.refuse(BLOCKS, || {
            let counts = self.counts.get();
            let blocks = |segments: u32| u64::from(segments) * u64::from(SEG_BLOCKS);
            let all = blocks(self.geometry.main_segments);
            let used = counts.valid_blocks + counts.promised;
            let nodes = u64::from(counts.nodes).min(counts.valid_blocks);
            let reserved = blocks(counts.reserved_segments);
            let lost = self.segments.borrow().lost_blocks();
            NoSpace::new(BLOCKS, 1, self.usable_blocks().saturating_sub(used), all)
                .held(LOST, lost)
                .held("data", counts.valid_blocks - nodes)
                .held("nodes", nodes)
                .held("files that may outgrow their inode", counts.promised)
                .held("reserved sections", reserved)
                .rest("over-provision for cleaning")
        })
    }

    /// A log was to go on in another section, and none was free.
    pub(crate) fn refuse_section(&self) -> Errno {
        self.refuse(SECTIONS, || {
            let segments = self.segments.borrow();
            let all = self.geometry.sections();
            let (mut logs, mut full, mut partial, mut empty, mut lost) = (0, 0, 0, 0, 0);
            for section in 0..all {
                let (mut valid, mut current) = (0, false);
                for segment in segments.segments_of(section) {
                    valid += u32::from(segments.entry(segment).valid);
                    current |= segments.is_current(segment);
                }
                let kind = match valid {
                    _ if segments.is_lost(section) => &mut lost,
                    _ if current => &mut logs,
                    0 => &mut empty,
                    _ if valid == SEG_BLOCKS * self.geometry.segs_per_sec => &mut full,
                    _ => &mut partial,
                };
                *kind += 1;
            }
            let free = segments.free_sections().into();
            NoSpace::new(SECTIONS, 1, free, all.into())
                .held(LOST, lost)
                .held("logs that are written", logs)
                .held("sections full of valid blocks", full)
                .held("sections to be cleaned", partial)
                .held(
                    "sections that wait for a checkpoint",
                    empty.saturating_sub(free),
                )
        })
    }

    /// A number for a node was asked for.
    pub(crate) fn refuse_number(&self) -> Errno {
        self.refuse(NUMBERS, || {
            let (counts, nat) = (self.counts.get(), self.nat.borrow());
            let others = counts.nodes.saturating_sub(counts.inodes);
            NoSpace::new(NUMBERS, 1, nat.known_free(), self.geometry.nids().into())
                .held("inodes", counts.inodes.into())
                .held("other nodes", others.into())
                .held("nodes freed since the last checkpoint", nat.waiting())
                .rest("what the format reserves")
        })
    }

    /// A file was to lose its last name, and a checkpoint has no room to note that.
    pub(crate) fn refuse_orphan(&self) -> Errno {
        self.refuse(ORPHANS, || {
            let held = self.orphans.borrow().len() as u64;
            let none = NoSpace::new(ORPHANS, 1, 0, ORPHANS_MOST as u64);
            none.held("removed files that are open", held)
        })
    }

    /// `asked` bytes of attributes were to be in a file that has room for `room`.
    pub(crate) fn refuse_attributes(&self, asked: usize, room: usize) -> Errno {
        let why = || NoSpace::new(ATTRIBUTES, asked as u64, room as u64, room as u64);
        self.refuse(ATTRIBUTES, why)
    }

    /// A name was to be in a directory all of whose `levels` have no room for it.
    pub(crate) fn refuse_name(&self, levels: u32) -> Errno {
        let why = || NoSpace::new(LEVELS, 1, 0, levels.into()).rest("buckets without room");
        self.refuse(LEVELS, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::summary::Owner;
    use crate::persist::Log;
    use crate::{LfsFs, MkfsOptions, MountOptions, OnDrive, format, mount};
    use host::RamDisk;
    use sim::Kernel;
    use units::Bytes;
    use vfs::{
        Access, Clock, Compute, FileKind, NewInode, OpenFlags, Process, RenameFlags, Source,
        Timestamp, Vfs,
    };

    type Fs = LfsFs<OnDrive>;

    fn on_new<W: Future<Output = ()>>(work: impl FnOnce(Fs) -> W + 'static) {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.block_on(async move {
            let options = MkfsOptions::new(16_384);
            let disk = RamDisk::new(&sim, Bytes(options.blocks * 4_096));
            format(&disk, &options).await.unwrap();
            let mounted = mount(&sim, &disk, MountOptions::default()).await;
            work(mounted.unwrap().0).await;
        });
    }

    /// The limit that was met last, whose holders have to account for all of it.
    fn last(fs: &Fs) -> NoSpace {
        let why = fs.core.refusals.borrow().last().unwrap().clone();
        let held: u64 = why.held_by.iter().map(|holder| holder.amount).sum();
        assert_eq!(held + why.free, why.total, "{why}");
        assert!(why.asked > why.free - why.reserve, "{why}");
        why
    }

    #[test]
    fn refusal_of_a_section_names_its_holders() {
        on_new(|fs| async move {
            let core = &fs.core;
            let owner = Owner {
                nid: 4,
                version: 0,
                at: 0,
            };
            let mut given = Vec::new();
            loop {
                let next = core.segments.borrow_mut().give(Log::WarmData, owner, 0);
                match next {
                    Some(next) => given.push(next.addr),
                    None => break assert_eq!(core.refuse_section(), Errno::ENOSPC),
                }
            }
            let why = last(&fs);
            let all = u64::from(core.geometry.sections());
            assert_eq!((why.limit, why.free, why.total), (SECTIONS, 0, all));
            // Each of six logs has one.
            assert_eq!(why.held_by("logs that are written"), 6);
            let full = why.held_by("sections full of valid blocks");
            assert!(full > 0 && full + 6 <= all);
            let (first, second) = (given[600], given[2_000]);
            let segments = &core.segments;
            let section = |addr: u32| core.geometry.place_of(addr).0;
            let in_first = given.iter().filter(|&&a| section(a) == section(first));
            in_first.for_each(|&addr| segments.borrow_mut().free_block(addr));
            segments.borrow_mut().free_block(second);
            core.refuse_number();
            core.refuse_section();
            let why = last(&fs);
            assert_eq!(why.held_by("sections that wait for a checkpoint"), 1);
            assert_eq!(why.held_by("sections full of valid blocks"), full - 2);
        });
    }

    /// A checkpoint lists `ORPHANS_MOST` inodes without a name; one more is not created.
    #[test]
    fn orphan_beyond_the_checkpoints_room_is_refused() {
        on_new(|fs| async move {
            let core = &fs.core;
            let new = NewInode {
                kind: FileKind::Regular,
                mode: 0o600,
                uid: 0,
                gid: 0,
                rdev: 0,
                target: b"",
                now: Timestamp::default(),
            };
            core.orphans.borrow_mut().extend(4..4 + ORPHANS_MOST as u32);
            let unnamed = core.make_unnamed(new).await;
            assert_eq!(unnamed.err(), Some(Errno::ENOSPC));
            let why = last(&fs);
            assert_eq!((why.limit, why.free), (ORPHANS, 0));
            assert_eq!(why.held_by("removed files that are open"), why.total);
            assert_eq!(core.checkpoint(false).await, Ok(()), "they fit");
        });
    }

    /// Unlink and rename of an open file fail if the checkpoint could not list its inode.
    #[test]
    fn unlink_that_would_exceed_the_orphan_list_keeps_the_name() {
        on_new(|fs| async move {
            let (sim, clock, compute) =
                (fs.core.sim.clone(), Clock::default(), Compute::unlimited());
            let vfs = Vfs::mount(&sim, fs, vfs::model::cache(false), clock, compute);
            let process = Process::new(&vfs, Access::root());
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            let held_open = process.open(b"/held", flags, 0o600).await;
            assert!(held_open.is_ok() && process.open(b"/other", flags, 0o600).await.is_ok());
            let orphans = (100..).take(ORPHANS_MOST);
            vfs.body().core.orphans.borrow_mut().extend(orphans);
            assert_eq!(process.unlink(b"/held").await, Err(Errno::ENOSPC));
            let renamed = process
                .rename(b"/other", b"/held", RenameFlags::default())
                .await;
            assert_eq!(renamed, Err(Errno::ENOSPC));
            assert_eq!(last(vfs.body()).limit, ORPHANS);
            for path in [&b"/held"[..], b"/other"] {
                let found = process.open(path, OpenFlags::READ, 0).await;
                assert!(found.is_ok(), "{found:?}");
            }
            // With room for one more, it goes.
            vfs.body().core.orphans.borrow_mut().pop_first();
            assert_eq!(process.unlink(b"/held").await, Ok(()));
        });
    }

    /// Data of an acknowledged write can be written back, even if later calls are refused.
    #[test]
    fn file_that_outgrows_its_inode_keeps_its_reserved_block() {
        on_new(|fs| async move {
            let (sim, clock, compute) =
                (fs.core.sim.clone(), Clock::default(), Compute::unlimited());
            let vfs = Vfs::mount(&sim, fs, vfs::model::cache(false), clock, compute);
            let process = Process::new(&vfs, Access::root());
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            let file = process.open(b"/first", flags, 0o600).await.unwrap();
            let page = Source::Fill {
                pattern: 7,
                len: 4_096,
            };
            assert_eq!(process.pwrite(file, 0, page).await, Ok(4_096));
            let core = &vfs.body().core;
            while core.take_block().is_ok() {}
            let grown = process.pwrite(file, 4_096, page).await;
            assert_eq!(grown, Err(Errno::ENOSPC));
            assert_eq!(core.take_block(), Err(Errno::ENOSPC), "it has its own");
            assert_eq!(process.fsync(file).await, Ok(()));
        });
    }

    #[test]
    fn refusal_of_a_node_number_names_its_holders() {
        on_new(|fs| async move {
            let core = &fs.core;
            let taken = async {
                loop {
                    if let Err(error) = core.take_nid().await {
                        break error;
                    }
                    core.count(|counts| counts.nodes += 1);
                }
            };
            assert_eq!(taken.await, Errno::ENOSPC);
            let why = last(&fs);
            assert_eq!((why.limit, why.free), (NUMBERS, 0));
            assert_eq!(why.held_by("inodes"), 1);
            assert_eq!(why.held_by("what the format reserves"), 3);
        });
    }
}
