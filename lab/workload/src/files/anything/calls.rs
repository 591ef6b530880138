//! Random choice of the next call.

use super::super::{
    Advice, Allocation, Call, Fd, Hint, Mode, MsyncHow, Name, NodeKind, OpenFlags, RangeSync,
    RenameHow, Target, ThreadId, XattrHow,
};
use super::{Caller, Held, SLOTS};
use sim::Rng;

/// Units of direct requests and of pages, in bytes.
const SECTOR: u64 = 512;
const PAGE: u64 = 4_096;
/// Bytes of a write or read, each equally likely.
const LENGTHS: [u64; 7] = [8, 100, 512, 4_096, 6_000, 20_480, 65_536];

fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

impl Caller {
    /// Draws the next call of `thread`: an open, a call on a name, or a call on an open slot.
    pub(super) fn draw(&mut self, thread: ThreadId) -> Call {
        let worker = &self.workers[thread.0 as usize];
        let slots = (0..SLOTS as usize).map(|index| (index, worker.slots[index]));
        let (free, open): (Vec<_>, Vec<_>) = slots.partition(|s| s.1 == Held::Nothing);
        let rng = &mut self.workers[thread.0 as usize].rng;
        match rng.below(100) {
            0..22 if !free.is_empty() => self.draw_open(thread, free[0].0),
            0..45 => self.draw_name(thread),
            _ if open.is_empty() => self.draw_name(thread),
            _ => {
                let (index, held) = one(rng, &open);
                self.draw_on(thread, index, held)
            }
        }
    }

    fn rng(&mut self, thread: ThreadId) -> &mut Rng {
        &mut self.workers[thread.0 as usize].rng
    }

    fn file(&mut self, thread: ThreadId) -> Name {
        let most = self.files.len() as u64;
        let at = self.rng(thread).below(most);
        self.files[at as usize]
    }

    fn dir(&mut self, thread: ThreadId) -> Name {
        let most = self.dirs.len() as u64;
        let at = self.rng(thread).below(most);
        self.dirs[at as usize]
    }

    /// Name of a file, or in one of eight cases of a directory.
    fn any(&mut self, thread: ThreadId) -> Name {
        match self.rng(thread).below(8) {
            0 => self.dir(thread),
            _ => self.file(thread),
        }
    }

    /// Opens a file or a directory in the free slot `index`.
    fn draw_open(&mut self, thread: ThreadId, index: usize) -> Call {
        let both = OpenFlags::READ.and(OpenFlags::WRITE);
        let rng = self.rng(thread);
        let (kind, create, cut) = (rng.below(16), rng.chance(3, 4), rng.chance(1, 12));
        let file = both
            .and_if(create, OpenFlags::CREATE)
            .and_if(cut, OpenFlags::TRUNCATE);
        let (flags, held) = match kind {
            0 | 1 => {
                let flags = OpenFlags::READ.and(OpenFlags::DIRECTORY);
                (flags, Held::Directory)
            }
            2 => (both.and(OpenFlags::TMPFILE), Held::File(both)),
            3 | 4 => Self::opened(file.and(OpenFlags::DIRECT)),
            5 => Self::opened(file.and(OpenFlags::SYNC).and(OpenFlags::DSYNC)),
            6 => Self::opened(file.and(OpenFlags::DSYNC)),
            7 => Self::opened(file.and(OpenFlags::DIRECT).and(OpenFlags::DSYNC)),
            8 | 9 => Self::opened(file.and(OpenFlags::APPEND)),
            10 => Self::opened(file.and(OpenFlags::CREATE).and(OpenFlags::EXCLUSIVE)),
            _ => Self::opened(file),
        };
        let in_dir = held == Held::Directory || flags.has(OpenFlags::TMPFILE);
        let path = match in_dir {
            true => self.dir(thread),
            false => self.file(thread),
        };
        self.workers[thread.0 as usize].opening = Some((index, held));
        Call::Open {
            fd: Self::slot(thread, index),
            path,
            flags,
            mode: Mode(0o644),
        }
    }

    const fn opened(flags: OpenFlags) -> (OpenFlags, Held) {
        (flags, Held::File(flags))
    }

    /// Draws a call on names.
    fn draw_name(&mut self, thread: ThreadId) -> Call {
        let kind = self.rng(thread).below(32);
        let path = self.file(thread);
        match kind {
            0..3 => Call::Mkdir {
                path: self.dir(thread),
                mode: Mode(0o755),
            },
            3..5 => Call::Rmdir {
                path: self.dir(thread),
            },
            5..11 => Call::Unlink { path },
            11..18 => self.draw_rename(thread),
            18..21 => Call::Link {
                of: Target::Link(path),
                to: self.file(thread),
            },
            21..24 => {
                let index = self.rng(thread).below(2) as usize;
                let target = self.targets[index];
                Call::Symlink { target, path }
            }
            24 => Call::Mknod {
                path,
                kind: NodeKind::Fifo,
                mode: Mode(0o600),
            },
            25 => Call::Readlink { path },
            26..28 => Call::Truncate {
                of: Target::Path(path),
                len: self.offset(thread),
            },
            28 => Call::Sync {},
            _ => self.draw_attribute(thread),
        }
    }

    fn draw_rename(&mut self, thread: ThreadId) -> Call {
        let how = match self.rng(thread).below(8) {
            0..5 => RenameHow::Replace,
            5 => RenameHow::NoReplace,
            _ => RenameHow::Exchange,
        };
        Call::Rename {
            from: self.any(thread),
            to: self.any(thread),
            how,
        }
    }

    /// Draws a call on attributes or extended attributes.
    fn draw_attribute(&mut self, thread: ThreadId) -> Call {
        let of = Target::Link(self.any(thread));
        let attributes = self.attributes;
        let rng = self.rng(thread);
        let name = one(rng, &attributes);
        let mode = Mode(one(rng, &[0o600, 0o640, 0o644, 0o755]));
        match rng.below(10) {
            // Values that fit into an inode, and values that need a block.
            0..4 => Call::SetXattr {
                of,
                name,
                len: one(rng, &[0, 7, 40, 300, 2_000]),
                how: XattrHow::Set,
            },
            4..6 => Call::RemoveXattr { of, name },
            6 => Call::GetXattr { of, name, len: 0 },
            7 => Call::Chmod { of, mode },
            8 => Call::Chown {
                of,
                uid: 1 + rng.below(3) as u32,
                gid: u32::MAX,
            },
            _ => Call::Utimens { of },
        }
    }

    /// Draws a start within the size limit: at a page, at a sector, or beside one.
    fn offset(&mut self, thread: ThreadId) -> u64 {
        let size = self.anything.size;
        let rng = self.rng(thread);
        let within = one(rng, &[0, 0, 8, 100, SECTOR, PAGE / 2]);
        rng.below(size.div_ceil(PAGE)) * PAGE + within
    }

    /// Draws a start and a length, in whole sectors if `flags` ask for direct requests.
    fn span(&mut self, thread: ThreadId, flags: OpenFlags) -> (u64, u64) {
        let at = self.offset(thread);
        let len = one(self.rng(thread), &LENGTHS);
        if !flags.has(OpenFlags::DIRECT) {
            return (at, len);
        }
        (at - at % SECTOR, len.next_multiple_of(SECTOR))
    }

    /// Draws a call on the open slot `index`.
    fn draw_on(&mut self, thread: ThreadId, index: usize, held: Held) -> Call {
        let fd = Self::slot(thread, index);
        let kind = self.rng(thread).below(64);
        let closes = kind < 7;
        if closes {
            self.workers[thread.0 as usize].slots[index] = Held::Nothing;
            return Call::Close { fd };
        }
        let Held::File(flags) = held else {
            return match kind {
                7..48 => Call::Fsync { fd },
                48..52 => Call::SyncFs { fd },
                _ => Call::Readdir { fd, entries: 3 },
            };
        };
        let (at, len) = self.span(thread, flags);
        match kind {
            7..22 if !flags.has(OpenFlags::APPEND) => Call::Pwrite { fd, at, len },
            7..24 => Call::Write { fd, len },
            24..29 => Call::Pread { fd, at, len },
            29..36 => Call::Fsync { fd },
            36..40 => Call::Fdatasync { fd },
            40..43 => Call::Truncate {
                of: Target::Open(fd),
                len: at,
            },
            43..49 => self.draw_allocation(thread, fd),
            49..53 => Call::Store { fd, at, len },
            53..55 => Call::Msync {
                fd,
                at,
                len,
                how: MsyncHow::Sync,
            },
            _ => self.draw_rarely(thread, fd, (at, len)),
        }
    }

    fn draw_allocation(&mut self, thread: ThreadId, fd: Fd) -> Call {
        let at = self.offset(thread);
        let rng = self.rng(thread);
        let kinds = [
            Allocation::Extend,
            Allocation::KeepSize,
            Allocation::Punch,
            Allocation::Punch,
            Allocation::Zero,
            Allocation::ZeroKeepSize,
        ];
        Call::Fallocate {
            fd,
            how: one(rng, &kinds),
            at,
            len: one(rng, &[100, PAGE, 3 * PAGE, 5_000, 16 * PAGE]),
        }
    }

    /// Draws one of the calls that programs make rarely on an open file.
    fn draw_rarely(&mut self, thread: ThreadId, fd: Fd, (at, len): (u64, u64)) -> Call {
        let to = Self::slot(thread, self.rng(thread).below(u64::from(SLOTS)) as usize);
        match self.rng(thread).below(9) {
            0 => Call::SyncFs { fd },
            1 => Call::SyncRange {
                fd,
                at,
                len,
                how: RangeSync::WRITE.and(RangeSync::WAIT_AFTER),
            },
            2 => Call::Load { fd, at, len },
            3 => Call::CopyRange {
                from: fd,
                from_at: at,
                to,
                to_at: self.offset(thread),
                len,
            },
            4 | 5 => Call::Advise {
                fd,
                advice: Advice::DontNeed,
                at: 0,
                len: 0,
            },
            6 => Call::SeekHole { fd, at },
            7 => Call::Link {
                of: Target::Open(fd),
                to: self.file(thread),
            },
            _ => Call::Hint {
                fd,
                life: one(self.rng(thread), &Hint::ALL),
            },
        }
    }
}
