//! The recorder: a body that wraps a file system, and an observer of the file API.

use super::{Call, Name, Owned, Recording};
use nand::Payload;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use units::Refusals;
use vfs::{
    Access, Act, Attr, Body, Change, DirEntry, DirtyPage, Errno, FallocateMode, Ino, Inode,
    NewInode, Observer, Rename, Result, SeekWhat, Source, StatFs, TimeRange, Timestamp, XattrFlags,
};

/// Recorded calls of a mount. Writes of patterns ([`Source::Fill`]) are left out: programs write
/// bytes.
pub struct Tape {
    calls: RefCell<Vec<Call>>,
    /// Calls on contents that have begun and not ended, by their number.
    begun: RefCell<BTreeMap<u64, Call>>,
    numbers: Cell<u64>,
    /// Permissions and owner of the files in use.
    owned: RefCell<BTreeMap<Ino, Owned>>,
    /// Source of the output that the program has printed since the last call of it.
    printed: Box<dyn Fn() -> Vec<u8>>,
}

fn owned(attr: &Attr) -> Owned {
    let (mode, uid, gid) = (attr.mode, attr.uid, attr.gid);
    Owned { mode, uid, gid }
}

impl Tape {
    /// An empty tape. `printed` returns the program's output since it was last called.
    #[must_use]
    pub fn new(printed: impl Fn() -> Vec<u8> + 'static) -> Self {
        Self {
            calls: RefCell::default(),
            begun: RefCell::default(),
            numbers: Cell::new(0),
            owned: RefCell::default(),
            printed: Box::new(printed),
        }
    }

    /// Takes the calls recorded so far on a file system with the root `root`.
    pub fn take(&self, root: Ino) -> Recording {
        self.hear();
        Recording {
            root,
            calls: self.calls.take(),
        }
    }

    /// Records the output that was printed before this instant.
    fn hear(&self) {
        let output = (self.printed)();
        if !output.is_empty() {
            self.calls.borrow_mut().push(Call::Print(output));
        }
    }

    fn push(&self, call: Call) {
        self.calls.borrow_mut().push(call);
    }

    fn know(&self, ino: Ino, attr: &Attr) {
        self.owned.borrow_mut().insert(ino, owned(attr));
    }

    /// Drops the change of size that the file API announces for an allocation.
    fn drop_resize(&self, of: Ino) {
        let is_it = |call: &Call| matches!(call, Call::Resize { ino, .. } if *ino == of);
        self.begun.borrow_mut().retain(|_, call| !is_it(call));
    }
}

impl Observer for Tape {
    fn begins(&self, act: &Act<'_>) -> u64 {
        self.hear();
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        if let Some(call) = call_of(act) {
            self.begun.borrow_mut().insert(number, call);
        }
        number
    }

    fn ends(&self, number: u64, done: Option<u64>) {
        let begun = self.begun.borrow_mut().remove(&number);
        let (Some(mut call), Some(done)) = (begun, done) else {
            return;
        };
        match &mut call {
            Call::Write { bytes, .. } => bytes.truncate(done as usize),
            Call::Share { .. } if done == 0 => return,
            _ => {}
        }
        self.push(call);
    }

    fn gave_up(&self, _: Ino, _: Range<u64>) {}
}

/// The call that an act is; `None` for parts of an allocation, which the recorder sees itself.
fn call_of(act: &Act<'_>) -> Option<Call> {
    Some(match act {
        Act::Write {
            ino,
            offset,
            source: Source::Bytes(bytes),
        } => Call::Write {
            ino: *ino,
            offset: *offset,
            bytes: bytes.to_vec(),
        },
        Act::Write { .. } | Act::Zero { .. } => return None,
        Act::Resize { ino, size } => Call::Resize {
            ino: *ino,
            size: *size,
        },
        Act::Share {
            from,
            span,
            to,
            place,
        } => Call::Share {
            from: *from,
            span: span.clone(),
            to: *to,
            place: *place,
        },
        Act::Force { ino, data_only, .. } => Call::Force {
            ino: *ino,
            data_only: *data_only,
        },
        Act::ForceAll => Call::ForceAll,
    })
}

/// A file system whose calls are recorded.
pub struct Recorder<B> {
    body: B,
    tape: Rc<Tape>,
}

impl<B> Recorder<B> {
    /// Wraps `body`, and records its changes of names and attributes on `tape`, which must observe
    /// the mount as well.
    pub const fn new(body: B, tape: Rc<Tape>) -> Self {
        Self { body, tape }
    }

    /// The tape of this mount.
    pub const fn tape(&self) -> &Rc<Tape> {
        &self.tape
    }
}

fn place(dir: Ino, name: &[u8]) -> Name {
    let name = name.to_vec();
    Name { dir, name }
}

impl<B: Body> Body for Recorder<B> {
    type Private = B::Private;

    vfs::pass_body!([|own| &own.body] wants_duplicates, is_dax, takes_write, max_size, max_links, times,
        is_read_only, is_frozen, root, evict, lookup, readlink, read_dir, last_cookie, parent, truncate, seal_end,
        end_on_medium, read_pages, reserve, write_pages, read_direct, write_direct, clones, seek,
        change, settle, sync, sync_all, unmount, get_xattr, list_xattrs, stat);

    fn refusals(&self) -> Refusals {
        self.body.refusals()
    }

    async fn load(&self, ino: Ino) -> Result<Inode<B::Private>> {
        let inode = self.body.load(ino).await?;
        self.tape.know(ino, &inode.attr.get());
        Ok(inode)
    }

    async fn create(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<B::Private>> {
        self.tape.hear();
        let inode = self.body.create(dir, name, new).await?;
        let attr = inode.attr.get();
        self.tape.know(inode.ino, &attr);
        self.tape.push(Call::Make {
            at: place(dir.ino, name),
            ino: inode.ino,
            kind: new.kind,
            owned: owned(&attr),
            rdev: new.rdev,
            target: new.target.to_vec(),
        });
        Ok(inode)
    }

    /// Fails with `EOPNOTSUPP`, as FUSE does: a recording has no call for a file without a name.
    async fn create_unnamed(&self, _: NewInode<'_>) -> Result<Inode<B::Private>> {
        Err(Errno::EOPNOTSUPP)
    }

    async fn link(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        self.tape.hear();
        self.body.link(dir, name, inode, now).await?;
        let (at, ino) = (place(dir.ino, name), inode.ino);
        self.tape.push(Call::Link { at, ino });
        Ok(())
    }

    async fn unlink(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        self.tape.hear();
        self.body.unlink(dir, name, inode, now).await?;
        self.tape.push(Call::Remove {
            at: place(dir.ino, name),
            ino: inode.ino,
            is_dir: false,
        });
        Ok(())
    }

    async fn rmdir(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        self.tape.hear();
        self.body.rmdir(dir, name, inode, now).await?;
        self.tape.push(Call::Remove {
            at: place(dir.ino, name),
            ino: inode.ino,
            is_dir: true,
        });
        Ok(())
    }

    async fn rename(&self, rename: Rename<'_, B::Private>) -> Result<()> {
        self.tape.hear();
        let call = Call::Rename {
            from: place(rename.from.ino, rename.from_name),
            to: place(rename.to.ino, rename.to_name),
            exchange: rename.exchange,
        };
        self.body.rename(rename).await?;
        self.tape.push(call);
        Ok(())
    }

    async fn store(&self, inode: &Inode<B::Private>) -> Result<()> {
        self.tape.hear();
        self.body.store(inode).await?;
        let (ino, owned) = (inode.ino, owned(&inode.attr.get()));
        let before = self.tape.owned.borrow_mut().insert(ino, owned);
        // A change of times alone is not repeated.
        if before != Some(owned) {
            self.tape.push(Call::Own { ino, owned });
        }
        Ok(())
    }

    async fn fallocate(
        &self,
        who: &Access,
        inode: &Inode<B::Private>,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let ino = inode.ino;
        self.tape.drop_resize(ino);
        let changed = self.body.fallocate(who, inode, mode, range.clone(), now);
        changed.await?;
        self.tape.push(Call::Allocate { ino, mode, range });
        Ok(())
    }

    async fn clone_range(
        &self,
        from: &Inode<B::Private>,
        span: Range<u64>,
        to: &Inode<B::Private>,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        self.body.clone_range(from, span, to, place, now).await
    }

    async fn set_xattr(
        &self,
        inode: &Inode<B::Private>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        self.tape.hear();
        self.body.set_xattr(inode, name, value, flags, now).await?;
        self.tape.push(Call::Extend {
            ino: inode.ino,
            name: name.to_vec(),
            value: Some(value.to_vec()),
        });
        Ok(())
    }

    async fn remove_xattr(
        &self,
        inode: &Inode<B::Private>,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.tape.hear();
        self.body.remove_xattr(inode, name, now).await?;
        self.tape.push(Call::Extend {
            ino: inode.ino,
            name: name.to_vec(),
            value: None,
        });
        Ok(())
    }
}
