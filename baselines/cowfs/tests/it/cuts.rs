//! The power is cut before every event of runs, and any part of what was not flushed is
//! kept: what was forced is there, other names are as of one instant, and the medium is
//! sound.

use crate::bench::{Fs, eager, judge, made};
use cowfs::{Btrfs, CowFs, MkfsOptions, MountOptions, Recovery, mount};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::model::{Model, Op, Order, Tree, draw_on_file, draw_on_names, perform};
use vfs::{Access, Body, Clock, Compute, OpenFlags, Process, RenameFlags, Vfs};

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

fn vfs(sim: &Sim, body: CowFs<Btrfs<RamDisk>>) -> Vfs<Fs> {
    Vfs::mount(sim, body, eager(), Clock::default(), Compute::unlimited())
}

struct Live {
    disk: RamDisk,
    model: RefCell<Model>,
    busy: Cell<bool>,
    done: Cell<bool>,
    logged: Cell<u64>,
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// Three files, and then mostly changes of their contents, forced now and then.
    Contents,
    /// Files that are made, forced, moved and removed, with the same few names in turn.
    Names,
}

fn draw(mix: Mix, rng: &mut Rng, number: usize) -> Op {
    let path = [&b"/a"[..], b"/b", b"/c"][number % 3].to_vec();
    if number < 3 {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        return Op::Open { path, flags };
    }
    match (mix, rng.below(24)) {
        (Mix::Contents, _) if number == 3 => Op::Sync,
        (Mix::Contents, chance) => draw_contents(rng, chance),
        (Mix::Names, chance) => draw_named(rng, chance),
    }
}

fn draw_contents(rng: &mut Rng, chance: u64) -> Op {
    match chance {
        0 => draw_on_names(rng),
        1..8 => Op::Fsync {
            fd: rng.below(3) as u32,
            data_only: rng.below(2) == 0,
        },
        _ => draw_on_file(rng),
    }
}

/// A path among few, some of which are in a directory.
fn path(rng: &mut Rng) -> Vec<u8> {
    let paths = [&b"/a"[..], b"/b", b"/c", b"/d", b"/d/a", b"/d/b", b"/e/a"];
    paths[rng.below(paths.len() as u64) as usize].to_vec()
}

fn draw_named(rng: &mut Rng, chance: u64) -> Op {
    match chance {
        0..5 => Op::Open {
            path: path(rng),
            flags: OpenFlags::BOTH | OpenFlags::CREATE,
        },
        5..8 => Op::Unlink { path: path(rng) },
        8..10 => Op::Rename {
            from: path(rng),
            to: path(rng),
            flags: RenameFlags {
                no_replace: false,
                exchange: rng.below(5) == 0,
            },
        },
        10 => Op::Link {
            path: path(rng),
            new: path(rng),
        },
        11 => Op::Mkdir {
            path: [&b"/d"[..], b"/e"][rng.below(2) as usize].to_vec(),
        },
        12 => Op::Rmdir { path: path(rng) },
        13 if rng.below(4) == 0 => Op::Sync,
        14..16 => draw_on_file(rng),
        16 => draw_on_names(rng),
        // Most files that are open were opened last.
        _ => Op::Fsync {
            fd: rng.below(12) as u32,
            data_only: rng.below(5) == 0,
        },
    }
}

fn drawn(mix: Mix, seed: u64, calls: usize) -> Vec<Op> {
    let mut rng = Seed(seed).stream("calls");
    (0..calls)
        .map(|number| draw(mix, &mut rng, number))
        .collect()
}

async fn work(sim: Sim, live: Rc<Live>, calls: Vec<Op>, in_place: bool) {
    let (body, _) = mount(&sim, &live.disk, options(in_place)).await.unwrap();
    let vfs = vfs(&sim, body);
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

/// Recovers what a cut has left; in some cases the power is cut again meanwhile.
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

/// What a series of cuts has met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    cuts: u64,
    /// Recoveries that had something to lay over the last commit.
    replayed: u64,
    /// Forces that the log was enough for.
    logged: u64,
}

/// Cuts the power of a run before each event.
fn cut(seed: u64, calls: Vec<Op>, in_place: bool) -> Met {
    let image = made(&MkfsOptions::new(BLOCKS));
    let kernel = Kernel::new();
    let live = Rc::new(Live {
        disk: RamDisk::from_image(&kernel.sim(), &image),
        model: RefCell::new(Model::new(1, Order::Entries).with_single_links()),
        busy: Cell::new(true),
        done: Cell::new(false),
        logged: Cell::new(0),
    });
    let task = work(kernel.sim(), Rc::clone(&live), calls, in_place);
    kernel.sim().spawn_detached(task);
    let mut rng = Seed(seed).stream("cuts");
    let mut met = Met::default();
    while !live.done.get() {
        let left = live.disk.after_cut(&mut rng);
        let again = (rng.below(4) == 0).then_some(&mut rng);
        let (recovery, tree, disk) = recover(left, in_place, again);
        let events = kernel.sim().events();
        let findings = cowfs::check(&disk.to_image()[..]);
        assert_eq!(findings, [], "seed {seed}, event {events}");
        // In place, what is forced may be torn by what is written after it.
        if !live.busy.get() && !in_place {
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

fn cut_some(mix: Mix, seeds: std::ops::Range<u64>, calls: usize, in_place: bool) {
    let mut all = Met::default();
    for seed in seeds {
        let met = cut(seed, drawn(mix, seed, calls), in_place);
        all = Met {
            cuts: all.cuts + met.cuts,
            replayed: all.replayed + met.replayed,
            logged: all.logged + met.logged,
        };
    }
    println!("{all:?}");
    assert!(all.cuts > 200 && all.replayed > 50 && all.logged > 10);
}

#[test]
fn what_was_forced_of_contents_is_there() {
    cut_some(Mix::Contents, 0..12, 60, false);
}

#[test]
fn what_was_forced_of_names_is_there() {
    cut_some(Mix::Names, 0..60, 80, false);
}

#[test]
fn the_structure_is_sound_where_contents_are_written_in_place() {
    cut_some(Mix::Contents, 10..16, 40, true);
}
