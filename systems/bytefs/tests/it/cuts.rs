//! Several programs at once, and the power cut under them.
//!
//! Each program replaces a file by a new version, exchanges two others, and counts in
//! a third. Acknowledged durable changes are its floor, started changes its ceiling.

use crate::bench::{
    Body, Contents, Mounted, Watch, assert_sound, cache, holding, open, put, root, small, strict,
    vfs,
};
use bytefs::{Metrics, Options};
use host::RamDisk;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{CacheConfig, FallocateMode, OpenFlags, Process, RenameFlags, Source};

const TASKS: usize = 6;
const LINES: u64 = 16;

/// Bounds on the state of each program after a cut.
#[derive(Clone, Copy, Default)]
struct Promised {
    /// Versions that the replaced file may have.
    floor: u64,
    ceiling: u64,
    /// Values of each line of the file that is counted in.
    lines: [(u64, u64); LINES as usize],
}

type Ledger = Rc<RefCell<[Option<Promised>; TASKS]>>;

/// An eager write-back, and so few inodes in memory that calls wait for the medium with
/// handles open.
fn eager() -> CacheConfig {
    CacheConfig {
        inodes: 3,
        names: 4,
        ..vfs::model::eager()
    }
}

fn cold() -> Options {
    Options {
        cache_blocks: 1,
        ..strict()
    }
}

fn size_of(version: u64) -> usize {
    1 + (version as usize * 1_013) % 9_000
}

fn byte_of(version: u64) -> u8 {
    (version % 251) as u8 + 1
}

async fn replace(process: &Process<Body>, task: usize, version: u64) {
    let (new, old) = (format!("/t{task}/new"), format!("/t{task}/file"));
    let fd = open(process, &new).await;
    let bytes = vec![byte_of(version); size_of(version)];
    put(process, fd, 0, &bytes).await;
    let flags = RenameFlags::default();
    let (from, to) = (new.as_bytes(), old.as_bytes());
    process.rename(from, to, flags).await.unwrap();
    process.fsync(fd).await.unwrap();
    process.close(fd).await.unwrap();
}

async fn count(process: &Process<Body>, task: usize, line: u64, value: u64) {
    let fd = open(process, &format!("/t{task}/count")).await;
    let bytes = value.to_le_bytes();
    let written = process.pwrite(fd, line * 256, Source::Bytes(&bytes));
    written.await.unwrap();
    process.fdatasync(fd).await.unwrap();
    process.close(fd).await.unwrap();
}

async fn exchange(process: &Process<Body>, task: usize) {
    let (a, b) = (format!("/t{task}/a"), format!("/t{task}/b"));
    let flags = RenameFlags {
        exchange: true,
        ..RenameFlags::default()
    };
    let exchanged = process.rename(a.as_bytes(), b.as_bytes(), flags);
    exchanged.await.unwrap();
}

/// A file of many pieces, which is cut over several handles.
async fn scatter(process: &Process<Body>, task: usize) {
    let path = format!("/t{task}/scattered");
    let fd = open(process, &path).await;
    for piece in 0..40 {
        let at = piece * 12_288;
        process
            .pwrite(fd, at, Source::Bytes(&[3; 100]))
            .await
            .unwrap();
    }
    process.fsync(fd).await.unwrap();
    let punched = process.fallocate(fd, FallocateMode::Punch, 4_000, 90_000);
    punched.await.unwrap();
    process.ftruncate(fd, 12_300).await.unwrap();
    process.close(fd).await.unwrap();
    process.unlink(path.as_bytes()).await.unwrap();
}

async fn prepare(vfs: &Mounted, ledger: &Ledger) {
    let process = root(vfs);
    for task in 0..TASKS {
        let dir = format!("/t{task}");
        process.mkdir(dir.as_bytes(), 0o755).await.unwrap();
        for (name, byte) in [("a", 1), ("b", 2)] {
            let fd = open(&process, &format!("{dir}/{name}")).await;
            put(&process, fd, 0, &[byte; 10]).await;
            process.close(fd).await.unwrap();
        }
        let fd = open(&process, &format!("{dir}/count")).await;
        put(&process, fd, 0, &[0; LINES as usize * 256]).await;
        process.close(fd).await.unwrap();
        replace(&process, task, 0).await;
        process.sync().await.unwrap();
        ledger.borrow_mut()[task] = Some(Promised::default());
    }
}

async fn work(vfs: Mounted, task: usize, calls: u64, mut rng: Rng, ledger: Ledger) {
    let process = root(&vfs);
    let change = |change: &dyn Fn(&mut Promised)| {
        change(ledger.borrow_mut()[task].as_mut().expect("it is prepared"));
    };
    for version in 1..=calls {
        match rng.below(8) {
            0..3 => {
                change(&|p| p.ceiling = version);
                replace(&process, task, version).await;
                change(&|p| p.floor = version);
            }
            3..6 => {
                let line = rng.below(LINES);
                change(&|p| p.lines[line as usize].1 = version);
                count(&process, task, line, version).await;
                change(&|p| p.lines[line as usize].0 = version);
            }
            6 => exchange(&process, task).await,
            _ => scatter(&process, task).await,
        }
    }
}

/// Checks the state after a recovery against the bounds.
async fn judge(vfs: &Mounted, promised: [Option<Promised>; TASKS]) {
    let process = root(vfs);
    for (task, promised) in promised.iter().enumerate() {
        let Some(promised) = promised else { continue };
        let read = async |name: &str, len: usize| {
            let path = format!("/t{task}/{name}");
            let opened = process.open(path.as_bytes(), OpenFlags::READ, 0).await;
            let fd = opened.unwrap_or_else(|e| panic!("{path}: {e}"));
            process.read_bytes(fd, 0, len).await.unwrap()
        };
        let bytes = read("file", 10_000).await;
        let is = |v: &u64| bytes == vec![byte_of(*v); size_of(*v)];
        let known = (promised.floor..=promised.ceiling).any(|v| is(&v));
        assert!(known, "task {task}: no version that it may have");
        let mut pair = [read("a", 100).await, read("b", 100).await];
        pair.sort_unstable();
        assert_eq!(pair, [[1; 10], [2; 10]]);
        let counts = read("count", 4_096).await;
        for (line, &(floor, ceiling)) in promised.lines.iter().enumerate() {
            let value = counts[line * 256..][..8].try_into().map(u64::from_le_bytes);
            let value = value.unwrap();
            assert!(
                (floor..=ceiling).contains(&value),
                "task {task}, line {line}"
            );
        }
    }
}

fn recover(left: Contents, options: Options, promised: [Option<Promised>; TASKS], outside: bool) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = holding(&sim, left);
    let kept = disk.clone();
    kernel.block_on(async move {
        let (body, recovered) = bytefs::mount(&sim, &disk, options).await.unwrap();
        assert!(recovered);
        let vfs = vfs(&sim, body, cache(false));
        judge(&vfs, promised).await;
        vfs.unmount().await.unwrap();
    });
    assert_sound(&kept.to_image(), outside);
}

struct Run {
    seed: u64,
    calls: u64,
    options: Options,
    /// One in so many events is followed by a cut.
    every: u64,
}

async fn programs(sim: Sim, disk: RamDisk, run: Rc<Run>, ledger: Ledger, watch: Watch) {
    let (body, _) = bytefs::mount(&sim, &disk, run.options).await.unwrap();
    watch.set(&body);
    let vfs = vfs(&sim, body, eager());
    prepare(&vfs, &ledger).await;
    let tasks = (0..TASKS).map(|task| {
        let rng = Seed(run.seed).stream(&format!("task {task}"));
        let ledger = Rc::clone(&ledger);
        sim.spawn(work(vfs.clone(), task, run.calls, rng, ledger))
    });
    sim::join_all(tasks.collect()).await;
}

/// Gives what was met, and how many cuts there were.
fn explore(run: Run) -> (Metrics, u64) {
    println!("seed {}", run.seed);
    let run = Rc::new(run);
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), small());
    let ledger = Ledger::default();
    let (kept, promised, plan) = (disk.clone(), Rc::clone(&ledger), Rc::clone(&run));
    let (sim, watch) = (kernel.sim(), Watch::default());
    let started = programs(sim.clone(), disk, plan, promised, watch.clone());
    sim.spawn_detached(started);
    let mut rng = Seed(run.seed).stream("cuts");
    let (mut cuts, mut met) = (0, Metrics::default());
    while kernel.step() {
        met = watch.look();
        if rng.below(run.every) == 0 {
            cuts += 1;
            let promised = *ledger.borrow();
            recover(
                kept.after_cut(&mut rng),
                run.options,
                promised,
                cuts % 100 == 0,
            );
        }
    }
    (met, cuts)
}

#[test]
//= bytefs 4.7
fn acknowledged_changes_survive_cuts_at_random_events() {
    for seed in 0..3 {
        let (met, cuts) = explore(Run {
            seed,
            calls: 60,
            options: cold(),
            every: 60,
        });
        println!("{cuts} cuts, {met:?}");
        assert!(cuts > 100 && met.joins > 0 && met.follows > 0 && met.byte_pages > 0);
    }
}

#[test]
fn acknowledged_changes_survive_a_cut_before_any_event() {
    let (met, cuts) = explore(Run {
        seed: 9,
        calls: 2,
        options: cold(),
        every: 1,
    });
    println!("{cuts} cuts, {met:?}");
    assert!(cuts > 500);
}

#[test]
//= bytefs 4.3
fn acknowledged_changes_survive_cuts_of_split_transactions() {
    let options = Options {
        open_lines: 9_000,
        handles: 3,
        tx_ids: 7,
        ..cold()
    };
    for seed in 20..22 {
        let (met, cuts) = explore(Run {
            seed,
            calls: 40,
            options,
            every: 60,
        });
        println!("{cuts} cuts, {met:?}");
        assert!(cuts > 50 && met.waits > 0 && met.joins > 0);
    }
}
