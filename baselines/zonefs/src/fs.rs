//! The calls.
//!
//! An order of checks is that of Linux: which of two reasons a call is refused for
//! belongs to what a program sees.

use crate::errors::{Condition, Length, OnError, after};
use crate::file::{Attributes, File, Group};
use crate::mount::{Options, who};
use crate::superblock::BLOCK;
use host::{Purpose, Who, ZonedPort};
use sim::Sim;
use ssd::{Content, ZoneAction, ZoneLimits, ZoneState, ZoneStatus};
use std::cell::{Cell, RefCell};
use units::{Extent, SECTOR};
use vfs::{Errno, Result};

/// Most bytes of one command: 1 MiB.
const AT_ONCE: usize = 256 * BLOCK;

/// What the drive refused for want of open or active zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) file: String,
    pub(crate) status: ZoneStatus,
    pub(crate) holders: Vec<u32>,
}

/// How something is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Past the cache: `O_DIRECT`.
    pub direct: bool,
    /// At the end, wherever that is: `O_APPEND`.
    pub append: bool,
}

/// A mounted file system.
pub struct ZoneFs<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) options: Options,
    pub(crate) files: [Vec<File>; 2],
    pub(crate) read_only: Cell<bool>,
    /// The last refusal.
    pub(crate) refused: RefCell<Option<Refused>>,
}

impl<P: ZonedPort> ZoneFs<P> {
    /// How many files a directory has; none has no directory.
    #[must_use]
    pub fn count(&self, group: Group) -> usize {
        self.files[group as usize].len()
    }

    pub(crate) fn group(&self, group: Group) -> &[File] {
        &self.files[group as usize]
    }

    fn file(&self, (group, number): (Group, usize)) -> Result<&File> {
        self.files[group as usize].get(number).ok_or(Errno::ENOENT)
    }

    /// What the zones of the drive allow.
    #[must_use]
    pub fn limits(&self) -> ZoneLimits {
        self.port.limits()
    }

    /// Whether a file can be read: its zone is not gone.
    #[must_use]
    pub fn is_readable(&self, name: (Group, usize)) -> bool {
        self.file(name).is_ok_and(|file| file.reads.get())
    }

    /// What `stat` says of a file.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn attributes(&self, name: (Group, usize)) -> Result<Attributes> {
        Ok(self.file(name)?.attributes())
    }

    /// Bytes of all files at most, and how many are in use.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        let files = self.files.iter().flatten();
        files.fold((0, 0), |(most, used), file| {
            (most + file.most, used + file.size.get())
        })
    }

    /// Whether nothing is written any more.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only.get()
    }

    /// The clock and the tasks it lives on.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    fn who(&self) -> Who {
        who(self.options.origin, Purpose::Data)
    }

    /// Whether a file is written through who has it open.
    fn may_write(&self, file: &File) -> Result<()> {
        if !file.writes.get() {
            return Err(Errno::EPERM);
        }
        self.is_read_write()
    }

    /// Whether a file is opened to write, cut, or given other attributes.
    fn may_change(&self, file: &File) -> Result<()> {
        self.is_read_write()?;
        match file.writes.get() {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// Whether anything is changed at all.
    ///
    /// # Errors
    /// `EROFS` if not.
    pub fn is_read_write(&self) -> Result<()> {
        match self.read_only.get() {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Sequential files that are open to write.
    pub(crate) fn open_to_write(&self) -> u32 {
        let files = self.files[Group::Sequential as usize].iter();
        files.filter(|file| file.writers.get() > 0).count() as u32
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `EROFS`; `EPERM` if it cannot be written any more; with `explicit-open` `EBUSY` if
    /// as many are open to write as the drive has open zones, or what the drive says.
    //= zonefs 6
    pub async fn open(&self, name: (Group, usize), writes: bool) -> Result<()> {
        let file = self.file(name)?;
        if !writes {
            return Ok(());
        }
        self.may_change(file)?;
        file.turn.take(1).await;
        let writers = file.writers.get();
        file.writers.set(writers + 1);
        let opened = self.open_zone(file, name, writers == 0).await;
        if opened.is_err() {
            file.writers.set(writers);
        }
        file.turn.put(1);
        opened
    }

    async fn open_zone(&self, file: &File, name: (Group, usize), first: bool) -> Result<()> {
        if !self.options.explicit_open || !file.is_sequential() || !first {
            return Ok(());
        }
        let most = self.port.limits().max_open;
        if most > 0 && self.open_to_write() > most {
            self.refuse(name, ZoneStatus::TooManyOpenZones);
            return Err(Errno::EBUSY);
        }
        if file.size.get() < file.most {
            let opened = self.port.manage(file.zone, ZoneAction::Open).await;
            opened.map_err(|status| self.refuse(name, status))?;
            file.opened.set(true);
        }
        Ok(())
    }

    /// Closes a file that was opened. If its zone cannot be closed, nothing is written
    /// any more: zones that stay open would soon be all that there are.
    //= zonefs 6
    pub async fn release(&self, name: (Group, usize), wrote: bool) {
        let Ok(file) = self.file(name) else { return };
        if !wrote {
            return;
        }
        file.turn.take(1).await;
        file.writers.set(file.writers.get().saturating_sub(1));
        if file.writers.get() == 0 && file.opened.get() {
            // One that was not written would stay active if it were closed.
            let action = match file.size.get() {
                0 => ZoneAction::Reset,
                _ => ZoneAction::Close,
            };
            if let Err(status) = self.port.manage(file.zone, action).await {
                self.failed(file, name, status, false).await;
                self.read_only
                    .set(self.read_only.get() || file.opened.get());
            } else {
                file.opened.set(false);
            }
        }
        file.turn.put(1);
    }

    /// Reads up to `len` bytes at `at`, `direct` if past the cache; fewer at the end of
    /// the file.
    ///
    /// # Errors
    /// `EPERM` if its zone is gone, `EINVAL` if a direct read is not of whole blocks, and
    /// `EIO` or `ENODATA` if the drive fails.
    pub async fn read(
        &self,
        name: (Group, usize),
        at: u64,
        len: usize,
        direct: bool,
    ) -> Result<Vec<u8>> {
        let file = self.file(name)?;
        if !file.reads.get() {
            return Err(Errno::EPERM);
        }
        let end = at.saturating_add(len as u64).min(file.size.get());
        if at >= end {
            return Ok(Vec::new());
        }
        let block = BLOCK as u64;
        if direct && !(at | end).is_multiple_of(block) {
            return Err(Errno::EINVAL);
        }
        let first = at / block * block;
        let mut bytes = vec![0; (end.next_multiple_of(block) - first) as usize];
        for (from, part) in (first..).step_by(AT_ONCE).zip(bytes.chunks_mut(AT_ONCE)) {
            let read = self.transfer(file, from, part.len());
            let mut part = part;
            if let Err(status) = self.port.read(read, &mut part, self.who()).await {
                let told = self.failed(file, name, status, false).await;
                return Err(cached(told, direct));
            }
        }
        bytes.drain(..(at - first) as usize);
        bytes.truncate((end - at) as usize);
        Ok(bytes)
    }

    fn transfer(&self, file: &File, from: u64, len: usize) -> Extent {
        Extent::new(file.start + from / SECTOR, (len as u64 / SECTOR) as u32)
    }

    /// Writes `bytes` at `at`; how many were written. A sequential file is written
    /// directly and at its end alone.
    ///
    /// # Errors
    /// `EFBIG` past the zone; `EINVAL` if a direct write is not of whole blocks or not at
    /// the end of a sequential file, or if a conventional one is appended to; `EIO` if a
    /// sequential one is not written directly; `EIO` or `ENODATA` if the drive fails;
    /// `EOVERFLOW` and `ETOOMANYREFS` if no more zones may be active or open; `EPERM` and
    /// `EROFS` if it is not written any more.
    //= zonefs 3
    pub async fn write(
        &self,
        name: (Group, usize),
        at: u64,
        bytes: &[u8],
        how: How,
    ) -> Result<usize> {
        let file = self.file(name)?;
        self.may_write(file)?;
        // Where it is appended is known when its turn comes.
        if at >= file.most && !how.append {
            return Err(Errno::EFBIG);
        }
        if file.is_sequential() && !how.direct {
            return Err(Errno::EIO);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if how.append && !file.is_sequential() {
            return Err(Errno::EINVAL);
        }
        file.turn.take(1).await;
        let written = self.write_in_turn(file, name, (at, bytes), how).await;
        file.turn.put(1);
        written.map_err(|told| cached(told, how.direct))
    }

    async fn write_in_turn(
        &self,
        file: &File,
        name: (Group, usize),
        (at, bytes): (u64, &[u8]),
        how: How,
    ) -> Result<usize> {
        // An error may have come before its turn.
        self.may_write(file)?;
        let at = if how.append { file.size.get() } else { at };
        if at >= file.most {
            return Err(Errno::EFBIG);
        }
        let len = (bytes.len() as u64).min(file.most - at);
        if how.direct && !(at | len).is_multiple_of(BLOCK as u64) {
            return Err(Errno::EINVAL);
        }
        let bytes = &bytes[..len as usize];
        if file.is_sequential() {
            self.extend(file, name, at, bytes).await?;
        } else {
            self.change(file, name, at, bytes).await?;
        }
        Ok(bytes.len())
    }

    /// Writes at the end of a sequential file.
    async fn extend(&self, file: &File, name: (Group, usize), at: u64, bytes: &[u8]) -> Result<()> {
        if at != file.size.get() {
            return Err(Errno::EINVAL);
        }
        for (from, part) in (at..).step_by(AT_ONCE).zip(bytes.chunks(AT_ONCE)) {
            let extent = self.transfer(file, from, part.len());
            let content = Content::Bytes(part);
            let written = self.port.write(extent, content, self.who(), false).await;
            if let Err(status) = written {
                return Err(self.failed(file, name, status, true).await);
            }
            file.size.set(from + part.len() as u64);
        }
        if file.size.get() == file.most {
            file.opened.set(false);
        }
        Ok(())
    }

    /// Writes a conventional file: blocks that are covered in part keep the rest.
    async fn change(&self, file: &File, name: (Group, usize), at: u64, bytes: &[u8]) -> Result<()> {
        let block = BLOCK as u64;
        let end = at + bytes.len() as u64;
        let first = at / block * block;
        let whole = (end.next_multiple_of(block) - first) as usize;
        let mut blocks = vec![0; whole];
        let edges = [first, (end - 1) / block * block];
        for (number, &edge) in edges.iter().enumerate() {
            let covered = at <= edge && end >= edge + block;
            if covered || (number == 1 && edge == first) {
                continue;
            }
            let within = (edge - first) as usize;
            let mut part = &mut blocks[within..within + BLOCK];
            let extent = self.transfer(file, edge, BLOCK);
            if let Err(status) = self.port.read(extent, &mut part, self.who()).await {
                return Err(self.failed(file, name, status, false).await);
            }
        }
        let within = (at - first) as usize;
        blocks[within..within + bytes.len()].copy_from_slice(bytes);
        for (from, part) in (first..).step_by(AT_ONCE).zip(blocks.chunks(AT_ONCE)) {
            let extent = self.transfer(file, from, part.len());
            let content = Content::Bytes(part);
            let written = self.port.write(extent, content, self.who(), false).await;
            if let Err(status) = written {
                return Err(self.failed(file, name, status, true).await);
            }
        }
        Ok(())
    }

    /// Cuts a sequential file to nothing, which resets its zone, or makes it as long as
    /// it can be, which finishes it.
    ///
    /// # Errors
    /// `EPERM` for any other size, for a conventional file, or if it is not written any
    /// more; `EROFS`; what the drive says.
    //= zonefs 4
    pub async fn truncate(&self, name: (Group, usize), size: u64) -> Result<()> {
        let file = self.file(name)?;
        self.may_change(file)?;
        let action = match size {
            _ if !file.is_sequential() => return Err(Errno::EPERM),
            0 => ZoneAction::Reset,
            size if size == file.most => ZoneAction::Finish,
            _ => return Err(Errno::EPERM),
        };
        file.turn.take(1).await;
        let cut = self.finish_or_reset(file, name, (size, action)).await;
        file.turn.put(1);
        cut
    }

    async fn finish_or_reset(
        &self,
        file: &File,
        name: (Group, usize),
        (size, action): (u64, ZoneAction),
    ) -> Result<()> {
        if size == file.size.get() {
            return Ok(());
        }
        let done = self.port.manage(file.zone, action).await;
        done.map_err(|status| self.refuse(name, status))?;
        file.size.set(size);
        if !file.opened.replace(false) || size > 0 {
            return Ok(());
        }
        // Who has it open goes on to write.
        let opened = self.port.manage(file.zone, ZoneAction::Open).await;
        opened.map_err(|status| self.refuse(name, status))?;
        file.opened.set(true);
        Ok(())
    }

    /// Makes durable what was written to all files.
    ///
    /// # Errors
    /// `EPERM` if the file is not written any more, `EIO` or `ENODATA` if the drive fails.
    pub async fn fsync(&self, name: (Group, usize)) -> Result<()> {
        let file = self.file(name)?;
        if !file.writes.get() {
            return Err(Errno::EPERM);
        }
        match self.port.flush().await {
            Ok(()) => Ok(()),
            Err(status) => Err(self.failed(file, name, status, true).await),
        }
    }

    /// Changes permissions and owners, until it is unmounted.
    ///
    /// # Errors
    /// `EPERM` if the file is not written any more, `EROFS`.
    pub fn set_attributes(
        &self,
        name: (Group, usize),
        perm: Option<u16>,
        (uid, gid): (Option<u32>, Option<u32>),
    ) -> Result<()> {
        let file = self.file(name)?;
        self.may_change(file)?;
        let owner = file.owner.get();
        file.perm
            .set(perm.map_or(file.perm.get(), |perm| perm & 0o7777));
        file.owner
            .set((uid.unwrap_or(owner.0), gid.unwrap_or(owner.1)));
        Ok(())
    }

    /// Notes who holds what the drive has too little of; the number of the error.
    fn refuse(&self, (group, number): (Group, usize), status: ZoneStatus) -> Errno {
        let holders = self.port.in_use().holders(status);
        if !holders.is_empty() {
            let file = format!("{}/{number}", group.name());
            *self.refused.borrow_mut() = Some(Refused {
                file,
                status,
                holders,
            });
        }
        errno(status)
    }

    /// After an error: asks the drive how the zone is, and does what the mount says. The
    /// number of the error.
    //= zonefs 5
    async fn failed(
        &self,
        file: &File,
        name: (Group, usize),
        status: ZoneStatus,
        writing: bool,
    ) -> Errno {
        let told = self.refuse(name, status);
        let Some((condition, written)) = self.condition(file).await else {
            self.read_only.set(true);
            return told;
        };
        let before = file.size.get();
        if !writing && condition == Condition::Good && written == before {
            return told;
        }
        let then = after(self.options.errors, condition);
        file.size.set(match then.length {
            Length::Nothing => 0,
            Length::Kept => before,
            Length::Shortened => written.min(before),
            Length::Repaired => written,
        });
        if self.options.errors == OnError::RemountReadOnly {
            self.read_only.set(true);
        }
        // What forbids the writes is then that nothing is written, and not the file.
        if then.length != Length::Shortened {
            file.allow(then.reads, then.writes);
        }
        if file.size.get() == file.most {
            file.opened.set(false);
        }
        told
    }

    /// How the zone of a file is, and how far it is written. None if the drive does not
    /// say. Conventional zones neither fail as a whole nor are they written in part.
    async fn condition(&self, file: &File) -> Option<(Condition, u64)> {
        if !file.is_sequential() {
            return Some((Condition::Good, file.most));
        }
        let report = self.port.report(file.zone, 1).await.ok()?;
        let zone = report.first()?;
        Some(match zone.state {
            // The drive does not know any more how far.
            ZoneState::ReadOnly => (Condition::ReadOnly, file.size.get()),
            ZoneState::Offline => (Condition::Offline, 0),
            _ => (Condition::Good, zone.written() * SECTOR),
        })
    }
}

/// The number of an error that Linux gives for a status: what its NVMe driver makes of
/// it (`nvme_error_status`), and the block layer of that (`blk_errors`).
const fn errno(status: ZoneStatus) -> Errno {
    match status {
        ZoneStatus::TooManyActiveZones => Errno::EOVERFLOW,
        ZoneStatus::TooManyOpenZones => Errno::ETOOMANYREFS,
        ZoneStatus::WriteFault | ZoneStatus::UnrecoveredRead | ZoneStatus::Unwritten => {
            Errno::ENODATA
        }
        _ => Errno::EIO,
    }
}

/// The number of an error behind Linux' page cache, which does not keep what a medium
/// says.
const fn cached(told: Errno, direct: bool) -> Errno {
    match told {
        Errno::ENODATA if !direct => Errno::EIO,
        told => told,
    }
}
