//! Commits of changes that no call waits for: by a sync call, by age and by size.

use crate::bench::{Contents, Mounted, holding, mounted, open, root, small, strict};
use bytefs::Options;
use host::RamDisk;
use sim::{Kernel, Seed, Sim};
use units::Ns;
use vfs::{Errno, OpenFlags};

/// Runs `test` on a mount with `options`.
fn over<T: 'static, F: Future<Output = T> + 'static>(
    options: Options,
    test: impl FnOnce(Mounted, RamDisk, Sim) -> F + 'static,
) -> T {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), small()));
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, options).await;
        test(vfs, disk, sim).await
    })
}

fn commits(vfs: &Mounted) -> u64 {
    let metrics = vfs.body().persist().metrics();
    metrics.commits + metrics.single_lines
}

async fn create(vfs: &Mounted, name: &str) {
    open(&root(vfs), name).await;
}

/// Whether the files `names` are there after a power cut that leaves `contents`.
fn there(contents: Contents, names: [&'static str; 2]) -> [bool; 2] {
    let kernel = Kernel::new();
    let (sim, disk) = (kernel.sim(), holding(&kernel.sim(), contents));
    kernel.block_on(async move {
        let vfs = mounted(&sim, &disk, strict()).await;
        let mut found = [false; 2];
        for (found, name) in found.iter_mut().zip(names) {
            let opened = root(&vfs).open(name.as_bytes(), OpenFlags::READ, 0).await;
            *found = opened.is_ok();
            assert!(matches!(opened, Ok(_) | Err(Errno::ENOENT)));
        }
        found
    })
}

#[test]
fn created_files_commit_together_with_the_next_sync_call() {
    over(Options::default(), async |vfs, disk, _| {
        create(&vfs, "/first").await;
        create(&vfs, "/second").await;
        assert_eq!(commits(&vfs), 0);
        let mut rng = Seed(1).stream("cut");
        let names = ["/first", "/second"];
        assert_eq!(there(disk.after_cut(&mut rng), names), [false; 2]);
        let process = root(&vfs);
        let fd = process.open(b"/second", OpenFlags::READ, 0).await.unwrap();
        process.fsync(fd).await.unwrap();
        assert_eq!(commits(&vfs), 1);
        assert_eq!(there(disk.after_cut(&mut rng), names), [true; 2]);
    });
}

#[test]
fn strict_call_commits_before_it_returns() {
    over(strict(), async |vfs, disk, _| {
        create(&vfs, "/first").await;
        assert_eq!(commits(&vfs), 1);
        let left = disk.after_cut(&mut Seed(1).stream("cut"));
        assert_eq!(there(left, ["/first", "/second"]), [true, false]);
    });
}

#[test]
fn change_commits_at_its_age_without_a_sync_call() {
    let options = Options {
        commit_interval: Ns::ms(20),
        ..Options::default()
    };
    over(options, async |vfs, _, sim| {
        create(&vfs, "/first").await;
        sim.sleep(Ns::ms(19)).await;
        assert_eq!(commits(&vfs), 0);
        sim.sleep(Ns::ms(2)).await;
        assert_eq!(commits(&vfs), 1);
        sim.sleep(Ns::ms(100)).await;
        assert_eq!(commits(&vfs), 1, "nothing is left");
    });
}

#[test]
fn changes_commit_when_they_take_a_quarter_of_the_lines() {
    let options = Options {
        open_lines: 5_056,
        ..Options::default()
    };
    over(options, async |vfs, _, sim| {
        for number in 0..800 {
            create(&vfs, &format!("/file {number}")).await;
        }
        // Commits run in tasks of their own.
        sim.sleep(Ns::ms(1)).await;
        let commits = commits(&vfs);
        assert!((1..10).contains(&commits), "{commits}");
    });
}
