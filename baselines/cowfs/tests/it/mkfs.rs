//! New file systems, verified by btrfs-progs and by the kernel.

use crate::bench::{judge, made, with_root};
use crate::tools::{assert_clean, can_mount, has, in_kernel, run, save};
use cowfs::{MkfsOptions, MountOptions};
use vfs::{OpenFlags, Source};

fn options(blocks: u64, dup: bool) -> MkfsOptions {
    MkfsOptions {
        dup,
        label: "a label".to_owned(),
        ..MkfsOptions::new(blocks)
    }
}

#[test]
fn new_image_passes_btrfs_check() {
    if !has("btrfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (blocks, dup) in [
        (10_240, false),
        (10_240, true),
        (40_000, true),
        (262_144, false),
    ] {
        let path = save(dir.path(), "image", &made(&options(blocks, dup)));
        assert_clean(&path);
        let path = path.to_str().unwrap();
        let (_, said) = run("btrfs", &["inspect-internal", "dump-super", "-f", path]);
        for wanted in ["[match]", "a label", "MIXED_BACKREF", "NO_HOLES"] {
            assert!(said.contains(wanted), "{said}");
        }
    }
}

/// The kernel writes to an image of [`cowfs::mkfs`], cowfs reads and changes it, and the kernel
/// reads it again.
#[test]
fn image_written_by_kernel_and_cowfs_in_turn_stays_sound() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = save(dir.path(), "image", &made(&options(65_536, false)));
    let script = "mkdir d && yes line | head -c 3000000 > d/file && echo short > d/inline \
                  && ln d/file d/other && ln -s d/inline link && setfattr -n user.a -v b d/file; sync";
    in_kernel(dir.path(), &path, "nospace_cache", script);
    assert_clean(&path);
    let image = std::fs::read(&path).unwrap();
    let image = with_root(&image, MountOptions::default(), async |p| {
        let fd = p.open(b"/d/file", OpenFlags::BOTH, 0).await.unwrap();
        let bytes = p.read_bytes(fd, 0, 3_000_000).await.unwrap();
        assert!(bytes.chunks(5).all(|line| b"line\n".starts_with(line)));
        let source = Source::Bytes(b"ours");
        p.pwrite(fd, 1_000_000, source).await.unwrap();
        p.fsync(fd).await.unwrap();
        p.close(fd).await.unwrap();
        let fd = p.open(b"/link", OpenFlags::READ, 0).await.unwrap();
        assert_eq!(p.read_bytes(fd, 0, 99).await.unwrap(), b"short\n");
        p.close(fd).await.unwrap();
        p.unlink(b"/d/inline").await.unwrap();
    });
    judge(&image);
    let path = save(dir.path(), "image", &image);
    let script = "ls d; stat -c %h d/file; dd if=d/other bs=1 skip=1000000 count=4 2>/dev/null";
    let said = in_kernel(dir.path(), &path, "ro", script);
    assert_eq!(said, "file\nother\n2\nours");
}
