//! The body over the journal, cut now and then, and judged by e2fsck.

use super::judge::ask;
use super::*;
use crate::MkfsOptions;
use crate::ext4::{self, Options};
use sim::{Kernel, Rng, Seed};
use vfs::{
    Access, Body, CacheConfig, Clock, Compute, OpenFlags, Process, RenameFlags, Source, Vfs,
};

const BLOCKS: u64 = 8192;

/// A name that was drawn may not be there.
fn unless_missing(done: Result<()>) {
    assert!(matches!(done, Ok(()) | Err(Errno::ENOENT)), "{done:?}");
}

/// Makes, fills, renames and removes files until `rounds` are over.
async fn client<B: Body>(process: Process<B>, mut rng: Rng, rounds: u64) {
    for dir in [&b"/d"[..], b"/e"] {
        process.mkdir(dir, 0o755).await.unwrap();
    }
    for _ in 0..rounds {
        let name = |rng: &mut Rng| {
            let dir = ["/", "/d/", "/e/"][rng.below(3) as usize];
            format!("{dir}{}-{:060}", rng.below(40), 0).into_bytes()
        };
        let path = name(&mut rng);
        match rng.below(8) {
            0 => unless_missing(process.unlink(&path).await),
            1 => {
                let to = name(&mut rng);
                unless_missing(process.rename(&path, &to, RenameFlags::default()).await);
            }
            _ => {
                let fd = process.open(&path, OpenFlags::CREAT, 0o644).await.unwrap();
                let source = Source::Fill {
                    pattern: rng.below(1 << 40),
                    len: 1 + rng.below(60_000),
                };
                process.write(fd, source).await.unwrap();
                if rng.below(4) == 0 {
                    process.fsync(fd).await.unwrap();
                }
                process.close(fd).await.unwrap();
            }
        }
    }
    process.sync().await.unwrap();
}

fn options(mode: Mode) -> Options {
    Options {
        mode,
        ..Options::default()
    }
}

/// Mounts what a cut has left, unmounts it, and gives the image.
fn mounted_again(left: BTreeMap<u64, Payload>, mode: Mode) -> Vec<u8> {
    let kernel = Kernel::new();
    let size = Bytes(BLOCKS * BLOCK as u64);
    let disk = host::RamDisk::holding(&kernel.sim(), size, left);
    let (sim, port) = (kernel.sim(), disk.clone());
    kernel.block_on(async move {
        let (body, _) = ext4::mount(&sim, &port, options(mode)).await.unwrap();
        body.unmount().await.unwrap();
    });
    disk.to_image()
}

fn cut_now_and_then(mode: Mode, seed: u64) {
    let kernel = Kernel::new();
    let disk = host::RamDisk::new(&kernel.sim(), Bytes(BLOCKS * BLOCK as u64));
    let mut rng = Seed(seed).stream("cuts");
    let (sim, port) = (kernel.sim(), disk.clone());
    let clients = Seed(seed).stream("client");
    kernel.block_on(async move {
        let plan = MkfsOptions {
            journal_blocks: Some(1024),
            ..MkfsOptions::new(BLOCKS)
        };
        ext4::format(&port, &plan).await.unwrap();
        let (body, _) = ext4::mount(&sim, &port, options(mode)).await.unwrap();
        let cache = CacheConfig::default();
        let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::unlimited());
        let process = Process::new(&vfs, Access::root());
        sim.spawn_detached(client(process, clients, 400));
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut next = 1;
    for event in 0_u64.. {
        if event == next {
            next += next / 3 + rng.below(200);
            let image = mounted_again(disk.after_cut(&mut rng), mode);
            std::fs::write(&path, image).unwrap();
            let Some((code, said)) = ask("e2fsck", &["-fn"], &path) else {
                eprintln!("e2fsprogs is not installed: nobody was asked");
                return;
            };
            assert_eq!(code, 0, "{mode:?}, before event {event}: {said}");
        }
        if !kernel.step() {
            break;
        }
    }
}

#[test]
fn e2fsck_finds_nothing_after_a_cut_in_any_mode() {
    for (seed, mode) in [(1, Mode::Ordered), (2, Mode::Writeback), (3, Mode::Journal)] {
        cut_now_and_then(mode, seed);
    }
}
