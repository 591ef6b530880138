//! Plays single calls as system calls.

use crate::answer::{Answer, Miss};
use crate::player::Player;
use crate::target::{count, done};
use crate::translate;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{self, AtFlags, RawDir, SeekFrom};
use rustix::io::{self, Errno};
use std::num::NonZeroU64;
use std::sync::PoisonError;
use workload::files::{Call, Fd, Lock, Mode, MsyncHow, NodeKind, OpenFlags, RenameHow};

/// Page size of a mapping in bytes.
const PAGE: u64 = 4096;

impl Player<'_> {
    /// Plays `call`; its strings must be in `self.strings`.
    pub(crate) fn play(&mut self, call: &Call) -> Answer {
        match *call {
            Call::Open {
                fd, flags, mode, ..
            } => self.open(fd, flags, mode),
            Call::Close { fd } => done(self.open.take(fd)),
            Call::Read { fd, len } => self.read(fd, None, len),
            Call::Write { fd, len } => self.write(fd, None, len),
            Call::Pread { fd, at, len } | Call::Load { fd, at, len } => {
                self.read(fd, Some(at), len)
            }
            Call::Pwrite { fd, at, len } => self.write(fd, Some(at), len),
            Call::Store { fd, at, len } => self.store(fd, at, len),
            Call::SeekData { fd, at } => self.seek(fd, SeekFrom::Data(at)),
            Call::SeekHole { fd, at } => self.seek(fd, SeekFrom::Hole(at)),
            Call::Readdir { fd, entries } => self.readdir(fd, entries),
            Call::Rewinddir { fd } => self.rewinddir(fd),
            Call::Hint { .. } | Call::SyncRange { .. } => Err(Miss::NotPlayed),
            _ => self.play_on_path(call),
        }
    }

    fn play_on_path(&mut self, call: &Call) -> Answer {
        match *call {
            Call::Truncate { of, len } => self.truncate(of, len),
            Call::Rename { how, .. } => self.rename(how),
            Call::Unlink { .. } => self.remove(AtFlags::empty()),
            Call::Rmdir { .. } => self.remove(AtFlags::REMOVEDIR),
            Call::Mkdir { mode, .. } => self.mkdir(mode),
            Call::Mknod { kind, mode, .. } => self.mknod(kind, mode),
            Call::Link { of, .. } => self.link(of),
            Call::Symlink { .. } => self.symlink(),
            Call::Readlink { .. } => self.readlink(),
            Call::Stat { of } => self.stat(of),
            Call::Access { of, mode } => self.access(of, mode),
            Call::StatFs { of } => self.statfs(of),
            Call::Chmod { of, mode } => self.chmod(of, mode),
            Call::Chown { of, uid, gid } => self.chown(of, uid, gid),
            Call::Utimens { of } => self.utimens(of),
            Call::GetXattr { of, len, .. } => self.getxattr(of, len),
            Call::SetXattr { of, len, how, .. } => self.setxattr(of, len, how),
            Call::ListXattr { of, len } => self.listxattr(of, len),
            Call::RemoveXattr { of, .. } => self.removexattr(of),
            _ => self.play_on_open(call),
        }
    }

    fn play_on_open(&self, call: &Call) -> Answer {
        match *call {
            Call::Fsync { fd } => done(fs::fsync(&self.open.get(fd)?.fd)),
            Call::Fdatasync { fd } => done(fs::fdatasync(&self.open.get(fd)?.fd)),
            Call::SyncFs { fd } => done(fs::syncfs(&self.open.get(fd)?.fd)),
            Call::Sync {} => done(fs::syncfs(self.place.root())),
            Call::Fallocate { fd, how, at, len } => {
                let how = translate::allocation(how);
                done(fs::fallocate(&self.open.get(fd)?.fd, how, at, len))
            }
            Call::Flock { fd, lock, wait } => {
                let lock = translate::flock(lock, wait);
                done(fs::flock(&self.open.get(fd)?.fd, lock))
            }
            Call::RecordLock {
                fd,
                lock,
                at,
                len,
                wait,
            } => self.lock(fd, lock, (at, len), wait),
            Call::Advise {
                fd,
                advice,
                at,
                len,
            } => {
                let (len, advice) = (NonZeroU64::new(len), translate::advice(advice));
                done(fs::fadvise(&self.open.get(fd)?.fd, at, len, advice))
            }
            Call::Msync { fd, how, .. } => match how {
                MsyncHow::Async => done(self.open.get(fd)),
                MsyncHow::Sync => done(fs::fsync(&self.open.get(fd)?.fd)),
            },
            Call::CopyRange {
                from,
                from_at,
                to,
                to_at,
                len,
            } => self.copy_range((from, from_at), (to, to_at), len),
            _ => unreachable!("every other call is played above"),
        }
    }

    fn open(&self, slot: Fd, flags: OpenFlags, mode: Mode) -> Answer {
        let (flags, mode) = (translate::open(flags), translate::open_mode(flags, mode));
        let fd = self.place.open(self.strings.first(), flags, mode)?;
        self.open.put(slot, fd);
        Ok(0)
    }

    /// Reads `len` bytes at `at`, or at the offset of the file; stops at the end of the file.
    fn read(&mut self, fd: Fd, at: Option<u64>, len: u64) -> Answer {
        let file = self.open.get(fd)?;
        let mut moved = 0;
        loop {
            let room = self.data.room(len - moved);
            let asked = room.len();
            let got = match at {
                Some(at) => io::pread(&file.fd, room, at.saturating_add(moved)),
                None => io::read(&file.fd, room),
            };
            let got = partly(moved, got)?;
            moved += got as u64;
            if got < asked || moved == len {
                return Ok(moved);
            }
        }
    }

    /// Writes at `at`, or at the offset of the file.
    fn write(&mut self, fd: Fd, at: Option<u64>, len: u64) -> Answer {
        let file = self.open.get(fd)?;
        let pattern = self.pattern(fd.0, at.unwrap_or(0));
        let mut moved = 0;
        loop {
            let data = self.data.filled(pattern, len - moved);
            let asked = data.len();
            let put = match at {
                Some(at) => io::pwrite(&file.fd, data, at.saturating_add(moved)),
                None => io::write(&file.fd, data),
            };
            let put = partly(moved, put)?;
            moved += put as u64;
            if put < asked || moved == len {
                return Ok(moved);
            }
        }
    }

    /// Writes as a store through a mapping does: only up to the end of the file within its last
    /// page, and nothing if the store reaches past that page.
    fn store(&mut self, fd: Fd, at: u64, len: u64) -> Answer {
        let size = fs::fstat(&self.open.get(fd)?.fd)?.st_size as u64;
        if at.saturating_add(len) > size.next_multiple_of(PAGE) {
            return Err(Errno::NXIO.into());
        }
        match size.saturating_sub(at).min(len) {
            0 => Ok(0),
            len => self.write(fd, Some(at), len),
        }
    }

    fn seek(&self, fd: Fd, to: SeekFrom) -> Answer {
        Ok(fs::seek(&self.open.get(fd)?.fd, to)?)
    }

    /// Reads directory entries. The system returns as many as fit; entries beyond `most` are kept
    /// for the next call.
    fn readdir(&mut self, fd: Fd, most: u64) -> Answer {
        let file = self.open.get(fd)?;
        let mut kept = file.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept == 0 {
            let mut entries = RawDir::new(&file.fd, &mut self.entries);
            while let Some(entry) = entries.next() {
                entry?;
                *kept += 1;
                if entries.is_buffer_empty() {
                    break;
                }
            }
        }
        let given = most.min(*kept);
        *kept -= given;
        Ok(given)
    }

    fn rewinddir(&self, fd: Fd) -> Answer {
        let file = self.open.get(fd)?;
        *file.entries.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        done(fs::seek(&file.fd, SeekFrom::Start(0)))
    }

    fn rename(&self, how: RenameHow) -> Answer {
        let (from, old) = self.place.parent(self.strings.first())?;
        let (to, new) = self.place.parent(self.strings.second())?;
        done(fs::renameat_with(
            from,
            old,
            to,
            new,
            translate::rename(how),
        ))
    }

    fn remove(&self, flags: AtFlags) -> Answer {
        let (parent, name) = self.place.parent(self.strings.first())?;
        done(fs::unlinkat(parent, name, flags))
    }

    fn mkdir(&self, mode: Mode) -> Answer {
        let (parent, name) = self.place.parent(self.strings.first())?;
        done(fs::mkdirat(parent, name, translate::mode(mode)))
    }

    fn mknod(&self, kind: NodeKind, mode: Mode) -> Answer {
        let (parent, name) = self.place.parent(self.strings.first())?;
        let (kind, mode) = (translate::node(kind), translate::mode(mode));
        done(fs::mknodat(parent, name, kind, mode, 0))
    }

    fn symlink(&self) -> Answer {
        let (parent, name) = self.place.parent(self.strings.second())?;
        done(fs::symlinkat(self.strings.first(), parent, name))
    }

    fn readlink(&self) -> Answer {
        let (parent, name) = self.place.parent(self.strings.first())?;
        let target = fs::readlinkat(parent, name, Vec::new())?;
        Ok(target.as_bytes().len() as u64)
    }

    /// Locks a range for the open file description: all threads are of one process here, so that
    /// process locks would exclude none of them.
    fn lock(&self, fd: Fd, lock: Lock, (at, len): (u64, u64), wait: bool) -> Answer {
        let file = self.open.get(fd)?;
        let range = translate::record_lock(lock, at, len);
        let how = match wait {
            true => FcntlArg::F_OFD_SETLKW(&range),
            false => FcntlArg::F_OFD_SETLK(&range),
        };
        fcntl(&file.fd, how)?;
        Ok(0)
    }

    fn copy_range(&self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Answer {
        let (source, sink) = (self.open.get(from.0)?, self.open.get(to.0)?);
        let (mut read, mut written) = (from.1, to.1);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let offsets = (Some(&mut read), Some(&mut written));
        count(fs::copy_file_range(
            &source.fd, offsets.0, &sink.fd, offsets.1, len,
        ))
    }
}

/// Result of a piece. An error after some pieces is left to the next call, as in the kernel.
fn partly(moved: u64, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Err(_) if moved > 0 => Ok(0),
        other => other,
    }
}
