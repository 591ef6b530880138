//! Names, numbers and attributes.

use super::bench::{APPEND, CNV, MOST, SEQUENTIAL, Shown, config, told};
use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::statvfs::statvfs;
use nix::sys::time::TimeSpec;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use zonefs::{Options, Superblock};

fn names(path: &std::path::Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(path).expect("it can be listed");
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let ino = std::os::unix::fs::DirEntryExt::ino(&entry);
        (entry.file_name().to_string_lossy().into_owned(), ino)
    };
    entries.map(entry).collect()
}

//= zonefs 2
#[test]
fn names_numbers_and_sizes_are_those_of_linux() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    // There are ten zones: the root has the next number, then come the directories.
    let dirs = [("cnv".to_owned(), 11), ("seq".to_owned(), 12)];
    assert_eq!(names(&shown.root()), dirs);
    let of = |from: u64, count: u64| -> Vec<_> {
        (0..count).map(|n| (n.to_string(), from + n)).collect()
    };
    assert_eq!(names(&shown.path("cnv")), of(1, 2));
    assert_eq!(names(&shown.path("seq")), of(3, SEQUENTIAL));
    for (name, ino, size, mode, links) in [
        ("", 10, 4, 0o40_555, 4),
        ("cnv", 11, 2, 0o40_555, 2),
        ("seq", 12, SEQUENTIAL, 0o40_555, 2),
        ("cnv/1", 2, CNV, 0o100_640, 1),
        ("seq/0", 3, 0, 0o100_640, 1),
    ] {
        let found = fs::metadata(shown.path(name)).expect("it is there");
        assert_eq!((found.ino(), found.size()), (ino, size), "{name}");
        assert_eq!((found.mode(), found.nlink()), (mode, links), "{name}");
        assert_eq!(found.blksize(), 4096);
    }
    let blocks = |name: &str| fs::metadata(shown.path(name)).expect("there").blocks();
    assert_eq!((blocks("cnv/0"), blocks("seq/6")), (CNV / 512, MOST / 512));
    let space = statvfs(&shown.root()).expect("it is told");
    let all = (2 * CNV + SEQUENTIAL * MOST) / 4096;
    assert_eq!((space.blocks(), space.files()), (all, SEQUENTIAL + 2 + 2));
    assert_eq!(space.blocks_free(), SEQUENTIAL * MOST / 4096);
    assert_eq!((space.block_size(), space.name_max()), (4096, 16));
}

#[test]
fn superblock_sets_owner_mode_and_aggregation() {
    if !judges::has_fuse() {
        return;
    }
    let superblock = Superblock {
        aggregates: true,
        uid: 1000,
        gid: 2000,
        perm: 0o770,
        ..Superblock::default()
    };
    let shown = Shown::made(&config(), &superblock, Options::default());
    assert_eq!(names(&shown.path("cnv")), [("0".to_owned(), 1)]);
    let found = fs::metadata(shown.path("cnv/0")).expect("it is there");
    assert_eq!((found.size(), found.blocks()), (2 * CNV, 2 * CNV / 512));
    assert_eq!((found.uid(), found.gid()), (1000, 2000));
    assert_eq!(found.mode(), 0o100_770);
    // A drive without conventional zones has no directory for them.
    let mut config = config();
    config.zones.as_mut().expect("zones").conventional = 0;
    config.capacity.0 = 10 * MOST;
    let shown = Shown::made(&config, &Superblock::default(), Options::default());
    assert_eq!(names(&shown.root()), [("seq".to_owned(), 12)]);
    assert_eq!(shown.size(""), 3);
    assert_eq!(names(&shown.path("seq")).len(), 9);
    assert!(!shown.path("cnv").exists());
}

#[test]
fn creation_removal_and_renames_are_refused() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let seq = |name: &str| shown.path("seq").join(name);
    for name in ["7", "x", "00", "01", "-1", "+1", "", "0x0"] {
        let there = !name.is_empty();
        assert_eq!(seq(name).exists(), !there, "{name}");
    }
    let long = seq(&"1".repeat(17));
    assert_eq!(told(fs::metadata(long)).err(), Some(Errno::ENAMETOOLONG));
    let refused = |result: std::io::Result<()>, expected| {
        assert_eq!(told(result), Err(expected));
    };
    // Root is not stopped by modes, but by us; the kernel refuses other users.
    let root = nix::unistd::geteuid().is_root();
    let no = if root { Errno::EPERM } else { Errno::EACCES };
    refused(File::create(seq("7")).map(drop), Errno::EACCES);
    refused(fs::create_dir(shown.path("new")), no);
    refused(symlink("0", seq("link")), no);
    refused(fs::hard_link(seq("0"), seq("7")), no);
    refused(fs::remove_file(seq("0")), no);
    refused(fs::remove_dir(shown.path("cnv")), no);
    refused(fs::rename(seq("0"), seq("7")), no);
    refused(fs::rename(seq("0"), shown.path("cnv/0")), no);
    refused(fs::rename(shown.path("seq"), shown.path("new")), no);
    let made = mknod(&seq("7"), SFlag::S_IFREG, Mode::empty(), 0);
    assert_eq!(made, Err(no));
    let dir = File::open(shown.path("seq")).expect("it is opened");
    refused(dir.sync_all(), Errno::EINVAL);
}

#[test]
fn attributes_are_kept_until_the_unmount() {
    if !judges::has_fuse() || !nix::unistd::geteuid().is_root() {
        return;
    }
    let shown = Shown::new(Options::default());
    let chmod = |name: &str, mode| {
        let mode = Permissions::from_mode(mode);
        told(fs::set_permissions(shown.path(name), mode))
    };
    for name in ["cnv/0", "seq/0"] {
        let path = shown.path(name);
        chmod(name, 0o770).expect("set");
        chown(&path, Some(1000), Some(1001)).expect("set");
        let time = TimeSpec::new(1000, 5);
        let flags = UtimensatFlags::FollowSymlink;
        utimensat(AT_FDCWD, &path, &time, &time, flags).expect("set");
        // This keeps the kernel from using cached attributes.
        drop(fs::read_dir(shown.path("seq")));
        let found = fs::metadata(&path).expect("it is there");
        assert_eq!(
            (found.mode(), found.uid(), found.gid()),
            (0o100_770, 1000, 1001)
        );
        assert_eq!((found.mtime(), found.atime_nsec()), (1000, 5));
        assert!(found.ctime() > 1000);
    }
    // As in Linux, writes leave times unchanged; truncation does not.
    shown.append("seq/0", 1, 1).expect("written");
    let mtime = |name: &str| fs::metadata(shown.path(name)).expect("there").mtime();
    assert_eq!(mtime("seq/0"), 1000);
    let file = shown.open("seq/0", APPEND).expect("opened");
    file.set_len(0).expect("cut");
    drop(file);
    assert!(mtime("seq/0") > 1000);
    // Write permission would suggest that files can be created in a directory.
    for dir in ["", "cnv", "seq"] {
        assert_eq!(chmod(dir, 0o755), Err(Errno::EPERM), "{dir}");
        chmod(dir, 0o500).expect("set");
        let found = fs::metadata(shown.path(dir)).expect("there");
        assert_eq!(found.mode(), 0o40_500);
    }
    let shown = shown.again(Options::default());
    for (name, mode) in [("", 0o40_555), ("seq", 0o40_555), ("seq/0", 0o100_640)] {
        let found = fs::metadata(shown.path(name)).expect("there");
        assert_eq!((found.mode(), found.uid()), (mode, 0), "{name}");
    }
}

#[test]
fn document_is_read_only() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let table = shown.table();
    assert_eq!(table["schema"], "flashloom.zones/1");
    assert_eq!(table["max_wro_seq_files"], 4);
    assert_eq!(table["max_active_seq_files"], 5);
    let files = table["files"].as_array().expect("a list");
    assert_eq!(files.len() as u64, 2 + SEQUENTIAL);
    assert_eq!(files[2]["file"], "seq/0");
    assert_eq!(
        (&files[2]["zone"], &files[2]["capacity"]),
        (&3.into(), &MOST.into())
    );
    let size = fs::read(shown.path(".zones.json")).expect("read").len();
    assert_eq!(shown.size(".zones.json"), size as u64);
    assert_eq!(
        told(shown.open(".zones.json", 0)).err(),
        Some(Errno::EACCES)
    );
    let cut = fs::set_permissions(shown.path(".zones.json"), Permissions::from_mode(0o600));
    assert_eq!(told(cut), Err(Errno::EPERM));
}

#[test]
fn write_to_a_read_only_zonefs_is_refused() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    shown.append("seq/0", 7, 2).expect("written");
    let shown = shown.again(Options {
        read_only: true,
        ..Options::default()
    });
    assert_eq!(fs::read(shown.path("seq/0")).expect("read"), [7; 8192]);
    assert_eq!(shown.append("seq/0", 7, 1), Err(Errno::EROFS));
    let mode = Permissions::from_mode(0o600);
    let refused = fs::set_permissions(shown.path("seq/0"), mode);
    assert_eq!(told(refused), Err(Errno::EROFS));
}
