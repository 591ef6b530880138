//! Files after failed writes, and after failures of their zones.

use super::bench::{Shown, config, told};
use nix::errno::Errno;
use ssd::{Content, ZoneAction, ZoneState};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use units::{Extent, Origin};
use zonefs::{OnError, Options, Superblock};

const ALL: [OnError; 4] = [
    OnError::RemountReadOnly,
    OnError::ZoneReadOnly,
    OnError::ZoneOffline,
    OnError::Repair,
];

fn mounted(errors: OnError) -> Options {
    Options {
        errors,
        ..Options::default()
    }
}

impl Shown {
    /// Size and permissions of `seq/0`; results of a read, an append and a truncation of it; and of
    /// an append to `seq/1`.
    fn left(&self) -> (u64, u32, [Result<(), Errno>; 4]) {
        let found = fs::metadata(self.path("seq/0")).expect("it is there");
        let reader = File::open(self.path("seq/0")).expect("root may");
        let read = reader.read_at(&mut [0; 4096], 0);
        let wrote = self.append("seq/0", 1, 1).map(drop);
        let mut writer = fs::OpenOptions::new();
        let cut = writer.write(true).open(self.path("seq/0"));
        let cut = told(cut.and_then(|file| file.set_len(0)));
        let other = self.append("seq/1", 1, 1).map(drop);
        let calls = [told(read.map(drop)), wrote, cut, other];
        (found.size(), found.mode() & 0o777, calls)
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

//= zonefs 5
#[test]
fn zone_written_behind_the_file_system_is_handled_by_the_errors_option() {
    if !judges::has_fuse() || !is_root() {
        return;
    }
    let (ro, no) = (Err(Errno::EROFS), Err(Errno::EPERM));
    for errors in ALL {
        let shown = Shown::new(mounted(errors));
        shown.append("seq/0", 1, 1).expect("written");
        let behind = shown.behind(async |all| {
            let at = all.info(3).expect("a zone").start.0 + 8;
            let block = Content::Bytes(&[2; 4096]);
            let wrote = all.write(Extent::new(at, 8), block, Origin(0), false);
            wrote.await
        });
        behind.expect("written");
        let file = shown.open("seq/0", super::bench::DIRECT).expect("opened");
        assert_eq!(told(file.write_at(&[3; 4096], 4096)), Err(Errno::EIO));
        let expected = match errors {
            OnError::RemountReadOnly => (4096, 0o640, [Ok(()), ro, ro, ro]),
            OnError::ZoneReadOnly => (4096, 0o440, [Ok(()), no, no, Ok(())]),
            OnError::ZoneOffline => (0, 0, [no, no, no, Ok(())]),
            OnError::Repair => (8192, 0o640, [Ok(()); 4]),
        };
        assert_eq!(shown.left(), expected, "{errors:?}");
        assert_eq!(
            shown.table()["read_only"],
            errors == OnError::RemountReadOnly
        );
    }
}

/// A drive whose flash has failed a write of `seq/0`, whose zone is read-only since; and the number
/// of bytes written before.
fn failing(errors: OnError) -> (Shown, u64) {
    let mut config = config();
    config.faults.program_failures = 30_000;
    let shown = Shown::made(&config, &Superblock::default(), mounted(errors));
    let file = shown.open("seq/0", super::bench::DIRECT).expect("opened");
    let mut at = 0;
    loop {
        let state = shown.behind(async |all| all.info(3)).expect("a zone").state;
        if state == ZoneState::ReadOnly {
            return (shown, at);
        }
        at += file
            .write_at(&[4; 65_536], at)
            .expect("nothing has failed yet") as u64;
        // The drive programs flash in the background; the flush completes it.
        shown.behind(async |all| all.flush().await).ok();
    }
}

#[test]
fn zone_with_failed_flash_is_read_only() {
    if !judges::has_fuse() || !is_root() {
        return;
    }
    let (ro, no) = (Err(Errno::EROFS), Err(Errno::EPERM));
    for errors in ALL {
        let (shown, size) = failing(errors);
        assert_eq!(shown.write("seq/0", size), Err(Errno::EIO), "{errors:?}");
        let (kept, perm, calls) = shown.left();
        let expected = match errors {
            OnError::RemountReadOnly => (size, 0o440, [Ok(()), ro, ro, ro]),
            OnError::ZoneOffline => (0, 0, [no, no, no, calls[3]]),
            _ => (size, 0o440, [Ok(()), no, no, calls[3]]),
        };
        assert_eq!((kept, perm, calls), expected, "{errors:?}");
        // After a mount the write pointer of a read-only zone is unknown.
        let shown = shown.again(mounted(errors));
        let (size, perm, calls) = shown.left();
        assert_eq!((size, perm), (0, 0), "{errors:?}");
        assert_eq!(calls[..3], [no, no, no], "{errors:?}");
        assert_eq!(shown.table()["files"][2]["state"], "read-only");
    }
}

#[test]
fn offline_zone_is_neither_read_nor_written() {
    if !judges::has_fuse() || !is_root() {
        return;
    }
    let (ro, no) = (Err(Errno::EROFS), Err(Errno::EPERM));
    for errors in ALL {
        let (shown, size) = failing(errors);
        let reader = File::open(shown.path("seq/0")).expect("opened");
        let mut bytes = [0; 4096];
        assert_eq!(told(reader.read_at(&mut bytes, 0)), Ok(4096));
        let gone = shown.behind(async |all| all.manage(3, ZoneAction::Offline).await);
        gone.expect("given up");
        assert_eq!(shown.write("seq/0", size), Err(Errno::EIO), "{errors:?}");
        let (kept, perm, calls) = shown.left();
        assert_eq!((kept, perm), (0, 0), "{errors:?}");
        let other = match errors {
            OnError::RemountReadOnly => ro,
            _ => calls[3],
        };
        let first = if errors == OnError::RemountReadOnly {
            ro
        } else {
            no
        };
        assert_eq!(calls, [no, first, first, other], "{errors:?}");
        // Cached contents are not returned either.
        assert_eq!(told(reader.read_at(&mut bytes, 0)), Ok(0));
        drop(reader);
        let shown = shown.again(mounted(errors));
        let (size, perm, calls) = shown.left();
        assert_eq!((size, perm), (0, 0), "{errors:?}");
        assert_eq!(calls[..3], [no, no, no], "{errors:?}");
    }
}
