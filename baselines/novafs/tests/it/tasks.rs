//! Concurrent tasks on several cores.

use crate::bench::{Fs, mounted, new_image};
use host::RamDisk;
use novafs::check;
use sim::{Kernel, Seed, Sim};
use std::cell::Cell;
use std::rc::Rc;
use vfs::{Access, OpenFlags, PAGE, Process, RenameFlags, Source, Vfs};

const TASKS: u64 = 8;
const FILES: u64 = 30;

/// Number of durable files of each task.
type Done = Rc<[Cell<u64>; TASKS as usize]>;

fn fill(pattern: u64, len: u64) -> Source<'static> {
    Source::Fill { pattern, len }
}

fn pattern(task: u64, n: u64) -> u64 {
    (task * 1_000 + n + 1) * 0x0001_0001_0001_0001
}

/// Creates files in a shared directory, renames them across directories, writes its own pages of a
/// shared file, and creates and removes other files meanwhile.
async fn work(vfs: Vfs<Fs>, task: u64, done: Done) {
    let p = Process::new(&vfs, Access::root());
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let shared = p.open(b"/shared", flags, 0o600).await.unwrap();
    for n in 0..FILES {
        let (one, two) = (format!("/one/{task}-{n}"), format!("/two/{task}-{n}"));
        let fd = p.open(one.as_bytes(), flags, 0o600).await.unwrap();
        p.pwrite(fd, 0, fill(pattern(task, n), 100)).await.unwrap();
        p.close(fd).await.unwrap();
        let at = (n * TASKS + task) * PAGE;
        let written = p.pwrite(shared, at, fill(pattern(task, n), PAGE)).await;
        assert_eq!(written, Ok(PAGE));
        let flags = RenameFlags::default();
        p.rename(one.as_bytes(), two.as_bytes(), flags)
            .await
            .unwrap();
        let passing = format!("/one/passing {task}").into_bytes();
        p.mkdir(&passing, 0o700).await.unwrap();
        p.rmdir(&passing).await.unwrap();
        done[task as usize].set(n + 1);
    }
    p.exit().await;
}

async fn all(sim: Sim, disk: RamDisk, done: Done) {
    let vfs = mounted(&sim, disk, false).await;
    let p = Process::new(&vfs, Access::root());
    p.mkdir(b"/one", 0o700).await.unwrap();
    p.mkdir(b"/two", 0o700).await.unwrap();
    let tasks = (0..TASKS).map(|task| sim.spawn(work(vfs.clone(), task, Rc::clone(&done))));
    sim::join_all(tasks.collect()).await;
    p.exit().await;
    vfs.unmount().await.unwrap();
    vfs.check();
}

/// Checks that all durable files are there.
async fn look(sim: Sim, disk: RamDisk, counts: Vec<u64>) {
    let vfs = mounted(&sim, disk, false).await;
    let p = Process::new(&vfs, Access::root());
    for (task, count) in (0..).zip(counts) {
        for n in 0..count {
            let path = format!("/two/{task}-{n}");
            let fd = p.open(path.as_bytes(), OpenFlags::READ, 0).await;
            let bytes = p.read_bytes(fd.unwrap(), 0, 200).await.unwrap();
            let expected = pattern(task, n).to_le_bytes().repeat(13);
            assert_eq!(bytes, expected[..100], "{path}");
            let fd = p.open(b"/shared", OpenFlags::READ, 0).await.unwrap();
            let at = (n * TASKS + task) * PAGE;
            let bytes = p.read_bytes(fd, at, PAGE as usize).await.unwrap();
            assert_eq!(bytes, pattern(task, n).to_le_bytes().repeat(512), "{path}");
        }
    }
    p.exit().await;
    vfs.unmount().await.unwrap();
}

fn counts(done: &Done) -> Vec<u64> {
    done.iter().map(Cell::get).collect()
}

#[test]
fn tasks_do_not_disturb_each_other_and_survive_cuts() {
    for cores in [1, 3, 8] {
        let image = new_image(2_048, cores);
        let kernel = Kernel::new();
        let disk = RamDisk::from_image(&kernel.sim(), &image);
        let done = Done::default();
        let task = all(kernel.sim(), disk.clone(), Rc::clone(&done));
        let over = Rc::new(Cell::new(false));
        let is_over = Rc::clone(&over);
        kernel.sim().spawn_detached(async move {
            task.await;
            is_over.set(true);
        });
        let mut rng = Seed(u64::from(cores)).stream("cuts");
        let (mut events, mut cuts) = (0, 0);
        while !over.get() {
            assert!(kernel.step());
            events += 1;
            if events % 61 > 0 {
                continue;
            }
            cuts += 1;
            let other = Kernel::new();
            let left = disk.after_cut(&mut rng);
            let left = RamDisk::holding(&other.sim(), disk.size(), left);
            let (port, sim) = (left.clone(), other.sim());
            other.block_on(look(sim, port, counts(&done)));
            assert_eq!(check(&left.to_image()[..]), [], "{cores} cores, cut {cuts}");
        }
        assert!(cuts > 50, "{cuts}");
        assert_eq!(counts(&done), [FILES; TASKS as usize]);
        assert_eq!(check(&disk.to_image()[..]), []);
    }
}
