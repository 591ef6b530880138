//! Images that somebody has tampered with: an error or some answer, never a panic, and
//! always an end.

use crate::bench::{cache, made, with_root};
use host::RamDisk;
use lfs::{BLOCK, MkfsOptions, MountOptions, check, mount};
use sim::{Kernel, Rng, Seed};
use std::sync::OnceLock;
use vfs::model::Tree;
use vfs::{Access, Clock, Compute, OpenFlags, Process, Source, Vfs, XattrFlags};

/// An image with some of everything, and the blocks of it that are not zeros.
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

/// Mounts an image, reads all of it, writes to it, and asks the checker.
fn survive(image: &[u8]) {
    let _ = check(image);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let disk = RamDisk::from_image(&sim, image);
    kernel.block_on(async move {
        let Ok((body, _)) = mount(&sim, &disk, MountOptions::default()).await else {
            return;
        };
        let (clock, compute) = (Clock::default(), Compute::unlimited());
        let vfs = Vfs::mount(&sim, body, cache(true), clock, compute);
        let process = Process::new(&vfs, Access::root());
        let _ = Tree::read(&process).await;
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        for path in [&b"/new"[..], b"/d/1", b"/d/77"] {
            if let Ok(fd) = process.open(path, flags, 0o600).await {
                let source = Source::Fill {
                    pattern: 1,
                    len: 9_000,
                };
                let _ = process.pwrite(fd, 0, source).await;
                let _ = process.ftruncate(fd, 100).await;
                let _ = process.fsync(fd).await;
                let _ = process.close(fd).await;
            }
        }
        for path in [&b"/d/3"[..], b"/d/200", b"/link"] {
            let _ = process.unlink(path).await;
        }
        let _ = process.sync().await;
        process.exit().await;
        let _ = vfs.unmount().await;
    });
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
fn tampering_is_no_reason_to_panic_or_to_hang() {
    let (whole, used) = image();
    for seed in 0..120 {
        let mut rng = Seed(seed).stream("tampering");
        let mut image = whole.clone();
        for _ in 0..1 + rng.below(6) {
            tamper(&mut image, used, &mut rng);
        }
        survive(&image);
    }
}

/// The superblock has no sum, so all of it is looked at.
#[test]
fn every_field_of_the_superblock_may_say_anything() {
    let (whole, _) = image();
    for at in (0..108).step_by(4) {
        for value in [0_u32, 1, 7, 0x7FFF_FFFF, u32::MAX] {
            let mut image = whole.clone();
            for copy in [1024, BLOCK + 1024] {
                image[copy + at..copy + at + 4].copy_from_slice(&value.to_le_bytes());
            }
            // Numbers that nothing follows from may say what they like.
            let said = check(&image[..]);
            let matters = (44..108).contains(&at) && at != 48 && image != *whole;
            assert!(!said.is_empty() || !matters, "field at {at} as {value:#x}");
            survive(&image);
        }
    }
}
