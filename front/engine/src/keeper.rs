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
//! writes later. So the contract does not cover the death of the machine below:
//! for that the file is forced to the disk when the drive is shut down.
//!
//! # How it is kept
//!
//! A record of all that has changed ([`ssd::image::Log`]) is put at the end of
//! the file before an answer is given that promises something, and when a lot has
//! changed without one. When the log has become longer than the rest, a thread
//! writes the drive anew beside the file, while requests go on; what changed
//! meanwhile is put behind it, and it takes the file's name. A shutdown does the
//! same at once. At every instant the name stands for a whole file. A process that
//! is killed while it writes a new one leaves that behind, as `.flashloom-` and
//! some letters; it may be removed.

use crate::file::{DriveFile, FileError, write_beside};
use host::{Pm, PmWatch};
use ssd::image::{Log, Mark, Memory, Opened};
use ssd::{Drive, DriveConfig, DriveMedia};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;
use tempfile::NamedTempFile;
use units::MIB;

/// Bytes that the flash may program before they are noted without being asked
/// for: what a record takes of memory, and of the time of the request that it
/// delays.
const UNNOTED_MAX: u64 = 8 * MIB;
/// A log shorter than this is not worth a new file: reading it takes some seconds at most,
/// and the new file takes as much writing as its drive is large each time.
const LOG_MIN: u64 = 1024 * MIB;

type Written = Result<(NamedTempFile, Mark), FileError>;

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
    /// A record is missing: nothing can be promised any more.
    broken: bool,
}

/// The drive on its way to a new file.
struct Renewal {
    thread: JoinHandle<Written>,
    /// What changed since.
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
    /// If the file can not be written.
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
            broken: false,
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
    /// If the file can not be written, or once could not.
    pub fn note(&mut self) -> io::Result<()> {
        self.record(false)?;
        self.finish_renewal()?;
        if self.log.mark().offset - self.base > self.renew_after.max(self.base) {
            self.renew()?;
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
        if self.broken {
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
        self.check()?;
        let end = self.log.mark().offset;
        self.record.clear();
        self.noted = self.drive.flash_counters().program_pages;
        self.beside.tell(&mut self.log);
        let written = append(&mut self.log, &mut self.record);
        let written = written.and_then(|()| self.file.file.write_all_at(&self.record, end));
        self.broken = written.is_err();
        if self.broken {
            // The rest of a record would be taken for the end of the log too.
            let _ = self.file.file.set_len(end);
        }
        written
    }

    /// Lets a thread write the drive as it is now beside the file.
    fn renew(&mut self) -> io::Result<()> {
        if self.renewal.is_some() {
            return Ok(());
        }
        let (path, config) = (self.file.path.clone(), self.drive.config().clone());
        let media = self.drive.settled();
        let log = new_log(&self.drive, &media, Mark::default(), &self.beside);
        let memory = self.beside.left();
        let watch = match &self.beside {
            Beside::Powered(pm, _) => Some(pm.watch()),
            Beside::Nothing | Beside::AtRest(_) => None,
        };
        let thread = std::thread::Builder::new().name("renewal".to_owned());
        let write = move || write_beside(&path, &config, &media, memory.as_ref());
        let thread = thread.spawn(write)?;
        self.renewal = Some(Renewal { thread, log, watch });
        Ok(())
    }

    /// Takes the new file, if it is written.
    fn finish_renewal(&mut self) -> io::Result<()> {
        let Some(renewal) = self.renewal.take_if(|renewal| renewal.thread.is_finished()) else {
            return Ok(());
        };
        let Renewal {
            thread,
            mut log,
            watch,
        } = renewal;
        let written = thread
            .join()
            .map_err(|_| io::Error::other("a thread died"))?;
        // The old file is as good; with too little room for both it stays.
        let Ok((mut whole, mark)) = written else {
            return Ok(());
        };
        log.set_mark(mark);
        if let (Beside::Powered(_, noted), Some(watch)) = (&mut self.beside, watch) {
            *noted = watch;
        }
        self.beside.tell(&mut log);
        self.record.clear();
        log.append(&mut self.record, true)?;
        whole.as_file_mut().write_all(&self.record)?;
        self.file.replace(whole).map_err(io::Error::other)?;
        self.base = mark.offset;
        self.log = log;
        Ok(())
    }

    /// Puts the drive, which has shut down, into the file, from which the lock is taken.
    ///
    /// # Errors
    /// If the file can not be written; its log then ends with the last record.
    pub fn close(mut self, config: &DriveConfig, media: &DriveMedia) -> Result<(), FileError> {
        if let Some(renewal) = self.renewal.take() {
            drop(renewal.thread.join());
        }
        // Whoever wants to look at the drive need not wait for the new file.
        if !self.broken && self.put(Log::append_last).is_ok() {
            self.file.share()?;
        }
        let memory = match &self.beside {
            Beside::Powered(pm, _) => Some(pm.shutdown().kept()),
            Beside::Nothing | Beside::AtRest(_) => self.beside.left(),
        };
        let (whole, _) = write_beside(&self.file.path, config, media, memory.as_ref())?;
        whole.as_file().sync_all()?;
        self.file.replace(whole)
    }
}
