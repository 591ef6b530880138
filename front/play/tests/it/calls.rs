//! Every kind of call has its documented effect and result.

use crate::script::Script;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use workload::files::EntryKind;

#[test]
fn data_move() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = Script::new(
        "open fd=0 path=a flags=read|write|create|exclusive mode=644 -> 0
         open fd=1 path=a flags=read|write|create|exclusive mode=644 -> EEXIST
         write fd=0 len=10000 -> 10000
         pwrite fd=0 at=20000 len=77 -> 77
         read fd=0 len=5 -> 5
         pread fd=0 at=4096 len=1000000 -> 15981
         load fd=0 at=0 len=9 -> 9
         store fd=0 at=1 len=9 -> 9
         store fd=0 at=20070 len=400 -> 7
         store fd=0 at=20077 len=400 -> 0
         store fd=0 at=20070 len=500 -> E6
         msync fd=0 at=0 len=9 how=sync -> 0
         seek-data fd=0 at=5 -> 5
         seek-hole fd=0 at=30000 -> E6
         truncate of=fd fd=0 len=8192 -> 0
         truncate of=path path=a len=4096 -> 0
         fsync fd=0 -> 0
         fdatasync fd=0 -> 0
         syncfs fd=0 -> 0
         sync -> 0
         advise fd=0 advice=dont-need at=0 len=0 -> 0
         fallocate fd=0 how=extend at=0 len=65536 -> 0
         open fd=1 path=b flags=read|write|create mode=644 -> 0
         copy-range from=0 from_at=0 to=1 to_at=0 len=4096 -> 4096
         close fd=0 -> 0
         close fd=0 -> EBADF
         read fd=0 len=1 -> EBADF",
    );
    let outcome = script.play_well(dir.path());
    assert_eq!(fs::metadata(dir.path().join("a")).unwrap().len(), 65_536);
    let moved = (outcome.read_bytes, outcome.write_bytes);
    assert_eq!(moved, (5 + 15_981 + 9, 10_000 + 77 + 9 + 7));
    assert_eq!(outcome.notes.len(), 4);
}

#[test]
fn data_are_the_pattern_all_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = Script::new(
        "open fd=0 path=a flags=write|create mode=644 -> 0
         write fd=0 len=20000000 -> 20000000
         open fd=1 path=b flags=write|create|append mode=644 -> 0
         write fd=1 len=0 -> 0
         write fd=1 len=20 -> 20
         write fd=1 len=20 -> 20",
    );
    script.play_well(dir.path());
    let a = fs::read(dir.path().join("a")).unwrap();
    assert_eq!(a.len(), 20_000_000);
    assert!(a.chunks(8).all(|word| word == &a[..8]) && a[..8] != [0; 8]);
    let b = fs::read(dir.path().join("b")).unwrap();
    assert!(b.len() == 40 && b[..8] == b[8..16] && b[..8] != b[20..28]);
}

#[test]
fn names_change() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new(
        "rename from=d/f to=n how=replace -> 0
         mkdir path=d2 mode=755 -> 0
         mkdir path=d2 mode=755 -> EEXIST
         rename from=d2 to=n how=no-replace -> EEXIST
         symlink target=n path=l -> 0
         readlink path=l -> 1
         link of=link path=n to=h -> 0
         link of=path path=l to=d2/deep -> 0
         unlink path=h -> 0
         unlink path=h -> ENOENT
         rmdir path=d2 -> ENOTEMPTY
         mknod path=d2/p kind=fifo mode=600 -> 0
         open fd=0 path=d2 flags=read|directory mode=0 -> 0
         readdir fd=0 entries=3 -> 3
         readdir fd=0 entries=3 -> 1
         readdir fd=0 entries=3 -> 0
         rewinddir fd=0 -> 0
         readdir fd=0 entries=99 -> 4",
    );
    let mut script = script
        .entry("d", EntryKind::Directory, 0o555)
        .file("d/f", 3_000);
    // Opening a pipe without a writer does not block.
    script.say("open fd=1 path=d2/p flags=read mode=0 -> 0");
    script.play_well(dir.path());
    let at = |path: &str| fs::metadata(dir.path().join(path));
    assert_eq!(at("d2/deep").unwrap().ino(), at("n").unwrap().ino());
    assert_eq!(at("d").unwrap().permissions().mode() & 0o7777, 0o555);
    assert!(at("d/f").is_err() && at("h").is_err());
}

#[test]
fn attributes_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = Script::new(
        "symlink target=f path=l -> 0
         open fd=0 path=f flags=read|write mode=0 -> 0
         open fd=1 path=f flags=read|write mode=0 -> 0
         stat of=path path=missing -> ENOENT",
    )
    .file("f", 100);
    for of in ["fd fd=0", "path path=f", "path path=l", "link path=l"] {
        script.say(&format!("stat of={of} -> 0"));
        script.say(&format!("statfs of={of} -> 0"));
        script.say(&format!("utimens of={of} -> 0"));
        script.say(&format!("chown of={of} uid=4294967295 gid=4294967295 -> 0"));
    }
    for of in ["fd fd=0", "path path=l"] {
        script.say(&format!("chmod of={of} mode=640 -> 0"));
        script.say(&format!("access of={of} mode=4 -> 0"));
    }
    script.play_well(dir.path());
    let mode = fs::metadata(dir.path().join("f")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o640);
}

#[test]
fn locks_exclude_other_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new(
        "open fd=0 path=f flags=read|write mode=0 -> 0
         open fd=1 path=f flags=read|write mode=0 -> 0
         flock fd=0 lock=exclusive wait=yes -> 0
         flock fd=1 lock=shared wait=no -> EAGAIN
         lock fd=0 lock=exclusive at=5 len=0 wait=no -> 0
         lock fd=1 lock=exclusive at=4 len=2 wait=no -> EAGAIN
         lock fd=1 lock=shared at=4 len=1 wait=yes -> 0
         flock fd=0 lock=unlock wait=no -> 0
         lock fd=0 lock=unlock at=0 len=0 wait=no -> 0
         flock fd=1 lock=shared wait=no -> 0
         lock fd=1 lock=exclusive at=4 len=2 wait=no -> 0",
    );
    script.file("f", 0).play_well(dir.path());
}

#[test]
fn extended_attributes_are_kept() {
    // Temporary directories may be on a file system without them.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let script = Script::new(
        "setxattr of=path path=f name=user.flashloom len=100 how=create -> 0
         setxattr of=path path=f name=user.flashloom len=100 how=create -> EEXIST
         getxattr of=path path=f name=user.flashloom len=0 -> 100
         getxattr of=path path=f name=user.flashloom len=99 -> ERANGE
         listxattr of=path path=f len=200 -> 15
         open fd=0 path=f flags=read|write mode=0 -> 0
         getxattr of=fd fd=0 name=user.flashloom len=200 -> 100
         listxattr of=fd fd=0 len=0 -> 15
         removexattr of=fd fd=0 name=user.flashloom -> 0
         getxattr of=fd fd=0 name=user.flashloom len=0 -> ENODATA",
    );
    script.file("f", 0).play_well(dir.path());
}

#[test]
fn skipped_calls_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new(
        "open fd=0 path=f flags=read|write mode=0 -> 0
         hint fd=0 life=short -> EINVAL
         sync-range fd=0 at=0 len=0 how=write
         pread fd=0 at=0 len=10 -> 10",
    );
    let outcome = script.file("f", 0).play(dir.path());
    let kinds = outcome.calls.iter();
    let kinds: Vec<_> = kinds.map(|k| (k.name, k.count, k.not_played)).collect();
    assert_eq!(
        kinds,
        [
            ("open", 1, 0),
            ("pread", 1, 0),
            ("sync-range", 1, 1),
            ("hint", 1, 1)
        ]
    );
    let first = &outcome.first_mismatches[0];
    assert_eq!((first.expected.as_str(), first.found.as_str()), ("10", "0"));
    assert_eq!((first.call, outcome.mismatches), ("pread", 1));
}
