//! Keeps the file of a powered drive crash-consistent.
//!
//! # The contract
//!
//! The death of the process, by `kill -9` or a panic, is a power cut of the drive. The file then
//! holds a state that a power cut could leave at some instant between the last answer and the
//! death:
//!
//! - with power-loss protection it holds every acknowledged write and deallocation;
//! - without it the file holds everything acknowledged before the last acknowledged flush; later
//!   changes are there in their old or their new form.
//!
//! Persistent memory that the file keeps beside a drive loses its power at the same instant: only
//! stores that were flushed and fenced by then survive.
//!
//! The operating system writes its page cache of the file after the process has died. The contract
//! therefore does not cover a crash of the real machine, which may leave an older instant of the
//! drive. A file that replaces another one is synced before.
//!
//! # How it is kept
//!
//! [`Keeper::note`] appends a record of all changes ([`ssd::image::Log`]) to the file before a
//! durable answer is given, and whenever the flash has programmed [`UNNOTED_MAX`] bytes since the
//! last record. When the log is longer than the rest of the file, a thread writes the drive to a
//! new file beside it while requests go on. Changes since then are appended to the new file, by
//! that thread while they are larger than [`ROUND_MAX`]; then the new file takes the name. A
//! shutdown writes such a file at once. At every instant the name stands for a complete file. A new
//! file has no name before, so a killed process leaves none behind (see [`Unfinished`]).
//!
//! A record that cannot be written, for want of room say, is kept until it can be: until then
//! nothing is acknowledged as durable, and nothing is lost. The keeper gives up a new file that
//! takes the room of a record. It starts one only if there is room for it, and after a failure only
//! once the log has grown by as much again.

use crate::file::{DriveFile, FileError, write_beside};
use host::{Pm, PmWatch};
use ssd::image::{Log, Mark, Memory, Opened};
use ssd::{Drive, DriveConfig, DriveMedia};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use units::MIB;
use whole::Unfinished;

/// Bytes that the flash may program before a record is written unasked. Bounds the memory of a
/// record, and the delay of the request that waits for it.
const UNNOTED_MAX: u64 = 8 * MIB;
/// Minimum length in bytes of a log that is worth a new file: reading it takes some seconds at
/// most, and a new file takes as many writes as the drive holds.
const LOG_MIN: u64 = 1024 * MIB;
/// Bytes that must stay free beside the new file: room for the log that grows meanwhile.
const RESERVE: u64 = 64 * MIB;
/// Capacity in bytes that the record buffer keeps between records.
const RECORD_KEPT: usize = 2 * UNNOTED_MAX as usize;
/// Largest record in bytes that the engine's thread itself appends to a new file; a thread of the
/// renewal writes larger ones.
const ROUND_MAX: usize = MIB as usize;

type Written = Result<(Unfinished, Mark), FileError>;

/// Appends the changes of a drive to its file, and rewrites the file when its log is long.
pub struct Keeper {
    file: DriveFile,
    drive: Drive,
    log: Log,
    beside: Beside,
    /// Length of the file in bytes without its log.
    base: u64,
    /// Minimum log length in bytes for a rewrite; a longer base raises it.
    renew_after: u64,
    /// Pages that the flash had programmed at the last record.
    noted: u64,
    record: Vec<u8>,
    renewal: Option<Renewal>,
    /// File length from which on another rewrite may start; set after a failed one.
    renew_from: u64,
    /// File offset of the record that could not be written; none if all are written.
    unwritten: Option<u64>,
}

/// A rewrite in progress.
struct Renewal {
    thread: JoinHandle<Written>,
    since: Since,
}

/// State of a rewrite that outlives its rounds.
struct Since {
    /// Set to make the writing thread give up.
    over: Arc<AtomicBool>,
    /// Changes since the rewrite began.
    log: Log,
    watch: Option<PmWatch>,
}

/// Persistent memory that the file keeps beside the drive.
enum Beside {
    Nothing,
    /// Contents of the memory while it has no power.
    AtRest(Memory),
    /// Powered memory, and the watch that tracks its changes since the last record.
    Powered(Pm, PmWatch),
}

impl Beside {
    /// Contents that a power cut would leave.
    fn left(&self) -> Option<Memory> {
        match self {
            Self::Nothing => None,
            Self::AtRest(memory) => Some(memory.clone()),
            Self::Powered(pm, _) => Some(pm.durable().kept()),
        }
    }

    /// Adds the changes of the memory to `log`.
    fn tell(&self, log: &mut Log) {
        if let Self::Powered(pm, watch) = self {
            log.remember(pm.changed(watch));
        }
    }
}

/// A log of the drive that starts at `mark`, with the memory beside it if there is any.
fn new_log(drive: &Drive, media: &DriveMedia, mark: Mark, beside: &Beside) -> Log {
    let log = Log::new(drive, media, mark);
    match beside {
        Beside::Nothing => log,
        Beside::AtRest(_) | Beside::Powered(..) => log.with_memory(),
    }
}

impl Keeper {
    /// Takes over `file`. `opened` was read from it and `drive` made from that; the drive must be
    /// unchanged since.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(file: DriveFile, opened: &Opened, drive: &Drive) -> Result<Self, FileError> {
        // Bytes behind the last whole record are a torn record: they were never acknowledged.
        file.file.set_len(opened.end.offset)?;
        let memory = opened.memory.clone();
        let beside = memory.map_or(Beside::Nothing, Beside::AtRest);
        let mut keeper = Self {
            log: new_log(drive, &opened.media, opened.end, &beside),
            beside,
            drive: drive.clone(),
            file,
            base: opened.base.offset,
            renew_after: LOG_MIN,
            noted: 0,
            record: Vec::new(),
            renewal: None,
            renew_from: 0,
            unwritten: None,
        };
        keeper.record(true)?;
        Ok(keeper)
    }

    /// Tracks the powered memory `pm`, whose contents were read from the file. No effect if the
    /// file has no memory.
    pub fn keep_memory(&mut self, pm: &Pm) {
        if matches!(self.beside, Beside::AtRest(_)) {
            self.beside = Beside::Powered(pm.clone(), pm.watch());
        }
    }

    /// Sets the log length in bytes from which on the file is rewritten, if the log is also longer
    /// than the rest. Default: 1 GiB.
    pub fn renew_after(&mut self, bytes: u64) {
        self.renew_after = bytes;
    }

    /// Appends a record of all changes to the file, and starts or completes a rewrite if due.
    ///
    /// # Errors
    /// If this record or an earlier one that is still pending cannot be written.
    pub fn note(&mut self) -> io::Result<()> {
        self.record(false)?;
        self.finish_renewal()?;
        let end = self.log.mark().offset;
        if end - self.base > self.renew_after.max(self.base) && end >= self.renew_from {
            self.renew();
        }
        Ok(())
    }

    /// Does what [`Keeper::note`] does if the flash has programmed 8 MiB since the last record.
    ///
    /// # Errors
    /// As [`Keeper::note`].
    pub fn note_much(&mut self) -> io::Result<()> {
        let pages = self.drive.flash_counters().program_pages - self.noted;
        let bytes = pages * u64::from(self.drive.layout().geometry.page_bytes);
        if bytes < UNNOTED_MAX {
            return Ok(());
        }
        self.note()
    }

    /// Checks that no record is pending.
    ///
    /// # Errors
    /// If the last record could not be written and still waits.
    pub fn check(&self) -> io::Result<()> {
        if self.unwritten.is_some() {
            return Err(io::Error::other("a record could not be written"));
        }
        Ok(())
    }

    fn record(&mut self, always: bool) -> io::Result<()> {
        self.put(|log, record| log.append(record, always))
    }

    fn put(
        &mut self,
        append: impl FnOnce(&mut Log, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.write()?;
        let end = self.log.mark().offset;
        self.record.clear();
        self.record.shrink_to(RECORD_KEPT);
        self.noted = self.drive.flash_counters().program_pages;
        self.beside.tell(&mut self.log);
        append(&mut self.log, &mut self.record)?;
        self.unwritten = Some(end);
        self.write()
    }

    /// Writes the pending record, if there is one.
    fn write(&mut self) -> io::Result<()> {
        let Some(at) = self.unwritten else {
            return Ok(());
        };
        let mut written = self.try_write(at);
        if written.is_err() && self.give_up_renewal() {
            written = self.try_write(at);
        }
        written?;
        self.unwritten = None;
        Ok(())
    }

    fn try_write(&self, at: u64) -> io::Result<()> {
        let written = self.file.file.write_all_at(&self.record, at);
        if written.is_err() {
            // A torn record would end the log before later records.
            let _ = self.file.file.set_len(at);
        }
        written
    }

    /// Starts a rewrite of the file from the current state, if there is room.
    fn renew(&mut self) {
        if self.renewal.is_some() {
            return;
        }
        // The drive is at most as large as the records written of it.
        let end = self.log.mark().offset;
        let has_room = free(&self.file.file).is_some_and(|free| free >= end + RESERVE);
        if !has_room || self.begin_renewal().is_err() {
            self.renew_later();
        }
    }

    /// Postpones the next rewrite until the log has grown by as much again.
    fn renew_later(&mut self) {
        self.renew_from = self.log.mark().offset + self.renew_after.max(self.base);
    }

    fn begin_renewal(&mut self) -> io::Result<()> {
        let (path, config) = (self.file.path.clone(), self.drive.config().clone());
        let media = self.drive.settled();
        let log = new_log(&self.drive, &media, Mark::default(), &self.beside);
        let memory = self.beside.left();
        let watch = match &self.beside {
            Beside::Powered(pm, _) => Some(pm.watch()),
            Beside::Nothing | Beside::AtRest(_) => None,
        };
        let over = Arc::<AtomicBool>::default();
        let told = Arc::clone(&over);
        let write = move || {
            let (whole, mark) = write_beside(&path, &config, &media, memory.as_ref(), &told)?;
            whole.file().sync_data()?;
            Ok((whole, mark))
        };
        self.write_round(write, Since { over, log, watch })
    }

    /// Spawns a thread that runs `write`, one round of a rewrite.
    fn write_round(
        &mut self,
        write: impl FnOnce() -> Written + Send + 'static,
        since: Since,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("renewal".to_owned());
        let thread = thread.spawn(write)?;
        self.renewal = Some(Renewal { thread, since });
        Ok(())
    }

    /// Aborts a rewrite and frees its room; returns whether there was one.
    fn give_up_renewal(&mut self) -> bool {
        let Some(renewal) = self.renewal.take() else {
            return false;
        };
        renewal.since.over.store(true, Ordering::Relaxed);
        // Dropping the result removes the temporary file.
        drop(renewal.thread.join());
        self.renew_later();
        true
    }

    /// Replaces the file by the new one if its thread is done and few changes are left; otherwise
    /// starts another round for the changes.
    fn finish_renewal(&mut self) -> io::Result<()> {
        let Some(renewal) = self.renewal.take_if(|renewal| renewal.thread.is_finished()) else {
            return Ok(());
        };
        let Renewal { thread, mut since } = renewal;
        let written = thread
            .join()
            .map_err(|_| io::Error::other("a thread died"))?;
        // The old file stays valid, so that a failed rewrite is no error.
        let Ok((whole, mark)) = written else {
            self.renew_later();
            return Ok(());
        };
        if since.log.mark() == Mark::default() {
            since.log.set_mark(mark);
        }
        if let (Beside::Powered(pm, _), Some(watch)) = (&self.beside, &since.watch) {
            since.log.remember(pm.changed(watch));
        }
        let mut record = Vec::new();
        since.log.append(&mut record, true)?;
        if record.len() > ROUND_MAX {
            let write = move || {
                whole.file().write_all(&record)?;
                whole.file().sync_data()?;
                Ok((whole, mark))
            };
            return self.write_round(write, since);
        }
        let replaced = whole.file().write_all(&record);
        let replaced = replaced.and_then(|()| self.file.replace(whole).map_err(io::Error::other));
        if replaced.is_err() {
            self.renew_later();
            return Ok(());
        }
        if let (Beside::Powered(_, noted), Some(watch)) = (&mut self.beside, since.watch) {
            *noted = watch;
        }
        (self.base, self.log, self.renew_from) = (mark.offset, since.log, 0);
        Ok(())
    }

    /// Writes the drive after its shutdown to the file and releases the lock.
    ///
    /// # Errors
    /// If the file cannot be written; its log then ends with the last record.
    pub fn close(mut self, config: &DriveConfig, media: &DriveMedia) -> Result<(), FileError> {
        self.give_up_renewal();
        // Readers may open the drive while the new file is being written.
        if self.put(Log::append_last).is_ok() {
            self.file.share()?;
        }
        let memory = match &self.beside {
            Beside::Powered(pm, _) => Some(pm.shutdown().kept()),
            Beside::Nothing | Beside::AtRest(_) => self.beside.left(),
        };
        let over = AtomicBool::new(false);
        let (whole, _) = write_beside(&self.file.path, config, media, memory.as_ref(), &over)?;
        self.file.save_whole(whole)
    }
}

/// Free bytes in the file system of `file`; none if unknown.
fn free(file: &std::fs::File) -> Option<u64> {
    let about = rustix::fs::fstatvfs(file).ok()?;
    about.f_bavail.checked_mul(about.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Access;
    use sim::{Kernel, Seed};
    use ssd::{Content, Preset};
    use std::fs::File;
    use std::path::PathBuf;
    use tempfile::TempDir;
    use units::{Bytes, Extent, KIB, Origin, Placement};

    const PAGES: u64 = 16 * MIB / 4096;

    struct Kept {
        folder: TempDir,
        kernel: Kernel,
        drive: Drive,
        keeper: Keeper,
        expected: Vec<u8>,
    }

    impl Kept {
        fn new() -> Self {
            let folder = TempDir::new().expect("a directory");
            let path = folder.path().join("d.flash");
            let preset = (Preset::named("block").expect("a preset").config)();
            let mut config = preset.resized(Bytes(16 * MIB));
            config.flash.keep_contents = true;
            let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
            DriveFile::create(&path, &config, &media).expect("written");
            let file = DriveFile::open(&path, Access::Change).expect("it is free");
            let opened = file.load().expect("a drive");
            let kernel = Kernel::new();
            let media = opened.media.clone();
            let drive = Drive::ready(&kernel.sim(), &config, media, Seed(2)).expect("powered");
            let mut keeper = Keeper::new(file, &opened, &drive).expect("kept");
            keeper.renew_after(256 * KIB);
            let expected = vec![0; PAGES as usize];
            Self {
                folder,
                kernel,
                drive,
                keeper,
                expected,
            }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("d.flash")
        }

        /// Writes `count` pages with values that start at `seed`.
        fn write(&mut self, count: u64, seed: u8) {
            for number in 0..count {
                let (page, value) = (number * 7 % PAGES, seed.wrapping_add(number as u8));
                let drive = self.drive.clone();
                self.kernel.block_on(async move {
                    let bytes = [value; 4096];
                    let (extent, what) = (Extent::new(page * 8, 8), Content::Bytes(&bytes));
                    let written = drive.write(extent, what, Placement(0), Origin(0), false);
                    written.await.expect("written");
                });
                self.expected[page as usize] = value;
            }
        }

        /// Makes writes to the file fail, or work again.
        fn break_file(&mut self, broken: bool) {
            let file = match broken {
                true => File::open(self.path()),
                false => File::options().read(true).write(true).open(self.path()),
            };
            let file = file.expect("it is there");
            // The lock belongs to the file that was opened first, which stays open here.
            let own = std::mem::replace(&mut self.keeper.file.file, file);
            std::mem::forget(own);
        }

        /// Reads the file as after a crash of the process, and compares it with the writes so far.
        fn check(&self) {
            let file = File::open(self.path()).expect("it is there");
            let opened = ssd::image::open(&mut std::io::BufReader::new(file)).expect("a drive");
            let kernel = Kernel::new();
            let drive = Drive::ready(&kernel.sim(), &opened.config, opened.media, Seed(2));
            let drive = drive.expect("it has power");
            let first = |page: u64| {
                let mut byte = [0];
                if let Some(found) = drive.peek(page as u32) {
                    assert!(found[0].copy_to(0, &mut byte));
                }
                byte[0]
            };
            let found: Vec<u8> = (0..PAGES).map(first).collect();
            assert!(found == self.expected);
        }

        fn files(&self) -> usize {
            let files = std::fs::read_dir(self.folder.path());
            files.expect("a directory").count()
        }

        /// Waits until the thread of the rewrite has finished its round.
        fn await_thread(&self) {
            let thread = &self.keeper.renewal.as_ref().expect("it is written").thread;
            while !thread.is_finished() {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn failed_record_is_kept_and_written_later() {
        let mut kept = Kept::new();
        kept.write(20, 1);
        kept.keeper.note().expect("noted");
        kept.check();
        let before = kept.expected.clone();
        kept.break_file(true);
        kept.write(30, 2);
        for _ in 0..2 {
            assert!(kept.keeper.note().is_err() && kept.keeper.check().is_err());
        }
        let after = std::mem::replace(&mut kept.expected, before);
        kept.check();
        kept.expected = after;
        kept.break_file(false);
        kept.write(3, 3);
        kept.keeper.note().expect("noted again");
        kept.keeper.check().expect("all is there");
        kept.check();
    }

    #[test]
    fn rewrite_is_aborted_when_a_record_fails() {
        let mut kept = Kept::new();
        kept.write(200, 1);
        kept.keeper.note().expect("noted");
        assert!(kept.keeper.renewal.is_some());
        kept.break_file(true);
        kept.write(1, 2);
        assert!(kept.keeper.note().is_err());
        assert!(kept.keeper.renewal.is_none() && kept.files() == 1);
        kept.break_file(false);
        kept.keeper.note().expect("noted again");
        assert!(kept.keeper.renewal.is_none(), "not at once");
        while kept.keeper.renewal.is_none() {
            kept.write(50, 3);
            kept.keeper.note().expect("noted");
        }
        let mark = kept.keeper.log.mark();
        assert!(mark.offset >= kept.keeper.renew_from);
        kept.check();
    }

    #[test]
    fn changes_during_a_rewrite_are_appended_by_its_thread() {
        let mut kept = Kept::new();
        kept.write(200, 1);
        kept.keeper.note().expect("noted");
        kept.await_thread();
        kept.write(600, 2);
        let base = kept.keeper.base;
        kept.keeper.note().expect("noted");
        assert_eq!(kept.keeper.base, base, "there is much to be written");
        kept.await_thread();
        kept.write(5, 3);
        kept.keeper.note().expect("noted");
        assert!(kept.keeper.base != base, "it has taken its place");
        kept.check();
        kept.write(100, 4);
        kept.keeper.note().expect("noted");
        kept.check();
    }
}
