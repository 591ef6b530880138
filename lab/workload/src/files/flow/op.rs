//! Operations: the calls that they make and the conditions that they wait for.

use super::aio::Job;
use super::run::{Flow, Want};
use super::thread::{Flight, OpenFile, Step};
use super::{DESCRIPTORS, FlowOp, OpKind};
use crate::files::fileset::{Access, DIR_MODE, FILE_MODE, Picked};
use crate::files::{Call, Fd, OpenFlags, Target};
use units::Ns;

/// Entries of one directory read: as many as fit the C library's buffer of 32 KiB with names of
/// eight characters, 32 bytes each.
const LISTED: u64 = 1_024;

impl Flow {
    /// Advances the operation of worker `index` and returns its next action.
    pub(super) fn want(&mut self, index: usize) -> Want {
        if self.workers[index].left.is_none() {
            let iters = self.op(index).iters;
            let worker = &mut self.workers[index];
            worker.left = Some(iters.draw(&mut worker.rng));
        }
        if self.workers[index].left == Some(0) {
            return Want::Done;
        }
        match self.op(index).kind {
            OpKind::OpenFile => self.open_picked(index),
            OpKind::CreateFile => self.create(index),
            OpKind::CloseFile => self.close(index),
            OpKind::DeleteFile => self.delete(index),
            OpKind::StatFile => self.stat(index),
            OpKind::Fsync => self.on_open(index, |fd| Call::Fsync { fd }),
            OpKind::FsyncSet => self.sync_set(index),
            OpKind::MakeDir => self.dir(index, true),
            OpKind::RemoveDir => self.dir(index, false),
            OpKind::ListDir => self.list(index),
            OpKind::ReadWholeFile => self.with_file(index, Self::read_whole),
            OpKind::WriteWholeFile => self.with_file(index, Self::write_whole),
            OpKind::AppendFile => self.with_file(index, Self::append),
            OpKind::AppendFileRand => self.with_file(index, Self::append),
            OpKind::Read => self.with_file(index, Self::read),
            OpKind::Write => self.with_file(index, Self::write),
            OpKind::AioWrite => self.with_file(index, Self::aio_write),
            OpKind::AioWait => self.aio_wait(index),
            OpKind::Hog => Want::Pause(Ns(self.value(index))),
            OpKind::Delay => Want::Pause(Ns(self.value(index).saturating_mul(1_000_000_000))),
            OpKind::SemBlock => self.take_tokens(index),
            OpKind::SemPost => self.post(index),
            OpKind::Block => self.block(index),
            OpKind::Wakeup => self.wake_targets(index),
            OpKind::EventLimit => self.event(),
            OpKind::OpsLimit | OpKind::IopsLimit | OpKind::BwLimit => Want::Done,
            OpKind::FinishOnCount => self.finish_on(index, |done| done.0),
            OpKind::FinishOnBytes => self.finish_on(index, |done| done.1),
        }
    }

    fn value(&mut self, index: usize) -> u64 {
        let value = self.op(index).value;
        value.draw(&mut self.workers[index].rng)
    }

    /// Descriptor of the operation, which stays until the operation ends.
    fn fd(&mut self, index: usize) -> u32 {
        let (fd, next) = (self.op(index).fd, self.op(index).opennext);
        let worker = &mut self.workers[index];
        if fd > 0 || !next {
            return fd;
        }
        *worker.chosen.get_or_insert_with(|| {
            if worker.rotor == 0 {
                worker.rotor = DESCRIPTORS - 1;
            }
            worker.rotor -= 1;
            worker.rotor
        })
    }

    fn open_picked(&mut self, index: usize) -> Want {
        let fd = self.fd(index);
        if self.workers[index].fds[fd as usize].is_some() {
            return self.fail(
                index,
                &format!("expected descriptor {fd} closed, found it open"),
            );
        }
        let searcher = self.op(index).opennext.then_some(index as u32);
        let Some(set) = self.op(index).fileset else {
            return self.fail(index, "expected an open descriptor or a set of files");
        };
        match self.sets[set].pool.pick_present(searcher) {
            Picked::One(file) => self.open_call(index, fd, set, file, true),
            Picked::Busy => Want::Set(set),
            Picked::None => Want::Nothing(set),
        }
    }

    fn create(&mut self, index: usize) -> Want {
        let fd = self.fd(index);
        if self.workers[index].fds[fd as usize].is_some() {
            return self.fail(
                index,
                &format!("expected descriptor {fd} closed, found it open"),
            );
        }
        let Some(set) = self.op(index).fileset else {
            return self.fail(index, "expected a set of files");
        };
        match self.sets[set].pool.pick_missing() {
            Picked::One(file) => self.open_call(index, fd, set, file, false),
            Picked::Busy => Want::Set(set),
            Picked::None => Want::Nothing(set),
        }
    }

    fn open_call(&self, index: usize, fd: u32, set: usize, file: u32, existed: bool) -> Want {
        let op = self.op(index);
        let flags = match self.sets[set].access {
            Access::Both => OpenFlags::READ.and(OpenFlags::WRITE),
            Access::ReadOnly => OpenFlags::READ,
            Access::WriteOnly => OpenFlags::WRITE,
        };
        let call = Call::Open {
            fd: self.workers[index].slot(fd),
            path: self.sets[set].files[file as usize].path,
            flags: flags
                .and_if(!existed, OpenFlags::CREATE)
                .and_if(op.dsync, OpenFlags::SYNC)
                .and_if(op.direct, OpenFlags::DIRECT),
            mode: FILE_MODE,
        };
        let flight = Flight::Open {
            fd,
            set,
            file,
            existed,
        };
        Want::Call(call, flight)
    }

    fn close(&mut self, index: usize) -> Want {
        let fd = self.fd(index);
        match self.workers[index].fds[fd as usize] {
            Some(_) => {
                let slot = self.workers[index].slot(fd);
                Want::Call(Call::Close { fd: slot }, Flight::Close { fd })
            }
            None => self.fail(
                index,
                &format!("expected descriptor {fd} open, found it closed"),
            ),
        }
    }

    /// Deletes the file of the descriptor, or picks one. A file with another open descriptor is
    /// kept.
    fn delete(&mut self, index: usize) -> Want {
        let fd = self.fd(index);
        let own = self.workers[index].fds[fd as usize].filter(|_| fd > 0);
        let (set, file) = match (own, self.op(index).fileset) {
            (Some(open), _) => (open.set, open.file),
            (None, None) => {
                return self.fail(index, "expected an open descriptor or a set of files");
            }
            (None, Some(set)) => match self.sets[set].pool.pick_present(None) {
                Picked::One(file) => (set, file),
                Picked::Busy => return Want::Set(set),
                Picked::None => return Want::Nothing(set),
            },
        };
        let pool = &mut self.sets[set].pool;
        if own.is_some() && !pool.pick_this(file) {
            return Want::Set(set);
        }
        if self.sets[set].files[file as usize].open > u32::from(own.is_some()) {
            self.sets[set].pool.give_back(file, true, true);
            self.changed(set);
            return Want::Done;
        }
        let path = self.sets[set].files[file as usize].path;
        let own = own.map(|_| fd);
        Want::Call(Call::Unlink { path }, Flight::Delete { set, file, own })
    }

    fn stat(&mut self, index: usize) -> Want {
        let fd = self.fd(index);
        if fd > 0 && self.workers[index].fds[fd as usize].is_some() {
            let of = Target::Open(self.workers[index].slot(fd));
            return Want::Call(Call::Stat { of }, Flight::Plain);
        }
        let Some(set) = self.op(index).fileset else {
            return self.fail(index, "expected an open descriptor or a set of files");
        };
        match self.sets[set].pool.pick_present(None) {
            Picked::One(file) => {
                let of = Target::Path(self.sets[set].files[file as usize].path);
                Want::Call(Call::Stat { of }, Flight::Stat { set, file })
            }
            Picked::Busy => Want::Set(set),
            Picked::None => Want::Nothing(set),
        }
    }

    fn on_open(&mut self, index: usize, call: impl Fn(Fd) -> Call) -> Want {
        let fd = self.fd(index);
        match self.workers[index].fds[fd as usize] {
            Some(_) => Want::Call(call(self.workers[index].slot(fd)), Flight::Plain),
            None => self.fail(
                index,
                &format!("expected descriptor {fd} open, found it closed"),
            ),
        }
    }

    fn sync_set(&mut self, index: usize) -> Want {
        let from = match self.workers[index].step {
            Step::Sync { fd } => fd,
            _ => 0,
        };
        let set = self.op(index).fileset;
        let worker = &self.workers[index];
        let fds = worker.fds.iter().enumerate().skip(from as usize);
        let mut open = fds.filter(|(_, open)| open.map(|o| o.set) == set && open.is_some());
        match open.next() {
            Some((fd, _)) => {
                let fd = fd as u32;
                let call = Call::Fsync {
                    fd: worker.slot(fd),
                };
                Want::Call(call, Flight::SyncOne { fd })
            }
            None => Want::Done,
        }
    }

    fn dir(&mut self, index: usize, makes: bool) -> Want {
        let Some(set) = self.op(index).fileset else {
            return self.fail(index, "expected a set of files");
        };
        let pool = &mut self.sets[set].leaf_pool;
        let picked = if makes {
            pool.pick_missing()
        } else {
            pool.pick_present(None)
        };
        let dir = match picked {
            Picked::One(dir) => dir,
            Picked::Busy => return Want::Set(set),
            Picked::None => return Want::Nothing(set),
        };
        let path = self.sets[set].leafdirs[dir as usize];
        let mode = DIR_MODE;
        let call = if makes {
            Call::Mkdir { path, mode }
        } else {
            Call::Rmdir { path }
        };
        Want::Call(call, Flight::Dir { set, dir, makes })
    }

    /// Opens the next directory, reads it to its end and closes it.
    fn list(&mut self, index: usize) -> Want {
        let worker = &self.workers[index];
        let fd = worker.slot(worker.fds.len() as u32);
        match worker.step {
            Step::Listing { more: true } => {
                let call = Call::Readdir {
                    fd,
                    entries: LISTED,
                };
                return Want::Call(call, Flight::ListRead);
            }
            Step::Listing { more: false } => {
                return Want::Call(Call::Close { fd }, Flight::Plain);
            }
            _ => {}
        }
        let Some(set) = self.op(index).fileset else {
            return self.fail(index, "expected a set of files");
        };
        let set = &mut self.sets[set];
        let path = set.dirs[set.dir_rotor];
        set.dir_rotor = (set.dir_rotor + 1) % set.dirs.len();
        let flags = OpenFlags::READ.and(OpenFlags::DIRECTORY);
        let mode = DIR_MODE;
        let call = Call::Open {
            fd,
            path,
            flags,
            mode,
        };
        Want::Call(call, Flight::ListOpen)
    }

    /// Opens a file if the descriptor is free, then runs `then` on it.
    fn with_file(
        &mut self,
        index: usize,
        then: fn(&mut Self, usize, u32, OpenFile) -> Want,
    ) -> Want {
        let fd = self.fd(index);
        match self.workers[index].fds[fd as usize] {
            Some(open) => then(self, index, fd, open),
            None => self.open_picked(index),
        }
    }

    /// Bytes of the file that requests use.
    fn workingset(&self, index: usize, open: OpenFile) -> u64 {
        match self.op(index).workingset {
            0 => self.sets[open.set].files[open.file as usize].size,
            bytes => bytes,
        }
    }

    fn iosize(&mut self, index: usize) -> u64 {
        let iosize = self.op(index).iosize;
        iosize.draw(&mut self.workers[index].rng)
    }

    /// Bytes of one request of a whole-file operation.
    fn chunk(&mut self, index: usize, open: OpenFile) -> u64 {
        match self.iosize(index) {
            0 => self.workingset(index, open).max(1),
            bytes => bytes,
        }
    }

    fn read_whole(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let at = whole(self.workers[index].step);
        let len = self.chunk(index, open);
        let fd = self.workers[index].slot(fd);
        Want::Call(Call::Pread { fd, at, len }, Flight::ReadWhole { at })
    }

    fn write_whole(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let at = whole(self.workers[index].step);
        let source = self.op(index).srcfd;
        let source = self.workers[index].fds[source as usize].filter(|_| source > 0);
        let size = match source {
            Some(from) => self.sets[from.set].files[from.file as usize].size,
            None => self.workingset(index, open),
        };
        let left = size.saturating_sub(at);
        if left == 0 {
            return Want::Done;
        }
        let len = self.chunk(index, open).min(left);
        self.grow(open, at + len);
        let fd = self.workers[index].slot(fd);
        let left = left - len;
        Want::Call(
            Call::Pwrite { fd, at, len },
            Flight::WriteWhole { at, left },
        )
    }

    fn append(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let mut len = self.iosize(index);
        if self.op(index).kind == OpKind::AppendFileRand {
            len = self.workers[index].rng.below(len.max(1));
        }
        if len == 0 {
            return Want::Done;
        }
        let at = self.sets[open.set].files[open.file as usize].len;
        self.write_at(index, fd, open, at, len)
    }

    fn write_at(&mut self, index: usize, fd: u32, open: OpenFile, at: u64, len: u64) -> Want {
        self.grow(open, at.saturating_add(len));
        let fd = self.workers[index].slot(fd);
        Want::Call(Call::Pwrite { fd, at, len }, Flight::Write { bytes: len })
    }

    fn grow(&mut self, open: OpenFile, end: u64) {
        let len = &mut self.sets[open.set].files[open.file as usize].len;
        *len = end.max(*len);
    }

    /// Offset of a request of `len` bytes: a random multiple of its length, or the end of the
    /// request before.
    fn place(&mut self, index: usize, open: OpenFile, len: u64) -> Result<u64, Want> {
        if !self.op(index).random {
            let used = self.op(index).workingset;
            let wraps = used > 0 && open.at.saturating_add(len) > used;
            return Ok(if wraps { 0 } else { open.at });
        }
        let room = self.workingset(index, open);
        let Some(rest) = room.checked_sub(len).filter(|_| len > 0) else {
            let expected = format!("expected a file of at least {len} bytes, found one of {room}");
            return Err(self.fail(index, &expected));
        };
        Ok(self.workers[index].rng.below(rest / len + 1) * len)
    }

    fn read(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let len = self.iosize(index);
        let at = match self.place(index, open, len) {
            Ok(at) => at,
            Err(fail) => return fail,
        };
        let moves = !self.op(index).random;
        let slot = self.workers[index].slot(fd);
        Want::Call(
            Call::Pread { fd: slot, at, len },
            Flight::Read { fd, moves },
        )
    }

    fn write(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let len = self.iosize(index);
        match self.place(index, open, len) {
            Ok(at) => {
                if let Some(open) = &mut self.workers[index].fds[fd as usize] {
                    open.at = at.saturating_add(len);
                }
                self.write_at(index, fd, open, at, len)
            }
            Err(fail) => fail,
        }
    }

    fn aio_write(&mut self, index: usize, fd: u32, open: OpenFile) -> Want {
        let len = self.iosize(index);
        let at = match self.place(index, open, len) {
            Ok(at) => at,
            Err(fail) => return fail,
        };
        self.grow(open, at.saturating_add(len));
        let process = self.workers[index].process;
        let queue = self.queues.iter().position(|q| q.process == process);
        let queue = queue.expect("a process with such an operation has one");
        let fd = self.workers[index].slot(fd);
        self.queues[queue].push(Job {
            owner: index,
            fd,
            at,
            len,
        });
        self.workers[index].aio.0 += 1;
        self.wake_helpers(queue);
        Want::Done
    }

    fn aio_wait(&mut self, index: usize) -> Want {
        let (begun, ended) = self.workers[index].aio;
        let wanted = match self.workers[index].step {
            Step::Reaping { ended } => ended,
            _ if begun == ended => return Want::Done,
            _ => ended + ((begun - ended) / 2).max(1),
        };
        if ended >= wanted {
            return Want::Done;
        }
        self.workers[index].step = Step::Reaping { ended: wanted };
        Want::Reap
    }

    fn finish_on(&self, index: usize, count: fn((u64, u64)) -> u64) -> Want {
        let op = self.op(index);
        let done = match &op.target {
            Some(target) => self.done_by(target),
            None => self.all_done,
        };
        match count(done) >= op.value.mean() {
            true => Want::Finish,
            false => Want::Done,
        }
    }

    fn done_by(&self, name: &str) -> (u64, u64) {
        let specs = self.program.threads.iter().zip(&self.done);
        let ops = specs.flat_map(|(spec, done)| spec.ops.iter().zip(done));
        let called = ops.filter(|(op, _)| op.name == name);
        called.fold((0, 0), |sum, (_, d)| (sum.0 + d.0, sum.1 + d.1))
    }

    fn fail(&self, index: usize, expected: &str) -> Want {
        let FlowOp { name, kind, .. } = self.op(index);
        Want::Fail(format!("{} {name}: {expected}", kind.word()))
    }
}

const fn whole(step: Step) -> u64 {
    match step {
        Step::Whole { at } => at,
        _ => 0,
    }
}
