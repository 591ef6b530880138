//! New file systems, checked by e2fsprogs.

use crate::tools;
use extfs::{MkfsError, MkfsOptions, mkfs};
use std::process::Command;

fn sizes() -> Vec<u64> {
    let mib = |n: u64| n * 256;
    vec![
        mib(1),
        mib(8),
        mib(9) + 7,
        mib(64),
        mib(128),
        mib(128) + 40,
        mib(128) + 1000,
        mib(300),
        mib(1024) + 77,
        mib(8192),
        mib(100_000) + 13,
    ]
}

#[test]
fn new_file_systems_of_all_sizes_are_accepted_by_e2fsprogs() {
    if !tools::has("e2fsck") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for blocks in sizes() {
        for (inode_size, bytes_per_inode) in [(128, 16384), (256, 16384), (256, 1024)] {
            let options = MkfsOptions {
                label: "loom".into(),
                inode_size,
                bytes_per_inode,
                ..MkfsOptions::new(blocks)
            };
            let image = tools::save_blocks(dir.path(), "image", &mkfs(&options).unwrap(), blocks);
            println!("{blocks} blocks, an inode of {inode_size} for {bytes_per_inode} bytes");
            tools::assert_clean(&image);
            let output = tools::run(Command::new("dumpe2fs").arg("-h").arg(&image));
            let text = tools::text(&output);
            assert!(text.contains("Filesystem volume name:   loom"), "{text}");
            assert!(text.contains("metadata_csum"), "{text}");
        }
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let with = |change: fn(&mut MkfsOptions)| {
        let mut options = MkfsOptions::new(4096);
        change(&mut options);
        mkfs(&options).err()
    };
    assert_eq!(with(|o| o.blocks = 10), Some(MkfsError::TooSmall(10)));
    assert_eq!(
        with(|o| o.inode_size = 512),
        Some(MkfsError::InodeSize(512))
    );
    assert_eq!(
        with(|o| o.journal_blocks = Some(9)),
        Some(MkfsError::Journal(9))
    );
    assert_eq!(with(|o| o.flex_groups = 3), Some(MkfsError::Flex(3)));
    assert_eq!(
        with(|o| o.bytes_per_inode = 1),
        Some(MkfsError::InodeRatio(1))
    );
    assert_eq!(with(|o| o.label = "x".repeat(17)), Some(MkfsError::Label));
    assert_eq!(
        with(|o| o.reserved_percent = 51),
        Some(MkfsError::Reserved(51))
    );
    assert_eq!(with(|_| ()), None);
}
