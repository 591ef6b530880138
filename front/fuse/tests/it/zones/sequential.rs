//! Sequential files: direct appends, truncation, reads and mappings.

use super::bench::{APPEND, DIRECT, MOST, Shown, told};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;
use zonefs::Options;

//= zonefs 3
#[test]
fn a_write_is_direct_at_the_end_and_of_whole_blocks() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let write = |flags, at, len: usize| {
        let file = told(shown.open("seq/0", flags))?;
        told(file.write_at(&vec![5; len], at))
    };
    assert_eq!(write(0, 0, 4096), Err(Errno::EIO));
    assert_eq!(write(DIRECT, 0, 8192), Ok(8192));
    for (flags, at, len, expected) in [
        (0, 8192, 4096, Errno::EIO),
        (DIRECT, 0, 4096, Errno::EINVAL),
        (DIRECT, 4096, 8192, Errno::EINVAL),
        (DIRECT, 12_288, 4096, Errno::EINVAL),
        (DIRECT, 8192, 100, Errno::EINVAL),
        (DIRECT, 8192, 4608, Errno::EINVAL),
        (DIRECT, 8000, 4096, Errno::EINVAL),
        (DIRECT, MOST, 4096, Errno::EFBIG),
        (0, MOST, 4096, Errno::EFBIG),
        (DIRECT, MOST + 4096, 4096, Errno::EFBIG),
    ] {
        assert_eq!(write(flags, at, len), Err(expected), "{flags} {at} {len}");
    }
    assert_eq!(shown.size("seq/0"), 8192);
    assert_eq!(
        shown
            .behind(async |all| all.info(3))
            .expect("a zone")
            .written(),
        16
    );
    // O_DIRECT cleared on an open file takes effect at once.
    let file = shown.open("seq/0", DIRECT).expect("opened");
    let plain = nix::fcntl::FcntlArg::F_SETFL(OFlag::empty());
    nix::fcntl::fcntl(&file, plain).expect("set");
    assert_eq!(told(file.write_at(&[1; 4096], 8192)), Err(Errno::EIO));
}

#[test]
fn appends_through_two_files_follow_each_other() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let files = [
        shown.open("seq/1", APPEND).expect("opened"),
        shown.open("seq/1", APPEND).expect("opened"),
    ];
    for turn in 0..6_u8 {
        let file = &files[usize::from(turn % 2)];
        let written = std::io::Write::write(&mut &*file, &[turn; 4096]);
        assert_eq!(told(written), Ok(4096));
        assert_eq!(shown.size("seq/1"), (u64::from(turn) + 1) * 4096);
    }
    let read = fs::read(shown.path("seq/1")).expect("read");
    assert!((0..6).all(|turn| read[turn * 4096..][..4096] == [turn as u8; 4096]));
    assert_eq!(
        told(std::io::Write::write(&mut &files[0], &[0; 100])),
        Err(Errno::EINVAL)
    );
    // A reset through the other file does not disturb appends.
    files[1].set_len(0).expect("cut");
    assert_eq!(
        told(std::io::Write::write(&mut &files[0], &[9; 4096])),
        Ok(4096)
    );
    assert_eq!(shown.size("seq/1"), 4096);
}

#[test]
fn a_large_write_arrives_in_order_and_is_cut_at_the_end_of_the_zone() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let file = shown.open("seq/2", DIRECT).expect("opened");
    // A buffer aligned to a page.
    let pages = 5 << 20;
    let memory = vec![0; pages + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let mut memory = memory;
    let bytes = &mut memory[from..from + pages];
    for (word, part) in bytes.chunks_mut(8).enumerate() {
        part.copy_from_slice(&(word as u64).to_le_bytes());
    }
    assert_eq!(told(file.write_at(bytes, 0)), Ok(pages));
    assert_eq!(told(file.write_at(bytes, pages as u64)), Ok(pages));
    let rest = MOST as usize - 2 * pages;
    assert_eq!(told(file.write_at(bytes, 2 * pages as u64)), Ok(rest));
    assert_eq!(told(file.write_at(bytes, MOST)), Err(Errno::EFBIG));
    let read = fs::read(shown.path("seq/2")).expect("read");
    let (first, last) = read.split_at(2 * pages);
    assert!(first[..pages] == *bytes && first[pages..] == *bytes && last == &bytes[..rest]);
    assert_eq!(shown.append("seq/2", 1, 1), Err(Errno::EFBIG));
}

#[test]
fn sequential_file_is_read_up_to_its_write_pointer() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    shown.append("seq/0", 3, 2).expect("written");
    let open = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags);
        options.open(shown.path("seq/0")).expect("opened")
    };
    let (cached, direct) = (open(0), open(DIRECT));
    let both = shown.open("seq/0", DIRECT).expect("opened");
    let mut bytes = vec![0; 20_000];
    let mut read = |file: &File, at, len| told(file.read_at(&mut bytes[..len], at));
    assert_eq!(read(&cached, 100, 20_000), Ok(8092));
    assert_eq!(read(&cached, 8192, 10), Ok(0));
    for file in [&direct, &both] {
        assert_eq!(read(file, 4096, 16_384), Ok(4096));
        assert_eq!(read(file, 8192, 4096), Ok(0));
        assert_eq!(read(file, MOST + 1, 4096), Ok(0));
        assert_eq!(read(file, 100, 4096), Err(Errno::EINVAL));
        assert_eq!(read(file, 0, 100), Err(Errno::EINVAL));
    }
    // An append is visible through a file that was open before.
    shown.append("seq/0", 4, 1).expect("written");
    assert_eq!(read(&cached, 8192, 4096), Ok(4096));
    assert_eq!(bytes[..4096], [4; 4096]);
}

#[test]
fn rewritten_zone_is_not_read_from_the_cache() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let reader = {
        shown.append("seq/0", 3, 4).expect("written");
        File::open(shown.path("seq/0")).expect("opened")
    };
    let mut bytes = vec![0; 16_384];
    for byte in 10..20 {
        let cut = shown.open("seq/0", DIRECT | OFlag::O_TRUNC.bits());
        drop(cut.expect("opened and cut"));
        assert_eq!(told(reader.read_at(&mut bytes, 0)), Ok(0));
        shown.append("seq/0", byte, 3).expect("written");
        assert_eq!(told(reader.read_at(&mut bytes, 0)), Ok(12_288));
        assert!(bytes[..12_288].iter().all(|&read| read == byte), "{byte}");
    }
}

//= zonefs 4
#[test]
fn truncation_resets_or_finishes_the_zone() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let state = || {
        let zone = shown.behind(async |all| all.info(3));
        zone.expect("a zone").state.name()
    };
    shown.append("seq/0", 1, 3).expect("written");
    let file = shown.open("seq/0", 0).expect("opened");
    for size in [1, 4096, 3 * 4096 + 1, MOST - 4096, MOST + 4096] {
        assert_eq!(told(file.set_len(size)), Err(Errno::EPERM), "{size}");
        assert_eq!(shown.size("seq/0"), 3 * 4096);
    }
    file.set_len(0).expect("cut");
    assert_eq!((shown.size("seq/0"), state()), (0, "empty"));
    shown.append("seq/0", 2, 1).expect("written");
    file.set_len(MOST).expect("finished");
    assert_eq!((shown.size("seq/0"), state()), (MOST, "full"));
    assert_eq!(shown.append("seq/0", 2, 1), Err(Errno::EFBIG));
    let read = fs::read(shown.path("seq/0")).expect("read");
    assert!(read.len() as u64 == MOST && read[..4096] == [2; 4096]);
    // Blocks that were never written read as zeros.
    assert!(read[4096..].iter().all(|&byte| byte == 0));
    drop(file);
    let shown = shown.again(Options::default());
    assert_eq!(shown.size("seq/0"), MOST);
}

/// Exit code of Python mapping a file opened with `access` with `protection`: 0 or an errno.
fn maps(shown: &Shown, access: &str, protection: &str) -> Option<i32> {
    let program = format!(
        "import mmap, os, sys\n\
         f = os.open(sys.argv[1], os.{access})\n\
         try: m = mmap.mmap(f, 8192, flags=mmap.MAP_SHARED, prot={protection})\n\
         except OSError as e: sys.exit(e.errno)\n\
         sys.exit(0 if m[4999:5001] == b'\\x06\\x06' else 255)\n"
    );
    let mut python = Command::new("python3");
    let path = shown.path("seq/0");
    let status = python.args(["-c", &program]).arg(path).status().ok()?;
    status.code()
}

#[test]
fn sequential_file_can_be_mapped_for_reading_only() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    shown.append("seq/0", 6, 4).expect("written");
    let Some(read) = maps(&shown, "O_RDONLY", "mmap.PROT_READ") else {
        return judges::skip("python3 is not installed");
    };
    assert_eq!(read, 0);
    let both = "mmap.PROT_READ | mmap.PROT_WRITE";
    assert_eq!(maps(&shown, "O_RDONLY", both), Some(Errno::EACCES as i32));
    // Linux' zonefs returns EINVAL; FUSE in the kernel refuses the call first.
    for protection in ["mmap.PROT_READ", both] {
        let refused = maps(&shown, "O_RDWR", protection);
        assert_eq!(refused, Some(Errno::ENODEV as i32), "{protection}");
    }
}

#[test]
fn synced_writes_survive_a_remount() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let flags = APPEND | OFlag::O_DSYNC.bits();
    let mut file = shown.open("seq/0", flags).expect("opened");
    std::io::Write::write(&mut file, &[8; 4096]).expect("written");
    shown.append("seq/1", 9, 5).expect("written");
    let other = File::open(shown.path("seq/1")).expect("opened");
    other.sync_all().expect("forced");
    drop((file, other));
    let shown = shown.again(Options::default());
    assert_eq!(fs::read(shown.path("seq/0")).expect("read"), [8; 4096]);
    assert_eq!(fs::read(shown.path("seq/1")).expect("read"), [9; 20_480]);
}
