//! Reports of refused allocations: the limit and the holders of the space.

use extfs::ext4::{self, Options};
use extfs::jbd2::Jbd2;
use extfs::{ExtFs, MkfsOptions};
use host::RamDisk;
use sim::{Kernel, Sim};
use units::{Bytes, NoSpace, Ns};
use vfs::{
    Access, Body, CacheConfig, Clock, Compute, Errno, OpenFlags, Process, Source, Vfs, XattrFlags,
};

const BLOCKS: u64 = 4_096;
const JOURNAL: u64 = 1_024;
/// Blocks kept for metadata (a fiftieth) and for root (a twentieth).
const SLACK: u64 = BLOCKS / 50;
const RESERVED: u64 = BLOCKS / 20;
const MAKE: OpenFlags = OpenFlags::CREAT;

type Fs = ExtFs<Jbd2>;

/// The last refusal; asserts that its holders account for all of the limit.
fn last(vfs: &Vfs<Fs>) -> NoSpace {
    let refusals = vfs.body().refusals();
    let why = refusals.last().expect("one was refused").clone();
    let held: u64 = why.held_by.iter().map(|holder| holder.amount).sum();
    assert_eq!(held + why.free, why.total, "{why}");
    assert!(why.asked > why.free - why.reserve, "{why}");
    why
}

fn times(vfs: &Vfs<Fs>) -> Vec<(&'static str, u64)> {
    let refusals = vfs.body().refusals();
    let met = refusals.met().iter();
    met.map(|met| (met.first.limit, met.times)).collect()
}

/// Runs `work` on a new file system with a process of root and one of another user.
fn run<W: Future<Output = ()> + 'static>(
    work: impl FnOnce(Sim, Process<Fs>, Process<Fs>) -> W + 'static,
) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let disk = RamDisk::new(&sim, Bytes(BLOCKS * 4_096));
        let layout = MkfsOptions {
            journal_blocks: Some(JOURNAL as u32),
            ..MkfsOptions::new(BLOCKS)
        };
        ext4::format(&disk, &layout).await.unwrap();
        let (body, _) = ext4::mount(&sim, &disk, Options::default()).await.unwrap();
        let (config, clock) = (CacheConfig::default(), Clock::default());
        let vfs = Vfs::mount(&sim, body, config, clock, Compute::unlimited());
        let root = Process::new(&vfs, Access::root());
        root.chmod(b"/", 0o777).await.unwrap();
        let (uid, gid, groups) = (1_000, 1_000, Vec::new());
        let user = Process::new(&vfs, Access { uid, gid, groups });
        work(sim, root, user).await;
    });
}

/// Writes to a new file until a write is refused; returns the blocks written.
async fn fill(process: &Process<Fs>, path: &[u8]) -> u64 {
    let fd = process.open(path, MAKE, 0o600).await.unwrap();
    let mut end = 0;
    loop {
        let (pattern, len) = (1, 65_536);
        match process.pwrite(fd, end, Source::Fill { pattern, len }).await {
            Ok(len) => end += len,
            Err(error) => break assert_eq!(error, Errno::ENOSPC),
        }
    }
    process.close(fd).await.unwrap();
    end / 4_096
}

#[test]
fn refusal_of_blocks_names_reserves_and_holders() {
    run(async move |sim, root, user| {
        let vfs = user.vfs();
        assert_eq!(times(vfs), []);
        let begin = sim.now();
        let filled = fill(&user, b"/user").await;
        let why = last(vfs);
        assert_eq!((why.limit, why.total), ("blocks", BLOCKS));
        assert_eq!(why.reserve, SLACK + RESERVED);
        assert_eq!(why.held_by("the journal"), JOURNAL);
        // No page has been written back yet.
        assert!(why.held_by("pages that are not written back") > filled - 16);
        let first = vfs.body().refusals().met()[0].first_at;
        assert!(begin < first && first <= sim.now());
        vfs.sync().await.unwrap();
        // A refusal at another limit comes in between, so that the next one is recorded anew.
        let (large, any) = (vec![1; 5_000], XattrFlags::Any);
        let set = root.set_xattr(b"/user", b"user.large", &large, any).await;
        assert_eq!(set, Err(Errno::ENOSPC));
        let why = last(vfs);
        assert_eq!(why.limit, "bytes of a block of attributes");
        assert!(why.asked > 5_000 && why.free < 4_096);
        assert_eq!(user.mkdir(b"/d", 0o700).await, Err(Errno::ENOSPC));
        let why = last(vfs);
        assert_eq!((why.asked, why.reserve), (1, SLACK + RESERVED));
        assert!(why.held_by("files and directories") >= filled);
        let (metadata, stat) = ("bitmaps, inode tables and superblocks", vfs.statfs().await);
        assert_eq!(why.held_by(metadata), BLOCKS - stat.unwrap().blocks);
        fill(&root, b"/root").await;
        assert_eq!(times(vfs)[0].0, "blocks");
        assert_eq!(times(vfs)[1], ("bytes of a block of attributes", 1));
    });
}

#[test]
fn refusal_of_an_inode_names_limit_and_holders() {
    run(async move |_, root, _| {
        let vfs = root.vfs();
        for dir in 0..3 {
            let made = root.mkdir(format!("/{dir}").as_bytes(), 0o700).await;
            made.unwrap();
        }
        let free = vfs.statfs().await.unwrap().files_free;
        for number in 0..free {
            let path = format!("/f{number}");
            let fd = root.open(path.as_bytes(), MAKE, 0o600).await.unwrap();
            root.close(fd).await.unwrap();
        }
        let refused = root.open(b"/more", MAKE, 0o600).await;
        assert_eq!(refused.err(), Some(Errno::ENOSPC));
        let why = last(vfs);
        assert_eq!((why.limit, why.asked, why.free), ("inodes", 1, 0));
        assert_eq!(why.total, vfs.statfs().await.unwrap().files);
        // The root, lost+found, and three.
        assert_eq!(why.held_by("directories"), 5);
        assert_eq!(times(vfs), [("inodes", 1)]);
    });
}

/// Freed blocks are available once their transaction is durable: no call is refused.
#[test]
fn allocation_that_succeeds_on_retry_is_no_refusal() {
    run(async move |sim, root, _| {
        let vfs = root.vfs();
        let half = (BLOCKS - JOURNAL) / 2 * 4_096;
        for round in 0..3 {
            let path = format!("/{round}");
            let fd = root.open(path.as_bytes(), MAKE, 0o600).await.unwrap();
            let bytes = Source::Fill {
                pattern: round,
                len: half,
            };
            assert_eq!(root.pwrite(fd, 0, bytes).await, Ok(half));
            root.close(fd).await.unwrap();
            // The file is written back, and not forced.
            sim.sleep(Ns::secs(36)).await;
            root.unlink(path.as_bytes()).await.unwrap();
        }
        vfs.sync().await.unwrap();
        assert_eq!(times(vfs), []);
    });
}
