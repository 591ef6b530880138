//! The core: its state, and the calls about files.

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

/// Files in zones: what they are called, where they are, what is to be done.
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
    /// Files with chunks of which none is under way.
    pub(crate) waiting: VecDeque<FileId>,
    /// Files with a buffer.
    pub(crate) filled: BTreeSet<FileId>,
    /// Buffers that nobody fills.
    pub(crate) spare: Vec<Vec<u8>>,
    /// Chunks that wait or are under way, and how many there have been.
    pub(crate) sealed: u32,
    pub(crate) chunks: u64,
    /// Calls of `write`.
    pub(crate) uses: u64,
    /// Blocks that are still to be written.
    pub(crate) promised: u64,
    /// What room zones have, if that has been counted since it changed.
    pub(crate) room: Cell<Option<u64>>,
    pub(crate) moving: Option<Moving>,
    /// Zones whose data were moved, and blocks.
    pub(crate) moves: u64,
    pub(crate) moved_blocks: u64,
    /// Something has changed since it was seen what can be reclaimed.
    pub(crate) look: bool,
    /// A chunk found no zone.
    pub(crate) starved: bool,
    pub(crate) syncs: BTreeMap<u64, Sync>,
    pub(crate) next_sync: u64,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Bytes.
    pub size: u64,
    /// How many of these, from the first on, are in zones as they are: the rest is in
    /// memory, or was written over there.
    pub stored: u64,
    /// Bytes that it takes in zones.
    pub allocated: u64,
    /// Where its data go.
    pub placement: Placement,
    /// How often it is open.
    pub opens: u32,
}

/// What was done so far, in zones and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Zones whose data were moved elsewhere.
    pub moves: u64,
    /// Bytes that were moved.
    pub moved: u64,
    /// Zones that are empty.
    pub free_zones: u32,
    /// How often the log began anew.
    pub epochs: u64,
}

impl Core {
    /// Does what can be done.
    pub(crate) fn pump(&mut self) {
        self.start_chunks();
        self.reclaim();
        self.step_log();
    }

    /// What tells this volume from others.
    #[must_use]
    pub fn volume(&self) -> u64 {
        self.log.volume
    }

    /// The file at a path.
    #[must_use]
    pub fn lookup(&self, path: &[u8]) -> Option<FileId> {
        self.names.get(path)
    }

    /// What is known of a file.
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

    /// Bytes that may still be written, if they come in whole blocks.
    #[must_use]
    pub fn room(&self) -> u64 {
        let room = self
            .zones
            .room(self.options.relocate, self.reserve().into());
        room.saturating_sub(self.promised) * BLOCK
    }

    /// The path of a file; none once it is unlinked.
    #[must_use]
    pub fn path(&self, id: FileId) -> Option<&[u8]> {
        self.files.get(&id)?.path.as_deref()
    }

    /// Names in a folder, sorted; folders have a slash behind them.
    #[must_use]
    pub fn list(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        self.names.list(folder)
    }

    /// All files with their paths, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&[u8], FileId)> {
        self.names.within(b"")
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            moves: self.moves,
            moved: self.moved_blocks * BLOCK,
            free_zones: self.zones.free,
            epochs: self.log.epoch,
        }
    }

    /// Makes a file, which is open then.
    ///
    /// # Errors
    /// If the path is none, or taken.
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

    /// Lets what is written to a file from now on go elsewhere. It is advice: it becomes
    /// durable with a later snapshot, if ever.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn set_placement(&mut self, id: FileId, placement: Placement) -> Result<(), Refusal> {
        let file = self.files.get_mut(&id).ok_or(Refusal::Missing)?;
        file.placement = placement;
        Ok(())
    }

    /// Notes what whoever calls knows a file by, which is as durable as its name; as many
    /// bytes as a path may have.
    ///
    /// # Errors
    /// If there is no such file, or these are more.
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

    /// What was noted of a file last; nothing if nothing was.
    #[must_use]
    pub fn tag(&self, id: FileId) -> Option<&[u8]> {
        self.files.get(&id).map(|file| &*file.tag)
    }

    /// Opens a file once more.
    ///
    /// # Errors
    /// If there is none.
    pub fn open_file(&mut self, id: FileId) -> Result<(), Refusal> {
        let file = self.files.get_mut(&id).ok_or(Refusal::Missing)?;
        file.opens += 1;
        Ok(())
    }

    /// Closes a file once. After the last time what is in its buffer goes to the zones,
    /// and it goes away if it is unlinked.
    ///
    /// # Panics
    /// If it is not open.
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

    /// Removes a file's path. Its data stay until it is closed.
    ///
    /// # Errors
    /// If there is no such path.
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

    /// Gives a file, or all files in a folder, another path. What was at the new path of a
    /// file is gone, at the same moment to whoever recovers.
    ///
    /// # Errors
    /// If there is nothing at `from`, or `to` cannot be a path.
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

    /// Makes a file shorter, or leaves it as it is.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while chunks of it are under way; [`Refusal::Demote`] if it would
    /// become longer.
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

    /// Where bytes of a file are. Their zones stay as they are until the parts are given
    /// back by [`Self::release`].
    ///
    /// # Errors
    /// If there is no such file.
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

    /// As [`Self::read`], of what zones hold, up to the end of the last block.
    ///
    /// # Errors
    /// If there is no such file.
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

    /// Has once more what [`Self::read`] gave and has not back yet: it is given back as often.
    pub fn retain(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Zone(piece) = part {
                self.zones.get_mut(piece.zone).readers += 1;
            }
        }
    }

    /// Gives back what [`Self::read`] gave.
    ///
    /// # Panics
    /// If it did not.
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
