//! Conventional files: written at any place and in any way, of a fixed size.

use super::bench::{APPEND, CNV, DIRECT, Shown, told};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use sim::Seed;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use zonefs::Options;

#[test]
fn cached_and_direct_writes_go_anywhere() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let (cached, direct) = (
        shown.open("cnv/0", 0).expect("opened"),
        shown.open("cnv/0", DIRECT).expect("opened"),
    );
    let mut model = vec![0; 1 << 20];
    let mut rng = Seed(3).stream("writes");
    for turn in 0..200_u8 {
        let (file, unit) = if turn % 2 == 0 {
            (&cached, 1)
        } else {
            (&direct, 4096)
        };
        let at = rng.below(900_000 / unit) * unit;
        let len = (1 + rng.below(60_000 / unit)) * unit;
        let bytes = vec![turn; len as usize];
        assert_eq!(told(file.write_at(&bytes, at)), Ok(bytes.len()));
        model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    let same = |file: &File| {
        let mut read = vec![0; model.len()];
        for (at, part) in (0..).step_by(1 << 16).zip(read.chunks_mut(1 << 16)) {
            file.read_exact_at(part, at).expect("read");
        }
        assert!(read == model);
    };
    same(&cached);
    same(&direct);
    cached.sync_all().expect("forced");
    drop((cached, direct));
    let shown = shown.again(Options::default());
    same(&File::open(shown.path("cnv/0")).expect("opened"));
}

#[test]
fn size_of_a_conventional_file_is_fixed() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let file = shown.open("cnv/1", 0).expect("opened");
    for size in [0, 1, CNV - 1, CNV + 1] {
        assert_eq!(told(file.set_len(size)), Err(Errno::EPERM), "{size}");
    }
    let cut = shown.open("cnv/1", OFlag::O_TRUNC.bits());
    assert_eq!(told(cut).err(), Some(Errno::EPERM));
    assert_eq!(told(file.write_at(b"four", CNV - 2)), Ok(2));
    assert_eq!(told(file.write_at(b"x", CNV)), Err(Errno::EFBIG));
    assert_eq!(shown.size("cnv/1"), CNV);
    let read = fs::read(shown.path("cnv/1")).expect("read");
    assert!(read.len() as u64 == CNV && read.ends_with(b"\0fo"));
    let direct = shown.open("cnv/1", DIRECT).expect("opened");
    assert_eq!(told(direct.write_at(&[1; 100], 0)), Err(Errno::EINVAL));
    assert_eq!(told(direct.write_at(&[1; 4096], 100)), Err(Errno::EINVAL));
    assert_eq!(told(direct.write_at(&[1; 8192], CNV - 4096)), Ok(4096));
    for flags in [APPEND, OFlag::O_APPEND.bits()] {
        let file = shown.open("cnv/1", flags).expect("opened");
        let written = std::io::Write::write(&mut &file, &[1; 4096]);
        assert_eq!(told(written), Err(Errno::EINVAL));
    }
}

#[test]
fn stores_through_a_mapping_reach_the_drive() {
    if !judges::has_fuse() {
        return;
    }
    let shown = Shown::new(Options::default());
    let program = "import mmap, os, sys\n\
         f = os.open(sys.argv[1], os.O_RDWR)\n\
         m = mmap.mmap(f, 0)\n\
         m[5000:5004] = b'here'\n\
         m[len(m) - 3:] = b'end'\n\
         m.flush()\n";
    let mut python = Command::new("python3");
    let words = python.args(["-c", program]).arg(shown.path("cnv/0"));
    let Ok(status) = words.status() else {
        return judges::skip("python3 is not installed");
    };
    assert!(status.success(), "it can be mapped");
    let shown = shown.again(Options::default());
    let read = fs::read(shown.path("cnv/0")).expect("read");
    assert_eq!(&read[4999..5005], b"\0here\0");
    assert!(read.len() as u64 == CNV && read.ends_with(b"\0end"));
}
