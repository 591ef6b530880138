//! The core: its state, and the calls on files.

use crate::command::{Command, FileId, Part, Refusal, Ticket};
use crate::config::{BLOCK, Options, Placement};
use crate::file::File;
use crate::flight::Flight;
use crate::log::Log;
use crate::names::{Names, PATH_MAX, checked};
use crate::reclaim::Moving;
use crate::record::Record;
use crate::sync::Sync;
use crate::zones::Zones;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The core of the file system: names, block maps and zones, and the commands to execute.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) options: Options,
    pub(crate) names: Names,
    pub(crate) files: BTreeMap<FileId, File>,
    pub(crate) next_file: u64,
    pub(crate) zones: Zones,
    pub(crate) log: Log,
    pub(crate) flights: BTreeMap<Ticket, Flight>,
    pub(crate) ready: VecDeque<(Ticket, Command)>,
    pub(crate) next_ticket: Ticket,
    /// Files that have sealed chunks, none of which is being written.
    pub(crate) waiting: VecDeque<FileId>,
    /// Files that have a buffer being filled.
    pub(crate) filled: BTreeSet<FileId>,
    /// Empty buffers, kept for reuse.
    pub(crate) spare: Vec<Vec<u8>>,
    /// Number of sealed chunks not yet written, and number of all chunks ever sealed.
    pub(crate) sealed: u32,
    pub(crate) chunks: u64,
    /// Number of calls of `write`; orders buffers by their last use.
    pub(crate) uses: u64,
    /// Number of blocks that were accepted and are still to be written.
    pub(crate) promised: u64,
    /// Room in the zones in blocks; `None` if it changed since it was last counted.
    pub(crate) room: Cell<Option<u64>>,
    pub(crate) moving: Option<Moving>,
    /// Number of zones whose data were relocated, and number of relocated blocks.
    pub(crate) moves: u64,
    pub(crate) moved_blocks: u64,
    /// Whether something changed that may allow a zone to be reclaimed.
    pub(crate) look: bool,
    /// Whether a chunk found no zone with room.
    pub(crate) starved: bool,
    pub(crate) syncs: BTreeMap<u64, Sync>,
    pub(crate) next_sync: u64,
}

/// Status of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Size in bytes, including data in memory.
    pub size: u64,
    /// Number of bytes, from the start, whose current contents are in zones; the rest is in memory
    /// or was overwritten there.
    pub stored: u64,
    /// Bytes that the file occupies in zones.
    pub allocated: u64,
    /// Placement of its next writes.
    pub placement: Placement,
    /// Number of times the file is open.
    pub opens: u32,
}

/// Counters of the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of zones whose live data were relocated.
    pub moves: u64,
    /// Number of relocated bytes.
    pub moved: u64,
    /// Number of empty zones for data.
    pub free_zones: u32,
    /// Number of snapshots, each of which restarted the log.
    pub epochs: u64,
}

impl Core {
    /// Starts every command that is possible now.
    pub(crate) fn pump(&mut self) {
        self.start_chunks();
        self.reclaim();
        self.step_log();
    }

    /// Number that tells this volume from others.
    #[must_use]
    pub fn volume(&self) -> u64 {
        self.log.volume
    }

    /// The file at a path; `None` if there is none.
    #[must_use]
    pub fn lookup(&self, path: &[u8]) -> Option<FileId> {
        self.names.get(path)
    }

    /// Status of a file; `None` if it does not exist.
    #[must_use]
    pub fn status(&self, id: FileId) -> Option<Status> {
        let file = self.files.get(&id)?;
        let mapped = file.runs.end() * BLOCK;
        Some(Status {
            size: file.size,
            stored: file.settled().min(file.size),
            allocated: mapped,
            placement: file.placement,
            opens: file.opens,
        })
    }

    /// Number of bytes that can still be written, if they come in whole blocks.
    #[must_use]
    pub fn room(&self) -> u64 {
        let room = self
            .zones
            .room(self.options.relocate, self.reserve().into());
        room.saturating_sub(self.promised) * BLOCK
    }

    /// Path of a file; `None` once it is unlinked.
    #[must_use]
    pub fn path(&self, id: FileId) -> Option<&[u8]> {
        self.files.get(&id)?.path.as_deref()
    }

    /// Names in a folder, sorted; those of folders end with a slash.
    #[must_use]
    pub fn list(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        self.names.list(folder)
    }

    /// Every file with its path, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&[u8], FileId)> {
        self.names.within(b"")
    }

    /// Counters since the volume was opened; the number of snapshots is that of its lifetime.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            moves: self.moves,
            moved: self.moved_blocks * BLOCK,
            free_zones: self.zones.free,
            epochs: self.log.epoch,
        }
    }

    /// Creates a file, which is open once.
    ///
    /// # Errors
    /// [`Refusal::Path`] if the path is invalid, [`Refusal::Exists`] if it is taken.
    pub fn create(&mut self, path: &[u8], placement: Placement) -> Result<FileId, Refusal> {
        let path = checked(path)?;
        if self.names.get(&path).is_some() {
            return Err(Refusal::Exists);
        }
        let id = FileId(self.next_file);
        self.next_file += 1;
        let mut file = File::new(path.clone(), placement);
        file.opens = 1;
        self.files.insert(id, file);
        self.note(
            &Record::Create {
                id,
                placement,
                path: &path,
            },
            Some(id),
        );
        self.names.set(path, id);
        Ok(id)
    }

    /// Sets the placement of later writes to a file. It is advice: only a later snapshot makes it
    /// durable.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    pub fn set_placement(&mut self, id: FileId, placement: Placement) -> Result<(), Refusal> {
        let file = self.files.get_mut(&id).ok_or(Refusal::Missing)?;
        file.placement = placement;
        Ok(())
    }

    /// Sets a file's tag, bytes by which the caller identifies it; it is as durable as the file's
    /// path. A tag is limited to the length of a path.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist, [`Refusal::Path`] if the tag is too long.
    pub fn set_tag(&mut self, id: FileId, tag: &[u8]) -> Result<(), Refusal> {
        let file = self.files.get_mut(&id).ok_or(Refusal::Missing)?;
        if tag.len() > PATH_MAX {
            return Err(Refusal::Path);
        }
        file.tag = tag.into();
        if file.path.is_some() {
            self.note(&Record::Tag { id, tag }, Some(id));
        }
        Ok(())
    }

    /// The tag of a file, empty if none was set; `None` if the file does not exist.
    #[must_use]
    pub fn tag(&self, id: FileId) -> Option<&[u8]> {
        self.files.get(&id).map(|file| &*file.tag)
    }

    /// Opens a file once more.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    pub fn open_file(&mut self, id: FileId) -> Result<(), Refusal> {
        let file = self.files.get_mut(&id).ok_or(Refusal::Missing)?;
        file.opens += 1;
        Ok(())
    }

    /// Closes a file once. The last close seals its buffer, or drops the file if it is unlinked.
    ///
    /// # Panics
    /// If the file is not open.
    //= dissertation 5.4.1
    pub fn close_file(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        file.opens = file.opens.checked_sub(1).expect("what is closed is open");
        if file.opens > 0 {
            return;
        }
        if file.path.is_none() {
            self.drop_file(id);
        } else {
            self.seal(id);
            self.drop_buffer(id);
        }
        self.pump();
    }

    /// Removes a file's path. Its data stay until the last close.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if there is no file at the path.
    //= dissertation 5.4.1
    pub fn unlink(&mut self, path: &[u8]) -> Result<(), Refusal> {
        let id = self.names.get(path).ok_or(Refusal::Missing)?;
        self.names.remove(path);
        self.unname(id);
        self.pump();
        Ok(())
    }

    fn unname(&mut self, id: FileId) {
        self.note(&Record::Unlink { id }, Some(id));
        let file = self.files.get_mut(&id).expect("a path leads to a file");
        file.path = None;
        if file.opens == 0 {
            self.drop_file(id);
        }
    }

    fn drop_file(&mut self, id: FileId) {
        let Some(mut file) = self.files.remove(&id) else {
            return;
        };
        self.promised -= file.owed();
        self.sealed -= file.sealed.len() as u32;
        self.filled.remove(&id);
        let runs = file.runs.cut(0);
        self.free(runs);
    }

    /// Renames a file, or all files in a folder. A file at the new path is replaced, atomically
    /// with respect to recovery.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if nothing is at `from`, [`Refusal::Path`] if `to` is invalid.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Refusal> {
        if let Some(id) = self.names.get(from) {
            let to = checked(to)?;
            self.rename_one(from, to, id);
            self.pump();
            return Ok(());
        }
        let slash = |path: &[u8]| [path, b"/"].concat();
        let (old, new) = (slash(from), slash(to));
        let moved = |path: &[u8]| checked(&[&new[..], &path[old.len()..]].concat());
        let within = self.names.within(&old);
        let all: Result<Vec<_>, Refusal> = within
            .map(|(path, id)| Ok((path.to_vec(), moved(path)?, id)))
            .collect();
        let all = all?;
        if all.is_empty() {
            return Err(Refusal::Missing);
        }
        for (from, to, id) in all {
            self.rename_one(&from, to, id);
        }
        self.pump();
        Ok(())
    }

    fn rename_one(&mut self, from: &[u8], to: Box<[u8]>, id: FileId) {
        if *from == *to {
            return;
        }
        self.names.remove(from);
        if let Some(over) = self.names.set(to.clone(), id) {
            self.unname(over);
        }
        self.note(&Record::Rename { id, path: &to }, Some(id));
        let file = self.files.get_mut(&id).expect("a path leads to a file");
        file.path = Some(to);
    }

    /// Shortens a file to `size` bytes; the same size changes nothing.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while chunks of the file are being written, [`Refusal::Demote`] if the
    /// file would become longer.
    pub fn truncate(&mut self, id: FileId, size: u64) -> Result<(), Refusal> {
        let file = self.files.get(&id).ok_or(Refusal::Missing)?;
        if size > file.size {
            return Err(Refusal::Demote(crate::Demote::Hole));
        }
        if size == file.size {
            return Ok(());
        }
        if !file.sealed.is_empty() {
            self.pump();
            return Err(self.busy_or_full());
        }
        let within = file
            .filling
            .as_ref()
            .is_some_and(|filling| filling.offset <= size);
        self.change(id, |file, _| {
            if let Some(filling) = file.filling.as_mut().filter(|_| within) {
                let len = (size - filling.offset) as usize;
                filling.bytes.truncate(len);
                filling.clean = filling.clean.min(len);
            } else {
                file.filling = None;
            }
            file.size = size;
        });
        if !within {
            self.filled.remove(&id);
        }
        self.cut_stored(id, size);
        self.pump();
        Ok(())
    }

    fn cut_stored(&mut self, id: FileId, size: u64) {
        let file = self.files.get_mut(&id).expect("it was found");
        if size >= file.stored {
            return;
        }
        file.stored = size;
        let gone = file.runs.cut(size.div_ceil(BLOCK));
        let named = file.path.is_some();
        self.free(gone);
        if named {
            self.note(&Record::Truncate { id, size }, Some(id));
        }
    }

    /// Locates `len` bytes of a file from `offset` on. The zones of the parts are not reset until
    /// the parts are passed to [`Self::release`].
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    //= dissertation 5.4.2
    pub fn read(&mut self, id: FileId, offset: u64, len: u64) -> Result<Vec<Part>, Refusal> {
        let file = self.files.get(&id).ok_or(Refusal::Missing)?;
        let parts = file.parts(offset, len);
        for part in &parts {
            if let Part::Zone(piece) = part {
                self.zones.get_mut(piece.zone).readers += 1;
            }
        }
        Ok(parts)
    }

    /// Like [`Self::read`], for all blocks of the file that are in zones; the last one is included
    /// as a whole.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if the file does not exist.
    pub fn read_stored(&mut self, id: FileId) -> Result<Vec<Part>, Refusal> {
        let file = self.files.get(&id).ok_or(Refusal::Missing)?;
        let parts: Vec<_> = file
            .runs
            .iter()
            .map(|run| Part::Zone(Self::piece(run)))
            .collect();
        for run in file.runs.iter() {
            self.zones.get_mut(run.zone).readers += 1;
        }
        Ok(parts)
    }

    /// Retains parts once more; they must be released as often as they were read and retained.
    pub fn retain(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Zone(piece) = part {
                self.zones.get_mut(piece.zone).readers += 1;
            }
        }
    }

    /// Releases parts of [`Self::read`] or [`Self::read_stored`].
    ///
    /// # Panics
    /// If the parts were already released.
    pub fn release(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Zone(piece) = part {
                let readers = &mut self.zones.get_mut(piece.zone).readers;
                *readers = readers.checked_sub(1).expect("what is released was read");
                self.look = true;
            }
        }
        if self.look {
            self.pump();
        }
    }
}
