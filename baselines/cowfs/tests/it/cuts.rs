//! Power cuts before every event of a run, each with a random part of the unflushed writes
//! kept: forced contents survive, other names are of one instant, and the medium is sound.

use crate::bench::{Late, eager, judge, made};
use cowfs::{Btrfs, CowFs, MkfsOptions, MountOptions, Recovery, mount};
use host::{BlockPort, RamDisk};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::model::{Mix, Model, Op, Order, Tree, drawn, perform};
use vfs::{Access, Body, Clock, Compute, OpenFlags, Process, Source, Vfs};

const BLOCKS: u64 = 12_288;
const SIZE: Bytes = Bytes(BLOCKS * vfs::PAGE);

type Contents = BTreeMap<u64, Payload>;

fn options(in_place: bool) -> MountOptions {
    MountOptions {
        interval: Ns::us(900),
        in_place,
        ..MountOptions::default()
    }
}

fn vfs(sim: &Sim, body: CowFs<Btrfs>) -> Vfs<CowFs<Btrfs>> {
    Vfs::mount(sim, body, eager(), Clock::default(), Compute::unlimited())
}

struct Live {
    disk: RamDisk,
    model: RefCell<Model>,
    busy: Cell<bool>,
    done: Cell<bool>,
    logged: Cell<u64>,
    own: RefCell<Own>,
}

/// Concurrent load beside the program under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    /// A task that forces its own file repeatedly and syncs everything now and then, on a
    /// [`Late`] disk: most cuts fall into a publication while other calls run.
    Forcing,
}

/// Path of the file of [`Beside::Forcing`].
const OWN: &[u8] = b"/own";
const OWN_PAGES: u64 = 5;

/// Patterns of each page of that file: the last forced one first, then those written since.
type Own = BTreeMap<u64, Vec<u64>>;

async fn force_beside(sim: Sim, vfs: Vfs<CowFs<Btrfs>>, live: Rc<Live>, seed: u64) {
    let mut rng = Seed(seed).stream("beside");
    let process = Process::new(&vfs, Access::root());
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(OWN, flags, 0o600).await.unwrap();
    for pattern in 1.. {
        if live.done.get() {
            break;
        }
        sim.sleep(Ns(rng.below(9_000))).await;
        let (page, len) = (rng.below(OWN_PAGES), vfs::PAGE);
        live.own
            .borrow_mut()
            .entry(page)
            .or_insert_with(|| vec![0])
            .push(pattern);
        let source = Source::Fill { pattern, len };
        process.pwrite(fd, page * len, source).await.unwrap();
        let written = live.own.borrow().clone();
        let forced = match rng.below(8) {
            0 => process.sync().await,
            1..4 => process.fdatasync(fd).await,
            4..7 => process.fsync(fd).await,
            _ => continue,
        };
        assert_eq!(forced, Ok(()));
        let newest = |all: &Vec<u64>| all[all.len() - 1..].to_vec();
        *live.own.borrow_mut() = written
            .iter()
            .map(|(page, all)| (*page, newest(all)))
            .collect();
    }
}

/// Removes the concurrent task's file from `tree`, and asserts that each of its pages holds the
/// last forced pattern or a later one.
fn judge_own(own: &Own, tree: &mut Tree) {
    let found = tree.0.remove(OWN).map(|seen| seen.data).unwrap_or_default();
    for (page, allowed) in own {
        let mut bytes = [0; 8];
        if let Some(held) = found.get((page * vfs::PAGE) as usize..) {
            let len = held.len().min(8);
            bytes[..len].copy_from_slice(&held[..len]);
        }
        let found = u64::from_le_bytes(bytes);
        assert!(
            allowed.contains(&found),
            "page {page}: {found} of {allowed:?}"
        );
    }
}

async fn work<P: BlockPort>(
    sim: Sim,
    live: Rc<Live>,
    port: P,
    calls: Vec<Op>,
    (in_place, beside, seed): (bool, Beside, u64),
) {
    let (body, _) = mount(&sim, &port, options(in_place)).await.unwrap();
    let vfs = vfs(&sim, body);
    if let Beside::Forcing = beside {
        let task = force_beside(sim.clone(), vfs.clone(), Rc::clone(&live), seed);
        sim.spawn_detached(task);
    }
    let process = Process::new(&vfs, Access::root());
    for op in calls {
        live.busy.set(true);
        let got = perform(&process, &op).await;
        assert_eq!(got, live.model.borrow_mut().perform(0, &op), "{op:?}");
        live.busy.set(false);
        live.logged
            .set(vfs.body().tree_stats().unwrap().logged_forces);
        sim.sleep(Ns::us(20)).await;
    }
    live.done.set(true);
}

/// Mounts the contents that a cut has left, reads all files and unmounts. With `again`, cuts
/// the power once more during a first mount.
fn recover(
    mut left: Contents,
    in_place: bool,
    again: Option<&mut Rng>,
) -> (Recovery, Tree, RamDisk) {
    if let Some(rng) = again {
        let kernel = Kernel::new();
        let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
        let (port, sim) = (disk.clone(), kernel.sim());
        kernel.sim().spawn_detached(async move {
            let _ = mount(&sim, &port, options(in_place)).await;
        });
        for _ in 0..rng.below(60) {
            kernel.step();
        }
        left = disk.after_cut(rng);
    }
    let kernel = Kernel::new();
    let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
    let (port, sim) = (disk.clone(), kernel.sim());
    let (recovery, tree) = kernel.block_on(async move {
        let (body, recovery) = mount(&sim, &port, options(in_place)).await.unwrap();
        let vfs = vfs(&sim, body);
        let process = Process::new(&vfs, Access::root());
        let tree = Tree::read(&process).await.unwrap();
        process.exit().await;
        vfs.unmount().await.unwrap();
        (recovery, tree)
    });
    (recovery, tree, disk)
}

/// Counters over a series of cuts.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    cuts: u64,
    /// Recoveries that replayed files of a log.
    replayed: u64,
    /// Forces that wrote the log only, without a commit.
    logged: u64,
}

/// Starts `calls` on a new file system; `how` selects in-place contents and concurrent load.
fn start(kernel: &Kernel, seed: u64, calls: Vec<Op>, how: (bool, Beside)) -> Rc<Live> {
    let image = made(&MkfsOptions::new(BLOCKS));
    let (sim, disk) = (kernel.sim(), RamDisk::from_image(&kernel.sim(), &image));
    let live = Rc::new(Live {
        disk: disk.clone(),
        model: RefCell::new(Model::new(1, Order::Entries).with_single_links()),
        busy: Cell::new(true),
        done: Cell::new(false),
        logged: Cell::new(0),
        own: RefCell::default(),
    });
    let shared = Rc::clone(&live);
    match how.1 {
        Beside::Nobody => {
            sim.clone()
                .spawn_detached(work(sim, shared, disk, calls, (how.0, how.1, seed)));
        }
        Beside::Forcing => {
            let port = Late::new(&sim, &disk, seed);
            sim.clone()
                .spawn_detached(work(sim, shared, port, calls, (how.0, how.1, seed)));
        }
    }
    live
}

/// Cuts the power of a run before each event, or before one of `of` events on average.
fn cut(seed: u64, (mix, calls): (Mix, usize), how: (bool, Beside), of: u64) -> Met {
    let in_place = how.0;
    let kernel = Kernel::new();
    let live = start(&kernel, seed, drawn(mix, seed, calls), how);
    let mut rng = Seed(seed).stream("cuts");
    let mut met = Met::default();
    while !live.done.get() {
        if of > 1 && rng.below(of) > 0 {
            assert!(kernel.step());
            continue;
        }
        let left = live.disk.after_cut(&mut rng);
        let again = (rng.below(4) == 0).then_some(&mut rng);
        let events = kernel.sim().events();
        // The last commit is sound even before the log is replayed.
        let found = cowfs::check(&Left(&left));
        assert_eq!(found, [], "seed {seed}, event {events}, before a mount");
        let (recovery, mut tree, disk) = recover(left, in_place, again);
        judge_own(&live.own.borrow(), &mut tree);
        let findings = cowfs::check(&disk.to_image()[..]);
        assert_eq!(findings, [], "seed {seed}, event {events}");
        // Later in-place writes may tear forced contents. And after a rename, the model expects
        // the change of the old name too, which a commit of the other task need not hold.
        let judged = !in_place && (how.1 == Beside::Nobody || mix == Mix::Contents);
        if !live.busy.get() && judged {
            let wrong = vfs::model::check(&live.model.borrow(), &tree);
            assert_eq!(wrong, [], "seed {seed}, event {events}");
        }
        if met.cuts % 400 == 0 {
            judge(&disk.to_image());
        }
        met.cuts += 1;
        met.replayed += u64::from(recovery.files > 0);
        assert!(kernel.step());
    }
    met.logged = live.logged.get();
    met
}

/// An image of the blocks that a cut has left, for the checker.
struct Left<'a>(&'a Contents);

impl host::Image for Left<'_> {
    fn blocks(&self) -> u64 {
        BLOCKS
    }

    fn read(&self, block: u64, out: &mut cowfs::Block) -> bool {
        let found = self.0.get(&block).unwrap_or(&Payload::Zero);
        block < BLOCKS && found.copy_to(0, out)
    }
}

fn cut_some(mix: Mix, seeds: std::ops::Range<u64>, calls: usize, in_place: bool) {
    let mut all = Met::default();
    for seed in seeds {
        let met = cut(seed, (mix, calls), (in_place, Beside::Nobody), 1);
        all = Met {
            cuts: all.cuts + met.cuts,
            replayed: all.replayed + met.replayed,
            logged: all.logged + met.logged,
        };
    }
    assert!(all.cuts > 200 && all.replayed > 50 && all.logged > 10);
}

#[test]
fn forced_contents_survive_any_power_cut() {
    cut_some(Mix::Contents, 0..12, 60, false);
}

#[test]
fn forced_names_survive_any_power_cut() {
    cut_some(Mix::Names, 0..60, 80, false);
}

#[test]
fn structure_is_sound_after_any_cut_with_in_place_contents() {
    cut_some(Mix::Contents, 10..16, 40, true);
}

#[test]
fn forced_files_survive_cuts_during_other_publications() {
    let mut all = Met::default();
    for (mix, seeds) in [(Mix::Contents, 20..32), (Mix::Names, 40..60)] {
        for seed in seeds {
            let met = cut(seed, (mix, 80), (false, Beside::Forcing), 12);
            all.cuts += met.cuts;
            all.replayed += met.replayed;
        }
    }
    assert!(all.cuts > 200 && all.replayed > 50, "{all:?}");
}
