//! The file of a drive under power: what survives the process.
//!
//! # The contract
//!
//! The death of the process, by `kill -9` or a panic, is a power cut of the
//! drive. Its file then holds the drive as a cut may leave it at some instant
//! between the last answer and the death:
//!
//! - with power-loss protection every write and every deallocation that was
//!   answered is there;
//! - without it everything is there that was answered before a flush that was
//!   answered; what came later is there in its old or its new form.
//!
//! Memory of a host that the file keeps beside a drive loses its power at the same instant:
//! what was flushed and fenced by then is there, and nothing else.
//!
//! Whatever the operating system holds for the file when the process dies it
//! writes later. So the contract does not cover the death of the machine below,
//! which leaves an older instant of the drive: a file that takes the place of another is
//! forced to the disk before.
//!
//! # How it is kept
//!
//! A record of all that has changed ([`ssd::image::Log`]) is put at the end of
//! the file before an answer is given that promises something, and when a lot has
//! changed without one. When the log has become longer than the rest, a thread
//! writes the drive anew beside the file, while requests go on; what changed
//! meanwhile is put behind it, by that thread as long as it is much, and it takes the file's
//! name. A shutdown does the same at once. At every instant the name stands for a whole file. A new
//! file has no name before, so a process that is killed leaves none behind (see [`Unfinished`]).
//!
//! A record that cannot be written, for want of room say, is kept until it can be: nothing is
//! promised before that, and nothing is lost. A new file that takes the room is given up for
//! it; one is not begun without room for it, and after one that failed not before the log has
//! grown by as much again.

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

/// Bytes that the flash may program before they are noted without being asked
/// for: what a record takes of memory, and of the time of the request that it
/// delays.
const UNNOTED_MAX: u64 = 8 * MIB;
/// A log shorter than this is not worth a new file: reading it takes some seconds at most,
/// and the new file takes as much writing as its drive is large each time.
const LOG_MIN: u64 = 1024 * MIB;
/// Bytes that must be free beside those of a new file: what the log takes while it is written.
const RESERVE: u64 = 64 * MIB;
/// Bytes of a record that may be kept when it is written.
const RECORD_KEPT: usize = 2 * UNNOTED_MAX as usize;
/// What is written to a new file at once by who takes it; more is written by its thread.
const ROUND_MAX: usize = MIB as usize;

type Written = Result<(Unfinished, Mark), FileError>;

/// Keeps the file of a drive.
pub struct Keeper {
    file: DriveFile,
    drive: Drive,
    log: Log,
    beside: Beside,
    /// Where the file ends without its log.
    base: u64,
    /// Bytes of log, if the rest is shorter, after which the file is written anew.
    renew_after: u64,
    /// Pages that the flash had programmed at the last record.
    noted: u64,
    record: Vec<u8>,
    renewal: Option<Renewal>,
    /// Where the file ends from which on it may be written anew again.
    renew_from: u64,
    /// Where the record belongs that could not be written; none if all are there.
    unwritten: Option<u64>,
}

/// The drive on its way to a new file.
struct Renewal {
    thread: JoinHandle<Written>,
    since: Since,
}

/// What belongs to a new file, in whichever round it is written.
struct Since {
    /// Tells its thread to give up.
    over: Arc<AtomicBool>,
    /// What changed since it was begun.
    log: Log,
    watch: Option<PmWatch>,
}

/// What the file keeps beside the drive.
enum Beside {
    Nothing,
    /// Memory that has no power.
    AtRest(Memory),
    /// Memory under power, and which of it is to be noted.
    Powered(Pm, PmWatch),
}

impl Beside {
    /// As a power cut leaves it.
    fn left(&self) -> Option<Memory> {
        match self {
            Self::Nothing => None,
            Self::AtRest(memory) => Some(memory.clone()),
            Self::Powered(pm, _) => Some(pm.durable().kept()),
        }
    }

    /// Tells `log` what has changed.
    fn tell(&self, log: &mut Log) {
        if let Self::Powered(pm, watch) = self {
            log.remember(pm.changed(watch));
        }
    }
}

/// A log of the drive, and of memory beside it.
fn new_log(drive: &Drive, media: &DriveMedia, mark: Mark, beside: &Beside) -> Log {
    let log = Log::new(drive, media, mark);
    match beside {
        Beside::Nothing => log,
        Beside::AtRest(_) | Beside::Powered(..) => log.with_memory(),
    }
}

impl Keeper {
    /// Keeps `file`, of which `opened` was read and `drive` was made; nothing has
    /// happened to the drive since.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(file: DriveFile, opened: &Opened, drive: &Drive) -> Result<Self, FileError> {
        // What follows the last whole record never was.
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

    /// Keeps the memory beside the drive, which has the bytes of the file's and power from
    /// now on.
    pub fn keep_memory(&mut self, pm: &Pm) {
        if matches!(self.beside, Beside::AtRest(_)) {
            self.beside = Beside::Powered(pm.clone(), pm.watch());
        }
    }

    /// Writes the file anew when its log has `bytes` and is longer than the rest.
    pub fn renew_after(&mut self, bytes: u64) {
        self.renew_after = bytes;
    }

    /// Puts what has changed into the file.
    ///
    /// # Errors
    /// If the file cannot be written, or once could not.
    pub fn note(&mut self) -> io::Result<()> {
        self.record(false)?;
        self.finish_renewal()?;
        let end = self.log.mark().offset;
        if end - self.base > self.renew_after.max(self.base) && end >= self.renew_from {
            self.renew();
        }
        Ok(())
    }

    /// Does so if the flash has programmed a lot since.
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

    /// Whether every record is there.
    ///
    /// # Errors
    /// If one could not be written.
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

    /// Writes the record that is not there yet, if there is one.
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
            // The rest of a record would be taken for the end of the log too.
            let _ = self.file.file.set_len(at);
        }
        written
    }

    /// Lets a thread write the drive as it is now beside the file, if there is room.
    fn renew(&mut self) {
        if self.renewal.is_some() {
            return;
        }
        // The drive is not larger than what was written of it.
        let end = self.log.mark().offset;
        let has_room = free(&self.file.file).is_some_and(|free| free >= end + RESERVE);
        if !has_room || self.begin_renewal().is_err() {
            self.renew_later();
        }
    }

    /// The file stays as it is for some time.
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

    /// Has a thread write a round of a new file.
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

    /// Gives the room of a new file back; whether there was one.
    fn give_up_renewal(&mut self) -> bool {
        let Some(renewal) = self.renewal.take() else {
            return false;
        };
        renewal.since.over.store(true, Ordering::Relaxed);
        // What it has written is removed when it is dropped.
        drop(renewal.thread.join());
        self.renew_later();
        true
    }

    /// Takes the new file, if it is written and little has changed since; otherwise its thread
    /// writes what has.
    fn finish_renewal(&mut self) -> io::Result<()> {
        let Some(renewal) = self.renewal.take_if(|renewal| renewal.thread.is_finished()) else {
            return Ok(());
        };
        let Renewal { thread, mut since } = renewal;
        let written = thread
            .join()
            .map_err(|_| io::Error::other("a thread died"))?;
        // The old file is as good; with too little room for both it stays.
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

    /// Puts the drive, which has shut down, into the file, from which the lock is taken.
    ///
    /// # Errors
    /// If the file cannot be written; its log then ends with the last record.
    pub fn close(mut self, config: &DriveConfig, media: &DriveMedia) -> Result<(), FileError> {
        self.give_up_renewal();
        // Whoever wants to look at the drive need not wait for the new file.
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

/// Bytes that are free where a file is; none if that is not known.
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

        /// Writes so many pages.
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

        /// Lets the file take no writes, or take them again.
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

        /// What a process that dies now leaves.
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

        /// Waits until the thread of a new file is done with its part.
        fn await_thread(&self) {
            let thread = &self.keeper.renewal.as_ref().expect("it is written").thread;
            while !thread.is_finished() {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_record_that_could_not_be_written_is_kept_until_it_can_be() {
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
    fn a_new_file_is_given_up_when_a_record_has_no_room() {
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
    fn what_changes_while_a_file_is_written_anew_is_written_by_its_thread() {
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
