//! Output of the inspector, compared with that of btrfs-progs for the same image.

use crate::bench::{made, with_root};
use crate::tools::{has, run, save};
use cowfs::{Inspector, MkfsOptions, MountOptions, ROOT};
use vfs::{FallocateMode, OpenFlags, PAGE, Source};

/// An image with a file of 16 pages (two overwritten, one punched) and two preallocated pages
/// behind them, an inline file, a directory and a link.
fn image() -> Vec<u8> {
    let image = made(&MkfsOptions::new(10_240));
    with_root(&image, MountOptions::default(), async |p| {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fill = |pattern, len| Source::Fill { pattern, len };
        let file = p.open(b"/file", flags, 0o640).await.unwrap();
        p.pwrite(file, 0, fill(1, 16 * PAGE)).await.unwrap();
        p.fsync(file).await.unwrap();
        for page in [3, 7] {
            p.pwrite(file, page * PAGE, fill(2, PAGE)).await.unwrap();
            p.fsync(file).await.unwrap();
        }
        p.fallocate(file, FallocateMode::Punch, 12 * PAGE, PAGE)
            .await
            .unwrap();
        let mode = FallocateMode::Allocate { keep_size: false };
        p.fallocate(file, mode, 16 * PAGE, 2 * PAGE).await.unwrap();
        let small = p.open(b"/small", flags, 0o600).await.unwrap();
        p.pwrite(small, 0, fill(3, 100)).await.unwrap();
        p.mkdir(b"/dir", 0o700).await.unwrap();
        p.symlink(b"file", b"/link").await.unwrap();
    })
}

#[test]
fn inspector_lists_the_pieces_of_a_file_in_order() {
    let image = image();
    let mut inspector = Inspector::new(&image[..]).unwrap();
    let said = inspector.extents(ROOT + 1).unwrap();
    let spans: Vec<&str> = said.lines().map(|l| l.split(' ').next().unwrap()).collect();
    let pages = [0..3, 3..4, 4..7, 7..8, 8..12, 13..16, 16..18];
    let wanted: Vec<String> = pages
        .iter()
        .map(|p| format!("{}..{}", p.start * PAGE, p.end * PAGE))
        .collect();
    assert_eq!(spans[..7], wanted, "{said}");
    assert!(said.ends_with("7 pieces of 4 extents\n"), "{said}");
    assert_eq!(said.matches("unwritten").count(), 1, "{said}");
    // The overwritten page 7 lies at the address printed.
    let line = said.lines().nth(3).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let at: usize = words[2].parse().unwrap();
    assert_eq!(image[at..at + 8], 2_u64.to_le_bytes(), "{line}");
    let small = inspector.extents(ROOT + 2).unwrap();
    assert!(small.starts_with("0..100 in the item\n1 pieces"), "{small}");
    assert_eq!(inspector.extents(ROOT), None);
    assert_eq!(inspector.extents(4_000), None);
    assert_eq!(inspector.findings(), []);
}

#[test]
fn inspector_prints_names_inodes_and_chunks() {
    let image = image();
    let mut inspector = Inspector::new(&image[..]).unwrap();
    let names = inspector.directory(ROOT).unwrap();
    for (name, what) in [("file", "file"), ("dir", "directory"), ("link", "link")] {
        assert!(
            names.contains(&format!("{name:?}: {what}, inode")),
            "{names}"
        );
    }
    assert_eq!(inspector.directory(ROOT + 1), None);
    let inode = inspector.inode(ROOT + 1).unwrap();
    for line in ["file", "size 73728", "links 1", "mode 100640", "pieces 7"] {
        assert!(
            inode.lines().any(|l| l == line),
            "{line:?} is not in {inode}"
        );
    }
    let groups = inspector.groups();
    for what in [": data, at", ": metadata, at", ": system, at"] {
        assert!(groups.contains(what), "{groups}");
    }
    assert!(inspector.superblock().contains("tree 5 (files): root"));
}

#[test]
fn inspector_counts_as_many_pieces_as_btrfs_progs() {
    if !has("btrfs") {
        return;
    }
    let image = image();
    let dir = tempfile::tempdir().unwrap();
    let path = save(dir.path(), "image", &image);
    let dump = [
        "inspect-internal",
        "dump-tree",
        "-t",
        "5",
        path.to_str().unwrap(),
    ];
    let (content, said) = run("btrfs", &dump);
    assert!(content, "{said}");
    let item = format!("key ({} EXTENT_DATA ", ROOT + 1);
    let theirs = said.matches(&item);
    let mut inspector = Inspector::new(&image[..]).unwrap();
    let ours = inspector.extents(ROOT + 1).unwrap();
    assert_eq!(theirs.count(), ours.lines().count() - 1, "{said}\n{ours}");
}
