//! Execution of one call.
//!
//! Frequent calls are handled here; rare ones are boxed, so that the task of a thread stays small.

use super::drive::Drive;
use super::slots::Open;
use super::words;
use std::rc::Rc;
use vfs::{Body, Errno, OpenFlags, Process, Result};
use workload::files::{Call, Fd, Name, Source, Target};

/// The state of a thread between calls.
pub(super) struct Actor<B: Body> {
    pub(super) process: Rc<Process<B>>,
    /// Path of the current call.
    pub(super) path: Vec<u8>,
}

impl<B: Body, S: Source + 'static> Drive<B, S> {
    /// The open file in `slot`.
    pub(super) fn open_in(&self, slot: Fd) -> Result<Open<B>> {
        self.slots.borrow().get(slot).ok_or(Errno::EBADF)
    }

    /// Writes the path of `name` to `path`; an empty one becomes the root.
    pub(super) fn spell(&self, name: Name, path: &mut Vec<u8>) {
        path.clear();
        path.extend(self.source.borrow().names().bytes(name));
        if path.is_empty() {
            path.push(b'/');
        }
    }

    /// Executes `call`, and returns its result as recordings count it.
    pub(super) async fn act(&self, actor: &mut Actor<B>, call: &Call) -> Result<u64> {
        match *call {
            Call::Open {
                fd,
                path,
                flags,
                mode,
            } => {
                self.spell(path, &mut actor.path);
                let flags = words::open_flags(flags);
                self.open(actor, fd, path, flags, mode.0).await
            }
            Call::Close { fd } => {
                let open = self.slots.borrow_mut().take(fd).ok_or(Errno::EBADF)?;
                open.process.close(open.fd).await.map(|()| 0)
            }
            Call::Read { fd, len } => {
                let open = self.open_in(fd)?;
                open.process.read(open.fd, len, &mut ()).await
            }
            Call::Pread { fd, at, len } => {
                let open = self.open_in(fd)?;
                open.process.pread(open.fd, at, len, &mut ()).await
            }
            Call::Write { fd, len } => {
                let open = self.open_in(fd)?;
                let data = self.slots.borrow_mut().next_data(open.file, 0, len);
                open.process.write(open.fd, data).await
            }
            Call::Pwrite { fd, at, len } => {
                let open = self.open_in(fd)?;
                let data = self.slots.borrow_mut().next_data(open.file, at, len);
                open.process.pwrite(open.fd, at, data).await
            }
            Call::Fsync { fd } => {
                let open = self.open_in(fd)?;
                open.process.fsync(open.fd).await.map(|()| 0)
            }
            Call::Fdatasync { fd } => {
                let open = self.open_in(fd)?;
                open.process.fdatasync(open.fd).await.map(|()| 0)
            }
            Call::Unlink { path } => {
                self.spell(path, &mut actor.path);
                actor.process.unlink(&actor.path).await.map(|()| 0)
            }
            Call::Stat {
                of: Target::Path(path),
            } => {
                self.spell(path, &mut actor.path);
                actor.process.stat(&actor.path).await.map(|_| 0)
            }
            ref rare => Box::pin(self.act_rarely(actor, rare)).await,
        }
    }

    /// Opens a file into `slot`; if the slot is taken, the file is closed again.
    async fn open(
        &self,
        actor: &Actor<B>,
        slot: Fd,
        file: Name,
        flags: OpenFlags,
        mode: u16,
    ) -> Result<u64> {
        let process = &actor.process;
        let fd = process.open(&actor.path, flags, mode).await?;
        if flags.has(OpenFlags::WRITE) {
            let origin = self.origins.borrow_mut().of(file, &actor.path);
            process.vfs().set_origin(process.ino(fd)?, origin).await?;
        }
        let open = Open {
            process: Rc::clone(process),
            fd,
            file,
        };
        let put = self.slots.borrow_mut().put(slot, open);
        match put {
            Ok(()) => Ok(0),
            Err(open) => {
                open.process.close(open.fd).await?;
                Err(Errno::EMFILE)
            }
        }
    }
}
