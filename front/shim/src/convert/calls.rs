//! Turns raw records into calls of the trace.

use super::ConvertError;
use super::maps::{Mapping, Part};
use super::process::{OpenFile, Slot};
use super::resolve::{Resolver, Who};
use super::spool::Said;
use super::translate::{
    ADVICE, LOCKS, allocation, bounded, choice, descriptor_path, flags, flock, mode, node_kind,
    range_sync, rename_how,
};
use crate::wire::{Info, Op};
use std::io::Write;
use workload::files::{Call, Fd, Hint, MsyncHow, OpenFlags, RenameHow, Target, XattrHow};

type Done = Result<(), ConvertError>;

impl<W: Write> Resolver<W> {
    /// Dispatches one record of a call to the method for its operation.
    pub(super) fn call(&mut self, who: &Who, said: &Said) -> Done {
        match said.head.op {
            Op::Found => self.found(who, said),
            Op::Open => self.open(who, said),
            Op::Close => self.close(who, said.head.fd),
            Op::CloseRange => self.close_range(who, said),
            Op::Dup => self.dup(who, said),
            Op::Map | Op::Unmap | Op::Remap | Op::Msync | Op::Touched => self.memory(who, said),
            Op::Sync => self.emit(who, Call::Sync {}, 0),
            Op::Rename => self.rename(who, said),
            Op::Link => self.link(who, said),
            Op::Unlink | Op::Rmdir | Op::Mkdir | Op::Mknod | Op::Symlink => self.entry(who, said),
            Op::Chdir | Op::Fchdir => {
                self.folder(who, said);
                Ok(())
            }
            Op::CopyRange => self.copy(who, said),
            Op::Readlink
            | Op::Stat
            | Op::Access
            | Op::StatFs
            | Op::Truncate
            | Op::Chmod
            | Op::Chown
            | Op::Utimens
            | Op::GetXattr
            | Op::SetXattr
            | Op::ListXattr
            | Op::RemoveXattr => self.at_path(who, said),
            _ => self.at_descriptor(who, said),
        }
    }

    fn open(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let path = self.path(who, head.fd, &said.s1);
        let flags = flags(head.flags as i32, true);
        let failed = head.result < 0;
        let there = head.b == 1;
        let temporary = flags.has(OpenFlags::TMPFILE);
        let made = !failed && !there && flags.has(OpenFlags::CREATE) && !temporary;
        match said.infos[0] {
            _ if temporary => self.tree.saw_folders(&[&path[..], b"/x"].concat()),
            _ if made => self.tree.made(&path, false),
            Some(info) if !failed || there => self.tree.saw(&path, info, b""),
            _ => {}
        }
        if made || !failed && flags.has(OpenFlags::WRITE) {
            self.changed(if temporary { &said.s1 } else { &path });
        }
        let call = Call::Open {
            fd: Fd(self.files.next()),
            path: self.name(&path),
            flags,
            mode: mode(head.a),
        };
        self.emit(who, call, head.result.min(0))?;
        let (Ok(fd), false) = (i32::try_from(head.result), failed) else {
            return Ok(());
        };
        let info = said.infos[0].unwrap_or_default();
        let slot = self.files.open(OpenFile {
            path,
            append: flags.has(OpenFlags::APPEND),
            identity: (info.device, info.inode),
            ..OpenFile::default()
        });
        self.set(who, fd, slot)
    }

    fn close(&mut self, who: &Who, fd: i32) -> Done {
        let open = self.processes[who.process].descriptors.remove(&fd);
        open.map_or(Ok(()), |slot| self.release(who, slot))
    }

    fn close_range(&mut self, who: &Who, said: &Said) -> Done {
        let within =
            |fd: &i32| u64::try_from(*fd).is_ok_and(|fd| said.head.a <= fd && fd <= said.head.b);
        let open = self.processes[who.process].descriptors.keys();
        let closed: Vec<_> = open.copied().filter(within).collect();
        closed.into_iter().try_for_each(|fd| self.close(who, fd))
    }

    fn dup(&mut self, who: &Who, said: &Said) -> Done {
        let Ok(copy) = i32::try_from(said.head.result) else {
            return Ok(());
        };
        if copy < 0 || copy == said.head.fd {
            return Ok(());
        }
        let open = self.processes[who.process].descriptors.get(&said.head.fd);
        match open.copied() {
            Some(slot) if said.head.a == 1 => {
                self.files.share(slot);
                self.set(who, copy, slot)
            }
            _ => self.close(who, copy),
        }
    }

    fn folder(&mut self, who: &Who, said: &Said) {
        if said.head.result < 0 {
            return;
        }
        let folder = match said.head.op {
            Op::Fchdir => self.path(who, said.head.fd, b""),
            _ => self.path(who, libc::AT_FDCWD, &said.s1),
        };
        self.processes[who.process].folder = folder;
    }

    fn rename(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let from = self.path(who, head.fd, &said.s1);
        let to = self.path(who, head.fd2, &said.s2);
        let there = said.infos.map(|info| info.filter(|info| info.mode != 0));
        for (path, info) in [(&from, there[0]), (&to, there[1])] {
            if let Some(info) = info {
                self.tree.saw(path, info, b"");
            }
        }
        let how = rename_how(head.flags);
        let call = Call::Rename {
            from: self.name(&from),
            to: self.name(&to),
            how,
        };
        self.emit(who, call, head.result)?;
        if head.result == 0 && from != to {
            self.changed(&from);
            self.changed(&to);
            let folder = |info: Info| info.mode & libc::S_IFMT == libc::S_IFDIR;
            if how != RenameHow::Exchange {
                let folder = there[0].is_some_and(folder);
                self.tree.renamed(&from, &to, folder);
                self.moved(&from, &to);
            }
        }
        Ok(())
    }

    fn link(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let to = self.path(who, head.fd2, &said.s2);
        let mut linked = None;
        let of = match descriptor_path(said) {
            Some(fd) => self.slot(who, fd).map(|slot| Target::Open(Fd(slot))),
            None => {
                let from = self.path(who, head.fd, &said.s1);
                if let Some(info) = said.infos[0] {
                    self.tree.saw(&from, info, b"");
                }
                let name = self.name(&from);
                linked = Some(from);
                Some(match head.flags as i32 & libc::AT_SYMLINK_FOLLOW {
                    0 => Target::Link(name),
                    _ => Target::Path(name),
                })
            }
        };
        if head.result == 0 {
            self.tree.made(&to, false);
            self.changed(&to);
            // The link count of the old name changed: without this folder in the trace, the new
            // name would lead nowhere.
            if let Some(from) = &linked {
                self.changed(from);
            }
        }
        let to = self.name(&to);
        of.map_or(Ok(()), |of| {
            self.emit(who, Call::Link { of, to }, head.result)
        })
    }

    /// Handles a record that makes or removes a directory entry.
    fn entry(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let path = self.path(who, head.fd, &said.s1);
        if let Some(info) = said.infos[0] {
            self.tree.saw(&path, info, b"");
        }
        if head.result >= 0 {
            self.changed(&path);
            match head.op {
                Op::Unlink | Op::Rmdir => self.tree.gone(&path),
                op => self.tree.made(&path, op == Op::Symlink),
            }
        }
        let path = self.name(&path);
        let mode = mode(head.a);
        let call = match head.op {
            Op::Unlink => Call::Unlink { path },
            Op::Rmdir => Call::Rmdir { path },
            Op::Mkdir => Call::Mkdir { path, mode },
            Op::Mknod => Call::Mknod {
                path,
                kind: node_kind(head.a),
                mode,
            },
            _ => Call::Symlink {
                target: self.name(&said.s2),
                path,
            },
        };
        self.emit(who, call, head.result)
    }

    /// Handles a call on the attributes of the file at a path.
    fn at_path(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let path = self.path(who, head.fd, &said.s1);
        match said.infos[0] {
            Some(info) => self.tree.saw(&path, info, b""),
            None if head.op == Op::Readlink && head.result >= 0 => {
                let info = Info {
                    mode: libc::S_IFLNK | 0o777,
                    ..Info::default()
                };
                self.tree.saw(&path, info, &said.s2);
            }
            None => {}
        }
        let changes = matches!(
            head.op,
            Op::Truncate | Op::Chmod | Op::Chown | Op::Utimens | Op::SetXattr | Op::RemoveXattr
        );
        if changes && head.result >= 0 {
            self.changed(&path);
        }
        let name = self.name(&path);
        let of = match head.flags as i32 & libc::AT_SYMLINK_NOFOLLOW {
            0 => Target::Path(name),
            _ => Target::Link(name),
        };
        let call = match head.op {
            Op::Readlink => Call::Readlink { path: name },
            _ => self.attributes(said, of),
        };
        self.emit(who, call, head.result)
    }

    fn attributes(&mut self, said: &Said, of: Target) -> Call {
        let head = &said.head;
        let name = self.name(&said.s2);
        let len = bounded(head.a);
        match head.op {
            Op::Access => Call::Access {
                of,
                mode: mode(head.a),
            },
            Op::StatFs | Op::FstatFs => Call::StatFs { of },
            Op::Truncate | Op::Ftruncate => Call::Truncate { of, len },
            Op::Chmod | Op::Fchmod => Call::Chmod {
                of,
                mode: mode(head.a),
            },
            Op::Chown | Op::Fchown => Call::Chown {
                of,
                uid: head.a as u32,
                gid: head.b as u32,
            },
            Op::Utimens | Op::Futimens => Call::Utimens { of },
            Op::GetXattr | Op::FgetXattr => Call::GetXattr { of, name, len },
            Op::SetXattr | Op::FsetXattr => Call::SetXattr {
                of,
                name,
                len,
                how: choice(XattrHow::ALL, head.b),
            },
            Op::ListXattr | Op::FlistXattr => Call::ListXattr { of, len },
            Op::RemoveXattr | Op::FremoveXattr => Call::RemoveXattr { of, name },
            _ => Call::Stat { of },
        }
    }

    /// Handles a call on an open file; drops it if the descriptor is unknown.
    fn at_descriptor(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let Some(slot) = self.slot(who, head.fd) else {
            return Ok(());
        };
        match head.op {
            Op::Read | Op::Write => self.sequential(who, said, slot),
            Op::Seek => self.seek(who, said, slot),
            Op::SetFlags => {
                let append = head.flags as i32 & libc::O_APPEND != 0;
                if head.result >= 0 {
                    self.files.get_mut(slot).append = append;
                }
                Ok(())
            }
            _ => {
                let call = self.plain(said, slot);
                self.emit(who, call, head.result)
            }
        }
    }

    /// Handles a read or write at the offset of the open file. All but appending writes are emitted
    /// with that offset made explicit.
    fn sequential(&mut self, who: &Who, said: &Said, slot: Slot) -> Done {
        let head = &said.head;
        let (fd, len) = (Fd(slot), bounded(head.a));
        let file = self.files.get_mut(slot);
        let at = bounded(file.offset);
        let moved = u64::try_from(head.result).unwrap_or(0);
        file.offset = file.offset.saturating_add(moved);
        let call = match head.op {
            Op::Read => Call::Pread { fd, at, len },
            _ if file.append => Call::Write { fd, len },
            _ => Call::Pwrite { fd, at, len },
        };
        self.emit(who, call, head.result)
    }

    fn seek(&mut self, who: &Who, said: &Said, slot: Slot) -> Done {
        let head = &said.head;
        if let Ok(offset) = u64::try_from(head.result) {
            self.files.get_mut(slot).offset = offset;
        }
        let (fd, at) = (Fd(slot), bounded(head.a));
        match head.b as i32 {
            libc::SEEK_DATA => self.emit(who, Call::SeekData { fd, at }, head.result),
            libc::SEEK_HOLE => self.emit(who, Call::SeekHole { fd, at }, head.result),
            _ => Ok(()),
        }
    }

    /// Builds a call whose fields are those of the record.
    fn plain(&mut self, said: &Said, slot: Slot) -> Call {
        let head = &said.head;
        let fd = Fd(slot);
        let (a, b) = (bounded(head.a), bounded(head.b));
        match head.op {
            Op::Pread => Call::Pread { fd, at: b, len: a },
            Op::Pwrite => Call::Pwrite { fd, at: b, len: a },
            Op::Fsync => Call::Fsync { fd },
            Op::Fdatasync => Call::Fdatasync { fd },
            Op::SyncFs => Call::SyncFs { fd },
            Op::SyncRange => Call::SyncRange {
                fd,
                at: a,
                len: b,
                how: range_sync(head.flags),
            },
            Op::Fallocate => Call::Fallocate {
                fd,
                how: allocation(head.flags),
                at: a,
                len: b,
            },
            Op::Readdir => Call::Readdir { fd, entries: a },
            Op::Rewind => Call::Rewinddir { fd },
            Op::Flock => flock(fd, head.flags as i32),
            Op::RecordLock => self.record_lock(said, slot),
            Op::Advise => Call::Advise {
                fd,
                advice: choice(&ADVICE, head.c),
                at: a,
                len: b,
            },
            Op::Hint => Call::Hint {
                fd,
                // Programs such as RocksDB pass four bytes where the kernel reads eight. Linux
                // before 6.9 looks at those four, later versions refuse garbage in the other four;
                // the intended lifetime is the same either way.
                life: choice(&Hint::ALL, head.a),
            },
            _ => self.attributes(said, Target::Open(fd)),
        }
    }

    fn record_lock(&self, said: &Said, slot: Slot) -> Call {
        let head = &said.head;
        let from = match head.fd2 {
            libc::SEEK_CUR => self.files.get(slot).offset,
            _ => 0,
        };
        Call::RecordLock {
            fd: Fd(slot),
            lock: choice(&LOCKS, head.c),
            at: bounded(from.saturating_add(head.a)),
            len: bounded(head.b),
            wait: head.flags == 1,
        }
    }

    fn copy(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let (Some(from), Some(to)) = (self.slot(who, head.fd), self.slot(who, head.fd2)) else {
            return Ok(());
        };
        let moved = u64::try_from(head.result).unwrap_or(0);
        let mut at = |slot: Slot, given: u64| match given {
            u64::MAX => {
                let file = self.files.get_mut(slot);
                let at = file.offset;
                file.offset = at.saturating_add(moved);
                bounded(at)
            }
            given => bounded(given),
        };
        let call = Call::CopyRange {
            from: Fd(from),
            from_at: at(from, head.b),
            to: Fd(to),
            to_at: at(to, head.c),
            len: bounded(head.a),
        };
        self.emit(who, call, head.result)
    }

    fn memory(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        match head.op {
            Op::Map => self.map(who, said),
            Op::Unmap => self.unmap(who, head.a, head.b),
            Op::Remap => self.remap(who, said),
            Op::Touched => self.each_part(who, head.a, head.b, |fd, part| {
                Some(match part.shared {
                    true => Call::Store {
                        fd,
                        at: part.offset,
                        len: part.len,
                    },
                    false => Call::Load {
                        fd,
                        at: part.offset,
                        len: part.len,
                    },
                })
            }),
            _ => {
                let waits = head.flags as i32 & libc::MS_SYNC != 0;
                let how = if waits {
                    MsyncHow::Sync
                } else {
                    MsyncHow::Async
                };
                self.each_part(who, head.a, head.b, |fd, part| {
                    part.shared.then_some(Call::Msync {
                        fd,
                        at: part.offset,
                        len: part.len,
                        how,
                    })
                })
            }
        }
    }

    /// Emits a call for each part of a file that is mapped in a range of memory.
    fn each_part(
        &mut self,
        who: &Who,
        start: u64,
        len: u64,
        call: impl Fn(Fd, Part) -> Option<Call>,
    ) -> Done {
        let mappings = &self.processes[who.process].mappings;
        let parts = mappings.iter().filter_map(|it| it.part(start, len));
        let calls: Vec<_> = parts.filter_map(|it| call(Fd(it.slot), it)).collect();
        calls
            .into_iter()
            .try_for_each(|call| self.emit(who, call, 0))
    }

    fn map(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let (Ok(start), Some(slot)) = (u64::try_from(head.result), self.slot(who, head.fd)) else {
            return Ok(());
        };
        // MAP_FIXED may have replaced another mapping.
        self.unmap(who, start, head.a)?;
        let shared = head.flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
        self.files.share(slot);
        self.processes[who.process].mappings.push(Mapping {
            start,
            len: head.a,
            slot,
            offset: bounded(head.b),
            shared: shared && head.c as i32 & libc::PROT_WRITE != 0,
        });
        Ok(())
    }

    fn unmap(&mut self, who: &Who, start: u64, len: u64) -> Done {
        let mappings = std::mem::take(&mut self.processes[who.process].mappings);
        for mapping in mappings {
            let left = mapping.without(start, len);
            let count = left.iter().flatten().count();
            (1..count).for_each(|_| self.files.share(mapping.slot));
            let kept = &mut self.processes[who.process].mappings;
            kept.extend(left.into_iter().flatten());
            if count == 0 {
                self.release(who, mapping.slot)?;
            }
        }
        Ok(())
    }

    fn remap(&mut self, who: &Who, said: &Said) -> Done {
        let head = &said.head;
        let Ok(to) = u64::try_from(head.result) else {
            return Ok(());
        };
        let mappings = &self.processes[who.process].mappings;
        let Some(moved) = mappings.iter().find(|it| it.start == head.a).copied() else {
            return Ok(());
        };
        self.files.share(moved.slot);
        self.unmap(who, head.a, head.b)?;
        self.processes[who.process].mappings.push(Mapping {
            start: to,
            len: head.c,
            ..moved
        });
        Ok(())
    }
}
