//! A call that has returned is there after a cut, though its commit went on its own and
//! others changed the same directory meanwhile.

use crate::bench::{
    Body, Contents, Watch, assert_sound, cache, holding, mounted, open, root, small, strict, vfs,
};
use bytefs::Metrics;
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::{Errno, OpenFlags, Process, RenameFlags};

const TASKS: u64 = 5;

/// Whether a path is there; none while a call is changing that.
type Ledger = Rc<RefCell<BTreeMap<String, Option<bool>>>>;

fn note(ledger: &Ledger, path: &str, there: Option<bool>) {
    ledger.borrow_mut().insert(path.to_owned(), there);
}

const fn dir_of(number: u64) -> &'static str {
    if number.is_multiple_of(3) {
        "/one"
    } else {
        "/other"
    }
}

/// Makes something of a name.
async fn make(process: &Process<Body>, path: &str, number: u64) {
    match number % 4 {
        0 => process.mkdir(path.as_bytes(), 0o755).await.unwrap(),
        1 => {
            let made = process.symlink(b"anywhere", path.as_bytes());
            made.await.unwrap();
        }
        _ => {
            let fd = open(process, path).await;
            process.close(fd).await.unwrap();
        }
    }
}

/// Takes it away again.
async fn unmake(process: &Process<Body>, old: &str, number: u64, ledger: &Ledger) {
    match number % 4 {
        0 => process.rmdir(old.as_bytes()).await.unwrap(),
        1 => {
            let new = format!("{old}-moved");
            note(ledger, &new, None);
            let (from, to) = (old.as_bytes(), new.as_bytes());
            let renamed = process.rename(from, to, RenameFlags::default());
            renamed.await.unwrap();
            note(ledger, &new, Some(true));
        }
        _ => process.unlink(old.as_bytes()).await.unwrap(),
    }
}

async fn work(process: Process<Body>, task: u64, calls: u64, ledger: Ledger) {
    for number in 0..calls {
        let path = format!("{}/{task}-{number}", dir_of(number));
        note(&ledger, &path, None);
        make(&process, &path, number).await;
        note(&ledger, &path, Some(true));
        if let Some(before) = number.checked_sub(4) {
            let old = format!("{}/{task}-{before}", dir_of(before));
            note(&ledger, &old, None);
            unmake(&process, &old, before, &ledger).await;
            note(&ledger, &old, Some(false));
        }
    }
}

async fn run(sim: Sim, disk: RamDisk, calls: u64, ledger: Ledger, watch: Watch) {
    let (body, _) = bytefs::mount(&sim, &disk, strict()).await.unwrap();
    watch.set(&body);
    let vfs = vfs(&sim, body, cache(false));
    for dir in ["/one", "/other"] {
        root(&vfs).mkdir(dir.as_bytes(), 0o755).await.unwrap();
    }
    let tasks = (0..TASKS).map(|task| {
        let (process, ledger) = (root(&vfs), Rc::clone(&ledger));
        sim.spawn(work(process, task, calls, ledger))
    });
    sim::join_all(tasks.collect()).await;
}

fn judge(left: Contents, ledger: &BTreeMap<String, Option<bool>>, outside: bool) {
    let kernel = Kernel::new();
    let (sim, known) = (kernel.sim(), ledger.clone());
    let disk = holding(&sim, left);
    let kept = disk.clone();
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, strict()).await;
        let process = root(&vfs);
        for (path, there) in known {
            let flags = OpenFlags::PATH | OpenFlags::NO_FOLLOW;
            let found = match process.open(path.as_bytes(), flags, 0).await {
                Ok(_) => true,
                Err(Errno::ENOENT) => false,
                Err(errno) => panic!("{path}: {errno}"),
            };
            assert!(there.is_none_or(|there| there == found), "{path}: {found}");
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_sound(&kept.to_image(), outside);
}

/// Runs all with a cut after one in `every` events; gives what was met.
fn explore(calls: u64, every: u64) -> Metrics {
    let kernel = Kernel::new();
    let disk = holding(&kernel.sim(), small());
    let (ledger, watch) = (Ledger::default(), Watch::default());
    let (sim, kept, seen) = (kernel.sim(), disk.clone(), Rc::clone(&ledger));
    let started = run(sim, disk, calls, seen, watch.clone());
    kernel.sim().spawn_detached(started);
    let mut rng = Seed(calls).stream("cuts");
    let (mut events, mut met) = (0, Metrics::default());
    while kernel.step() {
        met = watch.look();
        events += 1;
        if events % every == 0 {
            let outside = events % (100 * every) == 0;
            judge(kept.after_cut(&mut rng), &ledger.borrow(), outside);
        }
    }
    let known = ledger.borrow().values().filter(|t| t.is_some()).count();
    assert!(known as u64 >= TASKS * calls, "somebody waits for ever");
    met
}

#[test]
fn calls_that_have_returned_are_there_after_a_cut() {
    explore(6, 3);
    let met = explore(40, 37);
    println!("{met:?}");
    assert!(met.joins > 20, "{met:?}");
    // Of those that met in a directory many shared a commit: there were as many calls.
    assert!(met.commits < TASKS * 70, "{met:?}");
}
