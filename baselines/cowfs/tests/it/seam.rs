//! A second strategy, [`Exchange`], with a journal that survives power cuts beside the disk:
//! forced overwrites replace old contents, each call as a whole, and nodes are changed in place
//! by their changed bytes.

use crate::bench::{cache, judge, made};
use cowfs::{
    Batch, CowFs, FreshNode, MkfsOptions, MountOptions, Overwrite, Persist, Reason, Replacement,
    Ticket, mount_with, write_nodes, write_run,
};
use host::{BlockPort, Disk, RamDisk, Who};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use units::{Bytes, Ns, Placement};
use vfs::model::{Model, Op, Order, Tree, draw_on_file, draw_on_names, perform};
use vfs::{Access, Body, Clock, Compute, Errno, Fd, OpenFlags, Process, Result, Source, Vfs};

const BLOCKS: u64 = 12_288;

/// Writes: byte address on the disk, and bytes.
type Writes = Vec<(u64, Vec<u8>)>;

/// Memory beside the disk that survives power cuts.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    /// Published writes that are not yet all on the disk; recovery repeats them.
    redo: Rc<RefCell<Writes>>,
    /// Old contents of each replacement whose sums are not published yet, by ticket.
    undo: Rc<RefCell<BTreeMap<u64, Writes>>>,
}

impl Journal {
    /// Whether all published writes are on the disk.
    pub(crate) fn is_done(&self) -> bool {
        self.redo.borrow().is_empty()
    }

    pub(crate) fn left(&self) -> Self {
        Self {
            redo: Rc::new(RefCell::new(self.redo.borrow().clone())),
            undo: Rc::new(RefCell::new(self.undo.borrow().clone())),
        }
    }
}

/// Counters of the calls of the strategy.
#[derive(Clone, Copy, Default)]
struct Asked {
    forced: u64,
    changed: u64,
    changed_bytes: u64,
    fresh: u64,
    replaced: u64,
    /// Calls of [`Persist::replace`] that found no room.
    refused: u64,
}

pub(crate) struct Exchange {
    disk: RamDisk,
    port: Disk,
    journal: Journal,
    asked: Rc<Cell<Asked>>,
    /// Number of the next ticket, from 1.
    next: Cell<u64>,
}

fn bytes_of(node: &FreshNode, range: &Range<usize>) -> Vec<u8> {
    let bytes: Vec<u8> = node.contents.iter().flat_map(Payload::to_bytes).collect();
    bytes[range.clone()].to_vec()
}

impl Exchange {
    pub(crate) fn new(disk: &RamDisk, journal: &Journal) -> Self {
        Self {
            disk: disk.clone(),
            port: Disk::from(disk),
            journal: journal.clone(),
            asked: Rc::default(),
            next: Cell::new(1),
        }
    }

    fn count(&self, change: impl FnOnce(&mut Asked)) {
        let mut asked = self.asked.get();
        change(&mut asked);
        self.asked.set(asked);
    }

    async fn read(&self, page: u64) -> Result<[u8; 4096]> {
        let mut old = [Payload::Zero];
        let mut sink = &mut old[..];
        let extent = units::Extent::new(page * 8, 8);
        let read = self.disk.read(extent, &mut sink, Who::default());
        read.await.map_err(|_| Errno::EIO)?;
        Ok(old[0].to_bytes())
    }

    /// Performs `all` writes and flushes; repeating it does no harm.
    async fn play(&self, all: &Writes) -> Result<()> {
        for (at, bytes) in all {
            let end = at + bytes.len() as u64;
            for page in at / 4096..end.div_ceil(4096) {
                let mut new = self.read(page).await?;
                let (from, to) = ((*at).max(page * 4096), end.min((page + 1) * 4096));
                let own = &bytes[(from - at) as usize..(to - at) as usize];
                new[(from - page * 4096) as usize..][..own.len()].copy_from_slice(own);
                let new = [Payload::Bytes(std::sync::Arc::new(new))];
                write_run(&self.port, page * 4096, &new, Placement(0), Who::default()).await?;
            }
        }
        self.disk.flush().await.unwrap();
        Ok(())
    }

    /// Performs the published writes, then drops them from the journal.
    async fn redo(&self) -> Result<()> {
        let all = self.journal.redo.borrow().clone();
        self.play(&all).await?;
        self.journal.redo.borrow_mut().drain(..all.len());
        Ok(())
    }
}

impl Persist for Exchange {
    fn port(&self) -> &Disk {
        &self.port
    }

    fn changes_nodes_in_place(&self) -> bool {
        true
    }

    fn overwrite(&self, forced: bool) -> Overwrite {
        match forced {
            true => Overwrite::Replace,
            false => Overwrite::Copy,
        }
    }

    async fn replace(&self, one: &Replacement, who: Who) -> Result<Option<Ticket>> {
        if self.journal.undo.borrow().len() >= 3 {
            self.count(|asked| asked.refused += 1);
            return Ok(None);
        }
        let ticket = self.next.get();
        self.next.set(ticket + 1);
        let mut old = Vec::new();
        for turn in 0..one.contents.len() as u64 {
            let page = self.read(one.at / 4096 + turn).await?;
            old.push((one.at + turn * 4096, page.to_vec()));
        }
        self.journal.undo.borrow_mut().insert(ticket, old);
        self.count(|asked| asked.replaced += one.contents.len() as u64);
        write_run(&self.port, one.at, &one.contents, Placement(0), who).await?;
        Ok(Some(Ticket(ticket)))
    }

    async fn recover(&self) -> Result<()> {
        self.redo().await?;
        let all = self.journal.undo.take();
        for old in all.values().rev() {
            self.play(old).await?;
        }
        Ok(())
    }

    async fn publish(&self, batch: Batch) -> Result<()> {
        write_nodes(&self.port, &batch.fresh, batch.origin).await?;
        self.disk.flush().await.unwrap();
        let mut writes = Vec::new();
        for changed in &batch.changed {
            assert!(changed.ranges.is_sorted_by_key(|range| range.start));
            for range in &changed.ranges {
                self.count(|asked| asked.changed_bytes += range.len() as u64);
                for place in &changed.node.places {
                    let bytes = bytes_of(&changed.node, range);
                    writes.push((place + range.start as u64, bytes));
                }
            }
        }
        let superblocks = batch.superblocks.iter();
        let mut superblocks = superblocks.map(|(at, block)| (*at, block.to_vec()));
        // The primary superblock is part of the publication; its copies follow.
        writes.extend(superblocks.next());
        self.count(|asked| {
            asked.forced += u64::from(batch.reason == Reason::Forced);
            asked.changed += batch.changed.len() as u64;
            asked.fresh += batch.fresh.len() as u64;
        });
        // Durable point: the batch, and the replaced contents whose sums it holds.
        self.journal.redo.borrow_mut().extend(writes);
        for ticket in &batch.replaced {
            self.journal.undo.borrow_mut().remove(&ticket.0);
        }
        self.redo().await?;
        self.play(&superblocks.collect()).await
    }
}

type Fs = CowFs<Exchange>;

pub(crate) async fn body(sim: &Sim, disk: &RamDisk, journal: &Journal) -> Fs {
    let options = MountOptions {
        interval: Ns::us(900),
        ..MountOptions::default()
    };
    let strategy = Exchange::new(disk, journal);
    mount_with(sim, strategy, options).await.unwrap().0
}

pub(crate) async fn mounted(sim: &Sim, disk: &RamDisk, journal: &Journal) -> Vfs<Fs> {
    let body = body(sim, disk, journal).await;
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body, cache(false), clock, compute)
}

/// Runs `work` with a new file on a new disk, and asserts that the image is sound afterwards.
fn on_new_file(work: impl AsyncFnOnce(&Process<Fs>, Fd) + 'static) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(BLOCKS)));
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, &Journal::default()).await;
        let process = Process::new(&vfs, Access::root());
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(b"/file", flags, 0o600).await.unwrap();
        work(&process, fd).await;
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    judge(&kept.to_image());
}

/// State after a cut: the blocks of the disk, and the journal.
pub(crate) type Left = (BTreeMap<u64, Payload>, Journal);

/// Mounts a disk of `size` blocks after a cut, unmounts it, and asserts that it is sound.
/// Returns its files; `instant` names the cut in messages.
pub(crate) fn files_on((blocks, journal): Left, size: u64, instant: &str) -> Tree {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(size * 4_096), blocks);
    let port = disk.clone();
    let tree = kernel.block_on(async move {
        let vfs = mounted(&sim, &port, &journal).await;
        let process = Process::new(&vfs, Access::root());
        let tree = Tree::read(&process).await.unwrap();
        process.exit().await;
        vfs.unmount().await.unwrap();
        tree
    });
    assert_eq!(cowfs::check(&disk.to_image()[..]), [], "{instant}");
    tree
}

/// Forced overwrites change neither the extents of a file nor the addresses of nodes.
#[test]
fn forced_overwrites_move_neither_extents_nor_nodes() {
    on_new_file(async |process, fd| {
        let vfs = process.vfs();
        let source = Source::Fill {
            pattern: 1,
            len: 4 << 20,
        };
        process.pwrite(fd, 0, source).await.unwrap();
        process.fsync(fd).await.unwrap();
        process.sync().await.unwrap();
        let before = vfs.body().persist().asked.get();
        for turn in 0..64_u64 {
            let at = turn * 7 % 64 * 16_384;
            let source = Source::Fill {
                pattern: 2 + turn,
                len: 4_096,
            };
            process.pwrite(fd, at, source).await.unwrap();
            process.fsync(fd).await.unwrap();
        }
        let after = vfs.body().persist().asked.get();
        assert_eq!(after.replaced - before.replaced, 64);
        assert_eq!(after.forced - before.forced, 64);
        assert_eq!(after.fresh, before.fresh, "no node went elsewhere");
        // Each time the inode and a sum change, with the sums of their two nodes.
        let (nodes, bytes) = (
            after.changed - before.changed,
            after.changed_bytes - before.changed_bytes,
        );
        assert!(
            nodes <= 2 * 64 && bytes <= 64 * 400,
            "{nodes} nodes, {bytes} bytes"
        );
        assert_eq!(
            vfs.body().count_extents().await.unwrap().unwrap().extents,
            1
        );
    });
}

/// If a tree grows and its root does not change, only the size in its root item changes.
#[test]
fn tree_that_grows_below_its_root_updates_its_root_item() {
    on_new_file(async |process, fd| {
        let vfs = process.vfs();
        for turn in 0..1_600_u64 {
            // Every other page, so that each is an extent of its own.
            let source = Source::Fill {
                pattern: 1 + turn,
                len: 4_096,
            };
            process.pwrite(fd, turn * 8_192, source).await.unwrap();
            if turn % 50 == 0 {
                process.fsync(fd).await.unwrap();
            }
        }
        process.fsync(fd).await.unwrap();
        let extents = vfs.body().count_extents().await.unwrap().unwrap().extents;
        assert_eq!(extents, 1_600);
    });
}

struct Live {
    disk: RamDisk,
    journal: Journal,
    model: RefCell<Model>,
    busy: Cell<bool>,
    done: Cell<bool>,
}

/// Commits `after` a delay, in the middle of a call: also between the replacement of contents
/// and the change of their sums.
fn publish_beside(sim: &Sim, vfs: &Vfs<CowFs<Exchange>>, after: Ns) {
    let (vfs, sleeper) = (vfs.clone(), sim.clone());
    sim.spawn_detached(async move {
        sleeper.sleep(after).await;
        assert_eq!(vfs.body().sync_all().await, Ok(()));
    });
}

async fn work(sim: Sim, live: Rc<Live>, seed: u64) {
    let mut rng = Seed(seed).stream("calls");
    let vfs = mounted(&sim, &live.disk, &live.journal).await;
    let process = Process::new(&vfs, Access::root());
    for number in 0..70_u64 {
        let op = match (number, rng.below(12)) {
            (0..3, _) => Op::Open {
                path: [&b"/a"[..], b"/b", b"/c"][number as usize].to_vec(),
                flags: OpenFlags::BOTH | OpenFlags::CREATE,
            },
            (_, 0..4) => Op::Fsync {
                fd: rng.below(3) as u32,
                data_only: rng.below(2) == 0,
            },
            (_, 4) => draw_on_names(&mut rng),
            _ => draw_on_file(&mut rng),
        };
        live.busy.set(true);
        if seed % 2 == 1 {
            publish_beside(&sim, &vfs, Ns(number % 9));
        }
        let got = perform(&process, &op).await;
        assert_eq!(got, live.model.borrow_mut().perform(0, &op), "{op:?}");
        live.busy.set(false);
        sim.sleep(Ns::us(20)).await;
    }
    live.done.set(true);
}

/// A power cut before each event leaves the journal and a random part of the unflushed writes.
#[test]
fn forced_files_survive_any_cut_with_in_place_nodes() {
    let image = made(&MkfsOptions::new(BLOCKS));
    for seed in 0..4 {
        let kernel = Kernel::new();
        let live = Rc::new(Live {
            disk: RamDisk::from_image(&kernel.sim(), &image),
            journal: Journal::default(),
            model: RefCell::new(Model::new(1, Order::Journal).with_single_links()),
            busy: Cell::new(true),
            done: Cell::new(false),
        });
        let task = work(kernel.sim(), Rc::clone(&live), seed);
        kernel.sim().spawn_detached(task);
        let mut rng = Seed(seed).stream("cuts");
        while !live.done.get() {
            let left = (live.disk.after_cut(&mut rng), live.journal.left());
            let instant = format!("seed {seed}, event {}", kernel.sim().events());
            let tree = files_on(left, BLOCKS, &instant);
            if !live.busy.get() {
                let wrong = vfs::model::check(&live.model.borrow(), &tree);
                assert_eq!(wrong, [], "{instant}");
            }
            assert!(kernel.step());
        }
        judge(&live.disk.to_image());
    }
}
