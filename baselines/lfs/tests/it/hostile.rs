//! Corrupted images: each call ends with an error or some answer, never with a panic.

use crate::bench::{Fs, cache, made, with_root};
use host::{Image, RamDisk};
use lfs::{BLOCK, MkfsOptions, MountOptions, check, mount};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Sim};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;
use units::{Bytes, Ns};
use vfs::model::endure;
use vfs::{Access, Clock, Compute, OpenFlags, Process, Source, Vfs, XattrFlags};

/// An image with files, a directory, a link and an attribute, and its blocks that are not zeros.
fn image() -> &'static (Vec<u8>, Vec<usize>) {
    static IMAGE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let image = with_root(&made(&MkfsOptions::new(13_312)), async |p| {
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            p.mkdir(b"/d", 0o700).await.unwrap();
            for n in 0..300_u64 {
                let path = format!("/d/{n}");
                let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
                let source = Source::Fill {
                    pattern: n,
                    len: 1 + n * 40,
                };
                p.pwrite(fd, n % 7 * 1_000_000, source).await.unwrap();
                p.close(fd).await.unwrap();
            }
            p.symlink(b"d", b"/link").await.unwrap();
            let any = XattrFlags::Any;
            p.set_xattr(b"/d/1", b"user.a", &[1; 900], any)
                .await
                .unwrap();
        });
        let blocks = image.chunks(BLOCK).enumerate();
        let used = blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0));
        let used = used.map(|(at, _)| at).collect();
        (image, used)
    })
}

/// An image of `.1` blocks, with blocks that the map lacks as zeros.
struct Blocks<'a>(&'a BTreeMap<u64, Payload>, u64);

impl Image for Blocks<'_> {
    fn blocks(&self) -> u64 {
        self.1
    }

    fn read(&self, block: u64, out: &mut lfs::Block) -> bool {
        let found = self.0.get(&block).unwrap_or(&Payload::Zero);
        block < self.1 && found.copy_to(0, out)
    }
}

/// Limit of simulation events per image, to detect endless loops; some thousands are usual.
const STEPS: u64 = 3_000_000;

/// Checks an image, mounts it, reads all of it, and changes it.
pub(crate) fn survive(contents: BTreeMap<u64, Payload>, blocks: u64) {
    let _ = check(&Blocks(&contents, blocks));
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::holding(&sim, Bytes(blocks * BLOCK as u64), contents);
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    sim.clone().spawn_detached(async move {
        // Short, so that cleaning and checkpoints run in each gap between two calls.
        let options = MountOptions {
            interval: Ns(5_000),
            cleaning: Ns(600),
            ..MountOptions::default()
        };
        if let Ok((body, _)) = mount(&sim, &disk, options).await {
            use_all(&sim, body).await;
        }
        ended.set(true);
    });
    while !done.get() && kernel.step() {
        assert!(kernel.sim().events() < STEPS, "it does not end");
    }
    assert!(done.get(), "it came to rest before its end");
}

/// Walks, reads and changes the mounted file system, before and after background cleaning.
async fn use_all(sim: &Sim, body: Fs) {
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    let vfs = Vfs::mount(sim, body, cache(true), clock, compute);
    let process = Process::new(&vfs, Access::root());
    endure(&process).await;
    // Long enough for cleaning in the background.
    sim.sleep(Ns(30_000)).await;
    endure(&process).await;
    process.exit().await;
    let _ = vfs.unmount().await;
}

/// Survival check of an image given as bytes.
fn survive_bytes(image: &[u8]) {
    let kernel = Kernel::new();
    let disk = RamDisk::from_image(&kernel.sim(), image);
    let contents = disk.after_cut(&mut Seed(0).stream("nothing is on its way"));
    survive(contents, (image.len() / BLOCK) as u64);
}

fn tamper(image: &mut [u8], used: &[usize], rng: &mut Rng) {
    let block = used[rng.below(used.len() as u64) as usize] * BLOCK;
    let at = block + rng.below(BLOCK as u64) as usize;
    match rng.below(4) {
        0 => image[at] ^= 1 << rng.below(8),
        1 => image[at] = 0xFF,
        2 => {
            let end = (at + 8).min(block + BLOCK);
            image[at..end].fill(rng.below(256) as u8);
        }
        _ => {
            let other = used[rng.below(used.len() as u64) as usize] * BLOCK;
            image.copy_within(other..other + BLOCK, block);
        }
    }
}

#[test]
fn tampered_image_neither_panics_nor_hangs() {
    let (whole, used) = image();
    for seed in 0..120 {
        let mut rng = Seed(seed).stream("tampering");
        let mut image = whole.clone();
        for _ in 0..1 + rng.below(6) {
            tamper(&mut image, used, &mut rng);
        }
        survive_bytes(&image);
    }
}

/// The superblock has no checksum, so the mount has to validate each field.
#[test]
fn superblock_with_any_changed_field_is_reported_and_never_panics() {
    let (whole, _) = image();
    for at in (0..108).step_by(4) {
        for value in [0_u32, 1, 7, 0x7FFF_FFFF, u32::MAX] {
            let mut image = whole.clone();
            for copy in [1024, BLOCK + 1024] {
                image[copy + at..copy + at + 4].copy_from_slice(&value.to_le_bytes());
            }
            // The checker has to report only fields that the layout depends on.
            let said = check(&image[..]);
            let matters = (44..108).contains(&at) && at != 48 && image != *whole;
            assert!(!said.is_empty() || !matters, "field at {at} as {value:#x}");
            survive_bytes(&image);
        }
    }
}
