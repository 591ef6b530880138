//! Execution of rare calls.

use super::act::Actor;
use super::drive::Drive;
use super::words;
use vfs::{Body, Errno, Result, SeekWhat, SetAttr, SetTime, Whence};
use workload::files::{Call, Fd, MsyncHow, Name, Source, Target};

/// The id of a user or group that means no change.
const SAME: u32 = u32::MAX;

impl<B: Body, S: Source + 'static> Drive<B, S> {
    /// Executes calls that change or read names.
    pub(super) async fn act_rarely(&self, actor: &mut Actor<B>, call: &Call) -> Result<u64> {
        let process = &actor.process;
        let path = &mut actor.path;
        let done = match *call {
            Call::Mkdir { path: at, mode } => {
                self.spell(at, path);
                process.mkdir(path, mode.0).await
            }
            Call::Rmdir { path: at } => {
                self.spell(at, path);
                process.rmdir(path).await
            }
            Call::Mknod {
                path: at,
                kind,
                mode,
            } => {
                self.spell(at, path);
                process.mknod(path, words::kind(kind), mode.0, 0).await
            }
            Call::Rename { from, to, how } => {
                self.spell(from, path);
                let flags = words::rename(how).ok_or(Errno::EINVAL)?;
                process.rename(path, &self.spelled(to), flags).await
            }
            Call::Symlink { target, path: at } => {
                self.spell(at, path);
                let target = self.source.borrow().names().bytes(target).to_vec();
                process.symlink(&target, path).await
            }
            Call::Readlink { path: at } => {
                self.spell(at, path);
                process.readlink(path).await.map(drop)
            }
            Call::Link {
                of: Target::Open(fd),
                to,
            } => {
                let open = self.open_in(fd)?;
                open.process.link_fd(open.fd, &self.spelled(to)).await
            }
            Call::Link {
                of: Target::Path(at) | Target::Link(at),
                to,
            } => {
                self.spell(at, path);
                process.link(path, &self.spelled(to)).await
            }
            Call::Sync {} => process.sync().await,
            ref other => return self.act_on_attributes(actor, other).await,
        };
        done.map(|()| 0)
    }

    fn spelled(&self, name: Name) -> Vec<u8> {
        let mut path = Vec::new();
        self.spell(name, &mut path);
        path
    }

    /// Executes calls that read or set attributes.
    async fn act_on_attributes(&self, actor: &mut Actor<B>, call: &Call) -> Result<u64> {
        let (process, path) = (&actor.process, &mut actor.path);
        let of = match *call {
            Call::Stat { of }
            | Call::Access { of, .. }
            | Call::StatFs { of }
            | Call::Truncate { of, .. }
            | Call::Chmod { of, .. }
            | Call::Chown { of, .. }
            | Call::Utimens { of } => of,
            ref other => return self.act_on_xattrs(actor, other).await,
        };
        let (open, follow) = match of {
            Target::Open(fd) => (Some(self.open_in(fd)?), true),
            Target::Path(name) | Target::Link(name) => {
                self.spell(name, path);
                (None, matches!(of, Target::Path(_)))
            }
        };
        let set = set_of(call);
        let done = match (*call, &open) {
            (Call::Stat { .. }, Some(open)) => open.process.fstat(open.fd).await.map(drop),
            (Call::Stat { .. }, None) if follow => process.stat(path).await.map(drop),
            (Call::Stat { .. }, None) => process.lstat(path).await.map(drop),
            (Call::StatFs { .. }, _) => process.vfs().statfs().await.map(drop),
            (Call::Access { mode, .. }, Some(open)) => {
                let ino = open.process.ino(open.fd)?;
                process.vfs().access(process.access(), ino, mode.0).await
            }
            (Call::Access { mode, .. }, None) => process.may(path, mode.0).await,
            (Call::Truncate { len, .. }, Some(open)) => open.process.ftruncate(open.fd, len).await,
            (Call::Truncate { len, .. }, None) => process.truncate(path, len).await,
            (_, Some(open)) => open.process.fset(open.fd, set).await,
            (Call::Chmod { mode, .. }, None) => process.chmod(path, mode.0).await,
            (Call::Chown { .. }, None) => process.chown(path, set.uid, set.gid, follow).await,
            (_, None) => process.utimens(path, set.atime, set.mtime, follow).await,
        };
        done.map(|()| 0)
    }

    /// Executes calls on extended attributes.
    async fn act_on_xattrs(&self, actor: &mut Actor<B>, call: &Call) -> Result<u64> {
        let (of, name) = match *call {
            Call::GetXattr { of, name, .. }
            | Call::SetXattr { of, name, .. }
            | Call::RemoveXattr { of, name } => (of, name),
            Call::ListXattr { of, .. } => (of, Name::ROOT),
            ref other => return self.act_on_open(other).await,
        };
        let ino = match of {
            Target::Open(fd) => {
                let open = self.open_in(fd)?;
                open.process.ino(open.fd)?
            }
            Target::Path(at) | Target::Link(at) => {
                self.spell(at, &mut actor.path);
                let (process, path) = (&actor.process, &actor.path);
                let fd = match of {
                    Target::Path(_) => process.open(path, vfs::OpenFlags::PATH, 0).await?,
                    _ => {
                        let flags = vfs::OpenFlags::PATH | vfs::OpenFlags::NO_FOLLOW;
                        process.open(path, flags, 0).await?
                    }
                };
                let ino = process.ino(fd);
                process.close(fd).await?;
                ino?
            }
        };
        let name = self.source.borrow().names().bytes(name).to_vec();
        let (vfs, who) = (actor.process.vfs(), actor.process.access());
        match *call {
            Call::GetXattr { len, .. } => fits(vfs.get_xattr(who, ino, &name).await?.len(), len),
            Call::ListXattr { len, .. } => {
                let names = vfs.list_xattrs(who, ino).await?;
                fits(names.iter().map(|name| name.len() + 1).sum(), len)
            }
            Call::SetXattr { len, how, .. } => {
                // Every file system rejects longer values.
                let value = vec![b'x'; len.min(1 << 17) as usize];
                let flags = words::xattr(how);
                vfs.set_xattr(who, ino, &name, &value, flags)
                    .await
                    .map(|()| 0)
            }
            _ => vfs.remove_xattr(who, ino, &name).await.map(|()| 0),
        }
    }

    /// Executes calls on an open file that return a count.
    async fn act_on_open(&self, call: &Call) -> Result<u64> {
        match *call {
            Call::SeekData { fd, at } => self.seek(fd, at, SeekWhat::Data).await,
            Call::SeekHole { fd, at } => self.seek(fd, at, SeekWhat::Hole).await,
            Call::Readdir { fd, entries } => {
                let open = self.open_in(fd)?;
                let most = usize::try_from(entries).unwrap_or(usize::MAX);
                let list = open.process.read_dir(open.fd, most).await?;
                Ok(list.len() as u64)
            }
            Call::Load { fd, at, len } => {
                let open = self.open_in(fd)?;
                let handle = open.process.handle(open.fd)?;
                let vfs = open.process.vfs();
                vfs.map_read(&handle, at, len, &mut ()).await
            }
            Call::Store { fd, at, len } => {
                let open = self.open_in(fd)?;
                let handle = open.process.handle(open.fd)?;
                let data = self.slots.borrow_mut().next_data(open.file, at, len);
                open.process.vfs().map_write(&handle, at, data).await
            }
            Call::CopyRange {
                from,
                from_at,
                to,
                to_at,
                len,
            } => {
                let (from, to) = (self.open_in(from)?, self.open_in(to)?);
                let (source, target) = (from.process.handle(from.fd)?, to.process.handle(to.fd)?);
                let vfs = from.process.vfs();
                vfs.copy_range(&source, from_at, &target, to_at, len).await
            }
            ref other => self.act_plainly(other).await.map(|()| 0),
        }
    }

    async fn seek(&self, slot: Fd, at: u64, what: SeekWhat) -> Result<u64> {
        let open = self.open_in(slot)?;
        let handle = open.process.handle(open.fd)?;
        open.process.vfs().seek(&handle, at, what).await
    }

    /// Executes calls on an open file that return nothing.
    async fn act_plainly(&self, call: &Call) -> Result<()> {
        let (Call::SyncRange { fd, .. }
        | Call::SyncFs { fd }
        | Call::Fallocate { fd, .. }
        | Call::Rewinddir { fd }
        | Call::Flock { fd, .. }
        | Call::RecordLock { fd, .. }
        | Call::Advise { fd, .. }
        | Call::Hint { fd, .. }
        | Call::Msync { fd, .. }) = *call
        else {
            return Err(Errno::ENOSYS);
        };
        let open = self.open_in(fd)?;
        let (process, fd) = (&open.process, open.fd);
        let (vfs, handle) = (process.vfs(), process.handle(fd)?);
        match *call {
            Call::SyncRange { at, len, .. } => vfs.sync_range(&handle, at, len).await,
            Call::SyncFs { .. } => process.syncfs(fd).await,
            Call::Fallocate { how, at, len, .. } => {
                let mode = words::allocation(how).ok_or(Errno::EOPNOTSUPP)?;
                process.fallocate(fd, mode, at, len).await
            }
            Call::Rewinddir { .. } => process.lseek(fd, Whence::Start(0)).await.map(drop),
            Call::Flock { lock, wait, .. } => process.flock(fd, words::lock(lock), wait).await,
            Call::RecordLock {
                lock,
                at,
                len,
                wait,
                ..
            } => process.lock(fd, words::lock(lock), at, len, wait).await,
            Call::Advise {
                advice, at, len, ..
            } => vfs.advise(&handle, at, len, words::advice(advice)).await,
            Call::Hint { life, .. } => process.set_hint(fd, life),
            Call::Msync {
                how: MsyncHow::Sync,
                ..
            } => process.fdatasync(fd).await,
            _ => Ok(()),
        }
    }
}

/// The attributes that a call sets.
fn set_of(call: &Call) -> SetAttr {
    let given = |id: u32| (id != SAME).then_some(id);
    match *call {
        Call::Chmod { mode, .. } => SetAttr {
            mode: Some(mode.0),
            ..SetAttr::default()
        },
        Call::Chown { uid, gid, .. } => SetAttr {
            uid: given(uid),
            gid: given(gid),
            ..SetAttr::default()
        },
        Call::Utimens { .. } => SetAttr {
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        },
        _ => SetAttr::default(),
    }
}

/// `bytes` if they fit into `room`, where 0 means unlimited.
fn fits(bytes: usize, room: u64) -> Result<u64> {
    let bytes = bytes as u64;
    match room {
        0 => Ok(bytes),
        room if bytes <= room => Ok(bytes),
        _ => Err(Errno::ERANGE),
    }
}
