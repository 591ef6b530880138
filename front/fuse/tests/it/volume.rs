//! A file system of ours compared with one of the kernel's: the same random calls on both must have
//! the same results.

use crate::support::ShownVolume;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, RenameFlags, copy_file_range, fallocate, renameat2};
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek};
use sim::{Rng, Seed};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Flag with which the opening of a pipe does not wait for its other end.
const NO_WAIT: i32 = nix::fcntl::OFlag::O_NONBLOCK.bits();

/// A random call; paths are relative to the root of either file system.
#[derive(Debug)]
enum Call {
    Create(PathBuf, u32),
    Write(PathBuf, u64, usize, u8),
    Append(PathBuf, usize, u8),
    Read(PathBuf, u64, usize),
    Truncate(PathBuf, u64),
    Allocate(PathBuf, i32, u64, u64),
    Seek(PathBuf, u64, bool),
    Copy(PathBuf, PathBuf, u64, usize),
    Force(PathBuf),
    MakeDir(PathBuf),
    MakePipe(PathBuf),
    RemoveDir(PathBuf),
    Remove(PathBuf),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Follow(PathBuf),
    Rename(PathBuf, PathBuf, u32),
    Chmod(PathBuf, u32),
    Chown(PathBuf, u32),
    Touch(PathBuf, i64),
    List(PathBuf),
}

/// A path of few possible names, so that calls hit the same files.
fn name(rng: &mut Rng) -> PathBuf {
    let depth = 1 + rng.below(3);
    (0..depth).map(|_| format!("n{}", rng.below(5))).collect()
}

fn draw(rng: &mut Rng) -> Call {
    let (one, two) = (name(rng), name(rng));
    let (offset, len) = (rng.below(200_000), 1 + rng.below(40_000));
    let byte = 1 + rng.below(255) as u8;
    match rng.below(30) {
        0..3 => Call::Create(one, [0o600, 0o644, 0o755][rng.below(3) as usize]),
        3..7 => Call::Write(one, offset, len as usize, byte),
        7 => Call::Append(one, len as usize, byte),
        8..10 => Call::Read(one, offset, len as usize),
        10..12 => Call::Truncate(one, offset),
        12 => Call::Allocate(one, [0, 1, 3, 17][rng.below(4) as usize], offset, len),
        13 => Call::Seek(one, offset, rng.below(2) == 0),
        14 => Call::Copy(one, two, offset, len as usize),
        15 => Call::Force(one),
        16..19 => Call::MakeDir(one),
        19 => Call::MakePipe(one),
        20 => Call::RemoveDir(one),
        21 => Call::Remove(one),
        22 => Call::Link(one, two),
        23 => Call::Symlink(one, two),
        24 => Call::Follow(one),
        25..27 => Call::Rename(one, two, rng.below(3) as u32),
        27 => match rng.below(3) {
            0 => Call::Chmod(one, rng.below(0o10_000) as u32 | 0o700),
            1 => Call::Chown(one, rng.below(100) as u32),
            _ => Call::Touch(one, rng.below(1 << 31) as i64 - 1000),
        },
        _ => Call::List(one),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
}

/// Result of a call as text, or its error number.
fn carry_out(call: &Call, root: &Path) -> Result<String, Option<i32>> {
    let at = |name: &Path| root.join(name);
    let told = |error: io::Error| error.raw_os_error();
    let number = |error: Errno| Some(error as i32);
    match call {
        Call::Create(path, mode) => {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).mode(*mode);
            options.custom_flags(NO_WAIT);
            options.open(at(path)).map(|_| String::new()).map_err(told)
        }
        Call::Write(path, offset, len, byte) => open(&at(path))
            .and_then(|file| file.write_at(&vec![*byte; *len], *offset))
            .map(|done| done.to_string())
            .map_err(told),
        Call::Append(path, len, byte) => OpenOptions::new()
            .append(true)
            .custom_flags(NO_WAIT)
            .open(at(path))
            .and_then(|mut file| io::Write::write_all(&mut file, &vec![*byte; *len]))
            .map(|()| String::new())
            .map_err(told),
        Call::Read(path, offset, len) => read(&at(path), *offset, *len).map_err(told),
        Call::Truncate(path, size) => open(&at(path))
            .and_then(|file| file.set_len(*size))
            .map(|()| String::new())
            .map_err(told),
        Call::Allocate(path, mode, offset, len) => {
            let file = open(&at(path)).map_err(told)?;
            let mode = FallocateFlags::from_bits_retain(*mode);
            let done = fallocate(&file, mode, *offset as i64, *len as i64);
            done.map(|()| String::new()).map_err(number)
        }
        Call::Seek(path, offset, data) => {
            let file = open(&at(path)).map_err(told)?;
            let whence = if *data {
                Whence::SeekData
            } else {
                Whence::SeekHole
            };
            // Holes may be at other places, but data behind the end may not.
            let found = lseek(&file, *offset as i64, whence);
            found.map(|_| String::new()).or_else(|error| match error {
                Errno::ENXIO if *data => Ok(String::new()),
                error => Err(number(error)),
            })
        }
        Call::Copy(from, to, offset, len) => {
            let (from, to) = (open(&at(from)).map_err(told)?, open(&at(to)).map_err(told)?);
            let (mut start, mut end) = (*offset as i64, (*offset + 500_000) as i64);
            let done = copy_file_range(&from, Some(&mut start), &to, Some(&mut end), *len);
            done.map(|done| done.to_string()).map_err(number)
        }
        other => carry_out_name(other, root),
    }
}

fn read(path: &Path, offset: u64, len: usize) -> io::Result<String> {
    let mut bytes = vec![0; len];
    let done = open(path)?.read_at(&mut bytes, offset)?;
    Ok(format!("{:?}", &bytes[..done]))
}

fn carry_out_name(call: &Call, root: &Path) -> Result<String, Option<i32>> {
    let at = |name: &Path| root.join(name);
    let none = |done: io::Result<()>| done.map(|()| String::new());
    let by_number = |done: nix::Result<()>| done.map_err(io::Error::from).map(|()| String::new());
    let done = match call {
        Call::Force(path) => {
            let mut options = OpenOptions::new();
            let file = options.read(true).custom_flags(NO_WAIT).open(at(path));
            none(file.and_then(|file| file.sync_all()))
        }
        Call::MakeDir(path) => none(fs::create_dir(at(path))),
        Call::MakePipe(path) => by_number(mknod(&at(path), SFlag::S_IFIFO, Mode::S_IRWXU, 0)),
        Call::RemoveDir(path) => none(fs::remove_dir(at(path))),
        Call::Remove(path) => none(fs::remove_file(at(path))),
        Call::Link(one, two) => none(fs::hard_link(at(one), at(two))),
        Call::Symlink(one, two) => none(symlink(one, at(two))),
        Call::Follow(path) => fs::read_link(at(path)).map(|target| target.display().to_string()),
        Call::Rename(one, two, flags) => {
            let flags = RenameFlags::from_bits_retain(*flags);
            by_number(renameat2(AT_FDCWD, &at(one), AT_FDCWD, &at(two), flags))
        }
        Call::Chmod(path, mode) => {
            none(fs::set_permissions(at(path), Permissions::from_mode(*mode)))
        }
        Call::Chown(path, uid) => none(std::os::unix::fs::lchown(
            at(path),
            Some(*uid),
            Some(uid + 1),
        )),
        Call::Touch(path, secs) => {
            let time = TimeSpec::new(*secs, 5);
            let flags = UtimensatFlags::NoFollowSymlink;
            by_number(utimensat(AT_FDCWD, &at(path), &time, &time, flags))
        }
        Call::List(path) => list(&at(path)),
        _ => unreachable!("a call of files"),
    };
    done.map_err(|error| error.raw_os_error())
}

fn list(path: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()?));
    }
    names.sort();
    Ok(names.join(", "))
}

/// Collects attributes and contents below `root` that both file systems must agree on.
fn tree(root: &Path, below: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(root.join(below)).expect("it can be listed") {
        let name = below.join(entry.expect("it can be listed").file_name());
        let path = root.join(&name);
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let kind = meta.file_type();
        let size = if kind.is_dir() { 0 } else { meta.size() };
        let mut text = format!(
            "{:o} {} {} {} {size}",
            meta.mode(),
            meta.nlink(),
            meta.uid(),
            meta.gid()
        );
        // The host uses its own clock; only times that calls have set can be compared.
        if meta.mtime_nsec() == 5 {
            text += &format!(" {}", meta.mtime());
        }
        if kind.is_file() {
            let bytes = fs::read(&path).expect("it can be read");
            text += &format!(" {:x}", fold(&bytes));
        }
        found.insert(name.clone(), text);
        if kind.is_dir() {
            tree(root, &name, found);
        }
    }
}

/// A checksum of some bytes.
fn fold(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn whole(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    tree(root, Path::new(""), &mut found);
    found
}

#[test]
fn random_calls_agree_with_the_kernels_file_system() {
    if !judges::has_fuse() {
        return;
    }
    let kernels = tempfile::tempdir().expect("a temporary directory");
    for seed in 0..4 {
        let shown = ShownVolume::new();
        let (ours, theirs) = (shown.root(), kernels.path().join(seed.to_string()));
        fs::create_dir(&theirs).expect("a directory");
        let mut rng = Seed(seed).stream("calls");
        for number in 0..1500 {
            let call = draw(&mut rng);
            let (own, other) = (carry_out(&call, &ours), carry_out(&call, &theirs));
            assert!(
                own == other,
                "seed {seed}, {number}: {call:?}: {own:?}, not {other:?}"
            );
            if number % 100 == 99 {
                let (own, other) = (whole(&ours), whole(&theirs));
                assert_eq!(own, other, "seed {seed}, after {number}: {call:?}");
            }
        }
    }
}

#[test]
fn removed_open_file_direct_write_and_large_directory_work() {
    if !judges::has_fuse() {
        return;
    }
    let shown = ShownVolume::new();
    let path = shown.root().join("file");
    fs::write(&path, vec![3; 10_000]).expect("written");
    let file = open(&path).expect("opened");
    fs::remove_file(&path).expect("removed");
    file.write_all_at(b"still", 9_998).expect("written");
    assert_eq!(file.metadata().expect("attributes").nlink(), 0);
    assert_eq!(file.metadata().expect("attributes").size(), 10_003);
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 9_998).expect("read");
    assert_eq!(&bytes, b"still");
    drop(file);
    let direct = OpenOptions::new()
        .write(true)
        .create(true)
        .custom_flags(nix::fcntl::OFlag::O_DIRECT.bits())
        .open(shown.root().join("direct"))
        .expect("opened");
    let memory = vec![9_u8; 3 * 4096];
    let from = memory.as_ptr().align_offset(4096);
    direct
        .write_all_at(&memory[from..from + 4096], 0)
        .expect("written");
    assert_eq!(
        fs::read(shown.root().join("direct")).expect("read"),
        [9; 4096]
    );
    let long = shown.root().join("n".repeat(256));
    let refused = File::create(long).expect_err("too long");
    assert_eq!(refused.raw_os_error(), Some(Errno::ENAMETOOLONG as i32));
    for number in 0..500 {
        File::create(shown.root().join(format!("many{number}"))).expect("made");
    }
    let listed = fs::read_dir(shown.root()).expect("listed").count();
    assert_eq!(listed, 501);
}
