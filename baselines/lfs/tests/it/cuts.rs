//! Power cuts before every event of a run, after which any subset of the unflushed writes is
//! kept: fsynced files survive, other names are those of one instant, and the medium is sound.

use crate::bench::{Fs, eager, judge, made};
use host::RamDisk;
use judges::rounds;
use lfs::{LfsFs, MkfsOptions, MountOptions, OnDrive, Recovery, mount};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Ns};
use vfs::model::{Mix, Model, Op, Order, Tree, drawn, perform};
use vfs::{Access, Clock, Compute, OpenFlags, Process, RenameFlags, Source, Vfs};

const BLOCKS: u64 = 16_384;
const SIZE: Bytes = Bytes(BLOCKS * vfs::PAGE);

type Contents = BTreeMap<u64, Payload>;

fn options() -> MountOptions {
    MountOptions {
        interval: Ns::us(900),
        ..MountOptions::default()
    }
}

/// Options with background cleaning after a wait of 60 us.
fn cleaning() -> MountOptions {
    MountOptions {
        cleaning: Ns::us(60),
        ..options()
    }
}

fn vfs(sim: &Sim, body: LfsFs<OnDrive>) -> Vfs<Fs> {
    Vfs::mount(sim, body, eager(), Clock::default(), Compute::unlimited())
}

struct Live {
    disk: RamDisk,
    model: RefCell<Model>,
    busy: Cell<bool>,
    /// Calls that remain until the first power cut.
    before: Cell<usize>,
    done: Cell<bool>,
    cleaned: Cell<u64>,
}

async fn work(sim: Sim, live: Rc<Live>, calls: Vec<Op>) {
    let (body, _) = mount(&sim, &live.disk, cleaning()).await.unwrap();
    let vfs = vfs(&sim, body);
    let process = Process::new(&vfs, Access::root());
    for op in calls {
        live.busy.set(true);
        let got = perform(&process, &op).await;
        assert_eq!(got, live.model.borrow_mut().perform(0, &op), "{op:?}");
        live.busy.set(false);
        live.cleaned.set(vfs.body().cleaned());
        live.before.set(live.before.get().saturating_sub(1));
        sim.sleep(Ns::us(20)).await;
    }
    live.done.set(true);
}

/// Mounts the contents `left` by a cut; with `again`, a second cut interrupts a first attempt.
fn recover(mut left: Contents, again: Option<&mut Rng>) -> (Recovery, Tree, RamDisk) {
    if let Some(rng) = again {
        let kernel = Kernel::new();
        let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
        let (port, sim) = (disk.clone(), kernel.sim());
        kernel.sim().spawn_detached(async move {
            let _ = mount(&sim, &port, options()).await;
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
        let (body, recovery) = mount(&sim, &port, options()).await.unwrap();
        let vfs = vfs(&sim, body);
        let process = Process::new(&vfs, Access::root());
        let tree = Tree::read(&process).await.unwrap();
        process.exit().await;
        vfs.unmount().await.unwrap();
        (recovery, tree)
    });
    (recovery, tree, disk)
}

/// Cuts the power before each event of a run; returns the number of cuts, and of cuts after
/// which files were rolled forward.
fn cut(seed: u64, calls: Vec<Op>) -> (u64, u64) {
    let (tried, rolled, _) = cut_after(0, seed, calls);
    (tried, rolled)
}

/// Like [`cut`], but only once `before` calls were made, and then before each fourth event; also
/// returns how many sections were cleaned from then on.
fn cut_after(before: usize, seed: u64, calls: Vec<Op>) -> (u64, u64, u64) {
    let image = made(&MkfsOptions::new(BLOCKS));
    let kernel = Kernel::new();
    let live = Rc::new(Live {
        disk: RamDisk::from_image(&kernel.sim(), &image),
        model: RefCell::new(Model::new(1, Order::Entries)),
        busy: Cell::new(true),
        before: Cell::new(before),
        cleaned: Cell::new(0),
        done: Cell::new(false),
    });
    let task = work(kernel.sim(), Rc::clone(&live), calls);
    kernel.sim().spawn_detached(task);
    let mut rng = Seed(seed).stream("cuts");
    let (mut tried, mut rolled) = (0, 0);
    while live.before.get() > 0 {
        assert!(kernel.step());
    }
    let cleaned = live.cleaned.get();
    // Cutting a long run before each event would take too long.
    let each = if before > 0 { 4 } else { 1 };
    while !live.done.get() {
        if !kernel.sim().events().is_multiple_of(each) {
            assert!(kernel.step());
            continue;
        }
        let left = live.disk.after_cut(&mut rng);
        let again = (rng.below(4) == 0).then_some(&mut rng);
        let (recovery, tree, disk) = recover(left, again);
        let events = kernel.sim().events();
        let findings = lfs::check(&disk.to_image()[..]);
        assert_eq!(findings, [], "seed {seed}, event {events}");
        if !live.busy.get() {
            let wrong = vfs::model::check(&live.model.borrow(), &tree);
            assert_eq!(wrong, [], "seed {seed}, event {events}");
        }
        if tried % 400 == 0 {
            judge(&disk.to_image());
        }
        (tried, rolled) = (tried + 1, rolled + u64::from(recovery.files > 0));
        assert!(kernel.step());
    }
    (tried, rolled, live.cleaned.get() - cleaned)
}

/// Calls that make `files` files and remove every other one, which leaves sections with gaps.
fn gaps(files: usize) -> Vec<Op> {
    let mut calls = Vec::new();
    for number in 0..files {
        let close = Op::Close { fd: 0 };
        let fill = Op::Write {
            fd: 0,
            offset: 0,
            byte: number as u8,
            len: 20_000,
        };
        calls.extend([open(&format!("/x{number}")), fill, close]);
    }
    calls.push(Op::Sync);
    calls.extend((0..files / 2).map(|number| unlink(&format!("/x{}", number * 2))));
    calls.push(Op::Sync);
    calls
}

#[test]
fn cuts_during_cleaning_lose_no_synced_file() {
    let mut all = (0, 0, 0);
    for seed in 0..2 {
        let mut calls = gaps(450);
        for (number, call) in drawn(Mix::Contents, seed, 30).into_iter().enumerate() {
            calls.extend([unlink(&format!("/x{}", number * 2 + 1)), call]);
        }
        let done = cut_after(gaps(450).len(), seed, calls);
        all = (all.0 + done.0, all.1 + done.1, all.2 + done.2);
    }
    println!(
        "{} cuts, {} rolled forward, {} cleaned",
        all.0, all.1, all.2
    );
    assert!(all.0 > 60 && all.2 > 0, "{all:?}");
}

/// Statistics of the logs after `calls` and one idle second.
fn told_after(calls: Vec<Op>, options: MountOptions) -> vfs::LogStats {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, &made(&MkfsOptions::new(BLOCKS)));
    kernel.block_on(async move {
        let (body, _) = mount(&sim, &disk, options).await.unwrap();
        let vfs = vfs(&sim, body);
        let process = Process::new(&vfs, Access::root());
        let told = || vfs::Body::log_stats(vfs.body()).unwrap();
        let empty = told();
        assert_eq!((empty.checkpoints, empty.foreground.calls), (0, 0));
        for op in calls {
            perform(&process, &op).await.unwrap();
        }
        sim.sleep(Ns::secs(1)).await;
        let after = told();
        let calls = after.foreground.calls + after.background.calls;
        assert_eq!(vfs.body().cleaned(), calls);
        assert!(after.checkpoints > 1 && after.memory >= empty.memory);
        assert_eq!(after.metadata.calls, 0);
        after
    })
}

/// The medium has room, so cleaning starts only after the last call.
#[test]
fn blocks_moved_while_idle_count_as_background_cleaning() {
    let after = told_after(gaps(200), cleaning());
    let (waited, quiet) = (after.foreground, after.background);
    assert_eq!((waited.calls, waited.moved_bytes), (0, 0), "{after:?}");
    assert!(quiet.calls > 0 && quiet.moved_bytes > 0, "{after:?}");
    assert!(quiet.moved_bytes.is_multiple_of(vfs::PAGE));
    assert!(quiet.moved_bytes / quiet.calls < 2 << 20, "{after:?}");
}

/// The medium is nearly full, so changes wait for the cleaning of sections with many valid
/// blocks. The idle second is shorter than the wait of background cleaning.
#[test]
fn blocks_moved_while_changes_wait_count_as_foreground_cleaning() {
    let after = told_after(gaps(450), options());
    let (waited, quiet) = (after.foreground, after.background);
    assert_eq!((quiet.calls, quiet.moved_bytes), (0, 0), "{after:?}");
    assert!(waited.calls > 0, "{after:?}");
    assert!(waited.moved_bytes.is_multiple_of(vfs::PAGE));
    assert!(
        (400_000..2 << 20).contains(&(waited.moved_bytes / waited.calls)),
        "{after:?}"
    );
}

#[test]
fn synced_contents_survive_a_cut_at_each_event() {
    let (mut tried, mut rolled) = (0, 0);
    let seeds = rounds(4, 16);
    for seed in 0..seeds {
        let done = cut(seed, drawn(Mix::Contents, seed, 80));
        (tried, rolled) = (tried + done.0, rolled + done.1);
    }
    println!("{tried} cuts, {rolled} rolled forward");
    assert!(tried > 25 * seeds && rolled > 2 * seeds, "{tried} {rolled}");
}

#[test]
fn synced_new_files_keep_their_names_after_a_cut_at_each_event() {
    let (mut tried, mut rolled) = (0, 0);
    let seeds = rounds(3, 8);
    for seed in 0..seeds {
        let done = cut(seed, drawn(Mix::Names, seed, 100));
        (tried, rolled) = (tried + done.0, rolled + done.1);
    }
    println!("{tried} cuts, {rolled} rolled forward");
    assert!(tried > 50 * seeds && rolled > 5 * seeds, "{tried} {rolled}");
}

fn open(path: &str) -> Op {
    Op::Open {
        path: path.into(),
        flags: OpenFlags::BOTH | OpenFlags::CREATE,
    }
}

fn fsync(fd: u32) -> Op {
    Op::Fsync {
        fd,
        data_only: false,
    }
}

fn write(fd: u32, byte: u8) -> Op {
    let (offset, len) = (0, 5_000);
    Op::Write {
        fd,
        offset,
        byte,
        len,
    }
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename {
        from: from.into(),
        to: to.into(),
        flags: RenameFlags::default(),
    }
}

fn link(path: &str, new: &str) -> Op {
    let (path, new) = (path.into(), new.into());
    Op::Link { path, new }
}

fn unlink(path: &str) -> Op {
    Op::Unlink { path: path.into() }
}

fn mkdir(path: &str) -> Op {
    Op::Mkdir { path: path.into() }
}

/// Sequences of calls with which programs replace files, such as fsync before rename, and
/// unsafe variants of them.
fn habits() -> Vec<Vec<Op>> {
    let made = [open("/a"), write(0, 1), fsync(0)];
    let known = [open("/a"), write(0, 1), Op::Sync];
    let again = [open("/a"), write(1, 2), fsync(1)];
    let habit = |first: &[Op], then: &[Op]| [first, then].concat();
    vec![
        habit(&made, &[write(0, 2), fsync(0), write(0, 3), fsync(0)]),
        habit(&made, &[rename("/a", "/b"), fsync(0)]),
        habit(&known, &[rename("/a", "/b"), fsync(0)]),
        habit(
            &known,
            &[open("/b"), write(1, 2), fsync(1), rename("/b", "/a")],
        ),
        habit(&made, &habit(&[unlink("/a")], &again)),
        habit(&known, &habit(&[unlink("/a")], &again)),
        habit(&known, &habit(&[rename("/a", "/b")], &again)),
        habit(&known, &habit(&[rename("/a", "/b"), fsync(0)], &again)),
        habit(&known, &habit(&[link("/a", "/b"), unlink("/a")], &again)),
        habit(&made, &[link("/a", "/b"), fsync(0), unlink("/a"), fsync(0)]),
        habit(&[mkdir("/d"), open("/d/a"), write(0, 1)], &[fsync(0)]),
        habit(
            &[mkdir("/d"), open("/d/a"), Op::Sync, rename("/d", "/e")],
            &[open("/d"), write(1, 1), fsync(1), fsync(0)],
        ),
        habit(
            &[
                mkdir("/d"),
                Op::Sync,
                open("/d/a"),
                fsync(0),
                unlink("/d/a"),
            ],
            &[Op::Rmdir { path: b"/d".into() }, open("/d"), fsync(1)],
        ),
    ]
}

#[test]
fn replaced_files_survive_a_cut_at_each_event() {
    let (mut tried, mut rolled) = (0, 0);
    for (number, habit) in (0..).zip(habits()) {
        for seed in 0..2 {
            println!("habit {number}, seed {seed}");
            let done = cut(seed, habit.clone());
            (tried, rolled) = (tried + done.0, rolled + done.1);
        }
    }
    println!("{tried} cuts, {rolled} rolled forward");
    assert!(rolled > 40, "{tried} {rolled}");
}

/// Pages under indirect nodes, which fsync does not write.
const FAR: [u64; 3] = [3_000, 1_100_000, 2_500_000];

async fn write_far(sim: Sim, disk: RamDisk) {
    let (body, _) = mount(&sim, &disk, MountOptions::default()).await.unwrap();
    let process = Process::new(&vfs(&sim, body), Access::root());
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(b"/far", flags, 0o600).await.unwrap();
    process.sync().await.unwrap();
    let new = process.open(b"/new", flags, 0o600).await.unwrap();
    for page in FAR {
        let source = Source::Fill {
            pattern: page,
            len: 4_096,
        };
        process.pwrite(fd, page * 4_096, source).await.unwrap();
        process.fsync(fd).await.unwrap();
    }
    process.fsync(new).await.unwrap();
}

#[test]
fn indirect_nodes_of_synced_pages_are_rebuilt_by_recovery() {
    let image = made(&MkfsOptions::new(BLOCKS));
    let kernel = Kernel::new();
    let disk = RamDisk::from_image(&kernel.sim(), &image);
    kernel.block_on(write_far(kernel.sim(), disk.clone()));
    let left = disk.after_cut(&mut Seed(1).stream("cut"));
    let kernel = Kernel::new();
    let disk = RamDisk::holding(&kernel.sim(), SIZE, left);
    let (port, sim) = (disk.clone(), kernel.sim());
    kernel.block_on(async move {
        let (body, recovery) = mount(&sim, &port, MountOptions::default()).await.unwrap();
        assert_eq!((recovery.files, recovery.nodes), (2, 5));
        let vfs = vfs(&sim, body);
        let process = Process::new(&vfs, Access::root());
        process.open(b"/new", OpenFlags::READ, 0).await.unwrap();
        let fd = process.open(b"/far", OpenFlags::READ, 0).await.unwrap();
        for page in FAR {
            let bytes = process.read_bytes(fd, page * 4_096, 8).await.unwrap();
            assert_eq!(bytes, page.to_le_bytes());
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    judge(&disk.to_image());
}
