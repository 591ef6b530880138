//! Calls on files: open, read, write, truncate, `fsync`.
//!
//! Checks run in the order of Linux, because a program sees the error of the first check that
//! fails.

use crate::errors::{Condition, Length, OnError, after};
use crate::file::{Attributes, File, Group};
use crate::mount::{Options, who};
use crate::superblock::BLOCK;
use host::{Purpose, Who, ZoneDisk, ZonedPort};
use sim::Sim;
use ssd::{Content, ZoneAction, ZoneLimits, ZoneState, ZoneStatus};
use std::cell::{Cell, RefCell};
use units::{Extent, SECTOR};
use vfs::{Errno, Result};

/// Largest command in bytes: 1 MiB.
const AT_ONCE: usize = 256 * BLOCK;

/// A command that the drive rejected for lack of open or active zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) file: String,
    pub(crate) status: ZoneStatus,
    pub(crate) holders: Vec<u32>,
}

/// Flags of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Bypasses the cache: `O_DIRECT`.
    pub direct: bool,
    /// Writes at the end of the file: `O_APPEND`.
    pub append: bool,
}

/// A mounted file system over a zoned drive.
pub struct ZoneFs {
    pub(crate) sim: Sim,
    pub(crate) port: ZoneDisk,
    pub(crate) options: Options,
    pub(crate) files: [Vec<File>; 2],
    pub(crate) read_only: Cell<bool>,
    /// The last rejection for lack of open or active zones.
    pub(crate) refused: RefCell<Option<Refused>>,
}

impl ZoneFs {
    /// Number of files in a directory; a directory without files does not exist.
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

    /// Limits of the drive on zones: numbers, sizes, open and active zones.
    #[must_use]
    pub fn limits(&self) -> ZoneLimits {
        self.port.limits()
    }

    /// Whether a file exists and can be read.
    #[must_use]
    pub fn is_readable(&self, name: (Group, usize)) -> bool {
        self.file(name).is_ok_and(|file| file.reads.get())
    }

    /// The attributes of a file, as of `stat`.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn attributes(&self, name: (Group, usize)) -> Result<Attributes> {
        Ok(self.file(name)?.attributes())
    }

    /// Capacity of all files and their total size, in bytes.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        let files = self.files.iter().flatten();
        files.fold((0, 0), |(most, used), file| {
            (most + file.most, used + file.size.get())
        })
    }

    /// Whether the whole file system is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only.get()
    }

    /// The simulation that the file system runs in.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    fn who(&self) -> Who {
        who(self.options.origin, Purpose::Data)
    }

    /// Checks that an open file may be written.
    fn may_write(&self, file: &File) -> Result<()> {
        if !file.writes.get() {
            return Err(Errno::EPERM);
        }
        self.is_read_write()
    }

    /// Checks that a file may be opened for writing, truncated, or given new attributes.
    fn may_change(&self, file: &File) -> Result<()> {
        self.is_read_write()?;
        match file.writes.get() {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// Checks that the file system accepts changes.
    ///
    /// # Errors
    /// `EROFS` if it is read-only.
    pub fn is_read_write(&self) -> Result<()> {
        match self.read_only.get() {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Number of sequential files that are open for writing.
    pub(crate) fn open_to_write(&self) -> u32 {
        let files = self.files[Group::Sequential as usize].iter();
        files.filter(|file| file.writers.get() > 0).count() as u32
    }

    /// Opens a file; only opens for writing have an effect.
    ///
    /// # Errors
    /// `ENOENT`; `EROFS`; `EPERM` if the file is not writable any more. With `explicit-open`,
    /// `EBUSY` if the drive has no open zone left for another file, or the error of the drive.
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

    /// Closes a file. If its zone cannot be closed, the file system becomes read-only: zones that
    /// stay open would soon exhaust the drive's limit.
    //= zonefs 6
    pub async fn release(&self, name: (Group, usize), wrote: bool) {
        let Ok(file) = self.file(name) else { return };
        if !wrote {
            return;
        }
        file.turn.take(1).await;
        file.writers.set(file.writers.get().saturating_sub(1));
        if file.writers.get() == 0 && file.opened.get() {
            // A zone without data would stay active after a close, so it is reset.
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

    /// Reads up to `len` bytes at `at`, around the cache if `direct`; fewer at the end of the file.
    ///
    /// # Errors
    /// `EPERM` if the file is not readable any more, `EINVAL` if a direct read is not of whole
    /// blocks, and `EIO` or `ENODATA` if the drive fails.
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

    /// Writes `bytes` at `at`; returns the number of bytes written. A sequential file accepts
    /// direct writes at its end only.
    ///
    /// # Errors
    /// `EFBIG` past the zone; `EINVAL` if a direct write is not of whole blocks or not at the end
    /// of a sequential file, or for an append to a conventional file; `EIO` for a cached write of a
    /// sequential file; `EIO` or `ENODATA` if the drive fails; `EOVERFLOW` and `ETOOMANYREFS` at
    /// the limits of active and open zones; `EPERM` and `EROFS` if the file or file system is
    /// read-only.
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
        // The offset of an append is known only under the file's turn.
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
        // An error may have changed the file while this write waited for its turn.
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

    /// Writes at the end of a sequential file, in commands of at most 1 MiB.
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

    /// Writes a conventional file; reads the blocks at the edges that are covered in part.
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

    /// Truncates a sequential file to 0, which resets its zone, or to its capacity, which finishes
    /// the zone.
    ///
    /// # Errors
    /// `EPERM` for any other size, for a conventional file, or if the file is not writable any
    /// more; `EROFS`; the error of the drive.
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
        // The file is open for writing, so its zone is opened again.
        let opened = self.port.manage(file.zone, ZoneAction::Open).await;
        opened.map_err(|status| self.refuse(name, status))?;
        file.opened.set(true);
        Ok(())
    }

    /// Flushes the drive, which makes writes of all files durable.
    ///
    /// # Errors
    /// `EPERM` if the file is not writable any more, `EIO` or `ENODATA` if the drive fails.
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

    /// Changes permissions and owners in memory, until the unmount.
    ///
    /// # Errors
    /// `EPERM` if the file is not writable any more, `EROFS`.
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

    /// Records the holders of open or active zones if the drive ran out of them; returns the error.
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

    /// Handles a failed command: reads the condition of the zone from the drive and applies the
    /// `errors=` option. Returns the error.
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
        // With a size cut short the whole file system is read-only, so the file itself keeps its
        // flags.
        if then.length != Length::Shortened {
            file.allow(then.reads, then.writes);
        }
        if file.size.get() == file.most {
            file.opened.set(false);
        }
        told
    }

    /// Condition and write position of the zone of a file; `None` if the drive does not report
    /// them. Conventional zones neither fail as a whole nor have a write position.
    async fn condition(&self, file: &File) -> Option<(Condition, u64)> {
        if !file.is_sequential() {
            return Some((Condition::Good, file.most));
        }
        let report = self.port.report(file.zone, 1).await.ok()?;
        let zone = report.first()?;
        Some(match zone.state {
            // The drive does not report the write position of a read-only zone.
            ZoneState::ReadOnly => (Condition::ReadOnly, file.size.get()),
            ZoneState::Offline => (Condition::Offline, 0),
            _ => (Condition::Good, zone.written() * SECTOR),
        })
    }
}

/// The error that Linux returns for a status: mapped by its NVMe driver (`nvme_error_status`) and
/// then by the block layer (`blk_errors`).
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

/// The error that a cached call returns: the page cache of Linux does not keep the error of the
/// medium.
const fn cached(told: Errno, direct: bool) -> Errno {
    match told {
        Errno::ENODATA if !direct => Errno::EIO,
        told => told,
    }
}
